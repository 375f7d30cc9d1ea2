// Files that nobody but a forger writes, each with all its checksums right: whatever is done with one ends, and without
// ending the process.

import Annals
import Foundation
import SimulatedDisk
import TestSupport
import Testing

@Suite struct ForgedFileTests {
    private static let schema = SchemaDefinition(version: 1, entities: [EngineNote.definition])

    private func forged(
        _ change: (inout CheckpointContent) -> Void, behind: (inout ForgedFile) -> Void = { _ in }
    ) -> [UInt8] {
        var file = ForgedFile(generation: 1)
        file.addCheckpoint(change)
        behind(&file)
        return file.finished()
    }

    private func addTransaction(_ file: inout ForgedFile, number: UInt64, total: UInt64) {
        var record = TransactionRecord()
        (record.start, record.totalChanges, record.schemaVersion, record.time) = (file.end, total, 1, 1)
        var table = [UInt8](repeating: 0, count: TransactionField.bytes)
        table.withUnsafeMutableBytes { record.encode(into: $0) }
        file.add(.transaction, table: table, number: number)
    }

    private func addNodes(_ file: inout ForgedFile, _ nodes: [[UInt8]]) -> [UInt64] {
        var table = [UInt8](repeating: 0, count: NodesField.bytes)
        table.put(UInt32(nodes.count), at: 0)
        let frame = file.add(.nodes, table: table, body: nodes.flatMap { $0 })
        return nodes.indices.map {
            frame.offset + UInt64(FrameField.bytes + NodesField.bytes) + UInt64($0 * IndexNode.bytes)
        }
    }

    private func node(_ words: [UInt64]) -> [UInt8] {
        var node = [UInt8](repeating: 0, count: IndexNode.bytes)
        for (index, word) in words.enumerated() { node.put(word, at: index * 8) }
        return node
    }

    /// A base with so many notes, and where their rows are.
    private func base(_ count: Int) throws -> (ForgedFile, [UInt64]) {
        var file = ForgedFile(generation: 1)
        file.add(.schema, table: try Self.schema.encodeTables()[0])
        file.schemaVersion = 1
        let changes = try (1...count).map { number in
            var row = ByteWriter()
            try EncodedRow.append(
                EngineNote.row("note \(number)", Int64(number)), layout: RowLayout.make(EngineNote.definition),
                entryDistance: 0, schemaVersion: 1, to: &row)
            return ForgedChange(object: Note.object(number), kind: .base, row: Array(row.bytes), previous: nil)
        }
        let frame = file.addRows(changes)
        return (file, frame.rows)
    }

    private func machine(_ bytes: [UInt8], _ reading: FileReading = .mapped) -> EngineMachine {
        var machine = EngineMachine()
        machine.options.reading = reading
        machine.machine.disk.install(bytes, at: EngineMachine.path)
        return machine
    }

    private func expectDamaged(_ body: () throws -> Void) {
        let error = #expect(throws: StoreError.self) { try body() }
        #expect(error?.code == .damaged, "\(error?.description ?? "")")
    }

    // MARK: Checkpoints

    @Test func aCheckpointWithImpossibleCountsIsDamage() throws {
        let root = { (attribute: UInt16) in
            OrderedRoot(
                entity: 1, isUnique: attribute == 1, isComplete: true, attributes: [attribute], root: 4096,
                entries: .max)
        }
        let changes: [(inout CheckpointContent) -> Void] = [
            { $0.frames = .max - 1 }, { $0.transactions = .max }, { $0.recoveries = UInt64(Int.max) },
            { $0.changes = .max }, { ($0.frameBytes[1], $0.frameBytes[5]) = (.max, .max) }, { $0.countedEnd = .max },
            {
                $0.schemas = [Self.schema]
                $0.indexes = [root(1), root(2)]
            },
            {
                $0.schemas = [Self.schema]
                $0.entities = [
                    EntityRoot(entity: 1, depth: 1, root: 0, nextNumber: 1 << 47, liveObjects: 1 << 46)
                ]
            },
        ]
        for change in changes {
            let bytes = forged(change) { file in
                file.add(.recovery, table: RecoveryRecord(random: 1, droppedBytes: 0, time: 0).encoded())
                file.addCommit()
            }
            expectDamaged { _ = try machine(bytes).open() }
        }
    }

