// The expressions of the library's predicates, one after the other: which condition or operand each of them means.

internal import FoundationEssentials

// MARK: Logic

extension PredicateExpressions.Conjunction: LogicalExpression {
    func condition(
        _ translator: PredicateTranslator, _ evaluate: (any PredicateExpression<Bool>) -> Condition
    ) -> Condition {
        // As Swift does it: `count > 0 && $0.size > total / count` divides only if `count` is positive.
        let left = translator.condition(lhs, evaluate)
        if case .constant(false) = left { return left }
        return .both(left, translator.condition(rhs, evaluate))
    }

    func condition(_ translator: PredicateTranslator) -> Condition? {
        guard let left = translator.wholly(lhs) else { return nil }
        if case .constant(false) = left { return left }
        return translator.wholly(rhs).map { .both(left, $0) }
    }
}

extension PredicateExpressions.Disjunction: LogicalExpression {
    func condition(
        _ translator: PredicateTranslator, _ evaluate: (any PredicateExpression<Bool>) -> Condition
    ) -> Condition {
        let left = translator.condition(lhs, evaluate)
        if case .constant(true) = left { return left }
        return .either([left, translator.condition(rhs, evaluate)])
    }

    func condition(_ translator: PredicateTranslator) -> Condition? {
        guard let left = translator.wholly(lhs) else { return nil }
        if case .constant(true) = left { return left }
        return translator.wholly(rhs).map { .either([left, $0]) }
    }
}

extension PredicateExpressions.Negation: LogicalExpression {
    func condition(
        _ translator: PredicateTranslator, _ evaluate: (any PredicateExpression<Bool>) -> Condition
    ) -> Condition { .opposite(translator.condition(wrapped, evaluate)) }

    func condition(_ translator: PredicateTranslator) -> Condition? { translator.wholly(wrapped).map { .opposite($0) } }
}

extension PredicateExpressions.Conditional: KnownExpression, LogicalExpression where If.Output == Bool {
    /// A constant decides which branch it is.
    func condition(
        _ translator: PredicateTranslator, _ evaluate: (any PredicateExpression<Bool>) -> Condition
    ) -> Condition {
        guard let isTrue = translator.value(test) else { return evaluate(self) }
        return isTrue ? translator.condition(trueBranch, evaluate) : translator.condition(falseBranch, evaluate)
    }

    func condition(_ translator: PredicateTranslator) -> Condition? {
        guard let isTrue = translator.value(test) else { return nil }
        return isTrue ? translator.wholly(trueBranch) : translator.wholly(falseBranch)
    }
}

// MARK: Constants

extension PredicateExpressions.Value: ConstantExpression {
    var constant: Any { value }
}

extension PredicateExpressions.NilLiteral: ConstantExpression {
    var constant: Any { Wrapped?.none as Any }
}

extension PredicateExpressions.ClosedRange: BoundsExpression {
    func bounds(_ translator: PredicateTranslator) -> RangeBounds? {
        guard let lower = translator.constant(lower), let upper = translator.constant(upper) else { return nil }
        return RangeBounds(lower: lower, upper: upper, isUpperIncluded: true)
    }
}

extension PredicateExpressions.Range: BoundsExpression {
    func bounds(_ translator: PredicateTranslator) -> RangeBounds? {
        guard let lower = translator.constant(lower), let upper = translator.constant(upper) else { return nil }
        return RangeBounds(lower: lower, upper: upper, isUpperIncluded: false)
    }
}

/// A range that a predicate looks in.
struct RangeBounds {
    var lower: Any?
    var upper: Any?
    var isUpperIncluded: Bool
}

/// A range that a predicate makes of two bounds.
private protocol BoundsExpression {
    /// Nil if a bound depends on the object.
    func bounds(_ translator: PredicateTranslator) -> RangeBounds?
}

/// A range that is a constant.
private protocol ConstantRange {
    var bounds: RangeBounds { get }
}

extension Swift.ClosedRange: ConstantRange {
    var bounds: RangeBounds { RangeBounds(lower: lowerBound, upper: upperBound, isUpperIncluded: true) }
}

extension Swift.Range: ConstantRange {
    var bounds: RangeBounds { RangeBounds(lower: lowerBound, upper: upperBound, isUpperIncluded: false) }
}

extension Swift.PartialRangeFrom: ConstantRange {
    var bounds: RangeBounds { RangeBounds(lower: lowerBound, upper: nil, isUpperIncluded: false) }
}

extension Swift.PartialRangeThrough: ConstantRange {
    var bounds: RangeBounds { RangeBounds(lower: nil, upper: upperBound, isUpperIncluded: true) }
}

