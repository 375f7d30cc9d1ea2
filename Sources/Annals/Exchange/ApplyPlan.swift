// The plan for applying an exported transaction. It is complete before anything is written.
//
// Invariants:
// AP1  Nothing is written for an object with a conflict, unless the policy allows it.
// AP2  A written reference names an object that exists here, or that this transaction inserts.
// AP3  References may name objects that come later in the transaction: IDs are assigned first.

internal import FoundationEssentials

/// Applies one transaction once. For one thread.
struct ApplyPlan {
    let transaction: ExportedTransaction
    let policy: ConflictPolicy
    let base: Snapshot
    let draft: Draft
    /// Knows the attributes that are computed again here. Their exported values count for nothing.
    private let upkeep: (any TransactionUpkeep)?
    /// The changes to leave out, because earlier trials gave derived values that cannot be written.
    let withheld: WithheldChanges
    var map: ObjectMap
    private(set) var conflicts: [ApplyConflict] = []
    /// The insertions and updates, in the order of the changes.
    private var steps: [(object: ObjectID, step: PlannedStep)] = []
    /// The objects to delete after them.
    private var deletions: [(change: ExportedChange, object: ObjectID)] = []
    /// The foreign objects that get an ID here, or correspond to an existing object.
    private var inserted: [ForeignObject: ObjectID] = [:]
    private var aliases: [ForeignObject: ObjectID] = [:]
    /// The object of each change, by the change's index; nil if the change is left out.
    private var targets: [ObjectID?] = []
    /// The objects that this transaction inserts, or inserts again.
    private var arriving: Set<ObjectID> = []
    /// Objects that lose keys in this transaction: these keys are free.
    var givesUpKeys: [ObjectID: Set<UInt16>] = [:]
    var deleted: Set<ObjectID> = []
    var claimed: [UniqueKey: ObjectID] = [:]
    /// Names that lead to other objects from now on, if a mirror has merged the transaction.
    private let joined: [ForeignObject: ForeignObject]
    /// Names that lead to new objects from now on.
    private let separated: Set<ForeignObject>
    /// Objects that go because others have taken all their names.
    private let removed: [ObjectID]
    /// The names of objects that are gone, and whose names must lead to no object here.
    private let gone: [(main: ForeignObject, names: [ForeignObject])]
    private var formerNames: NamesBefore

    init(
        _ transaction: ExportedTransaction, _ policy: ConflictPolicy, _ base: Snapshot, _ draft: Draft,
        _ upkeep: (any TransactionUpkeep)?, withheld: WithheldChanges,
        joined: [ForeignObject: ForeignObject] = [:], separated: Set<ForeignObject> = [],
        removed: [ObjectID] = [], gone: [(main: ForeignObject, names: [ForeignObject])] = []
    ) throws(StoreError) {
        (self.transaction, self.policy, self.base, self.draft) = (transaction, policy, base, draft)
        (self.upkeep, self.withheld) = (upkeep, withheld)
        (self.joined, self.separated, self.removed, self.gone) = (joined, separated, removed, gone)
        deleted.formUnion(removed)
        map = try ObjectMap(base)
        formerNames = NamesBefore(draft.catalog)
    }

    /// Finds the object of each change (AP3), then plans each change.
    mutating func work() throws(StoreError) {
        var named: Set<ForeignObject> = []
        for change in transaction.changes where !named.insert(foreign(change.object)).inserted {
            throw StoreError.malformedExport("it changes an object twice")
        }
        for change in transaction.changes { try noteKeysGivenUp(change) }
        targets.reserveCapacity(transaction.changes.count)
        for change in transaction.changes { targets.append(try target(of: change)) }
        for case (let change, let target?) in zip(transaction.changes, targets) where change.kind == .insert {
            arriving.insert(target)
        }
        var touched: Set<ObjectID> = []
        for (change, target) in zip(transaction.changes, targets) {
            guard let target else { continue }
            // Two foreign objects are one here: the first has its place.
            guard touched.insert(target).inserted else {
                conflict(change, target, .keyTaken(by: target))
                continue
            }
            switch change.kind {
            case .insert: try insert(change, target)
            case .update: try update(change, target)
            case .delete: deletions.append((change, target))
            }
        }
    }

