// Publishing: appended frames count for this handle, even if later steps under the same lock fail.

extension Log {
    /// With the writer lock, at the end of a hold (`isLast`) or before: then a later failure rolls back only later
    /// frames.
    @inline(__always)
    func publish(_ appender: Appender, isLast: Bool = false) {
        follow.lock()
        assert(appender.state.reach == appender.state.end, "LG2: a transaction counts that is not complete.")
        adopt(appender.state.progress, appender.state.rare)
        known.seenSize = max(known.seenSize, appender.fileSize)
        if isLast { (known.knownSize, known.isAppending) = (appender.fileSize, false) }
        follow.unlock()
        if appender.hasWritten { writing.hasAppended = true }
        if let origin = appender.origin { writing.lastOrigin = origin }
    }

    /// For a commit that was published and then failed: the published frames become durable in time even so.
    func wakeBackgroundSync() {
        if background.isStarted, ledger.needsAttention() { background.wake() }
    }
}
