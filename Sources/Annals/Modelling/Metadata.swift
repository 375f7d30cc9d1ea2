// Small values that belong to a store as a whole: settings of a group of programs, and a record of its migrations.
//
// Invariants:
// MD1  There is one record for each key. Its value is JSON, the same text for equal values.

internal import FoundationEssentials

extension ReservedEntity {
    /// The store's metadata.
    static let metadata = ReservedEntity(
        "metadata",
        attributes: [
            AttributeDescription("key", .string, isOptional: false, isUnique: true),
            AttributeDescription("value", .json, isOptional: false),
        ])

    /// The prefix of the library's own keys.
    static let ownKeyPrefix = "_annals."
}

extension Snapshot {
    /// A value of the store's metadata; nil if the key is not set.
    ///
    /// Throws `StoreError`: `typeMismatch` if the value cannot be decoded as the type, `damaged`, `closed`.
    public func metadata<T: Decodable>(_ key: String, as type: T.Type) throws -> T? {
        try metadataText(key).map { try decoded($0, of: key) }
    }

    fileprivate func decoded<T: Decodable>(_ text: String, of key: String) throws -> T {
        do {
            return try CanonicalJSON.decoder(of: mark).decode(T.self, from: Data(text.utf8))
        } catch {
            throw StoreError(
                .typeMismatch, "The metadata under “\(key)” is not a \(T.self): read it with its stored type.")
        }
    }

    /// The keys of the store's metadata, sorted. Throws `StoreError`: `damaged`, `closed`.
    public var metadataKeys: [String] {
        get throws { try allMetadataKeys().filter { !$0.hasPrefix(ReservedEntity.ownKeyPrefix) }.inOrder() }
    }

    func allMetadataKeys() throws(StoreError) -> [String] {
        try engine.log.process.requireOwn(path: engine.log.path)
        guard let handle = try ReservedEntity.handle(ReservedEntity.metadata, view.catalog) else { return [] }
        var keys: [String] = []
        try view.scan(entity: handle.number) { (object, row) throws(StoreError) in
            if let key = try row.value(0, object, view, handle.layout).string { keys.append(key) }
            return true
        }
        return keys
    }

    private func metadataText(_ key: String) throws(StoreError) -> String? {
        guard let handle = try ReservedEntity.handle(ReservedEntity.metadata, view.catalog),
            let object = try metadataObject(key, handle)
        else { return nil }
        var text: String?
        _ = try view.withRow(object) { (row) throws(StoreError) in
            text = try row.value(1, object, view, handle.layout).json
        }
        return text
    }

    fileprivate func metadataObject(_ key: String, _ handle: EntityHandle) throws(StoreError) -> ObjectID? {
        guard let number = view.shape.indexes(of: handle.number).first else { return nil }
        var found: ObjectID?
        let index = view.shape.indexes[number]
        let ends = try IndexRange(index, handle.layout, .including([.string(key)]), .including([.string(key)]))
        try view.range(number, ends.keys) { (object, row) throws(StoreError) in
            if try ends.contains(row, view) { found = object }
            return found == nil
        }
        return found
    }
}

extension Transaction {
    /// A value of the store's metadata, with this transaction's changes; nil if the key is not set. Throws as
    /// `Snapshot.metadata`.
    public func metadata<T: Decodable>(_ key: String, as type: T.Type) throws -> T? {
        let draft = draft
        guard let number = draft.catalog.number(ofEntity: ReservedEntity.metadata.name),
            let layout = draft.newestLayout(number), let object = try metadataObject(key, layout)
        else { return nil }
        var text: String?
        try draft.forEachOwnRow(of: number) { (own, row) throws(StoreError) in
            guard own == object else { return true }
            if case .json(let set) = try draft.value(row, at: 1) { text = set }
            return false
        }
        return try text.map { try snapshot.decoded($0, of: key) } ?? snapshot.metadata(key, as: type)
    }

    /// Sets a value of the store's metadata, or removes it if the value is nil. The value is stored as JSON.
    ///
    /// Metadata is for small values that all programs of a group share. It belongs to the transaction: other processes
    /// see it with the transaction's signal, and never without its other changes. It is not part of history, and is not
    /// exported. Stores that are opened with types as `entities:` can have metadata.
    ///
    /// Throws `StoreError`: `invalidArgument` if the key is empty or begins with “_annals.”, if the value cannot be
    /// encoded, or if the store has no place for metadata.
    public func setMetadata<T: Encodable>(_ value: T?, for key: String) throws {
        guard !key.isEmpty, !key.hasPrefix(ReservedEntity.ownKeyPrefix) else {
            throw StoreError(
                .invalidArgument, "A key of metadata must not be empty or begin with “_annals.”: choose another key.")
        }
        try setOwnMetadata(value, for: key)
    }

    func setOwnMetadata<T: Encodable>(_ value: T?, for key: String) throws(StoreError) {
        let draft = draft
        guard let number = draft.catalog.number(ofEntity: ReservedEntity.metadata.name),
            let layout = draft.newestLayout(number)
        else {
            throw StoreError(
                .invalidArgument,
                "The store has no place for metadata yet: open it once for writing with types as `entities:`.")
        }
        var text: String?
        if let value {
            do {
                text = try CanonicalJSON.text(value)
            } catch {
                throw StoreError(
                    .invalidArgument, "The metadata under “\(key)” cannot be encoded: \(StoreError.sentence(error))")
            }
        }
        let object = try metadataObject(key, layout)
        switch (object, text) {
        case (let object?, let text?): try draft.update(object, [(1, .json(text))])
        case (let object?, nil): try draft.delete(object)
        case (nil, let text?): _ = try draft.insert(entity: number, [.string(key), .json(text)])
        case (nil, nil): return
        }
    }

    /// The record of a key (MD1) as this transaction sees it.
    private func metadataObject(_ key: String, _ layout: RowLayout) throws(StoreError) -> ObjectID? {
        let draft = draft
        var found: ObjectID?
        try draft.forEachOwnRow(of: layout.number) { (object, row) throws(StoreError) in
            if case .string(key) = try draft.value(row, at: 0) { found = object }
            return found == nil
        }
        if let found { return found }
        guard let handle = try ReservedEntity.handle(ReservedEntity.metadata, draft.base.catalog),
            let before = try snapshot.metadataObject(key, handle), !draft.isChangedHere(before)
        else { return nil }
        return before
    }
}

extension Store {
    /// A value of the store's metadata in the newest state. See `Snapshot.metadata`.
    public func metadata<T: Decodable>(_ key: String, as type: T.Type) throws -> T? {
        try snapshot().metadata(key, as: type)
    }

    /// Sets a value of the store's metadata in a transaction of its own. See `Transaction.setMetadata`.
    @discardableResult
    public func setMetadata<T: Encodable>(_ value: T?, for key: String, author: String? = nil) throws -> HistoryToken? {
        try write(author: author) { try $0.setMetadata(value, for: key) }.token
    }
}
