// Promise 6 where blocks of the file share frames, and frames share blocks: in whatever order objects are read, no
// damaged byte is ever shown.

import Annals
import SimulatedDisk
import TestSupport
import Testing

@Suite struct VerifiedReadingTests {
    /// Frames of 5 to 150 KB, so that blocks of 16 KiB have whole frames, parts of several, and parts of one only.
    private static func make(_ path: String) throws -> [(objects: [ObjectID], start: UInt64, end: UInt64)] {
        let engine = try Engine.create(path, files: RealFileSystem(), environment: RealEnvironment())
        _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
        var frames: [(objects: [ObjectID], start: UInt64, end: UInt64)] = []
        var random = SeededRandom(7)
        for number in 0..<24 {
            let count = [8, 200, 40, 120, 3, 90][number % 6]
            let committed = try engine.commit(durability: .relaxed) { transaction in
                try (0..<count).map { index in
                    let body = [UInt8]((0..<700).map { _ in UInt8.random(in: 0...255, using: &random) })
                    return try transaction.insert(
                        entity: EngineNote.entity, [.string("\(number)/\(index)"), .int(Int64(index)), .data(body)])
                }
            }
            let appended = try #require(committed.transaction)
            frames.append((committed.result, appended.start, appended.end))
        }
        // So that opening reads nothing of the frames itself.
        try engine.writeCheckpoint()
        try engine.close()
        return frames
    }

    @Test(arguments: [FileReading.mapped, .copied], 1...6 as ClosedRange<UInt64>)
    func noOrderOfReadingShowsDamage(reading: FileReading, seed: UInt64) throws {
        let directory = try TemporaryDirectory()
        let path = directory.path + "/store.annals"
        let frames = try Self.make(path)
        let blocks = { (start: UInt64, end: UInt64) in start >> 14...(end - 1) >> 14 }
        var random = SeededRandom(seed)
        let damaged = Int.random(in: 1..<frames.count, using: &random)
        let place = UInt64.random(in: frames[damaged].start + 200..<frames[damaged].end, using: &random)
        let files = RealFileSystem()
        let folder = try files.openDirectory(directory.path)
        let file = try files.open("store.annals", in: folder, access: .readWrite)
        var byte = [UInt8](repeating: 0, count: 1)
        _ = try byte.withUnsafeMutableBytes { try files.read(file, at: place, into: $0) }
        byte[0] ^= 0x10
        _ = try byte.withUnsafeBytes { try files.write(file, at: place, from: $0) }
        files.close(file)
        files.close(folder)

        var options = EngineOptions()
        options.reading = reading
        let engine = try Engine.open(
            path, access: .readOnly, options: options, files: files, environment: RealEnvironment())
        let view = try engine.view()
        var order = frames.indices.flatMap { frame in frames[frame].objects.map { (frame: frame, object: $0) } }
        order.shuffle(using: &random)
        let bad = blocks(frames[damaged].start, frames[damaged].end)
        // Twice: what failed must fail again, what was verified stays readable.
        for (frame, object) in order + order {
            var isShown = false
            do throws(StoreError) {
                isShown = try view.withRow(object) { (row) throws(StoreError) in
                    _ = try row.values()
                }
            } catch {
                #expect(error.code == .damaged)
                #expect(bad.overlaps(blocks(frames[frame].start, frames[frame].end)), "a whole frame was refused")
            }
            if frame == damaged { #expect(!isShown, "seed \(seed): a row of the damaged frame was shown") }
        }
        try engine.close()
    }
}
