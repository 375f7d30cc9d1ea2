// Change entries: which object a transaction inserted, updated or deleted, and where its row is (FileFormat.md, "Transactions").

package enum ChangeField {
    package static let object = 0
    package static let row = 8
    package static let kind = 12
    package static let shape = 13
    package static let zero = 14
    package static let bytes = 16
    package static let previousBit: UInt8 = 0x80
    package static let maximumAttributeWords = 16
}

package enum ChangeKind: UInt8, CaseIterable, Sendable {
    /// A row without history, as compaction leaves it.
    case base = 0
    case insert = 1
    case update = 2
    case delete = 3
}

/// Where the version of an object before a change is.
package enum PreviousVersion: Equatable, Sendable {
    case row(offset: UInt64)
    /// A deletion has no row that counts: its change entry stands for it.
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

/// One change entry, looked at in its table.
package struct ChangeView {
    package let object: ObjectID
    package let kind: ChangeKind
    /// Where the entry is, from the frame's start.
    package let entryOffset: Int
    /// Where the row is, from the frame's start; nil where there is none.
    package let rowOffset: Int?
    package let previous: PreviousVersion?
    /// Where in the file the frame begins; 0 for a transaction in the making.
    package var frameOffset: UInt64 = 0
    /// The words of the attribute set.
    let attributeWords: UnsafeRawBufferPointer

    /// The size of the entry.
    package var entryBytes: Int { ChangeField.bytes + (previous == nil ? 0 : 8) + attributeWords.count }

    /// Positions, in the entity's attribute list, of the attributes that an update wrote.
    package var attributePositions: [Int] {
        var positions: [Int] = []
        for word in 0..<(attributeWords.count / 8) {
            var bits = attributeWords.integer(at: word * 8, as: UInt64.self)
            while bits != 0 {
                positions.append(word * 64 + bits.trailingZeroBitCount)
                bits &= bits - 1
            }
        }
        return positions
    }

    /// The highest of them; nil where there are none.
    package var lastAttributePosition: Int? {
        guard attributeWords.count >= 8 else { return nil }
        let last = attributeWords.integer(at: attributeWords.count - 8, as: UInt64.self)
        return attributeWords.count * 8 - 1 - last.leadingZeroBitCount
    }

    package func contains(attributePosition position: Int) -> Bool {
        guard position >= 0, position / 64 < attributeWords.count / 8 else { return false }
        return attributeWords.integer(at: position / 64 * 8, as: UInt64.self) >> UInt64(position % 64) & 1 == 1
    }
}

/// Walks the entries of a table and checks their form (F17).
package struct ChangeCursor {
    private let table: UnsafeRawBufferPointer
    private var position: Int
    private let frameBytes: Int
    private let allowsBase: Bool
    /// Where in the file the frame begins.
    private let frameOffset: UInt64

    /// `first` is where in the table the entries begin.
    package init(
        table: UnsafeRawBufferPointer, first: Int, frameBytes: Int, allowsBase: Bool, frameOffset: UInt64 = 0
    ) {
        self.table = table
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
    package mutating func next() throws(FileError) -> ChangeView? {
        let remaining = table.count - position
        if remaining == 0 { return nil }
        guard remaining >= ChangeField.bytes else { throw malformed("ends in the middle of an entry") }
        let shape = table.integer(at: position + ChangeField.shape, as: UInt8.self)
        let words = Int(shape & 0x1F)
        let hasPrevious = shape & ChangeField.previousBit != 0
        let bytes = ChangeField.bytes + (hasPrevious ? 8 : 0) + words * 8
        guard shape & 0x60 == 0, words <= ChangeField.maximumAttributeWords, remaining >= bytes,
            table.integer(at: position + ChangeField.zero, as: UInt16.self) == 0
        else { throw malformed("has an entry of an unknown shape") }
        guard let kind = ChangeKind(rawValue: table.integer(at: position + ChangeField.kind, as: UInt8.self)),
            let object = ObjectID(rawValue: table.integer(at: position + ChangeField.object, as: UInt64.self))
        else { throw malformed("has an entry of an unknown kind or of no object") }
        let row = Int(table.integer(at: position + ChangeField.row, as: UInt32.self))
        let previousOffset = position + ChangeField.bytes
        let wordsOffset = previousOffset + (hasPrevious ? 8 : 0)
        let change = ChangeView(
            object: object, kind: kind, entryOffset: FrameField.bytes + position, rowOffset: row == 0 ? nil : row,
            previous: hasPrevious
                ? PreviousVersion(rawValue: table.integer(at: previousOffset, as: UInt64.self)) : nil,
            frameOffset: frameOffset, attributeWords: table.slice(wordsOffset, words * 8))
        guard isComplete(change) else { throw malformed("has an entry that lacks what its kind asks for") }
        position += bytes
        return change
    }

    private func isComplete(_ change: ChangeView) -> Bool {
        let words = change.attributeWords
        if !words.isEmpty, words.integer(at: words.count - 8, as: UInt64.self) == 0 { return false }
        if let row = change.rowOffset {
            let body = FrameField.bytes + table.count
            guard row & 7 == 0, row >= body, row <= frameBytes - RowField.bytes else { return false }
        }
        if let previous = change.previous, previous.rawValue & 6 != 0 { return false }
        switch change.kind {
        case .base: return allowsBase && change.rowOffset != nil && change.previous == nil && words.isEmpty
        case .insert: return !allowsBase && change.rowOffset != nil && words.isEmpty
        case .update: return !allowsBase && change.rowOffset != nil && change.previous != nil && !words.isEmpty
        case .delete: return !allowsBase && change.previous != nil && words.isEmpty
        }
    }

    private func malformed(_ what: String) -> FileError {
        FileError(.damaged, "F17: a change table \(what).", offset: frameOffset &+ UInt64(FrameField.bytes + position))
    }
}

package enum RowsField {
    package static let entries = 0
    package static let zero = 4
    package static let bytes = 8
}
