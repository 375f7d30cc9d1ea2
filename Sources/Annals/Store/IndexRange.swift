// The two bounds of a range over an index, in the engine's form. The caller checks values that are too long for a key,
// which the index cannot decide.

/// Bounds of a range.
struct IndexRange {
    let keys: KeyRange
    /// Rejects rows outside the range, which the engine lends if the bounds are not exact; nil if they are.
    private let filter: IndexRangeFilter?

    var isExact: Bool { filter == nil }

    /// - Parameter layout: The caller's layout of the index's entity, by which the types of values are checked.
    ///
    /// Throws `typeMismatch` if a value does not have its attribute's type, and `invalidArgument` if there are more
    /// values than attributes.
    init(_ index: IndexShape, _ layout: RowLayout, _ lower: RangeBound, _ upper: RangeBound) throws(StoreError) {
        // Most ranges are of few rows: nothing is made for them but the keys.
        var writer = ByteWriter(capacity: 256)
        try Self.append(lower, index, layout, to: &writer)
        let low = writer.count
        let isExact: Bool
        if case .including(let values) = lower, lower == upper {
            isExact = low <= IndexKey.uncutBytes
            let isComplete = values.count == index.positions.count
            keys = IndexKey.range(ofWhole: Array(writer.bytes), isComplete: isComplete)
        } else {
            try Self.append(upper, index, layout, to: &writer)
            let begin = Self.bound(lower, writer.bytes.slice(0, low))
            let end = Self.bound(upper, writer.bytes.slice(low, writer.count - low))
            (keys, isExact) = (KeyRange(from: begin.bound, to: end.bound), begin.isExact && end.isExact)
        }
        if isExact {
            filter = nil
        } else {
            let (first, all) = (writer.bytes.slice(0, low), writer.bytes)
            filter = IndexRangeFilter(
                index.id.attributes.compactMap { layout.attribute($0) }, .init(lower, first),
                .init(upper, all.count == low ? all : all.slice(low, all.count - low)))
        }
    }

    /// Appends the whole key of a bound.
    private static func append(
        _ bound: RangeBound, _ index: IndexShape, _ layout: RowLayout, to writer: inout ByteWriter
    ) throws(StoreError) {
        let values: [Value]
        switch bound {
        case .unbounded: return
        case .including(let given), .excluding(let given), .prefix(let given): values = given
        }
        guard values.count <= index.positions.count else {
            throw StoreError(
                .invalidArgument, "A bound has more values than its key has attributes: leave out the last values.")
        }
        for place in values.indices {
            let value = values[place]
            let type = type(of: place, index, layout).keyType
            guard value.isNull || value.type == type else { throw mismatch(place, index, layout) }
            _ = try IndexKey.append(try value.storedValue(), type, &writer)
        }
        if case .prefix = bound { try IndexKey.removeEnd(of: values.last?.type, &writer) }
    }

    /// The type of an attribute of the index in the caller's layout, which may be older than that of the index.
    private static func type(of place: Int, _ index: IndexShape, _ layout: RowLayout) -> AttributeType {
        if layout === index.layout { return index.types[place] }
        return layout.attribute(index.id.attributes[place])?.type ?? index.types[place]
    }

    @inline(never)
    private static func mismatch(_ place: Int, _ index: IndexShape, _ layout: RowLayout) -> StoreError {
        let name = layout.attribute(index.id.attributes[place])?.name.text ?? index.attributes[place]
        let type = type(of: place, index, layout).keyType
        return StoreError(.typeMismatch, "The bound for “\(name)” must be of the type \(type).")
    }

    private static func bound(_ bound: RangeBound, _ key: UnsafeRawBufferPointer) -> (bound: IndexBound, isExact: Bool)
    {
        let isExact = key.count <= IndexKey.uncutBytes
        switch bound {
        case .unbounded: return (.unbounded, true)
        case .excluding where isExact: return (.excluding(Array(key)), true)
        default: return (.including(Array(key.prefix(IndexKey.uncutBytes))), isExact)
        }
    }

    /// Whether the row lies in the range. Compares whole values. Every row does if the bounds are exact.
    func contains(_ row: RowImage, _ view: View) throws(StoreError) -> Bool { try filter?.contains(row, view) ?? true }
}

/// The bounds of a range that is not exact, with whole keys.
private final class IndexRangeFilter {
    /// One bound with its whole key.
    struct End {
        let key: [UInt8]
        /// The number of attributes in the key.
        let count: Int
        let isIncluded: Bool

        init(_ bound: RangeBound, _ key: UnsafeRawBufferPointer) {
            if case .excluding = bound { isIncluded = false } else { isIncluded = true }
            (self.key, count) = (Array(key), bound.values.count)
        }

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

    private let from: End
    private let to: End
    private let attributes: [AttributeDefinition]

    init(_ attributes: [AttributeDefinition], _ from: End, _ to: End) {
        (self.attributes, self.from, self.to) = (attributes, from, to)
    }

    func contains(_ row: RowImage, _ view: View) throws(StoreError) -> Bool {
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
