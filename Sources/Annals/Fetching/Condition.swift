// The condition of a predicate: parts that rows decide, and parts that only the object decides.

internal import FoundationEssentials

/// A condition on objects of one entity.
package indirect enum Condition {
    case constant(Bool)
    case test(PropertyTest)
    /// The object itself is one of these.
    case isOne(Set<ObjectID>)
    case all([Condition])
    case any([Condition])
    case not(Condition)
    /// The object that a property refers to satisfies another condition; otherwise `isMissing` decides.
    case step(RelationshipStep, Condition, isMissing: Bool)
    /// At least one of the objects on the other side, or in a list, satisfies a condition.
    case anyOf(RelationshipStep, Condition)
    /// The number of objects on the other side, or in a list.
    case count(RelationshipStep, PropertyTest.Comparison, Int)
    /// Evaluated on the object.
    case evaluated(Evaluation)

    /// A part of a predicate that rows do not decide.
    package struct Evaluation {
        let evaluate: (ObjectID) throws -> Bool
        /// The part as text for messages.
        let title: () -> String

        package init(_ evaluate: @escaping (ObjectID) throws -> Bool, title: @escaping () -> String) {
            (self.evaluate, self.title) = (evaluate, title)
        }
    }
}

/// A comparison that a row must satisfy, or must not.
struct RowTest {
    let test: PropertyTest
    let isNegated: Bool
}

/// A step from an object to related ones.
package struct RelationshipStep {
    enum Way {
        /// A property of the object, at this position, refers to them.
        case property(position: Int)
        /// They refer to the object through the index with this number.
        case referring(Int)
    }

    let name: String
    let way: Way
    /// The layout of the objects that the step leads to.
    let target: RowLayout
}

/// Decides conditions about the rows of one state.
struct ConditionReader {
    let view: View

    func matches(
        _ condition: Condition, _ row: RowImage, _ object: ObjectID, _ layout: RowLayout
    ) throws(StoreError) -> Bool {
        switch condition {
        case .constant(let isTrue): return isTrue
        case .test(let test): return try test.matches(row, object, view, layout)
        case .isOne(let objects): return objects.contains(object)
        case .all(let parts):
            for part in parts where try !matches(part, row, object, layout) { return false }
            return true
        case .any(let parts):
            for part in parts where try matches(part, row, object, layout) { return true }
            return false
        case .not(let part): return try !matches(part, row, object, layout)
        case .step(let step, let inner, let isMissing):
            guard let target = try targets(step, row, object, layout).first else { return isMissing }
            return try matches(inner, target, step.target) ?? isMissing
        case .anyOf(let step, let inner):
            for target in try targets(step, row, object, layout) {
                if try matches(inner, target, step.target) ?? false { return true }
            }
            return false
        case .count(let step, let comparison, let bound):
            let test = PropertyTest(0, .int, step.name, comparison, [Value(bound)])
            return test.matches(Value(try targets(step, row, object, layout).count))
        case .evaluated(let evaluation):
            do {
                return try evaluation.evaluate(object)
            } catch {
                throw Self.undecided(error)
            }
        }
    }

    static func undecided(_ error: any Error) -> StoreError {
        if let error = error as? StoreError { return error }
        return StoreError(
            .invalidArgument,
            "A predicate cannot be evaluated for an object: \(StoreError.sentence(error)) Change the predicate.")
    }

    /// Nil if the object does not exist.
    private func matches(
        _ condition: Condition, _ object: ObjectID, _ layout: RowLayout
    ) throws(StoreError) -> Bool? {
        var isMatch: Bool?
        _ = try view.withRow(object) { (row) throws(StoreError) in
            isMatch = try matches(condition, row, object, layout)
        }
        return isMatch
    }

    private func targets(
        _ step: RelationshipStep, _ row: RowImage, _ object: ObjectID, _ layout: RowLayout
    ) throws(StoreError) -> [ObjectID] {
        switch step.way {
        case .property(let position):
            let value = try row.value(position, object, view, layout)
            let targets = value.object.map { [$0] } ?? value.orderedObjects ?? value.objects ?? []
            // Another entity may have got the name of the one to which older references lead.
            let areRight = targets.allSatisfy { $0.entityNumber == step.target.number }
            return areRight ? targets : targets.filter { $0.entityNumber == step.target.number }
        case .referring(let index):
            var objects: [ObjectID] = []
            try view.forEachReferring(to: object, index: index) { (referrer) throws(StoreError) in
                objects.append(referrer)
                return true
            }
            return objects
        }
    }
}

extension Condition {
    /// Both. Omits constant parts.
    package static func both(_ left: Condition, _ right: Condition) -> Condition {
        switch (left, right) {
        case (.constant(true), let other), (let other, .constant(true)): other
        case (.constant(false), _), (_, .constant(false)): .constant(false)
        default: .all(left.conjuncts + right.conjuncts)
        }
    }

    /// At least one. Omits constant parts.
    static func either(_ parts: [Condition]) -> Condition {
        var open: [Condition] = []
        for part in parts {
            if case .constant(true) = part { return part }
            if case .constant(false) = part { continue }
            open.append(part)
        }
        return open.isEmpty ? .constant(false) : open.count == 1 ? open[0] : .any(open)
    }

    /// The opposite, also of a constant.
    static func opposite(_ condition: Condition) -> Condition {
        if case .constant(let isTrue) = condition { .constant(!isTrue) } else { .not(condition) }
    }

    /// The parts that must all hold.
    var conjuncts: [Condition] {
        if case .all(let parts) = self { parts } else { [self] }
    }

    /// The comparisons that must all hold, or not hold, if it consists of nothing else.
    var rowTests: [RowTest]? {
        switch self {
        case .test(let test): return [RowTest(test: test, isNegated: false)]
        case .not(.test(let test)): return [RowTest(test: test, isNegated: true)]
        case .constant(true): return []
        case .all(let parts):
            var tests: [RowTest] = []
            tests.reserveCapacity(parts.count)
            for part in parts {
                if case .test(let test) = part {
                    tests.append(RowTest(test: test, isNegated: false))
                    continue
                }
                guard let more = part.rowTests else { return nil }
                tests += more
            }
            return tests
        default: return nil
        }
    }

    /// Whether rows decide all of it.
    var isTranslated: Bool {
        switch self {
        case .constant, .test, .isOne, .count: true
        case .all(let parts), .any(let parts): parts.allSatisfy(\.isTranslated)
        case .not(let part), .step(_, let part, _), .anyOf(_, let part): part.isTranslated
        case .evaluated: false
        }
    }
}

extension Condition: CustomStringConvertible {
    package var description: String {
        switch self {
        case .constant(let isTrue): "\(isTrue)"
        case .test(let test): "\(test)"
        case .isOne(let objects): "the object is one of \(objects.count)"
        case .all(let parts): parts.map { "(\($0))" }.joined(separator: " and ")
        case .any(let parts): parts.map { "(\($0))" }.joined(separator: " or ")
        case .not(let part): "not (\(part))"
        case .step(let step, let inner, _): "\(step.name): \(inner)"
        case .anyOf(let step, let inner): "any of \(step.name): \(inner)"
        case .count(let step, _, _): "number of \(step.name)"
        case .evaluated(let evaluation): "\(evaluation.title()), evaluated on the object"
        }
    }
}
