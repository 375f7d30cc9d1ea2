// The records of FileFormat.md and the constants of the code are the same: header page, hints, frames, transactions,
// changes, values.

import Annals
import Testing

@Suite struct FrameConstantsTests {
    private func check(_ group: String, _ fields: [String: Int], bytes: Int) throws {
        try FormatDocument().check(group, fields, bytes: bytes)
    }

    @Test func theHeaderMatchesThePage() throws {
        typealias Field = HeaderField
        try check(
            "header",
            [
                "magic": Field.magic, "readVersion": Field.readVersion, "writeVersion": Field.writeVersion,
                "headerBytes": Field.headerBytes,
                "storeID": Field.storeID, "generation": Field.generation, "salt": Field.salt, "created": Field.created,
                "baseNumber": Field.baseNumber, "baseTag": Field.baseTag, "baseTime": Field.baseTime,
                "zero": Field.zero, "checksum": Field.checksum,
            ], bytes: Field.bytes)
        try check(
            "hint",
            [
                "sequence": HintField.sequence, "checkpoint": HintField.checkpoint, "durableEnd": HintField.durableEnd,
                "number": HintField.number, "zero": HintField.zero, "checksum": HintField.checksum,
            ], bytes: HintField.bytes)
    }

    @Test func theFrameHeaderMatchesThePage() throws {
        typealias Field = FrameField
        try check(
            "frame",
            [
                "checksum": Field.checksum, "frameBytes": Field.frameBytes, "kind": Field.kind, "flags": Field.flags,
                "zero": Field.zero, "number": Field.number, "durableMark": Field.durableMark,
                "previousChecksum": Field.previousChecksum, "tableChecksum": Field.tableChecksum,
                "bodyChecksum": Field.bodyChecksum, "tableBytes": Field.tableBytes, "zero2": Field.zero2,
            ], bytes: Field.bytes)
    }

    @Test func transactionsChangesAndValuesMatchThePage() throws {
        typealias Field = TransactionField
        try check(
            "transaction",
            [
                "tag": Field.tag, "time": Field.time, "start": Field.start, "totalChanges": Field.totalChanges,
                "changes": Field.changes, "processID": Field.processID, "author": Field.author,
                "context": Field.context, "process": Field.process, "flags": Field.flags,
                "schemaVersion": Field.schemaVersion, "firstChange": Field.firstChange,
            ], bytes: Field.bytes)
        try check(
            "change",
            [
                "object": ChangeField.object, "row": ChangeField.row, "kind": ChangeField.kind,
                "shape": ChangeField.shape, "zero": ChangeField.zero,
            ], bytes: ChangeField.bytes)
        try check(
            "value",
            [
                "valueBytes": ValueField.valueBytes, "position": ValueField.position, "first": ValueField.first,
                "pieceBytes": ValueField.pieceBytes, "zero": ValueField.zero,
            ], bytes: ValueField.bytes)
    }

    @Test func nodesAndCheckpointsMatchThePage() throws {
        try check("nodes", ["nodes": NodesField.nodes, "zero": NodesField.zero], bytes: NodesField.bytes)
        try check(
            "checkpoint",
            [
                "documentBytes": CheckpointField.documentBytes, "pieces": CheckpointField.pieces,
                "zero": CheckpointField.zero, "readFeatures": CheckpointField.readFeatures,
                "writeFeatures": CheckpointField.writeFeatures,
            ], bytes: CheckpointField.bytes)
        try check(
            "delta", ["base": DeltaField.base, "present": DeltaField.present],
            bytes: DeltaField.present + DeltaField.presentBytes)
        typealias Field = ExtensionField
        try check(
            "extension",
            [
                "kind": Field.kind, "flags": Field.flags, "zero": Field.zero, "number": Field.number,
                "extensionBytes": Field.extensionBytes,
            ], bytes: Field.bytes)
        try check(
            "landmark", ["offset": LandmarkField.offset, "number": LandmarkField.number], bytes: LandmarkField.bytes)
    }

