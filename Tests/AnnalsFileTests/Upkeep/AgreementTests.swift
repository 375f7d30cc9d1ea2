// The checker, compaction and backup agree on which stores are damaged.

import Annals
import SimulatedDisk
import Testing

@Suite struct AgreementTests {
    private static let small: [UInt8] = [1, 2, 3]

    /// A store with these rows, in a transaction or in the base.
    private func store(_ rows: [[UInt8]], inBase: Bool, _ definition: EntityDefinition) throws -> [UInt8] {
        var file = ForgedFile(generation: inBase ? 1 : 0)
        let table = try SchemaDefinition(version: 1, entities: [definition]).encodeTables()[0]
        let changes = rows.enumerated().map { ForgedChange.insert($0 + 1, $1) }
        if inBase {
            file.add(.schema, table: table)
            file.schemaVersion = 1
            file.addRows(changes.map { ForgedChange(object: $0.object, kind: .base, row: $0.row) })
        } else {
            file.addSchema(table: table)
            file.addCommit()
            file.addCommit(changes)
        }
        file.addSeal()
        return file.finished()
    }

    /// What the checker finds, and what compaction and backup throw.
    private func expect(
        _ rules: Set<String>, _ bytes: [UInt8], _ code: StoreError.Code?,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        #expect(Set(try check(bytes).findings.map(\.rule)) == rules, sourceLocation: sourceLocation)
        for copying in Copying.allCases {
            let met = try expectSound(copying, of: bytes, sourceLocation: sourceLocation)
            #expect(met?.code == code, "\(copying): \(met?.description ?? "")", sourceLocation: sourceLocation)
        }
    }

