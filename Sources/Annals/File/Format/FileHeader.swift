// The header page: a store file's description of itself, written once, and the two hint slots (FileFormat.md, "The
// header page").

package enum HeaderField {
    package static let magic = 0
    package static let readVersion = 8
    package static let writeVersion = 10
    package static let headerBytes = 12
    package static let storeID = 16
    package static let generation = 32
    package static let salt = 40
    package static let created = 48
    package static let baseNumber = 56
    package static let baseTag = 64
    package static let baseTime = 72
    package static let zero = 80
    package static let checksum = 120
    package static let bytes = 128
}

package struct FileHeader: Equatable, Sendable {
    package var storeID: UUIDBytes
    /// Counts compactions.
    package var generation: UInt64
    package var salt: UInt64
    /// Microseconds since 1970.
    package var created: Int64
    /// The last transaction folded into the rows that compaction left.
    package var baseNumber: UInt64
    package var baseTag: UInt64
    package var baseTime: Int64
    /// The format versions that a reader and a writer must know. Copies of a file keep them.
    package private(set) var readVersion = FormatLimits.readVersion
    package private(set) var writeVersion = FormatLimits.writeVersion
    /// The page as a newer program wrote it, with fields that this program may not know; nil for other pages.
    private var newerPage: [UInt8]?

    package init(
        storeID: UUIDBytes, generation: UInt64 = 0, salt: UInt64, created: Int64, baseNumber: UInt64 = 0,
        baseTag: UInt64 = 0, baseTime: Int64 = .min
    ) {
        (self.storeID, self.generation, self.salt, self.created) = (storeID, generation, salt, created)
        (self.baseNumber, self.baseTag, self.baseTime) = (baseNumber, baseTag, baseTime)
    }

    static let magic: [UInt8] = [0x89, 0x41, 0x4E, 0x4E, 0x41, 0x4C, 0x53, 0x0A]

    /// The checksum of the page, which the first frame names as the one before it.
    package var checksum: UInt64 {
        encoded().withUnsafeBytes { page in page.integer(at: HeaderField.checksum, as: UInt64.self) }
    }

    /// This header with the versions of another file, and with the parts of its page that only newer programs know.
    package func keeping(_ other: FileHeader) -> FileHeader {
        var kept = self
        (kept.readVersion, kept.writeVersion, kept.newerPage) = (other.readVersion, other.writeVersion, other.newerPage)
        return kept
    }

    /// The whole page, hint slots empty.
    package func encoded() -> [UInt8] {
        var page = newerPage ?? [UInt8](repeating: 0, count: FormatLimits.pageBytes)
        page.withUnsafeMutableBytes { bytes in
            bytes.copyBytes(from: Self.magic)
            bytes.store(readVersion, at: HeaderField.readVersion)
            bytes.store(writeVersion, at: HeaderField.writeVersion)
            bytes.store(UInt32(FormatLimits.pageBytes), at: HeaderField.headerBytes)
            bytes.store(storeID.high.bigEndian, at: HeaderField.storeID)
            bytes.store(storeID.low.bigEndian, at: HeaderField.storeID + 8)
            bytes.store(generation, at: HeaderField.generation)
            bytes.store(salt, at: HeaderField.salt)
            bytes.store(created, at: HeaderField.created)
            bytes.store(baseNumber, at: HeaderField.baseNumber)
            bytes.store(baseTag, at: HeaderField.baseTag)
            bytes.store(baseTime, at: HeaderField.baseTime)
            let covered = UnsafeRawBufferPointer(rebasing: bytes[..<HeaderField.checksum])
            bytes.store(Checksum.hash(covered, seed: 0), at: HeaderField.checksum)
        }
        return page
    }

    /// Reads the page of a store file (F1, F2; it ignores the hint slots).
    ///
    /// Throws `notAStore`, `unsupportedVersion` or `damaged`.
    package static func decode(_ page: UnsafeRawBufferPointer) throws(StoreError) -> FileHeader {
        guard page.count >= magic.count, page.prefix(magic.count).elementsEqual(magic) else {
            throw StoreError(
                .notAStore,
                "This is not an Annals store: the file does not begin with the header of one. Check the "
                    + "path.", offset: 0)
        }
        guard page.count >= FormatLimits.pageBytes else {
            throw StoreError(
                .truncated, "The store file ends within its header page: restore it from a backup.",
                offset: UInt64(page.count))
        }
        let readVersion = page.integer(at: HeaderField.readVersion, as: UInt16.self)
        let writeVersion = page.integer(at: HeaderField.writeVersion, as: UInt16.self)
        let expected = page.integer(at: HeaderField.checksum, as: UInt64.self)
        let isIntact = expected == Checksum.hash(.init(rebasing: page[..<HeaderField.checksum]), seed: 0)
        if isIntact, readVersion == 0 || readVersion > FormatLimits.readVersion {
            throw StoreError(
                .unsupportedVersion,
                "The store has format version \(readVersion), but this program reads only version "
                    + "\(FormatLimits.readVersion): a newer version of Annals or a draft wrote it. Use that version.",
                offset: UInt64(HeaderField.readVersion))
        }
        guard isIntact, writeVersion >= readVersion,
            page.integer(at: HeaderField.headerBytes, as: UInt32.self) == UInt32(FormatLimits.pageBytes)
        else {
            throw StoreError(.damaged, "F1: the header page is damaged: restore the store from a backup.", offset: 0)
        }
        let isNewer = writeVersion > FormatLimits.writeVersion
        if !isNewer, let offset = firstStrayByte(page) {
            // The checksum covers only these bytes.
            guard offset >= HeaderField.bytes else {
                throw .newer("F2", "a reserved field of the header page is in use", offset: UInt64(offset))
            }
            throw StoreError(
                .damaged, "F2: the header page has a byte that is not zero but must be.", offset: UInt64(offset))
        }
        var header = FileHeader(
            storeID: UUIDBytes(
                high: UInt64(bigEndian: page.integer(at: HeaderField.storeID, as: UInt64.self)),
                low: UInt64(bigEndian: page.integer(at: HeaderField.storeID + 8, as: UInt64.self))),
            generation: page.integer(at: HeaderField.generation, as: UInt64.self),
            salt: page.integer(at: HeaderField.salt, as: UInt64.self),
            created: page.integer(at: HeaderField.created, as: Int64.self),
            baseNumber: page.integer(at: HeaderField.baseNumber, as: UInt64.self),
            baseTag: page.integer(at: HeaderField.baseTag, as: UInt64.self),
            baseTime: page.integer(at: HeaderField.baseTime, as: Int64.self))
        (header.readVersion, header.writeVersion) = (readVersion, writeVersion)
        if isNewer { header.newerPage = withoutHints(page) }
        guard header.generation > 0 || header.baseNumber == 0 else {
            throw StoreError(
                .damaged, "F1: a store that was never compacted has a base transaction.",
                offset: UInt64(HeaderField.baseNumber))
        }
        guard header.baseNumber > 0 || (header.baseTag == 0 && header.baseTime == .min) else {
            throw StoreError(
                .damaged, "F1: the header page has the tag or time of a transaction 0, which does not exist.",
                offset: UInt64(HeaderField.baseTag))
        }
        guard header.baseNumber <= FormatLimits.maximumTransactionNumber else {
            throw StoreError(
                .damaged, "F1: the header page has an impossible transaction number.",
                offset: UInt64(HeaderField.baseNumber))
        }
        return header
    }

    /// The tag of a transaction that is not above the base; nil if compaction has folded it together with its tag.
    func tag(ofFolded number: UInt64) -> UInt64? {
        if number == baseNumber { return baseTag }
        return number == 0 ? 0 : nil
    }

    /// Whether the header page allows a program of this version to write to the file.
    var allowsWriting: Bool { writeVersion <= FormatLimits.writeVersion }

    private static func withoutHints(_ page: UnsafeRawBufferPointer) -> [UInt8] {
        var bytes = Array(page.prefix(FormatLimits.pageBytes))
        for slot in HintField.slots {
            bytes.replaceSubrange(slot..<slot + HintField.bytes, with: repeatElement(0, count: HintField.bytes))
        }
        return bytes
    }

    private static func firstStrayByte(_ page: UnsafeRawBufferPointer) -> Int? {
        // Not an array of ranges: registering that type with the runtime takes a tenth of the time of opening a store.
        func strayByte(_ start: Int, _ end: Int) -> Int? { (start..<end).first { page[$0] != 0 } }
        return strayByte(HeaderField.zero, HeaderField.checksum)
            ?? strayByte(HeaderField.bytes, HintField.slots[0])
            ?? strayByte(HintField.slots[0] + HintField.bytes, HintField.slots[1])
            ?? strayByte(HintField.slots[1] + HintField.bytes, FormatLimits.pageBytes)
    }
}

