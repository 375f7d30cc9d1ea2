// Change entries: which object a transaction inserted, updated or deleted, and where its row is (FileFormat.md,
// "Transactions").

package enum ChangeField {
    package static let object = 0
    package static let row = 8
    package static let kind = 12
    package static let shape = 13
    package static let zero = 14
    package static let bytes = 16
    package static let previousBit: UInt8 = 0x80
    package static let maximumAttributeWords = 16
    package static let maximumBytes = bytes + 8 + maximumAttributeWords * 8
}

package enum ChangeKind: UInt8, CaseIterable, Sendable {
    /// A row without history, as compaction leaves it.
    case base = 0
    case insert = 1
    case update = 2
    case delete = 3
}

/// The location of an object's version before a change.
package enum PreviousVersion: Equatable, Sendable {
    case row(offset: UInt64)
    /// A deletion has no row that counts: its change entry is the version.
    case deletion(entryOffset: UInt64)

    package init(rawValue: UInt64) {
        self = rawValue & 1 == 0 ? .row(offset: rawValue) : .deletion(entryOffset: rawValue & ~1)
    }

    package var rawValue: UInt64 {
        switch self {
        case .row(let offset): offset
        case .deletion(let entryOffset): entryOffset | 1
        }
    }
}

/// One change entry, read in place in its table. It is a few words that point there, because millions of them are
/// passed on.
///
/// Sound for entries that a cursor has checked, or that this process wrote. The caller must keep the table unchanged
/// while the view is used. Public for the same reason as `RowCells`.
package struct ChangeView {
    /// The entry's address in memory.
    let entry: UnsafeRawPointer
    /// The frame's offset in the file; 0 for a draft.
    package let frameOffset: UInt64
    private let entryPosition: UInt32
    private let rowPosition: UInt32

    /// The entry at `position` of a table; its row lies `rowShift` bytes after the offset that the entry names.
    @inline(__always)
    init(at position: Int, of table: UnsafeRawBufferPointer, frameOffset: UInt64 = 0, rowShift: Int = 0) {
        precondition(position >= 0 && position <= table.count &- ChangeField.bytes, "An entry lies in its table.")
        entry = table.baseAddress.unsafelyUnwrapped + position
        self.frameOffset = frameOffset
        entryPosition = UInt32(truncatingIfNeeded: FrameField.bytes &+ position)
        let row = UInt32(littleEndian: entry.loadUnaligned(fromByteOffset: ChangeField.row, as: UInt32.self))
        rowPosition = row == 0 ? 0 : row &+ UInt32(truncatingIfNeeded: rowShift)
    }

    /// The number of the object's ID, which was checked.
    @inline(__always)
    package var objectBits: UInt64 { UInt64(littleEndian: entry.loadUnaligned(as: UInt64.self)) }

    package var object: ObjectID { ObjectID(checked: objectBits) }

    @inline(__always)
    package var isUpdate: Bool { entry.load(fromByteOffset: 12, as: UInt8.self) == 2 }

    @inline(__always)
    package var isDeletion: Bool { entry.load(fromByteOffset: 12, as: UInt8.self) == 3 }

    package var kind: ChangeKind {
        ChangeKind(rawValue: entry.load(fromByteOffset: ChangeField.kind, as: UInt8.self)) ?? .base
    }

    /// The entry's offset from the frame's start.
    package var entryOffset: Int { Int(entryPosition) }

    /// The row's offset from the frame's start; nil without a row.
    package var rowOffset: Int? { rowPosition == 0 ? nil : Int(rowPosition) }

    package var previous: PreviousVersion? {
        hasPrevious ? PreviousVersion(rawValue: load8(ChangeField.bytes)) : nil
    }

    /// The size of the entry.
    package var entryBytes: Int { wordsOffset &+ wordCount &* 8 }

    private var shape: UInt8 { entry.load(fromByteOffset: ChangeField.shape, as: UInt8.self) }
    var hasPrevious: Bool { shape & ChangeField.previousBit != 0 }
    private var wordCount: Int { Int(shape & 0x1F) }
    /// 0 without a previous version.
    var previousWord: UInt64 { hasPrevious ? load8(ChangeField.bytes) : 0 }
    /// Only if there are words.
    var lastAttributeWord: UInt64 { load8(wordsOffset &+ (wordCount &- 1) &* 8) }
    private var wordsOffset: Int { ChangeField.bytes &+ (hasPrevious ? 8 : 0) }

    @inline(__always)
    private func load8(_ offset: Int) -> UInt64 {
        UInt64(littleEndian: entry.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    /// The words of the attribute set.
    var attributeWords: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: entry + wordsOffset, count: wordCount &* 8)
    }

    /// Positions, in the entity's attribute list, of the attributes that an update wrote.
    package var attributePositions: [Int] {
        var positions: [Int] = []
        for word in 0..<wordCount {
            var bits = attributeWords.integer(at: word * 8, as: UInt64.self)
            while bits != 0 {
                positions.append(word * 64 + bits.trailingZeroBitCount)
                bits &= bits - 1
            }
        }
        return positions
    }

    /// The highest changed position; nil if the entry has no attribute words.
    package var lastAttributePosition: Int? {
        guard wordCount > 0 else { return nil }
        let last = load8(wordsOffset &+ (wordCount &- 1) &* 8)
        return wordCount * 64 - 1 - last.leadingZeroBitCount
    }

    package func contains(attributePosition position: Int) -> Bool {
        guard position >= 0, position >> 6 < wordCount else { return false }
        return load8(wordsOffset &+ position >> 6 &* 8) >> UInt64(position & 63) & 1 == 1
    }
}

