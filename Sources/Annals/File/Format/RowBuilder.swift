// Writes one row straight into a buffer, without values in between: the path that has to be fast.

/// A row while it is written: begin, set slots in any order, append variable values in the order of their attributes,
/// finish.
///
/// What is not set is absent. Positions and types must be those of the layout, and sizes within the limits; anything
/// else is a mistake of the calling program and traps. The caller's promise: the layout lives as long as the builder,
/// and until `finish` nothing else is appended to the writer, where it would belong to the row.
package struct RowBuilder: ~Copyable {
    private let shape: RowShape
    /// Where in the writer the row begins.
    package let start: Int
    /// The first variable attribute whose slot is not yet written.
    var nextVariable = 0

    package init(
        _ layout: RowLayout, entryDistance: UInt16, schemaVersion: UInt16, in writer: inout ByteWriter
    ) {
        shape = RowShape(layout)
        start = writer.count
        writer.appendFewZeros(layout.variableOffset)
        writer.patch(UInt32(entryDistance) | UInt32(schemaVersion) << 16, at: start)
    }

    package var layout: RowLayout { shape.layout.takeUnretainedValue() }

    // MARK: Fixed slots

    @inline(__always)
    package func set(bool: Bool, at position: Int, in writer: inout ByteWriter) {
        set(byte: bool ? 1 : 0, slot(position, .bool), position, in: &writer)
    }

    @inline(__always)
    package func set(int: Int64, at position: Int, in writer: inout ByteWriter) {
        set(word: UInt64(bitPattern: int), slot(position, .int), position, in: &writer)
    }

    @inline(__always)
    package func set(double: Double, at position: Int, in writer: inout ByteWriter) {
        set(word: double.bitPattern, slot(position, .double), position, in: &writer)
    }

    @inline(__always)
    package func set(date seconds: Double, at position: Int, in writer: inout ByteWriter) {
        set(word: seconds.bitPattern, slot(position, .date), position, in: &writer)
    }

    @inline(__always)
    package func set(object: ObjectID, at position: Int, in writer: inout ByteWriter) {
        set(word: object.rawValue, slot(position, .object), position, in: &writer)
    }

    package func set(uuid: UUIDBytes, at position: Int, in writer: inout ByteWriter) {
        let offset = start &+ Int(slot(position, .uuid).offset)
        markPresent(position, &writer)
        writer.patch(uuid.high.byteSwapped, at: offset)
        writer.patch(uuid.low.byteSwapped, at: offset + 8)
    }

    package func set(decimal: DecimalValue, at position: Int, in writer: inout ByteWriter) {
        let offset = start &+ Int(slot(position, .decimal).offset)
        markPresent(position, &writer)
        writer.patch(decimal.decimalClass, at: offset + DecimalField.decimalClass)
        writer.patch(decimal.exponent, at: offset + DecimalField.exponent)
        writer.patch(decimal.low, at: offset + DecimalField.mantissa)
        writer.patch(decimal.high, at: offset + DecimalField.mantissa + 8)
    }

    @inline(__always)
    private func slot(_ position: Int, _ type: AttributeType) -> RowSlot {
        let slot = shape.slot(position)
        precondition(slot.typeNumber == type.code, "A value is not of its attribute's type.")
        return slot
    }

    @inline(__always)
    private func set(byte: UInt8, _ slot: RowSlot, _ position: Int, in writer: inout ByteWriter) {
        markPresent(position, &writer)
        writer.patch(byte, at: start &+ Int(slot.offset))
    }

    @inline(__always)
    private func set(word: UInt64, _ slot: RowSlot, _ position: Int, in writer: inout ByteWriter) {
        markPresent(position, &writer)
        writer.patch(word, at: start &+ Int(slot.offset))
    }

    /// Whether the attribute was marked.
    @inline(__always)
    func isPresent(_ position: Int, in writer: borrowing ByteWriter) -> Bool {
        writer.byte(at: presenceByte(position)) & presenceBit(position) != 0
    }

    @inline(__always)
    private func markPresent(_ position: Int, _ writer: inout ByteWriter) {
        writer.setBits(presenceBit(position), at: presenceByte(position))
    }

    @inline(__always)
    private func presenceByte(_ position: Int) -> Int { start &+ shape.presenceOffset &+ position >> 3 }

    @inline(__always)
    private func presenceBit(_ position: Int) -> UInt8 { 1 &<< UInt8(truncatingIfNeeded: position & 7) }

    // MARK: Variable values

    /// The value's bytes in the form of its type: the caller answers for UTF-8 and the order of object IDs.
    @inline(__always)
    package mutating func append(_ value: UnsafeRawBufferPointer, at position: Int, in writer: inout ByteWriter) {
        append(value, shape.slot(position), position, in: &writer)
    }

    /// The same with the slot looked up.
    @inline(__always)
    mutating func append(
        _ value: UnsafeRawBufferPointer, _ slot: RowSlot, _ position: Int, in writer: inout ByteWriter
    ) {
        precondition(value.count <= FormatLimits.maximumInlineValueBytes, "A value this long must leave the row.")
        let offset = claimVariable(slot, position, &writer)
        writer.append(value)
        writer.patch(end(writer), at: offset)
    }

    package mutating func append(text: String, at position: Int, in writer: inout ByteWriter) {
        let offset = claimVariable(shape.slot(position), position, &writer)
        let before = writer.count
        writer.append(text: text)
        let bytes = writer.count &- before
        precondition(bytes <= FormatLimits.maximumInlineValueBytes, "A value this long must leave the row.")
        writer.patch(end(writer), at: offset)
    }

    /// A list of object IDs in the order that its type requires.
    package mutating func append(objects: [ObjectID], at position: Int, in writer: inout ByteWriter) {
        precondition(objects.count <= FormatLimits.maximumInlineValueBytes / 8, "A value this long must leave the row.")
        let offset = claimVariable(shape.slot(position), position, &writer)
        for object in objects { writer.append(object.rawValue) }
        writer.patch(end(writer), at: offset)
    }

    package mutating func append(
        reference: LargeValueReference, at position: Int, in writer: inout ByteWriter
    ) {
        let offset = claimVariable(shape.slot(position), position, &writer)
        writer.append(reference.offset)
        writer.append(reference.valueBytes)
        writer.append(reference.checksum)
        writer.patch(end(writer) | RowField.largeBit, at: offset)
    }

    /// Leaves a variable attribute absent, and those before it that were not written.
    mutating func skip(_ slot: RowSlot, in writer: inout ByteWriter) {
        let index = Int(slot.variableIndex)
        precondition(slot.isVariable && index >= nextVariable, "Variable values must come in their order.")
        skipVariables(to: index &+ 1, &writer)
    }

    @inline(__always)
    private mutating func claimVariable(_ slot: RowSlot, _ position: Int, _ writer: inout ByteWriter) -> Int {
        let index = Int(slot.variableIndex)
        precondition(slot.isVariable && index >= nextVariable, "Variable values must come in their order.")
        if index > nextVariable { skipVariables(to: index, &writer) }
        nextVariable = index &+ 1
        markPresent(position, &writer)
        return start &+ Int(slot.offset)
    }

    /// The slot of an absent value says where its empty value ends.
    private mutating func skipVariables(to index: Int, _ writer: inout ByteWriter) {
        for variable in nextVariable..<index {
            let offset = start &+ Int(shape.slot(shape.variable(variable)).offset)
            writer.patch(end(writer), at: offset)
        }
        nextVariable = index
    }

    // MARK: The end

    /// Where the last variable value has ended, from the row's start.
    @inline(__always)
    private func end(_ writer: borrowing ByteWriter) -> UInt32 { UInt32(truncatingIfNeeded: writer.count &- start) }

    /// What the row has after its slots by now.
    package func variableBytes(in writer: borrowing ByteWriter) -> Int { writer.count &- start &- shape.variableOffset }

    /// Completes the row with its size and padding; returns the size without the padding.
    @discardableResult
    package consuming func finish(in writer: inout ByteWriter) -> Int {
        precondition(
            variableBytes(in: writer) <= FormatLimits.maximumInlineRowBytes, "A row this long must lose values.")
        return finishOfAnyLength(in: &writer)
    }

    /// The same for a row that is looked at once more before it counts.
    @discardableResult
    consuming func finishOfAnyLength(in writer: inout ByteWriter) -> Int {
        if nextVariable < shape.variableCount { skipVariables(to: shape.variableCount, &writer) }
        let rowBytes = writer.count &- start
        writer.patch(end(writer), at: start &+ RowField.rowBytes)
        writer.appendFewZeros((8 &- rowBytes & 7) & 7)
        return rowBytes
    }
}
