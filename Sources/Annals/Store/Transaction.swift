// A transaction while its body runs.

internal import FoundationEssentials

/// The changes of one commit. Use it on one thread, and only until the body that received it returns. Using it later
/// traps.
public final class Transaction {
    // Not counted, because each commit has a transaction. Sound: both live until the body returns, and later uses trap.
    private unowned(unsafe) let held: Draft
    unowned(unsafe) let store: Store
    @exclusivity(unchecked) private var isOver = false

    private init(_ draft: Draft, _ store: Store) {
        held = draft
        self.store = store
    }

    static func run<Result>(
        _ draft: Draft, _ store: Store, _ body: (Transaction) throws -> Result
    ) throws -> Result {
        // Never reuse one: code that wrongly kept the old one, even weakly, must not reach another transaction through
        // it.
        let transaction = Transaction(draft, store)
        defer { transaction.isOver = true }
        let result = try body(transaction)
        // Tested first, because most stores have none: retrieving it costs each transaction 200 instructions.
        if store.extensions.hasWork, draft.hasChanges || transaction.attachment != nil {
            try store.extensions.upkeep?.bodyHasEnded(draft, transaction, validates: true)
            store.extensions.indexer?.noteChanges(Int(clamping: draft.frames.countingChanges))
        }
        if let failure = transaction.failure() { throw failure }
        return result
    }

    /// Runs a body as `run` does, in a rehearsal.
    fileprivate static func rehearse(
        _ draft: Draft, _ store: Store, _ body: (Transaction) throws(StoreError) -> Void
    ) throws(StoreError) {
        let transaction = Transaction(draft, store)
        defer { transaction.isOver = true }
        try body(transaction)
        if let upkeep = store.extensions.upkeep { try upkeep.bodyHasEnded(draft, transaction, validates: true) }
        if let failure = transaction.failure() { try draft.refuse(failure) }
    }

    /// Calls `body` with each object that a draft changes.
    fileprivate static func show(
        _ draft: Draft, _ store: Store, _ body: (Transaction, ObjectID) throws(StoreError) -> Void
    ) throws(StoreError) {
        let transaction = Transaction(draft, store)
        defer { transaction.isOver = true }
        var objects: [ObjectID] = []
        try draft.frames.forEachEntry(withRows: false) { (change, _) in
            if !draft.base.reservedEntities.contains(change.object.entityNumber) { objects.append(change.object) }
            return true
        }
        for object in objects { try body(transaction, object) }
    }

    /// The transaction while its body runs, for the layers above.
    var draft: Draft {
        precondition(!isOver, "A transaction was used after its body returned.")
        return held
    }

    /// An object of the layers above that belongs to the transaction. Its error is thrown after the body.
    @exclusivity(unchecked) var attachment: TransactionAttachment?

    private func failure() -> StoreError? { attachment?.failure }

    /// `act` is called under the writer lock, just before the transaction is appended. If it throws, nothing is
    /// written.
    func beforeAppending(_ act: @escaping () throws(StoreError) -> Void) { draft.beforeAppending = act }

    /// `act` is called under the writer lock when the transaction is appended, with its number, before any snapshot of
    /// this store contains it.
    func afterAppending(_ act: @escaping (UInt64) -> Void) { draft.afterAppending = { act($0.number) } }

    /// The author of the change, for the history. Can be set until the body returns.
    public var author: String? {
        get { draft.author }
        set { draft.author = newValue }
    }

    /// The author's activity, or the part of the program.
    public var contextName: String? {
        get { draft.context }
        set { draft.context = newValue }
    }

    /// The state at the beginning of the transaction, without its own changes. In `write` it is the newest state.
    public var snapshot: Snapshot {
        let base = draft.base
        return Snapshot(base, store.engine(of: base), store.identifier)
    }

    /// Advances a consumer together with the changes of this transaction: both happen, or neither. So a consumer
    /// processes each transaction exactly once, even if it is killed at any moment.
    ///
    /// Throws `StoreError`: errors of `Store.validate` for `to`. The commit throws `consumerUnknown`, `consumerLost`,
    /// or `consumerConflict` if the consumer is not at `from` any more. Then nothing has changed.
    public func advanceConsumer(_ name: String, from: HistoryToken, to: HistoryToken) throws {
        let draft = draft
        try store.requireOwner(from)
        try store.requireSeen(to)
        try draft.advance(name, from: from.place, to: to.place)
    }

