// The changes of other objects that matter to a list of results.

internal import FoundationEssentials

/// The properties and objects that decide about an object besides its own properties.
struct ResultsDependencies: Sendable {
    private struct Dependency {
        let model: EntityModel
        var slots: TouchedSlots
    }

    /// The properties of the list's own objects that decide about them.
    private var own: TouchedSlots = .existence
    /// By the numbers of the entities.
    private var others: [UInt16: Dependency] = [:]
    /// Whether a part of the predicate is evaluated on objects. Its reads are added with `add(_:_:)`.
    private(set) var isEvaluated = false
    /// Whether anything may decide.
    private(set) var isUnknown = false
    private let models: [EntityModel]

    /// - Parameters:
    ///   - condition: Decides whether an object of the model's entity is in the list.
    ///   - sorted: The slots of the properties that the list is sorted by.
    ///   - searched: The slots of those that it searches.
    init(
        _ condition: Condition, _ sorted: [Int], searched: [Int] = [], of model: EntityModel, _ snapshot: Snapshot,
        _ models: [EntityModel]
    ) {
        self.models = models
        own.formUnion(TouchedSlots(slots: sorted + searched))
        add(condition, model, isOther: false, snapshot)
        for slot in sorted where model.properties[slot].deleteRule == .noAction { addTarget(of: slot, model, snapshot) }
    }

    var isEmpty: Bool { others.isEmpty && !isUnknown }
    /// The entities whose objects matter.
    var entities: Set<UInt16> { Set(others.keys) }

    // MARK: Collecting

    private mutating func add(_ condition: Condition, _ model: EntityModel, isOther: Bool, _ snapshot: Snapshot) {
        switch condition {
        case .constant, .isOne: return
        case .test(let test): addProperty(test.name, model, isOther: isOther, snapshot)
        case .all(let parts), .any(let parts): for part in parts { add(part, model, isOther: isOther, snapshot) }
        case .not(let part): add(part, model, isOther: isOther, snapshot)
        case .step(let step, let inner, _), .anyOf(let step, let inner):
            if let target = addStep(step, model, isOther: isOther, snapshot) {
                add(inner, target, isOther: true, snapshot)
            }
        case .count(let step, _, _): _ = addStep(step, model, isOther: isOther, snapshot)
        case .evaluated: isEvaluated = true
        }
    }

    private mutating func addProperty(_ name: String, _ model: EntityModel, isOther: Bool, _ snapshot: Snapshot) {
        guard let slot = model.slot(named: name) else {
            isUnknown = true
            return
        }
        if isOther { add(TouchedSlots(slot: slot), model, snapshot) } else { own.formUnion(TouchedSlots(slot: slot)) }
        // Regardless of the rule: it does not delete unsaved objects that refer to an object which another writer has
        // deleted.
        addTarget(of: slot, model, snapshot)
    }

    private mutating func addTarget(of slot: Int, _ model: EntityModel, _ snapshot: Snapshot) {
        if let target = model.properties[slot].codec.target { add(.existence, target.model, snapshot) }
    }

    /// Returns the model of the objects that a step leads to; nil if it is not known.
    private mutating func addStep(
        _ step: RelationshipStep, _ model: EntityModel, isOther: Bool, _ snapshot: Snapshot
    ) -> EntityModel? {
        let entity = step.target.entity
        guard let target = models.first(named: entity.name.text) else {
            isUnknown = true
            return nil
        }
        switch step.way {
        case .property:
            addProperty(step.name, model, isOther: isOther, snapshot)
            add(.existence, target, snapshot)
        case .referring(let index):
            let number = snapshot.view.shape.indexes[index].id.attributes[0]
            let name = step.target.attribute(number)?.name.text ?? ""
            guard let slot = target.slot(named: name) else {
                isUnknown = true
                return nil
            }
            add([.existence, TouchedSlots(slot: slot)], target, snapshot)
        }
        return target
    }

    private mutating func add(_ slots: TouchedSlots, _ model: EntityModel, _ snapshot: Snapshot) {
        guard let number = snapshot.numberIfAny(of: model) else { return }
        others[number, default: Dependency(model: model, slots: [])].slots.formUnion(slots)
    }

    /// Adds the reads of a predicate that was evaluated on objects.
    mutating func add(_ recorder: ReadRecorder, _ snapshot: Snapshot) {
        for reads in recorder.reads {
            let model = reads.model
            if !reads.others.isEmpty {
                let isWhole = reads.others.contains(model.wholeSlot)
                add(isWhole ? .properties : TouchedSlots(slots: reads.others), model, snapshot)
            }
            for slot in reads.own.union(reads.others) where slot < model.wholeSlot {
                if slot < model.properties.count {
                    addTarget(of: slot, model, snapshot)
                } else {
                    addOtherSide(model.otherSides[slot - model.properties.count], model, snapshot)
                }
            }
        }
    }

    private mutating func addOtherSide(_ side: EntityModel.OtherSide, _ model: EntityModel, _ snapshot: Snapshot) {
        guard let (target, name) = try? model.relationship(otherSideAt: side.offset),
            let slot = target.properties.firstIndex(where: { $0.name == name })
        else {
            isUnknown = true
            return
        }
        add([.existence, TouchedSlots(slot: slot)], target, snapshot)
    }

    // MARK: Asking

    /// Whether a change of an object matters. `older` and `newer` are the states before and after a change in the
    /// store.
    func isAffected(
        by object: ObjectID, _ slots: TouchedSlots, _ older: Snapshot?, _ newer: Snapshot
    ) throws(StoreError) -> Bool {
        if isUnknown { return true }
        guard let dependency = others[object.entityNumber] else { return false }
        return try Self.touches(dependency.slots, object, slots, dependency.model.type, older, newer)
    }

    /// The same for an object of the list's own entity, if no part of the predicate is evaluated on objects.
    func isAffected<E: Entity>(
        byOwn object: Reference<E>, _ slots: TouchedSlots, _ older: Snapshot?, _ newer: Snapshot
    ) throws(StoreError) -> Bool {
        if isUnknown { return true }
        return try Self.touches(own, object.id, slots, E.self, older, newer)
    }

    private static func touches(
        _ deciding: TouchedSlots, _ object: ObjectID, _ slots: TouchedSlots, _ type: any Entity.Type,
        _ older: Snapshot?, _ newer: Snapshot
    ) throws(StoreError) -> Bool {
        if !slots.isDisjoint(with: deciding) { return true }
        guard slots.contains(.inStore) else { return false }
        guard let older else { return true }
        return try !type.touchedSlots(of: object, older, newer).isDisjoint(with: deciding)
    }
}

extension Entity {
    /// The differences of an object between two states.
    fileprivate static func touchedSlots(
        of object: ObjectID, _ older: Snapshot, _ newer: Snapshot
    ) throws(StoreError) -> TouchedSlots {
        let reference = Reference<Self>(object)
        guard let before = try older.value(reference), let after = try newer.value(reference) else { return .whole }
        return TouchedSlots(slots: model.differences(before, after))
    }
}
