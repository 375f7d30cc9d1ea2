// The record target's part for schemas, rows, values and index keys.

internal import Annals
internal import SimulatedDisk

extension FuzzTargets {
    // MARK: Schemas

    static func schema(_ input: inout InputReader) throws(StoreError) {
        let schema = try SchemaDefinition(table: input.rest)
        let tables: [[UInt8]]
        do throws(StoreError) {
            tables = try schema.encodeTables()
        } catch {
            violation("Z2", "a schema that was read cannot be written: \(error)")
        }
        require(tables.count == 1, "Z2", "one schema table is written as \(tables.count)")
        requireSame(tables[0], input.rest, "A schema table")
        var catalog = SchemaCatalog()
        var first = schema
        first.version = 1
        try catalog.apply(first)
        let ascending = first.entities.sorted { $0.number < $1.number }
        require(
            catalog.definition(version: 1).entities == ascending, "Z2",
            "a catalog tells another schema than it was told")
        for entity in ascending {
            require(catalog.layout(version: 1, entity: entity.number) != nil, "Z2", "an entity has no layout")
            for attribute in entity.attributes { _ = attribute.valueBeforeItExisted }
        }
    }

    // MARK: Rows

    /// A byte for how many attributes, one for each, then the row.
    static func row(_ input: inout InputReader) throws(StoreError) {
        let choices = input.byte()
        let isDeletion = choices & 0x80 != 0
        let layout = try RowLayout.make(entity(attributes: Int(choices & 0x1F), &input))
        // A view of a row does not keep its layout.
        defer { withExtendedLifetime(layout) {} }
        let view = try RowImage(input.rest, layout: layout)
        for position in 0..<layout.count { try? touch(view, position) }
        try view.validate(isDeletion: isDeletion)
        let header = try RowHeader(input.rest)
        var writer = ByteWriter()
        do throws(StoreError) {
            let values = try view.values()
            let bytes = try EncodedRow.append(
                values, layout: layout, entryDistance: header.entryDistance, schemaVersion: header.schemaVersion,
                isDeletion: isDeletion, to: &writer)
            require(bytes == view.rowBytes, "Z2", "a row of \(view.rowBytes) bytes is written with \(bytes)")
        } catch {
            violation("Z2", "a valid row cannot be read and written: \(error)")
        }
        requireSame(Array(writer.bytes), .init(rebasing: input.rest.prefix(writer.count)), "A row")
    }

    private static func entity(attributes count: Int, _ input: inout InputReader) -> EntityDefinition {
        var attributes: [AttributeDefinition] = []
        for index in 0..<count {
            let choice = input.byte()
            let type = AttributeType.allCases[Int(choice & 0x3F) % AttributeType.allCases.count]
            attributes.append(
                AttributeDefinition(
                    number: UInt16(index + 1), type: type,
                    flags: AttributeFlags(rawValue: (choice >> 7) | (choice >> 6 & 1) << 3),
                    name: Self.names[index]))
        }
        return EntityDefinition(number: 1, name: "Fuzzed", attributes: attributes)
    }

    private static let names = (0..<32).map { "a\($0)" }

    /// Every way to look at an attribute.
    private static func touch(_ view: RowImage, _ position: Int) throws(StoreError) {
        let isPresent = view.isPresent(position)
        if view.layout.slots[position].type.isVariable, case .inline(let content) = try view.variable(at: position) {
            for byte in content { blackHole(byte) }
        }
        let value = try view.value(at: position)
        if case .absent = value {
            require(!isPresent, "Z2", "a present attribute reads as absent")
        } else {
            require(isPresent, "Z2", "an absent attribute has a value")
            require(value.fits(view.layout.slots[position].type), "Z2", "a value is of another type than its attribute")
        }
    }

    @inline(never)
    private static func blackHole(_: UInt8) {}

    // MARK: Values

    static func content(_ input: inout InputReader) {
        let type = AttributeType.allCases[Int(input.byte()) % AttributeType.allCases.count]
        let content = input.rest
        let value = StoredValue(content, type)
        require(
            (value != nil) == type.accepts(Array(content)), "Z2",
            "a value of \(type) is accepted by one check and not the other")
        guard let value else { return }
        var writer = ByteWriter()
        value.appendContent(to: &writer)
        requireSame(Array(writer.bytes), content, "A value of \(type)")
    }

    // MARK: Index keys

    /// A byte for how many components, one for the type of each, then the key.
    static func orderedKey(_ input: inout InputReader) throws(StoreError) {
        let count = Int(input.byte() % 8)
        let types = input.bytes(count)
        let key = input.rest
        var reader = OrderedKeyReader(key)
        var writer = ByteWriter()
        for type in types { try copyComponent(type % 9, &reader, &writer) }
        guard reader.isAtEnd else { return }
        requireSame(Array(writer.bytes), key, "A key of types \(Array(types))")
    }

    private static func copyComponent(
        _ type: UInt8, _ reader: inout OrderedKeyReader, _ key: inout ByteWriter
    ) throws(StoreError) {
        switch type {
        case 0: if let bool = try reader.readBool() { return OrderedKey.append(bool: bool, to: &key) }
        case 1: if let int = try reader.readInt() { return OrderedKey.append(int: int, to: &key) }
        case 2: if let double = try reader.readDouble() { return OrderedKey.append(double: double, to: &key) }
        case 3:
            if let data = try reader.readData() {
                return data.withUnsafeBytes { OrderedKey.append(data: $0, to: &key) }
            }
        case 4: if let string = try reader.readString() { return OrderedKey.append(string: string, to: &key) }
        case 5: if let uuid = try reader.readUUID() { return OrderedKey.append(uuid: uuid.high, uuid.low, to: &key) }
        case 6: if let object = try reader.readObject() { return OrderedKey.append(object: object, to: &key) }
        case 7: if let date = try reader.readDate() { return OrderedKey.append(double: date, to: &key) }
        default:
            switch try reader.readDecimal() {
            case nil: break
            case .notANumber: return OrderedKey.appendDecimalNotANumber(to: &key)
            case .number(let mantissa, let exponent, let isNegative):
                return OrderedKey.append(decimal: mantissa, exponent: exponent, isNegative: isNegative, to: &key)
            }
        }
        OrderedKey.appendAbsent(to: &key)
    }
}
