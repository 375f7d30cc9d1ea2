// Reads exported transactions from history, one at a time.
//
// Invariants:
// ER1  Each exported transaction names the one exported before it, so a missing one is found when they are applied. The
//     receiver has everything in those that are left out, or gets it from its group.
// ER2  An object is named by the store in which it was first inserted, in every exchange. So a name means the same
//     object in every store.

internal import FoundationEssentials

/// Turns transactions of one view into values. For one thread.
struct ExportReader {
    let view: View
    /// The identifier in tokens and in names of own objects.
    let store: UUID
    /// For a new identity: a state whose own objects keep the name that they have in other stores, and the store of
    /// these names.
    private let shared: (state: View, store: UUID)?
    /// The numbers of entities whose objects are not exported. No attribute may refer to one.
    private let leftOut: Set<UInt16>
    /// The receiving store. Transactions that were made there are left out. Nil for any store.
    let target: UUID?
    private var map: ObjectMap
    /// The state whose objects are exported. References to objects outside it are left out, because they would lead
    /// nowhere. Nil when history is exported.
    private var state: View?
    /// The names of attributes, by entity, schema version and positions. Changes with the same ones share them.
    private var shapes: [Shape: (entity: String, attributes: [String])] = [:]

    private static let maximumShapes = 4096

    private struct Shape: Hashable {
        var entity: UInt16
        var version: UInt16
        /// Nil for all.
        var positions: [Int]?
    }

    /// - Parameters:
    ///   - names: A state whose names of objects are used.
    ///   - shared: The last state that the store has in common with others under its identifier. It gets another one.
    init(
        _ snapshot: Snapshot, to target: UUID?, namesOf names: Snapshot? = nil, apartFrom shared: Snapshot? = nil,
        leavingOut leftOut: Set<UInt16> = []
    ) throws(StoreError) {
        self.leftOut = leftOut
        view = snapshot.view
        store = try shared?.identifier(ofContinuation: snapshot) ?? snapshot.storeIdentifier
        self.shared = shared.map { ($0.view, $0.storeIdentifier) }
        self.target = target
        map = try ObjectMap(names ?? snapshot)
    }

    // MARK: Transactions

    /// Whether a transaction is exported (ER1).
    func includes(_ transaction: borrowing HistoryTransactionView) throws(StoreError) -> Bool {
        guard let record = try transaction.appliedRecord() else { return true }
        if let shared {
            if record.isState { return false }
            if try transaction.mergeRecord(of: shared.store) != nil { return false }
        }
        if let target, record.origin.storeIdentifier == target { return false }
        return !record.isSkipped
    }

    /// The transaction as a value; nil if it is left out.
    mutating func read(
        _ transaction: borrowing HistoryTransactionView, previous: HistoryToken?, isFirst: Bool
    ) throws(StoreError) -> ExportedTransaction? {
        guard try includes(transaction) else { return nil }
        let record = try transaction.appliedRecord()
        let version = transaction.transaction.pointee.schemaVersion
        let changesSchema = transaction.changesSchema && isVisible(version)
        var changes: [ExportedChange] = []
        try transaction.forEachChange { (change) throws(StoreError) in
            if !leftOut.contains(change.object.entityNumber) { changes.append(try read(change, version)) }
            return true
        }
        var token = transaction.token
        if shared != nil { token = HistoryToken(storeIdentifier: store, number: token.number, tag: token.tag) }
        return ExportedTransaction(
            token: token, previous: previous, microseconds: transaction.microseconds,
            author: transaction.author, contextName: transaction.contextName, origin: record?.origin,
            originPrevious: record.flatMap { $0.first == nil ? $0.previous : $0.firstPrevious },
            holds: record?.isState ?? false ? try transaction.heldPlaces() : nil,
            schema: isFirst || changesSchema ? try schema(version) : nil,
            renames: changesSchema ? renames(version) : [], changes: changes)
    }

    /// All objects of a state, as the insertions of one transaction: for a receiver without earlier transactions.
    /// References to deleted objects are left out.
    mutating func readState(_ state: Snapshot) throws(StoreError) -> ExportedTransaction {
        let version = state.view.catalog.newestVersion
        self.state = state.view
        defer { self.state = nil }
        var changes: [ExportedChange] = []
        for entity in state.view.catalog.entities(version: version) where !entity.name.isReserved {
            let handle = try state.handle(ofEntity: entity.name.text)
            try state.requireKnown(handle.number)
            try state.view.scan(entity: handle.number) { (object, row) throws(StoreError) in
                changes.append(try insertion(of: object, row, handle.layout, version, state.view))
                return true
            }
        }
        return ExportedTransaction(
            token: state.token, previous: nil, microseconds: state.view.time, author: nil, contextName: nil,
            origin: nil, originPrevious: nil, holds: try AppliedOrigins(state).tokens(), schema: try schema(version),
            renames: [], changes: changes)
    }

