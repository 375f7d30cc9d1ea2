// Applies a state in parts, as one transaction.
//
// Invariants:
// SA1  The parts come in their order, and each object of the state comes once, in the order of the names.
// SA2  A written reference leads to an object of the state.
// SA3  Memory: one part, and 56 bytes for each stretch of consecutive names. The memory of the transaction itself
//      depends on the store's indexes.

internal import FoundationEssentials

/// Applies one state once. For one thread.
struct StateApplication {
    private let base: Snapshot
    private let draft: Draft
    private let identifier: UUID
    /// Whether the objects that are here are deleted first, and the store belongs to a group.
    private let isReplacement: Bool
    /// The numbers of entities whose objects stay in any case.
    private let kept: Set<UInt16>
    private(set) var hasDeleted = false
    private var beginning: ExportedTransaction?
    /// In the order of the objects. Nothing else grows with the state: SA3.
    private var stretches: [Stretch] = []
    /// The places in `stretches`, in the order of the names.
    private var byName: [Int] = []
    /// The next object of the state: its stretch, and its place there.
    private var next: (stretch: Int, offset: UInt64) = (0, 0)
    private var objects: UInt64 = 0
    private(set) var isComplete = false
    /// The last shape, and the position of each of its attributes here.
    private var shape: (entity: String, attributes: [String], layout: RowLayout, positions: [Int])?

    private struct Stretch {
        var store: UUID
        var first: ObjectID
        /// The first object here. Its number is 0 until all stretches are known.
        var local: UInt64
        var count: UInt64
        var entity: UInt16

        var end: UInt64 { first.rawValue + count }
    }

    init(
        _ base: Snapshot, _ draft: Draft, of identifier: UUID, isReplacement: Bool = false,
        keeping kept: Set<UInt16> = []
    ) {
        (self.base, self.draft, self.identifier) = (base, draft, identifier)
        (self.isReplacement, self.kept) = (isReplacement, kept)
    }

    /// Applies the next part.
    mutating func apply(_ part: ExportedStatePart) throws(StoreError) {
        guard !isComplete else { throw Self.malformed("parts follow its end") }
        switch part {
        case .beginning(let transaction):
            guard beginning == nil else { throw Self.malformed("it begins twice") }
            try begin(transaction)
        case .stretches(let more):
            guard byName.isEmpty, next.stretch == 0 else { throw Self.malformed("names follow its objects") }
            for stretch in more { try add(stretch) }
        case .objects(let changes):
            if byName.isEmpty { try assignNumbers() }
            for change in changes { try insert(change) }
        case .aliases(let aliases):
            if byName.isEmpty { try assignNumbers() }
            for alias in aliases { try write(alias) }
        case .end(let count):
            if byName.isEmpty { try assignNumbers() }
            guard next.stretch == stretches.count, count == objects else {
                throw Self.malformed("it has fewer objects than names")
            }
            try writeMap()
            isComplete = true
        }
    }

    static func malformed(_ reason: String) -> StoreError {
        StoreError(.exportMalformed, "This is not a whole state of a store: \(reason). Export it again.")
    }

    // MARK: The beginning

    private mutating func begin(_ state: ExportedTransaction) throws(StoreError) {
        guard state.holds != nil, state.changes.isEmpty else { throw Self.malformed("it begins with a transaction") }
        try state.validate()
        let origins = try AppliedOrigins(base)
        try origins.requireNext(state)
        try origins.requireState(state)
        let definitions = try ApplySchema.definitions(for: state, draft.catalog, isMerged: isReplacement)
        if !definitions.isEmpty { try draft.changeSchema(definitions) }
        if isReplacement { hasDeleted = try base.deleteObjects(in: draft, except: kept) }
        try origins.note(state, isSkipped: false, in: draft)
        try ExportReach.write(origin: state.store, isSkipped: false, on: base, to: draft)
        beginning = state
    }

    private mutating func add(_ stretch: ExportedStretch) throws(StoreError) {
        guard let beginning else { throw Self.malformed("it does not begin with its beginning") }
        let store = stretch.first.store ?? beginning.store
        // Only a store whose objects the state's store has applied names objects of this one: `requireState`.
        guard store != identifier, stretch.count > 0,
            stretch.count <= FormatLimits.maximumObjectNumber + 1 - stretch.first.id.number
        else { throw Self.malformed("the names of its objects are impossible") }
        stretches.append(
            Stretch(
                store: store, first: stretch.first.id, local: 0, count: stretch.count,
                entity: try layout(stretch.entity).number))
    }

