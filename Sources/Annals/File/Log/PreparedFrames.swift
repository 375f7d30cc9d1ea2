// The log's input: a transaction's frames, complete except for fields that are known only under the writer lock.
//
// Invariants:
// PF1  A member in `spool` and the last frame are complete, apart from their headers, the transaction's record and the
//      references that `relocations` name.
// PF2  They are appended once, and only to the file whose salt their checksums have.

/// The frames of one transaction. A draft makes them; for one thread at a time.
///
/// Overlapping accesses to its own memory are not checked: a commit of one row would notice the cost.
package final class PreparedFrames {
    @exclusivity(unchecked) package var author: String? { didSet { origin = nil } }
    @exclusivity(unchecked) package var context: String? { didSet { origin = nil } }
    /// The log's numbers of these names, if they were looked up since the names were set.
    @exclusivity(unchecked) var origin: TransactionOrigin?
    /// The salt of their file.
    let salt: UInt64
    /// The frames before the last one, in order.
    @exclusivity(unchecked) var members: [PreparedFrame] = []
    /// The members' bytes.
    @exclusivity(unchecked) var spool: Spool
    /// The last frame; nil until the transaction is complete.
    @exclusivity(unchecked) var last: LastFrame?
    /// The number of changes in all frames.
    @exclusivity(unchecked) var changes: UInt64 = 0
    /// The schema version of the rows.
    @exclusivity(unchecked) var schemaVersion: UInt16
    /// The newest schema version when the draft was begun. The log must still have it.
    @exclusivity(unchecked) var baseSchemaVersion: UInt16
    @exclusivity(unchecked) var changesSchema = false
    /// The places of consumers after this commit.
    @exclusivity(unchecked) package var advances: [ConsumerAdvance] = []
    /// Whether they are in the store, or may be.
    @exclusivity(unchecked) var isCommitted = false

    init(salt: UInt64, spool: consuming Spool, schemaVersion: UInt16) {
        self.salt = salt
        self.spool = spool
        self.schemaVersion = schemaVersion
        baseSchemaVersion = schemaVersion
    }

    /// Sets both names, if they differ from the previous ones.
    func setOrigin(author: String?, context: String?) {
        if let origin, origin.isOrigin(of: author, context) { return }
        self.author = author
        self.context = context
    }
}

/// The last frame of a transaction. `bytes` begin with room for the header, and live until the draft changes or ends.
struct LastFrame {
    var bytes: UnsafeMutableRawBufferPointer
    var tableBytes: Int
    var bodyChecksum: UInt64
    /// The index of its first change, and the number of changes.
    var firstChange: UInt64
    var changes: UInt32
    var relocations: [Relocation]
}

/// A frame before the last one.
struct PreparedFrame {
    enum Content {
        case schema
        /// The number of the large value, and the offset of the piece in it.
        case value(Int, UInt64)
        /// The index of its first change, and the number of changes.
        case part(UInt64, UInt32)
    }

    var content: Content
    var spoolOffset: UInt64
    var frameBytes: UInt32
    var tableBytes: UInt32
    var bodyChecksum: UInt64
    var relocations: [Relocation]
}

/// A reference in a row to a value of the same transaction. Its offset becomes known when the value is appended.
struct Relocation {
    /// From the frame's start; while the frame grows, from its first row.
    var position: Int
    var value: Int
}

extension UnsafeMutableRawBufferPointer {
    func slice(_ offset: Int, _ count: Int) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(rebasing: self[offset..<(offset + count)])
    }
}