    @Test func aCheckpointThatNamesTooManyLandmarksIsDamage() throws {
        var file = ForgedFile(generation: 1)
        file.addCheckpoint(number: 0, hinted: false) { $0.landmarkFrames = [4096] }
        expectDamaged { _ = try machine(file.finished()).open() }
    }

    @Test(arguments: [true, false]) func aCheckpointHasOneLandmarkForEachMiBAtMost(isHinted: Bool) throws {
        var file = ForgedFile(generation: 1)
        file.addCheckpoint(number: 0, hinted: isHinted) {
            $0.landmarks = [Landmark(offset: 4096, number: 0), Landmark(offset: 4096, number: 0)]
        }
        expectDamaged { _ = try machine(file.finished()).open() }
    }

    @Test func aSchemaVersionOfACheckpointHasOneTableWithoutDefinitionsAtMost() throws {
        var content = CheckpointContent()
        content.schemas = [SchemaDefinition(version: 1, entities: [])]
        var bytes = content.encoded()
        // After the fixed fields and the count of names: one version, one table, 8 bytes.
        let table = Array(bytes[212..<224])
        #expect(bytes[204] == 1 && bytes[208] == 1 && bytes[212] == 8)
        #expect(try decode(bytes).schemas.count == 1)
        bytes[208] = 2
        bytes.insert(contentsOf: table, at: 224)
        expectDamaged { _ = try decode(bytes) }
    }

    private func decode(_ bytes: [UInt8]) throws -> CheckpointContent {
        try bytes.withUnsafeBytes { try CheckpointContent.decode($0) }
    }

    @Test func overlappingNodesOfADocumentEndItsReading() throws {
        // However many there are said to be, the first that lies in another one is the last that is read.
        let reads = try [3, 40].map { (count) throws -> Int in
            let machine = machine(nested(count))
            let before = machine.machine.disk.callCount(of: .read)
            let number = try machine.open().view().number
            #expect(number == 0)
            return machine.machine.disk.callCount(of: .read) - before
        }
        #expect(reads[1] <= reads[0] + 4)
    }

    /// A checkpoint whose document stands in nodes frames, each of which has the next ones in its body.
    private func nested(_ count: Int) -> [UInt8] {
        let size = FormatLimits.maximumNodeFrameBytes
        var file = ForgedFile(generation: 1)
        let (start, salt) = (Int(file.end), file.header.salt)
        var region = [UInt8](repeating: 0, count: 40 * 64 + size)
        for place in (0..<count).reversed() {
            let at = place * 64
            let body = Array(region[(at + 64)..<(at + size)])
            var header = FrameHeader(
                kind: .nodes, isMember: false, frameBytes: UInt32(size), tableBytes: 0, number: 0, durableMark: 4096,
                previousChecksum: 0,
                tableChecksum: FrameHeader.tableChecksum(UnsafeRawBufferPointer(start: nil, count: 0), salt: salt),
                bodyChecksum: body.withUnsafeBytes { FrameHeader.bodyChecksum($0, salt: salt) })
            var bytes = [UInt8](repeating: 0, count: 64)
            bytes.withUnsafeMutableBytes { header.encode(into: $0, offset: UInt64(start + at), salt: salt) }
            region.replaceSubrange(at..<(at + 64), with: bytes)
        }
        file.addRaw(region)
        var table = [UInt8](repeating: 0, count: CheckpointField.bytes + count * 8)
        table.put(UInt64(count * FormatLimits.maximumNodeFrameBytes), at: CheckpointField.documentBytes)
        table.put(UInt32(count), at: CheckpointField.pieces)
        for place in 0..<count { table.put(UInt64(start + place * 64), at: CheckpointField.bytes + place * 8) }
        let frame = file.add(.checkpoint, table: table, number: 0)
        file.write(Hint(sequence: 1, checkpoint: frame.offset, durableEnd: 4096, number: 0))
        return file.finished()
    }

    // MARK: What stands below a checkpoint that is believed

    @Test(arguments: [[(1, UInt64.max), (2, 1)], [(2, 0), (1, 0)]] as [[(UInt64, UInt64)]])
    func impossibleHistoryIsDamage(_ transactions: [(UInt64, UInt64)]) throws {
        var file = ForgedFile(generation: 1)
        for (number, total) in transactions { addTransaction(&file, number: number, total: total) }
        file.addCheckpoint { $0.schemas = [Self.schema] }
        let engine = try machine(file.finished()).open()
        expectDamaged { try engine.tracked(try engine.view()).forEachTransaction(after: 0) { (_) in true } }
    }

