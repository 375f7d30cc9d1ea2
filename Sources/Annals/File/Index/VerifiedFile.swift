// The bytes of the file, verified before they are lent: mapped, or copied into private memory.
//
// Invariants:
// V1  Bytes are lent only from blocks whose bit is set, or from the trusted range.
// V2  A block's bit is set when every frame that overlaps the block was verified, and the block lies wholly below the
//     end.
// V3  Through a mapping, everything from `trustedStart` to `readableEnd` is trusted: this handle read and verified it
//     as whole frames, or wrote it.
// V4  When reading by copies, every block whose bit is set, and the ranges `tail` and `adopted`, are in the private
//     memory.
// V5  An edge of a block is set when the frame over the block's first byte, or over its last one, was verified: most
//     frames reach into blocks that other frames share, and would be verified again for each.
// V6  Bytes at or above `readableEnd` are never lent, even if an offset in the file leads there.
// V7  Of the adopted frames, only those that count are lent: another transaction may replace an unfinished one.

internal import Synchronization

/// The way of reading the file.
public enum FileReading: Sendable, Hashable {
    /// Through mapped memory: the fastest. If a foreign program truncates the file, the system ends this process.
    case mapped
    /// By copying: slower, but truncation cannot end the process.
    case copied
}

/// Sound although it is shared: bits and borders are atomic; other variables are touched only with `monitor` locked;
/// copies are forgotten only without readers (`beginReading`).
final class VerifiedFile: @unchecked Sendable {
    /// Small beside a frame of many rows: reading a row verifies the whole frames over its block, usually one.
    private static let blockBits: UInt64 = 14
    private static let blockBytes: UInt64 = 1 << blockBits
    private let files: any FileSystem
    private let file: Descriptor
    let salt: UInt64
    private let headerChecksum: UInt64
    private let path: String
    private let copies: CopyMemory?
    /// The memory above which copies are forgotten.
    private let maximumCopiedBytes: UInt64
    private let base: UnsafeRawPointer
    private let capacity: UInt64
    /// For each 64 blocks a word for each kind of `Mark`. Edges are touched only with `monitor` locked.
    private let marks: PrivateMemory
    /// The first of them.
    private let firstMark: UnsafeMutableRawPointer
    private let trustedStart = Atomic<UInt64>(.max)
    private let readable = Atomic<UInt64>(0)
    private let monitor = Monitor()
    private var landmarks = Landmarks()
    private var readers = 0
    /// The verified part of the block that contains the end.
    private var tail: Range<UInt64> = 0..<0
    /// The blocks of earlier tails that were not verified whole since: bytes of them may be in use.
    private var formerTails: Set<UInt64> = []
    /// The highest frames that were verified one after the other, from `start` to `end`. The next read usually lies
    /// right above: the way there begins here instead of at a landmark, so reading forward is linear.
    private var run: VerifiedRun?
    /// The last adopted frames, one after the other.
    private var adopted: AdoptedFrames?

    /// With a mapping reads go through it, otherwise through copies. Throws `outOfMemory` without addresses for either.
    init(
        _ files: any FileSystem, _ file: Descriptor, header: FileHeader, path: String, mapping: Mapping?,
        copies reserve: () -> PrivateMemory?, maximumCopiedBytes: UInt64
    ) throws(StoreError) {
        (self.files, self.file, self.path, self.maximumCopiedBytes) = (files, file, path, maximumCopiedBytes)
        salt = header.salt
        headerChecksum = header.checksum
        if let mapping, let start = mapping.bytes.baseAddress {
            copies = nil
            base = start
            capacity = UInt64(mapping.bytes.count)
        } else {
            guard let memory = reserve(), let start = memory.bytes.baseAddress else { throw Self.noAddresses }
            copies = CopyMemory(memory, limit: maximumCopiedBytes)
            base = UnsafeRawPointer(start)
            capacity = UInt64(memory.bytes.count)
        }
        let groups = Int(capacity >> (Self.blockBits + 6)) + 2
        guard let marks = PrivateMemory(count: groups * 8 * Mark.count), let firstMark = marks.bytes.baseAddress else {
            throw Self.noAddresses
        }
        (self.marks, self.firstMark) = (marks, firstMark)
    }

    private static let noAddresses = StoreError(
        .outOfMemory, "The process has too little address space left to read the store: raise its limit (ulimit -v).")

    var isMapped: Bool { copies == nil }

    // MARK: The readable part

    /// Everything below this offset belongs to the store, as far as this handle knows.
    var readableEnd: UInt64 { readable.load(ordering: .acquiring) }

