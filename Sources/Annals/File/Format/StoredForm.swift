// F22: each type has one form in the file, which these functions validate.

enum StoredForm {
    /// Whether the content of a slot, or the bytes of a variable value, are a value of the type in its only form.
    static func isCanonical(_ content: UnsafeRawBufferPointer, _ type: AttributeType) -> Bool {
        switch type {
        case .bool: content.count == 1 && content[0] <= 1
        case .int, .double, .date: content.count == 8
        case .uuid: content.count == 16
        case .decimal: DecimalValue(slot: content) != nil
        case .object: content.count == 8 && object(content, 0) != nil
        case .data: true
        case .string, .json: content.isText
        case .orderedObjects: orderedObjects(content) != nil
        case .objects: objects(content) != nil
        }
    }

    /// Whether only a later format can mean these bytes as a value of the type: another class of decimals.
    static func isNewer(_ content: UnsafeRawBufferPointer, _ type: AttributeType) -> Bool {
        type == .decimal && content.count == DecimalField.bytes
            && (content[DecimalField.decimalClass] > DecimalValue.highestClass || content[DecimalField.zero] != 0)
    }

    /// Strictly ascending object IDs; nil if they are not.
    static func objects(_ content: UnsafeRawBufferPointer) -> [ObjectID]? {
        guard let list = list(content), ObjectList.isStrictlyAscending(list) else { return nil }
        return list
    }

    /// Object IDs of which no two are equal; nil if they are not.
    static func orderedObjects(_ content: UnsafeRawBufferPointer) -> [ObjectID]? {
        guard let list = list(content), ObjectList.isDistinct(list) else { return nil }
        return list
    }

    private static func list(_ content: UnsafeRawBufferPointer) -> [ObjectID]? {
        guard content.count % 8 == 0 else { return nil }
        var list: [ObjectID] = []
        list.reserveCapacity(content.count / 8)
        for offset in stride(from: 0, to: content.count, by: 8) {
            guard let object = object(content, offset) else { return nil }
            list.append(object)
        }
        return list
    }

    private static func object(_ content: UnsafeRawBufferPointer, _ offset: Int) -> ObjectID? {
        ObjectID(rawValue: UInt64(littleEndian: content.loadUnaligned(fromByteOffset: offset, as: UInt64.self)))
    }
}
