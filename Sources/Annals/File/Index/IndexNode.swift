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

    package func delta(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer {
        let head = try bytes(at: offset, count: OrderedDeltaField.slots)
        guard let count = OrderedDeltaView.bytes(head) else { return head }
        return try bytes(at: offset, count: count)
    }
}

/// A word of an inner node or a root: nothing, or a node or delta, in memory or in the file.
package struct NodeReference: Equatable, Sendable {
    package var word: UInt64

    static let none = NodeReference(word: 0)

    @inline(__always)
    package init(word: UInt64) { self.word = word }
    /// Memory is aligned to more than 4 bytes, and so are nodes in the file: the lowest two bits are free.
    init(memory: UnsafeMutableRawPointer) {
        assert(UInt(bitPattern: memory) & 7 == 0, "The address of a node has its lowest bits set.")
        word = UInt64(UInt(bitPattern: memory)) | 1
    }
    init(delta memory: UnsafeMutableRawPointer) {
        assert(UInt(bitPattern: memory) & 7 == 0, "The address of a delta has its lowest bits set.")
        word = UInt64(UInt(bitPattern: memory)) | 3
    }
    package init(offset: UInt64, isDelta: Bool = false) {
        assert(offset & 7 == 0, "X4: an offset could be taken for an address.")
        word = offset | (isDelta ? 2 : 0)
    }

    @inline(__always)
    package var isNone: Bool { word == 0 }
    /// Whether it is a delta: only at the place of a leaf that is below another node.
    @inline(__always)
    package var isDelta: Bool { word & 2 != 0 }

    @inline(__always)
    package var memory: UnsafeMutableRawPointer? {
        word & 1 == 0 ? nil : UnsafeMutableRawPointer(bitPattern: UInt(word & ~7))
    }

    /// Of a node or delta in the file.
    @inline(__always)
    package var offset: UInt64 { word & ~7 }

    /// The size of its memory.
    var memoryBytes: Int {
        guard let memory else { return 0 }
        return isDelta ? LeafChanges(memory).bytes : IndexNode.bytes
    }
}
