// The checker finds what breaks a rule, under the rule's name: header, frames and transactions (F1 to F16).

import Annals
import SimulatedDisk
import Testing

/// Expects that exactly these rules are found broken.
func expectRules(
    _ rules: Set<String>, _ file: ForgedFile, isDamage: Bool = true, spareBytes: Int = 4096,
    sourceLocation: SourceLocation = #_sourceLocation
) throws {
    let report = try check(file.finished(spareBytes: spareBytes))
    #expect(Set(report.findings.map(\.rule)) == rules, "\(report.findings)", sourceLocation: sourceLocation)
    #expect(report.hasDamage == isDamage, "\(report.findings)", sourceLocation: sourceLocation)
    for copying in Copying.allCases {
        try expectSound(copying, of: file.finished(spareBytes: spareBytes), sourceLocation: sourceLocation)
    }
}

@Suite struct CheckerTests {
    @Test func aForgedFileWithAllKindsOfFramesIsIntact() throws {
        var file = try ForgedFile.withBase()
        file.add(.metadata, table: metadata([.name(number: 1, text: "someone"), .objectNumbers(entity: 1, next: 12)]))
        file.addRows([ForgedChange(object: Note.object(9), kind: .base, row: try Note.encoded("old"))])
        let first = file.addCommit([.insert(1, try Note.encoded("one")), .insert(2, try Note.encoded("two", 2))])
        file.mark = file.end
        file.addPart([.update(1, try Note.encoded("one, changed", 1), previous: first.rows[0], words: [3])])
        let deleted = file.addCommit([.delete(2, previous: first.rows[1])])
        let seen = (number: file.lastNumber, tag: file.lastTag)
        file.addCommit([.insert(2, try Note.encoded("two again"), previous: deleted.entries[0] | 1)])
        file.add(.recovery, table: RecoveryRecord(random: 1, droppedBytes: 2, time: 3).encoded())
        let consumer = ConsumerRecord(
            name: "reader", kind: .reads, cursor: seen.number, tag: seen.tag, lastSeen: 4, registered: 5, processID: 6)
        file.add(.consumer, table: consumer.encoded())
        let mark = CleaningRecord(
            before: 2, time: 7, hidden: [.init(author: 0, before: 3), .init(author: 1, before: 4)])
        file.add(.cleaning, table: mark.encoded())
        file.add(.replacing, table: ReplacingRecord(generation: 2, salt: 8, time: 9).encoded())
        file.add(.seal, table: SealRecord(time: 9, checkpoint: 0).encoded(), mark: file.end)
        file.write(Hint(sequence: 1, checkpoint: 0, durableEnd: file.end, number: file.lastNumber))
        let report = try check(file.finished())
        #expect(report.findings == [])
        #expect(report.isIntact && report.isSealed && report.tornTail == nil)
        #expect(report.end == file.end && report.fileBytes == file.end + 4096)
        #expect(report.counts.frames == 12 && report.counts.transactions == 3 && report.lastNumber == 3)
        #expect(report.counts.changes == 6 && report.counts.rows == 5 && report.counts.values == 7)
        #expect(report.counts.frameBytes.reduce(0, +) == file.end - 4096)
    }

    @Test func aWrongHeaderPageIsFound() throws {
        var rotten = try ForgedFile.withNotes()
        rotten.change(UInt64(HeaderField.storeID)) { $0 ^= 1 }
        try expectRules(["F1"], rotten)
        var foreign = try ForgedFile.withNotes()
        foreign.change(0) { $0 ^= 1 }
        try expectRules(["F1"], foreign)
        func page(_ header: FileHeader, _ edit: (inout [UInt8]) -> Void = { _ in }) -> [UInt8] {
            var page = header.encoded()
            edit(&page)
            page.put(page[..<HeaderField.checksum].withUnsafeBytes { Checksum.hash($0, seed: 0) }, at: 120)
            return page
        }
        func based(_ generation: UInt64, _ number: UInt64, _ tag: UInt64, _ time: Int64) -> FileHeader {
            FileHeader(
                storeID: rotten.header.storeID, generation: generation, salt: 1, created: 2, baseNumber: number,
                baseTag: tag, baseTime: time)
        }
        let pages = [
            page(based(0, 1, 0, .min)), page(based(0, 0, 1, .min)), page(based(0, 0, 0, 0)),
            page(based(1, 0, 1, .min)), page(based(1, 0, 0, 0)),
            page(based(0, 0, 0, .min)) { $0.put(UInt32(8192), at: HeaderField.headerBytes) },
            page(based(0, 0, 0, .min)) { $0.put(UInt16(0), at: HeaderField.writeVersion) },
        ]
        for page in pages {
            let report = try check(page + [UInt8](repeating: 0, count: 4096))
            #expect(report.findings.map(\.rule) == ["F1"] && report.hasDamage)
        }
        #expect(try check(page(based(1, 1, 0, 0)) + [UInt8](repeating: 0, count: 4096)).findings == [])
        for count in [0, 7, 8, 100, 4095] {
            let report = try check(Array(rotten.bytes[..<count]))
            #expect(report.findings.map(\.rule) == ["F1"] && !report.isIntact)
            #expect(report.stoppedAt == 0 && report.header == nil)
        }
    }