    /// Returns an entity, with this transaction's own schema changes. Throws `StoreError`: `unknownEntity`.
    public func entity(_ name: String) throws -> EntityHandle { try handle(ofEntity: name) }

    private func handle(ofEntity name: String) throws(StoreError) -> EntityHandle {
        let catalog = draft.catalog
        guard let number = catalog.number(ofEntity: name),
            let layout = catalog.layout(version: catalog.newestVersion, entity: number), !layout.isReserved
        else { throw .unknownEntity(name) }
        return EntityHandle(layout)
    }

    /// Changes the schema. Call it once at most, before any other change. Throws as `Store.changeSchema`.
    public func changeSchema(_ changes: [SchemaChange]) throws {
        let draft = draft
        let definitions = try SchemaPlan.definitions(for: changes, catalog: draft.catalog)
        guard !definitions.isEmpty else { return }
        try draft.changeSchema(definitions)
    }

    // MARK: Inserting

    /// Inserts an object. An attribute without a value gets its default, or null.
    ///
    /// Throws `StoreError`: `unknownEntity`, `unknownAttribute`, `typeMismatch`, `requiredMissing`, `valueOutOfRange`.
    @discardableResult
    public func insert(_ entity: String, _ values: [String: Value]) throws -> ObjectID {
        try insert(entity, pairs: values)
    }

    /// As `insert`, also for names that differ only in their Unicode form: a dictionary would treat them as equal.
    package func insert(
        _ entity: String, pairs values: some Collection<(key: String, value: Value)>
    ) throws(StoreError) -> ObjectID {
        let handle = try self.handle(ofEntity: entity)
        var row = handle.layout.entity.attributes.map(\.valueBeforeItExisted)
        for (name, value) in values {
            let position = try handle.requirePosition(of: name)
            row[position] = try handle.validated(value, position)
        }
        return try insert(handle.number, row)
    }

    /// Inserts an object with a value for each attribute, in the order of the handle.
    ///
    /// Throws `StoreError`: `invalidArgument` if the number of values is wrong, and as `insert(_:_:)` with names.
    @discardableResult
    public func insert(_ entity: EntityHandle, _ values: [Value]) throws -> ObjectID {
        try requireCurrent(entity)
        return try insert(entity.number, try row(entity, values))
    }

    private func row(_ entity: EntityHandle, _ values: [Value]) throws(StoreError) -> [StoredValue] {
        guard values.count == entity.attributes.count else {
            throw StoreError(
                .invalidArgument,
                "“\(entity.name)” has \(entity.attributes.count) attributes, but \(values.count) values were given.")
        }
        var row: [StoredValue] = []
        row.reserveCapacity(values.count)
        for (position, value) in values.enumerated() { row.append(try entity.validated(value, position)) }
        return row
    }

    /// Inserts an object with a value or nil for each attribute, in the order of the handle. An attribute whose value
    /// is nil gets its default, or null.
    package func insert(_ entity: EntityHandle, naming values: [Value?]) throws(StoreError) -> ObjectID {
        try requireCurrent(entity)
        var row = entity.layout.entity.attributes.map(\.valueBeforeItExisted)
        for (position, value) in values.enumerated() {
            if let value { row[position] = try entity.validated(value, position) }
        }
        return try insert(entity.number, row)
    }

    private func insert(_ entity: UInt16, _ row: [StoredValue]) throws(StoreError) -> ObjectID {
        let draft = draft
        return try draft.insert(entity: entity) { (writer) throws(StoreError) in
            for position in row.indices { try writer.set(stored: row[position], at: position) }
        }
    }

    /// Inserts an object whose values `set` sets one by one. This is the fastest way. Throws `StoreError`.
    @discardableResult
    public func insert(
        _ entity: EntityHandle, _ set: (inout RowWriter) throws(StoreError) -> Void
    ) throws -> ObjectID {
        try draft.insert(entity.layout, set)
    }

    /// Returns the ID of an object that this transaction may insert later. So objects can refer to each other in
    /// circles.
    ///
    /// An ID that is not used is lost: no object ever gets it. Throws `StoreError`: `schemaChanged`, `tooLarge`.
    public func reserveID(of entity: EntityHandle) throws -> ObjectID {
        try requireCurrent(entity)
        return try draft.reserve(entity: entity.number)
    }

    /// The same for the ID with a number. Unused numbers before it are lost. Throws also `invalidArgument` if the
    /// number was used, or is smaller than one that was reserved.
    package func reserveID(of entity: EntityHandle, number: UInt64) throws(StoreError) -> ObjectID {
        try requireCurrent(entity)
        return try draft.reserve(entity: entity.number, number: number)
    }

