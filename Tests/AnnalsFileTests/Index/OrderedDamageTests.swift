// Nodes with wrong bytes: an error or a wrong answer, never a crash, and always an end.

import Annals
import TestSupport
import Testing

@Suite struct OrderedDamageTests {
    private let nodes = MemoryNodes()
    private let index: OrderedIndex
    private var root: UInt64 = 0
    private let entries: [IndexEntry]

    /// Offsets of a root, of two deltas, one over the other, and of the leaf below.
    private let places: [UInt64]

    /// A root, some leaves with deltas, keys of several sizes.
    init() throws {
        var index = OrderedIndex()
        var random = SeededRandom(9)
        var entries = (0..<260).map { number in
            IndexEntry(Self.key(random.next() % 2000, Int(random.next() % 30)), UInt64(number + 1))
        }
        for entry in entries { try index.insert(entry, nodes) }
        try index.write(to: nodes)
        // The second delta of each leaf is too small to take up the first one.
        for (first, last) in [(0, 30), (30, 33)] {
            for number in first..<last {
                try index.remove(entries[number], nodes)
                let key = Self.key(random.next() % 2000, number % 30)
                entries[number] = IndexEntry(key, UInt64(number + 1001))
                try index.insert(entries[number], nodes)
            }
            root = try index.write(to: nodes)
        }
        self.entries = entries.sorted()
        self.index = index
        let nodes = nodes
        let bases = try nodes.deltaOffsets.map { try nodes.delta(at: $0).loadUnaligned(as: UInt64.self) }
        let upper = try #require(bases.lastIndex { $0 & 2 != 0 })
        let lower = try #require(nodes.deltaOffsets.firstIndex(of: bases[upper] & ~7))
        places = [root, nodes.deltaOffsets[upper], nodes.deltaOffsets[lower], bases[lower]]
    }

