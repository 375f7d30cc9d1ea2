// Publishing in the middle of a hold of the writer lock: what was appended counts, whatever becomes of what is appended
// after it.

extension Log {
    /// With the writer lock. If the rest of the hold fails, only the rest is rolled back.
    func publish(_ appender: Appender) {
        follow.withLock {
            adopt(appender.state)
            seenSize = max(seenSize, appender.fileSize)
        }
        if appender.hasWritten { hasAppended = true }
        if let origin = appender.origin { lastOrigin = origin }
    }

    /// For a commit that was published and then failed: what counts is made durable in time all the same.
    func wakeBackgroundSync() {
        if background.isStarted, ledger.needsAttention() { background.wake() }
    }
}
