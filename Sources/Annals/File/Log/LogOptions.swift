// Choices of the log's user, and sizes that tests lower.

package struct LogOptions: Sendable {
    package var limits = LogLimits()
    /// The longest wait of a commit for another thread, and then for another process, before it throws `busy`.
    package var lockTimeoutMicroseconds: UInt64 = 5_000_000
    /// Whether a thread of this handle synchronises relaxed commits. Otherwise, call `synchronizeIfDue`.
    package var synchronizesInBackground = true
    /// Whether the writer lock is kept between commits without such a thread: then call `releaseIdleLock`.
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
