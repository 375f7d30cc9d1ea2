// The predicate of a history request as a condition: comparisons of authors and contexts with constants compare their
// numbers; the rest is evaluated.
//
// Invariants:
// TP1  For each transaction, a condition has the result of evaluating its predicate.
// TP2  If a transaction's numbers decide, nothing else of it is read.

public import FoundationEssentials

/// The facts about a transaction without its changes, for the predicate of a `HistoryRequest`.
public struct TransactionFacts: Hashable, Sendable {
    /// The number: from 1, without gaps. It alone defines the order.
    public let number: UInt64
    /// When it was committed: microseconds since 1970, UTC.
    public let microseconds: Int64
    /// The name of the author; nil if unknown.
    public let author: String?
    /// The author's activity, or the part of the program; nil if unknown.
    public let contextName: String?
    /// The process that committed it, as its own system numbered it.
    public let processID: UInt32
    /// The file name of the program.
    public let process: String?
    /// Whether it changes the schema.
    public let changesSchema: Bool
    /// The number of objects that it has changed, including those that a request does not select.
    public let changeCount: UInt64

    /// The time as the nearest `Date`.
    public var timestamp: Date { Microseconds.date(microseconds) }

    /// Facts for testing a predicate.
    public init(
        number: UInt64, microseconds: Int64, author: String?, contextName: String?, processID: UInt32, process: String?,
        changesSchema: Bool, changeCount: UInt64
    ) {
        (self.number, self.microseconds, self.author) = (number, microseconds, author)
        (self.contextName, self.processID, self.process) = (contextName, processID, process)
        (self.changesSchema, self.changeCount) = (changesSchema, changeCount)
    }

    fileprivate init(_ transaction: TransactionView) {
        self.init(
            number: transaction.number, microseconds: transaction.time, author: transaction.author,
            contextName: transaction.context, processID: transaction.processID, process: transaction.process,
            changesSchema: transaction.changesSchema, changeCount: transaction.totalChanges)
    }
}

/// A condition in one state of a store.
indirect enum TransactionCondition {
    case constant(Bool)
    /// The number of its author is one of these (TP2).
    case authors(Set<UInt32>)
    /// The number of its context is one of these.
    case contexts(Set<UInt32>)
    case both(TransactionCondition, TransactionCondition)
    case either(TransactionCondition, TransactionCondition)
    case opposite(TransactionCondition)
    case evaluated((TransactionFacts) throws -> Bool)

    init(_ predicate: Predicate<TransactionFacts>, _ engine: Engine) {
        let translator = TransactionTranslator(variable: predicate.variable, number: engine.number(ofName:))
        self = translator.condition(predicate.expression)
    }

    /// The result of the predicate (TP1). Throws `invalidArgument` if the predicate throws.
    func isTrue(of transaction: TransactionView) throws(StoreError) -> Bool {
        switch self {
        case .constant(let isTrue): return isTrue
        case .authors(let numbers): return numbers.contains(transaction.authorNumber)
        case .contexts(let numbers): return numbers.contains(transaction.contextNumber)
        case .both(let left, let right):
            guard try left.isTrue(of: transaction) else { return false }
            return try right.isTrue(of: transaction)
        case .either(let left, let right):
            if try left.isTrue(of: transaction) { return true }
            return try right.isTrue(of: transaction)
        case .opposite(let condition): return try !condition.isTrue(of: transaction)
        case .evaluated(let isTrue):
            do {
                return try isTrue(TransactionFacts(transaction))
            } catch {
                throw StoreError(
                    .invalidArgument,
                    "The predicate of a history request cannot be decided for transaction \(transaction.number): "
                        + "\(StoreError.sentence(error)) Change the predicate.")
            }
        }
    }
}

/// Translates the expressions of one predicate into conditions.
private struct TransactionTranslator {
    let variable: PredicateExpressions.Variable<TransactionFacts>
    /// The number of a name; nil if no transaction has it.
    let number: (String?) -> UInt32?

    enum Operand {
        case author
        case context
    }