    @Test(arguments: [80, 200, 600, 4095]) func strayBytesOfTheHeaderPageAreFound(_ offset: Int) throws {
        var page = try ForgedFile.withNotes()
        page.change(UInt64(offset)) { $0 = 1 }
        // What the checksum covers is found by it first.
        try expectRules([offset < 120 ? "F1" : "F2"], page)
    }

    @Test func badHintsAreFound() throws {
        let good = try ForgedFile.withNotes()
        var bad = good
        bad.change(520) { $0 = 1 }
        try expectRules(["F3"], bad, isDamage: false)
        let hints = [
            Hint(sequence: 1, checkpoint: 0, durableEnd: good.end - 8, number: 1),
            Hint(sequence: 1, checkpoint: 0, durableEnd: good.end - 3, number: 1),
            Hint(sequence: 2, checkpoint: 0, durableEnd: good.end, number: 2),
            Hint(sequence: 2, checkpoint: 0, durableEnd: 4096, number: 1),
            Hint(sequence: 1, checkpoint: 4096, durableEnd: good.end, number: 1),
            Hint(sequence: 1, checkpoint: 0, durableEnd: 0, number: 0),
            Hint(sequence: 2, checkpoint: 0, durableEnd: 0, number: 1),
            Hint(sequence: 2, checkpoint: 0, durableEnd: 8, number: 0),
        ]
        for hint in hints {
            var file = good
            file.write(hint)
            try expectRules(["F3"], file)
        }
        var above = good
        above.write(Hint(sequence: 1, checkpoint: 0, durableEnd: good.end + 64, number: 1))
        try expectRules(["F4"], above)
    }

    /// Damages the frame at an offset, with frames above it that prove that it was durable.
    private func damaged(_ rule: String, _ damage: (inout ForgedFile, ForgedFrame) throws -> Void) throws {
        var file = try ForgedFile.withNotes()
        let frame = file.addCommit([.insert(1, try Note.encoded("one"))])
        file.mark = file.end
        file.addCommit([.insert(2, try Note.encoded("two"))])
        try damage(&file, frame)
        let report = try check(file.finished())
        #expect(report.findings.map(\.rule) == [rule] && report.hasDamage, "\(report.findings)")
        #expect(report.stoppedAt == frame.offset && report.end == frame.offset && report.lastNumber == 1)
    }

    @Test func rottenFramesAreFound() throws {
        try damaged("F4") { (file, frame) in file.change(frame.offset) { $0 ^= 1 } }
        try damaged("F4") { (file, frame) in file.change(frame.offset + 20) { $0 ^= 1 } }
        try damaged("F4") { (file, frame) in
            for offset in frame.offset..<frame.end { file.change(offset) { $0 = 0 } }
        }
        try damaged("F7") { (file, frame) in file.change(frame.offset + 70) { $0 ^= 1 } }
        try damaged("F7") { (file, frame) in file.change(frame.end - 1) { $0 ^= 1 } }
    }

    @Test func aFrameThatNamesAnotherPredecessorIsFound() throws {
        var file = try ForgedFile.withNotes()
        let offset = file.end
        file.previousChecksum ^= 1
        file.addCommit([.insert(1, try Note.encoded("one"))])
        file.mark = file.end
        file.addCommit()
        try expectRules(["F5"], file)
        #expect(try check(file.finished()).stoppedAt == offset)
    }