package enum HintField {
    package static let sequence = 0
    package static let checkpoint = 8
    package static let durableEnd = 16
    package static let number = 24
    package static let zero = 32
    package static let checksum = 56
    package static let bytes = 64
    /// The offsets of the slots, each in a sector of its own.
    package static let slots = [512, 1024]
}

/// An offset that was durable when the hint was written. Never trusted for data.
package struct Hint: Equatable, Sendable {
    package var sequence: UInt64
    package var checkpoint: UInt64
    package var durableEnd: UInt64
    package var number: UInt64

    package init(sequence: UInt64, checkpoint: UInt64, durableEnd: UInt64, number: UInt64) {
        (self.sequence, self.checkpoint, self.durableEnd, self.number) = (sequence, checkpoint, durableEnd, number)
    }

    /// The slot of this hint: hints alternate between the slots.
    package var slotOffset: Int { HintField.slots[Int(sequence % 2)] }

    package func encoded(salt: UInt64) -> [UInt8] {
        var slot = [UInt8](repeating: 0, count: HintField.bytes)
        slot.withUnsafeMutableBytes { bytes in
            bytes.store(sequence, at: HintField.sequence)
            bytes.store(checkpoint, at: HintField.checkpoint)
            bytes.store(durableEnd, at: HintField.durableEnd)
            bytes.store(number, at: HintField.number)
            let covered = UnsafeRawBufferPointer(rebasing: bytes[..<HintField.checksum])
            bytes.store(Checksum.hash(covered, seed: salt ^ UInt64(slotOffset)), at: HintField.checksum)
        }
        return slot
    }
}

