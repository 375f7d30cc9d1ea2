// One state of a store, which can be read for as long as it is kept.

package import FoundationEssentials

/// One state of a store. No later commit changes it. Any thread may read it, you may keep any number of snapshots, and
/// they block no reader or writer.
///
/// A snapshot keeps its store open. If the store is closed explicitly, reading the snapshot throws `closed`.
///
/// For a state of the past, the store may not know the objects of an entity, because its history was not kept then.
/// Reading such objects throws `historyGap`.
public struct Snapshot: Sendable {
    let view: View
    /// Keeps the store open.
    let engine: Engine
    let storeIdentifier: UUID

    package init(_ view: View, _ engine: Engine, _ storeIdentifier: UUID) {
        (self.view, self.engine, self.storeIdentifier) = (view, engine, storeIdentifier)
    }

    /// The same state, read in the terms of the newest schema. An attribute added since has its default; a renamed one
    /// has its present name. Types read a state of the past in this way.
    package var inPresentTerms: Snapshot {
        view.past == nil ? self : Snapshot(view.inPresentTerms, engine, storeIdentifier)
    }

    /// The place in history of this state.
    public var token: HistoryToken {
        HistoryToken(storeIdentifier: storeIdentifier, number: view.number, tag: view.tag)
    }

    // MARK: Schema

    /// The version of the schema in this state: 0 without a schema, and one more for each transaction that changes it.
    public var schemaVersion: Int { Int(view.catalog.newestVersion) }

    /// The entities, in the order in which they were added. Throws `StoreError`.
    public var entities: [EntityDescription] {
        get throws {
            try engine.log.process.requireOwn(path: engine.log.path)
            var entities: [EntityDescription] = []
            for definition in view.catalog.entities(version: view.catalog.newestVersion)
            where !definition.name.isReserved {
                entities.append(try EntityDescription(definition, view.catalog))
            }
            return entities
        }
    }

    /// Returns an entity, for reading by position. Throws `StoreError`: `unknownEntity`.
    public func entity(_ name: String) throws -> EntityHandle {
        try engine.log.process.requireOwn(path: engine.log.path)
        return try handle(ofEntity: name)
    }

    /// Throws `schemaRefused` if these changes of this state's schema are not possible. Nothing is written.
    package func requirePossible(_ changes: [SchemaChange]) throws(StoreError) {
        _ = try SchemaPlan.definitions(for: changes, catalog: view.catalog)
    }

    func handle(ofEntity name: String) throws(StoreError) -> EntityHandle {
        guard let number = view.catalog.number(ofEntity: name), let handle = handle(number) else {
            throw .unknownEntity(name)
        }
        return handle
    }

    /// Throws `unknownEntity` if this state does not have the entity, and `historyGap` if the entity's objects are not
    /// known for this state.
    package func require(_ entity: EntityHandle) throws(StoreError) {
        try requireKnown(entity.number)
        let isKnown = view.catalog.layout(version: view.catalog.newestVersion, entity: entity.number) != nil
        guard isKnown else { throw .unknownEntity(entity.name) }
    }

    private func handle(_ number: UInt16) -> EntityHandle? { layout(number).map(EntityHandle.init) }

    /// Nil for the store's own entities, which are hidden from programs.
    private func layout(_ number: UInt16) -> RowLayout? {
        guard let layout = view.catalog.layout(version: view.catalog.newestVersion, entity: number),
            !layout.isReserved
        else { return nil }
        return layout
    }

    // MARK: One object

    /// Returns the object as a value, or nil if it does not exist. Throws `StoreError`: `damaged`, `closed`.
    public func row(_ object: ObjectID) throws -> Row? { try value(of: object) }

    func value(of object: ObjectID) throws(StoreError) -> Row? {
        guard let handle = handle(object.entityNumber) else { return nil }
        var row: Row?
        _ = try lendRow(object, in: handle) { (stored) throws(StoreError) in
            row = try stored.row(entity: handle.name, names: handle.attributes)
        }
        return row
    }

