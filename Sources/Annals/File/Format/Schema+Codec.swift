// Encodes definitions as the tables of schema frames, and decodes these strictly.

extension SchemaDefinition {
    /// The tables of the schema frames that define this version, each of at most `maximumTableBytes`: at least one.
    ///
    /// A definition lies in one frame; one that is larger throws `tooLarge`. One that breaks the rules throws
    /// `invalidArgument`.
    package func encodeTables(
        maximumTableBytes: Int = FormatLimits.maximumFrameBytes - 64
    ) throws(StoreError) -> [[UInt8]] {
        var tables: [[UInt8]] = []
        var table = SchemaTableWriter(version)
        for entity in entities {
            do {
                try entity.validate()
            } catch {
                throw StoreError(.invalidArgument, error.message)
            }
            let bytes = entity.encodedBytes
            guard bytes <= maximumTableBytes - SchemaField.bytes else {
                throw StoreError(
                    .tooLarge,
                    "The definition of an entity does not fit into a frame: give the entity fewer attributes, shorter "
                        + "names or shorter defaults."
                )
            }
            if table.bytes + bytes > maximumTableBytes {
                tables.append(table.finish())
                table = SchemaTableWriter(version)
            }
            table.append(entity)
        }
        tables.append(table.finish())
        return tables
    }

    /// Reads one schema frame's table. Every definition in it is valid by itself; `SchemaCatalog` checks the rest.
    package init(table: UnsafeRawBufferPointer, fileOffset: UInt64 = 0) throws(StoreError) {
        var reader = ByteReader(table, fileOffset: fileOffset)
        version = try reader.readUInt16()
        let count = try reader.readUInt16()
        try reader.readReserved(4)
        guard version != 0 else { throw StoreError(.damaged, "A schema version is 0.", offset: fileOffset) }
        entities = []
        for _ in 0..<count { entities.append(try reader.readEntityDefinition()) }
        try reader.finish()
    }
}

extension SchemaDefinition {
    /// Adds the definitions of the transaction's next schema frame. Throws `damaged` if that frame defines another
    /// version.
    package mutating func append(_ next: SchemaDefinition) throws(StoreError) {
        guard next.version == version else {
            throw StoreError(.damaged, "The schema frames of a transaction define different versions.")
        }
        entities += next.entities
    }
}

/// One table while it is made.
private struct SchemaTableWriter: ~Copyable {
    private var writer = ByteWriter()
    private var definitions: UInt16 = 0

    init(_ version: UInt16) {
        writer.append(version)
        writer.append(0 as UInt16)
        writer.append(0 as UInt32)
    }

    var bytes: Int { writer.count }

    mutating func append(_ entity: EntityDefinition) {
        definitions += 1
        writer.append(UInt32(entity.encodedBytes))
        writer.append(entity.number)
        writer.append(entity.state.rawValue)
        writer.append((entity.keepsNoHistory ? 1 : 0) as UInt8)
        writer.append(UInt16(entity.name.text.utf8.count))
        writer.append(UInt16(entity.attributes.count))
        writer.append(UInt16(entity.keys.count))
        writer.append(0 as UInt16)
        writer.append(text: entity.name.text)
        for attribute in entity.attributes { append(attribute) }
        for key in entity.keys { append(key) }
        writer.appendPadding()
        assert(writer.count % 8 == 0, "A definition is not padded.")
    }

    private mutating func append(_ attribute: AttributeDefinition) {
        writer.append(attribute.number)
        writer.append(attribute.type.code)
        writer.append(attribute.flags.rawValue)
        writer.append(attribute.target)
        writer.append(UInt16(attribute.inverse?.text.utf8.count ?? 0))
        writer.append(attribute.deleteRule.code)
        writer.append(0 as UInt8)
        writer.append(UInt16(attribute.name.text.utf8.count))
        writer.append(attribute.defaultValue.map { UInt32($0.count) } ?? AttributeField.noDefault)
        writer.append(UInt16(attribute.parameters.count))
        writer.append(0 as UInt16)
        writer.append(text: attribute.name.text)
        if let inverse = attribute.inverse { writer.append(text: inverse.text) }
        if let bytes = attribute.defaultValue { writer.append(bytes) }
        writer.append(attribute.parameters)
    }

    private mutating func append(_ key: KeyDefinition) {
        writer.append((key.isUnique ? 1 : 0) as UInt16)
        writer.append(UInt16(key.attributes.count))
        for number in key.attributes { writer.append(number) }
    }

