// What a user of the log may choose, and the sizes that tests lower.

package struct LogOptions: Sendable {
    package var limits = LogLimits()
    /// How long a commit waits for another thread's, and then for another process's, before it throws `busy`.
    package var lockTimeoutMicroseconds: UInt64 = 5_000_000
    /// Whether a thread of this handle synchronises what relaxed commits wrote. Without, `synchronizeIfDue` is to be
    /// called.
    package var synchronizesInBackground = true
    /// Whether the writer lock is kept between commits although there is no such thread: `releaseIdleLock` is to be
    /// called.
    package var releasesLockByHand = false
    /// Whether the file is mapped. A foreign program that truncates a mapped file, or a full file system in memory, can
    /// end the process.
    package var maps = true
    /// Whether the file may be written although it uses what only newer programs know. Only for a copy that is not
    /// complete: it gets no more of that than it was made with.
    package var writesForNewer = false
    /// Permissions of a new store file, before the process's mask.
    package var mode: UInt32 = 0o600

    package init() {}
}