    /// Calls `body` with the object, in place. Returns false, without calling `body`, if the object does not exist.
    ///
    /// Positions are those of `entity`. An object of another entity is not found.
    ///
    /// Throws `StoreError`: `damaged`, `closed`, and errors of `body`.
    public func withRow(
        _ object: ObjectID, in entity: EntityHandle, _ body: (borrowing RowView) throws(StoreError) -> Void
    ) throws -> Bool { try lendRow(object, in: entity, body) }

    /// The same with the positions of the newest schema. Looks the entity up.
    public func withRow(
        _ object: ObjectID, _ body: (borrowing RowView) throws(StoreError) -> Void
    ) throws -> Bool {
        guard let layout = layout(object.entityNumber) else { return false }
        return try lendRow(object, in: EntityHandle(layout), body)
    }

    func lendRow(
        _ object: ObjectID, in entity: EntityHandle, _ body: (borrowing RowView) throws(StoreError) -> Void
    ) throws(StoreError) -> Bool {
        // The handle keeps its layout until this returns, so that no reference to it needs to be counted.
        defer { withExtendedLifetime(entity) {} }
        let shape = RowShape(entity.layout)
        // An ID may come from outside. An ID of another entity finds no object here.
        guard shape.entityNumber == object.entityNumber else { return false }
        try requireKnown(object.entityNumber)
        return try view.withRow(object) { (row) throws(StoreError) in
            try withUnsafePointer(to: row) { (row) throws(StoreError) in
                try body(RowView(object, row, view: view, shape: shape, as: .state))
            }
        }
    }

    /// Lends a row to `body`, until it returns.
    @inline(__always)
    func lend<Result>(
        _ object: ObjectID, _ row: RowImage, _ layout: RowLayout,
        _ body: (borrowing RowView) throws(StoreError) -> Result
    ) throws(StoreError) -> Result {
        try withUnsafePointer(to: row) { (row) throws(StoreError) in
            try body(RowView(object, row, view: view, layout: layout, as: .state))
        }
    }

    // MARK: All objects

    /// The number of objects of the entity. Constant time; linear for a state of the past.
    ///
    /// - Throws: `StoreError`: `unknownEntity`, `damaged`, `closed`.
    public func count(of entity: String) throws -> UInt64 {
        let number = try handle(ofEntity: entity).number
        try requireKnown(number)
        return try view.count(entity: number)
    }

    /// Calls `body` with each object of the entity whose number is in the range, by ascending or descending number,
    /// until `body` returns false.
    ///
    /// Throws `StoreError`: `damaged`, `closed`, and errors of `body`. Memory use does not grow with the number of
    /// objects.
    public func forEachRow(
        of entity: EntityHandle, numbers: ClosedRange<UInt64> = 1...UInt64.max, reversed: Bool = false,
        _ body: (borrowing RowView) throws(StoreError) -> Bool
    ) throws { try lendRows(of: entity, numbers: numbers, reversed: reversed, body) }

    func lendRows(
        of entity: EntityHandle, numbers: ClosedRange<UInt64> = 1...UInt64.max, reversed: Bool = false,
        _ body: (borrowing RowView) throws(StoreError) -> Bool
    ) throws(StoreError) {
        let layout = entity.layout
        try require(entity)
        try view.scan(
            entity: entity.number, from: numbers.lowerBound, through: numbers.upperBound, reversed: reversed
        ) { (object, row) throws(StoreError) in try lend(object, row, layout, body) }
    }

    /// All objects of the entity as values. All of them are in memory at once. Throws `StoreError`: `unknownEntity`,
    /// `damaged`, `closed`.
    public func rows(of entity: String) throws -> [Row] {
        let handle = try self.entity(entity)
        var rows: [Row] = []
        try lendRows(of: handle) { (stored) throws(StoreError) in
            rows.append(try stored.row(entity: handle.name, names: handle.attributes))
            return true
        }
        return rows
    }
}
