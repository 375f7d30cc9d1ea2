// Committing: a transaction is made without any lock, and written only if nobody was in its way.

internal import Synchronization

extension Engine {
    /// Makes a transaction with `body` and commits it. `body` runs without any lock, and again when others have changed what it read; the third time
    /// under the writer lock.
    ///
    /// - Returns: what `body` returned, and the transaction; nil where it changed nothing, and then nothing was written.
    /// - Throws: what `body` throws, and what `Log.commit` throws.
    package func commit<Result>(
        author: String? = nil, context: String? = nil, durability: Durability = .full,
        _ body: (PendingTransaction) throws -> Result
    ) throws -> (result: Result, transaction: AppendedTransaction?) {
        try checkNotWriting()
        for _ in 0..<2 {
            let pending = PendingTransaction(self, try view(), author: author, context: context)
            defer { pending.giveBackNumbers() }
            let result = try body(pending)
            guard pending.hasChanges else { return (result, nil) }
            do throws(FileError) {
                return (result, try append(pending, durability))
            } catch {
                guard error.code == .conflict || error.code == .schemaChanged else { throw error }
            }
        }
        return try write(author: author, context: context, durability: durability, body)
    }

    /// Runs `body` once, with the writer lock, on the newest state: for counters and invariants. Any other call on the store from `body` throws.
    package func write<Result>(
        author: String? = nil, context: String? = nil, durability: Durability = .full,
        _ body: (PendingTransaction) throws -> Result
    ) throws -> (result: Result, transaction: AppendedTransaction?) {
        try checkNotWriting()
        var outcome: Swift.Result<Result, any Error>?
        let appended = try log.whileAppending(durability) { (appender) throws(FileError) -> AppendedTransaction? in
            let pending = PendingTransaction(
                self, indexes.view(of: appender.state), author: author, context: context)
            defer { pending.giveBackNumbers() }
            writingThread.store(SystemCalls.currentThread, ordering: .relaxed)
            defer { writingThread.store(0, ordering: .relaxed) }
            do {
                outcome = .success(try body(pending))
            } catch {
                outcome = .failure(error)
                return nil
            }
            return pending.hasChanges ? try append(pending, &appender) : nil
        }
        guard let outcome else { throw FileError(.closed, "The store was closed: open it again.", path: log.path) }
        let result = try outcome.get()
        if let appended { try finish(appended, durability) }
        return (result, appended)
    }

    private func append(
        _ pending: PendingTransaction, _ durability: Durability
    ) throws(FileError) -> AppendedTransaction {
        pending.complete()
        let appended = try log.whileAppending(durability) { (appender) throws(FileError) in
            try pending.checkStillNewest(indexes, appender.state)
            return try append(pending, &appender)
        }
        try finish(appended, durability)
        return appended
    }

    /// With the writer lock.
    private func append(
        _ pending: PendingTransaction, _ appender: inout Appender
    ) throws(FileError) -> AppendedTransaction {
        let builder = pending.builder
        // Before its rows are held against indexes that are those of another schema.
        guard builder.baseSchemaVersion == appender.state.schemaVersion else {
            throw FileError(.schemaChanged, "Another process changed the schema: begin the transaction again.")
        }
        let before = appender.state.end
        try indexes.core.file.checkReach(before + builder.bytes + UInt64(FormatLimits.maximumFrameBytes))
        let next = try indexes.orderedState(behind: builder)
        let appended = try log.append(builder, with: &appender)
        do throws(FileError) {
            try indexes.take(appended, from: before, builder, next)
        } catch {
            // The transaction is there, and the indexes are not what they say.
            log.ledger.poison(error)
            throw error
        }
        log.hintAtCheckpointIfProved(appender.state)
        expectedChanges.store(Int(clamping: builder.changes), ordering: .relaxed)
        return appended
    }

    /// Behind the lock: a checkpoint where one is due, and what durability asks for.
    private func finish(
        _ appended: AppendedTransaction, _ durability: Durability
    ) throws(FileError) {
        // Where an index was built, others need not build it as well.
        if isCheckpointDue(appended.end) || indexes.hasBuiltIndex { try? writeCheckpoint() }
        if durability == .full { try log.makeDurable(through: appended.end) }
    }
}

extension Log {
    /// `appending`, holding the handle open.
    func whileAppending<Result>(
        _ durability: Durability, _ body: (inout Appender) throws(FileError) -> Result
    ) throws(FileError) -> Result {
        try whileOpen { () throws(FileError) in try appending(durability, body) }
    }
}
