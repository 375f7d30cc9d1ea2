// A store with a checkpoint, as bytes, whose nodes and documents a test can change with all checksums agreeing again.

import Annals
import FuzzTargets
import SimulatedDisk
import Testing

/// The last thing written to it is a checkpoint: nothing depends on what a test changes of that.
struct CheckpointedStore {
    var bytes: [UInt8]
    let frames: [ListedFrame]

    /// Notes in some transactions, every third one changed, every fifth one deleted, then a checkpoint and a clean
    /// close.
    static func make(notes: Int, author: (Int) -> String = { _ in "tests" }) throws -> CheckpointedStore {
        var machine = EngineMachine()
        machine.options.checkpointTailBytes = 1 << 30
        machine.options.closingTailBytes = 1 << 30
        machine.options.dirtyNodeBytes = 1 << 30
        let engine = try machine.create()
        let ids = try engine.insertNotes(1...notes)
        _ = try engine.commit(author: author(0)) { transaction in
            for id in ids where id.number % 3 == 0 {
                try transaction.update(id, [(EngineNote.rank, .int(-Int64(id.number)))])
            }
        }
        _ = try engine.commit(author: author(1)) { transaction in
            for id in ids where id.number % 5 == 0 { try transaction.delete(id) }
        }
        try engine.writeCheckpoint()
        try engine.close()
        return try CheckpointedStore(machine.machine.disk)
    }

    init(_ disk: SimulatedDisk) throws {
        bytes = try #require(disk.contents(of: Machine.path))
        let lister = try FrameLister(Machine.path, files: disk)
        var frames: [ListedFrame] = []
        while let frame = try lister.next() { frames.append(frame) }
        self.frames = frames
    }

    // MARK: The checkpoint

    var checkpoint: ListedFrame {
        get throws { try #require(frames.last { $0.header.kind == .checkpoint }) }
    }

    /// The nodes frames directly before the checkpoint.
    var nodesFrames: [ListedFrame] {
        get throws {
            let end = try #require(frames.lastIndex { $0.header.kind == .checkpoint })
            let start = frames[..<end].lastIndex { $0.header.kind != .nodes }.map { $0 + 1 } ?? 0
            return Array(frames[start..<end])
        }
    }

    /// Where the document begins, which has no pieces of its own.
    var documentStart: Int {
        get throws {
            let frame = try checkpoint
            return Int(frame.offset) + FrameField.bytes + Int(frame.header.tableBytes)
        }
    }

    var content: CheckpointContent {
        get throws {
            let table = Int(try checkpoint.offset) + FrameField.bytes
            let count = Int(word(table))
            let start = try documentStart
            let document = Array(bytes[start..<start + count])
            return try document.withUnsafeBytes { try CheckpointContent.decode($0) }
        }
    }

    func word(_ offset: Int) -> UInt64 {
        (0..<8).reduce(0) { $0 | UInt64(bytes[offset + $1]) << UInt64($1 * 8) }
    }

    /// Writes a document of the same size in the place of this one.
    mutating func replaceContent(_ edit: (inout CheckpointContent) -> Void) throws {
        var content = try content
        let before = content.encoded().count
        edit(&content)
        let encoded = content.encoded()
        try #require(encoded.count == before)
        let start = try documentStart
        bytes.replaceSubrange(start..<start + before, with: encoded)
    }

    /// The file up to its checkpoint, then another one, and no hints.
    func withCheckpoint(_ edit: (inout CheckpointContent) -> Void) throws -> [UInt8] {
        let frame = try checkpoint
        var before = Array(bytes[..<Int(frame.offset)])
        for slot in HintField.slots {
            before.replaceSubrange(slot..<slot + HintField.bytes, with: repeatElement(0, count: HintField.bytes))
        }
        var file = try ForgedFile(before)
        (file.previousChecksum, file.mark) = (frame.header.previousChecksum, frame.header.durableMark)
        var content = try content
        edit(&content)
        file.addCheckpoint(content, hinted: false)
        return file.finished()
    }

    // MARK: Checking

    /// The rules that are found broken when all checksums agree.
    func brokenRules() throws -> Set<String> {
        let report = try check(FuzzMutator.sealed(bytes))
        #expect(report.stoppedAt == nil)
        return Set(report.findings.map(\.rule))
    }
}
