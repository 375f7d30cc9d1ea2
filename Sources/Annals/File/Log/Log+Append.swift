// Appending: under the writer lock, adopt the frames of other handles, settle numbers and offsets, write, publish.

/// A transaction that is in the file.
package struct AppendedTransaction: Equatable, Sendable {
    package var number: UInt64
    package var tag: UInt64
    /// Microseconds since 1970.
    package var time: Int64
    /// Offset of its first frame, of its commit frame, and of its end.
    package var start: UInt64
    package var commitFrame: UInt64
    package var end: UInt64
}

extension Log {
    /// Appends a transaction, with the writer lock. Throws `invalidArgument` unless the frames are complete, for this
    /// file, and not in it already, and `schemaChanged` if their schema is no longer the newest.
    package func append(
        _ transaction: PreparedFrames, with appender: Appender
    ) throws(StoreError) -> AppendedTransaction {
        guard transaction.salt == header.salt, !transaction.isCommitted, transaction.last != nil else {
            throw StoreError(
                .invalidArgument,
                "A transaction can be committed once only, whole, and in its own store: begin another transaction.",
                path: path)
        }
        guard transaction.baseSchemaVersion == appender.state.schemaVersion else {
            throw StoreError(.schemaChanged, "Another process changed the schema: begin the transaction again.")
        }
        do throws(StoreError) {
            let appended = try appender.append(transaction)
            transaction.isCommitted = true
            return appended
        } catch {
            // The transaction may be in the file: no handle may commit it again, in any store.
            if appender.writeFailed, error.code == .inputOutput { transaction.isCommitted = true }
            throw error
        }
    }

