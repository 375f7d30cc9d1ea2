// Schemas: into frames and back, version after version, and every rule of F25 broken once.

import Annals
import TestSupport
import Testing

@Suite struct SchemaTests {
    private static let clip = EntityDefinition(
        number: 1, keepsNoHistory: true, name: "Clip",
        attributes: [
            AttributeDefinition(number: 1, type: .string, name: "title", defaultValue: []),
            AttributeDefinition(
                number: 2, type: .int, flags: [.optional, .indexed], name: "rank", defaultValue: bytes(8)),
            AttributeDefinition(
                number: 9, type: .object, flags: .known, target: 2, inverse: "clips", deleteRule: .cascade,
                name: "f\u{f6}lder"),
        ],
        keys: [KeyDefinition(isUnique: true, attributes: [9, 1]), KeyDefinition(isUnique: false, attributes: [2])])
    private static let folder = EntityDefinition(
        number: 2, name: "Folder",
        attributes: [AttributeDefinition(number: 1, type: .objects, target: 1, inverse: "f\u{f6}lder", name: "clips")])

    private static func bytes(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }

    // MARK: Codec

    @Test func definitionsAreReadBack() throws {
        let schema = SchemaDefinition(version: 7, entities: [Self.clip, .removal(of: 5), Self.folder])
        let tables = try schema.encodeTables()
        #expect(tables.count == 1)
        #expect(try decode(tables[0]) == schema)
    }

    @Test func aVersionWithoutDefinitionsIsOneTable() throws {
        let tables = try SchemaDefinition(version: 1, entities: []).encodeTables()
        #expect(tables == [[1, 0, 0, 0, 0, 0, 0, 0]])
    }

    @Test func aTableHasTheDocumentedBytes() throws {
        let entity = EntityDefinition(
            number: 3, name: "E",
            attributes: [AttributeDefinition(number: 4, type: .bool, flags: .unique, name: "ab", defaultValue: [1])],
            keys: [KeyDefinition(isUnique: true, attributes: [4])])
        let expected: [UInt8] =
            [2, 0, 1, 0, 0, 0, 0, 0] + [48, 0, 0, 0, 3, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0] + [0x45]
            + [4, 0, 1, 4, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0] + [0x61, 0x62, 1] + [1, 0, 1, 0, 4, 0]
            + [0, 0]
        #expect(try SchemaDefinition(version: 2, entities: [entity]).encodeTables() == [expected])
    }

    @Test func tablesAreSplitBetweenDefinitions() throws {
        let entities = (1...100).map { Samples.entity([.int, .string], number: $0, name: "E\($0)") }
        let schema = SchemaDefinition(version: 1, entities: entities)
        for maximum in [80, 81, 200, 1000, 524_224] {
            let tables = try schema.encodeTables(maximumTableBytes: maximum)
            #expect(tables.allSatisfy { $0.count <= maximum && $0.count % 8 == 0 })
            var joined = try decode(tables[0])
            for table in tables.dropFirst() { try joined.append(decode(table)) }
            #expect(joined == schema)
        }
        #expect(throws: StoreError.self) { try schema.encodeTables(maximumTableBytes: 40) }
    }

    @Test func aDefinitionLongerThanAFrameIsTooLarge() {
        let attributes = (1...10).map {
            AttributeDefinition(number: $0, type: .data, name: "a\($0)", defaultValue: Self.bytes(65536))
        }
        let schema = SchemaDefinition(
            version: 1, entities: [EntityDefinition(number: 1, name: "E", attributes: attributes)])
        #expect(code { _ = try schema.encodeTables() } == .tooLarge)
    }

    @Test func invalidDefinitionsAreNotWritten() {
        let long = EntityDefinition(number: 1, name: Samples.text(100_000), attributes: [])
        let thrown = code { _ = try SchemaDefinition(version: 1, entities: [long]).encodeTables() }
        #expect(thrown == .invalidArgument)
    }

