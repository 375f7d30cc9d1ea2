// Reads a segment from its blocks, which it loads when it needs them.

/// The objects and the lists of one segment. For one thread at a time.
///
/// The bytes may be damaged in any way: reading throws `damaged`, and takes a time that depends on their size.
///
/// Sound because the owner of the blocks keeps their bytes unchanged while the reader, its lists or iterators are used.
package final class SegmentReader {
    package let descriptor: SegmentDescriptor
    private let load: (Int) throws(StoreError) -> UnsafeRawBufferPointer
    private var termBlocks: [Int: SegmentTermBlock] = [:]
    private var recordBlocks: [Int: UnsafeRawBufferPointer] = [:]
    private var directories: [Int: SegmentDirectory] = [:]
    /// The last used block of records, because most readers ask for the records of ascending ordinals.
    private var lastRecordBlock: (index: Int, bytes: UnsafeRawBufferPointer)?
    let recordBytes: Int
    let recordsPerBlock: Int
    let objectBlocks: Int

    /// `block` returns the bytes of a block by its number. They stay valid while the reader is used.
    package init(
        _ descriptor: SegmentDescriptor, block: @escaping (Int) throws(StoreError) -> UnsafeRawBufferPointer
    ) {
        self.descriptor = descriptor
        load = block
        recordBytes = descriptor.recordBytes
        recordsPerBlock = descriptor.recordsPerBlock
        objectBlocks = descriptor.objectBlocks
    }

    // MARK: Blocks

    func block(_ index: Int) throws(StoreError) -> UnsafeRawBufferPointer {
        let bytes = try load(index)
        guard bytes.count <= PostingFormat.maximumBlockBytes else {
            throw PostingFormat.damaged("a block is too large.")
        }
        return bytes
    }

    /// A block of records, with all records that belong to it.
    @inline(__always)
    func recordBlock(_ index: Int) throws(StoreError) -> UnsafeRawBufferPointer {
        if let last = lastRecordBlock, last.index == index { return last.bytes }
        return try otherRecordBlock(index)
    }

    @inline(never)
    private func otherRecordBlock(_ index: Int) throws(StoreError) -> UnsafeRawBufferPointer {
        var bytes = recordBlocks[index]
        if bytes == nil {
            let loaded = try block(index)
            let records = min(recordsPerBlock, descriptor.objectCount - index * recordsPerBlock)
            guard loaded.count == records * recordBytes else {
                throw PostingFormat.damaged("a block of records has another size.")
            }
            recordBlocks[index] = loaded
            bytes = loaded
        }
        guard let bytes else { preconditionFailure("A loaded block is missing.") }
        lastRecordBlock = (index, bytes)
        return bytes
    }

    /// A block of terms by its number among them.
    func termBlock(_ index: Int) throws(StoreError) -> SegmentTermBlock {
        if let block = termBlocks[index] { return block }
        guard index < descriptor.termBlocks else { throw PostingFormat.damaged("a list does not end.") }
        let block = try SegmentTermBlock(index, block(objectBlocks + index))
        termBlocks[index] = block
        return block
    }

    func directory(_ index: Int) throws(StoreError) -> SegmentDirectory {
        if let directory = directories[index] { return directory }
        let bytes = try block(objectBlocks + descriptor.termBlocks + index)
        let directory = try SegmentDirectory(bytes, termBlocks: descriptor.termBlocks)
        directories[index] = directory
        return directory
    }

    // MARK: Lists

    /// Calls `body` with each list of a term, or of all terms with a prefix, in ascending order of terms and
    /// attributes, until it returns false. The term is valid until `body` returns.
    package func forEachList(
        of pattern: UnsafeRawBufferPointer, isPrefix: Bool,
        _ body: (_ term: UnsafeRawBufferPointer, _ attribute: Int, _ list: PostingList) throws(StoreError) -> Bool
    ) throws(StoreError) {
        var cursor = SegmentTermCursor(self)
        try cursor.seek(pattern)
        while try cursor.next() {
            let term = cursor.term
            if !isPrefix, term.count != pattern.count { return }
            guard term.count >= pattern.count, term.slice(0, pattern.count).hasSameBytes(as: pattern) else { return }
            guard try body(term, cursor.attribute, cursor.list) else { return }
        }
    }

    /// The number of the block in which the lists from a term on begin, or of the block before it.
    func firstTermBlock(_ term: UnsafeRawBufferPointer) throws(StoreError) -> Int {
        guard descriptor.directoryBlocks > 0 else { return 0 }
        // The last block of the directory whose first term is before the term.
        var range = 1..<descriptor.directoryBlocks
        while !range.isEmpty {
            let middle = range.lowerBound + range.count / 2
            let isBefore = try directory(middle).term(0).isBefore(term)
            range = isBefore ? middle + 1..<range.upperBound : range.lowerBound..<middle
        }
        return try directory(range.lowerBound - 1).lastBlock(before: term)
    }
}

/// A block of the directory, whose trailer was checked.
struct SegmentDirectory {
    private let bytes: UnsafeRawBufferPointer
    /// The number of the first block of terms.
    let firstBlock: Int
    let count: Int
    private let end: Int

    init(_ bytes: UnsafeRawBufferPointer, termBlocks: Int) throws(StoreError) {
        guard bytes.count >= 8 else { throw PostingFormat.damaged("a block of the directory is too small.") }
        self.bytes = bytes
        count = Int(bytes.integer(at: bytes.count - 2, as: UInt16.self))
        firstBlock = Int(bytes.integer(at: bytes.count - 6, as: UInt32.self))
        end = bytes.count - 6 - 2 * count
        guard count > 0, end > 0, firstBlock <= termBlocks, count <= termBlocks - firstBlock else {
            throw PostingFormat.damaged("a block of the directory has a wrong end.")
        }
    }

    func term(_ index: Int) throws(StoreError) -> UnsafeRawBufferPointer {
        assert(index < count, "A block of the directory has fewer terms.")
        let offset = Int(bytes.integer(at: end + 2 * index, as: UInt16.self))
        guard offset + 2 <= end, offset + 2 + Int(bytes[offset]) <= end else {
            throw PostingFormat.damaged("a term extends beyond its block of the directory.")
        }
        return bytes.slice(offset + 2, Int(bytes[offset]))
    }

    func attribute(_ index: Int) throws(StoreError) -> Int {
        _ = try term(index)
        return Int(bytes[Int(bytes.integer(at: end + 2 * index, as: UInt16.self)) + 1])
    }

    /// The last block of terms whose first term is before `term`; the first block if none is.
    func lastBlock(before term: UnsafeRawBufferPointer) throws(StoreError) -> Int {
        var range = 0..<count
        while !range.isEmpty {
            let middle = range.lowerBound + range.count / 2
            let isBefore = try self.term(middle).isBefore(term)
            range = isBefore ? middle + 1..<range.upperBound : range.lowerBound..<middle
        }
        return firstBlock + max(0, range.lowerBound - 1)
    }
}