    @Test func impossibleSizesAreFound() throws {
        var long = try ForgedFile.withNotes()
        long.add(.checkpoint, body: [UInt8](repeating: 1, count: 65536))
        try expectRules(["F6"], long)
        for field in [FrameField.frameBytes, FrameField.tableBytes] {
            var odd = try ForgedFile.withNotes()
            let frame = odd.add(.checkpoint, body: [UInt8](repeating: 1, count: 64)) {
                $0.put(UInt32(1 << 20), at: field)
            }
            try expectRules(["F6"], odd)
            #expect(try check(odd.finished()).stoppedAt == frame.offset)
        }
    }

    @Test func unknownKindsAndFlagsAreFound() throws {
        let cases = [
            (FrameField.kind, UInt8(77)), (FrameField.kind, 0), (FrameField.flags, 2), (FrameField.zero, 1),
            (FrameField.zero2, 1),
        ]
        for (field, value) in cases {
            var file = try ForgedFile.withNotes()
            let frame = file.add(.checkpoint) { $0[field] = value }
            try expectRules(["F8"], file, isDamage: false)
            let report = try check(file.finished())
            #expect(!report.isIntact && report.stoppedAt == frame.offset)
        }
        var flagged = try ForgedFile.withNotes()
        var table = [UInt8](repeating: 0, count: TransactionField.bytes)
        table[TransactionField.flags] = 8
        flagged.add(.transaction, table: table, number: 2)
        try expectRules(["F13"], flagged, isDamage: false)
    }

    @Test func framesWithTheWrongMembershipAreFound() throws {
        for kind in FrameKind.allCases where kind.membership != .possibly {
            var file = try ForgedFile.withNotes()
            file.add(kind, isMember: kind.membership == .never)
            try expectRules(["F8"], file)
        }
        // Outside of the base.
        var rows = try ForgedFile.withNotes()
        rows.add(.rows)
        try expectRules(["F8"], rows)
    }

    @Test func impossibleConsumersAndMarksAreFound() throws {
        let reader = ConsumerRecord(
            name: "r", kind: .reads, cursor: 1, tag: 3, lastSeen: 4, registered: 5, processID: 6)
        var early = reader
        early.cursor = 2
        var padded = reader.encoded()
        padded[padded.count - 1] = 1
        var removed = reader.encoded()
        removed[ConsumerField.kind] = 0
        let broken: [(String, FrameKind, [UInt8])] = [
            ("F33", .consumer, early.encoded()), ("F26", .consumer, padded),
            ("F26", .consumer, removed), ("F26", .consumer, []),
            ("F33", .cleaning, CleaningRecord(before: 3, time: 0).encoded()),
            ("F33", .cleaning, CleaningRecord(before: 0, time: 0).encoded()),
            ("F15", .cleaning, CleaningRecord(before: 1, time: 0, hidden: [.init(author: 1, before: 2)]).encoded()),
            ("F26", .cleaning, [UInt8](repeating: 0, count: 16)),
            ("F33", .replacing, ReplacingRecord(generation: 0, salt: 1, time: 2).encoded()),
            ("F26", .replacing, [UInt8](repeating: 9, count: 16)),
        ]
        for (rule, kind, table) in broken {
            var file = try ForgedFile.withNotes()
            file.add(kind, table: table)
            try expectRules([rule], file)
        }
    }

    @Test func aTransactionWithoutItsCommitFrameIsFound() throws {
        var broken = try ForgedFile.withNotes()
        broken.addPart([.insert(1, try Note.encoded("one"))])
        broken.add(.metadata)
        try expectRules(["F9"], broken)
        var torn = try ForgedFile.withNotes()
        let part = torn.addPart([.insert(1, try Note.encoded("one"))])
        try expectRules(["F9"], torn, isDamage: false)
        let report = try check(torn.finished())
        #expect(report.tornTail == CheckReport.TornTail(offset: part.offset, bytes: part.end - part.offset + 4096))
        #expect(report.isIntact && report.counts.changes == 0 && report.counts.frames == 2)
    }

