// The two bounds of a range over an index, in the engine's form. The caller checks what the index cannot decide: values
// too long for a key.

/// Bounds of a range. If they are not exact, the engine lends rows outside the range too, and `contains` finds them.
struct IndexRange {
    let lower: IndexBound
    let upper: IndexBound
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

    /// Throws `typeMismatch` if a value does not have its attribute's type, and `invalidArgument` if there are more
    /// values than attributes.
    init(_ index: IndexID, _ layout: RowLayout, _ lower: RangeBound, _ upper: RangeBound) throws(StoreError) {
        attributes = index.attributes.compactMap { number in layout.entity.attributes.first { $0.number == number } }
        let (low, isLowExact) = try Self.bound(lower, attributes)
        let (high, isHighExact) = try Self.bound(upper, attributes)
        isExact = isLowExact && isHighExact
        if !isExact, case .including(let values) = lower, lower == upper, values.count == attributes.count {
            // A single key: for a long key the index also keeps its length and a hash, so few other rows are read.
            let key = try Self.keptKey(lower, attributes)
            (self.lower, self.upper) = (.including(key), .including(key))
        } else {
            (self.lower, self.upper) = (low, high)
        }
        from = isExact ? nil : try Self.end(lower)
        to = isExact ? nil : try Self.end(upper)
    }

    private static func bound(
        _ bound: RangeBound, _ attributes: [AttributeDefinition]
    ) throws(StoreError) -> (IndexBound, isExact: Bool) {
        if bound == .unbounded { return (.unbounded, true) }
        guard bound.values.count <= attributes.count else {
            throw StoreError(
                .invalidArgument, "A bound has more values than its key has attributes: leave out the last values.")
        }
        for (value, attribute) in zip(bound.values, attributes) {
            guard value.isNull || value.type == attribute.type.keyType else {
                throw StoreError(
                    .typeMismatch,
                    "The bound for “\(attribute.name)” must be of the type \(attribute.type.keyType).")
            }
        }
        let values = try fileValues(bound)
        let types = attributes.map(\.type.keyType)
        let made = try { () throws(StoreError) in
            switch bound {
            case .unbounded, .including: try IndexKey.bound(values: values, types: types, isIncluded: true)
            case .excluding: try IndexKey.bound(values: values, types: types, isIncluded: false)
            case .prefix: try IndexKey.prefixBound(values: values, types: types)
            }
        }()
        return (made.bound, made.isExact)
    }

    /// The key in the form that the index keeps.
    private static func keptKey(
        _ bound: RangeBound, _ attributes: [AttributeDefinition]
    ) throws(StoreError) -> [UInt8] {
        let values = try fileValues(bound)
        var writer = ByteWriter()
        try IndexKey.append(values: values, types: attributes.map(\.type.keyType), to: &writer)
        return Array(writer.bytes)
    }

    private static func fileValues(_ bound: RangeBound) throws(StoreError) -> [StoredValue] {
        var values: [StoredValue] = []
        for value in bound.values { values.append(try value.storedValue()) }
        return values
    }

    private static func end(_ bound: RangeBound) throws(StoreError) -> End {
        var isIncluded = true
        if case .excluding = bound { isIncluded = false }
        var key = key(try fileValues(bound))
        if case .prefix = bound { key.removeLast(OrderedKey.endBytes) }
        return End(key: key, count: bound.values.count, isIncluded: isIncluded)
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
        for value in values { append(value, to: &writer) }
        return Array(writer.bytes)
    }

    /// Appends bytes that compare as the value does.
    static func append(_ value: StoredValue, to writer: inout ByteWriter) {
        switch value {
        case .bool(let bool): OrderedKey.append(bool: bool, to: &writer)
        case .int(let int): OrderedKey.append(int: int, to: &writer)
        case .double(let double), .date(let double): OrderedKey.append(double: double, to: &writer)
        case .string(let text), .json(let text): OrderedKey.append(string: text, to: &writer)
        case .data(let data): data.withUnsafeBytes { OrderedKey.append(data: $0, to: &writer) }
        case .uuid(let uuid): OrderedKey.append(uuid: uuid.high, uuid.low, to: &writer)
        case .object(let object): OrderedKey.append(object: object.rawValue, to: &writer)
        case .decimal(let decimal) where decimal.isNotANumber: OrderedKey.appendDecimalNotANumber(to: &writer)
        case .decimal(let decimal):
            OrderedKey.append(
                decimal: decimal.mantissa, exponent: decimal.exponent, isNegative: decimal.isNegative, to: &writer)
        default: OrderedKey.appendAbsent(to: &writer)
        }
    }
}
