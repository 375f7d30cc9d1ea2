// Where a row's values stand, for callers in other modules that read millions of them.
//
// Only what is public is inlined into another module, and a call for each step would take half of the time that reading a value takes: hence
// this is public, unlike the rest of the module, and says nothing that needs another of its types.

/// Where an attribute stands in a row.
public struct RowSlot: Sendable {
    /// From the row's start.
    @usableFromInline package let offset: UInt16
    /// The slot of the variable attribute before, which says where this one's value begins; 0 where it is the first.
    @usableFromInline let previousOffset: UInt16
    /// Counts the variable attributes; meaningless for others.
    @usableFromInline let variableIndex: UInt16
    @usableFromInline let typeNumber: UInt8
    @usableFromInline let isVariable: Bool
    @usableFromInline let isText: Bool
    package let type: AttributeType
    package let isOptional: Bool
    package let isPreservedOnDeletion: Bool

    init(_ attribute: AttributeDefinition, offset: UInt16, previousOffset: UInt16, variableIndex: UInt16) {
        self.offset = offset
        self.previousOffset = previousOffset
        self.variableIndex = variableIndex
        typeNumber = attribute.type.rawValue
        isVariable = attribute.type.isVariable
        isText = attribute.type.isText
        type = attribute.type
        isOptional = attribute.isOptional
        isPreservedOnDeletion = attribute.flags.contains(.preservedOnDeletion)
    }
}

/// A layout as those refer to it who look at millions of rows: by address, without counting references.
///
/// One word. Valid as long as its layout lives: the caller's promise. Catalogs keep their layouts, so whoever holds the catalog keeps it.
public struct RowShape {
    /// What the layout keeps in memory of its own, for as long as it lives.
    @usableFromInline
    struct Content {
        let layout: Unmanaged<RowLayout>
        let family: ObjectIdentifier
        @usableFromInline let slots: UnsafePointer<RowSlot>
        let variables: UnsafePointer<UInt16>
        @usableFromInline let count: Int
        let variableCount: Int
        @usableFromInline let presenceOffset: Int
        @usableFromInline let variableOffset: Int
        /// Whether an attribute has a default value.
        let hasDefaults: Bool
    }

    @usableFromInline let content: UnsafePointer<Content>

    init(_ layout: RowLayout) { content = UnsafePointer(layout.shapeMemory) }

    var layout: Unmanaged<RowLayout> { content.pointee.layout }

    @inline(__always)
    func isOf(_ layout: RowLayout) -> Bool { content == UnsafePointer(layout.shapeMemory) }

    var family: ObjectIdentifier { content.pointee.family }
    /// How many attributes there are.
    var count: Int { content.pointee.count }
    var variableCount: Int { content.pointee.variableCount }
    var presenceOffset: Int { content.pointee.presenceOffset }
    var variableOffset: Int { content.pointee.variableOffset }
    var hasDefaults: Bool { content.pointee.hasDefaults }

    @inlinable @inline(__always)
    func slot(_ position: Int) -> RowSlot {
        precondition(position >= 0 && position < content.pointee.count, "The entity has no attribute at that position.")
        return content.pointee.slots[position]
    }

    /// The position of a variable attribute.
    @inline(__always)
    func variable(_ index: Int) -> Int {
        precondition(index >= 0 && index < variableCount, "The entity has not so many variable attributes.")
        return Int(content.pointee.variables[index])
    }
}

/// The bytes of a row that has at least its layout's `variableOffset`, so that slots and presence bits are always inside.
///
/// Sound for any bytes by that, as long as they and the layout stay: the promise of who has the `RowView`. Asking for a position or a type that
/// the layout does not have is a mistake of the program, and traps.
public struct RowCells {
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
        precondition(slot.typeNumber == type, "The attribute is of another type.")
        return presence(position) ? base + Int(slot.offset) : nil
    }

    @inlinable @inline(__always)
    func bits(_ position: Int, type: UInt8) -> UInt64? {
        slot(position, type: type).map { UInt64(littleEndian: $0.loadUnaligned(as: UInt64.self)) }
    }

    /// 0 or 1; anything else is damage.
    @inlinable @inline(__always)
    public func bool(_ position: Int) -> UInt8? { slot(position, type: 1).map { $0.load(as: UInt8.self) } }

    @inlinable @inline(__always)
    public func int(_ position: Int) -> Int64? { bits(position, type: 2).map { Int64(bitPattern: $0) } }

    @inlinable @inline(__always)
    public func double(_ position: Int) -> Double? { bits(position, type: 3).map { Double(bitPattern: $0) } }

    /// Microseconds since 1970.
    @inlinable @inline(__always)
    public func date(_ position: Int) -> Int64? { bits(position, type: 6).map { Int64(bitPattern: $0) } }

    /// The bytes of a variable value that stands in the row, not yet checked against its type. Nil for an absent one, a reference, and damage:
    /// `RowView.variable` tells which.
    @inlinable @inline(__always)
    public func variableBytes(_ position: Int) -> UnsafeRawBufferPointer? {
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

    @inlinable @inline(__always)
    func word(_ offset: UInt16) -> UInt32 {
        UInt32(littleEndian: base.loadUnaligned(fromByteOffset: Int(offset), as: UInt32.self))
    }
}
