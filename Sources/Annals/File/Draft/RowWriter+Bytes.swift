// The bytes of a row: slots, presence bits and the variable part. Values were validated before.
//
// Invariants:
// W5  From `start` on, `bytes` have only the row until it is finished.
// W6  The slots of variable attributes below `nextVariable` are written, and no other slots.

extension RowWriter {
    // MARK: Presence

    /// The first byte of the row. A caller that stores several fields reads it once: after each store through a
    /// pointer, the compiler would read it again.
    @inline(__always)
    var row: UnsafeMutableRawPointer { bytes.pointee.base + start }

    /// Sets the presence bit of an attribute of `row`. Returns false if it was set before.
    @inline(__always)
    @discardableResult
    func markPresent(_ position: Int, in row: UnsafeMutableRawPointer) -> Bool {
        let presence = presence(position, in: row)
        let before = presence.load(as: UInt8.self)
        presence.storeBytes(of: before | presenceBit(position), as: UInt8.self)
        return before & presenceBit(position) == 0
    }

    @inline(__always)
    func isPresent(_ position: Int) -> Bool {
        presence(position, in: row).load(as: UInt8.self) & presenceBit(position) != 0
    }

    @inline(__always)
    private func presence(_ position: Int, in row: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
        row + (shape.content.pointee.presenceOffset &+ position &>> 3)
    }

    @inline(__always)
    private func presenceBit(_ position: Int) -> UInt8 { 1 &<< UInt8(truncatingIfNeeded: position & 7) }

    // MARK: Any value

    /// Writes a value of the attribute's type: a new one, one of the old row, or a default.
    mutating func store(_ value: StoredValue, at position: Int) {
        let slot = shape.slot(position)
        if case .absent = value { return }
        precondition(value.fits(slot.type), "A value does not have its attribute's type.")
        switch value {
        case .absent: return
        case .bool(let bool): place(of: slot, position).storeBytes(of: bool ? 1 : 0, as: UInt8.self)
        case .int(let int): store(UInt64(bitPattern: int), slot, position)
        case .double(let double), .date(let double): store(double.bitPattern, slot, position)
        case .object(let object): store(object.rawValue, slot, position)
        case .uuid(let uuid):
            let place = place(of: slot, position)
            place.storeBytes(of: uuid.high.bigEndian, as: UInt64.self)
            place.storeBytes(of: uuid.low.bigEndian, toByteOffset: 8, as: UInt64.self)
        case .decimal(let decimal): store(decimal, slot, position)
        case .large(let reference): append(reference: reference, slot, position)
        case .string, .json, .data, .orderedObjects, .objects:
            var content = ByteWriter(capacity: max(64, value.variableBytes))
            value.appendContent(to: &content)
            append(inline: content.bytes, slot, position)
        }
    }

    @inline(__always)
    private func store(_ word: UInt64, _ slot: RowSlot, _ position: Int) {
        place(of: slot, position).storeBytes(of: word.littleEndian, as: UInt64.self)
    }

    private func store(_ decimal: DecimalValue, _ slot: RowSlot, _ position: Int) {
        let place = place(of: slot, position)
        place.storeBytes(of: decimal.decimalClass, toByteOffset: DecimalField.decimalClass, as: UInt8.self)
        place.storeBytes(
            of: decimal.exponent.littleEndian, toByteOffset: DecimalField.exponent, as: type(of: decimal.exponent))
        place.storeBytes(of: decimal.low.littleEndian, toByteOffset: DecimalField.mantissa, as: UInt64.self)
        place.storeBytes(of: decimal.high.littleEndian, toByteOffset: DecimalField.mantissa + 8, as: UInt64.self)
    }

    /// Marks a fixed attribute as present. Returns its address.
    @inline(__always)
    private func place(of slot: RowSlot, _ position: Int) -> UnsafeMutableRawPointer {
        let row = row
        markPresent(position, in: row)
        return row + Int(slot.offset)
    }

    // MARK: Variable values

    /// Appends a value in the form of its type.
    @inline(__always)
    mutating func append(inline content: UnsafeRawBufferPointer, _ slot: RowSlot, _ position: Int) {
        precondition(
            content.count <= FormatLimits.maximumInlineValueBytes,
            "A value of this size must be stored outside of its row.")
        let offset = claim(slot, position)
        bytes.pointee.append(content)
        bytes.pointee.patch(end, at: offset)
    }

    mutating func append(reference: LargeValueReference, _ slot: RowSlot, _ position: Int) {
        let offset = claim(slot, position)
        bytes.pointee.append(reference.offset)
        bytes.pointee.append(reference.valueBytes)
        bytes.pointee.append(reference.checksum)
        bytes.pointee.patch(end | RowField.largeBit, at: offset)
    }

    /// Marks the next variable attribute that has a value. Returns the offset of its slot.
    @inline(__always)
    private mutating func claim(_ slot: RowSlot, _ position: Int) -> Int {
        let index = Int(slot.variableIndex)
        // W1.
        precondition(
            slot.isVariable && index >= nextVariable,
            "Variable values must be set in the order of their attributes.")
        if index > nextVariable { skipVariables(to: index) }
        nextVariable = index &+ 1
        markPresent(position, in: row)
        return start &+ Int(slot.offset)
    }

    /// Leaves variable attributes absent. The slot of an absent value holds the end of its empty value.
    mutating func skipVariables(to index: Int) {
        precondition(index >= nextVariable, "Variable values must be set in the order of their attributes.")
        for variable in nextVariable..<index {
            bytes.pointee.patch(end, at: start &+ Int(shape.slot(shape.variable(variable)).offset))
        }
        nextVariable = index
    }

    // MARK: The end

    /// The end of the last variable value, from the row's start.
    @inline(__always)
    private var end: UInt32 { UInt32(truncatingIfNeeded: bytes.pointee.count &- start) }

    /// The size of the variable part.
    @inline(__always)
    var variableBytes: Int { bytes.pointee.count &- start &- shape.variableOffset }

    /// Completes the row with its size and padding. It may be too long: then its owner moves values out.
    @inline(__always)
    mutating func finish() {
        if nextVariable < shape.variableCount { skipVariables(to: shape.variableCount) }
        assert(nextVariable == shape.variableCount, "W6: a variable attribute has no slot.")
        let rowBytes = bytes.pointee.count &- start
        assert(rowBytes >= shape.variableOffset, "W5: a row has lost its slots.")
        bytes.pointee.patch(end, at: start &+ RowField.rowBytes)
        bytes.pointee.appendFewZeros((8 &- rowBytes & 7) & 7)
    }
}
