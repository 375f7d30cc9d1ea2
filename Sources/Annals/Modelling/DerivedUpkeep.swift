// After a transaction's body: updates the attributes that are derived from referring objects, and validates the changes
// that delete rules have made.
//
// Invariants:
// DU1  After a transaction, a derived attribute matches the other side, for each object that the transaction has
//      written and for each whose other side it has changed.
// DU2  All derived values are computed on one state: the transaction's base and its own changes, after the delete
//      rules.
// DU3  After a revert and a transaction of another store, attributes that an object derives from its own properties
//      match them. Typed writes have computed these before.
// DU4  The time of an object's last change is set with each change that has none, but never in a merge: all stores of a
//      group have the time that the writer set.

internal import FoundationEssentials

/// Done for every transaction of a store that was opened with types that derive values.
final class DerivedUpkeep: TransactionUpkeep {
    private let models: [EntityModel]
    /// Whether anything is derived from other objects, or from the object's own properties.
    private let derivesFromOthers: Bool
    private let derivesFromOwn: Bool
    /// The plan for the schema that was met last.
    private let known = Guarded<(shape: StoreShape, plan: DerivedPlan)?>(nil)

    /// Nil if no type needs upkeep.
    init?(_ declaration: EntityDeclaration) {
        derivesFromOthers = declaration.models.contains(where: \.needsUpkeep)
        derivesFromOwn = declaration.models.contains { $0.rules.derivesAnything }
        guard derivesFromOthers || derivesFromOwn || declaration.models.contains(where: \.mayLoseWhatItNeeds) else {
            return nil
        }
        models = declaration.models
    }

    func bodyHasEnded(
        _ draft: Draft, _ transaction: Transaction?, validates: Bool
    ) throws(StoreError) {
        try draft.applyDeleteRules()
        if !draft.losses.isEmpty { try LossRules(draft, validates).hold(models) }
        guard transaction == nil || derivesFromOthers else { return }
        let plan = plan(draft)
        if transaction == nil, derivesFromOwn { try deriveFromOwn(draft, plan) }
        let obstacles = try deriveFromOthers(draft, transaction, plan, validates: validates)
        if transaction == nil { try DerivedObstacles(plan, draft).requireNone(obstacles) }
    }

    /// Returns the values that cannot be written, for changes that are not those of a body.
    private func deriveFromOthers(
        _ draft: Draft, _ transaction: Transaction?, _ plan: DerivedPlan, validates: Bool
    ) throws(StoreError) -> [DerivedOutOfRange] {
        if !derivesFromOthers { return [] }
        var work = DerivedWork(plan, draft)
        try work.collect()
        for entity in transaction?.notesIfAny?.refreshed ?? [] { try work.touchAll(of: entity) }
        try work.compute()
        if transaction == nil, !work.outOfRange.isEmpty { return work.outOfRange }
        for found in work.outOfRange { try draft.refuse(found.error) }
        if work.hasLimits {
            draft.needsNewestState = true
            if let transaction {
                var failures: [ValidationFailure] = []
                for failure in work.failures {
                    // An object that cannot be written may be counted on a side that it has left.
                    let isCertain = try failure.object.map { (object) throws(StoreError) in
                        try !draft.isReferredToByUnwritten(object)
                    }
                    if isCertain ?? true { failures.append(failure) }
                }
                transaction.noteFailures(failures)
            } else if validates, !work.failures.isEmpty {
                throw .validationFailed(work.failures)
            }
        }
        try draft.amend(work.amendments)
        return []
    }

    func isDerived(_ attribute: UInt16, of entity: UInt16, _ draft: Draft) -> Bool {
        plan(draft).attributes[entity]?.contains(attribute) ?? false
    }

    func isWorkedOut(_ attribute: UInt16, of entity: UInt16, _ draft: Draft) -> Bool {
        plan(draft).isWorkedOut(attribute, of: entity)
    }

    /// Computes what objects derive from their own properties: DU3.
    private func deriveFromOwn(_ draft: Draft, _ plan: DerivedPlan) throws(StoreError) {
        var objects: [(object: ObjectID, model: EntityModel)] = []
        try draft.frames.forEachEntry(withRows: false) { (change, _) in
            if change.kind != .delete, let model = plan.ofOwnProperties[change.object.entityNumber] {
                objects.append((change.object, model))
            }
            return true
        }
        for (object, model) in objects {
            do throws(StoreError) {
                try draft.withValue(of: object, model.type) { (value, binding) throws(StoreError) in
                    let derived = try binding.derive(value)
                    if !derived.isEmpty { try draft.update(object, derived) }
                }
            } catch  where error.code == .valueOutOfRange {
                // A newer program's value, which this type does not have: nothing can be computed from it here.
            }
        }
    }

