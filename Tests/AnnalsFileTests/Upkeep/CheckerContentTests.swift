// The checker finds what breaks a rule, under the rule's name: changes, rows, values and the end (F17 to F27).

import Annals
import SimulatedDisk
import Testing

@Suite struct CheckerContentTests {
    /// A transaction of two changes, with something of it changed.
    private func broken(_ rules: Set<String>, _ edits: ForgedFile.Edits) throws {
        var file = try ForgedFile.withNotes()
        file.addCommit([.insert(1, try Note.encoded("one", 1)), .insert(2, try Note.encoded("two"))], edits)
        try expectRules(rules, file)
    }

    private func entries(_ edit: @escaping (inout [UInt8]) -> Void) -> ForgedFile.Edits { .init(entries: edit) }
    private func body(_ edit: @escaping (inout [UInt8]) -> Void) -> ForgedFile.Edits { .init(body: edit) }

    @Test func malformedEntriesAreFound() throws {
        try broken(["F17"], entries { $0[ChangeField.kind] = ChangeKind.base.rawValue })
        try broken(["F17"], entries { $0[ChangeField.kind] = ChangeKind.update.rawValue })
        try broken(["F17"], entries { $0[ChangeField.shape] = 31 })
        try broken(["F17"], entries { $0.put(UInt64(0), at: ChangeField.object) })
        try broken(["F17"], entries { $0.put(UInt32(0), at: ChangeField.row) })
        try broken(["F17"], entries { $0.put(UInt32(1 << 31), at: ChangeField.row) })
        try broken(["F17"], entries { $0 += [UInt8](repeating: 0, count: 8) })
        for count in [0, 2] {
            var rows = try ForgedFile.withBase()
            rows.addRows(
                [ForgedChange(object: Note.object(1), kind: .base, row: try Note.encoded("old"))], count: count)
            try expectRules(["F17"], rows)
        }
        var inserted = try ForgedFile.withBase()
        inserted.addRows([.insert(1, try Note.encoded("one"))])
        try expectRules(["F17"], inserted)
    }

    /// What comes after a transaction that inserts 1, deletes 2 and leaves 3 as a row without history.
    private func chained(
        _ rules: Set<String>, _ change: (_ one: UInt64, _ deletion: UInt64, _ base: UInt64) throws -> [ForgedChange]
    ) throws {
        var file = try ForgedFile.withBase()
        let base = file.addRows([ForgedChange(object: Note.object(3), kind: .base, row: try Note.encoded("old"))])
        let inserted = file.addCommit([.insert(1, try Note.encoded("one")), .insert(2, try Note.encoded("two"))])
        let deleted = file.addCommit([.delete(2, previous: inserted.rows[1])])
        file.addCommit(try change(inserted.rows[0], deleted.entries[0] | 1, base.rows[0]))
        try expectRules(rules, file, isDamage: !rules.isEmpty)
    }

    @Test func versionsThatDoNotFollowAreFound() throws {
        let row = try Note.encoded("new")
        try chained([]) { [.update(1, row, previous: $0), .insert(2, row, previous: $1), .delete(3, previous: $2)] }
        try chained(["F18"]) { (one, _, _) in [.update(1, row, previous: one + 8)] }
        try chained(["F18"]) { (one, _, _) in [.update(1, row, previous: one | 1)] }
        try chained(["F18"]) { (_, _, _) in [.insert(1, row)] }
        try chained(["F18"]) { (one, _, _) in [.insert(1, row, previous: one)] }
        try chained(["F18"]) { (_, _, _) in [.insert(2, row)] }
        try chained(["F18"]) { (_, deletion, _) in [.update(2, row, previous: deletion)] }
        try chained(["F18"]) { (_, deletion, _) in [.delete(2, previous: deletion)] }
        try chained(["F18"]) { (_, deletion, _) in [.insert(2, row, previous: deletion & ~1)] }
        try chained(["F18"]) { (_, _, _) in [.insert(3, row)] }
        try chained(["F18"]) { (one, _, _) in [.insert(4, row, previous: one)] }
        try chained(["F18"]) { (_, _, _) in [.update(4, row, previous: 0)] }
        try chained(["F18"]) { (_, _, _) in [.insert(4, row, previous: 0)] }
        var again = try ForgedFile.withBase()
        for _ in 0..<2 { again.addRows([ForgedChange(object: Note.object(1), kind: .base, row: row)]) }
        try expectRules(["F18"], again)
        var late = try ForgedFile.withBase()
        late.addCommit([.insert(1, row)])
        late.addRows([ForgedChange(object: Note.object(2), kind: .base, row: row)])
        try expectRules(["F8"], late)
    }

