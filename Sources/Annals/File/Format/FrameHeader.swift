// The header of a frame, which can be checked alone (FileFormat.md, "Frames").

package enum FrameField {
    package static let checksum = 0
    package static let frameBytes = 8
    package static let kind = 12
    package static let flags = 13
    package static let zero = 14
    package static let number = 16
    package static let durableMark = 24
    package static let previousChecksum = 32
    package static let tableChecksum = 40
    package static let bodyChecksum = 48
    package static let tableBytes = 56
    package static let zero2 = 60
    package static let bytes = 64
}

/// The bits of `frame.flags`.
package enum FrameFlag {
    package static let member: UInt8 = 1
    package static let skippable: UInt8 = 2
    package static let stopsWriters: UInt8 = 4
}

package enum FrameKind: UInt8, CaseIterable, Sendable {
    /// Any kind that this program does not know, and that may be skipped. No frame has this number.
    case skipped = 0
    case transaction = 1
    case part = 2
    case value = 3
    case schema = 4
    case rows = 5
    case nodes = 6
    case checkpoint = 7
    case consumer = 8
    case metadata = 9
    case cleaning = 10
    case recovery = 11
    case seal = 12
    case replacing = 13

    /// Whether frames of this kind occur inside a transaction, outside of one, or in both places (F8).
    package var membership: FrameMembership {
        switch self {
        case .part: .always
        case .value: .alwaysButWithRows
        case .schema: .alwaysButInBase
        case .consumer, .skipped: .possibly
        default: .never
        }
    }
}

/// The places in which frames of a kind may occur.
package enum FrameMembership: Sendable {
    case always
    /// Outside of transactions they occur only in the base, which compaction makes.
    case alwaysButInBase
    /// Outside of transactions they occur only before the rows without history that name them.
    case alwaysButWithRows
    case possibly
    case never
}