    /// An object of the view as an insertion; nil if it does not exist.
    mutating func insertion(of object: ObjectID) throws(StoreError) -> ExportedChange? {
        let (view, version) = (view, view.catalog.newestVersion)
        guard let layout = view.shape.newestLayout(object.entityNumber), !layout.isReserved else { return nil }
        var change: ExportedChange?
        _ = try view.withRow(object) { (row) throws(StoreError) in
            change = try insertion(of: object, row, layout, version, view)
        }
        return change
    }

    // MARK: Changes

    private mutating func read(
        _ change: borrowing HistoryChangeView, _ version: UInt16
    ) throws(StoreError) -> ExportedChange {
        let object = change.object
        guard let layout = view.catalog.layout(version: version, entity: object.entityNumber) else {
            throw StoreError(.damaged, "A change has an entity that its schema does not have.")
        }
        switch change.kind {
        case .delete:
            let shape = shape(layout, version, [])
            return ExportedChange(
                kind: .delete, object: try name(of: object), entity: shape.entity, attributes: [], values: [],
                before: nil)
        case .insert:
            let (view, positions) = (view, Array(0..<layout.count))
            return try self.change(.insert, object, layout, version, nil) { (reader) throws(StoreError) in
                try reader.values(change, isBefore: false, layout, positions, view)
            }
        case .update:
            let (view, positions) = (view, change.change.attributePositions.filter { $0 < layout.count })
            let before = try values(change, isBefore: true, layout, positions, view)
            return try self.change(.update, object, layout, version, positions, before: before) {
                (reader) throws(StoreError) in
                try reader.values(change, isBefore: false, layout, positions, view)
            }
        }
    }

    private mutating func change(
        _ kind: HistoryChange.Kind, _ object: ObjectID, _ layout: RowLayout, _ version: UInt16, _ positions: [Int]?,
        before: [ExportedValue]? = nil, _ values: (inout ExportReader) throws(StoreError) -> [ExportedValue]?
    ) throws(StoreError) -> ExportedChange {
        let shape = shape(layout, version, positions)
        guard let values = try values(&self) else {
            throw StoreError(.damaged, "A change has no row: restore the store from a backup.")
        }
        return ExportedChange(
            kind: kind, object: try name(of: object), entity: shape.entity, attributes: shape.attributes,
            values: values, before: before)
    }

    private mutating func insertion(
        of object: ObjectID, _ row: RowImage, _ layout: RowLayout, _ version: UInt16, _ state: View
    ) throws(StoreError) -> ExportedChange {
        try change(.insert, object, layout, version, nil) { (reader) throws(StoreError) in
            try reader.values(of: row, layout, Array(0..<layout.count), state)
        }
    }

    private mutating func shape(
        _ layout: RowLayout, _ version: UInt16, _ positions: [Int]?
    ) -> (entity: String, attributes: [String]) {
        let key = Shape(entity: layout.entity.number, version: version, positions: positions)
        if let known = shapes[key] { return known }
        let shape = (layout.entity.name.text, positions.map { $0.map { layout.names[$0] } } ?? layout.names)
        // Bounded: updates of a wide entity may have any number of shapes.
        if shapes.count >= Self.maximumShapes { shapes.removeAll() }
        shapes[key] = shape
        return shape
    }

    // MARK: Values

    /// Nil if history no longer has the row.
    private mutating func values(
        _ change: borrowing HistoryChangeView, isBefore: Bool, _ layout: RowLayout, _ positions: [Int], _ view: View
    ) throws(StoreError) -> [ExportedValue]? {
        var raw: [StoredValue]?
        _ = try change.withRow(isBefore: isBefore) { (row) throws(StoreError) in
            raw = try Self.rawValues(of: row, layout, positions, view)
        }
        guard let raw else { return nil }
        return try exported(raw)
    }

    private mutating func values(
        of row: RowImage, _ layout: RowLayout, _ positions: [Int], _ view: View
    ) throws(StoreError) -> [ExportedValue] {
        try exported(try Self.rawValues(of: row, layout, positions, view))
    }

