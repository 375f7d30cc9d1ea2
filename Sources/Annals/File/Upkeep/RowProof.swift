// Proves that rows which compaction writes without history equal those of the store, byte for byte.
//
// These rows are found through the row index and read through the mapping, in the order of their objects. Both were
// verified when first read, but may have changed since: on the disk, or in memory. Verifying the frame of each row
// again would cost a frame for each row. So all frames are read once more, one after the other.
//
// Invariants:
// RP1  `copied` is the sum over all rows written without history, each as it lies in private memory on its way into the
//      new file. It equals the sum over the newest rows according to the frames; otherwise the new file is discarded.
// RP2  Only the frames decide which rows are the newest, read from the last to the first: each is verified in a copy,
//      and the chain of their checksums leads to the file's header.

/// Sums the copied rows, and compares them with the rows of the store. For one use by one thread.
final class RowProof {
    private var copied: UInt64 = 0
    /// By entity: the end of the state of which its rows are copied.
    private var ends: [UInt16: UInt64] = [:]

    /// The rows of an entity are copied as of a state. A removed entity has none.
    func begin(_ entity: UInt16, _ state: View) { if state.shape.has(entity) { ends[entity] = state.end } }

    /// Adds a copied row (RP1). `bytes` are its bytes in private memory, as in the source, without padding.
    @inline(__always)
    func note(_ object: ObjectID, _ bytes: UnsafeRawBufferPointer) { copied &+= Self.sum(object.rawValue, bytes) }

    /// The sum does not depend on the order of the rows.
    @inline(__always)
    fileprivate static func sum(_ object: UInt64, _ row: UnsafeRawBufferPointer) -> UInt64 {
        Checksum.hash(row, seed: object)
    }

    // MARK: Comparing

    /// Throws `damaged` unless the rows copied are those of the source. Linear in the frames of the source up to the
    /// states, without reading bodies that have no newest rows. `report` is called for each MiB.
    ///
    /// Does nothing if the source is read by copies: these are the verified bytes.
    func compare(with source: Engine, _ report: () throws(StoreError) -> Void) throws(StoreError) {
        let core = source.indexes.core
        guard core.file.isMapped, var end = ends.values.max() else { return }
        var newest = NewestRows(ends, core)
        while end > UInt64(FormatLimits.pageBytes) {
            let offsets = try Self.frames(below: end, core)
            try core.reading { () throws(StoreError) in
                for offset in offsets.reversed() { try newest.read(frameAt: offset) }
            }
            assert(offsets.first.map { $0 < end } ?? false, "RP2: frames are read twice.")
            end = offsets.first ?? 0
            try report()
        }
        guard newest.sum == copied, newest.previousChecksum ?? source.log.header.checksum == source.log.header.checksum
        else {
            throw StoreError(
                .damaged,
                "F7: rows of the store changed while they were copied, so the copy was cancelled. Nothing was "
                    + "replaced: run `annals verify`, check the disk and the memory, and try again.")
        }
    }

    /// The offsets of the frames between the last landmark below `end` and `end`.
    private static func frames(below end: UInt64, _ core: ReadCore) throws(StoreError) -> [UInt64] {
        var position = core.file.currentLandmarks.last(at: end - 1)?.offset ?? UInt64(FormatLimits.pageBytes)
        var offsets: [UInt64] = []
        try core.reading { () throws(StoreError) in
            while position < end {
                offsets.append(position)
                position = try core.goodHeader(at: position).end
            }
        }
        guard position == end else { throw ReadCore.badLink(offsets.last ?? end) }
        return offsets
    }
}

/// Reads frames from the last one to the first: the first change of an object found is the newest.
private struct NewestRows {
    private let ends: [UInt16: UInt64]
    private let core: ReadCore
    private let copy = FrameCopy()
    private var seen = ObjectSet()
    /// The newest rows of a frame: the object, and the row's offset in the frame.
    private var rows: [(object: UInt64, row: Int)] = []
    /// The entries of a frame.
    private var entries: [(object: UInt64, row: Int?)] = []
    private(set) var sum: UInt64 = 0
    /// The checksum that the frame before must have; nil before the last frame.
    private(set) var previousChecksum: UInt64?

    init(_ ends: [UInt16: UInt64], _ core: ReadCore) { (self.ends, self.core) = (ends, core) }

    /// Inside a read section.
    mutating func read(frameAt offset: UInt64) throws(StoreError) {
        let front = try copy.front(at: offset, core)
        guard previousChecksum ?? front.header.checksum == front.header.checksum else {
            throw StoreError(
                .damaged, "F5: a frame does not follow the one before it. Restore the store from a backup.",
                offset: front.end)
        }
        previousChecksum = front.header.previousChecksum
        guard [.transaction, .part, .rows].contains(front.header.kind) else { return }
        try collectEntries(of: front)
        for entry in entries.reversed() where seen.insert(entry.object) {
            if let row = entry.row { rows.append((entry.object, row)) }
        }
        if rows.isEmpty { return }
        let frame = try copy.completed(front, core)
        for (object, position) in rows {
            let start = position - FrameField.bytes - frame.table.count
            let row = frame.body.slice(start, frame.body.count - start)
            sum &+= RowProof.sum(object, row.slice(0, try RowHeader(row, fileOffset: offset).rowBytes))
        }
        rows.removeAll(keepingCapacity: true)
    }

    private mutating func collectEntries(of frame: FrameView) throws(StoreError) {
        entries.removeAll(keepingCapacity: true)
        var cursor = ChangeCursor(frame)
        while let change = try cursor.next() {
            guard let end = ends[change.object.entityNumber], frame.end <= end else { continue }
            // A deletion may have a row, but that is not the object's.
            entries.append((change.objectBits, change.isDeletion ? nil : change.rowOffset))
        }
    }
}

/// A set of object IDs, with a bit for each number near a member.
private struct ObjectSet {
    private static let chunkBits: UInt64 = 12
    private static let chunkWords = 1 << 6
    /// The index in `words` of the bits of each range of objects.
    private var chunks: [UInt64: Int] = [:]
    private var words: [UInt64] = []
    private var last: (key: UInt64, start: Int)?

    /// Returns whether the object is new.
    mutating func insert(_ object: UInt64) -> Bool {
        let word = start(object >> Self.chunkBits) + Int(object >> 6 & UInt64(Self.chunkWords - 1))
        let bit: UInt64 = 1 << (object & 63)
        let isNew = words[word] & bit == 0
        words[word] |= bit
        return isNew
    }

    private mutating func start(_ key: UInt64) -> Int {
        if let last, last.key == key { return last.start }
        let start = chunks[key] ?? words.count
        if start == words.count {
            words.append(contentsOf: repeatElement(0, count: Self.chunkWords))
            chunks[key] = start
        }
        last = (key, start)
        return start
    }
}
