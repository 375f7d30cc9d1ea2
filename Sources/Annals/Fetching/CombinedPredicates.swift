// Predicates that a program puts together while it runs, such as the filters that its user has chosen.

public import FoundationEssentials

/// A predicate that holds if all of these hold. Without any, it always holds.
///
/// ```swift
/// var filters: [Predicate<Object<Clip>>] = [#Predicate { $0.rank > 10 }]
/// if let text { filters.append(#Predicate { $0.title.contains(text) }) }
/// let clips = try snapshot.fetch(Clip.self, where: allOf(filters))
/// ```
public func allOf<E: Entity>(_ predicates: [Predicate<Object<E>>]) -> Predicate<Object<E>> {
    Predicate { CombinedPredicates(way: .all, predicates: predicates, object: $0) }
}

/// A predicate that holds if at least one of these holds. Without any, it never holds.
public func anyOf<E: Entity>(_ predicates: [Predicate<Object<E>>]) -> Predicate<Object<E>> {
    Predicate { CombinedPredicates(way: .any, predicates: predicates, object: $0) }
}

/// A predicate that holds if none of these holds.
public func noneOf<E: Entity>(_ predicates: [Predicate<Object<E>>]) -> Predicate<Object<E>> {
    Predicate { CombinedPredicates(way: .none, predicates: predicates, object: $0) }
}

/// Several predicates over the same object.
private struct CombinedPredicates<E: Entity>: StandardPredicateExpression {
    enum Way {
        case all, any, none
    }

    let way: Way
    let predicates: [Predicate<Object<E>>]
    let object: PredicateExpressions.Variable<Object<E>>

    func evaluate(_ bindings: PredicateBindings) throws -> Bool {
        let object = try object.evaluate(bindings)
        switch way {
        case .all: return try predicates.allSatisfy { try $0.evaluate(object) }
        case .any: return try predicates.contains { try $0.evaluate(object) }
        case .none: return try !predicates.contains { try $0.evaluate(object) }
        }
    }
}

/// `StandardPredicateExpression` requires it. Predicates over objects cannot be coded, because objects belong to a
/// store.
extension CombinedPredicates: Codable {
    init(from decoder: any Decoder) throws {
        throw DecodingError.dataCorrupted(
            DecodingError.Context(
                codingPath: decoder.codingPath, debugDescription: "Predicates over objects cannot be decoded."))
    }

    func encode(to encoder: any Encoder) throws {
        throw EncodingError.invalidValue(
            self,
            EncodingError.Context(
                codingPath: encoder.codingPath, debugDescription: "Predicates over objects cannot be encoded."))
    }
}

/// A part of one of several predicates, which has a variable of its own.
private struct Rebound<E: Entity>: PredicateExpression {
    let expression: any PredicateExpression<Bool>
    let variable: PredicateExpressions.Variable<Object<E>>
    let object: PredicateExpressions.Variable<Object<E>>

    func evaluate(_ bindings: PredicateBindings) throws -> Bool {
        try expression.evaluate(PredicateBindings((variable, try object.evaluate(bindings))))
    }
}

extension Rebound: TitledExpression {
    func title(_ translator: PredicateTranslator) -> String {
        translator.with(variable.key).title(expression)
    }
}

/// Several predicates of any entity.
protocol CombinedExpression: KnownExpression {
    /// Their condition; `evaluate` makes one of each part that cannot be translated.
    func condition(
        _ translator: PredicateTranslator, _ evaluate: (any PredicateExpression<Bool>) -> Condition
    ) -> Condition
}

extension CombinedPredicates: CombinedExpression {
    func condition(
        _ translator: PredicateTranslator, _ evaluate: (any PredicateExpression<Bool>) -> Condition
    ) -> Condition {
        let parts = predicates.map { predicate in
            translator.with(predicate.variable.key).condition(predicate.expression) { expression in
                evaluate(Rebound(expression: expression, variable: predicate.variable, object: object))
            }
        }
        switch way {
        case .all: return parts.reduce(.constant(true)) { .both($0, $1) }
        case .any: return .either(parts)
        case .none: return .opposite(.either(parts))
        }
    }
}
