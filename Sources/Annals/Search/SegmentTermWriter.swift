// Writes the blocks of terms of a segment, and its directory, from lists in ascending order.

/// Takes lists in ascending order, with their postings in ascending order, and writes each block as soon as it is full.
struct SegmentTermWriter: ~Copyable {
    typealias Write = (UnsafeRawBufferPointer) throws(StoreError) -> Void

    private let positional: UInt64
    private var block = ByteWriter(capacity: PostingFormat.maximumBlockBytes)
    private var restarts: [UInt16] = []
    private var entryCount = 0
    /// The term of the last entry of the block.
    private var lastTerm = ByteWriter(capacity: PostingFormat.maximumTermBytes)

    private var term = ByteWriter(capacity: PostingFormat.maximumTermBytes)
    private var attribute = 0
    private var chunk = PostingChunk()
    /// The chunks of the entry, each after its size.
    private var chunks = ByteWriter(capacity: PostingFormat.maximumBlockBytes)
    private var chunkCount = 0
    private var objectCount = 0
    /// The last ordinal of the last chunk of the entry.
    private var lastOrdinal: UInt32 = 0

    private var directory = SegmentDirectoryWriter()
    private(set) var listCount: UInt64 = 0
    private(set) var termBlocks = 0
    private(set) var byteCount: UInt64 = 0

    /// - Parameter positional: The attributes whose positions are kept, as bits.
    init(positional: UInt64) { self.positional = positional }

    /// Begins a list. It is not written unless a posting follows.
    mutating func begin(term: UnsafeRawBufferPointer, attribute: Int) {
        assert(chunk.isEmpty && chunkCount == 0, "A list has not ended.")
        self.term.truncate()
        self.term.append(term)
        self.attribute = attribute
        chunk.keepsPositions = positional >> UInt64(attribute) & 1 == 1
    }

    /// Begins a posting. At least one position follows.
    @inline(__always)
    mutating func begin(ordinal: UInt32, _ write: Write) throws(StoreError) {
        if chunk.isFull { try endChunk(continues: false, write) }
        chunk.begin(ordinal)
        objectCount &+= 1
    }

    @inline(__always)
    mutating func append(position: UInt32, _ write: Write) throws(StoreError) {
        if chunk.hasAllPositions { try continueChunk(write) }
        chunk.append(position: position)
    }

    mutating func endList(_ write: Write) throws(StoreError) {
        if !chunk.isEmpty { try endChunk(continues: false, write) }
        guard chunkCount > 0 else { return }
        endEntry(continues: false)
        listCount += 1
    }

    /// Writes the last block of terms and the directory.
    mutating func finish(_ write: Write) throws(StoreError) -> (directoryBlocks: Int, byteCount: UInt64) {
        try endBlock(write)
        let (blocks, bytes) = try directory.finish(write)
        return (blocks, byteCount + bytes)
    }

    // MARK: Chunks

    @inline(never)
    private mutating func continueChunk(_ write: Write) throws(StoreError) {
        try endChunk(continues: true, write)
        chunk.beginRest()
    }

    @inline(never)
    private mutating func endChunk(continues: Bool, _ write: Write) throws(StoreError) {
        let encoded = chunk.encode(continues: continues)
        // The objects of the chunk are in `objectCount` already, but count for the entry of this chunk.
        let begun = chunk.begunCount
        if chunkCount > 0, !hasRoom(encoded.count) {
            objectCount -= begun
            endEntry(continues: true)
            objectCount = begun
            try endBlock(write)
        } else if entryCount > 0, !hasRoom(encoded.count) {
            try endBlock(write)
        }
        let first = Int(chunkCount == 0 ? chunk.first : chunk.first &- lastOrdinal)
        chunks.append(varint: ByteWriter.size(ofVarint: first) + encoded.count)
        chunks.append(varint: first)
        chunks.append(encoded)
        chunkCount += 1
        lastOrdinal = chunk.last
        chunk.clear()
    }