    /// Inserts an object under an ID that this transaction has reserved, with a value for each attribute, in the order
    /// of the handle.
    ///
    /// Throws `StoreError`: `invalidArgument` if the ID was not reserved here or has been used, and as
    /// `insert(_:_:)` with a handle.
    public func insert(_ entity: EntityHandle, _ values: [Value], as object: ObjectID) throws {
        try requireCurrent(entity)
        try draft.insert(reserved: object, try row(entity, values))
    }

    /// Inserts a deleted object again under its ID, with a value for each attribute, in the order of the handle.
    ///
    /// Throws `StoreError`: `invalidArgument` if the object exists or never existed, and as `insert(_:_:)` with a
    /// handle.
    public func insert(_ entity: EntityHandle, _ values: [Value], again object: ObjectID) throws {
        try requireCurrent(entity)
        let row = try row(entity, values)
        guard object.entityNumber == entity.number else {
            throw StoreError(.invalidArgument, "The object \(object) is not an object of “\(entity.name)”.")
        }
        try draft.insertAgain(object) { (writer) throws(StoreError) in
            for position in row.indices { try writer.set(stored: row[position], at: position) }
        }
    }

    // MARK: Updating

    /// Sets values of an object. The other attributes stay as they are.
    ///
    /// - Returns: Whether any value differs. If none does, nothing is written.
    ///
    /// Throws `StoreError`: `objectNotFound`, `unknownAttribute`, `typeMismatch`, `requiredMissing`, `valueOutOfRange`.
    @discardableResult
    public func update(_ object: ObjectID, _ values: [String: Value]) throws -> Bool {
        try update(object, pairs: values)
    }

    /// As `update`, also for names that differ only in their Unicode form.
    @discardableResult
    package func update(
        _ object: ObjectID, pairs values: some Collection<(key: String, value: Value)>
    ) throws(StoreError) -> Bool {
        let handle = try entity(of: object)
        var changes: [(position: Int, value: StoredValue)] = []
        changes.reserveCapacity(values.count)
        for (name, value) in values {
            let position = try handle.requirePosition(of: name)
            changes.append((position, try handle.validated(value, position)))
        }
        changes.putInOrder { $0.position < $1.position }
        return try update(object, changes)
    }

    /// Updates an object with a value for each attribute, in the order of the handle. Returns whether any value
    /// differs. Throws `StoreError`.
    @discardableResult
    public func update(
        _ object: ObjectID, of entity: EntityHandle, _ values: [Value]
    ) throws -> Bool {
        try requireCurrent(entity)
        guard object.entityNumber == entity.number, values.count == entity.attributes.count else {
            throw StoreError(
                .invalidArgument, "The object or the number of values does not match the entity “\(entity.name)”.")
        }
        return try update(object, of: entity, naming: values)
    }

    /// Updates an object with a value or nil for each attribute, in the order of the handle. An attribute whose value
    /// is nil stays as it is.
    package func update(
        _ object: ObjectID, of entity: EntityHandle, naming values: [Value?]
    ) throws(StoreError) -> Bool {
        try requireCurrent(entity)
        var changes: [(position: Int, value: StoredValue)] = []
        changes.reserveCapacity(values.count)
        for (position, value) in values.enumerated() {
            if let value { changes.append((position, try entity.validated(value, position))) }
        }
        return try update(object, changes)
    }

    private func update(
        _ object: ObjectID, _ changes: [(position: Int, value: StoredValue)]
    ) throws(StoreError) -> Bool {
        let draft = draft
        return try draft.update(object, try Self.withoutSameLargeValues(changes, object, draft))
    }

    /// Removes long values that have not changed. They are stored outside the row, where the engine does not compare
    /// them.
    static func withoutSameLargeValues(
        _ changes: [(position: Int, value: StoredValue)], _ object: ObjectID, _ draft: Draft
    ) throws(StoreError) -> [(position: Int, value: StoredValue)] {
        let isLong = changes.contains { $0.value.variableBytes > longValueBytes }
        let catalog = draft.catalog
        guard isLong, !draft.isChangedHere(object),
            let layout = catalog.layout(version: catalog.newestVersion, entity: object.entityNumber)
        else { return changes }
        var different: [(position: Int, value: StoredValue)] = []
        let isThere = try draft.base.withRow(object) { (row) throws(StoreError) in
            for change in changes {
                let number = layout.entity.attributes[change.position].number
                if change.value.variableBytes > longValueBytes, let place = row.layout.position(ofAttribute: number),
                    try draft.base.value(row, at: place) == change.value
                {
                    continue
                }
                different.append(change)
            }
        }
        return isThere ? different : changes
    }

