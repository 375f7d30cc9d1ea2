// Conditions on objects with changes that are not committed: those of a transaction, or of a context.
//
// Invariants:
// UC1  The access finds every changed object that satisfies the condition, by its present properties. So parts that
//      other objects decide are left out of it: those may be changed, too.
// UC2  What `decided` says is what the predicate says.

/// A condition and what decides it of an object whose properties are in memory.
struct UnsavedCondition {
    let condition: Condition
    /// The comparisons of properties that must all hold, and that hold no more often because something was deleted.
    let ofOwnProperties: Condition
    /// Whether that is the whole condition.
    let isOfOwnProperties: Bool
    private let binding: EntityBinding
    private let layout: RowLayout

    init(_ condition: Condition, _ binding: EntityBinding, _ layout: RowLayout) {
        self.condition = condition
        self.binding = binding
        self.layout = layout
        var own: [Condition] = []
        var isWhole = true
        for part in condition.conjuncts {
            switch part {
            case .constant, .isOne: own.append(part)
            // A reference to what is deleted reads as none.
            case .test(let test) where !test.type.isReference || !test.matches(.null): own.append(part)
            default: isWhole = false
            }
        }
        isOfOwnProperties = isWhole
        ofOwnProperties = isWhole ? condition : own.reduce(.constant(true)) { .both($0, $1) }
    }

    /// The plan for `ofOwnProperties` in a state. Its access says where to look among the changes.
    func plan(_ view: View) throws(StoreError) -> FetchPlan { try FetchPlan(ofOwnProperties, [], layout, view) }

    // MARK: Deciding

    /// Whether the condition holds for an object with these properties; nil if other objects or the program decide.
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
            // A reference to what is deleted reads as none, if the predicate asks for the object.
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
    /// Whether other objects than the one that is asked matter.
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
        guard let values = try values(of: value, index, layout) else { return nil }
        return try index.ownKeys(values, layout)
    }
}
