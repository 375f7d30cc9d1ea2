// The components of an index key, by the type of their attribute, from rows and from values.

extension IndexKey {
    /// Appends the component of one attribute; false if it is absent.
    static func append(
        _ row: RowImage, _ position: Int, _ key: inout IndexKeyAssembly, _ writer: inout ByteWriter,
        _ large: LargeValueReader
    ) throws(StoreError) -> Bool {
        guard row.isPresent(position) else {
            OrderedKey.appendAbsent(to: &writer)
            return false
        }
        switch row.layout.slots[position].type {
        case .bool: if let bool = try row.bool(at: position) { OrderedKey.append(bool: bool, to: &writer) }
        case .int: if let int = row.int(at: position) { OrderedKey.append(int: int, to: &writer) }
        case .double: if let double = row.double(at: position) { OrderedKey.append(double: double, to: &writer) }
        case .date: if let date = row.date(at: position) { OrderedKey.append(double: date, to: &writer) }
        case .uuid: if let uuid = row.uuid(at: position) { OrderedKey.append(uuid: uuid.high, uuid.low, to: &writer) }
        case .decimal: if let decimal = try row.decimal(at: position) { append(decimal, &writer) }
        case .object:
            if let object = try row.object(at: position) { OrderedKey.append(object: object.rawValue, to: &writer) }
        case .string, .json: try appendVariable(row, position, isText: true, &key, &writer, large)
        case .data: try appendVariable(row, position, isText: false, &key, &writer, large)
        case .orderedObjects, .objects: throw listRefused()
        }
        return true
    }

    private static func appendVariable(
        _ row: RowImage, _ position: Int, isText: Bool, _ key: inout IndexKeyAssembly, _ writer: inout ByteWriter,
        _ large: LargeValueReader
    ) throws(StoreError) {
        switch try row.variable(at: position) {
        case .absent: break
        case .inline(let content) where isText: OrderedKey.append(text: content, to: &writer)
        case .inline(let content): OrderedKey.append(data: content, to: &writer)
        case .large(let reference): try key.append(reference, isText: isText, to: &writer, large)
        }
    }

    /// Appends the component of one value; false if it is absent.
    static func append(
        _ value: StoredValue, _ type: AttributeType, _ writer: inout ByteWriter
    ) throws(StoreError) -> Bool {
        guard !type.isObjectList else { throw listRefused() }
        guard value.fits(type) else {
            throw refused("A value does not have the type of the indexed attribute.")
        }
        if case .large = value { throw refused("A large value must be read before it is searched for in an index.") }
        append(value, to: &writer)
        if case .absent = value { return false }
        return true
    }

    /// Appends bytes that compare like the value: a component of an index key.
    static func append(_ value: StoredValue, to writer: inout ByteWriter) {
        switch value {
        case .bool(let bool): OrderedKey.append(bool: bool, to: &writer)
        case .int(let int): OrderedKey.append(int: int, to: &writer)
        case .double(let double), .date(let double): OrderedKey.append(double: double, to: &writer)
        case .string(let text), .json(let text): OrderedKey.append(string: text, to: &writer)
        case .data(let data): data.withUnsafeBytes { OrderedKey.append(data: $0, to: &writer) }
        case .uuid(let uuid): OrderedKey.append(uuid: uuid.high, uuid.low, to: &writer)
        case .object(let object): OrderedKey.append(object: object.rawValue, to: &writer)
        case .decimal(let decimal): append(decimal, &writer)
        case .absent, .orderedObjects, .objects, .large: OrderedKey.appendAbsent(to: &writer)
        }
    }

    /// Appends the key of one element of a list of objects.
    package static func append(element: ObjectID, to writer: inout ByteWriter) {
        OrderedKey.append(object: element.rawValue, to: &writer)
    }

    /// The object in the key of a reference, or of an element of a list; nil for the key of no object.
    static func element(ofKey key: UnsafeRawBufferPointer) -> ObjectID? {
        guard key.count == 9, key[0] == OrderedKey.present else { return nil }
        return ObjectID(rawValue: UInt64(bigEndian: key.integer(at: 1, as: UInt64.self)))
    }

    private static func append(_ decimal: DecimalValue, _ writer: inout ByteWriter) {
        guard !decimal.isNotANumber else { return OrderedKey.appendDecimalNotANumber(to: &writer) }
        OrderedKey.append(
            decimal: decimal.mantissa, exponent: decimal.exponent, isNegative: decimal.isNegative, to: &writer)
    }

    @inline(never)
    private static func listRefused() -> StoreError {
        refused("A list of objects has no key: search for one of its elements.")
    }
}
