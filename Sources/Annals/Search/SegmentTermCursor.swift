// Walks over the lists of a segment in their order.

/// A block of terms, whose trailer was checked.
///
/// Sound because 8 bytes follow `end`, which is within the bytes (SG2).
struct SegmentTermBlock {
    let index: Int
    let start: UnsafeRawPointer
    /// The end of the entries.
    let end: Int
    let entryCount: Int
    private let bytes: UnsafeRawBufferPointer

    init(_ index: Int, _ bytes: UnsafeRawBufferPointer) throws(StoreError) {
        guard bytes.count >= 8, let start = bytes.baseAddress else {
            throw PostingFormat.damaged("a block of terms is too small.")
        }
        (self.index, self.bytes, self.start) = (index, bytes, start)
        entryCount = Int(bytes.integer(at: bytes.count - 2, as: UInt16.self))
        end = Int(bytes.integer(at: bytes.count - 6, as: UInt32.self))
        guard entryCount > 0, end + 2 * restartCount + 6 == bytes.count else {
            throw PostingFormat.damaged("a block of terms has a wrong end.")
        }
    }

    var restartCount: Int {
        (entryCount + PostingFormat.entriesPerRestart - 1) / PostingFormat.entriesPerRestart
    }

    /// The offset of the first entry of 16.
    func restart(_ number: Int) throws(StoreError) -> Int {
        let offset = Int(bytes.integer(at: end + 2 * number, as: UInt16.self))
        guard offset < end else { throw PostingFormat.damaged("an entry begins beyond its block.") }
        return offset
    }

    /// The number of the last 16 entries whose first term is before `term`.
    func lastRestart(before term: UnsafeRawBufferPointer) throws(StoreError) -> Int {
        var range = 1..<restartCount
        while !range.isEmpty {
            let middle = range.lowerBound + range.count / 2
            let entry = try SegmentEntry(self, restart(middle))
            let isBefore = try entry.wholeTerm.isBefore(term)
            range = isBefore ? middle + 1..<range.upperBound : range.lowerBound..<middle
        }
        return range.lowerBound - 1
    }
}

/// An entry of a block of terms: a part of a list.
struct SegmentEntry {
    let shared: Int
    let rest: UnsafeRawBufferPointer
    let attribute: Int
    /// Whether the list continues in the next block.
    let continues: Bool
    /// The number of objects that begin in the chunks, if it is listed.
    private let listedObjects: Int?
    let block: SegmentTermBlock
    /// The chunks, each after its size.
    let chunks: Range<Int>

    init(_ block: SegmentTermBlock, _ offset: Int) throws(StoreError) {
        self.block = block
        var bytes = PostingBytes(start: block.start, offset: offset, end: block.end)
        let lengths = Int(try bytes.readUInt8())
        var (shared, length) = (lengths >> 4, lengths & 15)
        if shared == 15 { shared += Int(try bytes.readUInt8()) }
        if length == 15 { length += Int(try bytes.readUInt8()) }
        self.shared = shared
        rest = try bytes.readBytes(length)
        let flags = try bytes.readUInt8()
        attribute = Int(flags & 63)
        continues = flags & 1 << 6 != 0
        var size = 0
        if flags & 1 << 7 != 0 {
            listedObjects = try bytes.readVarint()
            size = try bytes.readVarint()
            chunks = bytes.offset..<bytes.offset &+ size
        } else {
            listedObjects = nil
            let start = bytes.offset
            size = try bytes.readVarint()
            chunks = start..<bytes.offset &+ size
        }
        guard size > 0, size <= block.end &- bytes.offset else {
            throw PostingFormat.damaged("the postings of an entry extend beyond their block.")
        }
    }

    /// The term of an entry that shares nothing.
    var wholeTerm: UnsafeRawBufferPointer {
        get throws(StoreError) {
            guard shared == 0 else { throw PostingFormat.damaged("an entry shares bytes with a missing term.") }
            return rest
        }
    }

    /// The number of objects that begin in the entry.
    func objectCount() throws(StoreError) -> Int {
        if let listedObjects { return listedObjects }
        var bytes = PostingBytes(start: block.start, offset: chunks.lowerBound, end: chunks.upperBound)
        _ = try bytes.readVarint()
        _ = try bytes.readVarint()
        let count = Int(try bytes.readUInt8())
        if count == 0 { return 1 }
        return try bytes.readUInt16() & 1 << 14 == 0 ? count : count - 1
    }
}

/// Walks over lists: `seek`, then `next` until it returns false.
///
/// Sound because the struct owns its memory, cannot be copied, and a term is checked to fit its half.
struct SegmentTermCursor: ~Copyable {
    private static let half = PostingFormat.maximumTermBytes + 1

