// Reads one attribute of a row in place, without decoding the rest.

/// The header of a row: enough to find the layout of the rest.
package struct RowHeader: Equatable, Sendable {
    /// From the change entry to the row, in units of 8 bytes.
    package let entryDistance: UInt16
    package let schemaVersion: UInt16
    /// Without padding.
    package let rowBytes: Int

    /// Reads the header. Throws `damaged` if the bytes do not contain it, or not the row that it describes.
    package init(_ bytes: UnsafeRawBufferPointer, fileOffset: UInt64 = 0) throws(StoreError) {
        guard bytes.count >= RowField.bytes else { throw RowHeader.damaged("a row is cut off.", fileOffset) }
        entryDistance = UInt16(
            littleEndian: bytes.loadUnaligned(fromByteOffset: RowField.entryDistance, as: UInt16.self))
        schemaVersion = UInt16(
            littleEndian: bytes.loadUnaligned(fromByteOffset: RowField.schemaVersion, as: UInt16.self))
        let size = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: RowField.rowBytes, as: UInt32.self))
        rowBytes = Int(truncatingIfNeeded: size)
        guard rowBytes >= RowField.bytes, rowBytes <= bytes.count else {
            throw RowHeader.damaged("the size of a row is impossible.", fileOffset)
        }
    }

    @inline(never)
    static func damaged(_ message: String, _ offset: UInt64) -> StoreError {
        StoreError(.damaged, "F21: " + message, offset: offset)
    }
}

