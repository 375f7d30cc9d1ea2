// The combined content of the frames up to a place: a fold over the log, the same for opening, following, writing and
// checking.
//
// Each of these is also a rule of FileFormat.md.
//
// Invariants:
// LG1  `end` is the end of the last complete group, and `endChecksum` the checksum of the frame that ends there.
// LG2  `reach` is the offset up to which frames were read: `end`, or above it inside a transaction whose commit frame
//      is not read yet.
// LG3  `durableMark` is the highest mark of any frame below `end`, and is at most `end`.

package struct LogState: Sendable {
    /// The fields that a commit changes. Copying them counts no references.
    package internal(set) var progress: LogProgress
    /// States are copied at every commit: rarely changed fields are in one object.
    private(set) var rare: SharedLogState
    private var unfinished: OpenTransactionBox?

    package var end: UInt64 { progress.end }
    package var endChecksum: UInt64 { progress.endChecksum }
    package var lastFrame: UInt64? { progress.lastFrame }
    package var durableMark: UInt64 { progress.durableMark }
    package var lastNumber: UInt64 { progress.lastNumber }
    package var lastTime: Int64 { progress.lastTime }
    package var lastTag: UInt64 { progress.lastTag }
    package var isSealed: Bool { progress.isSealed }
    package var isReplacing: Bool { progress.isReplacing }
    package var recoveries: Int { progress.recoveries }
    package var frames: UInt64 { progress.frames }
    package var checkpoint: CheckpointPlace? { progress.checkpoint }
    package var mayStepBack: Bool { progress.mayStepBack }

    /// The header of the file.
    package var header: FileHeader { rare.header }
    package var catalog: SchemaCatalog { rare.catalog }
    /// Author, context and process names; number n is at n - 1.
    package var names: [String] { rare.names }
    /// Which transactions history still returns, and which consumers need them.
    package var tracking: TrackingState { rare.tracking }
    /// Whether the file has no transaction yet except the base of compaction.
    package var isInBase: Bool { lastNumber == rare.header.baseNumber && rare.header.generation > 0 }
    package var features: FormatFeatures { rare.features }
    /// Whether this program may append to the file, if it may write at all.
    package var allowsWriting: Bool {
        !rare.stopsWriters && rare.features.allowsWriting && rare.header.allowsWriting
    }
    /// Whether a copy of the file would lack the mark that stops writers: it was not declared, and copies omit it.
    var stopsCopies: Bool { rare.stopsWriters && rare.features.allowsWriting && rare.header.allowsWriting }
    package var nameNumbers: NameNumbers { rare.nameNumbers }
    package var open: OpenTransaction? { unfinished?.transaction }
    var isInTransaction: Bool { unfinished != nil }
    package var reach: UInt64 { unfinished?.transaction.reach ?? end }
    /// The checksum that the next frame must name as the one before it.
    package var chainChecksum: UInt64 { unfinished?.transaction.checksum ?? endChecksum }
    package var schemaVersion: UInt16 { rare.catalog.newestVersion }
    /// The catalog for encoding rows of an open transaction, including its own schema frames.
    package var rowCatalog: SchemaCatalog { unfinished?.transaction.catalog ?? catalog }

    /// Sound although it is shared: it is changed only through a state that alone refers to it (`uniqueShared`), and
    /// for the same reason its accesses cannot overlap.
    final class SharedLogState: @unchecked Sendable {
        let header: FileHeader
        @exclusivity(unchecked) var catalog: SchemaCatalog
        @exclusivity(unchecked) var names: [String] = []
        @exclusivity(unchecked) var nameNumbers = NameNumbers()
        @exclusivity(unchecked) var tracking: TrackingState
        /// The later features that records and checkpoints below `reach` declare.
        @exclusivity(unchecked) var features = FormatFeatures.none
        /// Whether something that this program skips must be known by writers.
        @exclusivity(unchecked) var stopsWriters = false
        /// A large value of the base whose last piece is not read yet.
        @exclusivity(unchecked) var baseValue: OpenValue?

        init(header: FileHeader, _ layouts: LayoutPool?) {
            self.header = header
            catalog = SchemaCatalog(layouts: layouts, mark: header.storeID.mark)
            tracking = TrackingState(horizon: header.baseNumber)
        }

        init(copying other: SharedLogState) {
            header = other.header
            catalog = other.catalog
            names = other.names
            nameNumbers = other.nameNumbers
            tracking = other.tracking
            features = other.features
            stopsWriters = other.stopsWriters
            baseValue = other.baseValue
        }
    }

    /// Becomes another state of the same file, outside of transactions. Usually both have the same rare fields: then no
    /// reference is counted. Taken apart, because lending a whole state out of an object copies it.
    @inline(__always)
    mutating func become(_ progress: LogProgress, _ rare: SharedLogState) {
        self.progress = progress
        if self.rare !== rare { self.rare = rare }
        if unfinished != nil { unfinished = nil }
    }

    /// The fields for changing, after copying them if another state shares them.
    mutating func uniqueShared() -> SharedLogState {
        if !isKnownUniquelyReferenced(&rare) { rare = SharedLogState(copying: rare) }
        return rare
    }

    /// Sound although it is shared: it is changed only through a state that alone refers to it
    /// (`detachOpenTransaction`).
    private final class OpenTransactionBox: @unchecked Sendable {
        var transaction: OpenTransaction

        init(_ transaction: OpenTransaction) { self.transaction = transaction }
    }

    /// Removes the open transaction from the state, so that only the caller changes it.
    private mutating func detachOpenTransaction() -> OpenTransactionBox? {
        guard var taken = unfinished else { return nil }
        unfinished = nil
        return isKnownUniquelyReferenced(&taken) ? taken : OpenTransactionBox(taken.transaction)
    }

    /// A transaction whose commit frame is not read yet.
    package struct OpenTransaction: Sendable {
        package let start: UInt64
        package let number: UInt64
        fileprivate(set) package var reach: UInt64
        fileprivate(set) package var checksum: UInt64
        /// The mark of the last member: the transaction may be dropped and read again, so it is not the log's yet.
        fileprivate var durableMark: UInt64
        fileprivate var frames: UInt64 = 0
        fileprivate var schemaFrames: UInt64 = 0
        fileprivate var changes: UInt64 = 0
        /// The record of the first part, which the other parts and the commit frame repeat.
        fileprivate var record: TransactionRecord?
        /// The definitions of the schema frames read so far.
        fileprivate var schema: SchemaDefinition?
        /// The catalog with these, once the schema frames are complete.
        fileprivate var catalog: SchemaCatalog?
        fileprivate var value: OpenValue?
        /// Whether it has a frame that stops writers.
        fileprivate var stopsWriters = false
        /// Cursors that count with the transaction.
        fileprivate var consumers: [ConsumerRecord] = []
    }

    struct OpenValue: Sendable {
        var first: UInt64
        var valueBytes: UInt64
        var position: UInt64
        var pieceBytes: UInt32
    }

    package init(header: FileHeader, layouts: LayoutPool? = nil) {
        rare = SharedLogState(header: header, layouts)
        progress = LogProgress(header)
    }

    /// The state after a checkpoint frame, from the checkpoint's document. Throws `damaged` if the document contradicts
    /// itself.
    package init(
        header: FileHeader, checkpoint frame: FrameHeader, at offset: UInt64, pieces: Int,
        _ content: CheckpointContent, layouts: LayoutPool? = nil
    ) throws(StoreError) {
        self.init(header: header, layouts: layouts)
        guard content.number == frame.number, content.number >= header.baseNumber,
            content.horizon >= header.baseNumber, frame.kind == .checkpoint, frame.durableMark <= offset
        else { throw StoreError(.damaged, "F29: a checkpoint is out of place.", offset: offset) }
        for schema in content.schemas {
            do throws(StoreError) { try rare.catalog.apply(schema) } catch { throw error.under("F29") }
        }
        for name in content.names {
            rare.names.append(name)
            let number = UInt32(rare.names.count)
            guard rare.nameNumbers.insert(IdentifierName(name), number) else {
                throw StoreError(.damaged, "F29: a checkpoint contains a name twice.", offset: offset)
            }
        }
        rare.tracking = TrackingState(content)
        rare.features = content.features
        rare.stopsWriters = content.extensions.contains(where: \.stopsWriters)
        (progress.lastNumber, progress.lastTag, progress.lastTime) = (content.number, content.tag, content.time)
        (progress.recoveries, progress.frames, progress.mayStepBack) = (
            Int(clamping: content.recoveries), content.frames &+ UInt64(pieces) &+ 1, content.mayStepBack
        )
        progress.end = offset + UInt64(frame.frameBytes)
        progress.endChecksum = frame.checksum
        progress.lastFrame = offset
        progress.durableMark = frame.durableMark
        progress.checkpoint = CheckpointPlace(offset: offset, end: end, number: content.number)
        assert(durableMark <= end, "LG3: the durable mark is above the end.")
    }

    package enum Accepted: Sendable {
        case member
        case standalone
        case commit(TransactionRecord)
    }

    /// Accepts the next frame. Throws `damaged` (with the broken rule); the state is then unchanged, except that an
    /// open transaction is dropped.
    package mutating func accept(_ frame: FrameView) throws(StoreError) -> Accepted {
        do {
            let header = frame.header
            try validateMembership(header)
            try validateMark(header, offset: frame.offset)
            try require(
                rare.baseValue == nil || (header.kind == .value && !header.isMember), "F24: a value is incomplete")
            if header.isMember { return try acceptMember(frame) }
            if header.kind == .transaction { return try acceptCommit(frame) }
            return try acceptStandalone(frame)
        } catch {
            throw error.at(offset: frame.offset)
        }
    }

    func require(_ holds: Bool, _ message: @autoclosure () -> String) throws(StoreError) {
        if !holds { throw StoreError(.damaged, message() + ".") }
    }

    private func validateMembership(_ header: FrameHeader) throws(StoreError) {
        switch header.kind.membership {
        case .always: try require(header.isMember, "F8: this frame must be a member")
        case .alwaysButInBase: try require(header.isMember || isInBase, "F8: this frame must be a member")
        case .alwaysButWithRows:
            try require(header.isMember || progress.mayHoldRows, "F8: this frame must be a member")
        case .possibly: break
        case .never: try require(!header.isMember, "F8: this frame cannot be a member")
        }
    }

    private func validateMark(_ header: FrameHeader, offset: UInt64) throws(StoreError) {
        let start = unfinished?.transaction.start ?? offset
        try require(
            header.durableMark >= (unfinished?.transaction.durableMark ?? durableMark) && header.durableMark <= start,
            "F10: the durable mark is out of place")
        try require(header.kind != .seal || header.durableMark == offset, "F10: a seal's mark is not its offset")
    }

    // MARK: Members

    private mutating func acceptMember(_ frame: FrameView) throws(StoreError) -> Accepted {
        // The open transaction is changed in place, and dropped if the frame is refused.
        let next =
            detachOpenTransaction()
            ?? OpenTransactionBox(
                OpenTransaction(
                    start: frame.offset, number: lastNumber &+ 1, reach: frame.offset, checksum: 0,
                    durableMark: durableMark))
        try accept(member: frame, &next.transaction)
        unfinished = next
        assert(reach == frame.end && reach > end, "LG2: a member is not above the end.")
        return .member
    }

    private func accept(member frame: FrameView, _ next: inout OpenTransaction) throws(StoreError) {
        try require(frame.header.number == next.number, "F11: a member has another transaction's number")
        try require(next.value == nil || frame.header.kind == .value, "F24: a value is incomplete")
        if frame.header.kind == .schema { try accept(schema: frame, &next) } else { try settleSchema(&next) }
        switch frame.header.kind {
        case .part: try accept(part: frame, &next)
        case .value: next.value = try value(next.value, after: frame)
        case .consumer: next.consumers.append(try consumer(frame))
        default: break
        }
        next.reach = frame.end
        next.checksum = frame.header.checksum
        next.durableMark = frame.header.durableMark
        if frame.header.stopsWriters { next.stopsWriters = true }
        next.frames += 1
    }

    private func accept(part frame: FrameView, _ next: inout OpenTransaction) throws(StoreError) {
        let record = try TransactionRecord.decode(frame.table)
        try require(
            record.tag == 0 && record.totalChanges == 0 && !record.lacksChanges,
            "F13: a part frame has a tag or a total")
        try require(!record.changesSchema, "F16: a part frame has the schema flag")
        try validateTransaction(record, start: next.start, changes: next.changes, like: next.record)
        next.record = next.record ?? record
        try require(
            record.schemaVersion == (next.catalog ?? catalog).newestVersion,
            "F16: a part frame has another schema version")
        next.changes += UInt64(record.changes)
    }

    /// The missing rest of a large value after one more piece; nil if it is complete.
    private func value(_ open: OpenValue?, after frame: FrameView) throws(StoreError) -> OpenValue? {
        let piece = try ValuePiece.decode(frame)
        if let open {
            try require(
                piece.first == open.first && piece.valueBytes == open.valueBytes && piece.position == open.position,
                "F24: a piece does not follow the one before it")
            let isLast = piece.position + UInt64(piece.pieceBytes) == piece.valueBytes
            try require(
                piece.pieceBytes == open.pieceBytes || (isLast && piece.pieceBytes < open.pieceBytes),
                "F24: pieces of a value differ in size")
        } else {
            try require(piece.position == 0, "F24: a value does not begin with its first piece")
        }
        let reached = piece.position + UInt64(piece.pieceBytes)
        if reached == piece.valueBytes { return nil }
        return OpenValue(
            first: piece.first, valueBytes: piece.valueBytes, position: reached, pieceBytes: piece.pieceBytes)
    }

    private func accept(schema frame: FrameView, _ next: inout OpenTransaction) throws(StoreError) {
        try require(next.frames == (next.schemaFrames), "F16: a schema frame follows other members")
        var definition = try definition(frame)
        try require(
            definition.version == (next.schema?.version ?? definition.version),
            "F16: two schema versions in a transaction")
        try require(
            Int(definition.version) == Int(catalog.newestVersion) + 1,
            "F16: a schema version is not one more than the last")
        if var known = next.schema {
            try require(
                !definition.entities.isEmpty
                    && known.entities.count + definition.entities.count <= FormatLimits.maximumEntities,
                "F25: a schema version has frames without definitions, or too many definitions")
            // In place: a version may have many frames.
            next.schema = nil
            known.entities += definition.entities
            definition = known
        }
        next.schema = definition
        next.schemaFrames += 1
    }

    func definition(_ frame: FrameView) throws(StoreError) -> SchemaDefinition {
        try require(frame.body.isEmpty, "F25: a schema frame has a body")
        do throws(StoreError) {
            return try SchemaDefinition(table: frame.table, fileOffset: frame.offset + UInt64(FrameField.bytes))
        } catch {
            throw error.under("F25")
        }
    }

    /// Applies the schema frames of a transaction when its first frame of another kind follows.
    private func settleSchema(_ next: inout OpenTransaction) throws(StoreError) {
        guard let schema = next.schema, next.catalog == nil else { return }
        var changed = catalog
        do throws(StoreError) { try changed.apply(schema) } catch { throw error.under("F25") }
        next.catalog = changed
    }

    // MARK: Commit frames

    private mutating func acceptCommit(_ frame: FrameView) throws(StoreError) -> Accepted {
        let record = try TransactionRecord.decode(frame.table)
        let settled = detachOpenTransaction()
        if let settled { try settleSchema(&settled.transaction) }
        unfinished = settled
        try require(
            lastNumber < FormatLimits.maximumTransactionNumber && frame.header.number == lastNumber + 1,
            "F11: a transaction's number does not follow the last")
        if let settled {
            try validateCommit(record, endOf: settled.transaction)
        } else {
            try validateTransaction(record, start: frame.offset, changes: 0, like: nil)
            try validateTotals(record, changesInParts: 0, hasSchema: false, version: rare.catalog.newestVersion)
        }
        if !record.isCopied {
            let tag = TransactionRecord.tag(
                previousTag: lastTag, previousChecksum: frame.header.previousChecksum,
                bodyChecksum: frame.header.bodyChecksum, table: frame.table)
            try require(record.tag == tag, "F14: a transaction's tag does not match its content")
        }
        if let settled, !settled.transaction.consumers.isEmpty {
            let known = uniqueShared()
            for consumer in settled.transaction.consumers { try apply(consumer, known) }
        }
        if let catalog = settled?.transaction.catalog { uniqueShared().catalog = catalog }
        if let settled, settled.transaction.stopsWriters { uniqueShared().stopsWriters = true }
        close(with: frame, record)
        return .commit(record)
    }

    private func validateCommit(_ record: TransactionRecord, endOf open: OpenTransaction) throws(StoreError) {
        try require(open.value == nil, "F24: a value is incomplete")
        try validateTransaction(record, start: open.start, changes: open.changes, like: open.record)
        try validateTotals(
            record, changesInParts: open.changes, hasSchema: open.schema != nil,
            version: (open.catalog ?? catalog).newestVersion)
    }

    private func validateTotals(
        _ record: TransactionRecord, changesInParts: UInt64, hasSchema: Bool, version: UInt16
    ) throws(StoreError) {
        try require(
            record.totalChanges == changesInParts + UInt64(record.changes),
            "F13: a transaction's parts do not add up to its total")
        try require(
            record.isCopied || !record.lacksChanges, "F13: changes are missing in a transaction that was not copied")
        try require(record.changesSchema == hasSchema, "F16: the schema flag is wrong")
        try require(
            record.schemaVersion == version, "F16: a transaction does not have the newest schema version")
    }

    private func validateTransaction(
        _ record: TransactionRecord, start: UInt64, changes: UInt64, like first: TransactionRecord?
    ) throws(StoreError) {
        try require(record.start == start, "F13: a transaction does not begin where its record specifies")
        try require(record.firstChange == changes, "F13: a transaction's count of changes is wrong")
        try require(!record.isCopied || header.generation > 0, "F13: a copied transaction in generation 0")
        let last = max(record.author, record.context, record.process)
        try require(last <= rare.names.count, "F15: a frame refers to an undefined name")
        if let first {
            try require(record.time == first.time, "F12: the times of a transaction's frames differ")
            try require(record.hasOriginOf(first), "F13: the frames of a transaction name different writers")
        } else {
            try require(record.time > lastTime || mayStepBack, "F12: a transaction's time does not follow the last")
        }
    }

    // MARK: Standalone frames

    private mutating func acceptStandalone(_ frame: FrameView) throws(StoreError) -> Accepted {
        try require(unfinished == nil, "F9: a transaction's commit frame is missing")
        try require(frame.header.number == lastNumber, "F11: a frame does not have the last transaction's number")
        switch frame.header.kind {
        case .rows:
            try require(progress.mayHoldRows, "F8: rows without history follow frames that compaction has not written")
            _ = try RowsField.entries(frame)
        case .value: uniqueShared().baseValue = try value(rare.baseValue, after: frame)
        case .schema: try accept(baseSchema: frame)
        case .consumer: try apply(try consumer(frame), uniqueShared())
        case .cleaning: try accept(cleaning: frame)
        case .replacing: try accept(replacing: frame)
        case .skipped: if frame.header.stopsWriters { uniqueShared().stopsWriters = true }
        case .metadata: try accept(metadata: frame)
        case .recovery:
            _ = try RecoveryRecord.decode(frame)
            progress.recoveries += 1
        case .seal:
            let record = try SealRecord.decode(frame)
            try require(record.checkpoint < frame.offset, "F26: a seal refers to a checkpoint after itself")
        case .nodes, .checkpoint:
            try require(
                Int(frame.header.frameBytes) <= FormatLimits.maximumNodeFrameBytes, "F6: an index frame is too long")
            if frame.header.kind == .checkpoint {
                try accept(checkpoint: frame)
                progress.checkpoint = CheckpointPlace(offset: frame.offset, end: frame.end, number: lastNumber)
            }
        default: break
        }
        close(with: frame)
        return .standalone
    }

    /// The frame was accepted: a commit frame with its record, or a standalone frame.
    @inline(__always)
    mutating func close(with frame: FrameView, _ record: TransactionRecord? = nil) {
        assert(frame.offset == reach, "LG1: a frame does not follow the last one.")
        if let record {
            progress.lastNumber = frame.header.number
            progress.lastTime = record.time
            progress.lastTag = record.tag
            progress.mayStepBack = false
            progress.mayHoldRows = record.isCopied
        }
        progress.frames += 1
        if let open = unfinished {
            progress.frames += open.transaction.frames
            unfinished = nil
        }
        progress.lastFrame = frame.offset
        progress.end = frame.end
        progress.endChecksum = frame.header.checksum
        progress.durableMark = frame.header.durableMark
        progress.isSealed = frame.header.kind == .seal
        progress.isReplacing = frame.header.kind == .replacing
        assert(durableMark <= end, "LG3: the durable mark is above the end.")
    }

    /// A compacted file gets its name after its base is complete, so no writer leaves an incomplete one. Throws
    /// `damaged`.
    func requireWholeBase() throws(StoreError) {
        guard rare.baseValue != nil else { return }
        throw StoreError(
            .damaged,
            "F24: the compacted part ends in the middle of a large value. Restore the store from a backup, or salvage "
                + "it.",
            offset: end)
    }

    /// Forgets members whose commit frame never came: the groups that count end at `end`.
    package mutating func dropOpenTransaction() { unfinished = nil }
}
