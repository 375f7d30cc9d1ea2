// Publishing: what was appended counts for this handle, even if what follows in the same hold of the lock fails.

extension Log {
    /// With the writer lock, at the end of a hold (`isLast`) or before: then, if what follows fails, only that is
    /// rolled back.
    @inline(__always)
    func publish(_ appender: borrowing Appender, isLast: Bool = false) {
        follow.lock()
        adopt(appender.state)
        known.seenSize = max(known.seenSize, appender.fileSize)
        if isLast { (known.knownSize, known.isAppending) = (appender.fileSize, false) }
        follow.unlock()
        if appender.hasWritten { writing.hasAppended = true }
        if let origin = appender.origin { writing.lastOrigin = origin }
    }

    /// For a commit that was published and then failed: what counts is made durable in time all the same.
    func wakeBackgroundSync() {
        if background.isStarted, ledger.needsAttention() { background.wake() }
    }
}
