// Maps objects of other stores to objects here, and back.

internal import FoundationEssentials

/// An object's name in every store except the one in which it was first inserted.
struct ForeignObject: Hashable {
    var store: UUID
    var id: ObjectID
}

/// The map in one state of a store. For one thread.
struct ObjectMap {
    /// Objects whose numbers are consecutive in both stores.
    struct Stretch {
        var record: ObjectID
        var store: UUID
        var foreign: ObjectID
        var local: ObjectID
        var count: UInt64
        /// Whether the objects have another name already, so that `foreign` is a second one: they were first inserted
        /// here, or came from a third store.
        var isAlias: Bool

        init?(_ row: Row) { self.init(record: row.id, row.values) }

        init?(record: ObjectID, _ values: [StoredValue]) throws(StoreError) {
            self.init(record: record, try values.map { (value) throws(StoreError) in try Value(value) })
        }

        private init?(record: ObjectID, _ values: [Value]) {
            guard values.count == 5, let store = values[0].uuid, let foreign = Self.object(values[1]),
                let local = Self.object(values[2]), let count = values[3].int, count > 0,
                let isAlias = values[4].bool,
                // Keeps sums from overflowing, for any content.
                count <= Int64(FormatLimits.maximumObjectNumber - max(foreign.number, local.number) + 1)
            else { return nil }
            (self.record, self.store, self.foreign, self.local) = (record, store, foreign, local)
            (self.count, self.isAlias) = (UInt64(count), isAlias)
        }

        private static func object(_ value: Value) -> ObjectID? {
            value.int.flatMap { ObjectID(rawValue: UInt64(bitPattern: $0)) }
        }

        func local(of object: ForeignObject) -> ObjectID? {
            guard object.store == store, object.id.entityNumber == foreign.entityNumber else { return nil }
            return Self.moved(local, object.id, foreign, count)
        }

        func foreign(of object: ObjectID) -> ForeignObject? {
            guard object.entityNumber == local.entityNumber else { return nil }
            return Self.moved(foreign, object, local, count).map { ForeignObject(store: store, id: $0) }
        }

        /// Consecutive objects of it.
        func part(
            from start: UInt64, count: UInt64
        ) -> (foreign: ForeignObject, local: ObjectID, count: UInt64, isAlias: Bool)? {
            guard let first = ObjectID(entityNumber: foreign.entityNumber, number: foreign.number + start),
                let here = ObjectID(entityNumber: local.entityNumber, number: local.number + start)
            else { return nil }
            return (ForeignObject(store: store, id: first), here, count, isAlias)
        }

        private static func moved(
            _ base: ObjectID, _ object: ObjectID, _ start: ObjectID, _ count: UInt64
        ) -> ObjectID? {
            guard object.number >= start.number, object.number - start.number < count else { return nil }
            return ObjectID(entityNumber: base.entityNumber, number: base.number + (object.number - start.number))
        }
    }

    private let snapshot: Snapshot
    /// Nil if nothing was ever applied.
    private let handle: EntityHandle?
    /// The stretches found last, by store and entity, and by entity here. The next lookup is usually near.
    private var found: [ForeignObject: Stretch] = [:]
    private var foundHere: [UInt16: Stretch] = [:]
    /// Records of the state that are not there any more.
    private var dividedRecords: Set<ObjectID> = []

    init(_ snapshot: Snapshot) throws(StoreError) {
        self.snapshot = snapshot
        handle = try ReservedEntity.handle(ReservedEntity.objects, snapshot.view.catalog)
    }

    /// The corresponding object here; nil if it is unknown. It may have been deleted.
    mutating func local(of object: ForeignObject) throws(StoreError) -> ObjectID? {
        try stretch(of: object)?.local(of: object)
    }

    /// The stretch that begins at that object, or the last one before it.
    mutating func stretch(of object: ForeignObject) throws(StoreError) -> Stretch? {
        guard handle != nil, let first = ObjectID(entityNumber: object.id.entityNumber, number: 1) else { return nil }
        let place = ForeignObject(store: object.store, id: first)
        if let known = found[place], known.local(of: object) != nil { return known }
        let stretch = try last(
            ["store", "foreign"], from: [.uuid(object.store), Self.value(first)],
            to: [.uuid(object.store), Self.value(object.id)])
        if let stretch { found[place] = stretch }
        return stretch
    }

    /// The name by which other stores know the object; nil if it was first inserted here.
    mutating func foreign(of object: ObjectID) throws(StoreError) -> ForeignObject? {
        guard handle != nil, let first = ObjectID(entityNumber: object.entityNumber, number: 1) else { return nil }
        if let known = foundHere[object.entityNumber], let foreign = known.foreign(of: object) { return foreign }
        guard
            let stretch = try last(
                ["isAlias", "local"], from: [false, Self.value(first)], to: [false, Self.value(object)])
        else { return nil }
        foundHere[object.entityNumber] = stretch
        return stretch.foreign(of: object)
    }

