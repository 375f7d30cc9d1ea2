// The writer lock of a handle: its threads first, then other processes; and keeping it between commits.

internal import Synchronization

extension Log {
    /// Runs `body` under the writer lock, after adopting the frames of other processes; publishes the frames that
    /// `body` appended, and rolls back if it throws. There is no other way to append.
    ///
    /// It is inlined, because otherwise a commit of one row would spend a tenth of its time on counting references of
    /// closures.
    ///
    /// - Parameters:
    ///   - durability: With `.relaxed`, a background sync makes it durable. With `.full`, the caller makes it durable;
    ///     with nil, it need not be.
    ///   - isHeld: Whether the caller keeps the handle open already.
    ///   - patience: The longest wait for the lock, in microseconds; nil for that of the store's options.
    ///   - mayKeepLock: Whether the lock may stay taken for the next commit, if a thread can release it.
    ///
    /// Throws `busy`, `closed`, `storeRemoved`, `storeReplaced`, `hardLinked`, `damaged`, `diverged`,
    /// `durabilityUnknown`, and errors of `body`.
    @inline(__always)
    package func locked<Result>(
        _ durability: Durability?, isHeld: Bool = false, patience: UInt64? = nil,
        longestPause: UInt64 = WriterLock.politePause, mayKeepLock: Bool = false,
        _ body: (Appender) throws(StoreError) -> Result
    ) throws(StoreError) -> Result {
        if !isHeld { try enter() }
        defer { if !isHeld { leave() } }
        let isBackground = durability == .relaxed && options.synchronizesInBackground
        if isBackground, !background.isStarted { try startBackgroundSync() }
        let patience = patience ?? options.lockTimeoutMicroseconds
        try lockWriter(patience)
        let result: Result
        do throws(StoreError) {
            defer { writer.unlock() }
            try ledger.requireUsable()
            let isKept = writing.keeping.isKept
            let time = try lockFile(longestPause, patience)
            var keeps = false
            defer { if !keeps { unlockFile() } }
            // No longer kept: another handle had the lock in between, and may have appended.
            let appender = try beginAppending(durability, at: time, isNewest: isKept && writing.keeping.isKept)
            do throws(StoreError) {
                if durability == .full { try rewriteInheritedPart() }
                result = try body(appender)
                publish(appender, isLast: true)
            } catch {
                throw rollBack(appender, error)
            }
            let isReleased = isBackground || (durability == .relaxed && options.releasesLockByHand)
            keeps = mayKeepLock && isReleased && keepLock(afterCommitAt: time)
        } catch {
            throw error.at(path: path)
        }
        if isBackground, ledger.needsAttention() { background.wake() }
        return result
    }

    /// Blocks all writers for this time. Throws the errors of taking the lock, but does not wait for it for long.
    package func keepWritersOut(microseconds: UInt64) throws(StoreError) {
        try whileOpen { () throws(StoreError) in
            let patience = min(options.lockTimeoutMicroseconds, 100_000)
            do throws(StoreError) { try requireWritable(current) } catch { throw error.at(path: path) }
            try lockWriter(patience)
            defer { writer.unlock() }
            _ = try lockFile(WriterLock.eagerPause, patience)
            defer { unlockFile() }
            environment.sleep(microseconds: microseconds)
        }
    }

    private func lockWriter(_ timeoutMicroseconds: UInt64) throws(StoreError) {
        guard access == .readWrite else {
            throw StoreError(
                .readOnly, "This handle was opened for reading only: open the store for writing.", path: path)
        }
        // Threads wait in real time, even if the environment has another clock.
        guard writer.lock(timeoutMicroseconds: timeoutMicroseconds) else {
            throw StoreError(
                .busy,
                "Another thread of this process is writing, and did not finish in time: try again, or wait longer.",
                path: path)
        }
    }

    /// Throws `unsupportedVersion` if only a newer program may append after that state.
    @inline(__always)
    func requireWritable(_ state: borrowing LogState) throws(StoreError) {
        guard state.allowsWriting || options.writesForNewer else { throw .readableOnly() }
    }

    /// With `writer` locked. Returns the time of the wall clock.
    private func lockFile(_ longestPause: UInt64, _ timeoutMicroseconds: UInt64) throws(StoreError) -> Int64 {
        if writing.keeping.isKept {
            let now = environment.wallClockMicroseconds()
            if !writing.keeping.isLeaseOver(now) { return now }
            guard try WriterLock.isAwaited(files, file) else {
                // Readers of this handle do not look at the file meanwhile, and a foreign program may overwrite it.
                try follow.withLock { () throws(StoreError) in try compareLastFrame() }
                writing.keeping.renewLease(now)
                return now
            }
            unlockFile()
            writing.keeping.gaveWay(try WriterLock.giveWay(files, environment, file))
        }
        assert(!writing.keeping.isKept, "The lock is taken while it is kept.")
        return try WriterLock.acquire(
            files, environment, file, processID: processID, timeoutMicroseconds: timeoutMicroseconds,
            longestPause: longestPause)
    }

    /// With `writer` locked.
    private func unlockFile() {
        if writing.keeping.isKept {
            // Before other handles can append.
            isLockKept.store(false, ordering: .sequentiallyConsistent)
            writing.keeping.release()
        }
        try? files.unlock(file, WriterLock.everything)
    }

    // MARK: Between commits

    /// With `writer` locked, after a commit that began at `time`: whether the lock stays held. Never without a thread
    /// to release it.
    private func keepLock(afterCommitAt time: Int64) -> Bool {
        guard writing.keeping.isWorthKeeping(afterCommitAt: time) else { return false }
        if !writing.keeping.isWatched, !options.releasesLockByHand {
            do throws(StoreError) { try watchKeptLock() } catch { return false }
        }
        writing.keeping.keep(time)
        isLockKept.store(true, ordering: .releasing)
        return true
    }

    private func watchKeptLock() throws(StoreError) {
        if lockWatch.isStarted {
            lockWatch.wake()
        } else {
            // Not weak, as in `startBackgroundSync`.
            let handle = Unmanaged.passUnretained(self)
            try lockWatch.start(name: "annals-lock") {
                let log = handle.takeUnretainedValue()
                return withExtendedLifetime(log) { log.releaseIdleLock() }
            }
        }
        writing.keeping.isWatched = true
    }

    /// Releases the lock if it was kept and no commit has come for a while. A thread calls this as long as the lock is
    /// kept; with `releasesLockByHand`, the handle's user does.
    ///
    /// - Returns: when to call it again.
    @discardableResult
    package func releaseIdleLock() -> BackgroundWork.Next {
        // A thread that commits holds it, and need not be waited for.
        guard writer.lock(timeoutMicroseconds: 0) else { return lookAtLockAgain() }
        defer { writer.unlock() }
        if writing.keeping.isKept {
            if !writing.keeping.isIdle(environment.wallClockMicroseconds()) { return lookAtLockAgain() }
            unlockFile()
        }
        writing.keeping.isWatched = false
        return .wait
    }

    private func lookAtLockAgain() -> BackgroundWork.Next {
        .again(at: environment.monotonicMicroseconds() &+ UInt64(clamping: limits.lockKeeping.idleMicroseconds))
    }
}
