// Pages of forgotten copies are used again: no copy is lost or changed by that, and the memory stays small.

import Annals
import SimulatedDisk
import TestSupport
import Testing

@Suite struct CopyMemoryTests {
    private static let pageBytes = 4096

    private static func make(_ count: Int, limit: Int) throws -> CopyMemory {
        CopyMemory(try #require(PrivateMemory(count: count)), limit: UInt64(limit))
    }

    /// Different at each offset and in each round.
    private static func content(_ round: Int, at offset: Int, _ count: Int) -> [UInt8] {
        (offset..<offset + count).map { place in
            let low: Int = (place &* 167) ^ (round &* 31)
            return UInt8(truncatingIfNeeded: low ^ (place >> 8)) | 1
        }
    }

    private static func write(_ memory: CopyMemory, _ round: Int, at offset: Int, _ count: Int) {
        content(round, at: offset, count).withUnsafeBytes { memory.write($0, at: offset) }
    }

    private static func has(_ memory: CopyMemory, _ round: Int, at offset: Int, _ count: Int) -> Bool {
        memory.bytes[offset..<offset + count].elementsEqual(content(round, at: offset, count))
    }

    /// The pages of the memory that the system holds.
    private static func heldPages(_ memory: CopyMemory) throws -> Int {
        let start = UInt(bitPattern: memory.bytes.baseAddress)
        let files = RealFileSystem()
        let folder = try files.openDirectory("/proc/self")
        let file = try files.open("pagemap", in: folder, access: .readOnly)
        defer {
            files.close(file)
            files.close(folder)
        }
        var entries = [UInt64](repeating: 0, count: memory.bytes.count / pageBytes)
        let read = try entries.withUnsafeMutableBytes {
            try files.read(file, at: UInt64(start / UInt(pageBytes) * 8), into: $0)
        }
        try #require(read == entries.count * 8)
        return entries.count { $0 >> 63 == 1 }
    }

    /// Copies are written and forgotten in all orders, in and over the borders of pieces.
    @Test(arguments: 1...8 as ClosedRange<UInt64>) func copiesStayUntilTheyAreForgotten(seed: UInt64) throws {
        let limit = 256 << 10
        // The last piece is not whole.
        let memory = try Self.make((3 << 19) + 5 * Self.pageBytes, limit: limit)
        var random = SeededRandom(seed)
        var next = Self.pageBytes
        for round in 1...30 {
            var copies: [(offset: Int, count: Int)] = []
            // A scan, or scattered reads.
            let isScan = Int.random(in: 0..<3, using: &random) > 0
            while memory.heldBytes <= limit {
                let count = Int.random(in: 1...(isScan ? 20_000 : 3000), using: &random)
                if !isScan || next + count > memory.bytes.count {
                    next = Int.random(in: Self.pageBytes...memory.bytes.count - count, using: &random)
                }
                let range = next..<next + count
                if !copies.contains(where: { ($0.offset..<$0.offset + $0.count).overlaps(range) }) {
                    Self.write(memory, round, at: next, count)
                    copies.append((next, count))
                }
                next += count
            }
            for copy in copies where !Self.has(memory, round, at: copy.offset, copy.count) {
                Issue.record("round \(round): the copy at \(copy.offset) was changed")
            }
            #expect(memory.bytes.prefix(Self.pageBytes).allSatisfy { $0 == 0 }, "round \(round)")
            memory.forget()
        }
    }

    /// A scan of 64 times the limit. Scattered reads follow, which would touch a page of each piece.
    @Test func aScanTakesNoMoreMemoryThanTheLimit() throws {
        let limit = 1 << 20
        let memory = try Self.make(64 << 20, limit: limit)
        let step = 50_000
        let bytes = [UInt8](repeating: 7, count: step)
        var most = 0
        for offset in stride(from: Self.pageBytes, to: memory.bytes.count - step, by: step) {
            if memory.heldBytes > limit { memory.forget() }
            bytes.withUnsafeBytes { memory.write($0, at: offset) }
            if offset % 7 == 0 { most = max(most, try Self.heldPages(memory)) }
        }
        #expect(most * Self.pageBytes <= limit + step + 4 * Self.pageBytes)
        #expect(most * Self.pageBytes > limit / 2, "The pages are not counted.")
        // The first round of scattered reads still finds pages of the scan.
        memory.forget()
        for round in 1...3 {
            var random = SeededRandom(UInt64(round))
            most = 0
            while memory.heldBytes <= limit {
                let page = Int.random(in: 1...16_000, using: &random)
                bytes.withUnsafeBytes {
                    memory.write(.init(rebasing: $0.prefix(Self.pageBytes)), at: page * Self.pageBytes)
                }
                most += 1
            }
            #expect(try Self.heldPages(memory) * Self.pageBytes <= limit + 2 * Self.pageBytes, "round \(round)")
            if round > 1 { #expect(most > limit / Self.pageBytes * 3 / 4, "Few reads took all of the memory.") }
            memory.forget()
        }
    }

    /// Threads scan and look up by copies, with so little memory that the copies are forgotten all the time.
    @Test func concurrentReadersFindEveryRowWhilePagesMove() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("s.annals")
        let writer = try Engine.create(path, files: RealFileSystem(), environment: RealEnvironment())
        _ = try writer.commit { try $0.changeSchema([EngineNote.withoutIndexes]) }
        var objects: [ObjectID] = []
        for start in stride(from: 1, to: 20_000, by: 500) {
            objects += try writer.commit(durability: .relaxed) { pending in
                try (start..<start + 500).map { number in
                    let row = EngineNote.row("\(number) " + String(repeating: "x", count: number % 300), Int64(number))
                    return try pending.insert(entity: EngineNote.entity, row)
                }
            }.result
        }
        try writer.close()
        var options = EngineOptions()
        options.reading = .copied
        options.copiedBytes = 256 << 10
        let engine = try Engine.open(
            path, access: .readOnly, options: options, files: RealFileSystem(), environment: RealEnvironment())
        let failures = Guarded<[String]>([])
        let threads = try (0..<4).map { [objects] number in
            try BackgroundThread(name: "copy test") {
                do {
                    try Self.read(engine, objects, number)
                } catch { failures.withLock { $0.append("\(error)") } }
            }
        }
        for thread in threads { thread.join() }
        #expect(failures.withLock { $0 } == [])
        try engine.close()
    }

    private static func read(_ engine: Engine, _ objects: [ObjectID], _ thread: Int) throws {
        let view = try engine.view()
        var random = SeededRandom(UInt64(thread))
        for round in 0..<3 {
            var next = 0
            let isReversed = (thread + round) % 2 == 1
            try view.scan(entity: EngineNote.entity, reversed: isReversed) { (object, row) throws(StoreError) in
                let number = isReversed ? objects.count - next : next + 1
                next += 1
                guard object == objects[number - 1], try row.value(at: 1) == .int(Int64(number)) else {
                    throw StoreError(.damaged, "another row was read than \(number)")
                }
                return true
            }
            guard next == objects.count else { throw StoreError(.damaged, "a scan ended early") }
            for _ in 0..<2000 {
                let number = Int.random(in: 1...objects.count, using: &random)
                guard try view.rank(objects[number - 1]) == Int64(number) else {
                    throw StoreError(.damaged, "another row was looked up than \(number)")
                }
            }
        }
    }
}
