// A checkpoint that says whatever a test wants, with all its checksums right.

import Annals

extension ForgedFile {
    /// Adds a checkpoint, and a hint for it where asked.
    mutating func addCheckpoint(
        number: UInt64 = 5, hinted: Bool = true, _ change: (inout CheckpointContent) -> Void
    ) {
        var content = CheckpointContent()
        (content.number, content.time, content.countedEnd, content.tag) = (number, 0, end, lastTag)
        change(&content)
        addCheckpoint(content, hinted: hinted)
    }

    /// The same with all that it says. `edit` may change the document before it is written.
    mutating func addCheckpoint(
        _ content: CheckpointContent, hinted: Bool = true, document edit: ([UInt8]) -> [UInt8] = { $0 }
    ) {
        let document = edit(content.encoded())
        var table = [UInt8](repeating: 0, count: CheckpointField.bytes)
        table.put(UInt64(document.count), at: CheckpointField.documentBytes)
        table.put(content.features.reading, at: CheckpointField.readFeatures)
        table.put(content.features.writing, at: CheckpointField.writeFeatures)
        let frame = add(.checkpoint, table: table, body: document.padded, number: content.number)
        (lastNumber, time, schemaVersion) = (content.number, 10, UInt16(content.schemas.count))
        if hinted {
            write(Hint(sequence: 1, checkpoint: frame.offset, durableEnd: 4096, number: content.number))
        }
    }
}