    /// Writes the steps (AP1). Deletions that delete rules deny are conflicts, and left out.
    mutating func carryOut() throws(StoreError) {
        for (object, step) in steps { try draft.carryOut(step, on: object) }
        for object in removed { try draft.delete(object) }
        let undeletable = try DeleteRules.undeletable(deletions.map(\.object), draft, draft.shape)
        for (change, object) in deletions {
            guard let referrer = undeletable[object] else {
                try draft.delete(object)
                continue
            }
            conflict(change, object, .stillReferred(by: referrer))
        }
        var map = map
        let written = Set(steps.map(\.object))
        let kept = inserted.filter { written.contains($0.value) }
        var moved: [(foreign: ForeignObject, local: ObjectID, isAlias: Bool)] = []
        var new: [(foreign: ForeignObject, local: ObjectID)] = []
        for (foreign, local) in kept {
            var hasRecord = separated.contains(foreign)
            if case .gone = try map.target(of: foreign) { hasRecord = true }
            if hasRecord { moved.append((foreign, local, false)) } else { new.append((foreign, local)) }
        }
        for foreign in joined.keys {
            guard let object = try local(ExportedObject(foreign.id, of: foreign.store)) else { continue }
            moved.append((foreign, object, true))
        }
        if !moved.isEmpty { try map.assign(moved, to: draft) }
        for (main, names) in gone { try map.forget(main, names, in: draft) }
        try map.add(new, isAlias: false, to: draft)
        try map.add(aliases.map { (foreign: $0.key, local: $0.value) }, isAlias: true, to: draft)
    }

    private func isDerived(_ attribute: UInt16, _ entity: UInt16) -> Bool {
        upkeep?.isDerived(attribute, of: entity, draft) ?? false
    }

    func isWorkedOut(_ attribute: UInt16, _ entity: UInt16) -> Bool {
        upkeep?.isWorkedOut(attribute, of: entity, draft) ?? false
    }

    mutating func conflict(
        _ change: ExportedChange, _ local: ObjectID?, _ reason: ApplyConflict.Reason, _ attributes: [String] = []
    ) {
        conflicts.append(
            ApplyConflict(
                object: change.object, local: local, entity: change.entity, kind: change.kind, reason: reason,
                attributes: attributes))
    }

    // MARK: Which objects are meant

    func foreign(_ object: ExportedObject) -> ForeignObject {
        ForeignObject(store: object.store ?? transaction.store, id: object.id)
    }

    /// The corresponding object here; nil if it is unknown. It may have been deleted.
    mutating func local(_ object: ExportedObject) throws(StoreError) -> ObjectID? {
        var foreign = foreign(object)
        if let other = joined[foreign] { foreign = other }
        if separated.contains(foreign) { return inserted[foreign] }
        if foreign.store == base.storeIdentifier {
            switch try map.target(of: foreign) {
            case .object(let moved): return moved
            case .gone: return inserted[foreign]
            case .unknown: return wasHere(foreign.id) ? foreign.id : nil
            }
        }
        if let object = inserted[foreign] ?? aliases[foreign] { return object }
        return try map.local(of: foreign)
    }

    /// The objects that it changes, for obstacles found when it is carried out.
    var planned: PlannedObjects {
        var planned = PlannedObjects(arriving: arriving)
        for case (let change, let target?) in zip(transaction.changes, targets)
        where planned.foreign[target] == nil {
            planned.foreign[target] = foreign(change.object)
        }
        return planned
    }

    /// The ID here of an object that the transaction inserts.
    func arrived(_ object: ForeignObject) -> ObjectID? { inserted[object] }

    private func wasHere(_ object: ObjectID) -> Bool {
        draft.newestLayout(object.entityNumber).map { !$0.isReserved } ?? false
            && object.number < base.view.nextNumber(of: object.entityNumber)
    }

    private func isHere(_ object: ObjectID) throws(StoreError) -> Bool {
        try base.view.contains(object)
    }

    /// The object to change; nil if the change is left out, because of a conflict or because nothing is to do.
    private mutating func target(of change: ExportedChange) throws(StoreError) -> ObjectID? {
        let local = try local(change.object)
        if change.kind != .insert || local != nil, leavesOut(change, local) { return nil }
        if change.kind == .insert {
            if let local { return local }
            let foreign = foreign(change.object)
            guard foreign.store != base.storeIdentifier || separated.contains(foreign) else {
                conflict(change, nil, .unknownObject)
                return nil
            }
            return try place(change)
        }
        guard let local else {
            conflict(change, nil, .unknownObject)
            return nil
        }
        guard try isHere(local) else {
            if change.kind == .update { conflict(change, local, .deletedHere) }
            return nil
        }
        return local
    }