    /// All recorded names of an object.
    func names(of object: ObjectID) throws(StoreError) -> [ForeignObject] {
        guard let handle, let first = ObjectID(entityNumber: object.entityNumber, number: 1) else { return [] }
        var names: [ForeignObject] = []
        for isAlias in [false, true] {
            // Stretches of further names may overlap, so all that begin before the object are looked at.
            try snapshot.lendRows(
                of: handle, by: ["isAlias", "local"], from: .including([.bool(isAlias), Self.value(first)]),
                to: .including([.bool(isAlias), Self.value(object)]), reversed: true
            ) { (row) throws(StoreError) in
                let stretch = Stretch(try row.row(entity: handle.name, names: handle.attributes))
                if let name = stretch?.foreign(of: object) { names.append(name) }
                return isAlias
            }
        }
        return names
    }

    private func last(
        _ attributes: [String], from first: [Value], to last: [Value]
    ) throws(StoreError) -> Stretch? {
        guard let handle else { return nil }
        var stretch: Stretch?
        try snapshot.lendRows(
            of: handle, by: attributes, from: .including(first), to: .including(last), reversed: true
        ) { (row) throws(StoreError) in
            stretch = Stretch(try row.row(entity: handle.name, names: handle.attributes))
            return false
        }
        return stretch
    }

    /// An ID in the form that the map keeps.
    static func value(_ object: ObjectID) -> Value { .int(Int64(bitPattern: object.rawValue)) }
}

// MARK: Writing

extension ObjectMap {
    /// Adds pairs of foreign objects and objects here. Pairs that continue a stretch become part of it.
    mutating func add(
        _ pairs: [(foreign: ForeignObject, local: ObjectID)], isAlias: Bool, to draft: Draft
    ) throws(StoreError) {
        guard let written = try ReservedEntity.handle(ReservedEntity.objects, draft.catalog) else { return }
        let sorted = pairs.inOrder { $0.foreign.id < $1.foreign.id }
        var stores: [UUID] = []
        for pair in sorted where !stores.contains(pair.foreign.store) { stores.append(pair.foreign.store) }
        for store in stores {
            let own = sorted.filter { $0.foreign.store == store }
            var start = 0
            for index in own.indices where index + 1 == own.count || !Self.follows(own[index + 1], own[index]) {
                try add(own[start], UInt64(index + 1 - start), isAlias, written, draft)
                start = index + 1
            }
        }
    }

    /// Makes names lead to other objects than before, or to their first ones.
    mutating func assign(
        _ names: [(foreign: ForeignObject, local: ObjectID, isAlias: Bool)], to draft: Draft
    ) throws(StoreError) {
        guard let written = try ReservedEntity.handle(ReservedEntity.objects, draft.catalog) else { return }
        // By record: each is divided once, whatever the number of its names that move.
        var divided: [ObjectID: (stretch: Stretch, moved: Set<UInt64>)] = [:]
        for name in names {
            guard let old = try stretch(of: name.foreign), old.local(of: name.foreign) != nil else { continue }
            divided[old.record, default: (old, [])].moved.insert(name.foreign.id.number - old.foreign.number)
        }
        for (record, (old, moved)) in divided {
            try draft.delete(record)
            dividedRecords.insert(record)
            var start: UInt64 = 0
            for place in moved.sorted() + [old.count] {
                try insert(old.part(from: start, count: place - start), written, draft)
                start = place + 1
            }
        }
        (found, foundHere) = ([:], [:])
        for name in names { try insert((name.foreign, name.local, 1, name.isAlias), written, draft) }
    }

    private func insert(
        _ part: (foreign: ForeignObject, local: ObjectID, count: UInt64, isAlias: Bool)?, _ written: EntityHandle,
        _ draft: Draft
    ) throws(StoreError) {
        guard let part, part.count > 0 else { return }
        let values: [StoredValue] = [
            .uuid(part.foreign.store.stored), .int(Int64(bitPattern: part.foreign.id.rawValue)),
            .int(Int64(bitPattern: part.local.rawValue)), .int(Int64(part.count)), .bool(part.isAlias),
        ]
        _ = try draft.insert(entity: written.number, values)
    }

    private static func follows(
        _ next: (foreign: ForeignObject, local: ObjectID), _ last: (foreign: ForeignObject, local: ObjectID)
    ) -> Bool {
        next.foreign.id.rawValue == last.foreign.id.rawValue &+ 1 && next.local.rawValue == last.local.rawValue &+ 1
    }

    private mutating func add(
        _ first: (foreign: ForeignObject, local: ObjectID), _ count: UInt64, _ isAlias: Bool, _ written: EntityHandle,
        _ draft: Draft
    ) throws(StoreError) {
        if let last = try stretch(of: first.foreign), last.isAlias == isAlias, !dividedRecords.contains(last.record),
            last.foreign.rawValue &+ last.count == first.foreign.id.rawValue,
            last.local.rawValue &+ last.count == first.local.rawValue
        {
            let sum = StoredValue.int(Int64(last.count + count))
            _ = try draft.update(last.record, [(position: 3, value: sum)])
            return
        }
        try insert((first.foreign, first.local, count, isAlias), written, draft)
    }
}
