// The locations of an entity's attributes in a row, arranged for fast reading and writing of one value.

/// The location of an attribute in a row.
@usableFromInline package struct RowSlot: Sendable {
    /// From the row's start.
    @usableFromInline package let offset: UInt16
    /// The slot of the previous variable attribute, which holds the start of this one's value; 0 for the first.
    @usableFromInline let previousOffset: UInt16
    /// The index among the variable attributes; meaningless for fixed ones.
    let variableIndex: UInt16
    @usableFromInline let typeNumber: UInt8
    @usableFromInline let isVariable: Bool
    let isText: Bool
    package let type: AttributeType
    package let isOptional: Bool
    package let isPreservedOnDeletion: Bool

    init(_ attribute: AttributeDefinition, offset: UInt16, previousOffset: UInt16, variableIndex: UInt16) {
        self.offset = offset
        self.previousOffset = previousOffset
        self.variableIndex = variableIndex
        typeNumber = attribute.type.code
        isVariable = attribute.type.isVariable
        isText = attribute.type.isText
        type = attribute.type
        isOptional = attribute.isOptional
        isPreservedOnDeletion = attribute.flags.contains(.preservedOnDeletion)
    }
}

/// A layout for reading millions of rows: by address, without counting references.
///
/// One word. Valid as long as its layout lives: the caller's promise. Catalogs keep their layouts, so holding the
/// catalog keeps it.
@usableFromInline package struct RowShape {
    /// The content that a layout keeps in memory of its own, for as long as it lives.
    @usableFromInline struct Content {
        let layout: Unmanaged<RowLayout>
        let entityNumber: UInt16
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

    init(_ layout: RowLayout) { content = layout.shapeMemory }

    var layout: Unmanaged<RowLayout> { content.pointee.layout }

    @inline(__always)
    func isOf(_ layout: RowLayout) -> Bool { content == layout.shapeMemory }

    var entityNumber: UInt16 { content.pointee.entityNumber }
    var family: ObjectIdentifier { content.pointee.family }
    /// The number of attributes.
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
        precondition(index >= 0 && index < variableCount, "The entity has fewer variable attributes.")
        return Int(content.pointee.variables[index])
    }
}
