// Committing: a transaction is made without any lock, and written only if nobody was in its way.

internal import Synchronization

extension Engine {
    /// Makes a transaction with `body` and commits it. `body` runs without any lock, and again when others have changed
    /// what it read; the third time under the writer lock.
    ///
    /// - Returns: what `body` returned, and the transaction; nil where it changed nothing, and then nothing was
    ///   written.
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
                guard error.code == .conflict || error.code == .schemaChanged else { throw error }
            }
        }
        return try write(author: author, context: context, durability: durability, body)
    }

    /// Runs `body` once, with the writer lock, on the newest state: for counters and invariants. `body` may read;
    /// whatever else writes, closes or counts throws from it.
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
            // However long the body took: the transaction is of the moment in which it is appended.
            appender.forgetTime()
            if pending.hasChanges { return try append(pending, &appender) }
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
    private func begin(_ base: View, _ author: String?, _ context: String?) -> PendingTransaction {
        let pending = spare.pop() ?? PendingTransaction(numbers, base, log)
        pending.begin(
            base, author: author, context: context, expectedChanges: expectedChanges.load(ordering: .relaxed))
        return pending
    }

    private func end(_ pending: inout PendingTransaction) {
        pending.giveBackNumbers()
        pending.releaseBase()
        // Who keeps it against the rules must not meet another transaction in it.
        if isKnownUniquelyReferenced(&pending), pending.isReusable { spare.put(pending) }
    }

    @inline(never)
    private func commit(
        _ pending: PendingTransaction, _ durability: Durability
    ) throws(StoreError) -> AppendedTransaction {
        pending.complete()
        if pending.builder.changesSchema { return try commitSchema(pending, durability) }
        let appended = try log.whileAppending(durability) { (appender) throws(StoreError) in
            try pending.requireStillNewest(indexes, lastNumber: appender.state.lastNumber)
            return try append(pending, &appender)
        }
        try finish(appended, durability)
        return appended.transaction
    }

    /// A transaction that was appended, and what of a checkpoint should stand behind it: asked with the writer lock,
    /// which guards the indexes.
    struct Appended {
        var transaction: AppendedTransaction
        var checkpoint: CheckpointStep
        var needsRetentionCheck: Bool
    }

    /// With the writer lock. `prepared` are indexes that its schema change asks for.
    func append(
        _ pending: PendingTransaction, _ appender: inout Appender, _ prepared: [PreparedIndex] = []
    ) throws(StoreError) -> Appended {
        let builder = pending.builder
        // Before its rows are held against indexes that are those of another schema.
        guard builder.baseSchemaVersion == appender.state.schemaVersion else {
            throw StoreError(.schemaChanged, "Another process changed the schema: begin the transaction again.")
        }
        if let act = pending.beforeAppending { try act() }
        pending.releaseBase()
        // The indexes are changed where they stand in copies, which readers on other threads must not forget meanwhile.
        indexes.core.file.beginReading()
        defer { indexes.core.file.endReading() }
        let before = appender.state.end
        try indexes.core.file.requireReach(before + builder.bytes + UInt64(FormatLimits.maximumFrameBytes))
        let next = try indexes.orderedState(behind: builder, prepared)
        let appended = try log.append(builder, with: &appender)
        do throws(StoreError) {
            try indexes.apply(appended, from: before, builder, next)
        } catch {
            // The transaction is there, and the indexes are not what they say.
            log.ledger.poison(error)
            throw error
        }
        log.hintIfDue(appender.state)
        expectedChanges.store(Int(clamping: builder.changes), ordering: .relaxed)
        // Where an index was built, others need not build it as well.
        return Appended(
            transaction: appended,
            checkpoint: nextCheckpointStep(appended.end, transactionBytes: builder.bytes),
            needsRetentionCheck: isRetentionCheckDue(appended))
    }

    /// Behind the lock: a checkpoint where one is due, and what durability asks for.
    func finish(_ appended: Appended, _ durability: Durability) throws(StoreError) {
        if appended.checkpoint != .none { try? write(appended.checkpoint) }
        if appended.needsRetentionCheck { try? applyRetention() }
        if durability == .full { try log.makeDurable(through: appended.transaction.end) }
    }
}

extension Log {
    /// `appending`, holding the handle open.
    @inline(__always)
    func whileAppending<Result>(
        _ durability: Durability, longestPause: UInt64 = WriterLock.politePause, mayKeepLock: Bool = true,
        _ body: (inout Appender) throws(StoreError) -> Result
    ) throws(StoreError) -> Result {
        try whileOpen { () throws(StoreError) in
            try appending(durability, longestPause: longestPause, mayKeepLock: mayKeepLock, body)
        }
    }
}
