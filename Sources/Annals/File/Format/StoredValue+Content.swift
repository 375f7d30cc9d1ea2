// Converts values from the bytes of a slot or a variable value, and back: defaults, and values in value frames.

extension StoredValue {
    /// Decodes the content of a slot, or a variable value in a row or in value frames. Nil if the bytes are not a value
    /// of the type in its only form. A long value is copied whole.
    package init?(_ content: UnsafeRawBufferPointer, _ type: AttributeType) {
        guard type.isVariable || content.count == type.slotBytes else { return nil }
        let value: StoredValue? =
            switch type {
            case .bool: content[0] <= 1 ? .bool(content[0] == 1) : nil
            case .int: .int(Int64(bitPattern: StoredValue.load8(content, 0)))
            case .double: .double(Double(bitPattern: StoredValue.load8(content, 0)))
            case .date: .date(Double(bitPattern: StoredValue.load8(content, 0)))
            case .uuid:
                .uuid(
                    UUIDBytes(
                        high: StoredValue.load8(content, 0).byteSwapped, low: StoredValue.load8(content, 8).byteSwapped)
                )
            case .decimal: DecimalValue(slot: content).map { .decimal($0) }
            case .object: ObjectID(rawValue: StoredValue.load8(content, 0)).map { .object($0) }
            case .string: content.text.map { .string($0) }
            case .json: content.text.map { .json($0) }
            case .data: .data(Array(content))
            case .orderedObjects: StoredForm.orderedObjects(content).map { .orderedObjects($0) }
            case .objects: StoredForm.objects(content).map { .objects($0) }
            }
        guard let value else { return nil }
        self = value
    }

    private static func load8(_ content: UnsafeRawBufferPointer, _ offset: Int) -> UInt64 {
        UInt64(littleEndian: content.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    /// Appends the same bytes. Nothing for an absent value; for a large value, its reference as in the row.
    package func appendContent(to writer: inout ByteWriter) {
        switch self {
        case .absent: break
        case .bool(let bool): writer.append((bool ? 1 : 0) as UInt8)
        case .int(let int): writer.append(int)
        case .double(let double): writer.append(double.bitPattern)
        case .date(let seconds): writer.append(seconds.bitPattern)
        case .uuid(let uuid):
            writer.append(uuid.high.byteSwapped)
            writer.append(uuid.low.byteSwapped)
        case .decimal(let decimal):
            writer.append(UInt16(decimal.decimalClass))
            writer.append(decimal.exponent)
            writer.append(decimal.low)
            writer.append(decimal.high)
        case .object(let object): writer.append(object.rawValue)
        case .string(let text), .json(let text): writer.append(text: text)
        case .data(let bytes): writer.append(bytes)
        case .orderedObjects(let objects): for object in objects { writer.append(object.rawValue) }
        case .objects(let objects): for object in ObjectList.set(objects) { writer.append(object.rawValue) }
        case .large(let reference):
            writer.append(reference.offset)
            writer.append(reference.valueBytes)
            writer.append(reference.checksum)
        }
    }
}

extension AttributeDefinition {
    /// The value that a row older than the attribute reads as: the default, or absent.
    package var valueBeforeItExisted: StoredValue {
        guard let defaultValue else { return .absent }
        return defaultValue.withUnsafeBytes { StoredValue($0, type) } ?? .absent
    }
}
