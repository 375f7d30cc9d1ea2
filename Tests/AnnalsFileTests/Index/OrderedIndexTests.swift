// What an ordered index is made of, node by node, and what a range of it holds.

import Annals
import TestSupport
import Testing

@Suite struct OrderedIndexTests {
    let nodes = MemoryNodes()

    // MARK: The form of nodes

    @Test func leafHasTheBytesOfItsTable() throws {
        var index = OrderedIndex()
        // Inserted out of order, one removed again: nothing of that is to be seen.
        for entry in [IndexEntry([7, 8, 9, 10, 11, 12], 2), IndexEntry([7, 8], 9), IndexEntry([7, 8, 1], 1)] {
            #expect(try index.insert(entry, nodes))
        }
        #expect(try index.insert(IndexEntry([7, 8, 9, 10, 11, 12], 1), nodes))
        #expect(try index.remove(IndexEntry([7, 8], 9), nodes))
        let node = try nodes.bytes(at: index.write(to: nodes))

        var expected = [UInt8](repeating: 0, count: 4096)
        func put(_ bytes: [UInt8], _ offset: Int) {
            expected.replaceSubrange(offset..<offset + bytes.count, with: bytes)
        }
        let entries = 11 + 14 + 14
        put([0, 0, 3, 0, UInt8(entries), 0, UInt8((4096 - entries) & 0xff), UInt8((4096 - entries) >> 8), 2], 0)
        put([1, 0, 0, 0] + half(4096 - 11) + [3, 0], 16)
        put([9, 10, 11, 12] + half(4096 - 25) + [6, 0], 24)
        put([9, 10, 11, 12] + half(4096 - 39) + [6, 0], 32)
        put([1, 0, 0, 0, 0, 0, 1, 0, 7, 8, 1], 4096 - 11)
        put([1, 0, 0, 0, 0, 0, 1, 0, 7, 8, 9, 10, 11, 12], 4096 - 25)
        put([2, 0, 0, 0, 0, 0, 1, 0, 7, 8, 9, 10, 11, 12], 4096 - 39)
        #expect(node == expected)
    }

    private func half(_ value: Int) -> [UInt8] { [UInt8(value & 0xff), UInt8(value >> 8)] }

    @Test func innerNodeSeparatesByTheShortestKeys() throws {
        var index = OrderedIndex()
        // 15 of these fill a leaf. Two leaves, cut after the last of the first one.
        let keys = (0..<16).map { [UInt8](repeating: 5, count: 100) + [UInt8($0)] + [UInt8](repeating: 1, count: 145) }
        for (number, key) in keys.enumerated() { try index.insert(IndexEntry(key, UInt64(number + 1)), nodes) }
        #expect(index.dirtyBytes == 3 * 4096)
        let root = try nodes.bytes(at: index.write(to: nodes))
        #expect(nodes.offsets == [4096, 8200, 12304])
        let (level, count) = (root[OrderedNodeField.level], root[OrderedNodeField.count])
        #expect(level == 1 && count == 2)
        #expect(root[OrderedNodeField.prefixBytes] == 101)
        let separatorBytes = root[OrderedNodeField.bytes + OrderedSlotField.bytes + OrderedSlotField.keyBytes]
        #expect(separatorBytes == 101)
        let first = Array(root[(4096 - 16)...])
        #expect(first == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0])
        let second = Array(root[(4096 - 16 - 117)..<(4096 - 16)])
        #expect(second == [0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0x20, 0, 0, 0, 0, 0, 0] + keys[15].prefix(101))
        #expect(try index.validated(nodes).map(\.key) == keys)
    }