    func condition<X: PredicateExpression<Bool>>(_ expression: X) -> TransactionCondition {
        if let known = (expression as? any TransactionExpression)?.condition(self) { return known }
        let variable = variable
        return .evaluated { facts in try expression.evaluate(PredicateBindings((variable, facts))) }
    }

    /// The condition that an operand is one of some names.
    func condition(_ operand: Operand, isOneOf names: [String?]) -> TransactionCondition {
        // An empty name means none, and predicates of the program must treat it so.
        let numbers = Set(names.filter { $0 != "" }.compactMap(number))
        return switch operand {
        case .author: .authors(numbers)
        case .context: .contexts(numbers)
        }
    }

    func operand<X>(_ expression: X) -> Operand? {
        guard let path = (expression as? any FactExpression)?.path(variable) else { return nil }
        if path == \TransactionFacts.author { return .author }
        return path == \TransactionFacts.contextName ? .context : nil
    }

    func constant<X>(_ expression: X) -> Any? { (expression as? any FixedExpression)?.fixed }

    func equal<L, R>(_ left: L, _ right: R) -> TransactionCondition? {
        if let operand = operand(left), let name = constant(right) as? String? {
            return condition(operand, isOneOf: [name])
        }
        guard let operand = operand(right), let name = constant(left) as? String? else { return nil }
        return condition(operand, isOneOf: [name])
    }
}

/// An expression that can become a condition.
private protocol TransactionExpression {
    func condition(_ translator: TransactionTranslator) -> TransactionCondition?
}

/// An expression that may be a property of the transaction.
private protocol FactExpression {
    func path(_ variable: PredicateExpressions.Variable<TransactionFacts>) -> AnyKeyPath?
}

/// An expression that is a constant.
private protocol FixedExpression {
    var fixed: Any { get }
}

extension PredicateExpressions.Value: FixedExpression {
    fileprivate var fixed: Any { value }
}

extension PredicateExpressions.NilLiteral: FixedExpression {
    fileprivate var fixed: Any { Wrapped?.none as Any }
}

extension PredicateExpressions.KeyPath: FactExpression {
    fileprivate func path(_ variable: PredicateExpressions.Variable<TransactionFacts>) -> AnyKeyPath? {
        guard let root = root as? PredicateExpressions.Variable<TransactionFacts>, root.key == variable.key else {
            return nil
        }
        return keyPath
    }
}

extension PredicateExpressions.Value: TransactionExpression {
    fileprivate func condition(_ translator: TransactionTranslator) -> TransactionCondition? {
        (value as? Bool).map { .constant($0) }
    }
}

extension PredicateExpressions.Conjunction: TransactionExpression {
    fileprivate func condition(_ translator: TransactionTranslator) -> TransactionCondition? {
        .both(translator.condition(lhs), translator.condition(rhs))
    }
}

extension PredicateExpressions.Disjunction: TransactionExpression {
    fileprivate func condition(_ translator: TransactionTranslator) -> TransactionCondition? {
        .either(translator.condition(lhs), translator.condition(rhs))
    }
}

extension PredicateExpressions.Negation: TransactionExpression {
    fileprivate func condition(_ translator: TransactionTranslator) -> TransactionCondition? {
        .opposite(translator.condition(wrapped))
    }
}

extension PredicateExpressions.Equal: TransactionExpression {
    fileprivate func condition(_ translator: TransactionTranslator) -> TransactionCondition? {
        translator.equal(lhs, rhs)
    }
}

extension PredicateExpressions.NotEqual: TransactionExpression {
    fileprivate func condition(_ translator: TransactionTranslator) -> TransactionCondition? {
        translator.equal(lhs, rhs).map { .opposite($0) }
    }
}

extension PredicateExpressions.SequenceContains: TransactionExpression {
    fileprivate func condition(_ translator: TransactionTranslator) -> TransactionCondition? {
        guard let operand = translator.operand(element), let names = translator.constant(sequence) else { return nil }
        guard let names = (names as? [String?]) ?? (names as? Set<String?>).map(Array.init) else { return nil }
        return translator.condition(operand, isOneOf: names)
    }
}
