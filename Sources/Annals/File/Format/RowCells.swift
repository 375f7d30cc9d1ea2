// Reading fixed values of a row in place.

/// The bytes of a row that has at least its layout's `variableOffset`, so that slots and presence bits are always
/// inside.
///
/// Safe for arbitrary bytes, provided that they and the layout outlive this value; the owner of the `RowImage`
/// guarantees it. A position or a type that the layout does not have is a mistake of the program, and traps.
@usableFromInline package struct RowCells {
    @usableFromInline let base: UnsafeRawPointer
    @usableFromInline let shape: RowShape
    @usableFromInline let rowBytes: Int

    init(_ base: UnsafeRawPointer, _ shape: RowShape, rowBytes: Int) {
        precondition(rowBytes >= shape.variableOffset, "A row is shorter than its slots.")
        self.base = base
        self.shape = shape
        self.rowBytes = rowBytes
    }

    /// Whether the attribute is present. The position must have been checked.
    @inlinable @inline(__always)
    func presence(_ position: Int) -> Bool {
        let byte = base.load(fromByteOffset: shape.content.pointee.presenceOffset &+ position >> 3, as: UInt8.self)
        return byte >> UInt8(truncatingIfNeeded: position & 7) & 1 != 0
    }

    /// The slot of a present value of the type with that number (FileFormat.md, "Rows"); nil for an absent one.
    @inlinable @inline(__always)
    func slot(_ position: Int, type: UInt8) -> UnsafeRawPointer? {
        let slot = shape.slot(position)
        precondition(slot.typeNumber == type, "The attribute has another type.")
        return presence(position) ? base + Int(slot.offset) : nil
    }

    @inlinable @inline(__always)
    func bits(_ position: Int, type: UInt8) -> UInt64? {
        slot(position, type: type).map { UInt64(littleEndian: $0.loadUnaligned(as: UInt64.self)) }
    }

    /// 0 or 1; other bytes are damage.
    @inlinable @inline(__always)
    package func bool(_ position: Int) -> UInt8? { slot(position, type: 1).map { $0.load(as: UInt8.self) } }

    @inlinable @inline(__always)
    package func int(_ position: Int) -> Int64? { bits(position, type: 2).map { Int64(bitPattern: $0) } }

    @inlinable @inline(__always)
    package func double(_ position: Int) -> Double? { bits(position, type: 3).map { Double(bitPattern: $0) } }

    /// Seconds since 2001-01-01T00:00:00Z.
    @inlinable @inline(__always)
    package func date(_ position: Int) -> Double? { bits(position, type: 6).map { Double(bitPattern: $0) } }

    /// The bytes of a variable value inside the row, not yet checked against its type. Nil for an absent one, a
    /// reference, and damage: `RowImage.variable` distinguishes them.
    @inlinable @inline(__always)
    package func variableBytes(_ position: Int) -> UnsafeRawBufferPointer? {
        let slot = shape.slot(position)
        precondition(slot.isVariable, "The attribute has another type.")
        let end = word(slot.offset)
        // The highest bit marks a reference: as an offset it is beyond any row.
        let start =
            slot.previousOffset == 0
            ? UInt32(truncatingIfNeeded: shape.content.pointee.variableOffset) : word(slot.previousOffset) & 0x7FFF_FFFF
        guard start >= UInt32(truncatingIfNeeded: shape.content.pointee.variableOffset), start <= end,
            Int(end) <= rowBytes, presence(position)
        else { return nil }
        return UnsafeRawBufferPointer(start: base + Int(start), count: Int(end &- start))
    }

    @inlinable @inline(__always)
    func word(_ offset: UInt16) -> UInt32 {
        UInt32(littleEndian: base.loadUnaligned(fromByteOffset: Int(offset), as: UInt32.self))
    }
}

// MARK: Many rows of one layout

/// The location of an attribute in the rows of a layout and of its family, computed once for all of them.
///
/// Sound for any bytes of a row, as for `RowCells`, because all offsets are those of the layout's slots and presence
/// bits, and ends of variable values are compared with the row at every reading.
struct RowColumn {
    let type: AttributeType
    let isOptional: Bool
    private let slotOffset: UInt16
    /// The offset of the slot that holds the start of a variable value; 0 if the value starts at `variableOffset`.
    private let previousOffset: UInt16
    private let presenceOffset: UInt16
    private let presenceBit: UInt8
    private let variableOffset: UInt32
    private let family: ObjectIdentifier

    /// The position must exist.
    init(_ layout: RowLayout, _ position: Int) {
        let slot = layout.slots[position]
        type = slot.type
        isOptional = slot.isOptional
        slotOffset = slot.offset
        previousOffset = slot.previousOffset
        presenceOffset = UInt16(layout.presenceOffset + position >> 3)
        presenceBit = 1 << UInt8(position & 7)
        variableOffset = UInt32(layout.variableOffset)
        family = layout.family
    }

    /// The slot of a present value; nil for an absent one. The row is of the layout's family.
    @inline(__always)
    func slot(_ cells: RowCells) -> UnsafeRawPointer? {
        assert(cells.shape.family == family, "The row has another layout.")
        let presence = cells.base.load(fromByteOffset: Int(presenceOffset), as: UInt8.self)
        return presence & presenceBit != 0 ? cells.base + Int(slotOffset) : nil
    }

    /// As `slot`, for a value of 64 bits.
    @inline(__always)
    func word(_ cells: RowCells) -> UInt64? {
        slot(cells).map { UInt64(littleEndian: $0.loadUnaligned(as: UInt64.self)) }
    }

    /// As `RowCells.variableBytes`.
    @inline(__always)
    func variableBytes(_ cells: RowCells) -> UnsafeRawBufferPointer? {
        guard slot(cells) != nil else { return nil }
        let end = cells.word(slotOffset)
        // The highest bit marks a reference: as an offset it is beyond any row.
        let start = previousOffset == 0 ? variableOffset : cells.word(previousOffset) & 0x7FFF_FFFF
        guard start >= variableOffset, start <= end, Int(end) <= cells.rowBytes else { return nil }
        return UnsafeRawBufferPointer(start: cells.base + Int(start), count: Int(end &- start))
    }
}
