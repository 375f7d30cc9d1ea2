// Writes frames after the end while the writer lock is held.
//
// Invariants:
// A1  `state` has accepted every frame that was written, in the same order, and only those unless an error was thrown.
// A2  Before a frame is written the file reaches one page beyond the frame's end.

/// Each handle has one, which begins again with each hold of the lock (`begin`).
///
/// Sound although `log` is not counted: the appender belongs to it. One thread at a time uses it, with the writer lock,
/// so its accesses to its own memory cannot overlap and are not checked.
package final class Appender {
    enum Tail {
        case clean
        case torn
    }

    private unowned(unsafe) let log: Log
    @exclusivity(unchecked) private(set) var state: LogState
    /// The end of the last complete group that was written.
    @exclusivity(unchecked) private(set) var writtenEnd: UInt64 = 0
    /// The least size of the file; 0 if unknown.
    @exclusivity(unchecked) private(set) var fileSize: UInt64 = 0
    @exclusivity(unchecked) private(set) var hasWritten = false
    /// The names of the appended transaction, for the next one, if they differ from those of the one before.
    @exclusivity(unchecked) private(set) var origin: TransactionOrigin?
    /// Whether the file refused a write: its bytes there are unknown.
    @exclusivity(unchecked) private(set) var writeFailed = false
    @exclusivity(unchecked) private var tail = Tail.clean
    /// Appended bytes that wait to be written; nil if each frame is written at once.
    @exclusivity(unchecked) private var gathered: GatheredFrames?
    /// The highest durable mark that is known; a frame's own is never above its group's start.
    @exclusivity(unchecked) private var mark: UInt64 = 0
    /// The wall clock's latest reading; nil if that is too long ago.
    @exclusivity(unchecked) private var time: Int64?

    init(_ log: Log, _ state: LogState) { (self.log, self.state) = (log, state) }

    /// Begins after the end that the handle knows, as if new. With `follow` locked.
    @inline(__always)
    func begin(tail: Tail, fileSize: UInt64, time: Int64) {
        assert(log.known.state.reach == log.known.state.end, "A1: writing begins inside a transaction.")
        state.become(log.known.state.progress, log.known.state.rare)
        writtenEnd = state.end
        (hasWritten, writeFailed) = (false, false)
        if origin != nil { origin = nil }
        if gathered != nil { gathered = nil }
        mark = max(log.ledger.mark, state.durableMark)
        (self.tail, self.fileSize, self.time) = (tail, fileSize, time)
        assert(mark <= writtenEnd, "LG3: the durable mark is above the end.")
    }

    /// Called after slow work under the lock: the next transaction reads the clock.
    func forgetTime() { time = nil }

    // MARK: Transactions

    func append(_ transaction: PreparedFrames) throws(StoreError) -> AppendedTransaction {
        guard let last = transaction.last else {
            preconditionFailure("A transaction must be complete before it is appended.")
        }
        assert(
            transaction.salt == log.header.salt && !transaction.isCommitted,
            "PF2: frames are appended twice, or to another file.")
        assert(last.bytes.count >= FrameField.bytes + last.tableBytes, "PF1: the last frame is not complete.")
        let consumers = transaction.advances.isEmpty ? [] : try state.records(for: transaction.advances, log)
        try recoverIfTorn()
        try reserve(
            transaction.spool.count + UInt64(last.bytes.count + consumers.count * ConsumerRecord.maximumFrameBytes))
        guard state.lastNumber < FormatLimits.maximumTransactionNumber else {
            throw StoreError(
                .tooLarge,
                "The last transaction has the highest possible number, so no transaction can follow: begin a new "
                    + "store.")
        }
        let (time, origin) = try settle(transaction)
        assert(time > state.lastTime || state.mayStepBack, "A transaction's time does not follow the last one.")
        let start = state.end
        var record = TransactionRecord()
        record.time = time
        record.start = start
        record.processID = log.processID
        (record.author, record.context, record.process) = (
            origin.authorNumber, origin.contextNumber, origin.processNumber
        )
        record.schemaVersion = transaction.schemaVersion
        let places = try appendMembers(of: transaction, record)
        for consumer in consumers { try append(consumer, isMember: true) }
        record.firstChange = last.firstChange
        record.changes = last.changes
        record.totalChanges = transaction.changes
        record.changesSchema = transaction.changesSchema
        let commitFrame = state.reach
        let body = try relocate(last.bytes, last.relocations, places, bodyChecksum: last.bodyChecksum, last.tableBytes)
        let table = last.bytes.slice(FrameField.bytes, last.tableBytes)
        record.encode(into: table)
        record.tag = TransactionRecord.tag(
            previousTag: state.lastTag, previousChecksum: state.chainChecksum, bodyChecksum: body,
            table: UnsafeRawBufferPointer(table))
        table.store(record.tag, at: TransactionField.tag)
        // Before it is written: OW1.
        log.ownTransactions.note(state.lastNumber + 1, tag: record.tag)
        _ = try append(
            last.bytes, kind: .transaction, isMember: false, tableBytes: last.tableBytes, bodyChecksum: body,
            number: state.lastNumber + 1, record: record)
        assert(state.reach == state.end && writtenEnd == state.end, "A1: a commit frame leaves its transaction open.")
        return AppendedTransaction(
            number: state.lastNumber, tag: record.tag, time: time, start: start, commitFrame: commitFrame,
            end: state.end)
    }

    /// The frames of a large value of the transaction.
    private struct ValuePlace {
        var first: UInt64
        var checksum: UInt64
    }

    private func appendMembers(
        of transaction: PreparedFrames, _ shared: TransactionRecord
    ) throws(StoreError) -> [ValuePlace] {
        guard !transaction.members.isEmpty else { return [] }
        var places: [ValuePlace] = []
        let largest = transaction.members.map(\.frameBytes).max() ?? 0
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(largest), alignment: 16)
        defer { buffer.deallocate() }
        for frame in transaction.members {
            let bytes = buffer.slice(0, Int(frame.frameBytes))
            try transaction.spool.read(at: frame.spoolOffset, into: bytes)
            try appendMember(bytes, frame, shared, &places)
        }
        return places
    }

    private func appendMember(
        _ bytes: UnsafeMutableRawBufferPointer, _ frame: PreparedFrame, _ shared: TransactionRecord,
        _ places: inout [ValuePlace]
    ) throws(StoreError) {
        let table = bytes.slice(FrameField.bytes, Int(frame.tableBytes))
        let offset = state.reach
        assert(frame.frameBytes >= UInt32(FrameField.bytes) + frame.tableBytes, "PF1: a member is not complete.")
        var kind = FrameKind.schema
        var bodyChecksum = frame.bodyChecksum
        switch frame.content {
        case .schema: break
        case .value(let index, let position):
            kind = .value
            assert(
                position == 0 ? index == places.count : index < places.count, "PF1: a large value is out of its order.")
            table.store(position == 0 ? offset : places[index].first, at: ValueField.first)
        case .part(let first, let changes):
            kind = .part
            var record = shared
            record.firstChange = first
            record.changes = changes
            record.encode(into: table)
            bodyChecksum = try relocate(
                bytes, frame.relocations, places, bodyChecksum: bodyChecksum, Int(frame.tableBytes))
        }
        let header = try append(
            bytes, kind: kind, isMember: true, tableBytes: Int(frame.tableBytes), bodyChecksum: bodyChecksum,
            number: state.lastNumber + 1)
        if case .value(_, 0) = frame.content {
            places.append(ValuePlace(first: offset, checksum: header.checksum))
        }
    }

    /// Sets references to their values' offsets. Returns the body's checksum after that.
    private func relocate(
        _ frame: UnsafeMutableRawBufferPointer, _ relocations: [Relocation], _ places: [ValuePlace],
        bodyChecksum: UInt64, _ tableBytes: Int
    ) throws(StoreError) -> UInt64 {
        if relocations.isEmpty { return bodyChecksum }
        for relocation in relocations {
            guard relocation.value < places.count else {
                throw StoreError(.invalidArgument, "A row refers to a large value of another transaction.")
            }
            let place = places[relocation.value]
            frame.store(place.first, at: relocation.position + ReferenceField.offset)
            frame.store(place.checksum, at: relocation.position + ReferenceField.checksum)
        }
        return self.bodyChecksum(frame, tableBytes)
    }

    /// Settles the transaction's time and name numbers; first writes the frames that these need.
    @inline(__always)
    private func settle(_ transaction: PreparedFrames) throws(StoreError) -> (Int64, TransactionOrigin) {
        let now = self.time ?? log.environment.wallClockMicroseconds()
        // Usually the transaction has the names of the one before it.
        if now > state.lastTime, let last = log.writing.lastOrigin, last === transaction.origin { return (now, last) }
        return try settle(transaction, at: now)
    }

    @inline(never)
    private func settle(_ transaction: PreparedFrames, at now: Int64) throws(StoreError) -> (Int64, TransactionOrigin) {
        var table: [UInt8] = []
        var time = now
        if now <= state.lastTime {
            if isClockStep(from: state.lastTime, to: now) {
                MetadataRecord.clockStep(from: state.lastTime, to: now).append(to: &table)
            } else {
                guard state.lastTime < .max else {
                    throw StoreError(
                        .tooLarge, "The last transaction has the latest possible time: correct the clock.")
                }
                time = state.lastTime + 1
            }
        }
        let origin = try settleOrigin(transaction, &table)
        if !table.isEmpty { try appendStandalone(.metadata, table: table) }
        return (time, origin)
    }

    private func settleOrigin(
        _ transaction: PreparedFrames, _ table: inout [UInt8]
    ) throws(StoreError) -> TransactionOrigin {
        if let last = log.writing.lastOrigin,
            last === transaction.origin || last.isOrigin(of: transaction.author, transaction.context)
        {
            transaction.origin = last
            return last
        }
        var added: [IdentifierName] = []
        let origin = TransactionOrigin(
            author: transaction.author, context: transaction.context,
            authorNumber: try number(of: transaction.author, &added, &table),
            contextNumber: try number(of: transaction.context, &added, &table),
            processNumber: try number(of: log.processName, &added, &table))
        self.origin = origin
        return origin
    }

    private func number(
        of name: String?, _ added: inout [IdentifierName], _ table: inout [UInt8]
    ) throws(StoreError) -> UInt32 {
        guard let text = name, !text.isEmpty else { return 0 }
        let name = IdentifierName(text)
        if let number = state.nameNumbers[name] { return number }
        if let index = added.firstIndex(of: name) { return UInt32(state.names.count + index + 1) }
        guard text.utf8.count <= FormatLimits.maximumNameBytes else {
            throw StoreError(
                .tooLarge,
                "A name may have at most \(FormatLimits.maximumNameBytes) bytes, and this one has "
                    + "\(text.utf8.count): shorten it.")
        }
        guard state.names.count + added.count < FormatLimits.maximumNames else {
            throw StoreError(
                .tooLarge,
                "The store already holds \(FormatLimits.maximumNames) different names of authors, contexts and "
                    + "processes, the maximum: clean history and compact the store, which frees unused names."
            )
        }
        added.append(name)
        let number = UInt32(state.names.count + added.count)
        MetadataRecord.name(number: number, text: text).append(to: &table)
        return number
    }

    // MARK: Other frames

    /// Overwrites a torn tail, beginning with a frame whose random number no dropped frame can follow.
    func recoverIfTorn() throws(StoreError) {
        if tail == .torn { try recover() }
    }

    @inline(never)
    private func recover() throws(StoreError) {
        fileSize = try log.fileSize()
        let droppedBytes = fileSize > state.end ? fileSize - state.end : 0
        try reserve(0)
        tail = .clean
        let record = RecoveryRecord(
            random: log.environment.random(), droppedBytes: droppedBytes,
            time: log.environment.wallClockMicroseconds())
        try appendStandalone(.recovery, table: record.encoded())
        // A power failure must not keep the following zeros and lose the frame: if the tear was in zeros, the tail
        // would be whole again.
        try log.ledger.keepOrder()
        if fileSize > state.end + UInt64(FormatLimits.pageBytes) {
            // Frees the space of a torn tail; failing to is no error. Not before the recovery frame is written: G4.
            assert(hasWritten, "G4: a file is cut before its recovery frame is written.")
            try? log.files.setSize(log.file, to: state.end + UInt64(FormatLimits.pageBytes))
            fileSize = try log.fileSize()
        }
        try clearTornTail(to: fileSize)
    }

    /// Overwrites the rest of a torn tail with zeros: otherwise it would follow the end of a sealed file (F27). Call
    /// only with the recovery frame below it: then no byte of it can ever count, wherever a crash interrupts this.
    private func clearTornTail(to tornEnd: UInt64) throws(StoreError) {
        var position = state.end
        let zeros = [UInt8](repeating: 0, count: Int(min(UInt64(1 << 16), tornEnd > position ? tornEnd - position : 0)))
        while position < tornEnd {
            assert(position >= state.end, "G3: a byte below the end is overwritten.")
            let count = min(UInt64(zeros.count), tornEnd - position)
            var failure: StoreError?
            zeros.withUnsafeBytes { bytes in
                do throws(StoreError) {
                    try log.write(bytes.slice(0, Int(count)), at: position)
                } catch { failure = error }
            }
            if let failure {
                writeFailed = true
                throw failure
            }
            position += count
        }
    }

    /// Marks the store as cleanly closed. Requires that everything below is durable.
    func seal() throws(StoreError) {
        let record = SealRecord(
            time: log.environment.wallClockMicroseconds(), checkpoint: state.checkpoint?.offset ?? 0)
        try reserve(0)
        assert(state.reach == state.end, "LG2: a seal is written inside a transaction.")
        try appendStandalone(.seal, table: record.encoded(), mark: state.end)
    }

    /// Makes room for frames outside of transactions.
    func prepare(bytes: UInt64) throws(StoreError) {
        try recoverIfTorn()
        try reserve(bytes)
    }

    /// The new place of a consumer: on its own, or as a member of a transaction.
    func append(_ consumer: ConsumerRecord, isMember: Bool) throws(StoreError) {
        let table = consumer.encoded()
        guard isMember else { return try appendStandalone(.consumer, table: table) }
        try withFrame(table) { (bytes) throws(StoreError) in
            _ = try append(
                bytes, kind: .consumer, isMember: true, tableBytes: table.count,
                bodyChecksum: bodyChecksum(bytes, table.count), number: state.lastNumber + 1)
        }
    }

    /// Appends a frame with only a table, outside of transactions.
    func appendStandalone(_ kind: FrameKind, table: [UInt8], mark: UInt64? = nil) throws(StoreError) {
        try withFrame(table) { (bytes) throws(StoreError) in
            try appendStandalone(kind, bytes, tableBytes: table.count, mark: mark)
        }
    }

    /// The same for a frame that is complete except for its header.
    func appendStandalone(
        _ kind: FrameKind, _ bytes: UnsafeMutableRawBufferPointer, tableBytes: Int, mark: UInt64? = nil
    ) throws(StoreError) {
        _ = try append(
            bytes, kind: kind, isMember: false, tableBytes: tableBytes, bodyChecksum: bodyChecksum(bytes, tableBytes),
            number: state.lastNumber, mark: mark)
    }

    private func bodyChecksum(_ bytes: UnsafeMutableRawBufferPointer, _ tableBytes: Int) -> UInt64 {
        let front = FrameField.bytes + tableBytes
        return FrameHeader.bodyChecksum(
            UnsafeRawBufferPointer(bytes.slice(front, bytes.count - front)), salt: log.header.salt)
    }

    /// Calls `body` with the bytes and room for a header in front of them.
    private func withFrame(
        _ content: [UInt8], _ body: (UnsafeMutableRawBufferPointer) throws(StoreError) -> Void
    ) throws(StoreError) {
        var bytes = [UInt8](repeating: 0, count: FrameField.bytes) + content
        var failure: StoreError?
        bytes.withUnsafeMutableBytes { bytes in
            do throws(StoreError) { try body(bytes) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    // MARK: Copying

    /// Appends a frame that is complete except for its header, in a file that no other handle has open. From then on,
    /// `flush` writes the appended frames.
    ///
    /// Returns the header. Requires room from `prepare`.
    func append(
        copied bytes: UnsafeMutableRawBufferPointer, kind: FrameKind, isMember: Bool, tableBytes: Int
    ) throws(StoreError) -> FrameHeader {
        if gathered == nil { gathered = GatheredFrames(at: state.reach) }
        let number = isMember || kind == .transaction ? state.lastNumber + 1 : state.lastNumber
        return try append(
            bytes, kind: kind, isMember: isMember, tableBytes: tableBytes,
            bodyChecksum: bodyChecksum(bytes, tableBytes), number: number)
    }

    /// Makes more room, in the middle of a transaction that is being copied.
    func prepareMore(_ bytes: UInt64) throws(StoreError) { try reserve(state.reach - state.end + bytes * 2) }

    /// Writes the gathered frames.
    func flush() throws(StoreError) {
        guard let gathered else { return }
        self.gathered = nil
        try write(gathered.bytes, at: gathered.offset)
    }

    // MARK: Writing

    @inline(__always)
    private func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(StoreError) {
        do throws(StoreError) {
            try log.write(bytes, at: offset)
        } catch {
            writeFailed = true
            throw error
        }
    }

    /// Completes a frame's header, adds the frame to the state and writes it. `record` is that of a commit frame.
    @inline(__always)
    private func append(
        _ bytes: UnsafeMutableRawBufferPointer, kind: FrameKind, isMember: Bool, tableBytes: Int, bodyChecksum: UInt64,
        number: UInt64, mark: UInt64? = nil, record: TransactionRecord? = nil
    ) throws(StoreError) -> FrameHeader {
        let table = UnsafeRawBufferPointer(bytes.slice(FrameField.bytes, tableBytes))
        let front = FrameField.bytes + tableBytes
        let offset = state.reach
        var header = FrameHeader(
            kind: kind, isMember: isMember, frameBytes: UInt32(bytes.count), tableBytes: UInt32(tableBytes),
            number: number, durableMark: mark ?? self.mark, previousChecksum: state.chainChecksum,
            tableChecksum: FrameHeader.tableChecksum(table, salt: log.header.salt), bodyChecksum: bodyChecksum)
        header.encode(into: bytes, offset: offset, salt: log.header.salt)
        let frame = FrameView(
            offset: offset, header: header, table: table,
            body: UnsafeRawBufferPointer(bytes.slice(front, bytes.count - front)))
        assert(
            fileSize >= offset + UInt64(bytes.count + FormatLimits.pageBytes),
            "A2: the file does not reach beyond a frame's end.")
        // Changed in place. After an error only the end of the frames written before still counts.
        writtenEnd = state.end
        if let record { try state.accept(own: frame, record) } else { _ = try state.accept(frame) }
        hasWritten = true
        if let gathered {
            assert(
                gathered.offset + UInt64(gathered.bytes.count) == offset,
                "A1: gathered frames do not follow each other.")
            gathered.append(UnsafeRawBufferPointer(bytes))
            if gathered.isFull {
                try write(gathered.bytes, at: gathered.offset)
                gathered.goOn()
            }
        } else {
            try write(UnsafeRawBufferPointer(bytes), at: offset)
        }
        writtenEnd = state.end
        return header
    }

    /// Makes the file reach one page beyond the coming frames, and a step further if that is cheap.
    private func reserve(_ bytes: UInt64) throws(StoreError) {
        let limits = log.limits
        // Names, a clock step, a recovery frame and a seal are small.
        let small: UInt64 = 8192
        let needed = state.end + bytes + small + UInt64(FormatLimits.pageBytes)
        guard needed < FormatLimits.maximumFileBytes else {
            throw StoreError(
                .tooLarge,
                "A store file may have at most \(FormatLimits.maximumFileBytes) bytes: clean history and compact the "
                    + "store.")
        }
        if fileSize >= needed { return }
        // Another handle may have extended it, and its reserved space must not be cut.
        fileSize = try log.fileSize()
        if fileSize >= needed { return }
        let step = min(max(state.end / 32, limits.minimumPreallocationBytes), limits.maximumPreallocationBytes)
        if bytes <= step {
            do throws(StoreError) {
                try log.files.allocate(log.file, offset: fileSize, count: needed + step - fileSize)
                fileSize = needed + step
                return
            } catch {
                // Space that cannot be reserved may still be writable; otherwise the write throws the reason.
            }
        }
        try log.files.setSize(log.file, to: needed)
        fileSize = needed
    }
}
