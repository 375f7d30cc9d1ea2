// Background syncs, and closing cleanly: sync, seal, sync, hint.

extension Log {
    // MARK: In the background

    /// Synchronises if what relaxed commits wrote lags too far behind. The background thread calls this.
    package func synchronizeIfDue() throws(FileError) {
        guard ledger.isSyncDue(now: environment.monotonicMicroseconds(), limits: limits) else { return }
        try synchronizeEverything()
    }

    /// Makes everything that this handle knows of durable.
    package func synchronizeEverything() throws(FileError) {
        if ledger.inherited != nil {
            try withWriterLock(.full) { (_) throws(FileError) in }
        }
        try makeDurable(through: current.end)
    }

    func startBackgroundSync() throws(FileError) {
        try background.withLock { () throws(FileError) in
            guard backgroundThread == nil, !isStopping else { return }
            backgroundThread = try BackgroundThread(name: "annals-sync") { [weak self] in
                while let pause = self?.backgroundStep() { pause() }
            }
        }
    }

    func wakeBackgroundSync() {
        background.withLock {
            hasBackgroundWork = true
            background.signalAll()
        }
    }

    /// One turn of the background thread. The wait it returns does not keep the handle alive; nil ends the thread.
    private func backgroundStep() -> (() -> Void)? {
        let isEnding = background.withLock {
            hasBackgroundWork = false
            return isStopping
        }
        if isEnding { return nil }
        // A failure has poisoned the handle: the next commit says so.
        try? synchronizeIfDue()
        let due = ledger.syncDueTime(limits: limits)
        return background.withLock { isStopping || hasBackgroundWork } ? {} : waiting(until: due)
    }

    private func waiting(until due: UInt64?) -> () -> Void {
        // The monitor alone is captured: a handle that nobody uses any more can go while its thread waits.
        let background = background
        return {
            background.withLock {
                if let due { _ = background.wait(untilMonotonicMicroseconds: due) } else { background.wait() }
            }
        }
    }

    private func stopBackgroundSync() {
        let thread = background.withLock {
            isStopping = true
            background.signalAll()
            return backgroundThread
        }
        thread?.join()
    }

    // MARK: Closing

    /// Makes everything durable, and says in the file that it was closed cleanly if this handle has written to it.
    ///
    /// Throws what kept the last transactions from being made durable; the handle is closed all the same. Closing twice does nothing.
    package func close() throws(FileError) {
        stopBackgroundSync()
        defer { writer.withLock { release() } }
        guard access == .readWrite, hasAppended, !isClosed else { return }
        try ledger.checkUsable()
        do throws(FileError) {
            try seal()
        } catch  where error.code == .busy || error.code == .storeRemoved || error.code == .storeReplaced {
            // A seal is a convenience; what was committed is not.
            try makeDurable(through: current.end)
        }
    }

    private func seal() throws(FileError) {
        try withWriterLock(.full) { (appender) throws(FileError) in
            try appender.recoverIfTorn()
            if appender.state.isSealed { return }
            #if ANNALS_MUTANTS
                if Mutant.isOn(.hintBeforeSync) { try writeHint(for: appender.state) }
            #endif
            follow.withLock { take(appender.state) }
            if !sealsBeforeSync { try makeDurable(through: appender.state.end) }
            try appender.seal()
            try files.setSize(file, to: appender.state.end + UInt64(FormatLimits.pageBytes))
            follow.withLock { take(appender.state) }
            try makeDurable(through: appender.state.end)
            try writeHint(for: appender.state)
        }
    }

    private var sealsBeforeSync: Bool {
        #if ANNALS_MUTANTS
            return Mutant.isOn(.sealBeforeSync)
        #else
            return false
        #endif
    }

    /// Notes in the header page what a sync has just proved. Failing to is no error: nobody relies on a hint.
    private func writeHint(for state: LogState) throws(FileError) {
        let window = ByteWindow(files, file, stepBytes: FormatLimits.pageBytes)
        let (_, slots) = try Log.readHeader(window)
        var newest: UInt64 = 0
        for case .good(let hint) in slots { newest = max(newest, hint.sequence) }
        let hint = Hint(
            sequence: newest + 1, checkpoint: 0, durableEnd: state.end, number: state.lastNumber)
        hint.encoded(salt: header.salt).withUnsafeBytes { bytes in
            try? files.writeAll(file, at: UInt64(hint.slotOffset), bytes)
        }
    }
}
