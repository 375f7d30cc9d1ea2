// What a program of version 1 does with files of later ones (FileFormat.md, "Versions and compatibility").

import Annals
import FoundationEssentials
import SimulatedDisk
import Testing

@Suite struct CompatibilityTests {
    // MARK: Frames that may be skipped

    @discardableResult
    private func open(_ bytes: [UInt8]) throws -> Log {
        let machine = Machine()
        machine.disk.install(bytes, at: Machine.path)
        return try machine.open(access: .readOnly)
    }

    /// What an engine says of the notes, after `body` has used it.
    private func titles(_ bytes: [UInt8], maps: Bool, _ body: (Engine) throws -> Void = { _ in }) throws -> [String?] {
        var machine = EngineMachine()
        machine.options.log.maps = maps
        machine.machine.disk.install(bytes, at: EngineMachine.path)
        let engine = try machine.open()
        try body(engine)
        let view = try engine.view()
        let titles = try (1...5).map { try view.title(Note.object($0)) }
        try machine.closeAndCheck(engine)
        return titles
    }

    @Test(arguments: [false, true]) func skippedFramesHaveNoEffect(maps: Bool) throws {
        let plain = try SkippedFrames.notes(skipping: [])
        let file = try SkippedFrames.notes(skipping: [14, 15, 16, 77, 255])
        try expectRules([], file, isDamage: false)
        let report = try check(file.finished())
        #expect(report.isIntact && report.counts.frames == 12 && report.counts.bytes(of: .skipped) == 5 * 128)
        // Their places and tags differ.
        func lines(_ file: ForgedFile) throws -> [String] {
            try TransactionDump.lines(open(file.finished())).map { $0.replacing(/"tag":"[0-9a-f]*",/, with: "") }
        }
        #expect(try lines(file) == lines(plain))
        let before: [String?] = ["one, changed", nil, "three", "four", nil]
        #expect(try titles(file.finished(), maps: maps) == before)
        let after = try titles(file.finished(), maps: maps) { engine in
            _ = try engine.commit { try $0.insert(entity: Note.entity, Note.row("five", 5)) }
            try engine.writeCheckpoint()
            _ = try engine.commit { _ in }
        }
        #expect(after == before.dropLast() + ["five"])
    }

    /// A writer goes on behind them, and what follows is read the same from its checkpoint. Compaction leaves them out.
    @Test func copyingLeavesSkippedFramesOut() throws {
        let file = try SkippedFrames.notes(skipping: [14, 15, 16, 77, 255])
        for copying in Copying.allCases { #expect(try expectSound(copying, of: file.finished()) == nil) }
        let machine = EngineMachine()
        machine.machine.disk.install(file.finished(), at: EngineMachine.path)
        let store = StoreHandle(try machine.open())
        _ = try store.compact(.lowered)
        let report = try Checker.check(EngineMachine.path, files: machine.machine.files())
        #expect(report.isIntact && report.counts.bytes(of: .skipped) == 0 && report.lastNumber == 4)
    }

    @Test func framesThatMayNotBeSkippedStopReading() throws {
        // Kind 0, kinds that are known, a flag that is not, bytes that must be zero.
        let frames: [[(Int, UInt8)]] = [
            [(FrameField.kind, 0), (FrameField.flags, 2)], [(FrameField.kind, 13), (FrameField.flags, 2)],
            [(FrameField.kind, 14)], [(FrameField.kind, 14), (FrameField.flags, 10)],
            [(FrameField.kind, 14), (FrameField.flags, 2), (FrameField.zero, 1)],
            [(FrameField.kind, 14), (FrameField.flags, 2), (FrameField.zero2 + 3, 1)],
        ]
        for fields in frames {
            var file = try ForgedFile.withNotes()
            let frame = file.add(.checkpoint) { for (field, value) in fields { $0[field] = value } }
            let report = try check(file.finished())
            #expect(!report.isIntact && !report.hasDamage && report.stoppedAt == frame.offset, "\(fields)")
            #expect(throws: StoreError.self) { try open(file.finished()) }
        }
    }

    // MARK: Versions

    private func file(readVersion: UInt16, writeVersion: UInt16, newerByte: Int? = nil) throws -> [UInt8] {
        var page = ForgedFile().header.encoded()
        page.put(readVersion, at: HeaderField.readVersion)
        page.put(writeVersion, at: HeaderField.writeVersion)
        if let newerByte { page[newerByte] = 1 }
        let checksum = Array(page[..<HeaderField.checksum]).withUnsafeBytes { Checksum.hash($0, seed: 0) }
        page.put(checksum, at: HeaderField.checksum)
        // A program that does not know the page says so whatever follows.
        guard var file = try? ForgedFile(page) else { return page + [UInt8](repeating: 0, count: 4096) }
        try file.addNotes()
        file.addCommit([.insert(1, try Note.encoded("one"))])
        return file.finished()
    }

    @Test func onlyVersion1IsRead() throws {
        for version in [UInt16(0), 2, 256] {
            let bytes = try file(readVersion: version, writeVersion: max(version, 1))
            #expect(code { try open(bytes) } == .unsupportedVersion)
            let report = try check(bytes)
            #expect(!report.isIntact && !report.hasDamage && report.stoppedAt == 0)
        }
        #expect(code { try open(try file(readVersion: 1, writeVersion: 0)) } == .damaged)
        #expect(code { try open(try file(readVersion: 1, writeVersion: 1, newerByte: 130)) } == .damaged)
        let reserved = try file(readVersion: 1, writeVersion: 1, newerByte: HeaderField.zero)
        #expect(code { try open(reserved) } == .unsupportedVersion)
    }

    /// Whatever else the header page says.
    @Test(arguments: [nil, HeaderField.zero + 3, 130, 4095], [false, true])
    func aFileOfAHigherWriteVersionIsReadOnly(newerByte: Int?, maps: Bool) throws {
        let bytes = try file(readVersion: 1, writeVersion: 2, newerByte: newerByte)
        #expect(try check(bytes).isIntact)
        var machine = EngineMachine()
        machine.options.log.maps = maps
        machine.machine.disk.install(bytes, at: EngineMachine.path)
        let engine = try machine.open()
        #expect(try engine.view().title(Note.object(1)) == "one")
        let insert = { _ = try engine.commit { try $0.insert(entity: Note.entity, Note.row("two", 2)) } }
        #expect(code(insert) == .unsupportedVersion)
        #expect(code { try engine.writeCheckpoint() } == .unsupportedVersion)
        #expect(code { _ = try StoreHandle(engine).compact(.lowered) } == .unsupportedVersion)
        try machine.closeAndCheck(engine)
        #expect(machine.machine.disk.contents(of: EngineMachine.path) == bytes)
        #expect(machine.machine.disk.names(in: "/data") == ["s.annals"])
    }
}
