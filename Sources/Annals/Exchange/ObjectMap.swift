// Maps objects of other stores to objects here, and back.
//
// Invariants:
// OM1  The names of one object that is gone, and has no place among the objects here, lead to a record of the map: that
//      of its main name. So they stay together, and lead to no other object.

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

    /// The last stretch before an object: the same one for all objects from its beginning to `last`.
    private struct Found {
        /// Nil if there is none.
        var stretch: Stretch?
        /// The number of its first object; 1 if there is none.
        var first: UInt64
        /// The number of the last object that was looked up.
        var last: UInt64

        func covers(_ number: UInt64) -> Bool {
            number >= first && (number <= last || number - first < stretch?.count ?? 0)
        }
    }

    private let snapshot: Snapshot
    /// Nil if nothing was ever applied.
    private let handle: EntityHandle?
    /// The results found last, by store and entity, and by entity here. The next lookup is usually near.
    private var found: [ForeignObject: Found] = [:]
    private var foundHere: [UInt16: Found] = [:]
    /// Records of the state that are not there any more.
    private var dividedRecords: Set<ObjectID> = []

    init(_ snapshot: Snapshot) throws(StoreError) {
        self.snapshot = snapshot
        handle = try ReservedEntity.handle(ReservedEntity.objects, snapshot.view.catalog)
    }

    /// The target of a name.
    enum Target {
        /// It may have been deleted.
        case object(ObjectID)
        /// The record of an object that is gone (OM1).
        case gone(ObjectID)
        case unknown
    }

    mutating func target(of object: ForeignObject) throws(StoreError) -> Target {
        guard let local = try stretch(of: object)?.local(of: object) else { return .unknown }
        return local.entityNumber == handle?.number ? .gone(local) : .object(local)
    }

    /// The corresponding object here; nil if it is unknown. It may have been deleted.
    mutating func local(of object: ForeignObject) throws(StoreError) -> ObjectID? {
        guard case .object(let local) = try target(of: object) else { return nil }
        return local
    }

    /// The stretch that begins at that object, or the last one before it.
    mutating func stretch(of object: ForeignObject) throws(StoreError) -> Stretch? {
        guard handle != nil, let first = ObjectID(entityNumber: object.id.entityNumber, number: 1) else { return nil }
        let place = ForeignObject(store: object.store, id: first)
        if let known = found[place], known.covers(object.id.number) { return known.stretch }
        let stretch = try last(
            ["store", "foreign"], from: [.uuid(object.store), Self.value(first)],
            to: [.uuid(object.store), Self.value(object.id)])
        found[place] = Found(stretch: stretch, first: stretch?.foreign.number ?? 1, last: object.id.number)
        return stretch
    }

    /// The name by which other stores know the object; nil if it was first inserted here.
    mutating func foreign(of object: ObjectID) throws(StoreError) -> ForeignObject? {
        guard handle != nil, let first = ObjectID(entityNumber: object.entityNumber, number: 1) else { return nil }
        if let known = foundHere[object.entityNumber], known.covers(object.number) {
            return known.stretch?.foreign(of: object)
        }
        let stretch = try last(
            ["isAlias", "local"], from: [false, Self.value(first)], to: [false, Self.value(object)])
        foundHere[object.entityNumber] = Found(
            stretch: stretch, first: stretch?.local.number ?? 1, last: object.number)
        return stretch?.foreign(of: object)
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
        try remove(names.map(\.foreign), written, draft)
        for name in names { _ = try insert((name.foreign, name.local, 1, name.isAlias), written, draft) }
    }

    /// Makes all names of an object that is gone lead to no object here (OM1).
    mutating func forget(_ main: ForeignObject, _ names: [ForeignObject], in draft: Draft) throws(StoreError) {
        guard let written = try ReservedEntity.handle(ReservedEntity.objects, draft.catalog) else { return }
        try remove(names, written, draft)
        guard let record = try insert((main, main.id, 1, false), written, draft) else { return }
        _ = try draft.update(record, [(position: 2, value: .int(Int64(bitPattern: record.rawValue)))])
        for name in names where name != main { _ = try insert((name, record, 1, true), written, draft) }
    }

    /// Removes names from the records that have them.
    private mutating func remove(
        _ names: [ForeignObject], _ written: EntityHandle, _ draft: Draft
    ) throws(StoreError) {
        // By record: each is divided once, whatever the number of its names that move.
        var divided: [ObjectID: (stretch: Stretch, moved: Set<UInt64>)] = [:]
        for name in names {
            guard let old = try stretch(of: name), old.local(of: name) != nil else { continue }
            divided[old.record, default: (old, [])].moved.insert(name.id.number - old.foreign.number)
        }
        for (record, (old, moved)) in divided {
            try draft.delete(record)
            dividedRecords.insert(record)
            var start: UInt64 = 0
            for place in moved.sorted() + [old.count] {
                _ = try insert(old.part(from: start, count: place - start), written, draft)
                start = place + 1
            }
        }
        (found, foundHere) = ([:], [:])
    }

    private func insert(
        _ part: (foreign: ForeignObject, local: ObjectID, count: UInt64, isAlias: Bool)?, _ written: EntityHandle,
        _ draft: Draft
    ) throws(StoreError) -> ObjectID? {
        guard let part, part.count > 0 else { return nil }
        let values: [StoredValue] = [
            .uuid(part.foreign.store.stored), .int(Int64(bitPattern: part.foreign.id.rawValue)),
            .int(Int64(bitPattern: part.local.rawValue)), .int(Int64(part.count)), .bool(part.isAlias),
        ]
        return try draft.insert(entity: written.number, values)
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
        _ = try insert((first.foreign, first.local, count, isAlias), written, draft)
    }
}
