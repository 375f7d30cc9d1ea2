// The record that begins the table of a transaction or part frame (FileFormat.md, "Transactions").

package enum TransactionField {
    package static let tag = 0
    package static let time = 8
    package static let start = 16
    package static let totalChanges = 24
    package static let changes = 32
    package static let processID = 36
    package static let author = 40
    package static let context = 44
    package static let process = 48
    package static let flags = 52
    package static let schemaVersion = 54
    package static let firstChange = 56
    package static let bytes = 64

    /// Requires a table that is not shorter than a record.
    @inline(__always)
    static func hasKnownFlags(_ table: UnsafeRawBufferPointer) -> Bool {
        table.integer(at: flags, as: UInt16.self) <= 7
    }

    /// Throws `unsupportedVersion` if a newer program wrote the transaction.
    static func requireKnown(_ table: UnsafeRawBufferPointer, _ offset: UInt64? = nil) throws(StoreError) {
        guard hasKnownFlags(table) else {
            throw .newer("F13", "a transaction has flags \(table.integer(at: flags, as: UInt16.self))", offset: offset)
        }
    }
}

package struct TransactionRecord: Equatable, Sendable {
    package var tag: UInt64 = 0
    /// Microseconds since 1970.
    package var time: Int64 = 0
    /// Offset of the transaction's first frame.
    package var start: UInt64 = 0
    /// In all frames; 0 in a part.
    package var totalChanges: UInt64 = 0
    /// In this frame.
    package var changes: UInt32 = 0
    package var processID: UInt32 = 0
    /// Name numbers, 0 for none.
    package var author: UInt32 = 0
    package var context: UInt32 = 0
    package var process: UInt32 = 0
    package var changesSchema = false
    package var isCopied = false
    /// Whether compaction has left out changes that have no history. False in a part.
    package var lacksChanges = false
    package var schemaVersion: UInt16 = 0
    /// Index in the transaction of this frame's first change.
    package var firstChange: UInt64 = 0

    package init() {}

    package func encode(into table: UnsafeMutableRawBufferPointer) {
        precondition(table.count >= TransactionField.bytes, "A transaction record needs 64 bytes.")
        table.store(tag, at: TransactionField.tag)
        table.store(time, at: TransactionField.time)
        table.store(start, at: TransactionField.start)
        table.store(totalChanges, at: TransactionField.totalChanges)
        table.store(changes, at: TransactionField.changes)
        table.store(processID, at: TransactionField.processID)
        table.store(author, at: TransactionField.author)
        table.store(context, at: TransactionField.context)
        table.store(process, at: TransactionField.process)
        let flags: UInt16 = (changesSchema ? 1 : 0) | (isCopied ? 2 : 0) | (lacksChanges ? 4 : 0)
        table.store(flags, at: TransactionField.flags)
        table.store(schemaVersion, at: TransactionField.schemaVersion)
        table.store(firstChange, at: TransactionField.firstChange)
    }

    package static func decode(_ table: UnsafeRawBufferPointer) throws(StoreError) -> TransactionRecord {
        guard table.count >= TransactionField.bytes else {
            throw StoreError(.damaged, "F13: a transaction's table is shorter than its record.")
        }
        try TransactionField.requireKnown(table)
        let flags = table.integer(at: TransactionField.flags, as: UInt16.self)
        var record = TransactionRecord()
        record.tag = table.integer(at: TransactionField.tag, as: UInt64.self)
        record.time = table.integer(at: TransactionField.time, as: Int64.self)
        record.start = table.integer(at: TransactionField.start, as: UInt64.self)
        record.totalChanges = table.integer(at: TransactionField.totalChanges, as: UInt64.self)
        record.changes = table.integer(at: TransactionField.changes, as: UInt32.self)
        record.processID = table.integer(at: TransactionField.processID, as: UInt32.self)
        record.author = table.integer(at: TransactionField.author, as: UInt32.self)
        record.context = table.integer(at: TransactionField.context, as: UInt32.self)
        record.process = table.integer(at: TransactionField.process, as: UInt32.self)
        record.changesSchema = flags & 1 != 0
        record.isCopied = flags & 2 != 0
        record.lacksChanges = flags & 4 != 0
        record.schemaVersion = table.integer(at: TransactionField.schemaVersion, as: UInt16.self)
        record.firstChange = table.integer(at: TransactionField.firstChange, as: UInt64.self)
        return record
    }

    /// Whether both name the same writer, as all frames of a transaction do.
    func hasOriginOf(_ other: TransactionRecord) -> Bool {
        author == other.author && context == other.context && process == other.process
            && processID == other.processID && isCopied == other.isCopied
    }

    /// The tag of a transaction when it is first written: a hash of its predecessor and its content.
    package static func tag(
        previousTag: UInt64, previousChecksum: UInt64, bodyChecksum: UInt64, table: UnsafeRawBufferPointer
    ) -> UInt64 {
        let before = (previousTag.littleEndian, previousChecksum.littleEndian, bodyChecksum.littleEndian)
        let seed = Swift.withUnsafeBytes(of: before) { Checksum.hash($0, seed: 0) }
        return Checksum.hash(UnsafeRawBufferPointer(rebasing: table[8...]), seed: seed)
    }
}
