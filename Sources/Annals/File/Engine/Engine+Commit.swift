// Committing: a transaction is prepared without any lock. It is written only without conflicts.

internal import Synchronization

extension Engine {
    /// Makes a transaction with `body` and commits it. `body` runs without any lock. It runs again if another writer
    /// has changed objects that it read, the third time under the writer lock. If it adds a unique index over
    /// duplicates and changes objects too, it runs again under the lock, where its changes count.
    ///
    /// - Returns: the result of `body`, and the transaction. The transaction is nil if `body` changed nothing; then
    ///   nothing was written.
    /// - Throws: errors of `body`, of `Log.locked` and of `Log.append`.
    package func commit<Result>(
        author: String? = nil, context: String? = nil, durability: Durability = .full,
        _ body: (Draft) throws -> Result
    ) throws -> (result: Result, transaction: AppendedTransaction?) {
        try requireNotWriting()
        for _ in 0..<2 {
            var draft = begin(try view(), author, context)
            defer { end(&draft) }
            let result = try body(draft)
            guard draft.hasChanges else {
                try advance(
                    draft.frames.prepared.advances, durability: durability, beforeAppending: draft.beforeAppending)
                return (result, nil)
            }
            do throws(StoreError) {
                return (result, try commit(draft, durability))
            } catch {
                // The index was built over the rows before the transaction, which may itself remove the duplicates.
                if error.code == .uniqueViolation, draft.frames.prepared.changesSchema, draft.frames.changes > 0 {
                    break
                }
                guard error.code == .conflict || error.code == .schemaChanged else { throw error }
            }
        }
        return try write(author: author, context: context, durability: durability, body)
    }

    /// Runs `body` once on the newest state, with the writer lock: for counters and invariants. `body` may read. Other
    /// writes, closing and statistics throw in it.
    package func write<Result>(
        author: String? = nil, context: String? = nil, durability: Durability = .full,
        _ body: (Draft) throws -> Result
    ) throws -> (result: Result, transaction: AppendedTransaction?) {
        try requireNotWriting()
        var outcome: Swift.Result<Result, any Error>?
        var advancesEnd: UInt64 = 0
        try log.enter()
        defer { log.leave() }
        let appended = try appendingIndexes(durability) { (appender) throws(StoreError) -> Appended? in
            var draft = begin(indexes.view(of: appender.state.progress), author, context)
            defer { end(&draft) }
            writingThread.store(SystemCalls.currentThread, ordering: .relaxed)
            defer { writingThread.store(0, ordering: .relaxed) }
            do {
                outcome = .success(try body(draft))
            } catch {
                outcome = .failure(error)
                return nil
            }
            // The transaction's time is the moment of appending, regardless of the body's duration.
            appender.forgetTime()
            if draft.hasChanges {
                try draft.complete()
                return try append(draft, appender)
            }
            if !draft.frames.prepared.advances.isEmpty {
                try draft.beforeAppending?()
                advancesEnd = try append(draft.frames.prepared.advances, appender)
            }
            return nil
        }
        guard let outcome else { throw StoreError(.closed, "The store was closed: open it again.", path: log.path) }
        let result = try outcome.get()
        if let appended {
            try finish(appended, durability)
        } else if advancesEnd > 0, durability == .full {
            try log.synchronize(through: advancesEnd)
        }
        return (result, appended?.transaction)
    }

    @inline(never)
    func begin(_ base: consuming View, _ author: String?, _ context: String?) -> Draft {
        let draft: Draft
        if let reused = spare.pop() { draft = reused } else { draft = Draft(numbers, copy base, log) }
        draft.begin(
            base, author: author, context: context, expectedChanges: expectedChanges.load(ordering: .relaxed))
        return draft
    }

    func end(_ draft: inout Draft) {
        draft.returnNumbers()
        draft.releaseBase()
        // A caller that kept the draft against the rules must not see another transaction in it.
        if isKnownUniquelyReferenced(&draft), draft.isReusable { spare.put(draft) }
    }

    @inline(never)
    private func commit(
        _ draft: Draft, _ durability: Durability
    ) throws(StoreError) -> AppendedTransaction {
        try draft.complete()
        if draft.frames.prepared.changesSchema { return try commitSchema(draft, durability) }
        try log.enter()
        defer { log.leave() }
        let base = draft.base.number
        let appended = try log.locked(durability, isHeld: true, mayKeepLock: true) { (appender) throws(StoreError) in
            let isNewest = appender.state.lastNumber == base
            if draft.needsNewestState, !isNewest {
                throw StoreError(
                    .conflict,
                    "Another transaction may have changed objects that this transaction has read: begin the "
                        + "transaction again.")
            }
            try draft.requireStillNewest(indexes, lastNumber: appender.state.lastNumber)
            do throws(StoreError) {
                return try append(draft, appender)
            } catch  where !isNewest && (error.code == .referenceMissing || error.code == .deleteDenied) {
                // Another writer has deleted an object that it refers to, or refers to one that it deletes: its body
                // has not seen this.
                throw StoreError(.conflict, error.message)
            }
        }
        try finish(appended, durability)
        return appended.transaction
    }