extension Swift.PartialRangeUpTo: ConstantRange {
    var bounds: RangeBounds { RangeBounds(lower: nil, upper: upperBound, isUpperIncluded: false) }
}

// MARK: Operands

extension PredicateTranslator {
    func operand<X>(_ expression: X) -> PredicateOperand? {
        PredicateNode.of(X.self).operand?.cast(expression).operand(self)
    }

    /// Whether an expression is the variable itself.
    func isVariable<X>(_ expression: X) -> Bool {
        PredicateNode.of(X.self).variable?.cast(expression).variable == variable
    }

    /// The relationship that a key path leads to.
    func step<X>(_ expression: X) -> RelationshipStep? {
        PredicateNode.of(X.self).path?.cast(expression).relationship(self)
    }
}

protocol VariableExpression: KnownExpression {
    var variable: PredicateExpressions.VariableID { get }
}

extension PredicateExpressions.Variable: VariableExpression {
    var variable: PredicateExpressions.VariableID { key }
}

extension PredicateExpressions.KeyPath: OperandExpression {
    func operand(_ translator: PredicateTranslator) -> PredicateOperand? {
        if translator.isVariable(root) {
            if let index = translator.property(keyPath) { return .property(index, folding: nil, absent: nil) }
            return Output.self is any AnyReference.Type ? .identity : nil
        }
        if let folding = TextFolding(keyPath), let inner = translator.operand(root) { return inner.folded(folding) }
        if let kind, case .collectionCount = kind, let step = translator.step(root) {
            return .count(step)
        }
        return nil
    }
}

extension PredicateOperand {
    /// The operand folded, if it is a text.
    fileprivate func folded(_ folding: TextFolding) -> PredicateOperand? {
        switch self {
        case .property(let index, nil, nil): .property(index, folding: folding, absent: nil)
        case .step(let step, let translator, let inner, nil):
            inner.folded(folding).map { .step(step, translator, $0, absent: nil) }
        default: nil
        }
    }

    /// The operand with a value in place of nil.
    fileprivate func replacing(_ absent: Any) -> PredicateOperand? {
        switch self {
        case .property(let index, let folding, nil): .property(index, folding: folding, absent: absent)
        case .step(let step, let translator, let inner, nil): .step(step, translator, inner, absent: absent)
        default: nil
        }
    }
}

/// A key path that may lead to a relationship.
protocol PathExpression: KnownExpression {
    func relationship(_ translator: PredicateTranslator) -> RelationshipStep?
}

extension PredicateExpressions.KeyPath: PathExpression {
    func relationship(_ translator: PredicateTranslator) -> RelationshipStep? {
        translator.isVariable(root) ? translator.relationship(keyPath) : nil
    }
}

extension PredicateExpressions.NilCoalesce: OperandExpression {
    func operand(_ translator: PredicateTranslator) -> PredicateOperand? {
        guard let constant = translator.constant(rhs) else { return nil }
        return translator.operand(lhs)?.replacing(constant)
    }
}

extension PredicateExpressions.ForcedUnwrap: OperandExpression {
    func operand(_ translator: PredicateTranslator) -> PredicateOperand? { nil }
}

extension PredicateExpressions.OptionalFlatMap: OperandExpression {
    func operand(_ translator: PredicateTranslator) -> PredicateOperand? {
        guard let (step, inner) = step(translator), let operand = inner.operand(transform) else { return nil }
        return .step(step, inner, operand, absent: nil)
    }

    /// `$0.folder?.name`: the step to the folder, and the translator of `name`.
    fileprivate func step(_ translator: PredicateTranslator) -> (RelationshipStep, PredicateTranslator)? {
        guard let step = translator.step(wrapped),
            let object = Wrapped.self as? any AnyObjectType.Type,
            let inner = object.translator(translator, variable.key)
        else { return nil }
        return (step, inner)
    }
}

/// The type of objects of some entity.
protocol AnyObjectType {
    static func translator(
        _ outer: PredicateTranslator, _ variable: PredicateExpressions.VariableID
    ) -> PredicateTranslator?
}

extension Object: AnyObjectType {
    static func translator(
        _ outer: PredicateTranslator, _ variable: PredicateExpressions.VariableID
    ) -> PredicateTranslator? { outer.inner(E.self, variable) }
}

// MARK: Conditions

extension PredicateExpressions.Value: TranslatedExpression {
    func condition(_ translator: PredicateTranslator) -> Condition? { (value as? Bool).map { .constant($0) } }
}

