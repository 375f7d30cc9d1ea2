// Committing: a transaction is prepared without any lock. It is written only if it conflicts with no other.

internal import Synchronization

extension Engine {
    /// Makes a transaction with `body` and commits it. `body` runs without any lock. It runs again if others have
    /// changed what it read, the third time under the writer lock. If it adds a unique index over duplicates and
    /// changes objects too, it runs again under the lock, where its changes count.
    ///
    /// - Returns: what `body` returned, and the transaction. The transaction is nil if `body` changed nothing; then
    ///   nothing was written.
    /// - Throws: what `body` throws, and what `Log.commit` throws.
    package func commit<Result>(
        author: String? = nil, context: String? = nil, durability: Durability = .full,
        _ body: (PendingTransaction) throws -> Result
    ) throws -> (result: Result, transaction: AppendedTransaction?) {
        try requireNotWriting()
        for _ in 0..<2 {
            var pending = begin(try view(), author, context)
            defer { end(&pending) }
            let result = try body(pending)
            guard pending.hasChanges else {
                try advance(pending.builder.advances, durability: durability, beforeAppending: pending.beforeAppending)
                return (result, nil)
            }
            do throws(StoreError) {
                return (result, try commit(pending, durability))
            } catch {
                // The index is built over the rows before the transaction, which may remove duplicates itself.
                if error.code == .uniqueViolation, pending.builder.changesSchema, pending.builder.changes > 0 { break }
                guard error.code == .conflict || error.code == .schemaChanged else { throw error }
            }
        }
        return try write(author: author, context: context, durability: durability, body)
    }

    /// Runs `body` once on the newest state, with the writer lock: for counters and invariants. `body` may read. Other
    /// writes, closing and statistics throw in it.
    package func write<Result>(
        author: String? = nil, context: String? = nil, durability: Durability = .full,
        _ body: (PendingTransaction) throws -> Result
    ) throws -> (result: Result, transaction: AppendedTransaction?) {
        try requireNotWriting()
        var outcome: Swift.Result<Result, any Error>?
        var advancesEnd: UInt64 = 0
        let appended = try appendingIndexes(durability) { (appender) throws(StoreError) -> Appended? in
            var pending = begin(indexes.view(of: appender.state), author, context)
            defer { end(&pending) }
            writingThread.store(SystemCalls.currentThread, ordering: .relaxed)
            defer { writingThread.store(0, ordering: .relaxed) }
            do {
                outcome = .success(try body(pending))
            } catch {
                outcome = .failure(error)
                return nil
            }
            // The transaction's time is the moment in which it is appended, however long the body took.
            appender.forgetTime()
            if pending.hasChanges {
                try pending.complete()
                return try append(pending, &appender)
            }
            if !pending.builder.advances.isEmpty {
                try pending.beforeAppending?()
                advancesEnd = try append(pending.builder.advances, &appender)
            }
            return nil
        }
        guard let outcome else { throw StoreError(.closed, "The store was closed: open it again.", path: log.path) }
        let result = try outcome.get()
        if let appended {
            try finish(appended, durability)
        } else if advancesEnd > 0, durability == .full {
            try log.makeDurable(through: advancesEnd)
        }
        return (result, appended?.transaction)
    }

    @inline(never)
    func begin(_ base: View, _ author: String?, _ context: String?) -> PendingTransaction {
        let pending = spare.pop() ?? PendingTransaction(numbers, base, log)
        pending.begin(
            base, author: author, context: context, expectedChanges: expectedChanges.load(ordering: .relaxed))
        return pending
    }

    func end(_ pending: inout PendingTransaction) {
        pending.giveBackNumbers()
        pending.releaseBase()
        // If the caller kept it against the rules, it must not see another transaction in it.
        if isKnownUniquelyReferenced(&pending), pending.isReusable { spare.put(pending) }
    }

