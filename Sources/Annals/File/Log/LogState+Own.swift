// Accepts the commit frame that this handle has just made.

extension LogState {
    /// Accepts a transaction of a single frame before it is written. `record` is the record in its table.
    ///
    /// The frame was made from this state and this record. So its fields are compared with the state, but its bytes are
    /// not decoded and hashed again: other handles do so when they read it. Throws as `accept`.
    @inline(__always)
    package mutating func accept(own frame: FrameView, _ record: TransactionRecord) throws(StoreError) {
        guard isExpected(frame.header, record, at: frame.offset) else {
            // The same rules, with the error that names the broken one.
            _ = try accept(frame)
            return
        }
        assert(isAccepted(frame, record), "A1: a handle accepts its own frame, and other handles would not.")
        close(with: frame, record)
    }

    @inline(__always)
    private func isExpected(_ header: FrameHeader, _ record: TransactionRecord, at offset: UInt64) -> Bool {
        // F8, F9 and F24.
        guard header.kind == .transaction, !header.isMember, !isInTransaction, rare.baseValue == nil else {
            return false
        }
        // F10 and F11.
        guard header.durableMark >= progress.durableMark, header.durableMark <= offset,
            header.number == progress.lastNumber &+ 1, header.number <= FormatLimits.maximumTransactionNumber
        else { return false }
        // F12, F13 and F15.
        guard record.time > progress.lastTime || progress.mayStepBack, record.start == offset, record.firstChange == 0,
            record.totalChanges == UInt64(record.changes), !record.isCopied, !record.lacksChanges,
            max(record.author, record.context, record.process) <= rare.names.count
        else { return false }
        // F16.
        return !record.changesSchema && record.schemaVersion == rare.catalog.newestVersion
    }

    /// Whether a reader would accept the frame, and have the same state then.
    private func isAccepted(_ frame: FrameView, _ record: TransactionRecord) -> Bool {
        var (reader, own) = (self, self)
        guard case .commit(let found)? = try? reader.accept(frame) else { return false }
        own.close(with: frame, record)
        return found == record && reader.progress == own.progress
    }
}
