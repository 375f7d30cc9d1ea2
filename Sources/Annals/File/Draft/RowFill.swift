// Writes any value into a row: one that was set, one of the previous row, or a default.

/// Sets values that were validated before.
struct RowFill {
    let row: UnsafeMutablePointer<RowBuilder>
    let bytes: UnsafeMutablePointer<ByteWriter>

    mutating func append(_ value: StoredValue, _ position: Int) throws(StoreError) {
        switch value {
        case .absent: break
        case .bool(let bool): row.pointee.set(bool: bool, at: position, in: &bytes.pointee)
        case .int(let int): row.pointee.set(int: int, at: position, in: &bytes.pointee)
        case .double(let double): row.pointee.set(double: double, at: position, in: &bytes.pointee)
        case .date(let seconds): row.pointee.set(date: seconds, at: position, in: &bytes.pointee)
        case .uuid(let uuid): row.pointee.set(uuid: uuid, at: position, in: &bytes.pointee)
        case .decimal(let decimal): row.pointee.set(decimal: decimal, at: position, in: &bytes.pointee)
        case .object(let object): row.pointee.set(object: object, at: position, in: &bytes.pointee)
        case .large(let reference): row.pointee.append(reference: reference, at: position, in: &bytes.pointee)
        case .string, .json, .data, .orderedObjects, .objects:
            var content = ByteWriter(capacity: max(64, value.variableBytes))
            value.appendContent(to: &content)
            row.pointee.append(content.bytes, at: position, in: &bytes.pointee)
        }
    }
}