    /// Writes a frame, or a part of one, with the writer lock.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(StoreError) {
        try files.writeAll(file, at: offset, bytes)
    }

    /// The present size of the file.
    func fileSize() throws(StoreError) -> UInt64 { try files.size(file) }

    /// Waits until everything below `end` is durable. Threads share syncs.
    package func makeDurable(through end: UInt64) throws(StoreError) {
        try whileOpen { () throws(StoreError) in
            if ledger.inherited != nil, durableEnd < end {
                try locked(.full, isHeld: true) { (_) throws(StoreError) in }
            }
            try synchronize(through: end)
        }
    }

    /// The same, for code that holds the handle open and has written the inherited part again.
    package func synchronize(through end: UInt64) throws(StoreError) {
        do throws(StoreError) { try ledger.makeDurable(through: end) } catch { throw error.at(path: path) }
    }

    /// Adopts frames of other handles, if there can be any. The first time, also judges all bytes above the end.
    @inline(never)
    func beginAppending(
        _ durability: Durability?, at time: Int64, isNewest: Bool
    ) throws(StoreError) -> Appender {
        try requireIdentity(always: durability == .full, at: time)
        follow.lock()
        defer { follow.unlock() }
        try requireWritable(known.state)
        var hasNews = true
        if known.isTailJudged { hasNews = isNewest ? false : try !isNothingNew() }
        if hasNews { try adoptBeforeAppending() }
        if !known.isTailJudged || known.state.isReplacing {
            // Before anything is removed: the temporary file beside a replaced file may belong to the compactor of
            // the new one.
            try requireIdentity()
            if hasNews { removeLeftover() }
        }
        known.isTailJudged = true
        assert(!known.isAppending, "G2: two appends are under way at once.")
        known.isAppending = true
        let appender = writing.appender ?? makeAppender()
        appender.begin(tail: known.isTailTorn ? .torn : .clean, fileSize: known.knownSize, time: time)
        return appender
    }

    @inline(never)
    private func makeAppender() -> Appender {
        let appender = Appender(self, known.state)
        writing.appender = appender
        return appender
    }

    @inline(never)
    private func adoptBeforeAppending() throws(StoreError) {
        if known.isTailJudged { writing.keeping.beginAnew() }
        if try !isJudgedTailAdopted() { known.isTailTorn = try adopt(asker: .judge).verdict == .tornTail }
        try requireWritable(known.state)
    }

    /// After this handle has judged the end once: adopts frames of other handles and returns whether nothing follows
    /// them. Then the end need not be judged again, which would read all bytes above it. Since the judgment only lock
    /// holders have written, one after another. A writer that died left at most an unfinished frame; one that died
    /// during recovery may also have left torn bytes. With `follow` locked.
    private func isJudgedTailAdopted() throws(StoreError) -> Bool {
        guard known.isTailJudged else { return false }
        let recoveries = known.state.recoveries
        _ = try adopt(asker: .follower)
        if known.state.recoveries > recoveries { return false }
        return try isNothingNew()
    }

    /// A lock on a file that is no longer the store would let two writers in. `now` is on the wall clock, which was
    /// read already: if that clock is set, the file is checked once more than necessary.
    @inline(never)
    func requireIdentity(always: Bool, at now: Int64) throws(StoreError) {
        if !always, let last = writing.lastIdentityCheck, now >= last, now &- last < 1000 { return }
        try requireIdentity()
        writing.lastIdentityCheck = now
    }

    /// Throws unless the name still leads to this file, and the file has no other name.
    func requireIdentity() throws(StoreError) {
        let found = try identityInPlace()
        guard found.links == 1 else {
            throw StoreError(
                .hardLinked,
                "The store file has \(found.links) names (hard links), and compaction would turn them into separate "
                    + "stores: remove the other names.")
        }
    }

    /// Writes the unproven bytes of an earlier process again, unchanged and at the same place, so that a sync proves
    /// them.
    func rewriteInheritedPart() throws(StoreError) {
        guard let range = ledger.inherited else { return }
        // The chain up to the end that was read at opening: its last checksum covers all of it.
        var position = range.lowerBound
        let window = ByteWindow(files, file, stepBytes: limits.windowBytes)
        defer { withExtendedLifetime(window) {} }
        let start = try window.bytes(at: position, count: FrameField.bytes)
        var previousChecksum = header.checksum
        if case .good(let first) = FrameHeader.decode(start, offset: position, salt: header.salt) {
            previousChecksum = first.previousChecksum
        } else {
            // The mark is not the end of a frame, or the frame there is gone: then verify the whole chain.
            position = UInt64(FormatLimits.pageBytes)
        }
        let scanner = FrameScanner(
            window: window, salt: header.salt, position: position, previousChecksum: previousChecksum)
        var checksum: UInt64 = 0
        while scanner.position < range.upperBound {
            guard case .frame(let frame) = try scanner.next() else { throw changedSinceOpened(scanner.position) }
            checksum = frame.header.checksum
            if frame.end <= range.lowerBound { continue }
            assert(frame.offset < range.upperBound, "G3: more than the unproven part is written again.")
            // The bytes just verified, from the same private copy.
            let bytes = try window.bytes(at: frame.offset, count: Int(frame.header.frameBytes))
            do throws(StoreError) {
                try files.writeAll(file, at: frame.offset, bytes)
            } catch {
                throw poisoned(by: error)
            }
        }
        guard scanner.position == range.upperBound, checksum == openedChecksum else {
            throw changedSinceOpened(scanner.position)
        }
        ledger.inheritedPartWasRewritten()
    }

    /// The error after the system has dropped bytes that it could not write: no transaction can follow them.
    private func changedSinceOpened(_ offset: UInt64) -> StoreError {
        let unknown =
            overwritten()
            ?? StoreError(
                .durabilityUnknown,
                "The file's content has changed since the store was opened: writes of an earlier process were lost "
                    + "before they were durable. Open the store again to see its content.",
                path: path, offset: offset)
        ledger.poison(unknown)
        return unknown
    }

    /// After a failed write: adopts complete groups (other handles may have done so); the rest is a torn tail for the
    /// next writer.
    ///
    /// - Returns: the error to throw.
    @inline(never)
    func rollBack(_ appender: Appender, _ error: StoreError) -> StoreError {
        guard appender.hasWritten else {
            follow.withLock {
                known.isAppending = false
                known.knownSize = 0
            }
            return error
        }
        let isUnknown = appender.writeFailed && error.code == .inputOutput
        return follow.withLock {
            known.isTailJudged = false
            known.isAppending = false
            known.knownSize = 0
            if isUnknown { return poisoned(by: error) }
            do throws(StoreError) {
                _ = try adopt(asker: .judge)
                // Frees the space of the failed write; failing to is no error. Never cuts bytes that another handle may
                // have adopted. Cuts only if bytes follow the end; otherwise handles that remember the old size would
                // not look again.
                let end = max(known.state.end, appender.writtenEnd)
                if try !isNothingNew(), try files.size(file) > end + UInt64(FormatLimits.pageBytes) {
                    try files.setSize(file, to: end + UInt64(FormatLimits.pageBytes))
                }
            } catch {}
            return error
        }
    }

    /// After an input/output error in a write the file's content is unknown: this handle must not write again.
    ///
    /// - Returns: the poison, or other errors as they are.
    private func poisoned(by error: StoreError) -> StoreError {
        guard error.code == .inputOutput else { return error }
        let unknown = StoreError(
            .durabilityUnknown,
            "A write failed (\(error.message)): it is unknown whether the transaction was committed. Open the store "
                + "again to see its content.", call: error.call, systemError: error.systemError, path: path)
        ledger.poison(unknown)
        return unknown
    }
}