    @Test func equalKeysAreSeparatedByTheirObjects() throws {
        var random = SeededRandom(11)
        var index = OrderedIndex()
        let entries = (1...2000).map { IndexEntry([1, 1], UInt64($0)) }
        for entry in entries.shuffled(using: &random) { try index.insert(entry, nodes) }
        #expect(try index.list(nodes) == entries)
        try index.write(to: nodes)
        #expect(try index.validated(nodes) == entries)
        #expect(try index.first([1, 1], nodes) == Samples.object(1))
        #expect(try index.first([1], nodes) == nil)
        for entry in entries.shuffled(using: &random) { #expect(try index.remove(entry, nodes)) }
        #expect(index.isEmpty)
    }

    @Test func ascendingKeysFillTheirNodes() throws {
        var index = OrderedIndex()
        for number in 1...20_000 as ClosedRange<UInt64> { try index.insert(IndexEntry(key(number), number), nodes) }
        let entriesInLeaf = (4096 - 16) / (8 + 8 + 9)
        let leaves = (20_000 + entriesInLeaf - 1) / entriesInLeaf
        #expect(index.dirtyBytes <= (leaves + 3) * 4096)
        #expect(try index.validated(nodes).count == 20_000)
    }

    // MARK: Growing and shrinking

    @Test func emptyIndexHasNothing() throws {
        var index = OrderedIndex()
        #expect(index.isEmpty && index.entries == 0 && index.dirtyBytes == 0)
        #expect(try index.list(nodes) == [])
        #expect(try index.list(reversed: true, nodes) == [])
        #expect(try index.first([1], nodes) == nil)
        #expect(try index.remove(IndexEntry([1], 1), nodes) == false)
        #expect(try index.validated(nodes) == [])
        #expect(try index.write(to: nodes) == 0)
        #expect(nodes.offsets == [])
    }

    @Test func anEntryIsStoredOnce() throws {
        var index = OrderedIndex()
        #expect(try index.insert(IndexEntry([], 1), nodes))
        #expect(try index.insert(IndexEntry([], 1), nodes) == false)
        #expect(try index.insert(IndexEntry([], 2), nodes))
        #expect(index.entries == 2)
        #expect(try index.remove(IndexEntry([], 3), nodes) == false)
        #expect(try index.remove(IndexEntry([], 1), nodes))
        #expect(try index.list(nodes) == [IndexEntry([], 2)])
        #expect(index.entries == 1)
    }

    /// In every order of removal, the last entry leaves nothing after, and the last leaf is the root.
    @Test(arguments: [0, 1, 2]) func emptyNodesAreDropped(_ order: Int) throws {
        var random = SeededRandom(11)
        var index = OrderedIndex()
        var entries = (1...5000).map { IndexEntry(key(UInt64($0)), UInt64($0)) }
        for entry in entries { try index.insert(entry, nodes) }
        try index.write(to: nodes)
        #expect(index.dirtyBytes == 0)
        if order == 1 { entries.reverse() }
        if order == 2 { entries.shuffle(using: &random) }
        for (removed, entry) in entries.enumerated() {
            #expect(try index.remove(entry, nodes))
            if removed % 500 == 0 { #expect(try index.validated(nodes) == entries[(removed + 1)...].sorted()) }
            if removed == entries.count - 2, order < 2 { #expect(index.dirtyBytes == 4096) }
        }
        #expect(index.isEmpty && index.dirtyBytes == 0 && index.entries == 0)
    }

    @Test func aFailedWriteLeavesTheIndexUnchanged() throws {
        var index = OrderedIndex()
        for number in 1...2000 as ClosedRange<UInt64> { try index.insert(IndexEntry(key(number), number), nodes) }
        let before = index.dirtyBytes
        var written = 0
        do throws(StoreError) {
            _ = try index.writeDirtyNodes(nodes) { (bytes) throws(StoreError) in
                written += 1
                if written == 5 { throw StoreError(.noSpace, "Full.") }
                return nodes.add(bytes)
            }
            Issue.record("nothing was thrown")
        } catch {
            #expect(error.code == .noSpace)
        }
        #expect(index.dirtyBytes == before)
        try index.write(to: nodes)
        #expect(index.dirtyBytes == 0)
        #expect(try index.validated(nodes).count == 2000)
    }

    /// Only what changed is written again: the leaf and what is above it.
    @Test func onlyTheChangedPathIsWritten() throws {
        var index = OrderedIndex()
        for number in 1...50_000 as ClosedRange<UInt64> { try index.insert(IndexEntry(key(number), number), nodes) }
        let root = try index.write(to: nodes)
        let before = nodes.offsets.count
        #expect(try index.insert(IndexEntry(key(777), 888), nodes))
        #expect(index.dirtyBytes == 3 * 4096 || index.dirtyBytes == 4 * 4096)
        let next = try index.write(to: nodes)
        #expect(nodes.offsets.count - before <= 4)
        let old = OrderedIndex(root: root, entries: 50_000)
        #expect(try old.validated(nodes).count == 50_000)
        #expect(try OrderedIndex(root: next, entries: 50_001).validated(nodes).count == 50_001)
    }

    // MARK: Ranges

    /// Components of one byte: 3 x 3 compound keys, two objects each, and what each bound means.
    @Test func rangesContainTheEntriesWithinTheirBounds() throws {
        var random = SeededRandom(11)
        var index = OrderedIndex()
        var all: [IndexEntry] = []
        for a in [1, 3, 5] as [UInt8] {
            for b in [1, 3, 5] as [UInt8] { all += [IndexEntry([a, b], 1), IndexEntry([a, b], 2)] }
        }
        for entry in all.shuffled(using: &random) { try index.insert(entry, nodes) }
        let bounds: [(IndexBound, (IndexEntry) -> Bool, (IndexEntry) -> Bool)] = Self.bounds.map { bound in
            (bound, { Self.isAllowed($0, from: bound) }, { Self.isAllowed($0, to: bound) })
        }
        for (from, isFrom, _) in bounds {
            for (to, _, isTo) in bounds {
                let expected = all.filter { isFrom($0) && isTo($0) }
                #expect(try index.list(from, to, nodes) == expected, "\(from) \(to)")
                #expect(try index.list(from, to, reversed: true, nodes) == expected.reversed(), "\(from) \(to)")
                if !expected.isEmpty {
                    #expect(try index.list(from, to, limit: 1, nodes) == [expected[0]])
                    #expect(try index.list(from, to, reversed: true, limit: 1, nodes) == [expected.last!])
                }
            }
        }
    }

    private static let bounds: [IndexBound] = {
        var bounds: [IndexBound] = [.unbounded, .including([]), .excluding([])]
        for a in 0...6 as ClosedRange<UInt8> {
            bounds += [.including([a]), .excluding([a])]
            for b in 0...6 as ClosedRange<UInt8> where a % 2 == 1 || b == 3 {
                bounds += [.including([a, b]), .excluding([a, b])]
                bounds += (1...3).map { .beside(key: [a, b], Samples.object($0)) }
            }
        }
        return bounds + [.including([3, 3, 0]), .excluding([3, 3, 0])]
    }()

    static func isAllowed(_ entry: IndexEntry, from bound: IndexBound) -> Bool {
        switch bound {
        case .unbounded: true
        case .including(let key): !entry.key.lexicographicallyPrecedes(key)
        case .excluding(let key): !entry.key.lexicographicallyPrecedes(key) && !entry.key.starts(with: key)
        case .beside(let key, let object): IndexEntry(key, object) < entry
        }
    }

    static func isAllowed(_ entry: IndexEntry, to bound: IndexBound) -> Bool {
        switch bound {
        case .unbounded: true
        case .including(let key): entry.key.lexicographicallyPrecedes(key) || entry.key.starts(with: key)
        case .excluding(let key): entry.key.lexicographicallyPrecedes(key)
        case .beside(let key, let object): entry < IndexEntry(key, object)
        }
    }

    @Test(arguments: [false, true]) func batchesAddUpToTheRange(_ isReversed: Bool) throws {
        var index = OrderedIndex()
        for number in 1...3000 as ClosedRange<UInt64> { try index.insert(IndexEntry(key(number / 7), number), nodes) }
        let from = IndexBound.excluding(key(10))
        let to = IndexBound.including(key(400))
        let expected = try index.list(from, to, reversed: isReversed, nodes).map(\.object)
        #expect(expected.count == 390 * 7)
        for limit in [1, 7, 100, 389, 10_000] {
            var objects: [ObjectID] = []
            var next: IndexBound? = isReversed ? to : from
            while let bound = next {
                let before = objects.count
                next = try index.collect(
                    from: isReversed ? from : bound, to: isReversed ? bound : to, reversed: isReversed, limit: limit,
                    into: &objects, nodes)
                #expect(objects.count - before <= limit)
            }
            #expect(objects == expected)
        }
    }

    // MARK: Helpers

    private func key(_ number: UInt64) -> [UInt8] {
        var writer = ByteWriter()
        OrderedKey.append(object: number, to: &writer)
        return Array(writer.bytes)
    }
}