    @Test(arguments: [false, true]) func aValueAboveTheLimitIsDamageToAll(inBase: Bool) throws {
        let good = try Note.encoded("a", 1, Self.small)
        // One byte more than a writer would put into a row; the last value ends with the row.
        let layout = try RowLayout.make(Note.definition)
        var long = try Note.encoded("b", 2, [UInt8](repeating: 7, count: FormatLimits.maximumInlineValueBytes))
        let end = long.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: RowField.rowBytes, as: UInt32.self) } + 1
        long.put(end, at: RowField.rowBytes)
        long.put(end, at: Int(layout.slots[2].offset))
        while long.count < (Int(end) + 7) / 8 * 8 { long.append(0) }
        try expect([], store([good], inBase: inBase, Note.definition), nil)
        try expect(["F21"], store([good, long], inBase: inBase, Note.definition), .damaged)
    }

    @Test(arguments: [false, true]) func aRowOfTheWrongFormIsDamageToAll(inBase: Bool) throws {
        var row = try Note.encoded("a", 1)
        // A presence bit of an attribute that does not exist.
        let layout = try RowLayout.make(Note.definition)
        row[layout.variableOffset - 1] |= 0x80
        try expect(["F21"], store([row], inBase: inBase, Note.definition), .damaged)
    }

    @Test(arguments: [false, true]) func equalUniqueValuesAreFoundByAll(inBase: Bool) throws {
        let rows = [try Note.encoded("a", 1), try Note.encoded("b", 1), try Note.encoded("a", 2)]
        try expect(["F34"], store(rows, inBase: inBase, EngineNote.definition), .uniqueViolation)
        try expect([], store(Array(rows.prefix(2)), inBase: inBase, EngineNote.definition), nil)
    }

    @Test func absentValuesAreNotEqual() throws {
        var definition = Note.definition
        definition.attributes[1].flags = [.unique, .optional]
        let rows = [try Note.encoded("a"), try Note.encoded("b"), try Note.encoded("c", 1)]
        try expect([], store(rows, inBase: false, definition), nil)
        try expect(["F34"], store(rows + [try Note.encoded("d", 1)], inBase: false, definition), .uniqueViolation)
    }

    /// Values that were equal and no longer are: only the newest rows count.
    @Test func olderRowsMayHaveTheSameUniqueValue() throws {
        var file = ForgedFile()
        file.addSchema(table: try SchemaDefinition(version: 1, entities: [EngineNote.definition]).encodeTables()[0])
        file.addCommit()
        let first = file.addCommit([.insert(1, try Note.encoded("a", 1))])
        file.addCommit([
            .update(1, try Note.encoded("b", 1), previous: first.rows[0]), .insert(2, try Note.encoded("a", 2)),
        ])
        file.addSeal()
        try expect([], file.finished(), nil)
    }

    @Test func aDecimalThatNoReaderCanHoldIsDamageToAll() throws {
        let definition = Samples.entity([.decimal])
        let layout = try RowLayout.make(definition)
        var writer = ByteWriter()
        try EncodedRow.append(
            [Samples.decimal(7, 1)], layout: layout, entryDistance: 0, schemaVersion: 1, isDeletion: false, to: &writer)
        var row = Array(writer.bytes)
        try expect([], store([row], inBase: false, definition), nil)
        row.replaceSubrange(10..<12, with: [0x7F, 0xFF])
        try expect(["F22"], store([row], inBase: false, definition), .damaged)
        try expect(["F22"], store([row], inBase: true, definition), .damaged)
    }

    /// The index nodes that later ones have replaced are garbage, and not taken from the rows.
    @Test func replacedNodesDoNotReduceTheLiveBytes() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        let ids = try engine.insertNotes(1...1500)
        try engine.writeCheckpoint()
        for round in 1...6 {
            for start in stride(from: 0, to: ids.count, by: 100) {
                _ = try engine.commit { transaction in
                    for id in ids[start..<min(start + 100, ids.count)] {
                        try transaction.update(id, [(EngineNote.rank, .int(Int64(round * 10_000) + Int64(id.number)))])
                    }
                }
            }
            try engine.writeCheckpoint()
        }
        let view = try engine.view()
        let use = try engine.spaceByUse(in: view)
        #expect(use.live >= UInt64(ids.count * 40), "\(use)")
        #expect(use.live + use.history + use.garbage + use.index <= view.end)
        #expect(use.history > use.live && use.garbage > use.index, "\(use)")
    }

    /// A row that names a large value of these pieces.
    private func large(_ pieces: [[UInt8]], _ definition: EntityDefinition, inBase: Bool) throws -> [UInt8] {
        var file = ForgedFile(generation: inBase ? 1 : 0)
        let table = try SchemaDefinition(version: 1, entities: [definition]).encodeTables()[0]
        if inBase {
            file.add(.schema, table: table)
            file.schemaVersion = 1
        } else {
            file.addSchema(table: table)
            file.addCommit()
        }
        let bytes = pieces.map(\.count).reduce(0, +)
        var first: ForgedFrame?
        var position = 0
        for piece in pieces {
            let frame = file.addValue(
                piece, of: bytes, position: position, first: first?.offset, isMember: !inBase)
            first = first ?? frame
            position += piece.count
        }
        let frame = try #require(first)
        let reference = try #require(
            LargeValueReference(offset: frame.offset, valueBytes: UInt64(bytes), checksum: frame.checksum))
        var writer = ByteWriter()
        try EncodedRow.append(
            [.large(reference)], layout: RowLayout.make(definition), entryDistance: 0, schemaVersion: 1,
            isDeletion: false, to: &writer)
        let row = Array(writer.bytes)
        if inBase {
            file.addRows([ForgedChange(object: Note.object(1), kind: .base, row: row)])
        } else {
            file.addCommit([.insert(1, row)])
        }
        file.addSeal()
        return file.finished()
    }

    @Test(arguments: [false, true]) func aLargeValueOfTheWrongFormIsDamageToAll(inBase: Bool) throws {
        let smile = Array("a😀é".utf8)
        let objects = [Note.object(1), Note.object(2)].map { withUnsafeBytes(of: $0.rawValue.littleEndian, Array.init) }
        let text = Samples.entity([.string])
        let set = Samples.entity([.objects])
        try expect([], large([Array(smile[..<4]), Array(smile[4...])], text, inBase: inBase), nil)
        try expect([], large([[0xFF]], Samples.entity([.data]), inBase: inBase), nil)
        try expect(["F22"], large([Array(smile.dropLast())], text, inBase: inBase), .damaged)
        try expect(["F22"], large([[0x61], [0xFF]], Samples.entity([.json]), inBase: inBase), .damaged)
        // A list stands in its row.
        try expect(["F22"], large(objects, set, inBase: inBase), .damaged)
        try expect(["F22"], large(objects.reversed(), Samples.entity([.orderedObjects]), inBase: inBase), .damaged)
    }

    @Test(arguments: [false, true]) func aReferenceToNoValueAtAllIsDamageToAll(inBase: Bool) throws {
        let definition = Samples.entity([.data])
        let reference = try #require(LargeValueReference(offset: 4096, valueBytes: 100, checksum: 1))
        var writer = ByteWriter()
        try EncodedRow.append(
            [.large(reference)], layout: RowLayout.make(definition), entryDistance: 0, schemaVersion: 1,
            isDeletion: false, to: &writer)
        try expect(["F23"], store([Array(writer.bytes)], inBase: inBase, definition), .damaged)
    }

    @Test func anObjectTwiceInATransactionIsDamageToAll() throws {
        let row = try Note.encoded("new")
        let notes = try ForgedFile.withNotes()
        var once = notes
        let first = once.addCommit([.insert(1, row), .insert(2, row)])
        var (inserted, updated, parts) = (notes, once, notes)
        inserted.addCommit([.insert(2, row), .insert(1, row), .insert(2, row)])
        updated.addCommit([
            .update(1, row, previous: first.rows[0]), .update(1, row, previous: first.rows[0]),
        ])
        let part = parts.addPart([.insert(1, row)])
        parts.addCommit([.delete(1, previous: part.rows[0])])
        try expect([], once.finished(), nil)
        for var file in [inserted, updated, parts] {
            file.addSeal()
            try expect(["F19"], file.finished(), .damaged)
        }
    }

    @Test(arguments: [false, true]) func aRowOfAFutureSchemaVersionIsDamageToAll(inBase: Bool) throws {
        for version in [UInt16(1), 2] {
            var file = inBase ? try ForgedFile.withBase() : try ForgedFile.withNotes()
            let row = try Note.encoded("one", version: version)
            if inBase {
                file.addRows([ForgedChange(object: Note.object(1), kind: .base, row: row)])
            } else {
                file.addCommit([.insert(1, row)])
            }
            var next = Note.definition
            next.name = IdentifierName("Memo")
            file.addSchema(table: try SchemaDefinition(version: 2, entities: [next]).encodeTables()[0])
            file.addCommit()
            file.addSeal()
            try expect(version == 1 ? [] : ["F21"], file.finished(), version == 1 ? nil : .damaged)
        }
    }

    @Test func aChangeThatDoesNotFollowIsDamageToAll() throws {
        let row = try Note.encoded("new")
        var notes = try ForgedFile.withNotes()
        let first = notes.addCommit([.insert(1, row), .insert(2, row)])
        let deleted = notes.addCommit([.delete(2, previous: first.rows[1])])
        let changes: [ForgedChange] = [
            .insert(1, row, previous: first.rows[0]), .update(2, row, previous: deleted.entries[0] | 1),
            .delete(2, previous: deleted.entries[0] | 1), .update(3, row, previous: first.rows[0]),
            .delete(3, previous: first.rows[0]),
        ]
        for change in changes {
            var file = notes
            file.addCommit([change])
            file.addSeal()
            try expect(["F18"], file.finished(), .damaged)
        }
    }
}