    mutating func finish() -> [UInt8] {
        writer.patch(definitions, at: SchemaField.definitions)
        return Array(writer.bytes)
    }
}

extension EntityDefinition {
    /// The size of the definition in a table, with its padding.
    package var encodedBytes: Int {
        var bytes = EntityField.bytes + name.text.utf8.count
        for attribute in attributes {
            bytes += AttributeField.bytes + attribute.name.text.utf8.count
            bytes += (attribute.inverse?.text.utf8.count ?? 0) + (attribute.defaultValue?.count ?? 0)
            bytes += attribute.parameters.count
        }
        for key in keys { bytes += 4 + 2 * key.attributes.count }
        return (bytes + 7) & ~7
    }
}

extension ByteReader {
    /// The reader must be at a multiple of 8.
    fileprivate mutating func readEntityDefinition() throws(StoreError) -> EntityDefinition {
        let start = currentOffset
        let size = try readUInt32()
        guard size % 8 == 0, size >= EntityField.bytes, let size = Int(exactly: size) else {
            throw StoreError(.damaged, "The size of a definition is impossible.", offset: start)
        }
        var part = try readPart(size - 4)
        let definition = try part.readEntityBody()
        // The rest is padding: less than 8 bytes. The part begins after the size, so its multiples of 8 are 4 off.
        guard part.remaining < 8 else { throw part.damaged("Bytes follow the last field.") }
        try part.readZeros(part.remaining)
        do {
            try definition.validate()
        } catch {
            throw error.at(offset: start)
        }
        return definition
    }

    private mutating func readEntityBody() throws(StoreError) -> EntityDefinition {
        let number = try readUInt16()
        let stateCode = try readUInt8()
        guard let state = EntityDefinition.State(rawValue: stateCode) else {
            throw newer("An entity has state \(stateCode)")
        }
        let flags = try readUInt8()
        guard flags <= 1 else { throw newer("An entity has flags \(flags)") }
        let nameBytes = try readUInt16()
        let attributeCount = try readUInt16()
        let keyCount = try readUInt16()
        try readReserved(2)
        let name = IdentifierName(try readText(Int(nameBytes)))
        var attributes: [AttributeDefinition] = []
        for _ in 0..<attributeCount { attributes.append(try readAttribute()) }
        var keys: [KeyDefinition] = []
        for _ in 0..<keyCount { keys.append(try readKey()) }
        return EntityDefinition(number, state, flags == 1, name, attributes, keys)
    }

    private mutating func readAttribute() throws(StoreError) -> AttributeDefinition {
        let number = try readUInt16()
        let typeCode = try readUInt8()
        guard let type = AttributeType(code: typeCode) else { throw newer("An attribute has type \(typeCode)") }
        let flags = AttributeFlags(rawValue: try readUInt8())
        guard flags.isSubset(of: .known) else { throw newer("An attribute has flags \(flags.rawValue)") }
        let target = try readUInt16()
        let inverseBytes = try readUInt16()
        let ruleCode = try readUInt8()
        guard let rule = DeleteRule(code: ruleCode) else { throw newer("An attribute has delete rule \(ruleCode)") }
        try readReserved(1)
        let nameBytes = try readUInt16()
        let defaultBytes = try readUInt32()
        let parameterBytes = try readUInt16()
        try readReserved(2)
        let name = try readText(Int(nameBytes))
        let inverse = inverseBytes == 0 ? nil : try readText(Int(inverseBytes))
        var defaultValue: [UInt8]?
        if defaultBytes != AttributeField.noDefault {
            let content = try readBytes(Int(defaultBytes))
            guard !StoredForm.isNewer(content, type) else { throw newer("A default value has an unknown form") }
            defaultValue = Array(content)
        }
        var definition = AttributeDefinition(
            number: number, type: type, flags: flags, target: target, inverse: inverse, deleteRule: rule, name: name,
            defaultValue: defaultValue)
        definition.parameters = Array(try readBytes(Int(parameterBytes)))
        return definition
    }

    private mutating func readKey() throws(StoreError) -> KeyDefinition {
        let flags = try readUInt16()
        guard flags <= 1 else { throw newer("A key has flags \(flags)") }
        let count = try readUInt16()
        var attributes: [UInt16] = []
        for _ in 0..<count { attributes.append(try readUInt16()) }
        return KeyDefinition(isUnique: flags == 1, attributes: attributes)
    }
}