    @Test func aValueOfTheBaseThatIsNotCompleteIsFound() throws {
        var file = try ForgedFile.withBase()
        file.addValue([UInt8](repeating: 1, count: 8), of: 16, isMember: false)
        let row = try Note.encoded("one")
        for isMember in [false, true] {
            var next = file
            if isMember { next.addPart([.insert(1, row)]) }
            next.addCommit([.insert(2, row)])
            try expectRules(["F24"], next)
        }
        file.add(.consumer, table: ConsumerRecord.removal(of: "nobody").encoded())
        try expectRules(["F24"], file)
    }

    @Test func anObjectTwiceInATransactionIsFound() throws {
        let row = try Note.encoded("new")
        try chained(["F19"]) { (one, _, _) in [.update(1, row, previous: one), .update(1, row, previous: one)] }
        var parts = try ForgedFile.withNotes()
        let inserted = parts.addPart([.insert(1, row)])
        parts.addCommit([.delete(1, previous: inserted.rows[0])])
        try expectRules(["F19"], parts)
    }

    @Test func rowsOutOfPlaceAreFound() throws {
        try broken(["F20"], body { $0.put(UInt16(1), at: RowField.entryDistance) })
        try broken(["F20"], body { $0 += [UInt8](repeating: 0, count: 8) })
        try broken(["F20"], entries { $0[ChangeField.row] += 8 })
        var swapped = try ForgedFile.withNotes()
        swapped.addCommit(
            [.insert(1, try Note.encoded("one")), .insert(2, try Note.encoded("two"))],
            entries { entries in
                let rows = [8, 24].map { Array(entries[$0..<($0 + 4)]) }
                entries.replaceSubrange(8..<12, with: rows[1])
                entries.replaceSubrange(24..<28, with: rows[0])
            })
        try expectRules(["F20"], swapped)
        var empty = try ForgedFile.withNotes()
        empty.addCommit([], body { $0 = [UInt8](repeating: 0, count: 8) })
        try expectRules(["F20"], empty)
    }

    /// A row of notes: header 8, title slot 4, rank 8, body slot 4, presence 1: title from 25.
    @Test func malformedRowsAreFound() throws {
        try broken(["F21"], body { $0.put(UInt16(2), at: RowField.schemaVersion) })
        try broken(["F21"], body { $0.put(UInt16(0), at: RowField.schemaVersion) })
        try broken(["F21"], entries { $0.put(UInt64(2) << 48 | 1, at: ChangeField.object) })
        try broken(["F21"], body { $0.put(UInt32(7), at: RowField.rowBytes) })
        try broken(["F21"], body { $0.put(UInt32(12), at: RowField.rowBytes) })
        try broken(["F21"], body { $0.put(UInt32(9999), at: RowField.rowBytes) })
        try broken(["F21"], body { $0.put(UInt32(29), at: RowField.rowBytes) })
        try broken(["F21"], body { $0[24] |= 0x80 })
        try broken(["F21"], body { $0[24] &= ~2 })
        try broken(["F21"], body { $0.put(UInt32(9999), at: 8) })
        try broken(["F21"], body { $0[28] = 1 })
        var set = try ForgedFile.withNotes()
        let first = set.addCommit([.insert(1, try Note.encoded("one"))])
        set.addCommit([.update(1, try Note.encoded("two"), previous: first.rows[0], words: [8])])
        try expectRules(["F21"], set)
        var preserved = try ForgedFile.withNotes()
        let again = preserved.addCommit([.insert(1, try Note.encoded("one"))])
        var deletion = ForgedChange.delete(1, previous: again.rows[0])
        deletion.row = try Note.encoded("one")
        preserved.addCommit([deletion])
        try expectRules(["F21"], preserved)
    }

    @Test func malformedValuesAreFound() throws {
        try broken(["F22"], body { $0[25] = 0xFF })
        try broken(
            ["F22"],
            body {
                $0[24] &= ~1
                $0.put(UInt32(25), at: 8)
                $0.put(UInt32(25), at: 20)
                $0.put(UInt32(25), at: 4)
                for index in 25..<28 { $0[index] = 0 }
            })
    }

    // MARK: Large values