/// The content of a hint slot.
package enum HintSlot: Equatable, Sendable {
    case empty
    case good(Hint)
    case bad

    /// Reads the slot at `index` (0 or 1) of a header page.
    package static func decode(_ page: UnsafeRawBufferPointer, index: Int, salt: UInt64) -> HintSlot {
        let offset = HintField.slots[index]
        guard page.count >= offset + HintField.bytes else { return .bad }
        let slot = UnsafeRawBufferPointer(rebasing: page[offset..<(offset + HintField.bytes)])
        if slot.allSatisfy({ $0 == 0 }) { return .empty }
        let covered = UnsafeRawBufferPointer(rebasing: slot[..<HintField.checksum])
        let hint = Hint(
            sequence: slot.integer(at: HintField.sequence, as: UInt64.self),
            checkpoint: slot.integer(at: HintField.checkpoint, as: UInt64.self),
            durableEnd: slot.integer(at: HintField.durableEnd, as: UInt64.self),
            number: slot.integer(at: HintField.number, as: UInt64.self))
        guard
            Checksum.hash(covered, seed: salt ^ UInt64(offset))
                == slot.integer(at: HintField.checksum, as: UInt64.self),
            slot[HintField.zero..<HintField.checksum].allSatisfy({ $0 == 0 }), hint.sequence > 0, hint.sequence < .max,
            hint.slotOffset == offset
        else { return .bad }
        return .good(hint)
    }

    /// The good hint of a page that was written last.
    package static func newest(in page: UnsafeRawBufferPointer, salt: UInt64) -> Hint? {
        var newest: Hint?
        for index in HintField.slots.indices {
            guard case .good(let hint) = decode(page, index: index, salt: salt) else { continue }
            if hint.sequence > newest?.sequence ?? 0 { newest = hint }
        }
        return newest
    }

    /// The highest durable end in the good hints of a page; 0 without any.
    static func durableEnd(in page: UnsafeRawBufferPointer, salt: UInt64) -> UInt64 {
        var highest: UInt64 = 0
        for index in HintField.slots.indices {
            if case .good(let hint) = decode(page, index: index, salt: salt) { highest = max(highest, hint.durableEnd) }
        }
        return highest
    }

    /// Both slots of a page.
    package static func decodeAll(_ page: UnsafeRawBufferPointer, salt: UInt64) -> [HintSlot] {
        HintField.slots.indices.map { decode(page, index: $0, salt: salt) }
    }
}
