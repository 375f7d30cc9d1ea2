// The checker finds what is wrong with nodes, checkpoints, indexes and landmarks, under the rule's name (F28 to F32).

import Annals
import FuzzTargets
import SimulatedDisk
import Testing

@Suite struct CheckerIndexTests {
    private static let small = try? CheckpointedStore.make(notes: 40)
    /// Row indexes of two levels, and ordered ones of two.
    private static let deep = try? CheckpointedStore.make(notes: 1300)

    private func expect(
        _ rule: String, _ store: CheckpointedStore?, _ edit: (inout CheckpointedStore) throws -> Void,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        var changed = try #require(store)
        try edit(&changed)
        #expect(try changed.brokenRules() == [rule], sourceLocation: sourceLocation)
    }

    @Test func storesWithCheckpointsAreIntact() throws {
        for store in [Self.small, Self.deep] {
            let store = try #require(store)
            #expect(try check(store.bytes).findings == [])
            #expect(try store.brokenRules() == [])
        }
        let content = try #require(Self.deep).content
        #expect(content.entities.map(\.depth) == [2] && content.indexes.count == 2)
    }

    // MARK: F28

    @Test func malformedNodesFramesAreFound() throws {
        func table(_ store: CheckpointedStore) throws -> Int {
            Int(try #require(store.nodesFrames.first).offset) + FrameField.bytes
        }
        try expect("F28", Self.small) { store in store.bytes[try table(store) + NodesField.nodes] &+= 1 }
        var newer = try #require(Self.small)
        newer.bytes[try table(newer) + NodesField.zero] = 1
        let report = try check(FuzzMutator.sealed(newer.bytes))
        #expect(!report.hasDamage && report.stoppedAt != nil && report.findings.map(\.rule) == ["F28"])
    }

    // MARK: F36

    @Test func aFeatureThatNoRecordDeclaresIsFound() throws {
        try expect("F36", Self.small) { store in
            store.bytes[Int(try store.checkpoint.offset) + FrameField.bytes + CheckpointField.writeFeatures] = 8
        }
    }

    // MARK: F29

    @Test func documentsThatDifferFromTheLogAreFound() throws {
        let edits: [(inout CheckpointContent) -> Void] = [
            { $0.number += 1 }, { $0.tag ^= 1 }, { $0.time += 1 }, { $0.recoveries = 1 }, { $0.frames += 1 },
            { $0.transactions -= 1 }, { $0.mayStepBack = true }, { $0.countedEnd -= 8 },
            { $0.frameBytes[Int(FrameKind.transaction.rawValue)] += 8 }, { $0.frameBytes[15] = 1 },
            { $0.names[0] = "tesss" }, { $0.schemas[0].entities[0].attributes[0].flags = [.unique] },
            { $0.entities[0].entity = 2 }, { $0.entities[0].nextNumber += 1 }, { $0.entities[0].liveObjects -= 1 },
            { $0.indexes.swapAt(0, 1) }, { $0.indexes[0].isUnique = false }, { $0.indexes[0].isComplete = false },
        ]
        for (index, edit) in edits.enumerated() {
            var store = try #require(Self.small)
            try store.replaceContent(edit)
            #expect(try store.brokenRules() == ["F29"], "edit \(index)")
        }
    }

    /// Horizon, retention, hidden authors and consumers.
    @Test func theHistoryFieldsOfACheckpointAreCompared() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        _ = try engine.insertNotes(1...500)
        _ = try engine.register("reader", .reads)
        _ = try engine.register("writer", .writes)
        try engine.setRetention(RetentionLimits(microseconds: 1 << 50, bytes: 1 << 40))
        _ = try engine.deleteHistory(before: 3)
        _ = try engine.deleteHistory(before: 5, authors: ["tests"])
        try engine.writeCheckpoint()
        try machine.closeAndCheck(engine)
        let edits: [(inout CheckpointContent) -> Void] = [
            { $0.horizon = 1 }, { $0.horizon = 3 }, { $0.retention.bytes += 1 }, { $0.retention.microseconds -= 1 },
            { $0.hidden[0].before += 1 }, { $0.hidden[0].author = 0 }, { $0.consumers.swapAt(0, 1) },
            { $0.consumers[0].cursor -= 1 }, { $0.consumers[1].tag ^= 1 }, { $0.consumers[0].lastSeen += 1 },
            { $0.changes -= 1 },
        ]
        for (index, edit) in edits.enumerated() {
            var store = try CheckpointedStore(machine.machine.disk)
            try store.replaceContent(edit)
            #expect(try store.brokenRules() == ["F29"], "edit \(index)")
        }
    }

