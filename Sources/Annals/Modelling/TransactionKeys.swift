// The notes of a transaction that writes values of a program's types: validation failures, and the keys under which its
// own objects are found.
//
// Invariants:
// TK1  Once it is up to date, an index of own changes has every object that the transaction has written, under its
//      present key. See OI2 for other entries.

/// The notes of one transaction.
final class EntityNotes: TransactionAttachment {
    private var failures: [ValidationFailure] = []
    var lastBinding: LastBinding?
    /// The entities whose derived attributes are all computed again.
    var refreshed: Set<UInt16> = []
    /// The own changes under the keys of the store's indexes, for indexes that were searched.
    fileprivate var indexes: [IndexID: TransactionIndex] = [:]

    override var failure: StoreError? { failures.isEmpty ? nil : .validationFailed(failures) }

    func add(_ more: [ValidationFailure]) { failures += more }
}

/// An index of one transaction's writes.
private final class TransactionIndex {
    var entries = OwnIndex()
    /// The number of the transaction's writes that are in it.
    var seen = 0
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

    /// The same for failures that were found before the object was written.
    func noteFailures(_ failures: [ValidationFailure], of object: ObjectID) {
        noteFailures(failures.map { $0.of(object) })
    }

    // MARK: Own changes

    /// This transaction's writes, under the keys of an index (TK1). Linear in the writes since the last call; the first
    /// call in all writes.
    func ownIndex(_ index: IndexID, _ layout: RowLayout) throws(StoreError) -> OwnIndex {
        let (notes, draft) = (notes, draft)
        let own: TransactionIndex
        if let known = notes.indexes[index] {
            own = known
        } else {
            own = TransactionIndex()
            draft.noteWritten()
            try draft.forEachOwnRow(of: layout.number) { (object, row) throws(StoreError) in
                for key in try ownKeys(of: row, index, layout) { own.entries.add(object, key) }
                return true
            }
            own.seen = draft.written?.count ?? 0
            notes.indexes[index] = own
        }
        while let written = draft.written, own.seen < written.count {
            let object = written[own.seen]
            own.seen += 1
            guard object.entityNumber == layout.number else { continue }
            _ = try draft.withRow(object) { (row) throws(StoreError) in
                for key in try ownKeys(of: row, index, layout) { own.entries.add(object, key) }
            }
        }
        return own.entries
    }

    private func ownKeys(of row: RowImage, _ index: IndexID, _ layout: RowLayout) throws(StoreError) -> [[UInt8]] {
        try index.ownKeys(try values(of: row, index, layout), layout)
    }

    // MARK: Upserting

    /// Inserts an object, or updates the one that has the same value of a unique property, or of several that are
    /// unique together. All properties get the values given: those that the program left at their initial values are
    /// reset. Use `upsert(_:updating:)` to keep them.
    ///
    /// Throws `StoreError`: `invalidArgument` if the entity has nothing unique; and as `insert(_:)`.
    ///
    /// - Returns: The reference of the object, new or not.
    @discardableResult
    public func upsert<E: Entity>(_ value: E) throws -> Reference<E> { try upsert(value, slots: nil) }

    /// Inserts an object, or sets some properties of the one that has the same value of a unique property, or of
    /// several that are unique together. A new object gets all properties of the value. An existing one keeps those
    /// that are not named; derived properties follow.
    ///
    /// ```swift
    /// try transaction.upsert(Item(name: name, url: url), updating: [\.url])  // and keeps what was read of it
    /// ```
    ///
    /// - Parameters:
    ///   - value: The object.
    ///   - properties: The properties that an existing object gets. With none, an existing object does not change.
    ///
    /// Throws `StoreError`: `invalidArgument` if the entity has no unique property, or a path leads to no stored
    /// property; and as `insert(_:)`.
    ///
    /// - Returns: The reference of the object, new or not.
    @discardableResult
    public func upsert<E: Entity>(
        _ value: E, updating properties: [any PartialKeyPath<E> & Sendable]
    ) throws -> Reference<E> { try upsert(value, slots: try slots(properties)) }

    /// The slots of properties that an upsert sets.
    func slots<E: Entity>(_ properties: [any PartialKeyPath<E> & Sendable]) throws(StoreError) -> [Int] {
        let (binding, _) = try binding(E.self)
        var slots: [Int] = []
        for path in properties { slots.append(try binding.requireProperty(path, for: "updated in")) }
        return slots
    }