    /// This handle will read and verify, or write, all bytes from `start` on. Called before any read.
    func begin(at start: UInt64) {
        assert(readableEnd == 0, "V3: reading begins twice.")
        readable.store(start, ordering: .releasing)
        trustedStart.store(isMapped ? start : .max, ordering: .releasing)
    }

    /// Reading begins once more, somewhere else, while nothing else reads. Nothing counts as verified any more: some of
    /// it was verified by the landmarks of a checkpoint that turned out to be wrong.
    func beginAgain(at start: UInt64) {
        monitor.withLock {
            landmarks = Landmarks()
            forgetCopies()
        }
        readable.store(0, ordering: .releasing)
        begin(at: start)
    }

    /// Everything below `end` counts, or is about to, and is in the file whole. By one thread at a time.
    @inline(__always)
    func advance(to end: UInt64) { if end > readableEnd { readable.store(end, ordering: .releasing) } }

    /// Throws if the reserved addresses do not reach that far.
    func requireReach(_ end: UInt64) throws(StoreError) {
        guard end <= capacity else {
            throw StoreError(
                .tooLarge, "The store has outgrown its reserved address space: open it again.", path: path)
        }
    }

    func install(_ landmarks: Landmarks) { monitor.withLock { self.landmarks = landmarks } }

    var currentLandmarks: Landmarks { monitor.withLock { landmarks } }

    // MARK: Reading

    /// For reading by copies: lent bytes stay until `endReading`. Does nothing for a mapping.
    @inline(__always)
    func beginReading() { if copies != nil { beginCopying() } }

    @inline(__always)
    func endReading() { if copies != nil { monitor.withLock { readers -= 1 } } }

    private func beginCopying() {
        monitor.withLock {
            if readers == 0, let copies, copies.heldBytes > maximumCopiedBytes { forgetCopies() }
            readers += 1
        }
    }

    private func forgetCopies() {
        assert(readers == 0, "V4: copies are forgotten while they are read.")
        (tail, formerTails) = (0..<0, [])
        (run, adopted) = (nil, nil)
        marks.clear()
        copies?.forget()
    }

    /// Verified bytes of the committed part. They live until the section ends in which they were requested.
    ///
    /// Throws `damaged` with the offset if they do not match their checksums, or lie outside the committed part.
    @inline(__always)
    func bytes(at offset: UInt64, count: Int) throws(StoreError) -> UnsafeRawBufferPointer {
        if !isVerified(offset, UInt64(truncatingIfNeeded: count)) { try verify(offset, count) }
        return UnsafeRawBufferPointer(start: base + Int(truncatingIfNeeded: offset), count: count)
    }

    /// A verified word. Throws as `bytes(at:count:)`. At a multiple of 8 no block divides it, so one mark is enough.
    @inline(__always)
    func word(at offset: UInt64) throws(StoreError) -> UInt64 {
        // An offset comes from the file, so it may have any bits.
        let isVerified =
            offset & Self.unusualBits == 0 && offset &+ 8 <= readable.load(ordering: .acquiring)
            && (offset >= trustedStart.load(ordering: .acquiring) || has(.verified, offset >> Self.blockBits))
        if !isVerified { try verify(offset, 8) }
        return UInt64(
            littleEndian: base.loadUnaligned(fromByteOffset: Int(truncatingIfNeeded: offset), as: UInt64.self))
    }

    /// Set in no offset of a word that lies in one block and in a file of possible size.
    private static let unusualBits: UInt64 = 7 | 15 << 60

    /// Holds no bytes.
    var noStretch: VerifiedStretch { VerifiedStretch(base: base, start: 0, end: 0) }

    /// Bytes that are verified, around those at `offset`: as many as are known without looking far. They live until the
    /// section ends in which they were requested. Throws as `bytes(at:count:)`.
    @inline(never)
    func stretch(at offset: UInt64, count: Int) throws(StoreError) -> VerifiedStretch {
        _ = try bytes(at: offset, count: count)
        let trusted = trustedStart.load(ordering: .acquiring)
        if offset >= trusted { return VerifiedStretch(base: base, start: trusted, end: readableEnd) }
        let end = offset + UInt64(count)
        let first = offset >> Self.blockBits
        let last = (end - 1) >> Self.blockBits
        // Bytes in a block without its bit were read by copies, or lie at the border of the trusted range.
        guard has(.verified, first), has(.verified, last) else {
            return VerifiedStretch(base: base, start: offset, end: end)
        }
        // V6: the block at the start of the trusted range is marked, and may end above the readable bytes.
        return VerifiedStretch(
            base: base, start: first << Self.blockBits, end: min((last + 1) << Self.blockBits, readableEnd))
    }

