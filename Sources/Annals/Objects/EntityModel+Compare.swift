// Comparing and combining values of a type property by property.
//
// Invariants:
// EC1  Two properties are equal if they would be stored as the same bytes. A property that cannot be stored equals
//      nothing.
// EC2  Two properties are the same if their stored values are equal in Swift: texts may have different forms.

internal import FoundationEssentials

extension EntityModel {
    /// Whether a property is the same in two values at these addresses (EC1).
    func isEqual(_ slot: Int, _ left: UnsafeRawPointer, _ right: UnsafeRawPointer) -> Bool {
        let place = places[slot]
        let (left, right) = (left + place.offset, right + place.offset)
        switch place.comparison {
        case .bytes:
            return UnsafeRawBufferPointer(start: left, count: place.size)
                .hasSameBytes(as: UnsafeRawBufferPointer(start: right, count: place.size))
        case .text:
            return Self.isSameText(
                left.assumingMemoryBound(to: String.self), right.assumingMemoryBound(to: String.self))
        case .optionalText:
            let left = left.assumingMemoryBound(to: String?.self)
            let right = right.assumingMemoryBound(to: String?.self)
            guard left.pointee != nil, right.pointee != nil else { return left.pointee == nil && right.pointee == nil }
            // A non-nil optional begins with its content.
            return Self.isSameText(
                UnsafeRawPointer(left).assumingMemoryBound(to: String.self),
                UnsafeRawPointer(right).assumingMemoryBound(to: String.self))
        case .optionalReference:
            let (left, right) = (left.load(as: ReferenceContent?.self), right.load(as: ReferenceContent?.self))
            guard let left, let right else { return left == nil && right == nil }
            return left.id == right.id && ReferenceContent.mayBeEqual(left.store, right.store)
        case .stored: return isStoredEqual(slot, left, right)
        }
    }

    /// Whether a property has the same value, regardless of a text's form (EC2).
    func isSame(_ slot: Int, _ left: UnsafeRawPointer, _ right: UnsafeRawPointer) -> Bool {
        if isEqual(slot, left, right) { return true }
        let (codec, offset) = (properties[slot].codec, properties[slot].offset)
        guard let left = try? codec.value(at: left + offset), let right = try? codec.value(at: right + offset) else {
            return false
        }
        return left == right
    }

    func isSame<E: Entity>(_ slot: Int, _ left: E, _ right: E) -> Bool {
        withUnsafePointer(to: left) { left in
            withUnsafePointer(to: right) { right in isSame(slot, UnsafeRawPointer(left), UnsafeRawPointer(right)) }
        }
    }

    @inline(__always)
    private static func isSameText(_ left: UnsafePointer<String>, _ right: UnsafePointer<String>) -> Bool {
        let bytes = MemoryLayout<String>.size
        // Copies of one text have the same storage.
        let isSameStorage = UnsafeRawBufferPointer(start: left, count: bytes)
            .hasSameBytes(as: UnsafeRawBufferPointer(start: right, count: bytes))
        if isSameStorage { return true }
        guard left.pointee.isContiguousUTF8, right.pointee.isContiguousUTF8 else {
            return left.pointee.utf8.elementsEqual(right.pointee.utf8)
        }
        // Asks for memory that may be changed, so that nothing is retained. Only a text that is not contiguous would be
        // changed.
        return UnsafeMutablePointer(mutating: left).pointee.withUTF8 { left in
            UnsafeMutablePointer(mutating: right).pointee.withUTF8 { right in
                UnsafeRawBufferPointer(left).hasSameBytes(as: UnsafeRawBufferPointer(right))
            }
        }
    }

    @inline(never)
    private func isStoredEqual(_ slot: Int, _ left: UnsafeRawPointer, _ right: UnsafeRawPointer) -> Bool {
        let codec = properties[slot].codec
        guard let left = try? codec.value(at: left).storedValue(),
            let right = try? codec.value(at: right).storedValue()
        else { return false }
        return left == right
    }

    /// The slot of the first property that differs; nil if none does.
    func firstDifference<E: Entity>(_ left: E, _ right: E) -> Int? {
        withUnsafePointer(to: left) { left in
            withUnsafePointer(to: right) { right in places.indices.first { !isEqual($0, left, right) } }
        }
    }

    /// The slots of the properties that differ.
    func differences<E: Entity>(_ left: E, _ right: E) -> [Int] {
        withUnsafePointer(to: left) { left in
            withUnsafePointer(to: right) { right in
                var slots: [Int] = []
                for slot in places.indices where !isEqual(slot, left, right) { slots.append(slot) }
                return slots
            }
        }
    }

    /// The same without derived properties and texts that differ in form only: the slots that may be in conflict.
    func contestedDifferences<E: Entity>(_ left: E, _ right: E) -> [Int] {
        differences(left, right).filter { !properties[$0].isDerived && !isSame($0, left, right) }
    }

    /// Replaces properties of a value by those of another.
    func copy<E: Entity>(_ slots: some Sequence<Int>, from value: E, to other: inout E) {
        withUnsafePointer(to: value) { value in
            withUnsafeMutablePointer(to: &other) { other in
                for slot in slots {
                    let offset = properties[slot].offset
                    properties[slot].codec.copy(
                        UnsafeRawPointer(value) + offset, to: UnsafeMutableRawPointer(other) + offset)
                }
            }
        }
    }

    /// The property as it would be stored; nil if it cannot be.
    func value<E: Entity>(at slot: Int, in value: E) -> Value? {
        withUnsafePointer(to: value) {
            try? properties[slot].codec.value(at: UnsafeRawPointer($0) + properties[slot].offset)
        }
    }

    // MARK: References

    func references<E: Entity>(at slot: Int, in value: E) -> [ObjectID] {
        guard let value = self.value(at: slot, in: value) else { return [] }
        return value.object.map { [$0] } ?? value.orderedObjects ?? value.objects ?? []
    }

    /// Sets the references of a property. One that refers to a single object gets the first.
    func setReferences<E: Entity>(_ objects: [ObjectID], at slot: Int, in value: inout E) {
        let codec = properties[slot].codec
        let stored: Value =
            switch codec.attributeType {
            case .object: objects.first.map { .object($0) } ?? .null
            case .orderedObjects: .orderedObjects(objects)
            default: .objects(objects)
            }
        withUnsafeMutablePointer(to: &value) {
            let place = UnsafeMutableRawPointer($0) + properties[slot].offset
            _ = codec.store(stored, of: codec.mark(at: place), at: place)
        }
    }

    func removeReference<E: Entity>(to target: ObjectID, at slot: Int, in value: inout E) {
        setReferences(references(at: slot, in: value).filter { $0 != target }, at: slot, in: &value)
    }

    /// Whether a property may refer to objects of an entity.
    func refers(to entity: any Entity.Type) -> Bool {
        referringSlots.contains { properties[$0].codec.target == entity }
    }

    /// Replaces references by other ones. Returns whether it replaced any.
    func replaceReferences<E: Entity>(_ others: PermanentIDs, in value: inout E) -> Bool {
        var isReplaced = false
        for slot in referringSlots {
            let objects = references(at: slot, in: value)
            guard objects.contains(where: { others[$0] != nil }) else { continue }
            setReferences(objects.map { others[$0] ?? $0 }, at: slot, in: &value)
            isReplaced = true
        }
        return isReplaced
    }
}
