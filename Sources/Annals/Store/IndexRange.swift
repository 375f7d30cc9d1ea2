// The two bounds of a range over an index, in the engine's form. The caller checks values that are too long for a key,
// which the index cannot decide.

/// Bounds of a range. If they are not exact, the engine also lends rows outside the range, and `contains` rejects them.
struct IndexRange {
    let keys: KeyRange
    let isExact: Bool
    /// With whole keys. Only for bounds that are not exact.
    private let from: End?
    private let to: End?
    private let attributes: [AttributeDefinition]

    /// One bound with its whole key.
    private struct End {
        var key: [UInt8]
        /// The number of attributes in the key.
        var count: Int
        var isIncluded: Bool

        /// Whether a key of as many attributes comes before the range that begins with this bound.
        func isAfter(_ key: [UInt8]) -> Bool {
            key.lexicographicallyPrecedes(self.key) || !isIncluded && key == self.key
        }

        /// Whether a key of as many attributes comes after the range that ends with this bound. A key that begins with
        /// the bound's key is still in the range.
        func isBefore(_ key: [UInt8]) -> Bool {
            isIncluded
                ? self.key.lexicographicallyPrecedes(key) && !key.starts(with: self.key)
                : !key.lexicographicallyPrecedes(self.key)
        }
    }

    /// - Parameter index: The attributes of the index.
    ///
    /// Throws `typeMismatch` if a value does not have its attribute's type, and `invalidArgument` if there are more
    /// values than attributes.
    init(_ index: [UInt16], _ layout: RowLayout, _ lower: RangeBound, _ upper: RangeBound) throws(StoreError) {
        attributes = index.compactMap { layout.attribute($0) }
        let types = attributes.map(\.type.keyType)
        let low = try Self.fileValues(lower, attributes)
        var high = low
        if case .including = lower, lower == upper {
            (keys, isExact) = try IndexKey.range(of: low, types: types)
        } else {
            high = try Self.fileValues(upper, attributes)
            let begin = try Self.bound(lower, low, types)
            let end = try Self.bound(upper, high, types)
            (keys, isExact) = (KeyRange(from: begin.bound, to: end.bound), begin.isExact && end.isExact)
        }
        (from, to) = isExact ? (nil, nil) : (Self.end(lower, low), Self.end(upper, high))
    }

    private static func bound(
        _ bound: RangeBound, _ values: [StoredValue], _ types: [AttributeType]
    ) throws(StoreError) -> (bound: IndexBound, isExact: Bool) {
        switch bound {
        case .unbounded: (.unbounded, true)
        case .including: try IndexKey.bound(values: values, types: types, isIncluded: true)
        case .excluding: try IndexKey.bound(values: values, types: types, isIncluded: false)
        case .prefix: try IndexKey.prefixBound(values: values, types: types)
        }
    }

    private static func fileValues(
        _ bound: RangeBound, _ attributes: [AttributeDefinition]
    ) throws(StoreError) -> [StoredValue] {
        guard bound.values.count <= attributes.count else {
            throw StoreError(
                .invalidArgument, "A bound has more values than its key has attributes: leave out the last values.")
        }
        var values: [StoredValue] = []
        for (value, attribute) in zip(bound.values, attributes) {
            guard value.isNull || value.type == attribute.type.keyType else {
                throw StoreError(
                    .typeMismatch,
                    "The bound for “\(attribute.name)” must be of the type \(attribute.type.keyType).")
            }
            values.append(try value.storedValue())
        }
        return values
    }

    private static func end(_ bound: RangeBound, _ values: [StoredValue]) -> End {
        var isIncluded = true
        if case .excluding = bound { isIncluded = false }
        var key = key(values)
        if case .prefix = bound { key.removeLast(OrderedKey.endBytes) }
        return End(key: key, count: values.count, isIncluded: isIncluded)
    }

    /// Whether the row lies in the range. Compares whole values. Every row does if the bounds are exact.
    func contains(_ row: RowImage, _ view: View) throws(StoreError) -> Bool {
        guard let from, let to else { return true }
        var values: [StoredValue] = []
        for attribute in attributes.prefix(max(from.count, to.count)) {
            if let position = row.layout.position(ofAttribute: attribute.number) {
                values.append(try view.value(row, at: position))
            } else {
                values.append(attribute.valueBeforeItExisted)
            }
        }
        if from.count > 0 {
            if from.isAfter(Self.key(Array(values.prefix(from.count)))) { return false }
        }
        if to.count > 0 {
            if to.isBefore(Self.key(Array(values.prefix(to.count)))) { return false }
        }
        return true
    }

    /// Bytes that compare as the values do, even for long values.
    private static func key(_ values: [StoredValue]) -> [UInt8] {
        var writer = ByteWriter()
        for value in values { IndexKey.append(value, to: &writer) }
        return Array(writer.bytes)
    }
}