    /// Whether V1 allows lending these bytes.
    @inline(__always)
    func isVerified(_ offset: UInt64, _ count: UInt64) -> Bool {
        let end = offset &+ count
        guard end > offset, end <= readable.load(ordering: .acquiring) else { return false }
        if offset >= trustedStart.load(ordering: .acquiring) { return true }
        let first = offset >> Self.blockBits
        let last = (end &- 1) >> Self.blockBits
        return has(.verified, first) && (first == last || isEverySet(first, last))
    }

    /// Facts about a block, one bit each.
    private enum Mark: Int {
        case verified
        case firstEdge
        case lastEdge

        static let count = 3
    }

    @inline(__always)
    private func word(_ block: UInt64, _ mark: Mark) -> UnsafeMutablePointer<Atomic<UInt64>> {
        let group = Int(truncatingIfNeeded: block >> 6)
        let address = firstMark + (group &* Mark.count &+ mark.rawValue) &* 8
        assert(UInt(bitPattern: address) % 8 == 0, "not aligned")
        return address.assumingMemoryBound(to: Atomic<UInt64>.self)
    }

    @inline(__always)
    private func has(_ mark: Mark, _ block: UInt64) -> Bool {
        word(block, mark).pointee.load(ordering: .acquiring) >> (block & 63) & 1 == 1
    }

    private func set(_ mark: Mark, _ block: UInt64) {
        word(block, mark).pointee.bitwiseOr(1 << (block & 63), ordering: .releasing)
    }

    private func isEverySet(_ first: UInt64, _ last: UInt64) -> Bool {
        let trusted = trustedStart.load(ordering: .acquiring)
        // At the border of the verified blocks and the trusted range, both count.
        return (first...last).allSatisfy { has(.verified, $0) || $0 << Self.blockBits >= trusted }
    }

    /// Unverified bytes of the mapping in the committed part: only for verifying them. Nil while reading by copies.
    @inline(__always)
    func unverifiedBytes(at offset: UInt64, count: Int) -> UnsafeRawBufferPointer? {
        let end = offset &+ UInt64(truncatingIfNeeded: count)
        guard copies == nil, end > offset, end <= readable.load(ordering: .acquiring) else { return nil }
        return UnsafeRawBufferPointer(start: base + Int(truncatingIfNeeded: offset), count: count)
    }

    // MARK: Adopting

    /// Keeps a copy of a frame at or above the end that was just verified in private memory, so that reading by copies
    /// does not read it again. Does nothing for a mapping. The addresses must reach that far.
    ///
    /// `counts`: whether it ends a transaction or is standalone. Then it may be lent once the end has reached it.
    func adopt(_ frame: FrameView, counts: Bool) {
        guard let copies, frame.offset >= readableEnd else { return }
        monitor.withLock {
            noteAdopted()
            assert(frame.end <= capacity, "V4: a copy is longer than the private memory.")
            copies.write(frame.bytes, at: Int(frame.offset))
            if adopted?.append(frame, counts: counts) != true { adopted = AdoptedFrames(frame, counts: counts) }
        }
    }

    /// Marks adopted bytes that count since the last call. With `monitor` locked.
    private func noteAdopted() {
        let limit = readableEnd
        guard let adopted, let (end, checksum) = adopted.counted, end <= limit, tail.upperBound < end else { return }
        assert(adopted.start < end, "V7: frames are lent that do not count.")
        noteVerified(
            from: tail.upperBound >= adopted.start ? tail.lowerBound : adopted.start, to: end, limit: limit)
        if let run, (adopted.start...end).contains(run.end) {
            self.run = VerifiedRun(start: run.start, end: end, checksum: checksum)
        }
    }

    // MARK: Verifying

    @inline(never)
    private func verify(_ offset: UInt64, _ count: Int) throws(StoreError) {
        let end = offset.addingReportingOverflow(UInt64(count))
        // V6.
        guard offset >= UInt64(FormatLimits.pageBytes), !end.overflow, end.partialValue <= readableEnd else {
            throw StoreError(
                .damaged, "F30: an offset in the store points outside of the store. Restore it from a backup.",
                path: path, offset: offset)
        }
        try monitor.withLock { () throws(StoreError) in
            noteAdopted()
            var block = offset >> Self.blockBits
            while block << Self.blockBits < end.partialValue {
                if !has(.verified, block), !isTrusted(block, to: end.partialValue) { try verifyBlock(block) }
                block += 1
            }
        }
    }