    private func plan(_ draft: Draft) -> DerivedPlan {
        let shape = draft.shape
        if let known = known.withLock({ $0 }), known.shape === shape { return known.plan }
        let plan = DerivedPlan(models, draft)
        known.withLock { $0 = (shape, plan) }
        return plan
    }
}

/// The work of one transaction for the objects on the one side (DU2).
private struct DerivedWork {
    /// The contribution of the objects that refer to one object.
    private struct Total {
        var count = 0
        var sums: [NumberSum]
    }

    private let plan: DerivedPlan
    private let draft: Draft
    /// By side and object: the contribution of the transaction's own rows.
    private var own: [[ObjectID: Total]]
    /// The objects whose derived attributes must be computed.
    private var touched: Set<ObjectID> = []
    /// Of objects that the transaction has written: their derived attributes.
    private var written: [ObjectID: [StoredValue]] = [:]
    private var gone: Set<ObjectID> = []
    private(set) var outOfRange: [DerivedOutOfRange] = []
    private(set) var amendments: [ObjectID: [(position: Int, value: StoredValue)]] = [:]
    private(set) var failures: [ValidationFailure] = []
    /// Whether a count was checked that another transaction may change without changing the object.
    private(set) var hasLimits = false

    init(_ plan: DerivedPlan, _ draft: Draft) {
        self.plan = plan
        self.draft = draft
        own = Array(repeating: [:], count: plan.sides.count)
    }

    // MARK: The transaction's changes

    /// Finds the objects whose values are to be computed (DU1). Linear in the transaction.
    mutating func collect() throws(StoreError) {
        try draft.frames.forEachEntry(withRows: true) { (change, bytes) throws(StoreError) in
            let entity = change.object.entityNumber
            let sides = plan.sidesOfMembers[entity] ?? []
            let owner = plan.owners[entity]
            let lastChange = plan.lastChanges[entity]
            guard !sides.isEmpty || owner != nil || lastChange != nil,
                let layout = draft.shape.newestLayout(entity)
            else { return true }
            var row: RowImage?
            if change.kind != .delete, let bytes { row = try RowImage(bytes, layout: layout) }
            if let lastChange, let row { try noteTime(change, row, lastChange, layout) }
            if let owner {
                if let row {
                    var values: [StoredValue] = []
                    for derived in owner.derived { values.append(try row.value(at: derived.position)) }
                    written[change.object] = values
                    touched.insert(change.object)
                } else {
                    gone.insert(change.object)
                }
            }
            for side in sides { try collect(change, row, side) }
            return true
        }
    }

    /// Typed writes set the time themselves; delete rules and writes without types do not (DU4).
    private mutating func noteTime(
        _ change: ChangeView, _ row: RowImage, _ position: Int, _ layout: RowLayout
    ) throws(StoreError) {
        if draft.keepsTimes { return }
        if change.kind == .update {
            if change.contains(attributePosition: position) { return }
        } else if try row.value(at: position) != layout.entity.attributes[position].valueBeforeItExisted {
            return
        }
        amendments[change.object] = [Self.now(position)]
    }

    private static func now(_ position: Int) -> (position: Int, value: StoredValue) {
        (position, .date(Date.now.timeIntervalSinceReferenceDate))
    }

    private mutating func collect(_ change: ChangeView, _ row: RowImage?, _ number: Int) throws(StoreError) {
        let side = plan.sides[number]
        let targets = try row.map { (row) throws(StoreError) in try draft.value(row, at: side.position).targets } ?? []
        if let row {
            for target in targets {
                var total = own[number][target] ?? Total(sums: side.summed.map { _ in NumberSum() })
                total.count += 1
                for (index, summed) in side.summed.enumerated() {
                    total.sums[index].add(try row.value(at: summed.position))
                }
                own[number][target] = total
            }
        }
        if change.kind == .update, !change.contains(attributePosition: side.position) {
            let isSummed = side.summed.contains { change.contains(attributePosition: $0.position) }
            if isSummed { touched.formUnion(targets) }
            return
        }
        touched.formUnion(targets)
        guard change.kind == .update || change.kind == .delete else { return }
        _ = try draft.base.withRow(change.object) { (row) throws(StoreError) in
            guard let place = row.layout.position(ofAttribute: side.attribute) else { return }
            touched.formUnion(try draft.value(row, at: place).targets)
        }
    }

    /// The values of all objects of an entity are to be computed.
    mutating func touchAll(of entity: UInt16) throws(StoreError) {
        guard plan.owners[entity] != nil else { return }
        try draft.base.scan(entity: entity) { (object, _) throws(StoreError) in
            touched.insert(object)
            return true
        }
    }

    // MARK: Working out

