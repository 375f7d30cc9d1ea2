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

    /// Changes one bit of the file.
    private static func damage(_ folderPath: String, at place: UInt64) throws {
        let files = RealFileSystem()
        let folder = try files.openDirectory(folderPath)
        let file = try files.open("store.annals", in: folder, access: .readWrite)
        var byte = [UInt8](repeating: 0, count: 1)
        _ = try byte.withUnsafeMutableBytes { try files.read(file, at: place, into: $0) }
        byte[0] ^= 0x10
        _ = try byte.withUnsafeBytes { try files.write(file, at: place, from: $0) }
        files.close(file)
        files.close(folder)
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
        try Self.damage(directory.path, at: place)
        var options = EngineOptions()
        options.reading = reading
        let engine = try Engine.open(
            path, access: .readOnly, options: options, files: RealFileSystem(), environment: RealEnvironment())
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

    /// A scan knows which bytes around its last row were verified, and must not go beyond them.
    @Test(arguments: [FileReading.mapped, .copied], 1...12 as ClosedRange<UInt64>)
    func noScanShowsDamage(reading: FileReading, seed: UInt64) throws {
        let directory = try TemporaryDirectory()
        let path = directory.path + "/store.annals"
        let frames = try Self.make(path)
        var random = SeededRandom(seed)
        let damaged = Int.random(in: 1..<frames.count - 1, using: &random)
        let place = UInt64.random(in: frames[damaged].start + 200..<frames[damaged].end, using: &random)
        try Self.damage(directory.path, at: place)
        let hidden = Set(frames[damaged].objects)
        let blocks = { (start: UInt64, end: UInt64) in start >> 14...(end - 1) >> 14 }
        let bad = blocks(frames[damaged].start, frames[damaged].end)
        let objects = frames.flatMap(\.objects)
        let whole = Set(frames.filter { !bad.overlaps(blocks($0.start, $0.end)) }.flatMap(\.objects))
        var options = EngineOptions()
        options.reading = reading
        let engine = try Engine.open(
            path, access: .readOnly, options: options, files: RealFileSystem(), environment: RealEnvironment())
        let view = try engine.view()
        for _ in 0..<12 {
            let first = UInt64.random(in: 1...UInt64(objects.count), using: &random)
            let last = UInt64.random(in: first...UInt64(objects.count), using: &random)
            let expected = objects.filter { (first...last).contains($0.number) }
            for isReversed in [false, true] {
                var seen: [ObjectID] = []
                do throws(StoreError) {
                    try view.scan(entity: EngineNote.entity, from: first, through: last, reversed: isReversed) {
                        (object, row) throws(StoreError) in
                        _ = try row.values()
                        seen.append(object)
                        return true
                    }
                    #expect(seen.count == expected.count, "seed \(seed): a scan ended early without an error")
                } catch {
                    #expect(error.code == .damaged)
                    let isWhole = whole.isSuperset(of: expected)
                    #expect(!isWhole, "seed \(seed): whole frames were refused")
                }
                let showsDamage = !hidden.isDisjoint(with: seen)
                #expect(!showsDamage, "seed \(seed): a row of the damaged frame was shown")
                let isInOrder = seen.elementsEqual((isReversed ? expected.reversed() : expected).prefix(seen.count))
                #expect(isInOrder, "seed \(seed): objects are missing or out of order")
            }
        }
        try engine.close()
    }

    /// Frames that were verified before are not verified again (C2): all others are, at every reading.
    @Test(arguments: [FileReading.mapped, .copied], [0, 1, 2, 3])
    func historyShowsNoDamagedTable(reading: FileReading, rowsBefore: Int) throws {
        let directory = try TemporaryDirectory()
        let path = directory.path + "/store.annals"
        let frames = try Self.make(path)
        let damaged = 13
        // In the header: its number, or the checksum before it. In the table: the time, the author, an object.
        for offset: UInt64 in [17, 33, 64 + 9, 64 + 40, 64 + 64 + 1] {
            try Self.damage(directory.path, at: frames[damaged].start + offset)
            var options = EngineOptions()
            options.reading = reading
            let engine = try Engine.open(
                path, access: .readOnly, options: options, files: RealFileSystem(), environment: RealEnvironment())
            let view = try engine.view()
            // Verifies the frames of all rows, of every second one, or of none. Some lie in blocks of the damaged one.
            for frame in frames.indices where rowsBefore > 0 && frame % rowsBefore == 0 {
                _ = try? view.withRow(frames[frame].objects[0]) { (_) in }
            }
            for _ in 0..<2 {
                var last: UInt64 = 0
                var error: StoreError?
                do throws(StoreError) {
                    try engine.tracked(view).forEachTransaction(after: 0) { (transaction) throws(StoreError) in
                        last = transaction.number
                        return true
                    }
                } catch let found { error = found }
                #expect(error?.code == .damaged && error?.offset == frames[damaged].start)
                // The schema is the first transaction. Copies are of whole blocks, so some lack earlier frames too.
                #expect(last == UInt64(damaged) + 1 || (reading == .copied && last <= damaged))
            }
            try engine.close()
            try Self.damage(directory.path, at: frames[damaged].start + offset)
        }
    }
}