    @inline(never)
    private func commit(
        _ pending: PendingTransaction, _ durability: Durability
    ) throws(StoreError) -> AppendedTransaction {
        try pending.complete()
        if pending.builder.changesSchema { return try commitSchema(pending, durability) }
        let base = pending.base.number
        let appended = try log.whileAppending(durability) { (appender) throws(StoreError) in
            let isNewest = appender.state.lastNumber == base
            if pending.needsNewestState, !isNewest {
                throw StoreError(.conflict, "Another transaction may have changed what this one has checked.")
            }
            try pending.requireStillNewest(indexes, lastNumber: appender.state.lastNumber)
            do throws(StoreError) {
                return try append(pending, &appender)
            } catch  where !isNewest && (error.code == .referenceMissing || error.code == .deleteDenied) {
                // Others have deleted what it refers to, or refer to what it deletes: its body has not seen that.
                throw StoreError(.conflict, error.message)
            }
        }
        try finish(appended, durability)
        return appended.transaction
    }

    /// A transaction that was appended, and what should follow it. Decided with the writer lock, which guards the
    /// indexes.
    struct Appended {
        var transaction: AppendedTransaction
        var checkpoint: CheckpointStep
        var needsRetentionCheck: Bool
    }

    /// With the writer lock. `prepared` are indexes that the schema change needs.
    func append(
        _ pending: PendingTransaction, _ appender: inout Appender, _ prepared: [PreparedIndex] = []
    ) throws(StoreError) -> Appended {
        let builder = pending.builder
        // Checked before rows are compared with the indexes of another schema.
        guard builder.baseSchemaVersion == appender.state.schemaVersion else {
            throw StoreError(.schemaChanged, "Another process changed the schema: begin the transaction again.")
        }
        if let act = pending.beforeAppending { try act() }
        pending.releaseBase()
        // The indexes are changed in nodes that may be private copies. Readers on other threads must not drop them.
        indexes.core.file.beginReading()
        defer { indexes.core.file.endReading() }
        let before = appender.state.end
        try indexes.core.file.requireReach(before + builder.bytes + UInt64(FormatLimits.maximumFrameBytes))
        let next = try indexes.orderedState(behind: builder, prepared)
        let appended = try log.append(builder, with: &appender)
        do throws(StoreError) {
            try indexes.apply(appended, from: before, builder, next)
        } catch {
            // The transaction is in the file, but the indexes do not match it.
            log.ledger.poison(error)
            throw error
        }
        log.hintIfDue(appender.state)
        expectedChanges.store(Int(clamping: builder.changes), ordering: .relaxed)
        pending.afterAppending?(appended)
        // A checkpoint with a new index spares others building it.
        return Appended(
            transaction: appended,
            checkpoint: indexes.checkpoint.nextStep(
                at: appended.end, dirty: indexes.dirtyBytes, transactionBytes: builder.bytes, options),
            needsRetentionCheck: isRetentionCheckDue(appended))
    }

    /// Without the lock: writes a checkpoint if one is due, and makes the transaction durable as asked.
    ///
    /// Lets the listeners of this process look. The system has told them of the write, but until a large transaction is
    /// in the indexes too, this handle shows what was before. A file in memory is under no watch at all.
    func finish(_ appended: Appended, _ durability: Durability) throws(StoreError) {
        if let hub = options.hub ?? .existing { hub.poke(directory: log.directoryPath, name: log.name) }
        if appended.checkpoint != .none { try? write(appended.checkpoint) }
        if appended.needsRetentionCheck { try? applyRetention() }
        if durability == .full { try log.makeDurable(through: appended.transaction.end) }
    }
}

extension Log {
    /// `appending`, with the handle kept open.
    @inline(__always)
    func whileAppending<Result>(
        _ durability: Durability, patience: UInt64? = nil, longestPause: UInt64 = WriterLock.politePause,
        mayKeepLock: Bool = true, _ body: (inout Appender) throws(StoreError) -> Result
    ) throws(StoreError) -> Result {
        try whileOpen { () throws(StoreError) in
            try appending(
                durability, patience: patience, longestPause: longestPause, mayKeepLock: mayKeepLock, body)
        }
    }
}
