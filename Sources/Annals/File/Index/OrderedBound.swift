// The beginning and the end of a range of an ordered index.

/// One end of a range. The bytes are an encoded key, or the first components of one: no component is the beginning of
/// another one, so the keys that begin with these bytes are those with these components.
package enum IndexBound: Equatable, Sendable {
    case unbounded
    /// The range holds the keys that begin with these bytes.
    case including([UInt8])
    /// The range excludes them.
    case excluding([UInt8])
    /// The range ends next to this entry and excludes it: reading continues here after the last entry read.
    case beside(key: [UInt8], ObjectID)

    /// The cut that a range from here begins at.
    func withLowerCut<R>(_ body: (OrderedTarget?) throws(StoreError) -> R) throws(StoreError) -> R {
        try withCut(including: .beforeEntry, excluding: .afterPrefix, beside: .afterEntry, body)
    }

    /// The cut that a range to here ends at.
    func withUpperCut<R>(_ body: (OrderedTarget?) throws(StoreError) -> R) throws(StoreError) -> R {
        try withCut(including: .afterPrefix, excluding: .beforeEntry, beside: .beforeEntry, body)
    }

    /// Whether this lower end allows the entry.
    func isBelow(_ key: [UInt8], _ object: ObjectID) -> Bool {
        switch self {
        case .unbounded: true
        case .including(let bound): !Self.isBefore(key, bound)
        case .excluding(let bound): !Self.isBefore(key, bound) && !key.starts(with: bound)
        case .beside(let bound, let other): bound == key ? other < object : Self.isBefore(bound, key)
        }
    }

    /// Whether this upper end allows the entry.
    func isAbove(_ key: [UInt8], _ object: ObjectID) -> Bool {
        switch self {
        case .unbounded: true
        case .including(let bound): Self.isBefore(key, bound) || key.starts(with: bound)
        case .excluding(let bound): Self.isBefore(key, bound)
        case .beside(let bound, let other): bound == key ? object < other : Self.isBefore(key, bound)
        }
    }

    static func isBefore(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.withUnsafeBytes { left in right.withUnsafeBytes { right in left.isBefore(right) } }
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

/// A range of an ordered index.
package struct KeyRange: Equatable, Sendable {
    package var lower: IndexBound
    package var upper: IndexBound

    package init(from lower: IndexBound = .unbounded, to upper: IndexBound = .unbounded) {
        (self.lower, self.upper) = (lower, upper)
    }

    /// The keys that begin with these bytes.
    package init(_ key: [UInt8]) { self.init(from: .including(key), to: .including(key)) }

    /// The keys of a reference to an object, or of an element of a list.
    init(element: ObjectID) {
        var key = ByteWriter(capacity: 16)
        IndexKey.append(element: element, to: &key)
        self.init(Array(key.bytes))
    }
}
