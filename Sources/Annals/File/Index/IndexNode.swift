// The nodes of indexes as they are stored in the file, and their references to each other.

/// The node size, which is the same in all indexes.
package enum IndexNode {
    package static let bytes = 4096
    /// The number of words in a node of the row index: references to lower nodes, or in a leaf to row versions.
    package static let words = 512
    static let bits: UInt64 = 9
    /// Object numbers have 48 bits.
    static let maximumDepth: UInt64 = 6
}

extension VerifiedFile: NodeSource {
    @inline(__always)
    package func node(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer {
        try bytes(at: offset, count: IndexNode.bytes)
    }
}

/// A word of an inner node or a root: no node, a node in memory, or a node in the file.
struct NodeReference: Equatable {
    var word: UInt64

    static let none = NodeReference(word: 0)

    init(word: UInt64) { self.word = word }
    /// Memory is aligned to more than 2 bytes, and so are nodes in the file: the lowest bit is free.
    init(memory: UnsafeMutableRawPointer) {
        assert(UInt(bitPattern: memory) & 7 == 0, "The address of a node has its lowest bits set.")
        word = UInt64(UInt(bitPattern: memory)) | 1
    }
    init(offset: UInt64) {
        assert(offset & 7 == 0, "X4: an offset could be taken for an address.")
        word = offset
    }

    var isNone: Bool { word == 0 }

    @inline(__always)
    var memory: UnsafeMutableRawPointer? {
        word & 1 == 0 ? nil : UnsafeMutableRawPointer(bitPattern: UInt(word & ~1))
    }

    /// The size of its memory.
    var memoryBytes: Int { word & 1 == 0 ? 0 : IndexNode.bytes }
}