    private let reader: SegmentReader
    private let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 2 * half, alignment: 8)
    /// The half of the memory that has the term: the other one has the term before it.
    private var start = 0
    private var length = 0
    private(set) var attribute = -1
    private var entry: SegmentEntry?
    private var block: SegmentTermBlock?
    /// The number and the offset of the next entry of the block.
    private var entryNumber = 0
    private var offset = 0
    /// Whether the entry continues the list of the one before it.
    private var isPart = false
    /// Whether `seek` has found the list that `next` returns.
    private var isPending = false

    init(_ reader: SegmentReader) { self.reader = reader }

    deinit { memory.deallocate() }

    /// The term of the list. Valid until the next call of `next`.
    var term: UnsafeRawBufferPointer { UnsafeRawBufferPointer(memory).slice(start, length) }

    /// The list at which the cursor is.
    var list: PostingList {
        guard let entry else { preconditionFailure("The cursor is at no list.") }
        return PostingList(reader: reader, entry: entry, termLength: length)
    }

    /// Moves to before the first list with a term that is not before `pattern`.
    mutating func seek(_ pattern: UnsafeRawBufferPointer) throws(StoreError) {
        guard reader.descriptor.termBlocks > 0 else { return }
        let block = try reader.termBlock(reader.firstTermBlock(pattern))
        let restart = try block.lastRestart(before: pattern)
        self.block = block
        entryNumber = restart * PostingFormat.entriesPerRestart
        offset = try block.restart(restart)
        (length, attribute, entry) = (0, -1, nil)
        repeat { isPending = try step() } while isPending && term.isBefore(pattern)
    }

    /// Moves to the next list; false after the last one.
    mutating func next() throws(StoreError) -> Bool {
        if isPending {
            isPending = false
            return true
        }
        repeat {
            guard try step() else { return false }
        } while isPart
        return true
    }

    // MARK: Entries

    /// Moves to the next entry.
    private mutating func step() throws(StoreError) -> Bool {
        guard let block = try blockOfNextEntry() else { return false }
        let next = try SegmentEntry(block, offset)
        if entryNumber % PostingFormat.entriesPerRestart == 0 {
            guard next.shared == 0, try block.restart(entryNumber / PostingFormat.entriesPerRestart) == offset else {
                throw PostingFormat.damaged("an entry is not at its place.")
            }
        }
        try take(next)
        entry = next
        offset = next.chunks.upperBound
        entryNumber += 1
        return true
    }

    /// The block of the next entry; nil at the end.
    private mutating func blockOfNextEntry() throws(StoreError) -> SegmentTermBlock? {
        guard let block else { return nil }
        if entryNumber < block.entryCount { return block }
        guard offset == block.end else { throw PostingFormat.damaged("bytes follow the last entry of a block.") }
        guard block.index + 1 < reader.descriptor.termBlocks else {
            self.block = nil
            if entry?.continues == true { throw PostingFormat.damaged("a list does not end.") }
            return nil
        }
        let next = try reader.termBlock(block.index + 1)
        self.block = next
        (entryNumber, offset) = (0, 0)
        return next
    }

    /// Assembles the term of an entry, and compares it with the one before it.
    private mutating func take(_ next: SegmentEntry) throws(StoreError) {
        let (shared, rest) = (next.shared, next.rest)
        let size = shared + rest.count
        guard shared <= length, size > 0, size <= PostingFormat.maximumTermBytes,
            next.attribute < reader.descriptor.attributes
        else { throw PostingFormat.damaged("an entry has an impossible term or attribute.") }
        let other = start == 0 ? Self.half : 0
        let place = UnsafeMutableRawBufferPointer(rebasing: memory[other..<other + size])
        place.copyMemory(from: UnsafeRawBufferPointer(memory).slice(start, shared))
        UnsafeMutableRawBufferPointer(rebasing: place[shared...]).copyMemory(from: rest)
        let (old, new) = (term, UnsafeRawBufferPointer(place))
        let isSame = old.hasSameBytes(as: new)
        isPart = entry?.continues == true
        if let entry {
            // SG3: a list that continues does so at the start of the next block, and all lists ascend.
            let isInOrder =
                isPart
                ? isSame && next.attribute == attribute && entryNumber == 0
                : isSame ? next.attribute > attribute : old.isBefore(new)
            guard isInOrder, !isPart || entry.block.index + 1 == next.block.index else {
                throw PostingFormat.damaged("the lists are not in order.")
            }
        }
        (start, length, attribute) = (other, size, next.attribute)
    }
}