    @Test func aCutOrFlippedTableNeverTraps() throws {
        let table = try SchemaDefinition(version: 7, entities: [Self.clip, Self.folder]).encodeTables()[0]
        for count in 0..<table.count { #expect(throws: StoreError.self) { try decode(Array(table[..<count])) } }
        var random = SeededRandom(8)
        for _ in 0..<30_000 {
            var bytes = table
            for _ in 0...random.next() % 2 {
                bytes[Int(random.next() % UInt64(bytes.count))] ^= UInt8(truncatingIfNeeded: random.next())
            }
            // A table that is accepted is in its only form.
            if let schema = try? decode(bytes) { #expect(try schema.encodeTables() == [bytes]) }
        }
    }

    @Test func brokenTablesAreDamage() throws {
        let table = try SchemaDefinition(version: 7, entities: [Self.folder]).encodeTables()[0]
        // The definition begins at 8, its name at 24, its one attribute at 30, that name at 50, the inverse at 55, the
        // padding at 62.
        let cases: [(String, Int, UInt8)] = [
            ("version 0", 0, 0), ("a definition too few", 2, 0), ("a definition too many", 2, 2),
            ("size not a multiple of 8", 8, 47), ("size too small", 8, 8), ("size a step too small", 8, 40),
            ("size too large", 8, 64), ("entity number 0", 12, 0),
            ("removed with a name", 14, 2), ("attribute too many", 18, 2),
            ("keys", 20, 1), ("name not UTF-8", 24, 0xff), ("attribute number 0", 30, 0),
            ("inverse without target", 34, 0), ("int with target", 32, 2), ("empty attribute name", 40, 0),
            ("default beyond the end", 45, 0), ("parameters beyond the end", 46, 9), ("padding", 63, 1),
            ("no inverse, but its text", 36, 0), ("inverse beyond the end", 36, 200), ("inverse not UTF-8", 56, 0xff),
        ]
        let newer: [(String, Int, UInt8)] = [
            ("zero", 4, 1), ("state 0", 14, 0), ("state 3", 14, 3), ("flags", 15, 2), ("entity zero", 22, 1),
            ("type 0", 32, 0), ("type 13", 32, 13), ("flag", 33, 16), ("delete rule", 38, 4), ("attribute zero", 39, 1),
            ("attribute zero2", 48, 1),
        ]
        func expect(_ expected: StoreError.Code, _ cases: [(String, Int, UInt8)]) {
            for (name, offset, byte) in cases {
                var bytes = table
                #expect(bytes[offset] != byte, "\(name)")
                bytes[offset] = byte
                #expect(code { _ = try decode(bytes) } == expected, "\(name)")
            }
        }
        expect(.damaged, cases)
        expect(.unsupportedVersion, newer)
    }

    @Test func framesOfDifferentVersionsDoNotJoin() {
        var first = SchemaDefinition(version: 1, entities: [])
        #expect(code { try first.append(SchemaDefinition(version: 2, entities: [])) } == .damaged)
    }

    // MARK: One definition

    @Test func brokenDefinitionsAreDamage() {
        func attribute(
            _ number: UInt16 = 1, _ type: AttributeType = .int, flags: AttributeFlags = [], name: String = "a",
            defaultValue: [UInt8]? = nil
        ) -> AttributeDefinition {
            AttributeDefinition(number: number, type: type, flags: flags, name: name, defaultValue: defaultValue)
        }
        func entity(_ attributes: [AttributeDefinition], _ keys: [KeyDefinition] = []) -> EntityDefinition {
            EntityDefinition(number: 1, name: "E", attributes: attributes, keys: keys)
        }
        func key(_ attributes: [UInt16]) -> KeyDefinition { KeyDefinition(isUnique: false, attributes: attributes) }
        let cases: [(String, EntityDefinition)] = [
            ("number 0", EntityDefinition(number: 0, name: "E", attributes: [])),
            ("no name", EntityDefinition(number: 1, name: "", attributes: [])),
            ("long name", EntityDefinition(number: 1, name: Samples.text(256), attributes: [])),
            ("attribute number 0", entity([attribute(0)])),
            ("attribute number twice", entity([attribute(), attribute(name: "b")])),
            ("attribute name twice", entity([attribute(), attribute(2)])),
            ("attribute without name", entity([attribute(name: "")])),
            ("attribute with a long name", entity([attribute(name: Samples.text(256))])),
            ("too many attributes", entity((1...1001).map { attribute($0, name: "a\($0)") })),
            ("short default", entity([attribute(defaultValue: Self.bytes(7))])),
            ("bool default of 2", entity([attribute(1, .bool, defaultValue: [2])])),
            ("text default", entity([attribute(1, .string, defaultValue: [0xff])])),
            ("decimal default", entity([attribute(1, .decimal, defaultValue: [1] + Self.bytes(19))])),
            ("object default", entity([attribute(1, .object, defaultValue: Self.bytes(8))])),
            ("list default", entity([attribute(1, .objects, defaultValue: Self.bytes(7))])),
            ("long default", entity([attribute(1, .data, defaultValue: Self.bytes(65537))])),
            ("empty key", entity([attribute()], [key([])])),
            ("key with an attribute twice", entity([attribute(), attribute(2, name: "b")], [key([1, 1])])),
            ("key of an unknown attribute", entity([attribute()], [key([2])])),
            ("flags", entity([attribute(flags: AttributeFlags(rawValue: 16))])),
            ("inverse without a target", entity([.init(number: 1, type: .object, inverse: "x", name: "a")])),
            ("inverse of a number", entity([.init(number: 1, type: .int, inverse: "x", name: "a")])),
            ("empty inverse", entity([.init(number: 1, type: .object, target: 1, inverse: "", name: "a")])),
            (
                "long inverse",
                entity([.init(number: 1, type: .object, target: 1, inverse: Samples.text(256), name: "a")])
            ),
        ]
        for (name, definition) in cases {
            #expect(code { try definition.validate() } == .damaged, "\(name)")
            #expect(code { _ = try RowLayout.make(definition) } == .damaged, "\(name)")
        }
        #expect(code { try entity([attribute(name: "e\u{301}"), attribute(2, name: "\u{e9}")]).validate() } == nil)
    }

    // MARK: Versions

    @Test func versionsShareUnchangedDefinitions() throws {
        var catalog = SchemaCatalog()
        try catalog.apply(SchemaDefinition(version: 1, entities: [Self.clip, Self.folder]))
        var changed = Self.folder
        changed.name = IdentifierName("Place")
        try catalog.apply(SchemaDefinition(version: 2, entities: [changed]))
        try catalog.apply(SchemaDefinition(version: 3, entities: [.removal(of: 1)]))
        #expect(catalog.newestVersion == 3)
        #expect(catalog.layout(version: 1, entity: 1) === catalog.layout(version: 2, entity: 1))
        #expect(catalog.layout(version: 3, entity: 1) == nil)
        #expect(catalog.layout(version: 1, entity: 2)?.entity == Self.folder)
        #expect(catalog.layout(version: 2, entity: 2)?.entity == changed)
        #expect(catalog.layout(version: 2, entity: 2) === catalog.layout(version: 3, entity: 2))
        for (version, entity) in [(0, 1), (4, 1), (1, 0), (1, 3), (65535, 65535)] as [(UInt16, UInt16)] {
            #expect(catalog.layout(version: version, entity: entity) == nil)
        }
        #expect(catalog.entities(version: 2).map(\.number) == [1, 2])
        #expect(catalog.entities(version: 3) == [changed])
        #expect(catalog.definition(version: 2).entities == [changed])
        #expect(catalog.definition(version: 3).entities == [.removal(of: 1)])
        #expect(catalog.number(ofEntity: "Place") == 2)
        #expect(catalog.number(ofEntity: "Folder") == nil)
        #expect(catalog.number(ofEntity: "Clip") == nil)
        #expect(catalog.isUsed(entity: 1) && catalog.isUsed(attribute: 9, entity: 1))
        #expect(!catalog.isUsed(entity: 3) && !catalog.isUsed(attribute: 9, entity: 2))
    }

    @Test func attributesAreFoundByNumber() throws {
        let layout = try RowLayout.make(Self.clip)
        #expect(layout.position(ofAttribute: 1) == 0)
        #expect(layout.position(ofAttribute: 9) == 2)
        for number in [0, 3, 10, 65535] as [UInt16] { #expect(layout.position(ofAttribute: number) == nil) }
    }

    @Test func namesMayBeSwappedWithinAVersion() throws {
        var catalog = SchemaCatalog()
        try catalog.apply(SchemaDefinition(version: 1, entities: [Self.clip, Self.folder]))
        var (clip, folder) = (Self.clip, Self.folder)
        swap(&clip.name, &folder.name)
        try catalog.apply(SchemaDefinition(version: 2, entities: [clip, folder]))
        #expect(catalog.number(ofEntity: "Clip") == 2)
    }

    @Test func brokenVersionsAreDamageAndChangeNothing() throws {
        var catalog = SchemaCatalog()
        let shrunk = Samples.entity([.int], number: 3, name: "Three")
        let full = Samples.entity([.int, .string], number: 3, name: "Three")
        let retyped = Samples.entity([.double], number: 3, name: "Three")
        try catalog.apply(SchemaDefinition(version: 1, entities: [Self.clip, Self.folder, full]))
        try catalog.apply(SchemaDefinition(version: 2, entities: [.removal(of: 2), shrunk]))
        var reused = shrunk
        reused.name = IdentifierName("Clip")
        let cases: [(String, UInt16, [EntityDefinition])] = [
            ("same version", 2, []), ("version 0", 0, []), ("a version left out", 4, []),
            ("an entity twice", 3, [shrunk, shrunk]), ("a removed entity again", 3, [Self.folder]),
            ("a removed entity removed", 3, [.removal(of: 2)]), ("an unknown entity removed", 3, [.removal(of: 77)]),
            ("a removed attribute again", 3, [full]), ("another type", 3, [retyped]),
            ("a name in use", 3, [reused]),
            ("a name twice", 3, [Samples.entity([], number: 8), Samples.entity([], number: 9)]),
            ("a broken definition", 3, [Samples.entity([], number: 0)]),
        ]
        for (name, version, entities) in cases {
            let schema = SchemaDefinition(version: version, entities: entities)
            #expect(code { try catalog.apply(schema) } == .damaged, "\(name)")
        }
        #expect(catalog.newestVersion == 2)
        #expect(catalog.entities(version: 2) == [Self.clip, shrunk])
    }

    @Test func everySchemaVersionCanBeUsed() throws {
        var catalog = SchemaCatalog()
        try catalog.apply(SchemaDefinition(version: 1, entities: [Self.clip, Self.folder]))
        for version in 2...65535 as ClosedRange<UInt16> {
            var folder = Self.folder
            folder.name = IdentifierName("Folder \(version)")
            try catalog.apply(SchemaDefinition(version: version, entities: version % 2 == 0 ? [folder] : []))
        }
        #expect(catalog.layout(version: 1, entity: 2)?.entity.name.text == "Folder")
        #expect(catalog.layout(version: 777, entity: 2)?.entity.name.text == "Folder 776")
        #expect(catalog.layout(version: 65535, entity: 2)?.entity.name.text == "Folder 65534")
        #expect(code { try catalog.apply(SchemaDefinition(version: 0, entities: [])) } == .damaged)
    }

    // MARK: Helpers

    private func decode(_ table: [UInt8]) throws(StoreError) -> SchemaDefinition {
        let block = UnsafeMutableRawBufferPointer.allocate(byteCount: table.count, alignment: 8)
        defer { block.deallocate() }
        block.copyBytes(from: table)
        return try SchemaDefinition(table: UnsafeRawBufferPointer(block), fileOffset: 4096)
    }
}
