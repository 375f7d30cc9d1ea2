// Reading fixed values of a row in place.

/// The bytes of a row that has at least its layout's `variableOffset`, so that slots and presence bits are always
/// inside.
///
/// Sound for any bytes by that, as long as they and the layout stay: the promise of the owner of the `RowImage`. Asking
/// for a position or a type that the layout does not have is a mistake of the program, and traps.
package struct RowCells {
    let base: UnsafeRawPointer
    let shape: RowShape
    let rowBytes: Int

    init(_ base: UnsafeRawPointer, _ shape: RowShape, rowBytes: Int) {
        precondition(rowBytes >= shape.variableOffset, "A row is shorter than its slots.")
        self.base = base
        self.shape = shape
        self.rowBytes = rowBytes
    }

    /// Whether the attribute is present. The position must have been checked.
    @inline(__always)
    func presence(_ position: Int) -> Bool {
        let byte = base.load(fromByteOffset: shape.content.pointee.presenceOffset &+ position >> 3, as: UInt8.self)
        return byte >> UInt8(truncatingIfNeeded: position & 7) & 1 != 0
    }

    /// The slot of a present value of the type with that number (FileFormat.md, "Rows"); nil for an absent one.
    @inline(__always)
    func slot(_ position: Int, type: UInt8) -> UnsafeRawPointer? {
        let slot = shape.slot(position)
        precondition(slot.typeNumber == type, "The attribute is of another type.")
        return presence(position) ? base + Int(slot.offset) : nil
    }

    @inline(__always)
    func bits(_ position: Int, type: UInt8) -> UInt64? {
        slot(position, type: type).map { UInt64(littleEndian: $0.loadUnaligned(as: UInt64.self)) }
    }

    /// 0 or 1; anything else is damage.
    @inline(__always)
    package func bool(_ position: Int) -> UInt8? { slot(position, type: 1).map { $0.load(as: UInt8.self) } }

    @inline(__always)
    package func int(_ position: Int) -> Int64? { bits(position, type: 2).map { Int64(bitPattern: $0) } }

    @inline(__always)
    package func double(_ position: Int) -> Double? { bits(position, type: 3).map { Double(bitPattern: $0) } }

    /// Microseconds since 1970.
    @inline(__always)
    package func date(_ position: Int) -> Int64? { bits(position, type: 6).map { Int64(bitPattern: $0) } }

    /// The bytes of a variable value that stands in the row, not yet checked against its type. Nil for an absent one, a
    /// reference, and damage: `RowImage.variable` tells which.
    @inline(__always)
    package func variableBytes(_ position: Int) -> UnsafeRawBufferPointer? {
        let slot = shape.slot(position)
        precondition(slot.isVariable, "The attribute is of another type.")
        let end = word(slot.offset)
        // Of a reference the highest bit is set: it is longer than any row.
        let start =
            slot.previousOffset == 0
            ? UInt32(truncatingIfNeeded: shape.content.pointee.variableOffset) : word(slot.previousOffset) & 0x7FFF_FFFF
        guard start >= UInt32(truncatingIfNeeded: shape.content.pointee.variableOffset), start <= end,
            Int(end) <= rowBytes, presence(position)
        else { return nil }
        return UnsafeRawBufferPointer(start: base + Int(start), count: Int(end &- start))
    }

    @inline(__always)
    func word(_ offset: UInt16) -> UInt32 {
        UInt32(littleEndian: base.loadUnaligned(fromByteOffset: Int(offset), as: UInt32.self))
    }
}