    /// The ID for an object that was never here. If another object has its unique key and may take its place, that
    /// object's ID.
    private mutating func place(_ change: ExportedChange) throws(StoreError) -> ObjectID? {
        let layout = try layout(ofEntity: change.entity)
        let foreign = foreign(change.object)
        if leavesOut(change, nil) {
            guard withheld.everything == nil, case .keyTaken(let holder)? = withheld.whole[foreign]?.reason,
                holder.entityNumber == layout.number, withheld.whole[foreign]?.named.isEmpty == false
            else { return nil }
            return try alias(foreign, holder)
        }
        if uniqueIndexes(layout.number).isEmpty { return try reserve(foreign, layout) }
        // References to objects that come later in the transaction are in no key that another object can have.
        let values = try values(change, change.values, layout).values
        var row = layout.entity.attributes.map(\.valueBeforeItExisted)
        for (position, value) in values { row[position] = value ?? .absent }
        if let (holder, attributes) = try keyHolder(row, layout, of: nil) {
            conflict(change, holder, .keyTaken(by: holder), names(attributes, layout))
            return try alias(foreign, holder)
        }
        let object = try reserve(foreign, layout)
        try claim(row, layout, object)
        return object
    }

    /// Makes an object here correspond to a foreign one from now on. Nil if that is not possible.
    private mutating func alias(_ foreign: ForeignObject, _ holder: ObjectID) throws(StoreError) -> ObjectID? {
        let hasNoOtherName = try map.foreign(of: holder) == nil
        guard hasNoOtherName, try isHere(holder), !deleted.contains(holder), givesUpKeys[holder] == nil,
            !aliases.values.contains(holder)
        else { return nil }
        aliases[foreign] = holder
        return holder
    }

    private mutating func reserve(_ foreign: ForeignObject, _ layout: RowLayout) throws(StoreError) -> ObjectID {
        let object = try draft.reserve(entity: layout.entity.number)
        inserted[foreign] = object
        return object
    }

    // MARK: Changes and values

    private mutating func insert(_ change: ExportedChange, _ target: ObjectID) throws(StoreError) {
        let layout = try layout(of: target)
        let (values, unknown) = try existing(try values(change, change.values, layout), layout)
        let isNew = inserted[foreign(change.object)] == target
        let isAlias = aliases[foreign(change.object)] == target
        if !unknown.isEmpty { conflict(change, target, .unknownReference, names(unknown, layout)) }
        if !isNew, try isHere(target) {
            if !isAlias { conflict(change, target, .insertedHere) }
            if policy == .exportWins { try overwrite(change, target, values, layout) }
            return
        }
        let deleted = try isNew ? nil : valuesOfDeleted(target, layout)
        var row = deleted ?? layout.entity.attributes.map(\.valueBeforeItExisted)
        for (position, value) in values { row[position] = value ?? .absent }
        let missing = row.indices.filter { row[$0] == .absent && !layout.entity.attributes[$0].isOptional }
        if !missing.isEmpty {
            if unknown.isEmpty { conflict(change, nil, .unknownReference, names(missing, layout)) }
            return
        }
        if isNew {
            steps.append((target, .insert(row)))
        } else if let (holder, attributes) = try keyHolder(row, layout, of: target) {
            conflict(change, target, .keyTaken(by: holder), names(attributes, layout))
        } else {
            try claim(row, layout, target)
            steps.append((target, .insertAgain(row)))
        }
    }

    private mutating func overwrite(
        _ change: ExportedChange, _ target: ObjectID, _ values: [(position: Int, value: StoredValue?)],
        _ layout: RowLayout
    ) throws(StoreError) {
        let now = try current(target, layout)
        var different = values.compactMap { place in
            place.value.flatMap { $0 == now[place.position] ? nil : (position: place.position, value: $0) }
        }
        leaveOut(change, target, &different, layout)
        try write(change, target, different, now, layout)
    }

