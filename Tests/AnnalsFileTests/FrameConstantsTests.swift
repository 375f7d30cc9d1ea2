// The tables of FileFormat.md and the constants of the code are the same: header page, hints, frames, transactions, changes, values.

import AnnalsFile
import Testing

@Suite struct FrameConstantsTests {
    private func check(_ group: String, _ fields: [String: Int], bytes: Int) throws {
        try FormatDocument().check(group, fields, bytes: bytes)
    }

    @Test func headerPage() throws {
        typealias Field = HeaderField
        try check(
            "header",
            [
                "magic": Field.magic, "formatVersion": Field.formatVersion, "headerBytes": Field.headerBytes,
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

    @Test func frameHeader() throws {
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

    @Test func transactionsChangesAndValues() throws {
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
}