    /// Gives each object its number here: those of an entity are consecutive.
    private mutating func assignNumbers() throws(StoreError) {
        guard beginning != nil else { throw Self.malformed("it does not begin with its beginning") }
        var start = 0
        while start < stretches.count {
            let entity = stretches[start].entity
            var (end, count) = (start, 0 as UInt64)
            while end < stretches.count, stretches[end].entity == entity {
                // Each count is below 2^48, and a list has fewer than 2^16 times that.
                let (sum, isTooLarge) = count.addingReportingOverflow(stretches[end].count)
                guard !isTooLarge else { throw .tooManyObjects }
                (end, count) = (end + 1, sum)
            }
            var number = try draft.draw(entity: entity, count: count)
            for index in start..<end {
                stretches[index].local = number
                number += stretches[index].count
            }
            start = end
        }
        try sortByName()
    }

    private mutating func sortByName() throws(StoreError) {
        let stretches = stretches
        func isBefore(_ left: Int, _ right: Int) -> Bool {
            let (a, b) = (stretches[left], stretches[right])
            return a.store == b.store ? a.first < b.first : Self.order(a.store) < Self.order(b.store)
        }
        byName = stretches.indices.sorted(by: isBefore)
        for (left, right) in zip(byName, byName.dropFirst())
        where stretches[left].store == stretches[right].store
            && stretches[left].end > stretches[right].first.rawValue
        {
            throw Self.malformed("two of its objects have one name")
        }
    }

    private static func order(_ store: UUID) -> UInt128 {
        UInt128(store.stored.high) << 64 | UInt128(store.stored.low)
    }

    // MARK: Objects

    private mutating func insert(_ change: ExportedChange) throws(StoreError) {
        guard change.kind == .insert, next.stretch < stretches.count else {
            throw Self.malformed("it has more objects than names")
        }
        let stretch = stretches[next.stretch]
        guard stretch.first.rawValue + next.offset == change.object.id.rawValue,
            stretch.store == change.object.store ?? beginning?.store,
            let object = ObjectID(entityNumber: stretch.entity, number: stretch.local + next.offset)
        else { throw Self.malformed("its objects are not in the order of their names") }
        let (layout, positions) = try shape(of: change)
        guard layout.number == stretch.entity, change.values.count == positions.count else {
            throw Self.malformed("an object does not fit its entity")
        }
        var row = layout.entity.attributes.map(\.valueBeforeItExisted)
        for (position, value) in zip(positions, change.values) {
            row[position] = try local(value, layout.entity.attributes[position].type)
        }
        try draft.insert(drawn: object, row)
        objects += 1
        next.offset += 1
        assert(next.offset <= stretch.count, "SA1: a stretch has more objects than names.")
        if next.offset == stretch.count { next = (next.stretch + 1, 0) }
    }

    private mutating func shape(of change: ExportedChange) throws(StoreError) -> (RowLayout, [Int]) {
        if let shape, isSameName(shape.entity, change.entity),
            shape.attributes.elementsEqual(change.attributes, by: isSameName)
        {
            return (shape.layout, shape.positions)
        }
        let layout = try layout(change.entity)
        var formerNames = NamesBefore(draft.catalog)
        var positions: [Int] = []
        for attribute in change.attributes {
            let name = IdentifierName(attribute)
            let former = formerNames.attribute(name, of: layout.number)
            guard
                let position = layout.entity.position(of: attribute)
                    ?? layout.entity.attributes.firstIndex(where: { $0.number == former })
            else { throw Self.malformed("an object has an attribute that its schema does not have") }
            positions.append(position)
        }
        guard Set(positions).count == positions.count else {
            throw Self.malformed("an object has an attribute twice")
        }
        shape = (change.entity, change.attributes, layout, positions)
        return (layout, positions)
    }

    private func layout(_ entity: String) throws(StoreError) -> RowLayout {
        guard
            let number = draft.catalog.number(ofEntity: entity) ?? draft.catalog.number(ofEntityFormerlyNamed: entity),
            let layout = draft.newestLayout(number), !layout.isReserved
        else { throw Self.malformed("it has objects of an entity that its schema does not have") }
        return layout
    }