extension PredicateExpressions.KeyPath: TranslatedExpression {
    /// A property that is a `Bool`, or whether a relationship is empty.
    func condition(_ translator: PredicateTranslator) -> Condition? {
        if let kind, case .collectionIsEmpty = kind, let step = translator.step(root) {
            return .count(step, .equal, 0)
        }
        guard Output.self == Bool.self, let operand = operand(translator) else { return nil }
        return translator.compared(operand, .equal, [true])
    }
}

extension PredicateExpressions.Equal: TranslatedExpression {
    func condition(_ translator: PredicateTranslator) -> Condition? { translator.equal(lhs, rhs) }
}

extension PredicateExpressions.NotEqual: TranslatedExpression {
    func condition(_ translator: PredicateTranslator) -> Condition? { translator.equal(lhs, rhs).map { .opposite($0) } }
}

extension PredicateTranslator {
    fileprivate func equal<L: PredicateExpression, R: PredicateExpression>(_ left: L, _ right: R) -> Condition? {
        if let operand = operand(left), let constant = constant(right) {
            return compared(operand, .equal, [constant])
        }
        if let operand = operand(right), let constant = constant(left) {
            return compared(operand, .equal, [constant])
        }
        // `$0.folder?.name.contains("x") == true`
        if let binding = left as? any OptionalBinding, let isTrue = constant(right) as? Bool {
            return binding.condition(self, isMissing: !isTrue).map { isTrue ? $0 : .opposite($0) }
        }
        return nil
    }
}

extension PredicateExpressions.Comparison: TranslatedExpression {
    func condition(_ translator: PredicateTranslator) -> Condition? {
        if let operand = translator.operand(lhs), let constant = translator.constant(rhs) {
            return comparison(mirrored: false).flatMap { translator.compared(operand, $0, [constant]) }
        }
        if let operand = translator.operand(rhs), let constant = translator.constant(lhs) {
            return comparison(mirrored: true).flatMap { translator.compared(operand, $0, [constant]) }
        }
        return nil
    }

    /// How the left side is compared with the right one, or the other way round; nil if the translation does not know
    /// it.
    fileprivate func comparison(mirrored: Bool) -> PropertyTest.Comparison? {
        switch op {
        case .lessThan: mirrored ? .greater : .less
        case .lessThanOrEqual: mirrored ? .greaterOrEqual : .lessOrEqual
        case .greaterThan: mirrored ? .less : .greater
        case .greaterThanOrEqual: mirrored ? .lessOrEqual : .greaterOrEqual
        @unknown default: nil
        }
    }
}

extension PredicateExpressions.RangeExpressionContains: TranslatedExpression {
    func condition(_ translator: PredicateTranslator) -> Condition? {
        guard let operand = translator.operand(element) else { return nil }
        let made = (range as? any BoundsExpression)?.bounds(translator)
        guard let bounds = made ?? (translator.constant(range) as? any ConstantRange)?.bounds else { return nil }
        var condition = Condition.constant(true)
        if let lower = bounds.lower {
            guard let part = translator.compared(operand, .greaterOrEqual, [lower]) else { return nil }
            condition = .both(condition, part)
        }
        if let upper = bounds.upper {
            guard let part = translator.compared(operand, bounds.isUpperIncluded ? .lessOrEqual : .less, [upper]) else {
                return nil
            }
            condition = .both(condition, part)
        }
        return condition
    }
}

extension PredicateExpressions.SequenceContains: TranslatedExpression {
    /// A constant collection has a property, or a property that is a list has a constant object.
    func condition(_ translator: PredicateTranslator) -> Condition? {
        if let operand = translator.operand(element), let constant = translator.constant(sequence) {
            guard let elements = constant as? any Sequence else { return nil }
            return translator.compared(operand, .oneOf, Self.array(elements))
        }
        if let operand = translator.operand(sequence), let constant = translator.constant(element) {
            return translator.compared(operand, .hasElement, [constant])
        }
        return nil
    }

    private static func array<Elements: Sequence>(_ elements: Elements) -> [Any] { elements.map { $0 } }
}

extension PredicateExpressions.SequenceStartsWith: TranslatedExpression {
    func condition(_ translator: PredicateTranslator) -> Condition? {
        guard let operand = translator.operand(base), let constant = translator.constant(prefix) as? String else {
            return nil
        }
        return translator.compared(operand, .startsWith, [constant])
    }
}

extension PredicateExpressions.CollectionContainsCollection: TranslatedExpression {
    func condition(_ translator: PredicateTranslator) -> Condition? {
        guard let operand = translator.operand(base), let constant = translator.constant(other) as? String else {
            return nil
        }
        return translator.compared(operand, .contains, [constant])
    }
}