    @Test func nodesOfOrderedIndexesMatchThePage() throws {
        typealias Field = OrderedNodeField
        try check(
            "node",
            [
                "level": Field.level, "count": Field.count, "entryBytes": Field.entryBytes,
                "lowestEntry": Field.lowestEntry, "prefixBytes": Field.prefixBytes, "zero": Field.zero,
            ], bytes: Field.bytes)
        try check(
            "slot",
            [
                "head": OrderedSlotField.head, "entry": OrderedSlotField.entry,
                "keyBytes": OrderedSlotField.keyBytes,
            ], bytes: OrderedSlotField.bytes)
        try check(
            "entry", ["object": OrderedEntryField.object, "child": OrderedEntryField.child],
            bytes: OrderedEntryField.innerBytes)
        typealias Delta = OrderedDeltaField
        try check(
            "edits",
            [
                "base": Delta.base, "count": Delta.count, "bytes": Delta.bytes, "leafCount": Delta.leafCount,
                "leafBytes": Delta.leafBytes,
            ], bytes: Delta.slots)
        try check(
            "edit", ["size": OrderedEditField.size, "object": OrderedEditField.object],
            bytes: OrderedEditField.bytes)
        #expect(OrderedLimits.nodeBytes == 4096 && OrderedLimits.maximumLevel == 19)
        #expect(IndexKey.uncutBytes == 240 && IndexKey.maximumBytes == 256)
    }

    @Test func consumersAndCleaningMatchThePage() throws {
        typealias Field = ConsumerField
        try check(
            "consumer",
            [
                "cursor": Field.cursor, "tag": Field.tag, "lastSeen": Field.lastSeen, "registered": Field.registered,
                "processID": Field.processID, "kind": Field.kind, "nameBytes": Field.nameBytes,
            ], bytes: Field.bytes)
        try check(
            "cleaning",
            [
                "before": CleaningField.before, "time": CleaningField.time, "authors": CleaningField.authors,
                "zero": CleaningField.zero,
            ], bytes: CleaningField.bytes)
        try check(
            "hidden",
            ["author": HiddenField.author, "zero": HiddenField.zero, "before": HiddenField.before],
            bytes: HiddenField.bytes)
    }

    /// The document is written as the page says: each field by its value.
    @Test func documentsOfCheckpointsMatchThePage() throws {
        var content = CheckpointContent()
        (content.number, content.tag, content.time, content.recoveries) = (1, 2, 3, 4)
        (content.frames, content.transactions, content.mayStepBack, content.countedEnd) = (5, 6, true, 7)
        content.changes = 8
        content.frameBytes = (0..<16).map { 100 + UInt64($0) }
        content.entities = [EntityRoot(entity: 11, depth: 2, root: 4208, nextNumber: 14, liveObjects: 12)]
        let bytes = content.encoded()
        let page = try FormatDocument()
        let document = page.fields(of: "document")
        let words: [(name: String, value: UInt64)] = [
            ("number", 1), ("tag", 2), ("time", 3), ("recoveries", 4), ("frames", 5), ("transactions", 6),
            ("changes", 8), ("mayStepBack", 1), ("countedEnd", 7), ("frameBytes", 100),
        ]
        #expect(Set(document.keys) == Set(words.map(\.name)))
        for (name, value) in words {
            #expect(bytes.integer(at: try #require(document[name]).offset, as: UInt64.self) == value, "\(name)")
        }
        let fixed = document.values.map { $0.offset + $0.bytes }.max() ?? 0
        // No names, no schemas, one root.
        let start = fixed + 12
        let root = page.fields(of: "root")
        #expect(bytes.integer(at: start - 4, as: UInt32.self) == 1)
        let values: [String: UInt64] = ["entity": 11, "depth": 2, "root": 4208, "nextNumber": 14, "liveObjects": 12]
        #expect(Set(root.keys) == Set(values.keys))
        for (name, field) in root {
            let value =
                field.bytes == 2
                ? UInt64(bytes.integer(at: start + field.offset, as: UInt16.self))
                : bytes.integer(at: start + field.offset, as: UInt64.self)
            #expect(value == values[name], "\(name)")
        }
        // No indexes, no landmarks; a horizon, and nothing hidden, no consumers and no extensions.
        #expect(bytes.count == start + (root.values.map { $0.offset + $0.bytes }.max() ?? 0) + 12 + 36)
    }
}

extension [UInt8] {
    fileprivate func integer<Integer: FixedWidthInteger>(at offset: Int, as type: Integer.Type) -> Integer {
        (0..<(Integer.bitWidth / 8)).reduce(0) { $0 | Integer(self[offset + $1]) << Integer($1 * 8) }
    }
}
