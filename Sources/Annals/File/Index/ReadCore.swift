// The parts that all views of an open store share for reading: the file's bytes, the row index, and the links between
// versions.
//
// Invariants:
// C1  A version that a view sees lies below the view's end. From a newer version, previous versions lead to it, at ever
//     smaller offsets.
// C2  If the header of a frame lies in verified bytes (`VerifiedFile`), the whole frame was verified: V2 and V3 hold
//     for whole frames only. So walks hash the headers and tables of other frames only.

final class ReadCore: Sendable {
    let file: VerifiedFile
    let rows: RowIndex
    let sections: ReadSections

    init(_ file: VerifiedFile, _ sections: ReadSections, _ deltas: DeltaPolicy) throws(StoreError) {
        self.file = file
        self.sections = sections
        rows = try RowIndex(file, sections, deltas)
    }

    /// Runs `body` in a read section: lent bytes live until it returns. Throws `closed` once the store was closed.
    @inline(__always)
    func reading<Result>(_ body: () throws(StoreError) -> Result) throws(StoreError) -> Result {
        let section = try sections.enter()
        file.beginReading()
        defer {
            file.endReading()
            sections.leave(section)
        }
        return try body()
    }

    // MARK: Versions

    /// The offset of an object's row as seen by a view with this end; nil if the view has none. Inside a read section.
    @inline(__always)
    func visibleRow(_ object: ObjectID, below end: UInt64) throws(StoreError) -> UInt64? {
        try visible(try rows.newest(object), object, below: end)
    }

    /// The same, from the object's word in the row index.
    @inline(__always)
    func visible(_ word: UInt64, _ object: ObjectID, below end: UInt64) throws(StoreError) -> UInt64? {
        if word & 1 == 0, word < end { return word == 0 ? nil : word }
        return try earlier(word, object, below: end)
    }

    /// Whether views with these ends see different versions of an object. Usually reads the row index only.
    func differs(_ object: ObjectID, below end: UInt64, _ other: UInt64) throws(StoreError) -> Bool {
        let word = try rows.newest(object)
        if word & 1 == 0 {
            // Both see the newest version, or the object never existed.
            if word < min(end, other) { return false }
            // Only one of them sees it.
            if word < max(end, other) { return true }
        }
        return try visible(word, object, below: end) != visible(word, object, below: other)
    }

    /// The version that a view with this end sees, if the newest version is above the end or a deletion.
    private func earlier(_ word: UInt64, _ object: ObjectID, below end: UInt64) throws(StoreError) -> UInt64? {
        var version = word
        while version >= end {
            let entry = try entryOffset(of: version)
            guard let previous = try previousVersion(entry: entry, object) else { return nil }
            // C1.
            guard previous < version else { throw Self.badLink(entry) }
            version = previous
        }
        return version & 1 == 0 && version != 0 ? version : nil
    }

    /// The offset of a version's change entry: of a row, or of a deletion (with the lowest bit set).
    func entryOffset(of version: UInt64) throws(StoreError) -> UInt64 {
        if version & 1 == 1 { return version & ~1 }
        let header = try file.bytes(at: version, count: RowField.bytes)
        let distance = UInt64(header.integer(at: RowField.entryDistance, as: UInt16.self)) * 8
        // 512 KiB, which no 16 bits hold, is too far: the frame's header lies before the table.
        guard distance > 0, version > distance else { throw Self.badLink(version) }
        return version - distance
    }

    /// The version before the one that an entry wrote, as the entry links to it; nil for the first version.
    func previousVersion(entry offset: UInt64, _ object: ObjectID) throws(StoreError) -> UInt64? {
        let entry = try file.bytes(at: offset, count: ChangeField.bytes)
        guard entry.integer(at: ChangeField.object, as: UInt64.self) == object.rawValue else {
            throw Self.badLink(offset)
        }
        guard entry[ChangeField.shape] & ChangeField.previousBit != 0 else { return nil }
        return try file.bytes(at: offset + UInt64(ChangeField.bytes), count: 8).integer(at: 0, as: UInt64.self)
    }

    @inline(never)
    static func badLink(_ offset: UInt64) -> StoreError {
        StoreError(
            .damaged,
            "F18: a row or change refers to a missing version of its object. Restore the store from a backup.",
            offset: offset)
    }

    // MARK: Rows

