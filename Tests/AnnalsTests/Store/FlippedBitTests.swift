// Promise 6 for files that are copied: a bit that flips after a handle has verified it never gets a new checksum.

import Annals
import Foundation
import TestSupport
import Testing

/// Each trial opens a copy of a store through a mapping and reads all of it. Then a bit of the file flips, and the
/// handle compacts or backs up: what it writes equals the store as it was, or it throws what is damaged.
@Suite struct FlippedBitTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    /// What programs can read of a store.
    private struct Content: Equatable {
        var rows: [[Row]]
        var history: [HistoryTransaction]

        init(_ store: Store) throws {
            let snapshot = try store.snapshot()
            rows = try snapshot.entities.map { try snapshot.rows(of: $0.name) }
            history = try store.history(after: store.horizon, includingValues: true)
        }
    }

    /// Rows with and without history, in two schema versions and of all sizes, and objects that changed often.
    private func fill(_ store: Store, seed: UInt64) throws {
        var history = try RandomHistory(store, seed: seed)
        let log = EntityDescription(
            "Log", attributes: [AttributeDescription("text", .string), AttributeDescription("bytes", .data)],
            history: .off)
        try store.changeSchema([.addEntity(log)])
        for round in 0..<12 {
            try store.writeOptimistically { transaction in
                for number in 0..<6 {
                    let size = number == 0 ? 70_000 : 40 * number
                    let bytes = (0..<size).map { _ in UInt8.random(in: 0...255, using: &history.random) }
                    try transaction.insert("Log", ["text": .string("\(round)"), "bytes": .data(Data(bytes))])
                    if number < 2 {
                        try transaction.insert("Blob", ["text": .string("\(round)"), "bytes": .data(Data(bytes))])
                    }
                }
            }
        }
        let last = try store.history(after: 0).last?.number ?? 0
        try store.deleteHistory(before: last - 60 + seed % 40)
    }

    private static let blob = EntityDescription(
        "Blob", attributes: [AttributeDescription("text", .string), AttributeDescription("bytes", .data)])

    /// Once for every round of trials: a new store.
    private func makeStore(seed: UInt64) throws {
        unlink(folder.path)
        let store = try folder.open([Sample.clip, RandomHistory.note, RandomHistory.wide, Self.blob]) {
            $0.automaticCompaction = nil
        }
        try fill(store, seed: seed)
        // Every other store has been compacted before.
        if seed % 2 == 0 { try store.compact() }
        try store.close()
    }

    /// Where a bit flips, and when.
    private struct Flip {
        let offset: Int
        let bit: UInt8
        /// Before compaction, or at a step of it.
        let step: Int
        /// The step at which it flips back; nil for never.
        let backStep: Int?

        init(size: Int, _ random: inout SeededRandom) {
            offset = Int.random(in: 0..<size, using: &random)
            bit = 1 << UInt8.random(in: 0..<8, using: &random)
            step = random.happens(0.5) ? 0 : Int.random(in: 1...9, using: &random)
            backStep = random.happens(0.3) ? step + Int.random(in: 1...6, using: &random) : nil
        }
    }

    private func flip(_ path: String, _ flip: Flip) {
        let file = open(path, O_RDWR | O_CLOEXEC)
        defer { close(file) }
        var byte: UInt8 = 0
        #expect(pread(file, &byte, 1, flip.offset) == 1)
        byte ^= flip.bit
        #expect(pwrite(file, &byte, 1, flip.offset) == 1)
    }

    private enum Outcome { case equal, refused }

    private func runTrial(_ random: inout SeededRandom) throws -> Outcome {
        let place = try TemporaryDirectory()
        let (path, copy) = (place.path("t.annals"), place.path("copy.annals"))
        try Self.copyFile(folder.path, to: path)
        var options = Store.Options()
        options.durability = .relaxed
        options.reading = .mapped
        options.automaticCompaction = nil
        let store = try Store(at: path, options: options)
        // Bytes that the handle wrote itself are trusted, and never verified.
        if random.happens(0.6) {
            let clips = try store.snapshot().rows(of: "Clip")
            try store.writeOptimistically { transaction in
                for clip in clips.prefix(8) { try transaction.update(clip.id, ["rank": .int(Int64(clip.id.number))]) }
                try transaction.insert("Clip", ["url": .string("last")])
            }
            if random.happens(0.5), let last = clips.last { try store.writeOptimistically { try $0.delete(last.id) } }
        }
        let before = try Content(store)
        let flip = Flip(size: try Self.size(of: path), &random)
        if flip.step == 0 { self.flip(path, flip) }
        let steps = Guarded(0)
        let progress = { @Sendable (_: Store.CompactionProgress) -> Bool in
            let step = steps.withLock { step in
                step += 1
                return step
            }
            if step == flip.step || step == flip.backStep { self.flip(path, flip) }
            return true
        }
        let backsUp = random.happens(0.4)
        do {
            if backsUp {
                try store.backup(to: copy, progress: progress)
            } else {
                try store.compact(progress: progress)
            }
        } catch let error as StoreError {
            #expect(error.code == .damaged, "\(error)")
            #expect(place.names == ["t.annals"], "the copy is gone")
            try? store.close()
            return .refused
        }
        try? store.close()
        let result = backsUp ? copy : path
        let report = try Checker.check(result, files: RealFileSystem())
        // After compaction, a bit of the old file is not in the new one.
        #expect(report.isIntact, "\(flip): \(report.findings)")
        options.reading = .copied
        let reopened = try Store(at: result, options: options)
        let isEqual = try Content(reopened) == before
        #expect(isEqual, "\(flip), \(backsUp ? "backup" : "compaction"): intact with other rows")
        try reopened.close()
        return .equal
    }

    private static func size(of path: String) throws -> Int {
        var status = stat()
        try #require(stat(path, &status) == 0)
        return Int(status.st_size)
    }

    private static func copyFile(_ source: String, to target: String) throws {
        let input = open(source, O_RDONLY | O_CLOEXEC)
        let output = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        defer {
            close(input)
            close(output)
        }
        var bytes = [UInt8](repeating: 0, count: try size(of: source))
        try #require(pread(input, &bytes, bytes.count, 0) == bytes.count)
        try #require(write(output, bytes, bytes.count) == bytes.count)
    }

    // MARK: Rows without history

    private static let log = EntityDescription(
        "Log", attributes: [AttributeDescription("text", .string)], history: .off)

    /// Rows of which compaction copies the newest alone, each in a frame of its own.
    private func fillLog(_ store: Store, _ numbers: Range<Int>, _ letter: Character = "a") throws {
        for number in numbers {
            let text = "row \(number) \(String(repeating: letter, count: 100))"
            try store.writeOptimistically { try $0.insert("Log", ["text": .string(text)]) }
        }
    }

    /// Opens a store through a mapping, reads all of it, changes the file, and expects that it is not copied.
    private func expectRefused(backsUp: Bool, _ change: () throws -> Void) throws {
        let store = try folder.open([Self.log]) {
            $0.reading = .mapped
            $0.automaticCompaction = nil
        }
        #expect(try Content(store).rows.flatMap { $0 }.count == 60)
        try change()
        let copy = folder.path + ".copy"
        let error = expect(.damaged) {
            if backsUp { _ = try store.backup(to: copy) } else { _ = try store.compact() }
        }
        let words = ["annals verify", "Restore the store from a backup"]
        #expect(words.contains { error?.message.contains($0) ?? false }, "\(error?.message ?? "")")
        #expect(folder.temporary.names == ["s.annals"])
        try? store.close()
    }

    @Test(arguments: [false, true]) func aRowThatChangedIsNotCopied(backsUp: Bool) throws {
        let store = try folder.open([Self.log]) { $0.automaticCompaction = nil }
        try fillLog(store, 0..<60)
        try store.deleteHistory(before: store.currentToken.number + 1)
        try store.close()
        try expectRefused(backsUp: backsUp) {
            let bytes = [UInt8](try Data(contentsOf: URL(filePath: folder.path)))
            let place = try #require(bytes.firstRange(of: Array("row 17 a".utf8))).lowerBound
            change(place + 20, to: [UInt8(ascii: "b")])
        }
    }

    /// The row is wrong while it is copied, and right again when the frames are looked at.
    @Test(arguments: [false, true]) func aRowThatWasWrongForAMomentIsNotCopied(backsUp: Bool) throws {
        let made = try folder.open([Self.log]) { $0.automaticCompaction = nil }
        try fillLog(made, 0..<60)
        try made.deleteHistory(before: made.currentToken.number + 1)
        try made.close()
        let bytes = [UInt8](try Data(contentsOf: URL(filePath: folder.path)))
        let place = try #require(bytes.firstRange(of: Array("row 17 a".utf8))).lowerBound + 20
        var refused = 0
        for backStep in 1...12 {
            unlink(folder.path)
            try bytes.withUnsafeBytes { try Data($0).write(to: URL(filePath: folder.path)) }
            let store = try folder.open([Self.log]) {
                $0.reading = .mapped
                $0.automaticCompaction = nil
            }
            let before = try Content(store)
            change(place, to: [UInt8(ascii: "b")])
            let steps = Guarded(0)
            let progress = { @Sendable [self] (_: Store.CompactionProgress) -> Bool in
                let step = steps.withLock { step in
                    step += 1
                    return step
                }
                if step == backStep { change(place, to: [bytes[place]]) }
                return true
            }
            let copy = folder.path + ".copy"
            do {
                if backsUp {
                    try store.backup(to: copy, progress: progress)
                } else {
                    try store.compact(progress: progress)
                }
                let result = backsUp ? try Store(at: copy) : store
                #expect(try Content(result).rows == before.rows, "flipped back at step \(backStep)")
                if backsUp { try result.close() }
            } catch let error as StoreError {
                #expect(error.code == .damaged, "\(error)")
                refused += 1
            }
            try? store.close()
            unlink(copy)
        }
        #expect(refused > 0)
    }

    /// A frame that is whole, with its own checksum, and from another copy of the store.
    @Test(arguments: [false, true]) func aFrameOfAnotherCopyIsNotCopied(backsUp: Bool) throws {
        let store = try folder.open([Self.log]) { $0.automaticCompaction = nil }
        try fillLog(store, 0..<17)
        try store.close()
        let other = try TemporaryDirectory()
        try Self.copyFile(folder.path, to: other.path("other"))
        var files: [[UInt8]] = []
        for (path, letter) in [(folder.path, "a"), (other.path("other"), "b")] as [(String, Character)] {
            let store = try Store(at: path)
            try fillLog(store, 17..<18, letter)
            try fillLog(store, 18..<60)
            try store.deleteHistory(before: store.currentToken.number + 1)
            try store.close()
            files.append([UInt8](try Data(contentsOf: URL(filePath: path))))
        }
        let row = try #require(files[0].firstRange(of: Array("row 17 a".utf8))).lowerBound
        let next = try #require(files[0].firstRange(of: Array("row 18 a".utf8))).lowerBound
        // A frame begins with its checksum, the first thing that differs.
        let start = try #require(zip(files[0], files[1]).enumerated().first { $1.0 != $1.1 }).offset & ~7
        let end = start + next - row
        #expect(start < row && row < end)
        #expect(files[1][start..<end].firstRange(of: Array("row 17 b".utf8)) != nil)
        try expectRefused(backsUp: backsUp) { change(start, to: Array(files[1][start..<end])) }
    }

    private func change(_ place: Int, to bytes: [UInt8]) {
        let file = open(folder.path, O_RDWR | O_CLOEXEC)
        defer { close(file) }
        #expect(pwrite(file, bytes, bytes.count, place) == bytes.count)
    }

    // MARK: Any bit

    /// An operation is a trial. 1,000: `Tests/run long flips 1000`.
    @Test(arguments: 1...2 as ClosedRange<UInt64>) func noFlippedBitGetsANewChecksum(seed: UInt64) throws {
        guard let run = LongRun("flips", seed: seed, operations: 50) else { return }
        let counts = Guarded((equal: 0, refused: 0))
        let stores = run.forEachStore(20) { (seed, trials) in
            try makeStore(seed: seed)
            var random = SeededRandom(seed)
            for _ in 0..<trials {
                switch try runTrial(&random) {
                case .equal: counts.withLock { $0.equal += 1 }
                case .refused: counts.withLock { $0.refused += 1 }
                }
            }
            try folder.expectIntact()
        }
        let (equal, refused) = counts.withLock { $0 }
        print("flips, seed \(run.seed): \(run.operations) trials, \(equal) equal, \(refused) refused")
        if stores != nil, run.operations >= 50 { #expect(equal > 0 && refused > 0) }
    }
}
