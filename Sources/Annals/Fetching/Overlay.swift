// Uncommitted changes over a state: those of a transaction, or of a context. A fetch leaves the changed objects out of
// the results in the state, and decides about them separately.
//
// Invariants:
// UC1  The access finds every changed object that satisfies the condition, by its present properties. So parts that
//      other objects decide are left out of it: those may be changed, too.
// UC2  The result of `decided` equals that of the predicate.

/// Changed objects: the state shows older ones.
protocol UncommittedChanges: AnyObject {
    func hides(_ object: ObjectID) -> Bool
    /// The greatest possible number of hidden objects; nil if it is not known.
    var mostHidden: Int? { get }
}

extension Draft: UncommittedChanges {
    func hides(_ object: ObjectID) -> Bool { isChangedHere(object) }
    var mostHidden: Int? { nil }
}

/// A condition on objects of a state and on changes that lie over it.
struct Overlay {
    /// Whether other objects decide, too: then the state alone does not.
    let dependsOnOthers: Bool
    /// Finds the objects of the state that satisfy the parts of the condition about their own properties (UC1). Its
    /// access also serves for searching the changes.
    let plan: FetchPlan
    private let condition: Condition
    private let snapshot: Snapshot
    private let changes: any UncommittedChanges
    let binding: EntityBinding
    /// Whether the plan's condition is the whole one.
    private let isPlanWhole: Bool

    init(
        _ condition: Condition, _ snapshot: Snapshot, _ changes: any UncommittedChanges, _ binding: EntityBinding,
        _ layout: RowLayout, dependsOnOthers: Bool
    ) throws(StoreError) {
        (self.condition, self.snapshot, self.changes) = (condition, snapshot, changes)
        (self.binding, self.dependsOnOthers) = (binding, dependsOnOthers)
        var own: [Condition] = []
        var isWhole = true
        for part in condition.conjuncts {
            switch part {
            case .constant, .isOne: own.append(part)
            // A reference to a deleted object reads as none.
            case .test(let test) where !test.type.isReference || !test.matches(.null): own.append(part)
            default: isWhole = false
            }
        }
        isPlanWhole = isWhole
        let ofOwnProperties = isWhole ? condition : own.reduce(.constant(true)) { .both($0, $1) }
        plan = try FetchPlan(ofOwnProperties, [], layout, snapshot.view)
    }

    // MARK: The state

    /// A fetch in the state. It also finds changed objects, and if other objects decide, some that are not shown.
    func run(_ sort: [SortColumn] = [], atMost wanted: Int = .max) throws(StoreError) -> FetchRun {
        var plan = plan
        if !sort.isEmpty || !dependsOnOthers && !isPlanWhole {
            let condition = dependsOnOthers ? plan.condition : condition
            plan = try FetchPlan(condition, sort, plan.layout, snapshot.view)
        }
        // Sorting needs memory for the wanted rows only, plus as many as may turn out to be changed.
        var limit: Int?
        if !plan.isInOrder, !dependsOnOthers, let hidden = changes.mostHidden, wanted < .max - hidden {
            limit = wanted + hidden
        }
        return FetchRun(snapshot, plan, FetchPage(limit: limit))
    }

    /// Lends the rows of the objects that are not changed and satisfy the condition, in their order. If other objects
    /// decide, lends all that may satisfy it.
    func forEachRow(
        _ sort: [SortColumn] = [], atMost wanted: Int = .max, _ body: (ObjectID, RowImage) throws(StoreError) -> Void
    ) throws(StoreError) {
        if wanted == 0 { return }
        var run = try run(sort, atMost: wanted)
        let changes = changes
        var left = dependsOnOthers ? .max : wanted
        try run.forEachRow { (object, row) throws(StoreError) in
            if changes.hides(object) { return true }
            try body(object, row)
            left -= 1
            return left > 0
        }
    }

    // MARK: Deciding

    /// Whether the condition holds for an object with these properties (UC2); nil if other objects or the program
    /// decide.
    func decided<E: Entity>(_ object: ObjectID, _ value: E) -> Bool? {
        withUnsafePointer(to: value) { decided(condition, object, UnsafeRawPointer($0)) }
    }

    private func decided(_ condition: Condition, _ object: ObjectID, _ value: UnsafeRawPointer) -> Bool? {
        switch condition {
        case .constant(let isTrue): return isTrue
        case .isOne(let objects): return objects.contains(object)
        case .test(let test):
            guard let index = binding.properties.indices.first(where: { binding.position(of: $0) == test.position })
            else { return nil }
            // A reference to a deleted object reads as none, if the predicate reads the object.
            if test.type.isReference, test.matches(.null) { return nil }
            // An edited property may have a value that cannot be stored.
            return (try? binding.value(of: value, index)).map { test.matches($0) }
        case .not(let part): return decided(part, object, value).map { !$0 }
        case .all(let parts): return decided(parts, object, value, stopsAt: false)
        case .any(let parts): return decided(parts, object, value, stopsAt: true)
        case .step, .anyOf, .count, .evaluated: return nil
        }
    }

    private func decided(
        _ parts: [Condition], _ object: ObjectID, _ value: UnsafeRawPointer, stopsAt end: Bool
    ) -> Bool? {
        var isKnown = true
        for part in parts {
            let isTrue = decided(part, object, value)
            if isTrue == end { return end }
            if isTrue == nil { isKnown = false }
        }
        return isKnown ? !end : nil
    }
}

extension Condition {
    /// Whether the condition depends on other objects than the evaluated one.
    var dependsOnOthers: Bool {
        switch self {
        case .constant, .test, .isOne: false
        case .all(let parts), .any(let parts): parts.contains { $0.dependsOnOthers }
        case .not(let part): part.dependsOnOthers
        case .step, .anyOf, .count, .evaluated: true
        }
    }
}

extension EntityBinding {
    /// The keys under which an index has an object with the properties of a value; nil if it is over an attribute that
    /// the type does not have. Throws if a property cannot be stored.
    func ownKeys(
        of value: UnsafeRawPointer, _ index: IndexID, _ layout: RowLayout
    ) throws(StoreError) -> [[UInt8]]? {
        guard let values = try values(of: value, index) else { return nil }
        return try index.ownKeys(values, layout)
    }
}
