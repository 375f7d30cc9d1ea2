// The types of expressions, looked up once for each type: casting to a protocol takes the runtime long.
//
// Invariants:
// PN1  A type of a node is the type that the node was looked up for, so a cast to it changes nothing.

internal import FoundationEssentials

/// Expressions that the translation knows by a protocol.
protocol KnownExpression: SendableMetatype {}

extension KnownExpression {
    /// An expression whose type is this one, which the compiler does not know (PN1).
    @inline(__always)
    static func cast<X>(_ expression: X) -> Self {
        precondition(X.self == Self.self, "An expression has another type than its node.")
        return unsafeBitCast(expression, to: Self.self)
    }
}

/// The protocols by which the translation knows a type.
final class PredicateNode: Sendable {
    let combined: (any CombinedExpression.Type)?
    let logical: (any LogicalExpression.Type)?
    let translated: (any TranslatedExpression.Type)?
    let operand: (any OperandExpression.Type)?
    let constant: (any ConstantExpression.Type)?
    let variable: (any VariableExpression.Type)?
    let path: (any PathExpression.Type)?

    private init(_ type: Any.Type) {
        combined = type as? any CombinedExpression.Type
        logical = type as? any LogicalExpression.Type
        translated = type as? any TranslatedExpression.Type
        operand = type as? any OperandExpression.Type
        constant = type as? any ConstantExpression.Type
        variable = type as? any VariableExpression.Type
        path = type as? any PathExpression.Type
    }

    static func of(_ type: Any.Type) -> PredicateNode {
        nodes.find(ObjectIdentifier(type)) ?? nodes.add(PredicateNode(type), ObjectIdentifier(type))
    }

    private static let nodes = KnownNodes()

    /// Sound although it is shared: `monitor` guards the table. A program has few types of expressions.
    private final class KnownNodes: @unchecked Sendable {
        private let monitor = Monitor()
        @exclusivity(unchecked) private var nodes: [ObjectIdentifier: PredicateNode] = [:]

        func find(_ type: ObjectIdentifier) -> PredicateNode? { monitor.withLock { nodes[type] } }

        func add(_ node: PredicateNode, _ type: ObjectIdentifier) -> PredicateNode {
            monitor.withLock {
                if let known = nodes[type] { return known }
                nodes[type] = node
                return node
            }
        }
    }
}

/// The offsets of the properties that key paths of objects lead to, in values of a type.
///
/// A predicate that is made for each fetch makes new key paths. Comparing one with those that are known takes a tenth
/// of the time of following it.
///
/// Sound although it is shared: `monitor` guards the list. Key paths to stored properties contain only constants of the
/// compiler, so any thread may compare them.
final class KnownPaths: @unchecked Sendable {
    private let monitor = Monitor()
    private var known: [(path: AnyKeyPath, offset: Int)] = []
    /// A list is searched from its beginning: of more properties the first ones are known.
    private static let mostKnown = 16

    /// `follow` finds the place of a path that is not known; nil if it leads to no stored property.
    func offset(_ path: AnyKeyPath, _ follow: () -> Int?) -> Int? {
        // Not under the lock: a path of the program may have values that its own code compares.
        let known = monitor.withLock { self.known }
        for entry in known where entry.path == path { return entry.offset }
        guard let offset = follow() else { return nil }
        monitor.withLock {
            if self.known.count < Self.mostKnown { self.known.append((path, offset)) }
        }
        return offset
    }
}