    private mutating func update(_ change: ExportedChange, _ target: ObjectID) throws(StoreError) {
        let layout = try layout(of: target)
        let now = try current(target, layout)
        let (values, unknown) = try existing(try values(change, change.values, layout), layout)
        if !unknown.isEmpty { conflict(change, target, .unknownReference, names(unknown, layout)) }
        let left = withheldAttributes(foreign(change.object))
        let before = try change.before.map { (before) throws(StoreError) in
            try self.values(change, before, layout).values
        }
        var written: [(position: Int, value: StoredValue)] = []
        var changedHere: [Int] = []
        for (index, (position, value)) in values.enumerated() {
            guard let value, value != now[position] else { continue }
            if left.contains(layout.entity.attributes[position].number) { continue }
            // If the exported state left out a reference to a deleted object, the value is absent here. References to
            // objects deleted here count on neither side.
            let known = try before.map { (before) throws(StoreError) in try existing(before[index].value ?? .absent) }
            if !value.isSame(as: now[position]), try known?.isSame(as: existing(now[position])) != true,
                try isWritten(position, of: target, layout),
                !isDerived(layout.entity.attributes[position].number, layout.entity.number)
            {
                changedHere.append(position)
                if policy == .storeWins { continue }
            }
            written.append((position, value))
        }
        if !changedHere.isEmpty { conflict(change, target, .changedHere, names(changedHere, layout)) }
        leaveOut(change, target, &written, layout)
        try write(change, target, written, now, layout)
    }

    /// Writes the values that differ. Leaves out those of keys that other objects have.
    private mutating func write(
        _ change: ExportedChange, _ target: ObjectID, _ values: [(position: Int, value: StoredValue)],
        _ now: [StoredValue], _ layout: RowLayout
    ) throws(StoreError) {
        var left = values.filter { place in
            place.value != .absent || layout.entity.attributes[place.position].isOptional
        }
        let missing = values.map(\.position).filter { position in !left.contains { $0.position == position } }
        if !missing.isEmpty { conflict(change, target, .unknownReference, names(missing, layout)) }
        func row() -> [StoredValue] {
            var row = now
            for (position, value) in left { row[position] = value }
            return row
        }
        while let (holder, attributes) = try keyHolder(row(), layout, of: target) {
            let taken = left.filter { attributes.contains($0.position) }
            if taken.isEmpty { break }
            conflict(change, target, .keyTaken(by: holder), names(taken.map(\.position), layout))
            left.removeAll { attributes.contains($0.position) }
        }
        guard !left.isEmpty else { return }
        try claim(row(), layout, target)
        steps.append((target, .update(left.inOrder { $0.position < $1.position })))
    }

    // MARK: Values

    mutating func layout(named name: String) -> RowLayout? {
        guard let number = draft.catalog.number(ofEntity: name) ?? formerNames.entity(name),
            let layout = draft.newestLayout(number), !layout.isReserved
        else { return nil }
        return layout
    }

    private mutating func layout(ofEntity name: String) throws(StoreError) -> RowLayout {
        guard let layout = layout(named: name) else {
            throw StoreError(
                .schemaMismatch,
                "The store has no entity “\(name)”, into which the transaction inserts an object: add the entity, or "
                    + "export from the beginning."
            )
        }
        return layout
    }

    private func layout(of object: ObjectID) throws(StoreError) -> RowLayout {
        guard let layout = draft.newestLayout(object.entityNumber), !layout.isReserved else {
            throw StoreError(
                .schemaMismatch,
                "The entity of object \(object) was removed here, so changes of its objects can no longer be applied.")
        }
        return layout
    }

    private func names(_ positions: [Int], _ layout: RowLayout) -> [String] {
        positions.map { layout.entity.attributes[$0].name.text }
    }

    /// The values as this store has them, by position; nil for a reference to an unknown object (AP2). The positions of
    /// these are returned too. A list lacks only its unknown objects.
    mutating func values(
        _ change: ExportedChange, _ values: [ExportedValue], _ layout: RowLayout
    ) throws(StoreError) -> (values: [(position: Int, value: StoredValue?)], unknown: [Int]) {
        var result: [(position: Int, value: StoredValue?)] = []
        var unknown: [Int] = []
        result.reserveCapacity(values.count)
        for (index, value) in values.enumerated() {
            let name = IdentifierName(change.attributes[index])
            // The most likely case: both sides have the attributes in the same order.
            let position =
                index < layout.count && layout.entity.attributes[index].name == name
                ? index : position(of: name, in: layout)
            guard let position else {
                throw StoreError(
                    .schemaMismatch,
                    "“\(layout.entity.name)” has no attribute “\(name)” here, which the transaction writes: add the "
                        + "attribute, or export from the beginning."
                )
            }
            let (translated, isWhole) = try translated(value)
            if let translated, !translated.fits(layout.slots[position].type) {
                throw StoreError(
                    .schemaMismatch,
                    "“\(name)” of “\(layout.entity.name)” has the type \(layout.slots[position].type) here, but the "
                        + "transaction writes a value of another type.")
            }
            if !isWhole { unknown.append(position) }
            result.append((position, translated))
        }
        return (result, unknown)
    }

