// Reads a state in parts, in the memory of one part.

internal import FoundationEssentials

/// Returns the parts of one state, one after the other. For one thread at a time.
///
/// It takes the memory of one part, whatever the size of the store. It reads the rows twice: for the names, and for the
/// values. It keeps the snapshot, so that its file stays readable.
public struct ExportedStateReader {
    private enum Phase {
        case beginning
        /// The entity, and the object number to go on with.
        case stretches(entity: Int, from: UInt64)
        case objects(entity: Int, from: UInt64)
        /// The record of the map, and the place in it to go on with.
        case aliases(from: UInt64, offset: UInt64)
        case over
    }

    private let state: Snapshot
    private let view: View
    private let entities: [EntityHandle]
    private let leftOut: Set<UInt16>
    private var map: ObjectMap
    /// The size of the values in a part, about.
    private let partBytes: Int
    private var phase = Phase.beginning
    private var objects: UInt64 = 0

    /// - Parameter leftOut: The numbers of entities that are no part of the state. No attribute may refer to one.
    init(_ state: Snapshot, partBytes: Int, leavingOut leftOut: Set<UInt16>) throws(StoreError) {
        self.state = state
        (self.partBytes, self.leftOut) = (partBytes, leftOut)
        view = state.view
        map = try ObjectMap(state)
        var entities: [EntityHandle] = []
        for entity in view.catalog.entities(version: view.catalog.newestVersion)
        where !entity.name.isReserved && !leftOut.contains(entity.number) {
            let handle = try state.handle(ofEntity: entity.name.text)
            try state.requireKnown(handle.number)
            entities.append(handle)
        }
        self.entities = entities
        // A store without transactions has no state.
        if view.number == 0 { phase = .over }
    }

    /// The next part; nil after the end. Throws `StoreError` as reading a snapshot does.
    public mutating func next() throws -> ExportedStatePart? { try nextPart() }

    private mutating func nextPart() throws(StoreError) -> ExportedStatePart? {
        while true {
            switch phase {
            case .beginning:
                phase = .stretches(entity: 0, from: 1)
                return .beginning(try beginning())
            case .stretches(let entity, let first):
                guard entity < entities.count else {
                    phase = .objects(entity: 0, from: 1)
                    continue
                }
                let (stretches, next) = try readStretches(entities[entity], from: first)
                phase = next.map { .stretches(entity: entity, from: $0) } ?? .stretches(entity: entity + 1, from: 1)
                if !stretches.isEmpty { return .stretches(stretches) }
            case .objects(let entity, let first):
                guard entity < entities.count else {
                    phase = .aliases(from: 1, offset: 0)
                    continue
                }
                let (changes, next) = try readObjects(entities[entity], from: first)
                phase = next.map { .objects(entity: entity, from: $0) } ?? .objects(entity: entity + 1, from: 1)
                objects += UInt64(changes.count)
                if !changes.isEmpty { return .objects(changes) }
            case .aliases(let record, let offset):
                let (aliases, next) = try readAliases(from: record, offset: offset)
                if aliases.isEmpty {
                    phase = .over
                    return .end(objects: objects)
                }
                phase = .aliases(from: next.record, offset: next.offset)
                return .aliases(aliases)
            case .over: return nil
            }
        }
    }

    private func beginning() throws(StoreError) -> ExportedTransaction {
        var schema: [EntityDescription] = []
        for entity in entities { schema.append(try EntityDescription(entity.layout.entity, view.catalog)) }
        return ExportedTransaction(
            token: state.token, previous: nil, microseconds: view.time, author: nil, contextName: nil, origin: nil,
            originPrevious: nil, holds: try AppliedOrigins(state).tokens(), schema: schema, renames: [], changes: [])
    }

    // MARK: Names

    /// A stretch takes about this much of a part.
    private static let stretchBytes = 32

    /// Returns stretches, and the object number to go on with; nil if these are the entity's last.
    private mutating func readStretches(
        _ entity: EntityHandle, from first: UInt64
    ) throws(StoreError) -> (stretches: [ExportedStretch], next: UInt64?) {
        var stretches: [ExportedStretch] = []
        var next: UInt64?
        let limit = max(1, partBytes / Self.stretchBytes)
        var map = map
        try view.scan(entity: entity.number, from: first) { (object, _) throws(StoreError) in
            let name = try Self.name(of: object, &map)
            if let last = stretches.last, last.first.store == name.store,
                last.first.id.rawValue + last.count == name.id.rawValue
            {
                stretches[stretches.count - 1] = ExportedStretch(
                    entity: entity.name, first: last.first, count: last.count + 1)
            } else if stretches.count == limit {
                next = object.number
                return false
            } else {
                stretches.append(ExportedStretch(entity: entity.name, first: name, count: 1))
            }
            return true
        }
        self.map = map
        return (stretches, next)
    }

