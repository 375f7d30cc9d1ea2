// Random changes of an ordered index beside a sorted array; snapshots and written states must stay what they were.

import Annals
import Synchronization
import TestSupport
import Testing

@Suite struct OrderedOracleTests {
    /// What an index must be: the same entries, sorted.
    private struct Oracle {
        var entries: [IndexEntry] = []

        mutating func insert(_ entry: IndexEntry) -> Bool {
            let place = self.place(of: entry)
            if place < entries.count, entries[place] == entry { return false }
            entries.insert(entry, at: place)
            return true
        }

        mutating func remove(_ entry: IndexEntry) -> Bool {
            let place = self.place(of: entry)
            guard place < entries.count, entries[place] == entry else { return false }
            entries.remove(at: place)
            return true
        }

        private func place(of entry: IndexEntry) -> Int {
            var (low, high) = (0, entries.count)
            while low < high {
                let middle = (low + high) / 2
                if entries[middle] < entry { low = middle + 1 } else { high = middle }
            }
            return low
        }
    }

    /// 50,000 changes with each seed: short keys, medium ones, the longest, and cut ones that differ after their 240th
    /// byte only.
    /// Without deltas, with those of a store, and with small ones, which become whole leaves often.
    @Test(arguments: [1, 2, 3, 4] as [UInt64], [OrderedDeltaPolicy.whole, OrderedDeltaPolicy(), .lowered])
    func indexEqualsASortedArray(_ seed: UInt64, _ deltas: OrderedDeltaPolicy) throws {
        var random = SeededRandom(seed)
        let nodes = MemoryNodes()
        var index = OrderedIndex(deltas)
        var oracle = Oracle()
        var snapshots: [(OrderedIndex, Oracle)] = []
        for step in 0..<50_000 {
            // Long stretches of growing and of shrinking, so that leaves and roots come and go.
            let isGrowing = step / 4000 % 3 != 2
            let entry =
                !isGrowing && !oracle.entries.isEmpty && random.next() % 4 != 0
                ? oracle.entries[Int(random.next() % UInt64(oracle.entries.count))] : Self.entry(&random, seed)
            if random.next() % 8 < (isGrowing ? 6 : 1) {
                try #require(try index.insert(entry, nodes) == oracle.insert(entry), "seed \(seed) step \(step)")
            } else {
                try #require(try index.remove(entry, nodes) == oracle.remove(entry), "seed \(seed) step \(step)")
            }
            try #require(index.entries == UInt64(oracle.entries.count))
            switch random.next() % 2000 {
            case 0..<4: snapshots.append((index, oracle))
            case 4..<8: try index.write(to: nodes)
            case 8..<24: try index.write(bytes: Int(random.next() % 16384) + 1, to: nodes)
            case 24...25: try check(index, oracle, nodes, &random, "seed \(seed) step \(step)")
            default: break
            }
            if snapshots.count > 4 {
                let (old, expected) = snapshots.remove(at: Int(random.next() % 5))
                try check(old, expected, nodes, &random, "snapshot, seed \(seed) step \(step)")
            }
        }
        try check(index, oracle, nodes, &random, "end, seed \(seed)")
        let root = try index.write(to: nodes)
        let opened = OrderedIndex(root: root, entries: index.entries, deltas)
        try check(opened, oracle, nodes, &random, "opened, seed \(seed)")
        for (old, expected) in snapshots { try check(old, expected, nodes, &random, "last, seed \(seed)") }
        #expect(nodes.deltaOffsets.isEmpty == (deltas.mostEdits == 0))
    }

    private static func entry(_ random: inout SeededRandom, _ seed: UInt64) -> IndexEntry {
        let number = random.next()
        let object = random.next() % 3 + 1
        func bytes(_ count: Int, _ byte: UInt8) -> [UInt8] { Array(repeating: byte, count: count) }
        switch number % 8 {
        case 0:
            return IndexEntry(
                Array([1, UInt8(number >> 8 & 1), 0].prefix(Int(number >> 16 % 4))), random.next() % 5000 + 1)
        case 1, 2: return IndexEntry([1] + big(number >> 8 % 3000), object)
        case 3: return IndexEntry([1] + big(number >> 8 % 50) + big(number >> 40 % 50), object)
        case 4: return IndexEntry(bytes(Int(number >> 8 % 60), 7) + big(number >> 40 % 9), object)
        case 5: return IndexEntry(bytes(232, 9) + big(number >> 8 % 500), object)
        case 6:
            return IndexEntry(bytes(240, UInt8(8 + seed % 2)) + big(number >> 8 % 4) + big(number >> 40 % 200), object)
        default: return IndexEntry([2] + big(number &* 0x9e37_79b9).prefix(Int(number >> 8 % 9)), object)
        }
    }