    /// A shorter value is stored outside its row only if the row is very long.
    static let longValueBytes = 4096

    /// Updates an object whose values `set` sets one by one. This is the fastest way. Positions are those of the newest
    /// schema. Set the values in ascending order of position.
    ///
    /// - Returns: Whether any value differs. If none does, nothing is written.
    ///
    /// Throws `StoreError`.
    @discardableResult
    public func update(
        _ object: ObjectID, _ set: (inout RowWriter) throws(StoreError) -> Void
    ) throws -> Bool {
        let draft = draft
        guard let layout = draft.newestLayout(object.entityNumber), !layout.isReserved else {
            throw Self.notFound(object)
        }
        return try draft.update(object, set)
    }

    /// Deletes an object. Throws `StoreError`: `objectNotFound`.
    public func delete(_ object: ObjectID) throws {
        let draft = draft
        if draft.base.reservedEntities.contains(object.entityNumber) { throw Self.notFound(object) }
        try draft.delete(object)
    }

    // MARK: Reading

    /// Returns the object with this transaction's own changes, or nil if it does not exist. Throws `StoreError`.
    public func row(_ object: ObjectID) throws -> Row? {
        let draft = draft
        guard let handle = try? entity(of: object) else { return nil }
        var row: Row?
        _ = try draft.withRow(object) { (stored) throws(StoreError) in
            row = try self.row(object, stored, handle, draft)
        }
        return row
    }

    /// A copy of a row, in the newest schema. The transaction's own changes are not in the file yet.
    private func row(
        _ object: ObjectID, _ stored: RowImage, _ handle: EntityHandle, _ draft: Draft
    ) throws(StoreError) -> Row {
        var values: [Value] = []
        values.reserveCapacity(handle.attributes.count)
        for attribute in handle.layout.entity.attributes {
            if let place = stored.layout.position(ofAttribute: attribute.number) {
                values.append(try Value(try draft.withoutMissing(try draft.value(stored, at: place))))
            } else {
                values.append(try Value(attribute.valueBeforeItExisted))
            }
        }
        return Row(id: object, entity: handle.name, attributes: handle.attributes, values: values)
    }

    // MARK: Checks

    private func entity(of object: ObjectID) throws(StoreError) -> EntityHandle {
        let catalog = draft.catalog
        guard let layout = catalog.layout(version: catalog.newestVersion, entity: object.entityNumber),
            !layout.isReserved
        else { throw Self.notFound(object) }
        return EntityHandle(layout)
    }

    private static func notFound(_ object: ObjectID) -> StoreError {
        StoreError(.objectNotFound, "There is no object \(object): it never existed, or it was deleted.")
    }

    private func requireCurrent(_ entity: EntityHandle) throws(StoreError) {
        let draft = draft
        try draft.requireNewest(entity.layout)
    }
}

extension Store {
    /// The errors with which a commit would refuse the changes of `body` on a state. Nothing is written.
    ///
    /// - Parameter outcome: Is called with each object that the transaction would change, with the effects of delete
    ///   rules, in the order of the changes. The transaction can be read.
    package func rehearse(
        on state: Snapshot, _ body: (Transaction) throws(StoreError) -> Void,
        outcome: (Transaction, ObjectID) throws(StoreError) -> Void = { (_, _) in }
    ) throws(StoreError) -> [StoreError] {
        try state.engine.rehearse(on: state.view) { (draft) throws(StoreError) in
            try Transaction.rehearse(draft, self, body)
        } outcome: { (draft) throws(StoreError) in
            try Transaction.show(draft, self, outcome)
        }
    }
}

extension EntityHandle {
    /// Returns the value in its stored form. Throws `typeMismatch`, `requiredMissing`, `valueOutOfRange`.
    func validated(_ value: Value, _ position: Int) throws(StoreError) -> StoredValue {
        guard let type = value.type else {
            guard layout.slots[position].isOptional else {
                throw .required(attributes[position], of: name)
            }
            return .absent
        }
        guard type == types[position] else {
            throw StoreError(
                .typeMismatch,
                "“\(attributes[position])” of “\(name)” has the type \(types[position]), but a value of the type "
                    + "\(type) was given.",
                ObjectFacts(name, [attributes[position]]))
        }
        return try value.storedValue()
    }
}
