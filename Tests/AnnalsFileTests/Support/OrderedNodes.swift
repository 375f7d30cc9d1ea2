// Nodes of ordered indexes kept in memory, in a file's stead, and what tests ask of indexes.

import Annals

/// Keeps what `writeDirtyNodes` hands out. Offsets begin at 4096 and never come twice.
///
/// Sound although it gives out pointers: bytes do not change once they are here, and live as long as this object.
final class MemoryNodes: NodeSource, Sendable {
    /// Addresses of nodes by their offsets.
    private let nodes = Guarded<[UInt64: UInt]>([:])

    deinit {
        nodes.withLock { for address in $0.values { UnsafeMutableRawPointer(bitPattern: address)?.deallocate() } }
    }

    var offsets: [UInt64] { nodes.withLock { $0.keys.sorted() } }

    func node(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer {
        guard let address = nodes.withLock({ $0[offset] }) else {
            throw StoreError(.damaged, "F31: no node stands here.", offset: offset)
        }
        return UnsafeRawBufferPointer(start: UnsafeRawPointer(bitPattern: address), count: 4096)
    }

    func add(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        precondition(bytes.count == 4096, "A node has 4096 bytes.")
        let node = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 8)
        node.copyMemory(from: bytes)
        let address = UInt(bitPattern: node.baseAddress)
        return nodes.withLock {
            let offset = UInt64(4096 + $0.count * 4104)
            $0[offset] = address
            return offset
        }
    }

    func add(_ bytes: [UInt8]) -> UInt64 { bytes.withUnsafeBytes { add($0) } }

    func bytes(at offset: UInt64) throws -> [UInt8] { Array(try node(at: offset)) }
}

/// The same nodes, one of them with other bytes.
struct AlteredNodes: NodeSource {
    let nodes: MemoryNodes
    let offset: UInt64
    let bytes: UnsafeRawBufferPointer

    func node(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer {
        offset == self.offset ? bytes : try nodes.node(at: offset)
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

extension OrderedIndex {
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
        try writeDirtyNodes { (bytes) throws(StoreError) in nodes.add(bytes) }
    }

    /// What the checker finds, in order.
    func validated(_ nodes: any NodeSource) throws -> [IndexEntry] {
        var entries: [IndexEntry] = []
        try validate(nodes) { (key, object) throws(StoreError) in entries.append(IndexEntry(Array(key), object)) }
        return entries
    }
}