    /// The value with the references that objects have here.
    private func local(_ value: ExportedValue, _ type: AttributeType) throws(StoreError) -> StoredValue {
        let stored: StoredValue
        switch value.content {
        case .plain(let plain): stored = plain
        case .object(let object): stored = .object(try local(object))
        case .orderedObjects(let objects): stored = .orderedObjects(try local(objects))
        case .objects(let objects): stored = .objectSet(try local(objects))
        }
        guard stored.fits(type) else {
            throw StoreError(.schemaMismatch, "A value of the state is not of its attribute's type: export it again.")
        }
        try ObjectList.require(stored)
        return stored
    }

    private func local(_ objects: [ExportedObject]) throws(StoreError) -> [ObjectID] {
        var found: [ObjectID] = []
        found.reserveCapacity(objects.count)
        for object in objects { found.append(try local(object)) }
        return found
    }

    /// The object here: SA2.
    private func local(_ object: ExportedObject) throws(StoreError) -> ObjectID {
        guard let store = object.store ?? beginning?.store else { throw Self.malformed("it has no store") }
        let order = Self.order(store)
        var (low, high) = (0, byName.count)
        // The last stretch that does not begin after the object.
        while low < high {
            let middle = (low + high) / 2
            let stretch = stretches[byName[middle]]
            let isAfter =
                stretch.store == store
                ? stretch.first.rawValue > object.id.rawValue : Self.order(stretch.store) > order
            if isAfter { high = middle } else { low = middle + 1 }
        }
        guard low > 0 else { throw Self.malformed("a reference leads to an object that it does not have") }
        let stretch = stretches[byName[low - 1]]
        guard stretch.store == store, object.id.rawValue < stretch.end,
            let local = ObjectID(
                entityNumber: stretch.entity, number: stretch.local + (object.id.rawValue - stretch.first.rawValue))
        else { throw Self.malformed("a reference leads to an object that it does not have") }
        return local
    }

    // MARK: The map

    /// A name that leads to an object of the state.
    private func write(_ alias: ExportedAlias) throws(StoreError) {
        guard let map = try ReservedEntity.handle(ReservedEntity.objects, draft.catalog) else { return }
        guard let store = alias.first.store ?? beginning?.store, store != identifier, alias.count > 0,
            alias.count <= FormatLimits.maximumObjectNumber + 1 - max(alias.first.id.number, alias.object.id.number)
        else { throw Self.malformed("the further names of its objects are impossible") }
        // Consecutive names may lead to objects that are not consecutive here.
        var run: (first: ObjectID, local: ObjectID, count: UInt64)?
        for place in 0..<alias.count {
            guard let name = Self.object(alias.first.id, place), let main = Self.object(alias.object.id, place) else {
                throw .tooManyObjects
            }
            let object = try local(ExportedObject(main, of: alias.object.store))
            if let last = run, last.local.rawValue + last.count == object.rawValue {
                run?.count += 1
            } else {
                if let run { try insert(store, run.first, run.local, run.count, isAlias: true, map) }
                run = (name, object, 1)
            }
        }
        if let run { try insert(store, run.first, run.local, run.count, isAlias: true, map) }
    }

    private static func object(_ first: ObjectID, _ place: UInt64) -> ObjectID? {
        ObjectID(entityNumber: first.entityNumber, number: first.number + place)
    }

    private func insert(
        _ store: UUID, _ first: ObjectID, _ local: ObjectID, _ count: UInt64, isAlias: Bool, _ map: EntityHandle
    ) throws(StoreError) {
        _ = try draft.insert(
            entity: map.number,
            [
                .uuid(store.stored), .int(Int64(bitPattern: first.rawValue)), .int(Int64(bitPattern: local.rawValue)),
                .int(Int64(count)), .bool(isAlias),
            ])
    }

    /// Stretches that are consecutive here and there are one record.
    private func writeMap() throws(StoreError) {
        guard let map = try ReservedEntity.handle(ReservedEntity.objects, draft.catalog) else { return }
        for stretch in stretches {
            guard let local = ObjectID(entityNumber: stretch.entity, number: stretch.local) else { continue }
            try insert(stretch.store, stretch.first, local, stretch.count, isAlias: false, map)
        }
    }
}