    @Test func marksOutOfPlaceAreFound() throws {
        var falling = try ForgedFile.withNotes()
        falling.mark = falling.end
        falling.addCommit()
        falling.mark = 4096
        falling.addCommit()
        try expectRules(["F10"], falling)
        var above = try ForgedFile.withNotes()
        above.mark = above.end + 64
        above.addCommit()
        try expectRules(["F10"], above)
        for distance in [8, 3] as [UInt64] {
            var between = try ForgedFile.withNotes()
            between.mark = between.end - distance
            between.addCommit()
            try expectRules(["F10"], between)
        }
        var inside = try ForgedFile.withNotes()
        inside.addPart([.insert(1, try Note.encoded("one"))])
        inside.mark = inside.end
        inside.addCommit()
        try expectRules(["F10"], inside)
        var seal = try ForgedFile.withNotes()
        seal.add(.seal, table: SealRecord(time: 0, checkpoint: 0).encoded(), mark: 4096)
        try expectRules(["F10"], seal)
    }

    // MARK: Transactions

    private func brokenCommit(_ rule: String, _ edits: ForgedFile.Edits) throws {
        var file = try ForgedFile.withNotes()
        file.addCommit([.insert(1, try Note.encoded("one"))], edits)
        try expectRules([rule], file)
        var part = try ForgedFile.withNotes()
        part.addPart([.insert(1, try Note.encoded("one"))])
        part.addCommit([.insert(2, try Note.encoded("two"))], edits)
        try expectRules([rule], part)
    }

    @Test func wrongNumbersAreFound() throws {
        try brokenCommit("F11", .init(number: { $0 + 1 }))
        var member = try ForgedFile.withNotes()
        member.addMember(.value, table: [], number: 3)
        try expectRules(["F11"], member)
        var other = try ForgedFile.withNotes()
        other.add(.metadata, number: 2)
        try expectRules(["F11"], other)
    }

    @Test func timesThatDoNotRiseAreFound() throws {
        try brokenCommit("F12", .init(record: { $0.time = 1_000_000 }))
        for step in [(1_000_000, 999_000), (5, -9_000_000_000)] as [(Int64, Int64)] {
            var file = try ForgedFile.withNotes()
            file.add(.metadata, table: metadata([.clockStep(from: step.0, to: step.1)]))
            try expectRules(["F12"], file)
        }
        // Nothing is before the smallest time; in a compacted file the base has a time.
        let bases: [(generation: UInt64, time: Int64, rules: Set<String>)] = [
            (0, .min, ["F12"]), (1, 9_000_000_000, []),
        ]
        for (generation, base, rules) in bases {
            let header = FileHeader(
                storeID: UUIDBytes(high: 1, low: 2), generation: generation, salt: 3, created: 4,
                baseNumber: generation, baseTag: generation, baseTime: base)
            var first = try ForgedFile(header.encoded())
            (first.lastNumber, first.lastTag) = (generation, generation)
            first.add(.metadata, table: metadata([.clockStep(from: base, to: base &- 4_000_000_000)]))
            first.addCommit()
            try expectRules(rules, first, isDamage: !rules.isEmpty)
        }
        var stepped = try ForgedFile.withNotes()
        stepped.add(.metadata, table: metadata([.clockStep(from: 1_000_000, to: -9_000_000_000)]))
        stepped.time = -9_000_000_000
        stepped.addCommit()
        #expect(try check(stepped.finished()).findings == [])
    }

    @Test func wrongCountsOfATransactionAreFound() throws {
        try brokenCommit("F13", .init(record: { $0.start += 8 }))
        try brokenCommit("F13", .init(record: { $0.firstChange += 1 }))
        try brokenCommit("F13", .init(record: { $0.totalChanges += 1 }))
        try brokenCommit(
            "F13",
            .init(record: {
                $0.totalChanges += 1
                $0.changes += 1
            }))
        var part = try ForgedFile.withNotes()
        part.addPart([.insert(1, try Note.encoded("one"))], .init(record: { $0.tag = 1 }))
        try expectRules(["F13"], part)
        for edit in [{ $0.processID = 8 }, { $0.isCopied = true }] as [(inout TransactionRecord) -> Void] {
            var other = try ForgedFile.withNotes()
            other.addPart([.insert(1, try Note.encoded("one"))])
            other.addCommit([], .init(record: edit))
            try expectRules(["F13"], other)
        }
        try brokenCommit("F13", .init(record: { $0.lacksChanges = true }))
        // Only a compacted file has copied transactions.
        try brokenCommit("F13", .init(record: { $0.isCopied = true }))
        for edit in [{ $0.totalChanges = 1 }, { ($0.isCopied, $0.lacksChanges) = (true, true) }]
            as [(inout TransactionRecord) -> Void]
        {
            var part = try ForgedFile.withNotes()
            part.addPart([.insert(1, try Note.encoded("one"))], .init(record: edit))
            try expectRules(["F13"], part)
        }
        var short = try ForgedFile.withNotes()
        short.add(.transaction, table: [UInt8](repeating: 0, count: 56), number: 2)
        try expectRules(["F13"], short)
    }