package struct FrameHeader: Equatable, Sendable {
    package var kind: FrameKind
    package var isMember: Bool
    /// Whether a program that skips the frame must not write to the file any more.
    package var stopsWriters = false
    /// The size of the whole frame, header included.
    package var frameBytes: UInt32
    package var tableBytes: UInt32
    package var number: UInt64
    package var durableMark: UInt64
    package var previousChecksum: UInt64
    package var tableChecksum: UInt64
    package var bodyChecksum: UInt64
    /// This header's own checksum; set by `encode` and by `decode`.
    package var checksum: UInt64 = 0

    package var bodyBytes: Int { Int(frameBytes) - FrameField.bytes - Int(tableBytes) }

    package init(
        kind: FrameKind, isMember: Bool, frameBytes: UInt32, tableBytes: UInt32, number: UInt64, durableMark: UInt64,
        previousChecksum: UInt64, tableChecksum: UInt64, bodyChecksum: UInt64
    ) {
        (self.kind, self.isMember, self.frameBytes, self.tableBytes) = (kind, isMember, frameBytes, tableBytes)
        (self.number, self.durableMark, self.previousChecksum) = (number, durableMark, previousChecksum)
        (self.tableChecksum, self.bodyChecksum) = (tableChecksum, bodyChecksum)
    }

    /// Writes the header for a frame that will lie at `offset`, and remembers its checksum.
    package mutating func encode(into bytes: UnsafeMutableRawBufferPointer, offset: UInt64, salt: UInt64) {
        precondition(bytes.count >= FrameField.bytes, "A frame header needs 64 bytes.")
        bytes.store(frameBytes, at: FrameField.frameBytes)
        bytes.store(kind.rawValue, at: FrameField.kind)
        bytes.store(isMember ? UInt8(1) : 0, at: FrameField.flags)
        bytes.store(UInt16(0), at: FrameField.zero)
        bytes.store(number, at: FrameField.number)
        bytes.store(durableMark, at: FrameField.durableMark)
        bytes.store(previousChecksum, at: FrameField.previousChecksum)
        bytes.store(tableChecksum, at: FrameField.tableChecksum)
        bytes.store(bodyChecksum, at: FrameField.bodyChecksum)
        bytes.store(tableBytes, at: FrameField.tableBytes)
        bytes.store(UInt32(0), at: FrameField.zero2)
        checksum = Self.checksum(of: UnsafeRawBufferPointer(bytes), offset: offset, salt: salt)
        bytes.store(checksum, at: FrameField.checksum)
    }

    private static func checksum(of bytes: UnsafeRawBufferPointer, offset: UInt64, salt: UInt64) -> UInt64 {
        let covered = UnsafeRawBufferPointer(rebasing: bytes[FrameField.frameBytes..<FrameField.bytes])
        return Checksum.hash(covered, seed: salt ^ offset)
    }

    /// Sizes that a header at `offset` may have; cheap, so it comes before the checksum.
    @inline(__always)
    private static func isPlausible(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let frameBytes = bytes.integer(at: FrameField.frameBytes, as: UInt32.self)
        let tableBytes = bytes.integer(at: FrameField.tableBytes, as: UInt32.self)
        return frameBytes & 7 == 0 && frameBytes >= UInt32(FrameField.bytes)
            && frameBytes <= UInt32(FormatLimits.maximumFrameBytes) && tableBytes & 7 == 0
            && tableBytes <= frameBytes - UInt32(FrameField.bytes)
    }

    /// Decodes 64 bytes at `offset` of a file with this salt.
    package static func decode(_ bytes: UnsafeRawBufferPointer, offset: UInt64, salt: UInt64) -> DecodedFrameHeader {
        guard bytes.count >= FrameField.bytes, isPlausible(bytes) else { return .bad }
        let expected = bytes.integer(at: FrameField.checksum, as: UInt64.self)
        guard checksum(of: bytes, offset: offset, salt: salt) == expected else { return .bad }
        let kindNumber = bytes.integer(at: FrameField.kind, as: UInt8.self)
        let flags = bytes.integer(at: FrameField.flags, as: UInt8.self)
        let zeros =
            UInt32(bytes.integer(at: FrameField.zero, as: UInt16.self))
            | bytes.integer(at: FrameField.zero2, as: UInt32.self)
        guard let kind = kind(kindNumber, flags: flags), zeros == 0 else {
            return .unsupported(kind: kindNumber, flags: flags)
        }
        var header = FrameHeader(
            kind: kind, isMember: flags & 1 == 1,
            frameBytes: bytes.integer(at: FrameField.frameBytes, as: UInt32.self),
            tableBytes: bytes.integer(at: FrameField.tableBytes, as: UInt32.self),
            number: bytes.integer(at: FrameField.number, as: UInt64.self),
            durableMark: bytes.integer(at: FrameField.durableMark, as: UInt64.self),
            previousChecksum: bytes.integer(at: FrameField.previousChecksum, as: UInt64.self),
            tableChecksum: bytes.integer(at: FrameField.tableChecksum, as: UInt64.self),
            bodyChecksum: bytes.integer(at: FrameField.bodyChecksum, as: UInt64.self))
        header.checksum = expected
        header.stopsWriters = flags & FrameFlag.stopsWriters != 0
        return .good(header)
    }

    /// The kind of a frame with that number and these flags; nil if only a newer program can read the frame.
    @inline(__always)
    private static func kind(_ number: UInt8, flags: UInt8) -> FrameKind? {
        if number == 0 { return nil }
        let known = FrameKind(rawValue: number)
        if flags <= 1 { return known }
        // All flags up to 7 are known: a program that skips the frame still obeys the flag that stops writers.
        let isSkippable = flags <= 7 && flags & FrameFlag.skippable != 0
        return isSkippable && known == nil ? .skipped : nil
    }

    /// Whether 64 bytes are a header that `decode` accepts: for reading single fields of it afterwards.
    @inline(__always)
    static func isGood(_ bytes: UnsafeRawBufferPointer, offset: UInt64, salt: UInt64) -> Bool {
        guard bytes.count >= FrameField.bytes, isPlausible(bytes),
            checksum(of: bytes, offset: offset, salt: salt) == bytes.integer(at: FrameField.checksum, as: UInt64.self)
        else { return false }
        // Kind, flags and the zero bytes after them are one word.
        let word = bytes.integer(at: FrameField.kind, as: UInt32.self)
        guard bytes.integer(at: FrameField.zero2, as: UInt32.self) == 0 else { return false }
        if word == UInt32(FrameKind.transaction.rawValue) { return true }
        let flags = UInt8(truncatingIfNeeded: word >> 8)
        return word >> 16 == 0 && kind(UInt8(truncatingIfNeeded: word), flags: flags) != nil
    }

    /// The sizes of a header that was verified before.
    @inline(__always)
    static func hasPossibleSizes(_ bytes: UnsafeRawBufferPointer) -> Bool { isPlausible(bytes) }

    /// Whether a header at `offset` has the right checksum and sizes that no frame can have (F6).
    package static func hasImpossibleSize(_ bytes: UnsafeRawBufferPointer, offset: UInt64, salt: UInt64) -> Bool {
        bytes.count >= FrameField.bytes && !isPlausible(bytes)
            && checksum(of: bytes, offset: offset, salt: salt)
                == bytes.integer(at: FrameField.checksum, as: UInt64.self)
    }

    /// The durable mark that a header at `offset` proves, or nil without a header that checks.
    ///
    /// For the verdict on a bad place only (FileFormat.md, "The end of the file").
    package static func provenMark(
        _ bytes: UnsafeRawBufferPointer, offset: UInt64, salt: UInt64, above position: UInt64
    ) -> UInt64? {
        guard isPlausible(bytes) else { return nil }
        let mark = bytes.integer(at: FrameField.durableMark, as: UInt64.self)
        guard mark > position, mark <= offset,
            checksum(of: bytes, offset: offset, salt: salt) == bytes.integer(at: FrameField.checksum, as: UInt64.self)
        else { return nil }
        return mark
    }

    package static func tableChecksum(_ table: UnsafeRawBufferPointer, salt: UInt64) -> UInt64 {
        Checksum.hash(table, seed: salt)
    }

    package static func bodyChecksum(_ body: UnsafeRawBufferPointer, salt: UInt64) -> UInt64 {
        Checksum.hash(body, seed: ~salt)
    }
}

