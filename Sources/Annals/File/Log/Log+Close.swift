// Background syncs, and closing cleanly: sync, seal, sync, hint.

extension Log {
    // MARK: In the background

    /// Synchronises if relaxed commits lag too far behind the disk. The background thread calls this.
    package func synchronizeIfDue() throws(StoreError) {
        guard ledger.isSyncDue(now: environment.monotonicMicroseconds(), limits: limits) else { return }
        try synchronizeEverything()
    }

    /// Makes everything that this handle knows of durable.
    package func synchronizeEverything() throws(StoreError) { try makeDurable(through: current.end) }

    func startBackgroundSync() throws(StoreError) {
        // Not weak: that would slow all reference counting of this handle. Sound: `deinit` waits until the thread has
        // ended, and a running step keeps the objects that it uses alive.
        let handle = Unmanaged.passUnretained(self)
        try background.start(name: "annals-sync") {
            let log = handle.takeUnretainedValue()
            return withExtendedLifetime(log) { log.backgroundStep() }
        }
    }

    /// One turn of the background thread. Returns its next step.
    private func backgroundStep() -> BackgroundWork.Next {
        do throws(StoreError) {
            try synchronizeIfDue()
        } catch {
            // A failed sync has poisoned the handle, and the next commit throws that error. Other errors may be
            // temporary.
            return .again(at: environment.monotonicMicroseconds() &+ limits.syncLagMicroseconds)
        }
        return ledger.syncDueTime(limits: limits).map { .again(at: $0) } ?? .wait
    }

    // MARK: Closing

    /// Makes everything durable. If this handle has written to the file, also marks it as cleanly closed.
    ///
    /// Waits for calls that are under way on other threads; later ones throw `closed`. Throws the error that prevented
    /// the last transactions from becoming durable; the handle is closed even so. Closing twice does nothing, and
    /// neither does closing in a child after `fork`.
    ///
    /// A file that is not published has only a temporary name, by which no program opens it, and gets the store's name
    /// afterwards: its seal need not be true before, and one sync proves everything.
    package func close(isPublished: Bool = true) throws(StoreError) {
        if process.wasForked { return }
        stopThreads()
        guard refuseCalls() else { return }
        defer { release() }
        guard access == .readWrite, writer.withLock({ writing.hasAppended }) else { return }
        try ledger.requireUsable()
        do throws(StoreError) {
            try seal(isPublished: isPublished)
        } catch {
            // A seal is a convenience. Commits are not: they must be durable even without it.
            guard error.code != .durabilityUnknown, ledger.inherited == nil else { throw error }
            try synchronize(through: current.end)
            guard Self.keepsFromSealing.contains(error.code) else { throw error }
        }
    }

    /// With these errors a store stays unsealed, and nothing is lost.
    private static let keepsFromSealing: [StoreError.Code] = [
        .busy, .storeRemoved, .storeReplaced, .noSpace, .unsupportedVersion,
    ]

    /// Releases the lock while waiting for the disk. If other handles append repeatedly at the same time, this does not
    /// seal: the last of them does when it closes.
    private func seal(isPublished: Bool) throws(StoreError) {
        if isPublished {
            if ledger.inherited != nil { try locked(.full, isHeld: true) { (_) throws(StoreError) in } }
            try synchronize(through: current.end)
        }
        for _ in 0..<3 {
            var sealed: UInt64?
            let isSealed = try locked(.full, isHeld: true) { (appender) throws(StoreError) -> Bool in
                try appender.recoverIfTorn()
                if appender.state.isSealed { return true }
                if isPublished, ledger.mark < appender.state.end { return false }
                try appender.seal()
                assert(appender.state.isSealed, "G4: a file is cut before its seal is written.")
                try files.setSize(file, to: appender.state.end + UInt64(FormatLimits.pageBytes))
                sealed = appender.state.end
                return false
            }
            if isSealed { return }
            try synchronize(through: current.end)
            guard let sealed else { continue }
            return try locked(nil, isHeld: true) { (appender) throws(StoreError) in
                if appender.state.end == sealed { try writeHint(for: appender.state.progress) }
            }
        }
    }

    /// Records the result of a sync in the header page. Failing to is no error: a hint is never needed.
    private func writeHint(for state: LogProgress) throws(StoreError) {
        writing.hintedCheckpoint = state.checkpoint?.offset ?? 0
        try writeHint(durableEnd: state.end, number: state.lastNumber, checkpoint: writing.hintedCheckpoint)
    }

    /// With the writer lock, after a commit: records the result of syncs in the header page. A new checkpoint at once;
    /// the durable end at most once a second. A file cut below that end is known to be damaged.
    func hintIfDue(_ state: LogProgress) {
        if let place = state.checkpoint, place.offset != writing.hintedCheckpoint, ledger.mark >= place.end {
            writing.hintedCheckpoint = place.offset
            if writing.nextHint.map({ $0.end < place.end || ledger.mark < $0.end }) ?? true {
                writing.nextHint = (place.end, place.number)
            }
            writing.hintedAt = nil
        }
        if let place = writing.nextHint {
            guard ledger.mark >= place.end else { return }
            let isDue =
                writing.hintedAt.map { state.lastTime < $0 || state.lastTime - $0 >= Self.hintMicroseconds } ?? true
            if isDue {
                writing.hintedAt = state.lastTime
                try? writeHint(durableEnd: place.end, number: place.number, checkpoint: writing.hintedCheckpoint)
            }
        } else if writing.hintedAt == nil {
            writing.hintedAt = state.lastTime
        }
        writing.nextHint = (state.end, state.lastNumber)
    }

    /// The minimum time between two hints.
    private static let hintMicroseconds: Int64 = 1_000_000

    private func writeHint(durableEnd: UInt64, number: UInt64, checkpoint: UInt64) throws(StoreError) {
        assert(durableEnd <= ledger.mark, "D1: a hint names an end that is not durable.")
        let window = ByteWindow(files, file, stepBytes: FormatLimits.pageBytes)
        defer { withExtendedLifetime(window) {} }
        let (_, newest) = try Log.readHeaderAndHint(window)
        let hint = Hint(
            sequence: (newest?.sequence ?? 0) + 1, checkpoint: checkpoint, durableEnd: durableEnd,
            number: number)
        hint.encoded(salt: header.salt).withUnsafeBytes { bytes in
            try? files.writeAll(file, at: UInt64(hint.slotOffset), bytes)
        }
    }
}