    /// The values without references to objects that were deleted here. Under the rules `noAction` and `nullify` the
    /// deletion would have had the same effect. Under other rules it is a contradiction, as if the objects were
    /// unknown.
    private func existing(
        _ given: (values: [(position: Int, value: StoredValue?)], unknown: [Int]), _ layout: RowLayout
    ) throws(StoreError) -> (values: [(position: Int, value: StoredValue?)], unknown: [Int]) {
        var (values, unknown) = given
        for (index, (position, value)) in values.enumerated() where layout.slots[position].type.isReference {
            guard let value else { continue }
            let left = try existing(value)
            if left == value { continue }
            values[index].value = left
            let rule = layout.entity.attributes[position].deleteRule
            guard rule == .cascade || rule == .deny else { continue }
            if left == .absent { values[index].value = nil }
            if !unknown.contains(position) { unknown.append(position) }
        }
        return (values, unknown)
    }

    private func existing(_ value: StoredValue) throws(StoreError) -> StoredValue {
        try value.keepingReferences { (object) throws(StoreError) in try exists(object) }
    }

    private func exists(_ object: ObjectID) throws(StoreError) -> Bool {
        if arriving.contains(object) { return true }
        return try isHere(object)
    }

    private mutating func position(of name: IdentifierName, in layout: RowLayout) -> Int? {
        if let position = layout.entity.attributes.firstIndex(where: { $0.name == name }) { return position }
        guard let number = formerNames.attribute(name, of: layout.entity.number) else { return nil }
        return layout.position(ofAttribute: number)
    }

    private mutating func translated(_ value: ExportedValue) throws(StoreError) -> (StoredValue?, isWhole: Bool) {
        switch value.content {
        case .plain(let value): return (value, true)
        case .object(let object):
            let local = try local(object)
            return (local.map { .object($0) }, local != nil)
        case .orderedObjects(let objects):
            var locals: [ObjectID] = []
            var seen: Set<ObjectID> = []
            var isWhole = true
            for object in objects {
                guard let local = try local(object) else {
                    isWhole = false
                    continue
                }
                if seen.insert(local).inserted { locals.append(local) }
            }
            return (.orderedObjects(locals), isWhole)
        case .objects(let objects):
            var locals: [ObjectID] = []
            for object in objects { if let local = try local(object) { locals.append(local) } }
            return (.objectSet(locals), locals.count == objects.count)
        }
    }

    /// Whether the object has a value of its own here, and not only the default of an attribute that was added since. A
    /// default that differs from the exported one is no change.
    private func isWritten(_ position: Int, of object: ObjectID, _ layout: RowLayout) throws(StoreError) -> Bool {
        var isWritten = true
        _ = try base.view.withRow(object) { (row) in
            isWritten = row.layout.position(ofAttribute: layout.entity.attributes[position].number) != nil
        }
        return isWritten
    }

    /// The values deleted with an object here, for the attributes that only this store has; nil if the file has
    /// forgotten it. Omits references to objects that do not exist any more.
    private func valuesOfDeleted(_ object: ObjectID, _ layout: RowLayout) throws(StoreError) -> [StoredValue]? {
        guard let values = try base.view.valuesOfDeleted(object, layout) else { return nil }
        var existing: [StoredValue] = []
        for value in values { existing.append(try self.existing(value)) }
        return existing
    }

    /// The object's present values, in the newest layout.
    func current(_ object: ObjectID, _ layout: RowLayout) throws(StoreError) -> [StoredValue] {
        let view = base.view
        var values: [StoredValue] = []
        _ = try view.withRow(object) { (row) throws(StoreError) in
            values.reserveCapacity(layout.count)
            for position in 0..<layout.count { values.append(try view.value(of: layout, at: position, in: row)) }
        }
        return values
    }
}