    @Test func aRangeOverALeafThatIsOutOfOrderEnds() throws {
        var (file, rows) = try base(140)
        var index = OrderedIndex()
        for number in 1...140 {
            var key = ByteWriter()
            try IndexKey.append(values: [.int(Int64(number))], types: [.int], to: &key)
            _ = try index.insert(key.bytes, Note.object(number), NoNodes())
        }
        var leaves: [[UInt8]] = []
        _ = try index.writeDirtyNodes(NoNodes()) { (bytes) throws(StoreError) in
            leaves.append(Array(bytes))
            return 4096
        }
        var leaf = try #require(leaves.count == 1 ? leaves[0] : nil)
        // The two least entries go to places further on: to the ends of the first step and of the second (rangeStep).
        for (a, b) in [(0, 119), (1, 15)] { for byte in 0..<8 { leaf.swapAt(16 + a * 8 + byte, 16 + b * 8 + byte) } }
        let places = addNodes(&file, [node([0] + rows), leaf])
        file.addCheckpoint(number: 0) {
            $0.schemas = [Self.schema]
            ($0.changes, $0.entities) = (
                140, [EntityRoot(entity: 1, depth: 1, root: places[0], nextNumber: 141, liveObjects: 140)]
            )
            $0.indexes = [
                OrderedRoot(
                    entity: 1, isUnique: false, isComplete: true, attributes: [2], root: places[1], entries: 140)
            ]
        }
        let engine = try machine(file.finished()).open()
        var count = 0
        expectDamaged {
            try engine.view().range(EngineNote.rankIndex) { (_, _) in
                count += 1
                return count < 1_000_000
            }
        }
        #expect(count < 100_000)
    }

    @Test func aScanOfNodesThatNameEachOtherEnds() throws {
        var (file, rows) = try base(1)
        var places = addNodes(&file, [node([UInt64](repeating: rows[0], count: 512))])
        for _ in 0..<5 { places = addNodes(&file, [node([UInt64](repeating: places[0], count: 512))]) }
        file.addCheckpoint(number: 0) {
            $0.schemas = [Self.schema]
            $0.entities = [EntityRoot(entity: 1, depth: 6, root: places[0], nextNumber: 1 << 48, liveObjects: 1)]
        }
        let engine = try machine(file.finished()).open()
        for reversed in [false, true] {
            expectDamaged { try engine.view().scan(entity: 1, reversed: reversed) { (_, _) in true } }
        }
        #expect(throws: StoreError.self) { try StoreHandle(engine).compact(.lowered) }
    }

    // MARK: Consumers