/// Walks the entries of a table and checks their form (F17).
package struct ChangeCursor {
    private let table: UnsafeRawBufferPointer
    private var position: Int
    private let frameBytes: Int
    private let allowsBase: Bool
    /// The frame's offset in the file.
    private let frameOffset: UInt64

    /// `first` is the offset of the first entry in the table.
    package init(
        table: UnsafeRawBufferPointer, first: Int, frameBytes: Int, allowsBase: Bool, frameOffset: UInt64 = 0
    ) {
        self.table = table
        assert(first >= 0, "Entries begin before their table.")
        self.position = min(first, table.count)
        self.frameBytes = frameBytes
        self.allowsBase = allowsBase
        self.frameOffset = frameOffset
    }

    package init(_ frame: FrameView) {
        let isRows = frame.header.kind == .rows
        self.init(
            table: frame.table, first: isRows ? RowsField.bytes : TransactionField.bytes,
            frameBytes: Int(frame.header.frameBytes), allowsBase: isRows, frameOffset: frame.offset)
    }

    /// The next entry, or nil at the end of the table. Throws `damaged`.
    @inline(__always)
    package mutating func next() throws(StoreError) -> ChangeView? {
        let remaining = table.count &- position
        if remaining == 0 { return nil }
        guard remaining >= ChangeField.bytes else { throw malformed("ends in the middle of an entry") }
        let change = ChangeView(at: position, of: table, frameOffset: frameOffset)
        let bytes = commonBytes(change, remaining)
        position &+= bytes > 0 ? bytes : try validate(change, remaining)
        return change
    }

    /// The size of a well-formed entry of a common form: an insert, or an update with one attribute word. 0 for all
    /// others, which `validate` checks.
    @inline(__always)
    private func commonBytes(_ change: ChangeView, _ remaining: Int) -> Int {
        // Kind, shape and the zero bytes after them are one word.
        let word = table.integer(at: position &+ ChangeField.kind, as: UInt32.self)
        let object = change.objectBits
        guard !allowsBase, object >> 48 != 0, object << 16 != 0, isRow(change.rowOffset ?? 0) else { return 0 }
        if word == UInt32(ChangeKind.insert.rawValue) { return ChangeField.bytes }
        guard word == Self.commonUpdate, remaining >= ChangeField.bytes &+ 16, change.previousWord & 6 == 0,
            change.lastAttributeWord != 0
        else { return 0 }
        return ChangeField.bytes &+ 16
    }

    /// Kind and shape of an update with a previous version and one attribute word.
    private static let commonUpdate = UInt32(ChangeKind.update.rawValue) | UInt32(ChangeField.previousBit | 1) << 8

    /// The entry forms that each kind allows, besides a row. A form is the kind, plus 4 with a previous version, plus 8
    /// with attribute words; each allowed form has a bit.
    private static let changeForms: UInt32 =
        1 << 1 | 1 << (1 | 4)  // insert
        | 1 << (2 | 4 | 8)  // update
        | 1 << (3 | 4)  // delete
    private static let baseForms: UInt32 = 1

    /// Returns the size of a well-formed entry.
    @inline(never)
    private func validate(_ change: ChangeView, _ remaining: Int) throws(StoreError) -> Int {
        // Kind, shape and the zero bytes after them are one word.
        let word = table.integer(at: position &+ ChangeField.kind, as: UInt32.self)
        let (kind, words, hasPrevious) = (word & 0xFF, Int(word >> 8 & 0x1F), word >> 15 & 1)
        let bytes = ChangeField.bytes &+ (Int(hasPrevious) &+ words) &* 8
        guard word & 0xFFFF_60FC == 0 else { throw newer(word, at: position) }
        guard words <= ChangeField.maximumAttributeWords, remaining >= bytes else {
            throw malformed("has an entry that is too long")
        }
        guard ObjectID(rawValue: change.objectBits) != nil else { throw malformed("has an entry without an object ID") }
        let form = kind | hasPrevious << 2 | (words > 0 ? 8 : 0)
        guard (allowsBase ? Self.baseForms : Self.changeForms) >> form & 1 == 1,
            change.rowOffset.map(isRow) ?? (kind == UInt32(ChangeKind.delete.rawValue)),
            change.previousWord & 6 == 0, words == 0 || change.lastAttributeWord != 0
        else { throw malformed("has an entry without a part that its kind requires") }
        return bytes
    }

    /// Whether a row can lie at this offset from the frame's start.
    @inline(__always)
    private func isRow(_ row: Int) -> Bool {
        row & 7 == 0 && row >= FrameField.bytes &+ table.count && row <= frameBytes &- RowField.bytes
    }

    /// Not inlined: every change is validated, and almost none throws.
    @inline(never)
    private func newer(_ word: UInt32, at position: Int) -> StoreError {
        .newer(
            "F17", "a change has kind \(word & 0xFF) and shape \(word >> 8)",
            offset: frameOffset &+ UInt64(FrameField.bytes + position))
    }

    @inline(never)
    private func malformed(_ what: String) -> StoreError {
        StoreError(.damaged, "F17: a change table \(what).", offset: frameOffset &+ UInt64(FrameField.bytes + position))
    }
}

package enum RowsField {
    package static let entries = 0
    package static let zero = 4
    package static let bytes = 8

    /// The number of entries in a rows frame, from its table. Throws `unsupportedVersion` if a newer program wrote the
    /// frame.
    static func entries(_ frame: FrameView) throws(StoreError) -> UInt32 {
        guard frame.table.count >= bytes else {
            throw StoreError(.damaged, "F17: the table of a rows frame has the wrong form.", offset: frame.offset)
        }
        guard frame.table.integer(at: zero, as: UInt32.self) == 0 else {
            throw .newer("F17", "a reserved field of a rows frame is in use", offset: frame.offset)
        }
        return frame.table.integer(at: entries, as: UInt32.self)
    }
}
