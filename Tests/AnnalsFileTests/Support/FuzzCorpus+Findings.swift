// The stored inputs that have shown a fault, made by hand: each has in few bytes what mattered of the file that fuzzing
// found.

import Annals
import FuzzTargets
internal import SimulatedDisk
import Testing

extension FuzzCorpus {
    static func findings(unsealed: [UInt8]) throws -> [Input] {
        [
            ("finding-many-versions", try manyVersions()), ("finding-without-history", try withoutHistory()),
            ("finding-base-ends-in-value", try baseThatEndsInValue()), ("finding-hint-of-nothing", hintOfNothing()),
            ("finding-mark-of-dropped-member", try markOfDroppedMember()),
            ("finding-newer-checkpoint", try newerCheckpoint()),
            // A torn tail that is longer than what is written over it, and a file with much reserved space.
            ("finding-spare-page", unsealed + [UInt8](repeating: 0xAB, count: 6000)),
            ("finding-target-of-nothing", try targetOfNothing()),
            ("finding-untrue-set-and-bad-hint", try untrueSetAndBadHint()),
        ]
    }

    private static func baseThatEndsInValue() throws -> [UInt8] {
        var file = try ForgedFile.withBase()
        file.addValue([UInt8](repeating: 1, count: 640), of: 1000, isMember: false)
        return file.bytes
    }

    /// A good hint of transactions that the file does not have, below the end of what there is.
    private static func hintOfNothing() -> [UInt8] {
        var file = ForgedFile(generation: 1)
        file.write(Hint(sequence: 1, checkpoint: 0, durableEnd: 0, number: 6760))
        return file.bytes
    }

    /// A transaction without its commit frame, whose members say that more is durable than the frames before them did.
    private static func markOfDroppedMember() throws -> [UInt8] {
        var file = try ForgedFile.withNotes()
        file.mark = file.end
        let first = file.addValue([UInt8](repeating: 1, count: 640), of: 1000)
        file.addValue([UInt8](repeating: 2, count: 360), of: 1000, position: 640, first: first.offset)
        return file.bytes
    }

    /// One that no hint names, above a damaged row.
    private static func newerCheckpoint() throws -> [UInt8] {
        var file = try ForgedFile.withNotes()
        var row = try Note.encoded("one")
        row[RowField.schemaVersion] = 9
        file.addCommit([.insert(1, row)])
        file.addCheckpoint(number: file.lastNumber, hinted: false) { content in
            content.extensions = [CheckpointExtension(kind: 1, flags: 4, number: 2, bytes: [1])]
        }
        return file.bytes
    }

    /// A schema with a reference to an entity that it does not define.
    private static func targetOfNothing() throws -> [UInt8] {
        let folder = EntityDefinition(
            number: 2, name: "Folder",
            attributes: [
                AttributeDefinition(number: 1, type: .string, flags: [.optional], name: "name"),
                AttributeDefinition(number: 2, type: .objects, flags: [.optional], target: 1, name: "notes"),
            ])
        var file = ForgedFile(generation: 1)
        file.add(.schema, table: try SchemaDefinition(version: 1, entities: [folder]).encodeTables()[0])
        return file.bytes
    }

    /// An update whose attribute set lacks an attribute that has changed, and a hint slot that a power cut may leave.
    private static func untrueSetAndBadHint() throws -> [UInt8] {
        var file = try ForgedFile.withNotes()
        let inserted = file.addCommit([.insert(1, try Note.encoded("one", 1))])
        file.addCommit([.update(1, try Note.encoded("other", 2), previous: inserted.rows[0])])
        file.change(UInt64(HintField.slots[0] + HintField.number)) { $0 = 55 }
        return file.bytes
    }

    /// Changes that no request returns, in transactions: compaction leaves them out.
    private static func withoutHistory() throws -> [UInt8] {
        try GoldenStores.store(isClosed: false) { log, _ in
            var definition = Note.definition
            definition.keepsNoHistory = true
            let transaction = log.makeFrames()
            try transaction.changeSchema([definition])
            try log.commit(transaction)
            for number in 1...2 { try log.insertNote(number, Note.row("note \(number)")) }
        }
    }

    /// As many schema versions as fit, of an entity with the highest number: what a catalog costs most for its bytes.
    private static func manyVersions() throws -> [UInt8] {
        try GoldenStores.store(isClosed: false) { log, _ in
            var version: UInt16 = 0
            while log.current.end < 63_000 {
                let transaction = log.makeFrames()
                let attributes = [AttributeDefinition(number: 1, type: .int, flags: [.optional], name: "a")]
                try transaction.changeSchema([
                    EntityDefinition(number: .max - version, name: "e\(version)", attributes: attributes)
                ])
                try log.commit(transaction, durability: .relaxed)
                version += 1
            }
        }
    }
}