    @Test func theToolShowsConsumersWithExtremeTimes() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("s.annals")
        for time in [Int64.max, .min] {
            var file = ForgedFile()
            let record = ConsumerRecord(
                name: "r", kind: [.reads], cursor: 0, tag: 0, lastSeen: time, registered: time, processID: 1)
            file.add(.consumer, table: record.encoded())
            try Data(file.finished()).write(to: URL(fileURLWithPath: path))
            for arguments in [["info", path], ["consumers", path], ["consumers", path, "--format", "json"]] {
                let run = try runTool(arguments)
                #expect(run.status == 0, "\(arguments) \(time): \(run.errors)")
            }
        }
    }

    // MARK: Rows and deletions

    @Test func repeatedDeletionsMakeNoCountNegative() throws {
        for deletions in 1...3 {
            var file = try ForgedFile.withNotes()
            let first = file.addCommit([.insert(1, try Note.encoded("a"))])
            for _ in 0..<deletions { file.addCommit([.delete(1, previous: first.rows[0])]) }
            let engine = try machine(file.finished()).open()
            _ = try engine.spaceByUse(in: engine.view())
            _ = try engine.firstRetained(in: engine.view())
            #expect(try engine.view().count(entity: 1) == 0)
        }
    }

    /// A note whose body is said to be longer than it was, without the bytes.
    private func stretched(_ body: Int, by count: Int) throws -> [UInt8] {
        var row = try Note.encoded("t", 1, [UInt8](repeating: 7, count: body))
        // The slot of `body`, and the size of the row, which ends with it.
        func word(_ at: Int) -> UInt32 { row.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: at, as: UInt32.self) } }
        let (size, end) = (word(RowField.rowBytes), word(20))
        try #require(size == end)
        row = Array(row[..<Int(size)])
        row.put(size + UInt32(count), at: RowField.rowBytes)
        row.put(end + UInt32(count), at: 20)
        return row
    }

    @Test func anUpdateOfARowThatIsTooLongIsRefused() throws {
        let row = try stretched(60_000, by: 10_000) + [UInt8](repeating: 7, count: 10_000)
        var file = try ForgedFile.withNotes()
        file.addCommit([.insert(1, row.padded)])
        let engine = try machine(file.finished()).open()
        expectDamaged { _ = try engine.commit { try $0.update(Note.object(1), [(1, .int(5))]) } }
    }

    /// The verified bytes end with the readable part, although their block goes on.
    @Test(arguments: [FileReading.mapped, .copied], [false, true])
    func aRowDoesNotGoOnAboveTheReadablePart(_ reading: FileReading, isReversed: Bool) throws {
        var file = try ForgedFile.withBase()
        let rows = [try Note.encoded("whole", 1).padded, try stretched(8, by: 9000).padded]
        let frame = file.addRows(
            rows.enumerated().map {
                ForgedChange(object: Note.object($0.offset + 1), kind: .base, row: $0.element, previous: nil)
            })
        let places = addNodes(&file, [node([0] + frame.rows)])
        file.addCheckpoint(number: 0) {
            $0.schemas = [SchemaDefinition(version: 1, entities: [Note.definition])]
            $0.changes = 2
            $0.entities = [EntityRoot(entity: 1, depth: 1, root: places[0], nextNumber: 3, liveObjects: 2)]
        }
        let end = Int(frame.rows[1]) + 9000
        try #require(end > Int(file.end) && end < 16 << 10)
        let engine = try machine(file.finished(spareBytes: 16 << 10), reading).open()
        for _ in 0..<2 {
            expectDamaged {
                try engine.view().scan(entity: 1, reversed: isReversed) { (_, row) throws(StoreError) in
                    _ = try row.values()
                    return true
                }
            }
            expectDamaged { _ = try engine.view().withRow(Note.object(2)) { (_) in } }
            #expect(try engine.view().withRow(Note.object(1)) { (row) throws(StoreError) in _ = try row.values() })
        }
    }

    /// Offsets in a file may have any bits: also those with which a sum overflows.
    @Test(arguments: [FileReading.mapped, .copied])
    func aPreviousVersionWithAnyBitsIsDamage(_ reading: FileReading) throws {
        let row = try Note.encoded("b", 2)
        let ends: [UInt64] = [0, 2, 4, 8, 10, 4096, 16 << 10, 1 << 20]
        let others: [UInt64] = [1 << 60, 1 << 63, 1 << 47, 4, 4092, (16 << 10) - 4]
        let words: [UInt64] = ends.map { 0 &- $0 } + others
        for previous in words where previous != 0 {
            for kind in [ChangeKind.update, .delete] {
                var file = try ForgedFile.withNotes()
                file.addCommit([.insert(1, try Note.encoded("a")), .insert(2, row)])
                file.addCommit([
                    kind == .update ? .update(1, row, previous: previous) : .delete(1, previous: previous)
                ])
                let machine = machine(file.finished(), reading)
                // With some of them the entry says something else, which opening refuses.
                guard previous & 6 == 0 else {
                    expectDamaged { _ = try machine.open() }
                    continue
                }
                let engine = try machine.open()
                let view = try engine.view()
                expectDamaged {
                    try engine.tracked(view).forEachTransaction(after: 0) { (transaction) throws(StoreError) in
                        try transaction.forEachChange { (change) throws(StoreError) in
                            _ = try view.withRow(before: change) { (row) throws(StoreError) in _ = try row.values() }
                            return true
                        }
                        return true
                    }
                }
                if kind == .delete {
                    expectDamaged {
                        _ = try engine.commit { draft in
                            try draft.insertAgain(Note.object(1), setting: [0]) { (row) throws(StoreError) in
                                try row.set(text: "x", at: 0)
                            }
                        }
                    }
                }
            }
        }
    }
}

/// An index without nodes in a file.
private struct NoNodes: NodeSource {
    func node(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer {
        throw StoreError(.damaged, "There are no nodes.")
    }

    func delta(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer { try node(at: offset) }
}