package enum DecodedFrameHeader: Equatable, Sendable {
    case good(FrameHeader)
    /// The checksum is right, but a newer program wrote it.
    case unsupported(kind: UInt8, flags: UInt8)
    case bad

    /// The header; nil if none checks. Throws `unsupportedVersion` if a newer program wrote it.
    func header(at offset: UInt64) throws(StoreError) -> FrameHeader? {
        switch self {
        case .good(let header): return header
        case .unsupported(let kind, let flags):
            throw .newer("F8", "a frame is of kind \(kind) with flags \(flags)", offset: offset)
        case .bad: return nil
        }
    }
}

/// A whole frame in memory whose checksums are correct. Its bytes live as long as their owner.
package struct FrameView {
    package let offset: UInt64
    package let header: FrameHeader
    package let table: UnsafeRawBufferPointer
    package let body: UnsafeRawBufferPointer

    package init(offset: UInt64, header: FrameHeader, table: UnsafeRawBufferPointer, body: UnsafeRawBufferPointer) {
        (self.offset, self.header, self.table, self.body) = (offset, header, table, body)
    }

    /// The frame in `bytes`, all of it, after this header.
    init(_ bytes: UnsafeRawBufferPointer, header: FrameHeader, offset: UInt64) {
        let tableBytes = Int(header.tableBytes)
        assert(bytes.count >= Int(header.frameBytes), "A frame is made from a part of its bytes.")
        self.init(
            offset: offset, header: header, table: bytes.slice(FrameField.bytes, tableBytes),
            body: bytes.slice(FrameField.bytes + tableBytes, header.bodyBytes))
    }

    package var end: UInt64 { offset + UInt64(header.frameBytes) }

    /// All its bytes, header included. Requires a frame that was made from all of them.
    var bytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(
            start: table.baseAddress.unsafelyUnwrapped - FrameField.bytes, count: Int(header.frameBytes))
    }

    func tableMatches(salt: UInt64) -> Bool { FrameHeader.tableChecksum(table, salt: salt) == header.tableChecksum }

    func bodyMatches(salt: UInt64) -> Bool { FrameHeader.bodyChecksum(body, salt: salt) == header.bodyChecksum }

    func checksumsMatch(salt: UInt64) -> Bool { tableMatches(salt: salt) && bodyMatches(salt: salt) }

    /// The bytes of a row of this frame, from its start to the frame's end; nil if the entry has none.
    package func row(of change: ChangeView) -> UnsafeRawBufferPointer? {
        guard let row = change.rowOffset else { return nil }
        let start = row - FrameField.bytes - table.count
        return start >= 0 && start <= body.count ? body.slice(start, body.count - start) : nil
    }
}
