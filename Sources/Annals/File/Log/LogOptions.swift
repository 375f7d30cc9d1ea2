// Choices of the log's user, and sizes that tests lower.

package struct LogOptions: Sendable {
    package var limits = LogLimits()
    /// How long a commit waits for another thread's, and then for another process's, before it throws `busy`.
    package var lockTimeoutMicroseconds: UInt64 = 5_000_000
    /// Whether a thread of this handle synchronises relaxed commits. Otherwise, call `synchronizeIfDue`.
    package var synchronizesInBackground = true
    /// Whether the writer lock is kept between commits although there is no such thread: `releaseIdleLock` is to be
    /// called.
    package var releasesLockByHand = false
    /// Whether the file is mapped. A foreign program that truncates a mapped file, or a full file system in memory, can
    /// end the process.
    package var maps = true
    /// Whether the file may be written although it uses features of newer programs. Only for an incomplete copy, which
    /// gets no more such features than it was created with.
    package var writesForNewer = false
    /// Permissions of a new store file, before the process's mask.
    package var mode: UInt32 = 0o600

    package init() {}
}