    /// An appended transaction, and the steps that should follow it. Decided with the writer lock, which guards the
    /// indexes.
    struct Appended {
        var transaction: AppendedTransaction
        var checkpoint: CheckpointStep
        var needsRetentionCheck: Bool
    }

    /// With the writer lock. `prepared` are indexes that the schema change needs.
    func append(
        _ draft: Draft, _ appender: Appender, _ prepared: [PreparedIndex] = []
    ) throws(StoreError) -> Appended {
        let frames = draft.frames
        // Checked before rows are compared with the indexes of another schema.
        guard frames.prepared.baseSchemaVersion == appender.state.schemaVersion else {
            throw StoreError(.schemaChanged, "Another process changed the schema: begin the transaction again.")
        }
        if let act = draft.beforeAppending { try act() }
        draft.releaseBase()
        // The indexes change in nodes that may be private copies, which readers on other threads must not drop.
        indexes.core.file.beginReading()
        defer { indexes.core.file.endReading() }
        let before = appender.state.end
        try indexes.core.file.requireReach(before + frames.bytes + UInt64(FormatLimits.maximumFrameBytes))
        let next = try indexes.orderedState(after: frames, prepared)
        let appended = try log.append(frames.prepared, with: appender)
        assert(appended.end == appender.state.end && appended.end > before, "The transaction is not the last.")
        do throws(StoreError) {
            try indexes.apply(appended, from: before, frames, next)
        } catch {
            // The transaction is in the file, but the indexes do not match it (S1).
            log.ledger.poison(error)
            throw error
        }
        log.hintIfDue(appender.state.progress)
        expectedChanges.store(Int(clamping: frames.changes), ordering: .relaxed)
        draft.afterAppending?(appended)
        // A checkpoint with a new index spares other handles building it.
        return Appended(
            transaction: appended,
            checkpoint: indexes.checkpoint.nextStep(
                at: appended.end, dirty: indexes.dirtyBytes, transactionBytes: frames.bytes, options),
            needsRetentionCheck: isRetentionCheckDue(appended))
    }

    /// Without the lock: writes a checkpoint if one is due, and makes the transaction durable as requested. The caller
    /// has held the handle open since before it appended: otherwise a transaction that is in the store could be refused
    /// because another thread closes the handle (G5).
    ///
    /// Lets the listeners of this process look. The system has reported the write to them, but this handle shows the
    /// old state until a large transaction is in the indexes too. A file in memory has no watch at all.
    func finish(_ appended: Appended, _ durability: Durability) throws(StoreError) {
        if let hub = options.hub ?? .existing { hub.poke(directory: log.directoryPath, name: log.name) }
        if appended.checkpoint != .none { try? write(appended.checkpoint) }
        if appended.needsRetentionCheck { try? applyRetention() }
        if durability == .full { try log.synchronize(through: appended.transaction.end) }
    }
}

extension Draft {
    /// Throws `conflict` if a version that this transaction replaces is no longer the newest (S2), or an object number
    /// is taken. With the writer lock.
    func requireStillNewest(_ indexes: Indexes, lastNumber: UInt64) throws(StoreError) {
        assert(base.number <= lastNumber, "A draft began after the newest state.")
        if indexes.hasReservations, !allDrawn({ $1 >= indexes.reservedEnd($0) }) {
            throw StoreError(
                .conflict,
                "Another transaction has reserved object numbers that this transaction uses: begin the transaction "
                    + "again.")
        }
        if allDrawn({ indexes.nextNumber($0) <= $1 }), changed.isEmpty || lastNumber == base.number { return }
        try frames.forEachEntry { (change, _) throws(StoreError) in
            let newest = try indexes.core.reading { () throws(StoreError) in try indexes.rows.newest(change.object) }
            guard newest == change.previous?.rawValue ?? 0 else {
                throw StoreError(
                    .conflict,
                    "Another transaction has changed an object that this transaction changes: begin the "
                        + "transaction again.")
            }
            return true
        }
    }
}

extension Engine {
    /// Makes a transaction on a state without committing it: RH1.
    ///
    /// - Parameter outcome: Gets the draft with the effects of delete rules.
    /// - Returns: The reasons for which a commit would refuse it, in no order.
    ///
    /// Throws the errors of `body` and `outcome`.
    func rehearse(
        on base: View, _ body: (Draft) throws(StoreError) -> Void,
        outcome: (Draft) throws(StoreError) -> Void
    ) throws(StoreError) -> [StoreError] {
        var draft = begin(base, nil, nil)
        defer { end(&draft) }
        let rehearsal = Rehearsal()
        draft.rehearsal = rehearsal
        defer { draft.rehearsal = nil }
        try body(draft)
        try draft.applyDeleteRules()
        try draft.findLargeKeys()
        try draft.findTakenKeys()
        try draft.findMissingTargets()
        try outcome(draft)
        return rehearsal.refused
    }
}
