// Nodes of ordered indexes kept in memory, in a file's stead, and what tests ask of indexes.

import Annals

/// Keeps what `writeDirtyNodes` hands out. Offsets begin at 4096 and never come twice.
///
/// Sound although it gives out pointers: bytes do not change once they are here, and live as long as this object.
final class MemoryNodes: NodeSource, Sendable {
    /// Addresses and sizes of nodes and deltas by their offsets.
    private let nodes = Guarded<[UInt64: (address: UInt, bytes: Int)]>([:])

    deinit {
        nodes.withLock {
            for node in $0.values { UnsafeMutableRawPointer(bitPattern: node.address)?.deallocate() }
        }
    }

    /// Those of nodes.
    var offsets: [UInt64] { nodes.withLock { $0.filter { $0.value.bytes == 4096 }.keys.sorted() } }
    /// Those of deltas.
    var deltaOffsets: [UInt64] { nodes.withLock { $0.filter { $0.value.bytes < 4096 }.keys.sorted() } }

    func node(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer {
        guard let node = nodes.withLock({ $0[offset] }), node.bytes == 4096 else {
            throw StoreError(.damaged, "F31: no node is here.", offset: offset)
        }
        return UnsafeRawBufferPointer(start: UnsafeRawPointer(bitPattern: node.address), count: node.bytes)
    }

    func delta(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer {
        guard let delta = nodes.withLock({ $0[offset] }), delta.bytes < 4096 else {
            throw StoreError(.damaged, "F31: no delta is here.", offset: offset)
        }
        return UnsafeRawBufferPointer(start: UnsafeRawPointer(bitPattern: delta.address), count: delta.bytes)
    }

    func add(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        precondition(bytes.count <= 4096 && bytes.count % 8 == 0, "This is no node, and no delta.")
        let node = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 8)
        node.copyMemory(from: bytes)
        let address = UInt(bitPattern: node.baseAddress)
        return nodes.withLock {
            let offset = UInt64(4096 + $0.count * 4104)
            $0[offset] = (address, bytes.count)
            return offset
        }
    }

    func add(_ bytes: [UInt8]) -> UInt64 { bytes.withUnsafeBytes { add($0) } }

    func bytes(at offset: UInt64) throws -> [UInt8] {
        Array(deltaOffsets.contains(offset) ? try delta(at: offset) : try node(at: offset))
    }
}

/// The same nodes, one of them with other bytes.
struct AlteredNodes: NodeSource {
    let nodes: MemoryNodes
    let offset: UInt64
    let bytes: UnsafeRawBufferPointer

    func node(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer {
        offset == self.offset ? bytes : try nodes.node(at: offset)
    }

    /// As long as its header says, as a file's; the header alone if the bytes end before.
    func delta(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer {
        guard offset == self.offset else { return try nodes.delta(at: offset) }
        let count = Int(bytes.loadUnaligned(fromByteOffset: OrderedDeltaField.bytes, as: UInt16.self))
        return UnsafeRawBufferPointer(rebasing: bytes.prefix(count <= bytes.count ? count : OrderedDeltaField.slots))
    }
}

/// The same nodes on a disk that does not read deltas now.
struct UnreadableNodes: NodeSource {
    let nodes: MemoryNodes

    func node(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer { try nodes.node(at: offset) }

    func delta(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer {
        throw StoreError(.inputOutput, "This read fails.", offset: offset)
    }
}

struct IndexEntry: Hashable, Comparable, CustomStringConvertible {
    var key: [UInt8]
    var object: ObjectID

    init(_ key: [UInt8], _ object: ObjectID) {
        self.key = key
        self.object = object
    }

    init(_ key: [UInt8], _ number: UInt64) { self.init(key, Samples.object(number)) }

    static func < (left: IndexEntry, right: IndexEntry) -> Bool {
        left.key == right.key ? left.object < right.object : left.key.lexicographicallyPrecedes(right.key)
    }

    var description: String { "\(key):\(object.number)" }
}

extension OrderedDeltaPolicy {
    /// No deltas: every changed leaf is whole.
    static var whole: OrderedDeltaPolicy {
        var policy = OrderedDeltaPolicy()
        policy.mostEdits = 0
        return policy
    }

    /// Limits that a few changes reach.
    static var lowered: OrderedDeltaPolicy {
        var policy = OrderedDeltaPolicy()
        (policy.mostEdits, policy.mostInFile) = (6, 320)
        return policy
    }
}

extension OrderedIndex {
    init() { self.init(OrderedDeltaPolicy()) }
    init(root: UInt64, entries: UInt64) { self.init(root: root, entries: entries, OrderedDeltaPolicy()) }

    @discardableResult
    mutating func insert(_ entry: IndexEntry, _ nodes: any NodeSource) throws -> Bool {
        try entry.key.withUnsafeBytes { (key) throws in try insert(key, entry.object, nodes) }
    }

    @discardableResult
    mutating func remove(_ entry: IndexEntry, _ nodes: any NodeSource) throws -> Bool {
        try entry.key.withUnsafeBytes { (key) throws in try remove(key, entry.object, nodes) }
    }

    func list(reversed: Bool = false, _ nodes: any NodeSource) throws -> [IndexEntry] {
        try list(.unbounded, .unbounded, reversed: reversed, nodes)
    }

    func list(
        _ from: IndexBound, _ to: IndexBound, reversed: Bool = false,
        limit: Int = .max, _ nodes: any NodeSource
    ) throws -> [IndexEntry] {
        var entries: [IndexEntry] = []
        try forEach(from: from, to: to, reversed: reversed, nodes) { (key, object) throws(StoreError) in
            entries.append(IndexEntry(Array(key), object))
            return entries.count < limit
        }
        return entries
    }

    func first(_ key: [UInt8], _ nodes: any NodeSource) throws -> ObjectID? {
        try key.withUnsafeBytes { (key) throws in try first(key, nodes) }
    }

    @discardableResult
    mutating func write(to nodes: MemoryNodes) throws -> UInt64 {
        try writeDirtyNodes(nodes) { (bytes) throws(StoreError) in nodes.add(bytes) }
    }

    mutating func write(bytes limit: Int, to nodes: MemoryNodes) throws {
        try writeNodes(ofBytes: limit, nodes) { (bytes) throws(StoreError) in nodes.add(bytes) }
    }

    /// What the checker finds, in order.
    func validated(_ nodes: any NodeSource) throws -> [IndexEntry] {
        var entries: [IndexEntry] = []
        try validate(nodes) { (key, object) throws(StoreError) in entries.append(IndexEntry(Array(key), object)) }
        return entries
    }
}
