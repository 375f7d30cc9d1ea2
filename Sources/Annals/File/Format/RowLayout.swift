// The offsets of all parts of an entity's rows, computed once for each of its definitions.

internal import Synchronization

/// Offsets of the fields of a row's header.
package enum RowField {
    package static let entryDistance = 0
    package static let schemaVersion = 2
    package static let rowBytes = 4
    package static let bytes = 8

    /// The schema version and the size in a header, read as one word.
    @inline(__always)
    static func versionAndBytes(of header: UInt64) -> (version: UInt16, rowBytes: Int) {
        let version = UInt16(truncatingIfNeeded: header >> UInt64(schemaVersion * 8))
        return (version, Int(truncatingIfNeeded: header >> UInt64(rowBytes * 8) & UInt64(UInt32.max)))
    }

    /// Set in a variable slot whose value lies in value frames.
    package static let largeBit: UInt32 = 1 << 31
}

/// Data of a layer above, stored with a layout so that finding it needs no lock.
///
/// Sound although it is shared: each subclass documents why.
class RowLayoutAttachment: @unchecked Sendable {}

/// The layout of an entity's rows. *Positions* are those of the attributes in the entity's list.
///
/// 1. Slots follow the header, in the order of the attributes, without gaps; then the presence bits; then, from
///    `variableOffset` on, the variable values.
/// 2. So every slot and presence bit of a row of at least `variableOffset` bytes lies inside it.
///
/// Sound although it is shared: nothing changes after `init`, including the memory of the slots and of the `RowShape`.
package final class RowLayout: @unchecked Sendable {
    package let entity: EntityDefinition
    /// The names of its attributes: shared by the rows that are copied.
    package let names: [String]
    /// The types of its attributes.
    let types: [AttributeType]
    /// The entity's number.
    let number: UInt16
    /// The mark of the store (`UUIDBytes.mark`); 0 if that does not matter.
    let storeMark: UInt32
    /// Whether the entity is one of the store's own.
    package let isReserved: Bool
    package let slots: [RowSlot]
    /// The same, for access without reference counting.
    private let slotMemory: UnsafePointer<RowSlot>
    private let variableMemory: UnsafePointer<UInt16>
    /// The memory that a `RowShape` points to.
    let shapeMemory: UnsafePointer<RowShape.Content>
    let hasDefaults: Bool
    package let presenceOffset: Int
    /// The offset of the variable values, which is the size of a row without any.
    package let variableOffset: Int
    /// The positions of the variable attributes.
    package let variables: [UInt16]
    /// Attribute numbers in the upper half, their positions in the lower; ascending.
    private let positions: [UInt32]

    /// Layouts of one family place the same attributes at the same positions: code that reads rows of one also reads
    /// rows of another.
    let family: ObjectIdentifier
    private final class Family: Sendable {}
    /// Retained, so that the identifier is not reused.
    private let familyObject: Family
    /// The address of the attachment of the layers above, which this object retains; 0 for nothing.
    /// (`AtomicLazyReference` looks types up at every load, which makes getting an object by its ID a sixth slower.)
    private let attached = Atomic<UInt>(0)

    /// The definition must be valid: it has at most 1,000 attributes, which keeps all offsets in 16 bits. `earlier` is
    /// the layout of the entity's definition before this one.
    init(_ entity: EntityDefinition, after earlier: RowLayout? = nil, mark: UInt32 = 0) {
        self.entity = entity
        storeMark = mark
        names = entity.attributes.map(\.name.text)
        types = entity.attributes.map { $0.type }
        number = entity.number
        isReserved = entity.name.isReserved
        let isAlike =
            earlier.map { earlier in
                earlier.entity.attributes.elementsEqual(entity.attributes) {
                    $0.number == $1.number && $0.type == $1.type
                }
            } ?? false
        if let earlier, isAlike { familyObject = earlier.familyObject } else { familyObject = Family() }
        family = ObjectIdentifier(familyObject)
        var slots: [RowSlot] = []
        slots.reserveCapacity(entity.attributes.count)
        var variables: [UInt16] = []
        var offset = RowField.bytes
        var previous: UInt16 = 0
        for (position, attribute) in entity.attributes.enumerated() {
            let slot = RowSlot(
                attribute, offset: UInt16(offset), previousOffset: previous, variableIndex: UInt16(variables.count))
            slots.append(slot)
            if attribute.type.isVariable {
                variables.append(UInt16(position))
                previous = slot.offset
            }
            offset += attribute.type.slotBytes
        }
        self.slots = slots
        slotMemory = Self.memory(of: slots)
        self.variables = variables
        variableMemory = Self.memory(of: variables)
        hasDefaults = entity.attributes.contains { $0.defaultValue != nil }
        presenceOffset = offset
        variableOffset = offset + (slots.count + 7) / 8
        assert(variableOffset <= Int(UInt16.max), "The offsets of a row need more than 16 bits.")
        positions = entity.attributes.enumerated().map { UInt32($1.number) << 16 | UInt32($0) }.inOrder()
        // Two steps: the content refers to this object, which must be complete before.
        let shape = UnsafeMutablePointer<RowShape.Content>.allocate(capacity: 1)
        shapeMemory = UnsafePointer(shape)
        shape.initialize(
            to: RowShape.Content(
                layout: .passUnretained(self), entityNumber: number, family: family, slots: slotMemory,
                variables: variableMemory,
                count: slots.count, variableCount: variables.count, presenceOffset: presenceOffset,
                variableOffset: variableOffset, hasDefaults: hasDefaults))
    }

    /// Memory that never changes.
    private static func memory<Element>(of elements: [Element]) -> UnsafePointer<Element> {
        let memory = UnsafeMutablePointer<Element>.allocate(capacity: max(elements.count, 1))
        for (index, element) in elements.enumerated() { (memory + index).initialize(to: element) }
        return UnsafePointer(memory)
    }

    /// The attachment of the layers above; nil before they attach one.
    @inline(__always)
    var attachment: RowLayoutAttachment? {
        Self.attachment(at: attached.load(ordering: .acquiring))?.takeUnretainedValue()
    }

    /// Attaches an object unless the layout has an attachment. Returns the attachment.
    func attach(_ attachment: RowLayoutAttachment) -> RowLayoutAttachment {
        let held = Unmanaged.passRetained(attachment)
        let (isStored, before) = attached.compareExchange(
            expected: 0, desired: UInt(bitPattern: held.toOpaque()), ordering: .acquiringAndReleasing)
        if isStored { return attachment }
        held.release()
        return Self.attachment(at: before)?.takeUnretainedValue() ?? attachment
    }

    @inline(__always)
    private static func attachment(at address: UInt) -> Unmanaged<RowLayoutAttachment>? {
        UnsafeRawPointer(bitPattern: address).map { Unmanaged.fromOpaque($0) }
    }

    deinit {
        Self.attachment(at: attached.load(ordering: .acquiring))?.release()
        shapeMemory.deallocate()
        slotMemory.deallocate()
        variableMemory.deallocate()
    }

    /// Nil if the definition breaks a rule, or is of a removed entity.
    package static func make(_ entity: EntityDefinition) throws(StoreError) -> RowLayout {
        try entity.validate()
        guard entity.state == .present else { throw StoreError(.invalidArgument, "A removed entity has no rows.") }
        return RowLayout(entity)
    }

    package var count: Int { slots.count }

    /// The attribute with that number. Logarithmic.
    func attribute(_ number: UInt16) -> AttributeDefinition? {
        position(ofAttribute: number).map { entity.attributes[$0] }
    }

    /// The position of the attribute with that number, for finding attributes of one version in another. Logarithmic.
    package func position(ofAttribute number: UInt16) -> Int? {
        var low = 0
        var high = positions.count
        while low < high {
            let middle = (low + high) / 2
            if positions[middle] >> 16 < number { low = middle + 1 } else { high = middle }
        }
        guard low < positions.count, positions[low] >> 16 == number else { return nil }
        return Int(positions[low] & 0xFFFF)
    }
}