    /// There is one form of a document: tables are full, and lists ascend.
    @Test func malformedDocumentsAreRefused() throws {
        let entities = (1...3).map { EntityDefinition(number: $0, name: .init("E\($0)"), attributes: []) }
        var content = CheckpointContent()
        content.schemas = [SchemaDefinition(version: 1, entities: entities)]
        let table = try SchemaDefinition(version: 1, entities: entities).encodeTables()[0]
        let parts = try [Array(entities[..<2]), Array(entities[2...])].map {
            try SchemaDefinition(version: 1, entities: $0).encodeTables()[0]
        }
        func sized(_ table: [UInt8]) -> [UInt8] {
            var size = [UInt8](repeating: 0, count: 4)
            size.put(UInt32(table.count), at: 0)
            return size + table
        }
        let whole = content.encoded()
        // After the fixed fields and the count of names: one version.
        let start = 208
        #expect(Array(whole[start..<start + 8 + table.count]) == [1, 0, 0, 0] + sized(table))
        let split = whole[..<start] + [2, 0, 0, 0] + parts.flatMap(sized) + whole[(start + 8 + table.count)...]
        content.schemas = []
        content.landmarkFrames = [8192, 4096]
        for bytes in [Array(split), content.encoded()] {
            let error = #expect(throws: StoreError.self) {
                try bytes.withUnsafeBytes { try CheckpointContent.decode($0) }
            }
            #expect(error?.code == .damaged && error?.rule == "F29")
        }
        #expect(try whole.withUnsafeBytes { try CheckpointContent.decode($0) }.schemas[0].entities == entities)
    }

    @Test func malformedCheckpointFramesAreFound() throws {
        for (place, value) in [(CheckpointField.documentBytes, 8 as UInt8), (CheckpointField.pieces, 1)] {
            try expect("F29", Self.small) { store in
                store.bytes[Int(try store.checkpoint.offset) + FrameField.bytes + place] &-= value
            }
        }
        try expect("F29", Self.small) { store in
            // The count of names.
            store.bytes[try store.documentStart + 192] = 200
        }
    }

    // MARK: F30

    /// Where a node of the row index stands: the highest one, or one below it.
    private func rowNode(_ store: CheckpointedStore, child: Int? = nil) throws -> Int {
        let root = Int(try #require(store.content.entities.first).root)
        guard let child else { return root }
        return Int(store.word(root + child * 8))
    }

    @Test func rowIndexesThatDifferFromTheLogAreFound() throws {
        let edits: [(inout [UInt8], Int) -> Void] = [
            // Object 1 has another version, none, or was never inserted; object 700 never was.
            { $0.put(4096 as UInt64, at: $1 + 8) }, { $0.put(0 as UInt64, at: $1 + 8) },
            { $0[$1 + 8] |= 1 }, { $0[$1 + 8] |= 2 }, { $0.put(4096 as UInt64, at: $1 + 511 * 8) },
            { $0.put(4096 as UInt64, at: $1) },
            { $0.replaceSubrange($1..<$1 + 4096, with: repeatElement(0, count: 4096)) },
        ]
        for (index, edit) in edits.enumerated() {
            var store = try #require(Self.small)
            edit(&store.bytes, try rowNode(store))
            #expect(try store.brokenRules() == ["F30"], "edit \(index)")
        }
    }

    @Test func wrongReferencesOfRowIndexesAreFound() throws {
        let places: [(Int) -> UInt64] = [
            { UInt64($0) }, { UInt64($0) + 8 }, { UInt64($0) + 1 }, { _ in 8 }, { _ in 4096 }, { _ in 1 << 55 },
            { _ in .max & ~7 }, { _ in 0 },
        ]
        for (index, place) in places.enumerated() {
            for child in 0..<3 {
                var store = try #require(Self.deep)
                let root = try rowNode(store)
                store.bytes.put(place(root), at: root + child * 8)
                #expect(try store.brokenRules() == ["F30"], "place \(index), child \(child)")
            }
        }
        for depth: UInt8 in [1, 3, 6] {
            try expect("F30", Self.deep) { try $0.replaceContent { $0.entities[0].depth = depth } }
        }
        for root: UInt64 in [0, 4096, 1 << 40] {
            try expect("F30", Self.deep) { try $0.replaceContent { $0.entities[0].root = root } }
        }
    }

    /// A tree in which every word leads to the same empty node would be read for ever by who did not count.
    @Test func endlessTreesAreFound() throws {
        try expect("F30", Self.deep) { store in
            let root = try rowNode(store)
            let leaf = try rowNode(store, child: 2)
            for index in 0..<512 { store.bytes.put(UInt64(root), at: root + index * 8) }
            store.bytes.replaceSubrange(leaf..<leaf + 4096, with: repeatElement(0, count: 4096))
            try store.replaceContent { $0.entities[0].depth = 6 }
        }
    }

    // MARK: F31

    private func orderedNode(_ store: CheckpointedStore, _ index: Int) throws -> Int {
        Int(try store.content.indexes[index].root)
    }

    @Test func orderedIndexesThatDifferFromTheRowsAreFound() throws {
        try expect("F31", Self.small) { try $0.replaceContent { $0.indexes[0].entries += 1 } }
        try expect("F31", Self.small) { try $0.replaceContent { $0.indexes[0].root = $0.indexes[1].root } }
        try expect("F31", Self.small) {
            try $0.replaceContent {
                $0.indexes[0].root = 0
                $0.indexes[0].entries = 0
            }
        }
        for index in 0..<2 {
            try expect("F31", Self.small) { store in
                // The last entry of the leaf names another object.
                let node = try orderedNode(store, index)
                let lowest =
                    Int(store.bytes[node + OrderedNodeField.lowestEntry])
                    + Int(store.bytes[node + OrderedNodeField.lowestEntry + 1]) << 8
                store.bytes[node + lowest + OrderedEntryField.object] = 200
            }
            // The last byte is of the first entry's key: it is another key, or not in its place any more.
            try expect("F31", Self.small) { store in store.bytes[try orderedNode(store, index) + 4093] ^= 1 }
        }
    }

    @Test(arguments: [0, 1]) func malformedNodesOfOrderedIndexesAreFound(_ index: Int) throws {
        for field in [0, 2, 4, 6, 8, 10, 16, 20, 22] {
            try expect("F31", Self.deep) { store in store.bytes[try orderedNode(store, index) + field] ^= 0xFF }
        }
        for place: UInt64 in [0, 4096, 8, 1 << 55, .max & ~7] {
            try expect("F31", Self.deep) { store in
                // The first entry stands at the end: object, child, and no key.
                store.bytes.put(place, at: try orderedNode(store, index) + 4096 - 8)
            }
        }
        try expect("F31", Self.deep) { store in
            let node = try orderedNode(store, index)
            store.bytes.put(UInt64(node), at: node + 4096 - 8)
        }
    }

    /// Nodes name only nodes that stand below them: here the highest one changes places with the first below it.
    @Test func nodesAboveTheirParentsAreFound() throws {
        func exchange(_ store: inout CheckpointedStore, _ root: UInt64, _ reference: Int) -> UInt64 {
            let root = Int(root)
            let child = Int(store.word(root + reference))
            store.bytes.put(UInt64(root), at: root + reference)
            let nodes = [root, child].map { Array(store.bytes[$0..<$0 + IndexNode.bytes]) }
            store.bytes.replaceSubrange(child..<child + IndexNode.bytes, with: nodes[0])
            store.bytes.replaceSubrange(root..<root + IndexNode.bytes, with: nodes[1])
            return UInt64(child)
        }
        try expect("F30", Self.deep) { store in
            let root = exchange(&store, try store.content.entities[0].root, 0)
            try store.replaceContent { $0.entities[0].root = root }
        }
        for index in 0..<2 {
            try expect("F31", Self.deep) { store in
                let root = exchange(&store, try store.content.indexes[index].root, IndexNode.bytes - 8)
                try store.replaceContent { $0.indexes[index].root = root }
            }
        }
    }

    // MARK: F37

    /// Whether or not the checkpoint has the index, and whatever became of the row.
    @Test(arguments: [false, true]) func aValueOutsideItsRowIsFoundIfItIsIndexedLater(isDeletedLater: Bool) throws {
        var definition = EngineNote.definition
        definition.attributes[EngineNote.body].flags = [.optional, .indexed]
        let schema = SchemaDefinition(version: 1, entities: [definition])
        for isLarge in [false, true] {
            var file = ForgedFile()
            file.addSchema(table: try schema.encodeTables()[0])
            let value = file.addValue([1, 2, 3])
            let reference = try #require(
                LargeValueReference(offset: value.offset, valueBytes: 3, checksum: value.checksum))
            let row = try Note.encoded([.string("a"), .int(1), isLarge ? .large(reference) : .data([1, 2, 3])])
            let inserted = file.addCommit([.insert(1, row)])
            let time = file.time
            var table = [UInt8](repeating: 0, count: NodesField.bytes)
            table.put(UInt32(1), at: NodesField.nodes)
            var leaf = [UInt8](repeating: 0, count: IndexNode.bytes)
            leaf.put(inserted.rows[0], at: 8)
            let node = file.add(.nodes, table: table, body: leaf).end - UInt64(IndexNode.bytes)
            let counts = try check(file.finished()).counts
            var content = CheckpointContent()
            (content.number, content.tag, content.time) = (1, file.lastTag, time - 1)
            (content.frames, content.transactions, content.changes) = (counts.frames, 1, 1)
            content.frameBytes.replaceSubrange(..<counts.frameBytes.count, with: counts.frameBytes)
            (content.countedEnd, content.schemas) = (file.end, [schema])
            content.landmarks = [Landmark(offset: 4096, number: 1)]
            content.entities = [EntityRoot(entity: 1, depth: 1, root: node, nextNumber: 2, liveObjects: 1)]
            content.indexes = [1, 2, 3].map {
                OrderedRoot(entity: 1, isUnique: $0 == 1, isComplete: false, attributes: [$0], root: 0, entries: 0)
            }
            file.addCheckpoint(content, hinted: false)
            file.time = time
            if isDeletedLater { file.addCommit([.delete(1, previous: inserted.rows[0])]) }
            let rules = try check(file.finished()).findings.map(\.rule)
            #expect(rules == (isLarge ? ["F37"] : []))
        }
    }

    // MARK: F32

    @Test func aMiBWithoutALandmarkIsFound() throws {
        let store = try #require(Self.small)
        #expect(try check(store.withCheckpoint { _ in }).findings == [])
        let report = try check(store.withCheckpoint { $0.landmarks = [] })
        #expect(report.findings.map(\.rule) == ["F32"] && report.hasDamage)
    }

    /// The end of what a hint says to be durable is not below its checkpoint.
    @Test func aHintForACheckpointAboveItsEndIsFound() throws {
        var store = try #require(Self.small)
        let checkpoint = try store.checkpoint
        let end = checkpoint.offset + UInt64(checkpoint.header.frameBytes)
        let before = try #require(store.nodesFrames.last)
        #expect(before.offset + UInt64(before.header.frameBytes) == checkpoint.offset)
        for (durableEnd, rules) in [(end, []), (checkpoint.offset, ["F3"]), (4096, ["F3"])] as [(UInt64, [String])] {
            let hint = Hint(
                sequence: 3, checkpoint: checkpoint.offset, durableEnd: durableEnd,
                number: durableEnd == 4096 ? 0 : checkpoint.header.number)
            let salt = store.word(HeaderField.salt)
            store.bytes.replaceSubrange(
                hint.slotOffset..<hint.slotOffset + HintField.bytes, with: hint.encoded(salt: salt))
            #expect(try check(store.bytes).findings.map(\.rule) == rules)
        }
    }

    @Test func landmarksThatAreNoFramesAreFound() throws {
        try expect("F32", Self.small) { try $0.replaceContent { $0.landmarks[0].offset += 8 } }
        try expect("F32", Self.small) { try $0.replaceContent { $0.landmarks[0].offset = 1 << 40 } }
        try expect("F32", Self.small) { try $0.replaceContent { $0.landmarks[0].number += 1 } }
        let store = try #require(Self.small)
        let later = try #require(store.frames.first { $0.header.number == 2 })
        var other = store
        try other.replaceContent { $0.landmarks[0] = Landmark(offset: later.offset, number: 2) }
        #expect(try other.brokenRules() == [])
    }

    // MARK: Damage

    @Test func everyFlippedByteOfNodesAndCheckpointsIsDamage() throws {
        let store = try #require(Self.small)
        let disk = SimulatedDisk()
        let start = try #require(store.nodesFrames.first).offset
        let end = try store.checkpoint.offset + UInt64(try store.checkpoint.header.frameBytes)
        var bytes = store.bytes
        for offset in Int(start)..<Int(end) {
            bytes[offset] ^= 1 << UInt8(offset % 8)
            disk.install(bytes, at: Machine.path)
            let report = try check(disk)
            if !report.hasDamage { Issue.record("byte \(offset)") }
            bytes[offset] = store.bytes[offset]
        }
    }

    // MARK: Intact stores

    @Test func documentsInSeveralFramesAreRead() throws {
        var machine = EngineMachine()
        machine.options.checkpointTailBytes = 1 << 30
        var engine = try machine.create()
        for round in 0..<3 {
            for number in 0..<60 {
                let name = "author \(round) \(number) " + String(repeating: "x", count: 1000)
                _ = try engine.commit(author: name) {
                    _ = try $0.insert(entity: EngineNote.entity, EngineNote.row("\(round) \(number)", 1))
                }
            }
            try engine.writeCheckpoint()
            try machine.closeAndCheck(engine)
            engine = try machine.open()
        }
        try machine.closeAndCheck(engine)
        // The same piece twice is refused: else a frame could ask for thousand times its size in memory.
        var store = try CheckpointedStore(machine.machine.disk)
        let offsets = Int(try store.checkpoint.offset) + FrameField.bytes + CheckpointField.bytes
        #expect(store.word(offsets) > 4096 && store.word(offsets + 8) > store.word(offsets))
        store.bytes.put(store.word(offsets), at: offsets + 8)
        #expect(try store.brokenRules() == ["F29"])
    }

    @Test func storesWithManyCheckpointsOfTwoProcessesAreIntact() throws {
        let machine = EngineMachine()
        let first = try machine.create()
        let second = try machine.open(2)
        for round in 0..<6 {
            let ids = try (round % 2 == 0 ? first : second).insertNotes(round * 500 + 1...round * 500 + 500)
            _ = try (round % 2 == 0 ? second : first).commit { transaction in
                for id in ids where id.number % 7 == 0 { try transaction.delete(id) }
                for id in ids where id.number % 7 == 1 { try transaction.update(id, [(EngineNote.rank, .absent)]) }
            }
            if round == 5 {
                var changed = EngineNote.definition
                changed.attributes.append(
                    AttributeDefinition(
                        number: 4, type: .int, flags: [.indexed], name: "added", defaultValue: [7, 0, 0, 0, 0, 0, 0, 0])
                )
                _ = try first.commit { try $0.changeSchema([changed]) }
            }
            if round == 4 { try second.writeCheckpoint() }
        }
        try second.close()
        try machine.closeAndCheck(first)
        let store = try CheckpointedStore(machine.machine.disk)
        #expect(store.frames.count { $0.header.kind == .checkpoint } > 3)
    }
}
