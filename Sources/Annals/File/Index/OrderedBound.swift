// Where a range of an ordered index begins and ends.

/// One end of a range. The bytes are an encoded key, or the first components of one: as no component is the beginning
/// of another one, the keys that begin with them are those that have these components.
package enum IndexBound: Equatable, Sendable {
    case unbounded
    /// The range holds the keys that begin with these bytes.
    case including([UInt8])
    /// The range does not hold them.
    case excluding([UInt8])
    /// The range ends next to this entry, without it: where reading goes on after what was read last.
    case beside(key: [UInt8], ObjectID)

    /// The cut that a range from here begins at.
    func withLowerCut<R>(_ body: (OrderedTarget?) throws(StoreError) -> R) throws(StoreError) -> R {
        try withCut(including: .beforeEntry, excluding: .afterPrefix, beside: .afterEntry, body)
    }

    /// The cut that a range to here ends at.
    func withUpperCut<R>(_ body: (OrderedTarget?) throws(StoreError) -> R) throws(StoreError) -> R {
        try withCut(including: .afterPrefix, excluding: .beforeEntry, beside: .beforeEntry, body)
    }

    private func withCut<R>(
        including: OrderedTarget.Edge, excluding: OrderedTarget.Edge, beside: OrderedTarget.Edge,
        _ body: (OrderedTarget?) throws(StoreError) -> R
    ) throws(StoreError) -> R {
        switch self {
        case .unbounded: try body(nil)
        case .including(let key): try withTarget(key, 0, including, body)
        case .excluding(let key): try withTarget(key, 0, excluding, body)
        case .beside(let key, let object): try withTarget(key, object.rawValue, beside, body)
        }
    }

    /// The key lives until the body returns.
    private func withTarget<R>(
        _ key: [UInt8], _ object: UInt64, _ edge: OrderedTarget.Edge,
        _ body: (OrderedTarget?) throws(StoreError) -> R
    ) throws(StoreError) -> R {
        try key.withUnsafeBufferPointer { (key) throws(StoreError) -> R in
            try body(OrderedTarget(UnsafeRawBufferPointer(key), object: object, edge: edge))
        }
    }
}