    /// A note whose title is a large value; the second transaction refers to it.
    private func large(
        _ rules: Set<String>, _ pieces: [[UInt8]], _ edit: (LargeValueReference) -> LargeValueReference? = { $0 },
        piece: (Int, inout ValuePiece) -> Void = { _, _ in }
    ) throws {
        var file = try ForgedFile.withNotes()
        let bytes = pieces.map(\.count).reduce(0, +)
        var first: ForgedFrame?
        var position = 0
        for (index, content) in pieces.enumerated() {
            let frame = file.addValue(content, of: bytes, position: position, first: first?.offset) {
                piece(index, &$0)
            }
            first = first ?? frame
            position += content.count
        }
        guard let first,
            let reference = LargeValueReference(
                offset: first.offset, valueBytes: UInt64(bytes), checksum: first.checksum),
            let edited = edit(reference)
        else {
            Issue.record("No such reference.")
            return
        }
        file.addCommit([.insert(1, try Note.encoded([.large(edited), .absent, .absent]))])
        try expectRules(rules, file, isDamage: !rules.isEmpty)
    }

    @Test func largeValuesOfTheWrongFormAreFound() throws {
        let smile = Array("a😀é".utf8)
        for size in 1...smile.count {
            let starts = stride(from: 0, to: smile.count, by: size)
            try large([], starts.map { Array(smile[$0..<min($0 + size, smile.count)]) })
        }
        try large(["F22"], [[0x61, 0xFF]])
        try large(["F22"], [Array(smile.dropLast())])
        try large(["F22"], [[0xED, 0xA0, 0x80]])
        try large(["F22"], [[0xC0, 0x80]])
    }

    @Test func referencesThatNameNoValueAreFound() throws {
        let text = [UInt8](repeating: 0x61, count: 100)
        try large([], [text, text])
        try large(["F23"], [text, text]) {
            LargeValueReference(offset: $0.offset + 8, valueBytes: $0.valueBytes, checksum: $0.checksum)
        }
        try large(["F23"], [text, text]) {
            LargeValueReference(offset: 4096, valueBytes: $0.valueBytes, checksum: $0.checksum)
        }
        try large(["F23"], [text, text]) {
            LargeValueReference(offset: $0.offset + 200, valueBytes: $0.valueBytes, checksum: $0.checksum)
        }
        try large(["F23"], [text, text]) {
            LargeValueReference(offset: $0.offset, valueBytes: $0.valueBytes + 1, checksum: $0.checksum)
        }
        try large(["F23"], [text, text]) {
            LargeValueReference(offset: $0.offset, valueBytes: $0.valueBytes, checksum: $0.checksum ^ 1)
        }
    }

    @Test func piecesThatDoNotFollowAreFound() throws {
        let text = [UInt8](repeating: 0x61, count: 100)
        try large(["F24"], [text, text], piece: { (index, piece) in if index == 1 { piece.position = 50 } })
        try large(["F24"], [text, text], piece: { (index, piece) in if index == 1 { piece.first += 8 } })
        try large(["F24"], [text, text], piece: { (index, piece) in if index == 1 { piece.valueBytes += 1 } })
        try large(["F24"], [text, text], piece: { (index, piece) in if index == 0 { piece.position = 1 } })
        try large(["F24"], [text, text], piece: { (_, piece) in piece.pieceBytes += 8 })
        try large(["F24"], [text, Array(text[..<50]), text])
        try large(["F24"], [text], piece: { (_, piece) in piece.valueBytes = 200 })
        try large(["F24"], [Array(text[..<50]), text])
        let limit = UInt64(FormatLimits.maximumValueBytes)
        try large(["F24"], [text], piece: { (_, piece) in piece.valueBytes = limit + 1 })
        try large(["F24"], [text], piece: { (_, piece) in piece.pieceBytes = 0 })
    }