/// A row's bytes under the layout of its entity and schema version.
///
/// 1. `rowBytes` is at most the count of the bytes given, and at least the layout's `variableOffset`: so slots and
///    presence bits are always inside. Ends of variable values are compared with it at every reading.
///
/// So it is safe for arbitrary bytes. The caller keeps the memory unchanged, and the layout alive, while the view or a
/// buffer from it is used. (Readers of rows retain the catalog that owns the layout; a view with reference counts would
/// slow a scan by a fifth.) A position or a type that the layout does not have is a mistake of the program, and traps.
@usableFromInline package struct RowImage {
    /// Reads values without calling into this module.
    @usableFromInline package let cells: RowCells
    /// The row's offset in the file.
    package let fileOffset: UInt64
    /// The number of bytes from the row's beginning on.
    private let byteCount: Int

    /// `bytes` begin with the row and may continue after it.
    package init(_ bytes: UnsafeRawBufferPointer, layout: RowLayout, fileOffset: UInt64 = 0) throws(StoreError) {
        let header = try RowHeader(bytes, fileOffset: fileOffset)
        try self.init(bytes, rowBytes: header.rowBytes, RowShape(layout), fileOffset: fileOffset)
    }

    /// The row has `rowBytes`, by its header, and `bytes` hold all of them.
    @inline(__always)
    init(
        _ bytes: UnsafeRawBufferPointer, rowBytes: Int, _ shape: RowShape, fileOffset: UInt64
    ) throws(StoreError) {
        guard rowBytes >= shape.variableOffset, let base = bytes.baseAddress else {
            throw RowHeader.damaged("a row is shorter than its slots.", fileOffset)
        }
        cells = RowCells(base, shape, rowBytes: rowBytes)
        byteCount = bytes.count
        self.fileOffset = fileOffset
    }

    private var base: UnsafeRawPointer { cells.base }
    private var shape: RowShape { cells.shape }
    package var rowBytes: Int { cells.rowBytes }
    package var layout: RowLayout { shape.layout.takeUnretainedValue() }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: byteCount) }

    /// Whether the row has the attributes of that layout at its positions. Counts no references.
    @inline(__always)
    package func isLike(_ layout: RowLayout) -> Bool { shape.family == layout.family }

    @inline(__always)
    func isLike(_ other: RowShape) -> Bool { shape.family == other.family }

    /// The number of attributes.
    package var count: Int { shape.count }
    var presenceOffset: Int { shape.presenceOffset }
    var variableOffset: Int { shape.variableOffset }

    @inline(__always)
    func slot(at position: Int) -> RowSlot { shape.slot(position) }

    // MARK: Fixed slots

    package func isPresent(_ position: Int) -> Bool {
        precondition(position >= 0 && position < count, "The entity has no attribute at that position.")
        return cells.presence(position)
    }

    /// The number of present attributes.
    package var presentCount: Int {
        var count = 0
        for offset in presenceOffset..<variableOffset {
            count += base.load(fromByteOffset: offset, as: UInt8.self).nonzeroBitCount
        }
        return count
    }

    package func bool(at position: Int) throws(StoreError) -> Bool? {
        guard let byte = cells.bool(position) else { return nil }
        guard byte <= 1 else { throw malformed(position) }
        return byte == 1
    }

    package func int(at position: Int) -> Int64? { cells.int(position) }

    package func double(at position: Int) -> Double? { cells.double(position) }

    /// Seconds since 2001-01-01T00:00:00Z.
    package func date(at position: Int) -> Double? { cells.date(position) }

    package func uuid(at position: Int) -> UUIDBytes? {
        slot(position, .uuid).map { UUIDBytes(high: load8($0, 0).byteSwapped, low: load8($0, 8).byteSwapped) }
    }

    package func decimal(at position: Int) throws(StoreError) -> DecimalValue? {
        guard let slot = slot(position, .decimal) else { return nil }
        let content = UnsafeRawBufferPointer(start: slot, count: DecimalField.bytes)
        guard let decimal = DecimalValue(slot: content) else { throw malformed(position) }
        return decimal
    }

    package func object(at position: Int) throws(StoreError) -> ObjectID? {
        guard let slot = slot(position, .object) else { return nil }
        guard let object = ObjectID(rawValue: load8(slot, 0)) else { throw malformed(position) }
        return object
    }

    /// The slot of a present value of that type; nil for an absent one.
    @inline(__always)
    private func slot(_ position: Int, _ type: AttributeType) -> UnsafeRawPointer? {
        cells.slot(position, type: type.code)
    }

    @inline(__always)
    private func load8(_ address: UnsafeRawPointer, _ offset: Int) -> UInt64 {
        UInt64(littleEndian: address.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    // MARK: Variable values

    package enum Variable {
        case absent
        /// The value's bytes, in the row; not yet checked against the value's type.
        case inline(UnsafeRawBufferPointer)
        case large(LargeValueReference)
    }

    package func variable(at position: Int) throws(StoreError) -> Variable {
        let (content, isLarge) = try variableBytes(position)
        guard cells.presence(position) else { return .absent }
        guard isLarge else { return .inline(content) }
        guard let reference = reference(content, slot(at: position).type) else { throw malformed(position) }
        return .large(reference)
    }

    /// The row's bytes for a variable attribute, whether it is present, and whether they are a reference.
    @inline(__always)
    func variableBytes(_ position: Int) throws(StoreError) -> (UnsafeRawBufferPointer, isLarge: Bool) {
        let slot = slot(at: position)
        precondition(slot.type.isVariable, "The attribute has another type.")
        let word = cells.word(slot.offset)
        let end = Int(truncatingIfNeeded: word & ~RowField.largeBit)
        let start =
            slot.previousOffset == 0
            ? variableOffset : Int(truncatingIfNeeded: cells.word(slot.previousOffset) & ~RowField.largeBit)
        guard start >= variableOffset, start <= end, end <= rowBytes else {
            throw RowHeader.damaged("a value is not within its row.", fileOffset &+ UInt64(slot.offset))
        }
        return (UnsafeRawBufferPointer(start: base + start, count: end &- start), word & RowField.largeBit != 0)
    }

    func reference(_ content: UnsafeRawBufferPointer, _ type: AttributeType) -> LargeValueReference? {
        guard content.count == ReferenceField.bytes, let start = content.baseAddress else { return nil }
        let size = load8(start, ReferenceField.valueBytes)
        guard !type.isObjectList || size % 8 == 0 else { return nil }
        return LargeValueReference(
            offset: load8(start, ReferenceField.offset), valueBytes: size,
            checksum: load8(start, ReferenceField.checksum))
    }

    // MARK: Any value

    /// The value of the attribute, copied out of the row and validated against its type.
    package func value(at position: Int) throws(StoreError) -> StoredValue {
        switch slot(at: position).type {
        case .bool: try bool(at: position).map { .bool($0) } ?? .absent
        case .int: int(at: position).map { .int($0) } ?? .absent
        case .double: double(at: position).map { .double($0) } ?? .absent
        case .date: date(at: position).map { .date($0) } ?? .absent
        case .uuid: uuid(at: position).map { .uuid($0) } ?? .absent
        case .decimal: try decimal(at: position).map { .decimal($0) } ?? .absent
        case .object: try object(at: position).map { .object($0) } ?? .absent
        case .string, .data, .json, .orderedObjects, .objects: try variableValue(position)
        }
    }

    private func variableValue(_ position: Int) throws(StoreError) -> StoredValue {
        switch try variable(at: position) {
        case .absent: return .absent
        case .large(let reference): return .large(reference)
        case .inline(let content):
            guard let value = StoredValue(content, slot(at: position).type) else { throw malformed(position) }
            return value
        }
    }

    package func values() throws(StoreError) -> [StoredValue] {
        var values: [StoredValue] = []
        values.reserveCapacity(count)
        for position in 0..<count { values.append(try value(at: position)) }
        return values
    }

    @inline(never)
    func malformed(_ position: Int) -> StoreError {
        let (start, type) = (Int(slot(at: position).offset), slot(at: position).type)
        let offset = fileOffset &+ UInt64(start)
        if StoredForm.isNewer(bytes.slice(start, type.slotBytes), type) {
            return .newer("F22", "a value in a row has another form", offset: offset)
        }
        return StoreError(.damaged, "F22: a value in a row does not have the form of its type.", offset: offset)
    }
}
