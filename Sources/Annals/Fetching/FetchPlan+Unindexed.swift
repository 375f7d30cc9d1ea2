// Which parts of a predicate the access of a fetch does not decide, and why: for explanations.

extension FetchPlan {
    /// The parts that are evaluated on every object that the access finds, each with the reason.
    func unindexed(_ view: View) -> [String] {
        if case .nothing = access { return [] }
        return condition.conjuncts.compactMap { part in
            reason(part, view).map { "\(part): \($0)" }
        }
    }

    /// The reason for which the access does not decide a part; nil if it does.
    private func reason(_ part: Condition, _ view: View) -> String? {
        switch part {
        case .constant, .all: return nil
        case .isOne:
            if case .objects = access { return nil }
            return "another access is better"
        case .test(let test): return reason(test, view)
        case .any: return "no index finds “or”"
        case .not: return "no index finds “not”"
        case .step(let step, _, _):
            if case .ranges(let index, _) = access, case .property(let position) = step.way,
                view.shape.indexes[index].id.attributes == [layout.entity.attributes[position].number]
            {
                return nil
            }
            return "other objects are read"
        case .anyOf, .count: return "other objects are read"
        case .evaluated: return "not a comparison with a constant"
        }
    }

    private func reason(_ test: PropertyTest, _ view: View) -> String? {
        if test.folding != nil { return "no index contains folded texts" }
        switch test.comparison {
        case .contains, .hasElement: return "no index finds parts of a value"
        default: break
        }
        guard test.isIndexable(layout) else { return "no index finds missing values" }
        guard view.totals != nil else { return "a past state has no indexes" }
        let number = layout.entity.attributes[test.position].number
        if case .ranges(let index, _) = access, view.shape.indexes[index].id.attributes.contains(number) {
            // A part of a key is decided if all before it are equal to something.
            for attribute in view.shape.indexes[index].id.attributes.prefix(while: { $0 != number }) {
                let isEqual = condition.conjuncts.contains { part in
                    guard case .test(let other) = part else { return false }
                    return other.comparison == .equal && layout.entity.attributes[other.position].number == attribute
                }
                if !isEqual { return "another access is better" }
            }
            return nil
        }
        let isIndexed = view.shape.indexes(of: layout.number).contains { place in
            view.shape.indexes[place].id.attributes.first == number && Self.finds(place, view)
        }
        return isIndexed ? "another access is better" : "“\(test.name)” has no index"
    }
}
