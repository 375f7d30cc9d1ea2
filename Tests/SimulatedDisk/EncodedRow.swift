// Rows made from values as FileFormat.md describes them, and not as the library writes them: for forged files, and to
// compare with.

package import Annals

package enum EncodedRow {
    /// Appends a row with a value for each attribute of the layout, in order. Returns its size without padding.
    ///
    /// Throws `invalidArgument` if the values are not as many as the attributes, or not of their types.
    @discardableResult
    package static func append(
        _ values: [StoredValue], layout: RowLayout, entryDistance: UInt16, schemaVersion: UInt16,
        isDeletion: Bool = false, to writer: inout ByteWriter
    ) throws(StoreError) -> Int {
        guard values.count == layout.count, zip(values, layout.slots).allSatisfy({ $0 == .absent || $0.fits($1.type) })
        else { throw StoreError(.invalidArgument, "The values do not fit the layout.") }
        let attributes = layout.entity.attributes
        guard isDeletion || zip(values, attributes).allSatisfy({ $0 != .absent || $1.isOptional }) else {
            throw StoreError(.invalidArgument, "A required attribute has no value.")
        }
        let start = writer.count
        writer.appendZeros(layout.variableOffset)
        writer.patch(entryDistance, at: start + RowField.entryDistance)
        writer.patch(schemaVersion, at: start + RowField.schemaVersion)
        for (position, value) in values.enumerated() {
            let slot = start + Int(layout.slots[position].offset)
            if value != .absent {
                let place = start + layout.presenceOffset + position / 8
                let present = writer.bytes[place] | 1 << UInt8(position % 8)
                writer.patch(present, at: place)
            }
            if layout.slots[position].type.isVariable {
                append(content: value, to: &writer)
                let isLarge = if case .large = value { true } else { false }
                writer.patch(UInt32(writer.count - start) | (isLarge ? RowField.largeBit : 0), at: slot)
            } else {
                patch(value, at: slot, &writer)
            }
        }
        let bytes = writer.count - start
        writer.patch(UInt32(bytes), at: start + RowField.rowBytes)
        while (writer.count - start) % 8 != 0 { writer.append(0 as UInt8) }
        return bytes
    }

    private static func append(content value: StoredValue, to writer: inout ByteWriter) {
        switch value {
        case .string(let text), .json(let text): writer.append(Array(text.utf8))
        case .data(let data): writer.append(data)
        case .orderedObjects(let objects): for object in objects { writer.append(object.rawValue) }
        case .objects(let objects):
            for object in Set(objects).map(\.rawValue).sorted() { writer.append(object) }
        case .large(let reference):
            writer.append(reference.offset)
            writer.append(reference.valueBytes)
            writer.append(reference.checksum)
        default: break
        }
    }

    private static func patch(_ value: StoredValue, at offset: Int, _ writer: inout ByteWriter) {
        switch value {
        case .bool(let bool): writer.patch(bool ? 1 : 0 as UInt8, at: offset)
        case .int(let int): writer.patch(int, at: offset)
        case .double(let double), .date(let double): writer.patch(double.bitPattern, at: offset)
        case .object(let object): writer.patch(object.rawValue, at: offset)
        case .uuid(let uuid):
            for (index, word) in [uuid.high, uuid.low].enumerated() {
                writer.patch(word.byteSwapped, at: offset + index * 8)
            }
        case .decimal(let decimal):
            writer.patch(decimal.decimalClass, at: offset + DecimalField.decimalClass)
            writer.patch(decimal.exponent, at: offset + DecimalField.exponent)
            writer.patch(decimal.low, at: offset + DecimalField.mantissa)
            writer.patch(decimal.high, at: offset + DecimalField.mantissa + 8)
        default: break
        }
    }
}

// MARK: Rows of a transaction

extension DraftFrames {
    /// Adds an update with a whole new row. `positions` are those of the attributes that it names.
    package func update(
        _ object: ObjectID, _ row: [StoredValue], positions: [Int], previous: PreviousVersion
    ) throws(StoreError) {
        try change(Entry(.update, object, previous: previous, attributes: AttributeSet(positions)), row)
    }

    package func insert(
        _ object: ObjectID, layout: RowLayout, _ set: (inout RowWriter) throws(StoreError) -> Void
    ) throws(StoreError) {
        try write(Entry(.insert, object, previous: nil), layout, .object, set)
    }
}
