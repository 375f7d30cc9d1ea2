// The key that an ordered index stores for a row: the encoded values, or the beginning and a hash of long ones.

/// Keys as ordered indexes store them.
///
/// A key is the encoded components one after the other (`OrderedKey`); for texts, their normal form. One of more than
/// 240 bytes is *cut*: its first 240 bytes, then its length as u64 big-endian, then a hash of all of it as u64
/// big-endian; 256 bytes, which no other key has. The hash begins with 0 and takes the key in blocks of 4096 bytes, the
/// last one shorter: hash = `Checksum.hash`(block, seed: hash).
///
/// So for any two keys:
/// 1. Equal keys are stored as equal bytes. Different keys are stored as different bytes, unless both are cut, equally
///    long, and agree in their first 240 bytes and their hash. To be certain, compare the rows.
/// 2. Stored keys compare as the keys do, unless both are cut and begin with the same 240 bytes: these lie together in
///    an order of their own, and reading them in order sorts them by their rows. (An uncut key never lies among them:
///    it would have to be exactly these 240 bytes, and no key is the beginning of another key.)
/// 3. Keys that begin with certain bytes, at most 240, are stored with these bytes at their beginning.
package enum IndexKey {
    package static let maximumBytes = OrderedLimits.maximumKeyBytes
    /// The longest key that is not cut, and the bytes stored of one that is.
    package static let uncutBytes = 240
    static let blockBytes = 4096

    /// Whether a key of an index is only the beginning, the length and the hash of the whole.
    package static func isCut(_ key: UnsafeRawBufferPointer) -> Bool { key.count == maximumBytes }

    /// Passes the bytes of a large value to its argument, in pieces, in order.
    package typealias LargeValueReader = (
        LargeValueReference, (UnsafeRawBufferPointer) throws(StoreError) -> Void
    ) throws(StoreError) -> Void

    // MARK: Of rows

    /// Appends the key of a row: at most `maximumBytes` bytes. Returns whether a component is absent: such a key
    /// conflicts with none, also in a unique index.
    ///
    /// `large` reads values in value frames. Throws errors of `large`, `damaged` if a value of the row is malformed,
    /// and `invalidArgument` for a list of objects; the writer is then unchanged.
    @discardableResult
    package static func append(
        row: RowImage, columns: [IndexColumn], to writer: inout ByteWriter, large: LargeValueReader
    ) throws(StoreError) -> Bool {
        try assemble(in: &writer) { (key, writer) throws(StoreError) in
            var hasAbsent = false
            for column in columns {
                let isPresent =
                    switch column {
                    case .position(let position): try append(row, position, &key, &writer, large)
                    case .value(let value, let type): try append(value, type, &writer)
                    }
                if !isPresent { hasAbsent = true }
            }
            return hasAbsent
        }
    }

    /// The same for a row that has all attributes of the index, at these positions.
    @discardableResult
    package static func append(
        row: RowImage, positions: [Int], to writer: inout ByteWriter, large: LargeValueReader
    ) throws(StoreError) -> Bool {
        try assemble(in: &writer) { (key, writer) throws(StoreError) in
            var hasAbsent = false
            for position in positions where !(try append(row, position, &key, &writer, large)) { hasAbsent = true }
            return hasAbsent
        }
    }

    /// Whether the row's key conflicts with no other one, because a component is absent.
    package static func hasAbsent(_ row: RowImage, positions: [Int]) -> Bool {
        positions.contains { !row.isPresent($0) }
    }

    // MARK: Of values

    /// Appends the key with these values: all components of an index, or the first ones. Returns whether one is
    /// absent.
    ///
    /// Throws `invalidArgument` if a value is not of its type, is a list of objects, or is in value frames (read it
    /// first); the writer is then unchanged.
    @discardableResult
    package static func append(
        values: [StoredValue], types: [AttributeType], to writer: inout ByteWriter
    ) throws(StoreError) -> Bool {
        try assemble(in: &writer) { (_, writer) throws(StoreError) in try append(values, types, &writer) }
    }

    /// A bound at the keys whose first components are these values, and whether it is exact.
    ///
    /// If the encoded values are longer than 240 bytes, the bound includes all keys that begin with the first 240: a
    /// reader must then compare the rows with the values. To look for equality with all components, take a key instead.
    package static func bound(
        values: [StoredValue], types: [AttributeType], isIncluded: Bool
    ) throws(StoreError) -> (bound: IndexBound, isExact: Bool) {
        var writer = ByteWriter(capacity: 256)
        _ = try append(values, types, &writer)
        guard writer.count <= uncutBytes else { return (.including(Array(writer.bytes.prefix(uncutBytes))), false) }
        let key = Array(writer.bytes)
        return (isIncluded ? .including(key) : .excluding(key), true)
    }

    /// A bound at the keys whose first components are these values, where the last value, a text or data, is only a
    /// beginning.
    ///
    /// Throws `invalidArgument` if the last value is of another type. Exact as in `bound(values:types:isIncluded:)`.
    package static func prefixBound(
        values: [StoredValue], types: [AttributeType]
    ) throws(StoreError) -> (bound: IndexBound, isExact: Bool) {
        var writer = ByteWriter(capacity: 256)
        _ = try append(values, types, &writer)
        let type: AttributeType? =
            switch values.last {
            case .string: .string
            case .data: .data
            default: nil
            }
        try removeEnd(of: type, &writer)
        return (.including(Array(writer.bytes.prefix(uncutBytes))), writer.count <= uncutBytes)
    }

    /// Makes a key one of a beginning: removes the bytes that end its last component, which is of this type.
    static func removeEnd(of type: AttributeType?, _ writer: inout ByteWriter) throws(StoreError) {
        guard type == .string || type == .data else {
            throw refused(
                "Only a text or data can be searched for by its beginning, and the last value has another type.")
        }
        writer.truncate(to: writer.count - OrderedKey.endBytes)
    }

    /// The range of the keys whose first components are these values, and whether it is exact. The range of a long key
    /// with all components has few other keys. Otherwise as `bound(values:types:isIncluded:)`.
    static func range(
        of values: [StoredValue], types: [AttributeType]
    ) throws(StoreError) -> (range: KeyRange, isExact: Bool) {
        let whole = try wholeKey(of: values, types: types)
        return (range(ofWhole: whole, isComplete: values.count == types.count), whole.count <= uncutBytes)
    }

    /// The bytes of these values, of any length.
    static func wholeKey(of values: [StoredValue], types: [AttributeType]) throws(StoreError) -> [UInt8] {
        var writer = ByteWriter(capacity: 256)
        _ = try append(values, types, &writer)
        return Array(writer.bytes)
    }

    /// - Parameter isComplete: Whether the bytes are all components of the key.
    static func range(ofWhole key: [UInt8], isComplete: Bool) -> KeyRange {
        if key.count <= uncutBytes { return KeyRange(key) }
        guard isComplete else { return KeyRange(Array(key.prefix(uncutBytes))) }
        var writer = ByteWriter(capacity: key.count)
        var assembly = IndexKeyAssembly(start: 0)
        key.withUnsafeBytes { writer.append($0) }
        assembly.finish(in: &writer)
        return KeyRange(Array(writer.bytes))
    }

    private static func append(
        _ values: [StoredValue], _ types: [AttributeType], _ writer: inout ByteWriter
    ) throws(StoreError) -> Bool {
        guard values.count <= types.count else { throw refused("A key has more values than the index has attributes.") }
        var hasAbsent = false
        for (value, type) in zip(values, types) where !(try append(value, type, &writer)) { hasAbsent = true }
        return hasAbsent
    }

    private static func assemble(
        in writer: inout ByteWriter,
        _ append: (inout IndexKeyAssembly, inout ByteWriter) throws(StoreError) -> Bool
    ) throws(StoreError) -> Bool {
        let start = writer.count
        var key = IndexKeyAssembly(start: start)
        do throws(StoreError) {
            let hasAbsent = try append(&key, &writer)
            key.finish(in: &writer)
            assert(writer.count - start <= IndexKey.maximumBytes, "A key is longer than an index can hold.")
            return hasAbsent
        } catch {
            writer.truncate(to: start)
            throw error
        }
    }

    @inline(never)
    static func refused(_ message: String) -> StoreError { StoreError(.invalidArgument, message) }
}
