// Keys of all sizes come out of the sorter as an ordered index has them, and an index is written piece by piece as it
// grows.

import Annals
import SimulatedDisk
import TestSupport
import Testing

@Suite struct KeySorterTests {
    struct Key: Hashable {
        var entry: IndexEntry
        var hasAbsent: Bool
    }

    /// Of every length that begins or ends a size of records, zeros and common beginnings among them.
    private static func keys(_ count: Int, seed: UInt64) -> [Key] {
        var random = SeededRandom(seed)
        return (0..<count).map { number in
            let length = [0, 1, 2, 7, 8, 9, 23, 24, 25, 79, 80, 81, 240, 255, 256][Int(random.next() % 15)]
            var bytes = (0..<length).map { _ in UInt8(random.next() % 3 == 0 ? random.next() % 256 : 0) }
            if random.next() % 2 == 0 { bytes = (0..<length).map { _ in 7 } }
            return Key(entry: IndexEntry(bytes, UInt64(number + 1)), hasAbsent: random.next() % 4 == 0)
        }
    }

    private func sorted(_ keys: [Key], memoryBytes: Int, _ disk: SimulatedDisk) throws -> (found: [Key], runs: Int) {
        let sorter = KeySorter(disk, memoryBytes: memoryBytes) { () throws(StoreError) in
            let directory = try disk.openDirectory("/data")
            defer { disk.close(directory) }
            return try disk.createUnnamed(in: directory, mode: 0o600)
        }
        for key in keys {
            try key.entry.key.withUnsafeBytes { (bytes) throws in
                try sorter.append(bytes, key.entry.object, hasAbsent: key.hasAbsent)
            }
        }
        var found: [[Key]] = []
        for _ in 0..<2 {
            var pass: [Key] = []
            var entries = try sorter.sorted()
            while let entry = try entries.next() {
                try entry.withKey { (bytes) throws(StoreError) in
                    pass.append(Key(entry: IndexEntry(Array(bytes), entry.number), hasAbsent: entry.hasAbsent))
                }
            }
            found.append(pass)
        }
        #expect(found[0] == found[1], "they can be asked for again")
        return (found[0], sorter.runCount)
    }

    @Test(arguments: [(0, 100), (1, 100), (2, 100), (500, 1 << 20), (500, 3000), (4000, 6144), (4000, 60_000)])
    func entriesAreReturnedInTheOrderOfTheIndex(_ count: Int, _ memoryBytes: Int) throws {
        let disk = SimulatedDisk()
        let keys = Self.keys(count, seed: UInt64(count + memoryBytes))
        let (found, runs) = try sorted(keys, memoryBytes: memoryBytes, disk)
        #expect(found == keys.sorted { $0.entry < $1.entry })
        // 32 bytes for the shortest, of which there are most, in two thirds of a third of the memory.
        #expect(runs >= count * 32 / 3 / memoryBytes)
        #expect((runs > 0) == (count > 2 && count * 264 > memoryBytes))
        #expect(disk.openDescriptorCount() == 0 && disk.names(in: "/data") == [])
    }

    @Test func noSpaceToSortIsAnError() throws {
        let disk = SimulatedDisk()
        disk.addFault(Fault(.failure(28), on: .write, occurrence: 3))
        #expect(throws: StoreError.self) { _ = try sorted(Self.keys(1000, seed: 1), memoryBytes: 6000, disk) }
        #expect(disk.openDescriptorCount() == 0)
    }

    @Test(arguments: [0, 1, 2, 15, 16, 17, 200, 5000], [1, 3, 50])
    func anIndexWrittenInPiecesIsTheSame(_ count: Int, _ nodesAtOnce: Int) throws {
        try writeInPieces(count, nodesAtOnce, .whole)
        try writeInPieces(count, nodesAtOnce, OrderedDeltaPolicy())
    }

    private func writeInPieces(_ count: Int, _ nodesAtOnce: Int, _ deltas: OrderedDeltaPolicy) throws {
        let entries = Self.keys(count, seed: UInt64(count)).map(\.entry).sorted()
        let nodes = MemoryNodes()
        var index = OrderedIndex(deltas)
        var most = 0
        for entry in entries {
            #expect(try index.insert(entry, nodes))
            most = max(most, index.dirtyBytes)
            if index.dirtyBytes >= 2 * nodesAtOnce * 4096 {
                let before = index.dirtyBytes
                try index.write(bytes: nodesAtOnce * 4096, to: nodes)
                let expected = before - nodesAtOnce * 4096
                // A delta has more memory than bytes in the file, or fewer, if it makes a leaf whole.
                #expect(deltas.mostEdits == 0 ? index.dirtyBytes == expected : index.dirtyBytes < before)
            }
        }
        #expect(most <= (2 * nodesAtOnce + 4) * 4096)
        while index.dirtyBytes > 0 {
            try index.write(bytes: nodesAtOnce * 4096, to: nodes)
        }
        #expect(index.dirtyBytes == 0 && index.entries == UInt64(count))
        #expect(try index.validated(nodes) == entries)
        // Full nodes: no more of them than where all keys come in order and nothing is written in between.
        var other = OrderedIndex(deltas)
        for entry in entries { try other.insert(entry, nodes) }
        #expect(nodes.offsets.count <= other.dirtyBytes / 4096 + (nodesAtOnce == 1 ? entries.count : 0))
        #expect(try other.list(nodes) == entries)
    }

    @Test func aCopyKeepsItsNodesWhenSomeAreWritten() throws {
        let nodes = MemoryNodes()
        var index = OrderedIndex()
        let entries = Self.keys(800, seed: 5).map(\.entry).sorted()
        for entry in entries { try index.insert(entry, nodes) }
        let copy = index
        try index.write(bytes: 7 * 4096, to: nodes)
        let more = IndexEntry([UInt8](repeating: 0xff, count: 30), 9000)
        try index.insert(more, nodes)
        #expect(try copy.list(nodes) == entries)
        #expect(try index.list(nodes) == entries + [more])
    }
}
