// What a transaction that writes values of a program's types notes: what is not valid, and under which unique keys
// its objects stand.
//
// Invariants:
// TK1  A note only says where to look: who uses one compares the object's present key.

/// The notes of one transaction.
final class EntityNotes: TransactionAttachment {
    private var failures: [ValidationFailure] = []
    var lastBinding: LastBinding?
    /// The entities whose derived attributes are all worked out anew.
    var refreshed: Set<UInt16> = []
    /// By index: the objects of this transaction by their keys. Only for entities that were upserted.
    private var keys: [IndexID: [[UInt8]: ObjectID]] = [:]

    override var failure: StoreError? { failures.isEmpty ? nil : .validationFailed(failures) }

    func add(_ more: [ValidationFailure]) { failures += more }

    var hasKeys: Bool { !keys.isEmpty }
    func has(_ index: IndexID) -> Bool { keys[index] != nil }
    func begin(_ index: IndexID) { keys[index] = [:] }
    func object(_ index: IndexID, _ key: [UInt8]) -> ObjectID? { keys[index]?[key] }
    func note(_ object: ObjectID, _ index: IndexID, _ key: [UInt8]) { keys[index]?[key] = object }
}

extension Transaction {
    /// Nothing else is ever attached to a transaction.
    var notesIfAny: EntityNotes? { attachment.map { unsafeDowncast($0, to: EntityNotes.self) } }

    var notes: EntityNotes {
        if let notes = notesIfAny { return notes }
        let notes = EntityNotes()
        attachment = notes
        return notes
    }

    func noteFailures(_ failures: [ValidationFailure]) {
        if !failures.isEmpty { notes.add(failures) }
    }

    /// After an object was written, for later upserts.
    func note(_ object: ObjectID, _ binding: EntityBinding, _ layout: RowLayout) {
        guard let notes = notesIfAny, notes.hasKeys else { return }
        for index in uniqueIndexes(of: layout) where notes.has(index) {
            // A key that cannot be read is one that no upsert finds.
            if let key = try? ownKey(of: object, index, layout) { notes.note(object, index, key) }
        }
    }

    // MARK: Upserting

    /// Inserts an object, or updates the one that has the same value of a unique property, or of several that are
    /// unique together. All properties get the values given.
    ///
    /// Throws `StoreError`: `invalidArgument` if the entity has nothing unique; and as `insert(_:)`.
    ///
    /// - Returns: The reference of the object, new or not.
    @discardableResult
    public func upsert<E: Entity>(_ value: E) throws -> Reference<E> {
        let (binding, layout) = try binding(E.self)
        let indexes = uniqueIndexes(of: layout)
        guard !indexes.isEmpty else {
            throw StoreError(
                .invalidArgument,
                "“\(binding.model.name)” has no unique property to find an object by: insert, or add .unique.",
                ObjectFacts(binding.model.name))
        }
        var value = value
        for index in indexes {
            let key = try withUnsafeMutablePointer(to: &value) { (value) throws(StoreError) in
                // What is derived may be part of a key.
                binding.model.rules.derive(UnsafeMutableRawPointer(value))
                return try binding.key(of: UnsafeRawPointer(value), index, layout)
            }
            guard let key, let object = try existing(index, key, layout) else { continue }
            _ = try write(&value, to: object, binding, layout)
            return Reference(object)
        }
        return try insert(value)
    }

    private func uniqueIndexes(of layout: RowLayout) -> [IndexID] {
        draft.shape.indexes(of: layout.number).map { draft.shape.indexes[$0].id }.filter(\.isUnique)
    }

    /// The object that has a key for this transaction.
    private func existing(
        _ index: IndexID, _ key: [UInt8], _ layout: RowLayout
    ) throws(StoreError) -> ObjectID? {
        let notes = notes
        if !notes.has(index) {
            notes.begin(index)
            // What was written before the first upsert.
            try draft.forEachOwnRow(of: layout.number) { (object, row) throws(StoreError) in
                if let key = try self.key(of: row, index, layout) { notes.note(object, index, key) }
                return true
            }
        }
        if let own = notes.object(index, key), try ownKey(of: own, index, layout) == key { return own }
        guard draft.base.hasIndex(index), let before = try draft.base.first(index, key: key) else { return nil }
        // It may have another key by now.
        return try ownKey(of: before, index, layout) == key ? before : nil
    }

    private func ownKey(of object: ObjectID, _ index: IndexID, _ layout: RowLayout) throws(StoreError) -> [UInt8]? {
        var key: [UInt8]?
        _ = try draft.withRow(object) { (row) throws(StoreError) in key = try self.key(of: row, index, layout) }
        return key
    }

    private func key(of row: RowImage, _ index: IndexID, _ layout: RowLayout) throws(StoreError) -> [UInt8]? {
        var values: [StoredValue] = []
        for number in index.attributes {
            if let place = row.layout.position(ofAttribute: number) {
                values.append(try draft.value(row, at: place))
            } else if let attribute = layout.entity.attributes.first(where: { $0.number == number }) {
                values.append(attribute.valueBeforeItExisted)
            }
        }
        return try index.key(values, layout)
    }
}

extension IndexID {
    /// The key of these values as the index keeps it; nil if one is null, because then it conflicts with no other.
    func key(_ values: [StoredValue], _ layout: RowLayout) throws(StoreError) -> [UInt8]? {
        let types = attributes.compactMap { number in layout.entity.attributes.first { $0.number == number }?.type }
        guard values.count == attributes.count, types.count == values.count else { return nil }
        var writer = ByteWriter(capacity: 128)
        if try IndexKey.append(values: values, types: types, to: &writer) { return nil }
        return Array(writer.bytes)
    }
}

extension EntityBinding {
    /// The key that a value would have in an index; nil if a part of it is null or no property of the type.
    func key(of value: UnsafeRawPointer, _ index: IndexID, _ layout: RowLayout) throws(StoreError) -> [UInt8]? {
        var values: [StoredValue] = []
        for number in index.attributes {
            guard let position = layout.position(ofAttribute: number),
                let place = properties.indices.first(where: { self.position(of: $0) == position })
            else { return nil }
            values.append(try self.value(of: value, place).storedValue())
        }
        return try index.key(values, layout)
    }
}