    private static func big(_ number: UInt64) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }

    private func check(
        _ index: OrderedIndex, _ oracle: Oracle, _ nodes: MemoryNodes, _ random: inout SeededRandom, _ place: String
    ) throws {
        let entries = oracle.entries
        try #require(try index.validated(nodes) == entries, "\(place)")
        try #require(try index.list(reversed: true, nodes) == entries.reversed(), "\(place)")
        for _ in 0..<5 {
            let from = bound(entries, &random)
            let to = bound(entries, &random)
            let expected = entries.filter {
                OrderedIndexTests.isAllowed($0, from: from) && OrderedIndexTests.isAllowed($0, to: to)
            }
            try #require(try index.list(from, to, nodes) == expected, "\(place): \(from) \(to)")
            try #require(try index.list(from, to, reversed: true, nodes) == expected.reversed(), "\(place)")
            let count = try index.count(from: from, to: to, nodes)
            try #require(count == UInt64(expected.count), "\(place): \(from) \(to)")
        }
        for _ in 0..<20 {
            let key = Self.entry(&random, random.next()).key
            try #require(try index.first(key, nodes) == entries.first { $0.key == key }?.object, "\(place)")
        }
    }

    private func bound(_ entries: [IndexEntry], _ random: inout SeededRandom) -> IndexBound {
        var entry = Self.entry(&random, 1)
        if !entries.isEmpty, random.next() % 2 == 0 { entry = entries[Int(random.next() % UInt64(entries.count))] }
        let prefix = Array(entry.key.prefix(Int(random.next() % 12)))
        return switch random.next() % 6 {
        case 0: .unbounded
        case 1: .including(prefix)
        case 2: .excluding(prefix)
        case 3: .including(entry.key)
        case 4: .excluding(entry.key)
        default: .beside(key: entry.key, entry.object)
        }
    }

    // MARK: Threads

    /// What a writer made public: an index and what must be in it.
    private final class Published: Sendable {
        private let state = Guarded<(index: OrderedIndex, sum: UInt64)>((OrderedIndex(), 0))
        let isOver = Atomic(false)
        let checked = Atomic(0)
        let failures = Guarded<[String]>([])

        var now: (index: OrderedIndex, sum: UInt64) { state.withLock { $0 } }
        func publish(_ index: OrderedIndex, _ sum: UInt64) { state.withLock { $0 = (index, sum) } }
    }

    /// Readers find in every snapshot what was there when it was taken, while the writer goes on and writes nodes away.
    @Test(.timeLimit(.minutes(20))) func snapshotsDoNotChangeWhileAWriterContinues() throws {
        let nodes = MemoryNodes()
        let published = Published()
        let readers = try (0..<2).map { _ in
            try BackgroundThread(name: "reader") { [published] in
                while !published.isOver.load(ordering: .acquiring) {
                    let (index, sum) = published.now
                    var (found, count, last): (UInt64, UInt64, [UInt8]) = (0, 0, [])
                    do throws(StoreError) {
                        try index.forEach(nodes) { (key, object) throws(StoreError) in
                            found &+= object.rawValue
                            count += 1
                            if count % 16 == 0 {
                                if !last.lexicographicallyPrecedes(key) { found = 0 }
                                last = Array(key)
                            }
                            return true
                        }
                    } catch {
                        count = .max
                    }
                    if found != sum || count != index.entries {
                        published.failures.withLock { $0.append("\(count) \(found)") }
                    }
                    published.checked.add(1, ordering: .relaxed)
                }
            }
        }
        var random = SeededRandom(5)
        var index = OrderedIndex()
        var sum: UInt64 = 0
        var step = 0
        while step < 60_000 || published.checked.load(ordering: .relaxed) < 50 {
            let entry = IndexEntry([1] + Self.big(random.next() % 20_000), 1)
            let (isInsert, raw) = (random.next() % 5 < 3, entry.object.rawValue)
            if isInsert {
                if try index.insert(entry, nodes) { sum &+= raw }
            } else if try index.remove(entry, nodes) {
                sum &-= raw
            }
            step += 1
            if step % 100 == 0 { published.publish(index, sum) }
            if step < 200_000, step % 7000 == 0 { try index.write(to: nodes) }
        }
        published.isOver.store(true, ordering: .releasing)
        for reader in readers { reader.join() }
        #expect(published.failures.withLock { $0 } == [])
    }
}
