// What a user of the log may choose, and the sizes that tests lower.

/// Sizes that a writer keeps to. Readers accept everything up to `FormatLimits`.
package struct LogLimits: Equatable, Sendable {
    package var maximumFrameBytes = FormatLimits.maximumFrameBytes
    package var maximumInlineValueBytes = FormatLimits.maximumInlineValueBytes
    package var maximumInlineRowBytes = FormatLimits.maximumInlineRowBytes
    /// Space is reserved in steps of a 32nd of the file, between these two.
    package var minimumPreallocationBytes: UInt64 = 256 << 10
    package var maximumPreallocationBytes: UInt64 = 4 << 20
    /// A background sync is due when so much is not proved durable ...
    package var syncLagBytes: UInt64 = 16 << 20
    /// ... or the oldest of it is so old.
    package var syncLagMicroseconds: UInt64 = 1_000_000
    package var lockKeeping = LockKeepingLimits()
    /// Addresses reserved for reading the file through a mapping; 0 for none.
    package var mappingReserveBytes = 1 << 36
    /// What a file that is being made will hold, where that is known: addresses are to suffice for it.
    package var expectedFileBytes: UInt64 = 0
    /// A transaction that is longer waits in an unnamed file for its commit.
    package var spoolBytes = 8 << 20
    /// Files are read in steps of this.
    package var windowBytes = 1 << 20

    package init() {}

    /// Takes addresses for reading a file of that size, by a function that may refuse. Where a process may not have as many as asked for (`ulimit -v`,
    /// valgrind), a quarter of what there is: other stores and the program need some too; and at least twice what the file needs.
    func reserve<Memory>(fileBytes: UInt64, _ take: (Int) -> Memory?) -> Memory? {
        if let all = take(mappingReserveBytes) { return all }
        let least = Int(clamping: min(max(fileBytes, expectedFileBytes, 8 << 20), 1 << 60)) * 2
        var bytes = mappingReserveBytes / 2
        while bytes >= least {
            // What shows how much there is is given back at once; another thread may take it meanwhile.
            if take(bytes) != nil, let some = take(max(bytes / 4, least)) { return some }
            bytes /= 2
        }
        return nil
    }

    /// Limits low enough that small tests meet them.
    package static var lowered: LogLimits {
        var limits = LogLimits()
        limits.maximumFrameBytes = 4096
        limits.maximumInlineValueBytes = 512
        limits.maximumInlineRowBytes = 2048
        limits.minimumPreallocationBytes = 4096
        limits.maximumPreallocationBytes = 16384
        limits.syncLagBytes = 32768
        limits.mappingReserveBytes = 1 << 20
        limits.spoolBytes = 16384
        limits.windowBytes = 8192
        // Simulated time passes faster than a thread gives back what is kept.
        limits.lockKeeping.commits = .max
        return limits
    }
}

package enum Durability: Sendable {
    /// A commit returns when it survives the loss of power.
    case full
    /// A commit returns when it survives the death of the process; it is synchronised in the background.
    case relaxed
}

package struct LogOptions: Sendable {
    package var limits = LogLimits()
    /// How long a commit waits for another thread's, and then for another process's, before it throws `busy`.
    package var lockTimeoutMicroseconds: UInt64 = 5_000_000
    /// Whether a thread of this handle synchronises what relaxed commits wrote. Without, `synchronizeIfDue` is to be called.
    package var synchronizesInBackground = true
    /// Whether the writer lock is kept between commits although there is no such thread: `giveBackIdleLock` is to be called.
    package var releasesLockByHand = false
    /// Whether the file is mapped. A foreign program that truncates a mapped file, or a full file system in memory, can end the process.
    package var maps = true
    /// Permissions of a new store file, before the process's mask.
    package var mode: UInt32 = 0o600

    package init() {}
}