    private static func key(_ number: UInt64, _ rest: Int) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { [1] + $0 } + [UInt8](repeating: 3, count: rest)
    }

    @Test(arguments: [0x01, 0x80, 0xff] as [UInt8]) func flippedBytesNeverTrap(_ mask: UInt8) throws {
        var (refused, all) = (0, 0)
        for offset in places {
            var bytes = try nodes.bytes(at: offset)
            all += bytes.count
            for position in bytes.indices {
                bytes[position] ^= mask
                bytes.withUnsafeBytes { altered in
                    let source = AlteredNodes(nodes: nodes, offset: offset, bytes: altered)
                    if !exercise(index, source, changes: position % 16 == 0 ? 300 : 3) { refused += 1 }
                }
                bytes[position] ^= mask
            }
        }
        // Most bytes have but one value; a key may end differently, or name another object.
        #expect(refused > all / 4 * 3)
    }

    @Test(arguments: [1, 2, 3] as [UInt64]) func randomBytesNeverTrap(_ seed: UInt64) throws {
        var random = SeededRandom(seed)
        for round in 0..<300 {
            for offset in places {
                var bytes = try nodes.bytes(at: offset)
                // The header plausible, the slots or all of the rest at random.
                let range = (round % 3 == 0 ? 16..<4096 : round % 3 == 1 ? 16..<400 : 0..<16)
                    .clamped(to: 0..<bytes.count)
                for position in range where random.next() % 3 != 0 { bytes[position] = UInt8(random.next() % 256) }
                bytes.withUnsafeBytes { altered in
                    let source = AlteredNodes(nodes: nodes, offset: offset, bytes: altered)
                    _ = exercise(index, source, changes: 20)
                }
            }
        }
    }

    /// One place of the disk that cannot be read must not stop all checkpoints, and costs nothing once it can be read.
    @Test func aDeltaThatCannotBeReadStopsNoCheckpoint() throws {
        var changed = index
        for entry in entries.prefix(3) { try changed.remove(entry, nodes) }
        let expected = try changed.list(nodes)
        let source = UnreadableNodes(nodes: nodes)
        let error = #expect(throws: StoreError.self) { try changed.list(source) }
        #expect(error?.code == .inputOutput)
        _ = try changed.writeDirtyNodes(source) { (bytes) throws(StoreError) in nodes.add(bytes) }
        #expect(changed.dirtyBytes == 0)
        #expect(try changed.validated(nodes) == expected)
    }

    /// Everything an index can be asked. Returns whether the checker finds nothing. Changes are made in copies.
    private func exercise(_ index: OrderedIndex, _ source: any NodeSource, changes: Int) -> Bool {
        func damage(_ body: () throws -> Void) -> Bool {
            do { try body() } catch {
                let error = error as? StoreError
                if error?.code != .damaged || error?.rule != "F31" { Issue.record("\(String(describing: error))") }
                return true
            }
            return false
        }
        var isDamaged = damage { _ = try index.validated(source) }
        var read = 0
        for isReversed in [false, true] {
            let isFound = damage { read = try index.list(reversed: isReversed, source).count }
            if !isDamaged, isFound || read != entries.count {
                Issue.record("the checker missed what a reader met")
                isDamaged = true
            }
        }
        _ = damage { _ = try index.first(entries[17].key, source) }
        _ = damage { _ = try index.list(.excluding(entries[40].key), .including(entries[90].key), source) }
        var changed = index
        for change in 0..<changes {
            let entry = entries[change * 37 % entries.count]
            _ = damage { try changed.remove(entry, source) }
            _ = damage { try changed.insert(IndexEntry(entry.key + [UInt8(change & 0xff)], entry.object), source) }
        }
        let target = MemoryNodes()
        _ = damage { try changed.write(to: target) }
        return !isDamaged
    }

    // MARK: Forged trees

    private func node(level: UInt16, children: [UInt64]) -> [UInt8] {
        var node = [UInt8](repeating: 0, count: 4096)
        func put<Integer: FixedWidthInteger>(_ value: Integer, _ offset: Int) {
            withUnsafeBytes(of: value.littleEndian) { node.replaceSubrange(offset..<offset + $0.count, with: $0) }
        }
        put(level, OrderedNodeField.level)
        put(UInt16(children.count), OrderedNodeField.count)
        var lowest = 4096
        for (index, child) in children.enumerated() {
            let key = index == 0 ? [] : [UInt8(index)]
            lowest -= OrderedEntryField.innerBytes + key.count
            let slot = OrderedNodeField.bytes + index * OrderedSlotField.bytes
            if let byte = key.first { node[slot] = byte }
            put(UInt16(lowest), slot + OrderedSlotField.entry)
            put(UInt16(key.count), slot + OrderedSlotField.keyBytes)
            put(child, lowest + OrderedEntryField.child)
            if let byte = key.first { node[lowest + OrderedEntryField.innerBytes] = byte }
        }
        put(UInt16(4096 - lowest), OrderedNodeField.entryBytes)
        put(UInt16(lowest), OrderedNodeField.lowestEntry)
        return node
    }

    /// Twenty levels of nodes whose hundred children are all the same: 100 to the 19th paths.
    @Test func sharedChildrenEndTheWalk() throws {
        var child = nodes.offsets[0]
        for level in 1...19 as ClosedRange<UInt16> {
            child = nodes.add(node(level: level, children: Array(repeating: child, count: 100)))
        }
        let forged = OrderedIndex(root: child, entries: 1)
        #expect(code { _ = try forged.validated(nodes) } == .damaged)
        #expect(code { _ = try forged.list(nodes) } == .damaged)
        #expect(code { _ = try forged.list(reversed: true, nodes) } == .damaged)
        var changed = forged
        for number in 0..<200 as Range<UInt64> {
            _ = code { try changed.insert(IndexEntry([UInt8(number % 120)] + Self.key(number, 200), 1), nodes) }
        }
        #expect(code { _ = try changed.list(nodes) } == .damaged)
    }

    @Test func nodesAtWrongPlacesAreDamaged() throws {
        let leaf = nodes.offsets[0]
        let table: [(String, [UInt8])] = [
            ("its own child", node(level: 1, children: [UInt64(4096 + nodes.offsets.count * 4104)])),
            ("a leaf two levels below", node(level: 2, children: [leaf])),
            ("too high", node(level: 20, children: [leaf])),
            ("no children", node(level: 1, children: [])),
            ("an address", node(level: 1, children: [leaf | 1])),
            ("an odd offset", node(level: 1, children: [leaf + 4])),
            ("offset 0", node(level: 1, children: [0])),
            ("nothing there", node(level: 1, children: [1 << 40])),
            ("an empty leaf", node(level: 0, children: [])),
        ]
        for (name, bytes) in table {
            let forged = OrderedIndex(root: nodes.add(bytes), entries: 1)
            #expect(code { _ = try forged.validated(nodes) } == .damaged, "\(name)")
            #expect(code { _ = try forged.list(nodes) } == .damaged, "\(name)")
            #expect(code { _ = try forged.first([1], nodes) } == .damaged, "\(name)")
            var changed = forged
            #expect(code { try changed.insert(IndexEntry([1], 1), nodes) } == .damaged, "\(name)")
            #expect(code { try changed.remove(IndexEntry([1], 1), nodes) } == .damaged, "\(name)")
        }
        #expect(code { _ = try OrderedIndex(root: root, entries: 1).validated(nodes) } == .damaged)
        #expect(code { _ = try OrderedIndex(root: 4, entries: 1).list(nodes) } == .damaged)
        let short = [UInt8](repeating: 0, count: 4095)
        short.withUnsafeBytes { bytes in
            let source = AlteredNodes(nodes: nodes, offset: root, bytes: bytes)
            #expect(code { _ = try index.list(source) } == .damaged)
        }
    }

    /// The highest tree there may be, full to the top: it refuses to become higher, and stays what it was.
    @Test func treeDoesNotBecomeHigherThanAllowed() throws {
        var children: [UInt64] = []
        for number in 0..<200 as Range<UInt64> {
            var leaf = OrderedIndex()
            let key = number == 0 ? [] : [UInt8(number)]
            try leaf.insert(IndexEntry(key, number + 1), nodes)
            var child = try leaf.write(to: nodes)
            for level in 1...18 as ClosedRange<UInt16> { child = nodes.add(node(level: level, children: [child])) }
            children.append(child)
        }
        children.removeLast(200 - (4096 - 16) / 25)
        let root = nodes.add(node(level: 19, children: children))
        var high = OrderedIndex(root: root, entries: UInt64(children.count))
        let before = try high.validated(nodes)
        #expect(code { try high.insert(IndexEntry([1, 1], 1), nodes) } == .tooLarge)
        #expect(try high.list(nodes) == before)
        #expect(try high.remove(before[3], nodes))
        #expect(try high.list(nodes).count == before.count - 1)
    }
}