    /// Whether the block has room for the entry with another chunk. It may need less, but the answer depends only on
    /// the lists so far (SG1).
    private func hasRoom(_ chunkBytes: Int) -> Bool {
        let entry = 3 + term.count + 1 + 5 + 3 + chunks.count + 3 + 5 + chunkBytes
        let trailer = 2 * (restarts.count + 1) + 6
        return block.count + entry + trailer <= PostingFormat.maximumBlockBytes
    }

    // MARK: Entries

    private mutating func endEntry(continues: Bool) {
        let isRestart = entryCount % PostingFormat.entriesPerRestart == 0
        if isRestart { restarts.append(UInt16(block.count)) }
        if entryCount == 0 { directory.append(term.bytes, attribute) }
        let shared = isRestart ? 0 : Self.sharedPrefix(lastTerm.bytes, term.bytes)
        appendTerm(shared)
        let isLong = chunkCount > 1
        block.append(UInt8(attribute) | (continues ? 1 << 6 : 0) | (isLong ? 1 << 7 : 0))
        if isLong {
            block.append(varint: objectCount)
            block.append(varint: chunks.count)
        }
        block.append(chunks.bytes)
        entryCount += 1
        lastTerm.truncate()
        lastTerm.append(term.bytes)
        chunks.truncate()
        (chunkCount, objectCount, lastOrdinal) = (0, 0, 0)
    }

    private mutating func appendTerm(_ shared: Int) {
        let rest = term.count - shared
        block.append(UInt8(min(shared, 15) << 4 | min(rest, 15)))
        if shared >= 15 { block.append(UInt8(shared - 15)) }
        if rest >= 15 { block.append(UInt8(rest - 15)) }
        block.append(term.bytes.slice(shared, rest))
    }

    private static func sharedPrefix(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Int {
        let most = min(left.count, right.count)
        var shared = 0
        while shared < most, left[shared] == right[shared] { shared += 1 }
        return shared
    }

    // MARK: Blocks

    private mutating func endBlock(_ write: Write) throws(StoreError) {
        guard entryCount > 0 else { return }
        let end = block.count
        for offset in restarts { block.append(offset) }
        block.append(UInt32(end))
        block.append(UInt16(entryCount))
        assert(block.count <= PostingFormat.maximumBlockBytes && block.count - end >= 8, "SG2: a block is too large.")
        try write(block.bytes)
        byteCount += UInt64(block.count)
        termBlocks += 1
        block.truncate()
        restarts.removeAll(keepingCapacity: true)
        entryCount = 0
    }
}

/// Collects the first term of each block of terms. Its blocks are kept until the blocks of terms are written.
struct SegmentDirectoryWriter: ~Copyable {
    private var blocks = ByteWriter()
    private var ends: [Int] = []
    private var start = 0
    private var offsets: [UInt16] = []
    private var firstBlock = 0

    mutating func append(_ term: UnsafeRawBufferPointer, _ attribute: Int) {
        let size = blocks.count - start + 2 + term.count + 2 * (offsets.count + 1) + 6
        if size > PostingFormat.maximumBlockBytes { endBlock() }
        offsets.append(UInt16(blocks.count - start))
        blocks.append(UInt8(term.count))
        blocks.append(UInt8(attribute))
        blocks.append(term)
    }

    private mutating func endBlock() {
        guard !offsets.isEmpty else { return }
        for offset in offsets { blocks.append(offset) }
        blocks.append(UInt32(firstBlock))
        blocks.append(UInt16(offsets.count))
        firstBlock += offsets.count
        offsets.removeAll(keepingCapacity: true)
        start = blocks.count
        ends.append(start)
    }

    mutating func finish(_ write: SegmentTermWriter.Write) throws(StoreError) -> (blocks: Int, byteCount: UInt64) {
        endBlock()
        var from = 0
        for end in ends {
            assert(end - from <= PostingFormat.maximumBlockBytes, "SG2: a block of the directory is too large.")
            try write(blocks.bytes.slice(from, end - from))
            from = end
        }
        return (ends.count, UInt64(blocks.count))
    }
}