    private func isTrusted(_ block: UInt64, to end: UInt64) -> Bool {
        let start = block << Self.blockBits
        return start >= trustedStart.load(ordering: .relaxed) || (tail.contains(start) && tail.upperBound >= end)
    }

    /// Verifies every frame that overlaps the block, and notes other frames that were verified on the way. With
    /// `monitor` locked.
    private func verifyBlock(_ block: UInt64) throws(StoreError) {
        let start = block << Self.blockBits
        let limit = min(readable.load(ordering: .relaxed), trustedStart.load(ordering: .relaxed))
        let end = min(start + Self.blockBytes, limit)
        var stride = UInt64.max
        var position = landmarks.last(at: start)?.offset ?? UInt64(FormatLimits.pageBytes)
        var previous: UInt64? = position == UInt64(FormatLimits.pageBytes) ? headerChecksum : nil
        var firstVerified: UInt64?
        if let run, run.start <= start, run.end >= position {
            (position, previous, firstVerified) = (run.end, run.checksum, run.start)
        }
        // After a large frame, one more is expected: it is read into its place.
        let expectsLarge = !isMapped && run?.end == position && run?.endsLarge == true
        let window = isMapped ? nil : try self.window(from: position, to: end, expectsLarge)
        let headers = ByteWindow(files, file, stepBytes: FrameField.bytes)
        defer { withExtendedLifetime((window, headers)) {} }
        while position < end {
            // Headers that only lead there and lie far apart are read without the mapping: touching a page of it costs
            // about ten times a read of a header.
            let isApart = (position < start || expectsLarge) && stride > Self.apartBytes
            let header = try self.header(at: position, limit: limit, isApart ? headers : window)
            guard previous == nil || header.previousChecksum == previous else { throw damaged(position) }
            let next = position + UInt64(header.frameBytes)
            if next > start {
                let isVerified =
                    (position < start && has(.firstEdge, block))
                    || (next > start + Self.blockBytes && has(.lastEdge, block))
                if !isVerified, try !isGood(header, at: position, window) { throw damaged(position) }
                firstVerified = firstVerified ?? position
            } else if try isVerifiedOnTheWay(header, at: position, window) {
                firstVerified = firstVerified ?? position
            } else {
                firstVerified = nil
            }
            previous = header.checksum
            stride = next - position
            position = next
        }
        assert(position >= end, "V2: a block is marked before all of its frames were verified.")
        let reached = firstVerified.map { min($0, start) } ?? start
        // V5.
        if reached < start { set(.lastEdge, reached >> Self.blockBits) }
        if position >> Self.blockBits > block { set(.firstEdge, position >> Self.blockBits) }
        noteVerified(from: reached, to: position, limit: limit)
        if position > (run?.end ?? 0), let previous {
            run = VerifiedRun(
                start: max(reached, position & ~(Self.blockBytes - 1)), end: position, checksum: previous,
                endsLarge: stride > Self.apartBytes)
        }
    }

    /// A window that reads a short way at once, without bytes above it, and a long way in large steps. It reads
    /// nothing at first if a large frame is expected.
    private func window(
        from position: UInt64, to end: UInt64, _ expectsLarge: Bool
    ) throws(StoreError) -> ByteWindow {
        guard position < end, end - position <= 2 * Self.blockBytes, !expectsLarge else {
            return ByteWindow(files, file, stepBytes: 1 << 18)
        }
        let window = ByteWindow(files, file, stepBytes: FrameField.bytes)
        _ = try window.bytes(at: position, count: Int(end - position))
        return window
    }

    /// Small frames that lead to a block are touched in any case. Verifying them, too, makes the next way to a
    /// neighbouring block short: otherwise a store of small frames would cost a walk for each block. An error in one
    /// concerns only its own readers.
    private func isVerifiedOnTheWay(
        _ header: FrameHeader, at position: UInt64, _ window: ByteWindow?
    ) throws(StoreError) -> Bool {
        let next = position + UInt64(header.frameBytes)
        if has(.verified, position >> Self.blockBits), has(.verified, (next - 1) >> Self.blockBits) { return true }
        if header.frameBytes > Self.apartBytes { return false }
        return try isGood(header, at: position, window)
    }

    private static let apartBytes: UInt64 = 1 << 14

    private func header(at position: UInt64, limit: UInt64, _ window: ByteWindow?) throws(StoreError) -> FrameHeader {
        guard position + UInt64(FrameField.bytes) <= limit else { throw damaged(position) }
        let bytes = try raw(at: position, count: FrameField.bytes, window)
        guard let header = try FrameHeader.decode(bytes, offset: position, salt: salt).header(at: position),
            position + UInt64(header.frameBytes) <= limit
        else { throw damaged(position) }
        return header
    }