    @Test func wrongTagsAreFound() throws {
        try brokenCommit("F14", .init(tag: { $0 ^= 1 }))
        var copied = ForgedFile(generation: 1)
        copied.addCommit([], .init(record: { $0.isCopied = true }, tag: { $0 ^= 1 }))
        #expect(try check(copied.finished()).findings == [])
    }

    @Test func namesThatAreNotDefinedAreFound() throws {
        try brokenCommit("F15", .init(record: { $0.author = 1 }))
        try brokenCommit("F15", .init(record: { $0.context = 1 }))
        try brokenCommit("F15", .init(record: { $0.process = 1 }))
        var gap = try ForgedFile.withNotes()
        gap.add(.metadata, table: metadata([.name(number: 2, text: "someone")]))
        try expectRules(["F15"], gap)
        var twice = try ForgedFile.withNotes()
        twice.add(.metadata, table: metadata([.name(number: 1, text: "a"), .name(number: 2, text: "a")]))
        try expectRules(["F15"], twice)
    }

    @Test func tooManyNamesAreFound() throws {
        var file = try ForgedFile.withNotes()
        let names = (1...FormatLimits.maximumNames).map { MetadataRecord.name(number: UInt32($0), text: "\($0)") }
        for start in stride(from: 0, to: names.count, by: 20_000) {
            file.add(.metadata, table: metadata(Array(names[start..<min(start + 20_000, names.count)])))
        }
        #expect(try check(file.finished()).findings == [])
        file.add(.metadata, table: metadata([.name(number: UInt32(names.count + 1), text: "one more")]))
        #expect(try check(file.finished()).findings.map(\.rule) == ["F15"])
    }

    @Test func wrongSchemaVersionsAreFound() throws {
        let empty = try [2, 3].map { try SchemaDefinition(version: $0, entities: []).encodeTables()[0] }
        let more = EntityDefinition(number: 2, name: "More", attributes: [])
        let table = try SchemaDefinition(version: 2, entities: [more]).encodeTables()[0]
        let members: [(String, [(FrameKind, [UInt8])])] = [
            ("F16", [(.schema, empty[0]), (.schema, empty[1])]),
            ("F16", [(.consumer, ConsumerRecord.removal(of: "r").encoded()), (.schema, empty[0])]),
            ("F25", [(.schema, table), (.schema, empty[0])]), ("F25", [(.schema, table), (.schema, table)]),
        ]
        for (rule, frames) in members {
            var file = try ForgedFile.withNotes()
            file.schemaVersion = 2
            for (kind, table) in frames { file.addMember(kind, table: table) }
            file.addCommit([], .init(record: { $0.changesSchema = true }))
            try expectRules([rule], file)
        }
        var first = try ForgedFile.withNotes()
        first.addSchema(table: empty[0])
        first.addMember(.schema, table: table)
        first.addCommit()
        try expectRules([], first, isDamage: false)
        for edit in [{ $0.changesSchema = true }, { $0.schemaVersion = 2 }]
            as [(inout TransactionRecord) -> Void]
        {
            var part = try ForgedFile.withNotes()
            part.addPart([.insert(1, try Note.encoded("one"))], .init(record: edit))
            try expectRules(["F16"], part)
        }
        try brokenCommit("F16", .init(record: { $0.schemaVersion = 2 }))
        try brokenCommit("F16", .init(record: { $0.changesSchema = true }))
        for version in [1, 3] as [UInt16] {
            var file = try ForgedFile.withNotes()
            file.addSchema(table: try SchemaDefinition(version: version, entities: []).encodeTables()[0])
            file.addCommit()
            try expectRules(["F16"], file)
        }
    }

    private func metadata(_ records: [MetadataRecord]) -> [UInt8] {
        var table: [UInt8] = []
        for record in records { record.append(to: &table) }
        return table
    }
}
