// The changes of a transaction that must be left out here, because derived values that would follow from them cannot
// be written. They are known only once the transaction has been carried out without writing it.

/// The objects here for the objects of a transaction, by its plan.
struct PlannedObjects {
    /// By the object here: the object in the transaction that corresponds to it.
    var foreign: [ObjectID: ForeignObject] = [:]
    /// The objects that it inserts.
    var arriving: Set<ObjectID> = []
}

/// The changes to leave out. They grow with each trial, so trials end.
struct WithheldChanges {
    /// Whole changes.
    private(set) var whole: [ForeignObject: WithheldChange] = [:]
    /// Attributes of changes to objects that exist here.
    private(set) var parts: [ForeignObject: [WithheldChange]] = [:]
    /// The whole transaction, if leaving out parts is not enough: then nothing is written.
    private(set) var everything: WithheldChange?
    /// For holders of keys that the transaction inserts: their IDs here differ in each trial.
    private var arrivingHolders: [ForeignObject: ForeignObject] = [:]

    /// Adds the consequences of obstacles met when a plan was carried out. Returns false if everything is left out
    /// already.
    mutating func add(_ obstacles: [UpkeepObstacle], _ planned: PlannedObjects) -> Bool {
        for obstacle in obstacles where !add(obstacle, planned) {
            guard everything == nil else { return false }
            everything = WithheldChange(obstacle.reason, [], named: [])
        }
        return !obstacles.isEmpty
    }

    /// Returns false if that leaves out nothing more.
    private mutating func add(_ obstacle: UpkeepObstacle, _ planned: PlannedObjects) -> Bool {
        var isNew = false
        for (object, attributes) in obstacle.causes.inOrder(by: { $0.key < $1.key }) {
            guard let foreign = planned.foreign[object] else { continue }
            let change = obstacle.withheld(object, attributes)
            if case .keyTaken(let holder) = obstacle.reason, planned.arriving.contains(holder) {
                arrivingHolders[foreign] = planned.foreign[holder]
            }
            let known = (parts[foreign] ?? []).reduce(into: Set<UInt16>()) { $0.formUnion($1.attributes) }
            if !change.isWhole, !attributes.isSubset(of: known) {
                parts[foreign, default: []].append(change)
                isNew = true
            } else if whole[foreign] == nil {
                whole[foreign] = WithheldChange(change.reason, [], named: change.named)
                isNew = true
            }
        }
        return isNew
    }

    /// The foreign object that has the key, if the transaction inserts it too.
    func arrivingHolder(_ object: ForeignObject) -> ForeignObject? { arrivingHolders[object] }
}

extension ApplyPlan {
    /// Whether an index is over attributes that are computed here: their exported values are ignored.
    func isWorkedOut(_ index: IndexID) -> Bool { index.attributes.contains { isWorkedOut($0, index.entity) } }

    /// Notes the conflict if the whole change is left out.
    mutating func leavesOut(_ change: ExportedChange, _ local: ObjectID?) -> Bool {
        guard let left = withheld.everything ?? withheld.whole[foreign(change.object)] else { return false }
        let named = layout(named: change.entity).map { names(left.named, $0) } ?? []
        conflict(change, local, reason(left, change), named)
        return true
    }

    /// Removes the attributes that are left out of a change to an object that is here, and notes the conflicts.
    mutating func leaveOut<V>(
        _ change: ExportedChange, _ target: ObjectID, _ values: inout [(position: Int, value: V)], _ layout: RowLayout
    ) {
        for left in withheld.parts[foreign(change.object)] ?? [] {
            conflict(change, target, reason(left, change), names(left.named, layout))
            values.removeAll { left.attributes.contains(layout.entity.attributes[$0.position].number) }
        }
    }

    /// The attributes that a change to an object that is here does not write.
    func withheldAttributes(_ object: ForeignObject) -> Set<UInt16> {
        (withheld.parts[object] ?? []).reduce(into: []) { $0.formUnion($1.attributes) }
    }

    func reason(_ left: WithheldChange, _ change: ExportedChange) -> ApplyConflict.Reason {
        switch left.reason {
        case .keyTaken(let holder):
            let arriving = withheld.arrivingHolder(foreign(change.object)).flatMap { arrived($0) }
            return .keyTaken(by: arriving ?? holder)
        case .derivedOutOfRange(let object): return .derivedOutOfRange(of: object)
        }
    }

    private func names(_ numbers: Set<UInt16>, _ layout: RowLayout) -> [String] {
        layout.entity.attributes.filter { numbers.contains($0.number) }.map(\.name.text)
    }
}