    /// Whether the frame matches its checksums. While reading by copies a good one is copied.
    private func isGood(_ header: FrameHeader, at position: UInt64, _ window: ByteWindow?) throws(StoreError) -> Bool {
        let count = Int(header.frameBytes)
        if let copies, header.frameBytes > Self.apartBytes, isFree(position, count) {
            let bytes = try read(position, into: copies.room(at: Int(position), count: count))
            return FrameView(bytes, header: header, offset: position).checksumsMatch(salt: salt)
        }
        let bytes = try raw(at: position, count: count, window)
        guard FrameView(bytes, header: header, offset: position).checksumsMatch(salt: salt) else { return false }
        if copies != nil { copy(bytes, to: position) }
        return true
    }

    /// Whether none of the bytes may be lent, now or without being read again: then the file can be read into their
    /// place (V1).
    private func isFree(_ position: UInt64, _ count: Int) -> Bool {
        let end = position + UInt64(count)
        if tail.overlaps(position..<end) { return false }
        if let adopted, end > adopted.start { return false }
        return (position >> Self.blockBits...(end - 1) >> Self.blockBits).allSatisfy {
            !has(.verified, $0) && !formerTails.contains($0)
        }
    }

    /// Reads a large frame into the private memory.
    private func read(
        _ position: UInt64, into room: UnsafeMutableRawBufferPointer
    ) throws(StoreError) -> UnsafeRawBufferPointer {
        var filled = 0
        while filled < room.count {
            let rest = UnsafeMutableRawBufferPointer(rebasing: room[filled...])
            let count = try files.read(file, at: position + UInt64(filled), into: rest)
            if count == 0 { throw damaged(position) }
            filled += count
        }
        return UnsafeRawBufferPointer(room)
    }

    private func raw(at position: UInt64, count: Int, _ window: ByteWindow?) throws(StoreError)
        -> UnsafeRawBufferPointer
    {
        guard let window, !isCopied(position, count) else {
            return UnsafeRawBufferPointer(start: base + Int(position), count: count)
        }
        let bytes = try window.bytes(at: position, count: count)
        guard bytes.count == count else { throw damaged(position) }
        return bytes
    }

    /// Whether the bytes are in the private memory.
    private func isCopied(_ position: UInt64, _ count: Int) -> Bool {
        let end = position + UInt64(count)
        return (position >> Self.blockBits...(end - 1) >> Self.blockBits).allSatisfy {
            has(.verified, $0) || isTrusted($0, to: end)
        }
    }

    /// Does not overwrite readable bytes: they may be in use.
    private func copy(_ bytes: UnsafeRawBufferPointer, to position: UInt64) {
        guard let copies else { return }
        let frameEnd = position + UInt64(bytes.count)
        var place = position
        while place < frameEnd {
            let block = place >> Self.blockBits
            let end = min(frameEnd, (block + 1) << Self.blockBits)
            if tail.contains(place) { place = min(end, tail.upperBound) }
            if !has(.verified, block), place < end {
                copies.write(bytes.slice(Int(place - position), Int(end - place)), at: Int(place))
            }
            place = end
        }
    }

    /// Frames from `start` to `end` were verified one after the other.
    private func noteVerified(from start: UInt64, to end: UInt64, limit: UInt64) {
        assert(start <= end && end <= limit, "V2: a block is marked that does not lie below the end.")
        let mask = Self.blockBytes - 1
        var block = start == UInt64(FormatLimits.pageBytes) ? 0 : (start + mask) >> Self.blockBits
        // The block at the start of the trusted range is verified below it, and trusted above.
        let reached = isMapped && end >= limit ? (end + mask) & ~mask : end
        while (block + 1) << Self.blockBits <= reached {
            set(.verified, block)
            block += 1
        }
        if !isMapped, end == limit, end > block << Self.blockBits {
            let former = tail.lowerBound >> Self.blockBits
            if !tail.isEmpty, former != block, !has(.verified, former) { formerTails.insert(former) }
            tail = block << Self.blockBits..<end
        }
    }

    private func damaged(_ offset: UInt64) -> StoreError {
        StoreError(
            .damaged, "F7: a frame does not match its checksums. Restore the store from a backup.", path: path,
            offset: offset)
    }
}

/// Frames that were verified one after the other.
private struct VerifiedRun {
    var start: UInt64
    var end: UInt64
    /// Of the last frame.
    var checksum: UInt64
    /// Whether the last frame is large.
    var endsLarge = false
}
