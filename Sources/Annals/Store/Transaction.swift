// A transaction while its body runs.

internal import FoundationEssentials

/// The changes that one commit makes. It lives until the body that was given it returns; used later it traps. One
/// thread uses it.
public final class Transaction {
    private let pending: PendingTransaction
    private let store: Store
    @exclusivity(unchecked) private var isOver = false

    private init(_ pending: PendingTransaction, _ store: Store) {
        self.pending = pending
        self.store = store
    }

    static func run<Result>(
        _ pending: PendingTransaction, _ store: Store, _ body: (Transaction) throws -> Result
    ) throws -> Result {
        // Never a used one: code that kept that one against the rules, even weakly, must not meet another
        // transaction in it.
        let transaction = Transaction(pending, store)
        defer { transaction.isOver = true }
        return try body(transaction)
    }

    /// `act` is called with the writer lock, just before the transaction is appended; if it throws, nothing is written.
    func beforeAppending(_ act: @escaping () throws(StoreError) -> Void) { open().beforeAppending = act }

    private func open() -> PendingTransaction {
        precondition(!isOver, "A transaction is used after its body has returned.")
        return pending
    }

    /// Who makes the change, as history will say it. Can be set until the body returns.
    public var author: String? {
        get { open().author }
        set { open().author = newValue }
    }

    /// What they were doing, or where.
    public var contextName: String? {
        get { open().context }
        set { open().context = newValue }
    }

    /// The state that the transaction began from, without its own changes. In `write` it is the newest.
    public var snapshot: Snapshot {
        let base = open().base
        return Snapshot(base, store.engine(of: base), store.identifier)
    }

    /// Moves a consumer on together with what this transaction changes: both, or neither. What a consumer does with
    /// each transaction that it reads is so done exactly once, whenever it is killed.
    ///
    /// Throws what `Store.validate` throws for `to`. The commit throws `consumerUnknown`, `consumerLost`, and
    /// `consumerConflict` where the consumer does not stand at `from` (any more): then nothing has changed.
    public func advanceConsumer(_ name: String, from: HistoryToken, to: HistoryToken) throws {
        let pending = open()
        try store.requireOwner(from)
        try store.requireSeen(to)
        try pending.advance(name, from: from.place, to: to.place)
    }

    /// An entity as this transaction writes it, its own schema changes included. Throws `StoreError`: `unknownEntity`.
    public func entity(_ name: String) throws -> EntityHandle { try handle(ofEntity: name) }

    private func handle(ofEntity name: String) throws(StoreError) -> EntityHandle {
        let catalog = open().catalog
        guard let number = catalog.number(ofEntity: name),
            let layout = catalog.layout(version: catalog.newestVersion, entity: number), !layout.isReserved
        else { throw .unknownEntity(name) }
        return EntityHandle(layout)
    }

    /// Changes the schema. Once in a transaction, and before any other change. Throws as `Store.changeSchema`.
    public func changeSchema(_ changes: [SchemaChange]) throws {
        let pending = open()
        let definitions = try SchemaPlan.definitions(for: changes, catalog: pending.catalog)
        guard !definitions.isEmpty else { return }
        try pending.changeSchema(definitions)
    }

    // MARK: Inserting

    /// Inserts an object. Attributes that are not named have their default, or none.
    ///
    /// Throws `StoreError`: `unknownEntity`, `unknownAttribute`, `typeMismatch`, `requiredMissing`, `valueOutOfRange`.
    @discardableResult
    public func insert(_ entity: String, _ values: [String: Value]) throws -> ObjectID {
        try insert(entity, pairs: values)
    }

    /// The same for names that differ only in the form of their Unicode, which a dictionary would take for one.
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

    /// Inserts an object with a value for each attribute, in the order of the handle. Throws `StoreError`:
    /// `invalidArgument` where the count differs.
    @discardableResult
    public func insert(_ entity: EntityHandle, _ values: [Value]) throws -> ObjectID {
        try requireCurrent(entity)
        guard values.count == entity.attributes.count else {
            throw StoreError(
                .invalidArgument,
                "“\(entity.name)” has \(entity.attributes.count) attributes, and \(values.count) values were given.")
        }
        var row: [StoredValue] = []
        row.reserveCapacity(values.count)
        for (position, value) in values.enumerated() { row.append(try entity.validated(value, position)) }
        return try insert(entity.number, row)
    }

    private func insert(_ entity: UInt16, _ row: [StoredValue]) throws(StoreError) -> ObjectID {
        let pending = open()
        return try pending.insert(entity: entity) { (writer) throws(StoreError) in
            for position in row.indices { try writer.set(stored: row[position], at: position) }
        }
    }

    /// Inserts an object whose values `set` sets one by one: the fastest way. Throws `StoreError`.
    @discardableResult
    public func insert(
        _ entity: EntityHandle, _ set: (inout RowWriter) throws(StoreError) -> Void
    ) throws -> ObjectID {
        try open().insert(entity.layout, set)
    }

    // MARK: Updating

    /// Sets values of an object; the other attributes stay as they are.
    ///
    /// - Returns: Whether anything differs. If nothing does, nothing is written.
    ///
    /// Throws `StoreError`: `objectNotFound`, `unknownAttribute`, `typeMismatch`, `requiredMissing`, `valueOutOfRange`.
    @discardableResult
    public func update(_ object: ObjectID, _ values: [String: Value]) throws -> Bool {
        try update(object, pairs: values)
    }