extension PredicateExpressions.SequenceContainsWhere: TranslatedExpression {
    func condition(_ translator: PredicateTranslator) -> Condition? {
        guard let (step, inner) = translator.step(sequence, variable.key, LHS.Output.Element.self),
            let condition = inner.wholly(test)
        else { return nil }
        return .anyOf(step, condition)
    }
}

extension PredicateExpressions.SequenceAllSatisfy: TranslatedExpression {
    func condition(_ translator: PredicateTranslator) -> Condition? {
        guard let (step, inner) = translator.step(sequence, variable.key, LHS.Output.Element.self),
            let condition = inner.wholly(test)
        else { return nil }
        return .not(.anyOf(step, .opposite(condition)))
    }
}

extension PredicateTranslator {
    fileprivate func step<X>(
        _ sequence: X, _ variable: PredicateExpressions.VariableID, _ element: Any.Type
    ) -> (RelationshipStep, PredicateTranslator)? {
        guard let step = step(sequence),
            let object = element as? any AnyObjectType.Type, let inner = object.translator(self, variable)
        else { return nil }
        return (step, inner)
    }
}

extension PredicateExpressions.NilCoalesce: TranslatedExpression {
    /// `if let date = $0.date { date > past } else { false }`, and the same with a step to another object.
    func condition(_ translator: PredicateTranslator) -> Condition? {
        guard let isMissing = translator.constant(rhs) as? Bool else {
            return (lhs as? any OptionalBinding)?.ofConstant(translator) { translator.wholly(rhs) }
        }
        return (lhs as? any OptionalBinding)?.condition(translator, isMissing: isMissing)
            ?? operand(translator).flatMap { translator.compared($0, .equal, [true]) }
    }
}

protocol OptionalBinding {
    func condition(_ translator: PredicateTranslator, isMissing: Bool) -> Condition?
    /// The condition if the bound value is a constant; nil otherwise. `missing` makes the condition for no value.
    func ofConstant(_ translator: PredicateTranslator, ifMissing missing: () -> Condition?) -> Condition?
}

extension PredicateExpressions.OptionalFlatMap: OptionalBinding {
    func condition(_ translator: PredicateTranslator, isMissing: Bool) -> Condition? {
        if let (step, inner) = step(translator) {
            return inner.wholly(transform).map { .step(step, $0, isMissing: isMissing) }
        }
        // The bound value represents the property: its comparisons are those of the property, if that is not nil.
        guard let (index, property) = (wholeProperty(translator)), property.codec.isOptional else {
            return ofConstant(translator) { .constant(isMissing) }
        }
        let bound = BoundProperty(translator: translator, index: index, variable: variable.key)
        guard let present = bound.condition(transform) else { return nil }
        guard let isNull = translator.compared(.property(index, folding: nil, absent: nil), .isNull, []) else {
            return nil
        }
        return isMissing ? .either([isNull, present]) : .both(.not(isNull), present)
    }

    func ofConstant(_ translator: PredicateTranslator, ifMissing missing: () -> Condition?) -> Condition? {
        guard let constant = translator.value(wrapped) else { return nil }
        guard let content = constant else { return missing() }
        return translator.binding(variable, content).wholly(transform)
    }

    private func wholeProperty(_ translator: PredicateTranslator) -> (Int, EntityModel.Property)? {
        guard let operand = translator.operand(wrapped), case .property(let index, nil, nil) = operand else {
            return nil
        }
        return (index, translator.binding.properties[index])
    }
}

/// A value that `if let` has bound: comparisons of it are comparisons of the property.
private struct BoundProperty {
    let translator: PredicateTranslator
    let index: Int
    let variable: PredicateExpressions.VariableID

    func condition(_ expression: Any) -> Condition? {
        (expression as? any BoundComparison)?.condition(self)
    }

    func operand<X>(_ expression: X) -> PredicateOperand? {
        guard PredicateNode.of(X.self).variable?.cast(expression).variable == variable else { return nil }
        return .property(index, folding: nil, absent: nil)
    }
}

private protocol BoundComparison {
    func condition(_ bound: BoundProperty) -> Condition?
}

extension PredicateExpressions.Comparison: BoundComparison {
    fileprivate func condition(_ bound: BoundProperty) -> Condition? {
        guard let operand = bound.operand(lhs), let constant = bound.translator.constant(rhs) else { return nil }
        return comparison(mirrored: false).flatMap { bound.translator.compared(operand, $0, [constant]) }
    }
}

extension PredicateExpressions.Equal: BoundComparison {
    fileprivate func condition(_ bound: BoundProperty) -> Condition? {
        guard let operand = bound.operand(lhs), let constant = bound.translator.constant(rhs) else { return nil }
        return bound.translator.compared(operand, .equal, [constant])
    }
}
