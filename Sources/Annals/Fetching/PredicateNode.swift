// The types of expressions, looked up once for each type: casting to a protocol takes the runtime long.
//
// Invariants:
// PN1  A type of a node is the type that the node was looked up for, so a cast to it changes nothing.

internal import FoundationEssentials
internal import Synchronization

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
    private let key: ObjectIdentifier
    let combined: (any CombinedExpression.Type)?
    let logical: (any LogicalExpression.Type)?
    let translated: (any TranslatedExpression.Type)?
    let operand: (any OperandExpression.Type)?
    let constant: (any ConstantExpression.Type)?
    let variable: (any VariableExpression.Type)?
    let path: (any PathExpression.Type)?

    private init(_ type: Any.Type) {
        key = ObjectIdentifier(type)
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
        /// The addresses of nodes that were used recently, each at a place that its type determines: found without a
        /// lock. Sound because no node is ever released.
        private let recent = InlineArray<64, Atomic<UInt>> { _ in Atomic(0) }

        func find(_ type: ObjectIdentifier) -> PredicateNode? {
            let place = Self.place(of: type)
            if let address = UnsafeRawPointer(bitPattern: recent[place].load(ordering: .acquiring)) {
                let node = Unmanaged<PredicateNode>.fromOpaque(address).takeUnretainedValue()
                if node.key == type { return node }
            }
            guard let node = monitor.withLock({ nodes[type] }) else { return nil }
            let address = UInt(bitPattern: Unmanaged.passUnretained(node).toOpaque())
            recent[place].store(address, ordering: .releasing)
            return node
        }

        func add(_ node: PredicateNode, _ type: ObjectIdentifier) -> PredicateNode {
            monitor.withLock {
                if let known = nodes[type] { return known }
                nodes[type] = node
                return node
            }
        }

        private static func place(of type: ObjectIdentifier) -> Int {
            Int(truncatingIfNeeded: (UInt(bitPattern: type) &* 0x9E37_79B9_7F4A_7C15) >> 58)
        }
    }
}