    /// The same for names that differ only in the form of their Unicode.
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
        changes.sort { $0.position < $1.position }
        return try update(object, changes)
    }

    /// The same with a value for each attribute, in the order of the handle. Throws `StoreError`.
    @discardableResult
    public func update(
        _ object: ObjectID, of entity: EntityHandle, _ values: [Value]
    ) throws -> Bool {
        try requireCurrent(entity)
        guard object.entityNumber == entity.number, values.count == entity.attributes.count else {
            throw StoreError(
                .invalidArgument, "The object or the number of values is not that of the entity “\(entity.name)”.")
        }
        var changes: [(position: Int, value: StoredValue)] = []
        changes.reserveCapacity(values.count)
        for (position, value) in values.enumerated() {
            changes.append((position, try entity.validated(value, position)))
        }
        return try update(object, changes)
    }

    private func update(
        _ object: ObjectID, _ changes: [(position: Int, value: StoredValue)]
    ) throws(StoreError) -> Bool {
        let pending = open()
        return try pending.update(object, try Self.withoutSameLargeValues(changes, object, pending))
    }

    /// Leaves out long values that are there already: they stand outside the row, where the engine does not compare
    /// them.
    private static func withoutSameLargeValues(
        _ changes: [(position: Int, value: StoredValue)], _ object: ObjectID, _ pending: PendingTransaction
    ) throws(StoreError) -> [(position: Int, value: StoredValue)] {
        let isLong = changes.contains { $0.value.variableBytes > longValueBytes }
        let catalog = pending.catalog
        guard isLong, !pending.isChangedHere(object),
            let layout = catalog.layout(version: catalog.newestVersion, entity: object.entityNumber)
        else { return changes }
        var different: [(position: Int, value: StoredValue)] = []
        let isThere = try pending.base.withRow(object) { (row) throws(StoreError) in
            for change in changes {
                let number = layout.entity.attributes[change.position].number
                if change.value.variableBytes > longValueBytes, let place = row.layout.position(ofAttribute: number),
                    try pending.base.value(row, at: place) == change.value
                {
                    continue
                }
                different.append(change)
            }
        }
        return isThere ? different : changes
    }

    /// Shorter values leave their row only if it is very long.
    private static let longValueBytes = 4096

    /// Sets values one by one: the fastest way. Positions are those of the newest schema, and values must be set in
    /// ascending position.
    ///
    /// - Returns: Whether anything differs. If nothing does, nothing is written.
    ///
    /// Throws `StoreError`.
    @discardableResult
    public func update(
        _ object: ObjectID, _ set: (inout RowWriter) throws(StoreError) -> Void
    ) throws -> Bool {
        let pending = open()
        guard let layout = pending.newestLayout(object.entityNumber), !layout.isReserved else {
            throw Self.notFound(object)
        }
        return try pending.update(object, set)
    }

    /// Deletes an object. Throws `StoreError`: `objectNotFound`.
    public func delete(_ object: ObjectID) throws {
        let pending = open()
        if pending.base.reservedEntities.contains(object.entityNumber) { throw Self.notFound(object) }
        try pending.delete(object)
    }

    // MARK: Reading

    /// The object with this transaction's own changes; nil if there is none. Throws `StoreError`.
    public func row(_ object: ObjectID) throws -> Row? {
        let pending = open()
        guard let handle = try? entity(of: object) else { return nil }
        var row: Row?
        _ = try pending.withRow(object) { (stored) throws(StoreError) in
            row = try self.row(object, stored, handle, pending)
        }
        return row
    }

    /// A copy of a row, in the newest schema. What this transaction wrote stands in no file yet.
    private func row(
        _ object: ObjectID, _ stored: RowImage, _ handle: EntityHandle, _ pending: PendingTransaction
    ) throws(StoreError) -> Row {
        var values: [Value] = []
        values.reserveCapacity(handle.attributes.count)
        for attribute in handle.layout.entity.attributes {
            if let place = stored.layout.position(ofAttribute: attribute.number) {
                let value = try pending.value(stored, at: place)
                values.append(try Value(value))
            } else {
                values.append(try Value(attribute.valueBeforeItExisted))
            }
        }
        return Row(id: object, entity: handle.name, attributes: handle.attributes, values: values)
    }

    // MARK: Checks

    private func entity(of object: ObjectID) throws(StoreError) -> EntityHandle {
        let catalog = open().catalog
        guard let layout = catalog.layout(version: catalog.newestVersion, entity: object.entityNumber),
            !layout.isReserved
        else { throw Self.notFound(object) }
        return EntityHandle(layout)
    }

    private static func notFound(_ object: ObjectID) -> StoreError {
        StoreError(.objectNotFound, "There is no object \(object): it was never there, or it was deleted.")
    }

    private func requireCurrent(_ entity: EntityHandle) throws(StoreError) {
        let pending = open()
        try pending.requireNewest(entity.layout)
    }
}

extension EntityHandle {
    /// The value as the file has it. Throws `typeMismatch`, `requiredMissing`, `valueOutOfRange`.
    func validated(_ value: Value, _ position: Int) throws(StoreError) -> StoredValue {
        guard let type = value.type else {
            guard layout.slots[position].isOptional else {
                throw StoreError(
                    .requiredMissing, "“\(attributes[position])” of “\(name)” is required: give it a value.",
                    ObjectFacts(name, [attributes[position]]))
            }
            return .absent
        }
        guard type == types[position] else {
            throw StoreError(
                .typeMismatch,
                "“\(attributes[position])” of “\(name)” is of the type \(types[position]), and a value of the type "
                    + "\(type) was given.",
                ObjectFacts(name, [attributes[position]]))
        }
        return try value.storedValue()
    }
}