    private static func rawValues(
        of row: RowImage, _ layout: RowLayout, _ positions: [Int], _ view: View
    ) throws(StoreError) -> [StoredValue] {
        var values: [StoredValue] = []
        values.reserveCapacity(positions.count)
        for position in positions { values.append(try view.value(of: layout, at: position, in: row)) }
        return values
    }

    private mutating func exported(_ raw: [StoredValue]) throws(StoreError) -> [ExportedValue] {
        var values: [ExportedValue] = []
        values.reserveCapacity(raw.count)
        for value in raw {
            switch value {
            case .object(let object):
                let name = try names(of: [object]).first
                values.append(name.map { ExportedValue(.object($0)) } ?? .absent)
            case .orderedObjects(let objects): values.append(ExportedValue(.orderedObjects(try names(of: objects))))
            case .objects(let objects): values.append(ExportedValue(.objects(try names(of: objects))))
            default: values.append(ExportedValue(.plain(value)))
            }
        }
        return values
    }

    private mutating func names(of objects: [ObjectID]) throws(StoreError) -> [ExportedObject] {
        var names: [ExportedObject] = []
        for object in objects {
            if let state, try !state.contains(object) { continue }
            names.append(try name(of: object))
        }
        return names
    }

    /// The name of an object in every store: ER2.
    mutating func name(of object: ObjectID) throws(StoreError) -> ExportedObject {
        if let foreign = try map.foreign(of: object) { return ExportedObject(foreign.id, of: foreign.store) }
        if let shared, try shared.state.contains(object) { return ExportedObject(object, of: shared.store) }
        return ExportedObject(object)
    }

    // MARK: The schema

    /// Whether a schema version defines anything besides the store's own entities.
    private func isVisible(_ version: UInt16) -> Bool {
        view.catalog.definition(version: version).entities.contains { !$0.name.isReserved }
    }

    func schema(_ version: UInt16) throws(StoreError) -> [EntityDescription] {
        try Self.schema(view.catalog.upTo(version: version), leavingOut: leftOut)
    }

    /// The newest schema of a catalog.
    static func schema(
        _ catalog: SchemaCatalog, leavingOut leftOut: Set<UInt16> = []
    ) throws(StoreError) -> [EntityDescription] {
        var entities: [EntityDescription] = []
        for entity in catalog.entities(version: catalog.newestVersion)
        where !entity.name.isReserved && !leftOut.contains(entity.number) {
            entities.append(try EntityDescription(entity, catalog))
        }
        return entities
    }

    private func renames(_ version: UInt16) -> [ExportedRename] {
        var renames: [ExportedRename] = []
        for after in view.catalog.definition(version: version).entities {
            guard after.state == .present, !leftOut.contains(after.number),
                let before = view.catalog.entity(after.number, version: version - 1)
            else {
                continue
            }
            if after.name != before.name {
                renames.append(ExportedRename(entity: before.name.text, attribute: nil, name: after.name.text))
            }
            for attribute in after.attributes {
                guard let old = before.attributes.first(where: { $0.number == attribute.number }),
                    old.name != attribute.name
                else { continue }
                renames.append(
                    ExportedRename(
                        entity: after.name.text, attribute: old.name.text, name: attribute.name.text))
            }
        }
        return renames
    }
}

extension Snapshot {
    /// The identifier under which changes after this state are exported with a new identity (RFC 9562, version 8). It
    /// is the same for the same first change, so that a store notices what it has applied.
    fileprivate func identifier(ofContinuation end: Snapshot) throws(StoreError) -> UUID {
        let own = storeIdentifier.stored
        let first = try engine.view(asOf: min(view.number + 1, end.view.number)).tag
        return UUID(
            UUIDBytes(
                high: (own.high ^ first) & ~0xF000 | 0x8000,
                low: (own.low ^ first.byteSwapped &+ view.number) & ~(3 << 62) | 1 << 63))
    }
}

extension View {
    /// The value of the attribute at that position of a layout; the row may be of any version. Call it in the closure
    /// that received the row.
    func value(of layout: RowLayout, at position: Int, in row: RowImage) throws(StoreError) -> StoredValue {
        let attribute = layout.entity.attributes[position]
        guard let place = row.layout.position(ofAttribute: attribute.number) else {
            return attribute.valueBeforeItExisted
        }
        return try value(row, at: place)
    }
}