    /// Returns further names of existing objects, and the place in the map to go on with.
    private func readAliases(
        from first: UInt64, offset: UInt64
    ) throws(StoreError) -> (aliases: [ExportedAlias], next: (record: UInt64, offset: UInt64)) {
        guard let handle = try ReservedEntity.handle(ReservedEntity.objects, view.catalog) else { return ([], (0, 0)) }
        var aliases: [ExportedAlias] = []
        var next = (record: first, offset: offset)
        let limit = max(1, partBytes / Self.stretchBytes)
        var map = map
        try view.scan(entity: handle.number, from: first) { (record, bytes) throws(StoreError) in
            if aliases.count >= limit { return false }
            if record.number > next.record { next = (record.number, 0) }
            var values: [StoredValue] = []
            for position in 0..<handle.layout.count {
                values.append(try view.value(of: handle.layout, at: position, in: bytes))
            }
            guard let stretch = try ObjectMap.Stretch(record: record, values), stretch.isAlias else { return true }
            while next.offset < stretch.count, aliases.count < limit {
                defer { next.offset += 1 }
                guard let part = stretch.part(from: next.offset, count: 1),
                    part.local.entityNumber != handle.number, !leftOut.contains(part.local.entityNumber),
                    try view.contains(part.local)
                else {
                    continue
                }
                let name = ExportedObject(part.foreign.id, of: part.foreign.store)
                Self.add(name, try Self.name(of: part.local, &map), to: &aliases)
            }
            return true
        }
        // After the last record nothing is left.
        return (aliases, next)
    }

    private static func add(_ name: ExportedObject, _ object: ExportedObject, to aliases: inout [ExportedAlias]) {
        if let last = aliases.last, last.first.store == name.store, last.object.store == object.store,
            last.first.id.rawValue + last.count == name.id.rawValue,
            last.object.id.rawValue + last.count == object.id.rawValue
        {
            aliases[aliases.count - 1] = ExportedAlias(first: last.first, of: last.object, count: last.count + 1)
        } else {
            aliases.append(ExportedAlias(first: name, of: object, count: 1))
        }
    }

    // MARK: Objects

    /// Returns objects, and the object number to go on with; nil if these are the entity's last.
    private mutating func readObjects(
        _ entity: EntityHandle, from first: UInt64
    ) throws(StoreError) -> (changes: [ExportedChange], next: UInt64?) {
        let (layout, names) = (entity.layout, entity.layout.names)
        var changes: [ExportedChange] = []
        var (bytes, next) = (0, nil as UInt64?)
        var map = map
        try view.scan(entity: entity.number, from: first) { (object, row) throws(StoreError) in
            if bytes >= partBytes {
                next = object.number
                return false
            }
            var values: [ExportedValue] = []
            values.reserveCapacity(layout.count)
            for position in 0..<layout.count {
                let value = try view.value(of: layout, at: position, in: row)
                bytes += 16 + value.variableBytes
                values.append(try exported(value, &map))
            }
            changes.append(
                ExportedChange(
                    kind: .insert, object: try Self.name(of: object, &map), entity: entity.name, attributes: names,
                    values: values, before: nil))
            return true
        }
        self.map = map
        return (changes, next)
    }

    private func exported(_ value: StoredValue, _ map: inout ObjectMap) throws(StoreError) -> ExportedValue {
        switch value {
        case .object(let object):
            let name = try names(of: [object], &map).first
            return name.map { ExportedValue(.object($0)) } ?? .absent
        case .orderedObjects(let objects): return ExportedValue(.orderedObjects(try names(of: objects, &map)))
        case .objects(let objects): return ExportedValue(.objects(try names(of: objects, &map)))
        default: return ExportedValue(.plain(value))
        }
    }

    /// References to deleted objects are left out: they would lead nowhere.
    private func names(of objects: [ObjectID], _ map: inout ObjectMap) throws(StoreError) -> [ExportedObject] {
        var names: [ExportedObject] = []
        for object in objects where try view.contains(object) { names.append(try Self.name(of: object, &map)) }
        return names
    }

    private static func name(of object: ObjectID, _ map: inout ObjectMap) throws(StoreError) -> ExportedObject {
        guard let foreign = try map.foreign(of: object) else { return ExportedObject(object) }
        return ExportedObject(foreign.id, of: foreign.store)
    }
}