    /// A value of an attribute that an index is over stands in value frames.
    @Test func anIndexedValueOutsideItsRowIsFound() throws {
        var definition = EngineNote.definition
        definition.attributes[EngineNote.body].flags = [.optional, .indexed]
        for isLive in [true, false] {
            var file = ForgedFile()
            file.addSchema(table: try SchemaDefinition(version: 1, entities: [definition]).encodeTables()[0])
            let value = file.addValue([1, 2, 3])
            let reference = try #require(
                LargeValueReference(offset: value.offset, valueBytes: 3, checksum: value.checksum))
            let row = try Note.encoded([.string("a"), .int(1), .large(reference)])
            let inserted = file.addCommit([.insert(1, row)])
            if !isLive { file.addCommit([.delete(1, previous: inserted.rows[0])]) }
            // Whoever has deleted the row may have written it so.
            try expectRules(isLive ? ["F37"] : [], file, isDamage: isLive)
        }
    }

    /// A program that opens such a store gives the same rule, and the place in the file.
    @Test func openingNamesTheRuleAndThePlaceOfAnIndexedValue() throws {
        var definition = EngineNote.definition
        definition.attributes[EngineNote.body].flags = [.optional, .indexed]
        var file = ForgedFile()
        file.addSchema(table: try SchemaDefinition(version: 1, entities: [definition]).encodeTables()[0])
        let value = file.addValue([1, 2, 3])
        let reference = try #require(
            LargeValueReference(offset: value.offset, valueBytes: 3, checksum: value.checksum))
        let row = try Note.encoded([.string("a"), .int(1), .large(reference)])
        let inserted = file.addCommit([.insert(1, row)])
        let moved = try #require(try openingError(file))
        #expect(moved.message.hasPrefix("F37: ") && moved.offset == inserted.rows[0], "\(moved)")

        let price = AttributeDefinition(number: 1, type: .decimal, flags: [.indexed], name: "price")
        let priced = EntityDefinition(number: 1, name: "Priced", attributes: [price])
        let layout = try RowLayout.make(priced)
        var writer = ByteWriter()
        try EncodedRow.append(
            [.decimal(.zero)], layout: layout, entryDistance: 0, schemaVersion: 1, to: &writer)
        let slot = Int(layout.slots[0].offset)
        var other = ForgedFile()
        other.addSchema(table: try SchemaDefinition(version: 1, entities: [priced]).encodeTables()[0])
        let bytes = Array(writer.bytes).edited { $0[slot + DecimalField.decimalClass] = 3 }
        let unknown = other.addCommit([.insert(1, bytes)])
        let refused = try #require(try openingError(other))
        #expect(
            refused.message.contains("F22") && refused.offset == unknown.rows[0] + UInt64(slot), "\(refused)")
    }

    /// The error of the first read, if there is one.
    private func openingError(_ file: ForgedFile) throws -> StoreError? {
        let machine = EngineMachine()
        machine.machine.disk.install(file.finished(), at: EngineMachine.path)
        do {
            let engine = try machine.open(access: .readOnly)
            _ = try engine.view()
            try engine.close()
            return nil
        } catch let error as StoreError {
            return error
        }
    }

    // MARK: Schemas and other frames

    @Test func definitionsThatBreakTheirLimitsAreFound() throws {
        let good = try SchemaDefinition(version: 2, entities: [Note.definition]).encodeTables()[0]
        let other = EntityDefinition(number: 2, name: "Note", attributes: [])
        let tables = [
            try SchemaDefinition(version: 2, entities: [other]).encodeTables()[0],
            try SchemaDefinition(version: 2, entities: [.removal(of: 7)]).encodeTables()[0],
            try SchemaDefinition(version: 2, entities: [Note.definition, Note.definition]).encodeTables()[0],
            good.dropLast(8) + [], good + [UInt8](repeating: 0, count: 8), [],
            good.edited { $0[SchemaField.bytes + EntityField.bytes] = 0xFF },
        ]
        for table in tables {
            var file = try ForgedFile.withNotes()
            file.addSchema(table: table)
            file.addCommit()
            try expectRules(["F25"], file)
        }
        // The first version again, in the base.
        let again = [
            try SchemaDefinition(version: 1, entities: []).encodeTables()[0],
            try SchemaDefinition(version: 1, entities: [Note.definition]).encodeTables()[0],
            try SchemaDefinition(version: 1, entities: [other]).encodeTables()[0],
        ]
        for table in again {
            var file = try ForgedFile.withBase()
            file.add(.schema, table: table)
            file.addCommit()
            try expectRules(["F25"], file)
        }
    }

    private func metadata(_ records: [MetadataRecord]) -> [UInt8] {
        var table: [UInt8] = []
        for record in records { record.append(to: &table) }
        return table
    }

    @Test func malformedOtherFramesAreFound() throws {
        let tables: [(FrameKind, [UInt8])] = [
            (.metadata, [1, 0, 0, 0, 4, 0, 0, 0]),
            (.metadata, [5, 0, 0, 0, 8, 0, 0, 0] + [UInt8](repeating: 0, count: 8)),
            (.recovery, []),
            (.recovery, [UInt8](repeating: 0, count: 32)), (.seal, [UInt8](repeating: 0, count: 8)),
            (.seal, SealRecord(time: 0, checkpoint: 1 << 40).encoded()),
            (.seal, SealRecord(time: 0, checkpoint: 4096).encoded()),
            (.seal, SealRecord(time: 0, checkpoint: 4099).encoded()),
            (.metadata, [1, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]),
            (.metadata, [1, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0xFF, 0, 0, 0]),
            (.metadata, [1, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0x61, 1, 0, 0]),
            (.metadata, metadata([.name(number: 1, text: String(repeating: "x", count: 1025))])),
            (.metadata, metadata([.objectNumbers(entity: 0, next: 2)])),
            (.metadata, metadata([.objectNumbers(entity: 1, next: 1)])),
            (.metadata, metadata([.objectNumbers(entity: 1, next: FormatLimits.maximumObjectNumber + 2)])),
        ]
        for (kind, table) in tables {
            var file = try ForgedFile.withNotes()
            file.add(kind, table: table, mark: kind == .seal ? file.end : 4096)
            try expectRules(["F26"], file)
        }
    }

    /// FileFormat.md, "Other frames".
    @Test func framesWithoutEffectAreAllowed() throws {
        var file = try ForgedFile.withNotes()
        file.addValue([1, 2, 3])
        file.addMember(.consumer, table: ConsumerRecord.removal(of: "nobody").encoded())
        file.addCommit()
        file.add(.metadata)
        let time = file.time - 1
        for step in [4_000_000_000, 8_000_000_000] as [Int64] {
            file.add(.metadata, table: metadata([.clockStep(from: time, to: time - step)]))
        }
        for _ in 0..<2 {
            file.add(.metadata, table: metadata([.retention(.standard), .features(.none)]))
            file.add(.recovery, table: RecoveryRecord(random: 1, droppedBytes: 0, time: 0).encoded())
            file.add(.consumer, table: ConsumerRecord.removal(of: "nobody").encoded())
            file.add(.cleaning, table: CleaningRecord(before: 1, time: 0).encoded())
        }
        var nodes = [UInt8](repeating: 0, count: NodesField.bytes)
        nodes.put(UInt32(1), at: NodesField.nodes)
        file.add(.nodes, table: nodes, body: [UInt8](repeating: 9, count: IndexNode.bytes))
        file.addCommit()
        try expectRules([], file, isDamage: false)
    }

    @Test func wrongBytesAfterASealAreFound() throws {
        var file = try ForgedFile.withNotes()
        file.addSeal()
        try expectRules([], file, isDamage: false)
        try expectRules([], file, isDamage: false, spareBytes: 10_000)
        for spare in [0, 1, 64, 4095] { try expectRules(["F27"], file, spareBytes: spare) }
        for offset in [0, 63, 64, 4095] {
            var bytes = file.finished()
            bytes[Int(file.end) + offset] = 1
            let report = try check(bytes)
            #expect(report.findings.map(\.rule) == ["F27"] && !report.hasDamage && report.isIntact)
            #expect(report.tornTail == CheckReport.TornTail(offset: file.end, bytes: 4096))
        }
    }

    // MARK: The report

    @Test func findingsAreCappedAndCounted() throws {
        var file = try ForgedFile.withNotes()
        for number in 1...20 { file.addCommit([.update(number, try Note.encoded("x"), previous: 4096)]) }
        var options = CheckOptions()
        options.maximumFindings = 3
        let report = try check(file.finished(), options: options)
        #expect(report.findings.count == 3 && report.omittedFindings == 17 && !report.isIntact)
    }

    @Test func aFileThatCannotBeReadIsAnError() throws {
        let machine = Machine()
        #expect(throws: StoreError.self) { try check(machine.disk) }
        machine.disk.install(ForgedFile().finished(), at: Machine.path, mode: 0)
        do {
            _ = try check(machine.disk)
            Issue.record("A file without permission was read.")
        } catch let error as StoreError {
            #expect(error.code == .permissionDenied)
        }
    }

    @Test func aCheckWritesNothingAndLeavesNothingOpen() throws {
        let machine = Machine()
        machine.disk.install(try ForgedFile.withNotes().finished(), at: Machine.path)
        machine.disk.setReadOnly(true)
        let changes = machine.disk.changeCount
        _ = try check(machine.disk)
        #expect(machine.disk.changeCount == changes && machine.disk.openDescriptorCount() == 0)
    }
}

extension [UInt8] {
    func edited(_ edit: (inout [UInt8]) -> Void) -> [UInt8] {
        var copy = self
        edit(&copy)
        return copy
    }
}