    /// The row at an offset. Inside a read section.
    @inline(__always)
    func row(at offset: UInt64, _ entity: UInt16, _ shape: StoreShape) throws(StoreError) -> RowImage {
        let (version, rowBytes) = RowField.versionAndBytes(of: try file.word(at: offset))
        guard let rowShape = shape.shape(version: version, entity: entity),
            rowBytes <= FormatLimits.maximumFrameBytes, rowBytes >= RowField.bytes
        else { throw Self.badRow(offset) }
        return try RowImage(
            try file.bytes(at: offset, count: rowBytes), rowBytes: rowBytes, rowShape, fileOffset: offset)
    }

    @inline(never)
    static func badRow(_ offset: UInt64) -> StoreError {
        StoreError(
            .damaged, "F21: no row of that entity begins here. Restore the store from a backup.", offset: offset)
    }
}

// MARK: Frames
//
// A header and a table have checksums of their own: so reading history does not touch the rows between them.

/// A good header, read in place.
struct FrameHead {
    let offset: UInt64
    let bytes: UnsafeRawBufferPointer
    /// Whether the whole frame was verified before.
    let isVerified: Bool

    @inline(__always)
    var frameBytes: UInt32 { bytes.integer(at: FrameField.frameBytes, as: UInt32.self) }
    @inline(__always)
    var end: UInt64 { offset &+ UInt64(frameBytes) }
    @inline(__always)
    var number: UInt64 { bytes.integer(at: FrameField.number, as: UInt64.self) }

    @inline(__always)
    func isOf(_ kind: FrameKind) -> Bool { bytes[FrameField.kind] == kind.rawValue }
}

extension ReadCore {
    /// The frame at an offset where one begins. Inside a read section.
    @inline(__always)
    func frame(at offset: UInt64) throws(StoreError) -> FrameView {
        let header = try frameHeader(at: offset)
        return FrameView(try file.bytes(at: offset, count: Int(header.frameBytes)), header: header, offset: offset)
    }

    /// The header of a frame, verified alone: the bytes after it are not touched.
    func frameHeader(at offset: UInt64) throws(StoreError) -> FrameHeader {
        let decoded = FrameHeader.decode(try headerBytes(at: offset), offset: offset, salt: file.salt)
        guard let header = try decoded.header(at: offset) else { throw Self.noFrame(offset) }
        return header
    }

    /// The same for a walk over millions of frames, which reads few fields.
    ///
    /// `isStart`: whether a frame is known to begin there, because a good frame ends there. Then a frame that was
    /// verified before is not verified again (C2).
    @inline(__always)
    func goodHeader(at offset: UInt64, isStart: Bool = false) throws(StoreError) -> FrameHead {
        let bytes = try headerBytes(at: offset)
        if isStart, file.isVerified(offset, UInt64(FrameField.bytes)), FrameHeader.hasPossibleSizes(bytes) {
            return FrameHead(offset: offset, bytes: bytes, isVerified: true)
        }
        // Decoding it again throws the detailed error.
        if !FrameHeader.isGood(bytes, offset: offset, salt: file.salt) { _ = try frameHeader(at: offset) }
        return FrameHead(offset: offset, bytes: bytes, isVerified: false)
    }

    @inline(__always)
    private func headerBytes(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer {
        if let bytes = file.unverifiedBytes(at: offset, count: FrameField.bytes) { return bytes }
        return try file.bytes(at: offset, count: FrameField.bytes)
    }

    @inline(never)
    private static func noFrame(_ offset: UInt64) -> StoreError {
        StoreError(.damaged, "F4: no frame begins here. Restore the store from a backup.", offset: offset)
    }

    /// The table of a frame, verified alone.
    @inline(__always)
    func table(of header: FrameHead) throws(StoreError) -> UnsafeRawBufferPointer {
        let place = header.offset &+ UInt64(FrameField.bytes)
        let tableBytes = Int(header.bytes.integer(at: FrameField.tableBytes, as: UInt32.self))
        guard let table = file.unverifiedBytes(at: place, count: tableBytes) else {
            return tableBytes == 0
                ? UnsafeRawBufferPointer(start: nil, count: 0) : try file.bytes(at: place, count: tableBytes)
        }
        // C2.
        if header.isVerified { return table }
        let checksum = header.bytes.integer(at: FrameField.tableChecksum, as: UInt64.self)
        guard FrameHeader.tableChecksum(table, salt: file.salt) == checksum else {
            throw StoreError(
                .damaged, "F7: the table of a frame does not match its checksum. Restore the store from a backup.",
                offset: header.offset)
        }
        return table
    }
}