    /// - Parameter slots: The properties that an existing object gets; nil for all.
    func upsert<E: Entity>(_ value: E, slots: [Int]?) throws -> Reference<E> {
        let (binding, layout) = try binding(E.self)
        let indexes = uniqueIndexes(of: layout)
        guard !indexes.isEmpty else {
            throw StoreError(
                .invalidArgument,
                "“\(binding.model.name)” has no unique property to find an object by: insert the object, or add "
                    + ".unique.",
                ObjectFacts(binding.model.name))
        }
        var value = value
        for index in indexes {
            let key = try withUnsafeMutablePointer(to: &value) { (value) throws(StoreError) in
                // Derived properties may be part of a key.
                binding.model.rules.derive(UnsafeMutableRawPointer(value))
                return try binding.key(of: UnsafeRawPointer(value), index, layout)
            }
            guard let key, let object = try existing(index, key, layout) else { continue }
            let reference = Reference<E>(object, of: binding.storeMark)
            guard let slots else {
                _ = try write(&value, to: object, binding, layout)
                return reference
            }
            if slots.isEmpty { return reference }
            return try copy(slots, of: value, to: reference, binding, layout)
        }
        return try insert(value)
    }

    private func copy<E: Entity>(
        _ slots: [Int], of value: E, to reference: Reference<E>, _ binding: EntityBinding, _ layout: RowLayout
    ) throws -> Reference<E> {
        guard var merged = try valueToChange(reference, binding, layout) else { return reference }
        let read = merged
        withUnsafePointer(to: value) { value in
            withUnsafeMutablePointer(to: &merged) { merged in
                for slot in slots {
                    let (codec, offset) = (binding.properties[slot].codec, binding.properties[slot].offset)
                    codec.copy(UnsafeRawPointer(value) + offset, to: UnsafeMutableRawPointer(merged) + offset)
                }
            }
        }
        _ = try write(&merged, to: reference.id, binding, layout, asRead: read)
        return reference
    }

    private func uniqueIndexes(of layout: RowLayout) -> [IndexID] {
        draft.shape.indexes(of: layout.number).map { draft.shape.indexes[$0].id }.filter(\.isUnique)
    }

    /// The object that has a key for this transaction.
    private func existing(
        _ index: IndexID, _ key: [UInt8], _ layout: RowLayout
    ) throws(StoreError) -> ObjectID? {
        var own: ObjectID?
        let known = try ownIndex(index, layout)
        try known.forEach(KeyRange(key)) { (object) throws(StoreError) in
            if try ownKey(of: object, index, layout) == key { own = object }
        }
        if let own { return own }
        guard let before = try draft.holderInBase(of: key, index) else { return nil }
        // The object may have another key now.
        return try ownKey(of: before, index, layout) == key ? before : nil
    }

    private func ownKey(of object: ObjectID, _ index: IndexID, _ layout: RowLayout) throws(StoreError) -> [UInt8]? {
        var key: [UInt8]?
        _ = try draft.withRow(object) { (row) throws(StoreError) in key = try self.key(of: row, index, layout) }
        return key
    }

    private func key(of row: RowImage, _ index: IndexID, _ layout: RowLayout) throws(StoreError) -> [UInt8]? {
        try index.key(try values(of: row, index, layout), layout)
    }

    private func values(
        of row: RowImage, _ index: IndexID, _ layout: RowLayout
    ) throws(StoreError) -> [StoredValue] {
        var values: [StoredValue] = []
        for number in index.attributes {
            if let place = row.layout.position(ofAttribute: number) {
                values.append(try draft.value(row, at: place))
            } else if let attribute = layout.attribute(number) {
                values.append(attribute.valueBeforeItExisted)
            }
        }
        return values
    }
}

extension IndexID {
    /// The key of these values as the index keeps it; nil if one is null, because then it conflicts with no other.
    func key(_ values: [StoredValue], _ layout: RowLayout) throws(StoreError) -> [UInt8]? {
        let types = attributes.compactMap { layout.attribute($0)?.type }
        guard values.count == attributes.count, types.count == values.count else { return nil }
        var writer = ByteWriter(capacity: 128)
        if try IndexKey.append(values: values, types: types, to: &writer) { return nil }
        return Array(writer.bytes)
    }
}

extension EntityBinding {
    /// The key that a value would have in an index; nil if a part of it is null or no property of the type.
    func key(of value: UnsafeRawPointer, _ index: IndexID, _ layout: RowLayout) throws(StoreError) -> [UInt8]? {
        guard let values = try values(of: value, index) else { return nil }
        return try index.key(values, layout)
    }

    /// The values of an index's attributes in a value; nil if one of them is no property of the type.
    func values(of value: UnsafeRawPointer, _ index: IndexID) throws(StoreError) -> [StoredValue]? {
        var values: [StoredValue] = []
        for number in index.attributes {
            guard let place = attributes.firstIndex(of: number) else { return nil }
            values.append(try self.value(of: value, place).storedValue())
        }
        return values
    }
}