    mutating func compute() throws(StoreError) {
        // In a fixed order, the same in every process.
        for object in touched.inOrder() where !gone.contains(object) {
            guard let owner = plan.owners[object.entityNumber] else { continue }
            var present = written[object]
            if present == nil { present = try self.present(object, owner) }
            guard let present else { continue }
            var totals: [Int: Total] = [:]
            for side in Set(owner.derived.map(\.side) + owner.limits.map(\.side)) {
                totals[side] = try total(of: object, side)
            }
            for (index, derived) in owner.derived.enumerated() {
                guard let total = totals[derived.side] else { continue }
                guard let value = try value(of: derived, total) else {
                    outOfRange.append(DerivedOutOfRange(object: object, owner: owner.name, derived: derived))
                    continue
                }
                if value != present[index] { amendments[object, default: []].append((derived.position, value)) }
            }
            for (side, limit) in owner.limits {
                guard let count = totals[side]?.count else { continue }
                hasLimits = true
                guard !limit.count.isValid(count) else { continue }
                failures.append(
                    ValidationFailure(
                        entity: owner.name, attribute: limit.name, value: "\(count) objects",
                        message: limit.count.limit.message, object: object))
            }
            noteTimeOfAmended(object)
        }
    }

    /// A derived value changes its object, too (DU4).
    private mutating func noteTimeOfAmended(_ object: ObjectID) {
        guard !draft.keepsTimes, let position = plan.lastChanges[object.entityNumber], let values = amendments[object],
            !values.contains(where: { $0.position == position })
        else { return }
        amendments[object]?.append(Self.now(position))
    }

    /// The derived attributes of an object that the transaction has not written; nil if the object does not exist.
    private func present(_ object: ObjectID, _ owner: DerivedPlan.Owner) throws(StoreError) -> [StoredValue]? {
        var values: [StoredValue] = []
        let isThere = try draft.base.withRow(object) { (row) throws(StoreError) in
            for derived in owner.derived {
                let place = row.layout.position(ofAttribute: derived.attribute)
                values.append(try place.map { (place) throws(StoreError) in try row.value(at: place) } ?? .absent)
            }
        }
        return isThere ? values : nil
    }

    private func total(of object: ObjectID, _ number: Int) throws(StoreError) -> Total {
        let side = plan.sides[number]
        var total = own[number][object] ?? Total(sums: side.summed.map { _ in NumberSum() })
        let shape = draft.base.shape
        guard let index = shape.index(of: side.member, over: [side.attribute]) else { return total }
        var members: [ObjectID] = []
        try draft.base.forEachReferring(to: object, index: index) { (member) throws(StoreError) in
            if draft.isChangedHere(member) { return true }
            total.count += 1
            if !side.summed.isEmpty { members.append(member) }
            return true
        }
        for member in members {
            _ = try draft.base.withRow(member) { (row) throws(StoreError) in
                for (place, summed) in side.summed.enumerated() {
                    if let position = row.layout.position(ofAttribute: summed.attribute) {
                        total.sums[place].add(try row.value(at: position))
                    } else if let attribute = shape.newestLayout(side.member)?.attribute(summed.attribute) {
                        total.sums[place].add(attribute.valueBeforeItExisted)
                    }
                }
            }
        }
        return total
    }

    /// Nil if the attribute's type does not have the value.
    private func value(of derived: DerivedPlan.Derived, _ total: Total) throws(StoreError) -> StoredValue? {
        let value = derived.sum.map { total.sums[$0].value(derived.property.codec.attributeType) } ?? Value(total.count)
        guard let value, derived.property.codec.property(of: value) != nil else { return nil }
        return try value.storedValue()
    }
}

extension NumberSum {
    /// An absent value adds nothing.
    fileprivate mutating func add(_ stored: StoredValue) {
        if let value = try? Value(stored) { add(value) }
    }

    /// The sum as a value of a type, 0 without numbers; nil if the type cannot hold it.
    fileprivate func value(_ type: AttributeType) -> Value? {
        guard let value, value.isNull else { return self.value }
        return type == .int ? .int(0) : type == .double ? .double(0) : .decimal(0)
    }
}

// MARK: Refreshing derived attributes

extension Transaction {
    /// Computes, after the body, the attributes that all objects of an entity derive from other objects.
    ///
    /// Needed only after programs that do not declare the derived attributes have changed the store: such programs do
    /// not keep them. A new derived attribute is computed when the store is opened. Reads all objects and their other
    /// sides. Throws `StoreError`: `unknownEntity`.
    public func refreshDerived<E: Entity>(of type: E.Type) throws {
        let (_, layout) = try binding(type)
        refreshDerived(ofEntity: layout.number)
    }

    func refreshDerived(ofEntity number: UInt16) { notes.refreshed.insert(number) }
}

extension Store {
    /// Computes the attributes that all objects of an entity derive from other objects, in a transaction of its own.
    /// See `Transaction.refreshDerived(of:)`.
    ///
    /// - Returns: The transaction's token; nil if everything was right.
    @discardableResult
    public func refreshDerived<E: Entity>(of type: E.Type, author: String? = nil) throws -> HistoryToken? {
        try write(author: author) { try $0.refreshDerived(of: type) }.token
    }
}
