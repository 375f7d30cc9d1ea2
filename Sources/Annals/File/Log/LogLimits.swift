// Sizes that decide how transactions become frames.

/// Sizes that a writer keeps to. Readers accept everything up to `FormatLimits`.
package struct LogLimits: Equatable, Sendable {
    package var maximumFrameBytes = FormatLimits.maximumFrameBytes
    package var maximumInlineValueBytes = FormatLimits.maximumInlineValueBytes
    package var maximumInlineRowBytes = FormatLimits.maximumInlineRowBytes
    /// Space is reserved in steps of a 32nd of the file, between these two.
    package var minimumPreallocationBytes: UInt64 = 256 << 10
    package var maximumPreallocationBytes: UInt64 = 4 << 20
    /// A background sync is due when this number of bytes is not proved durable ...
    package var syncLagBytes: UInt64 = 16 << 20
    /// ... or the oldest of them has this age.
    package var syncLagMicroseconds: UInt64 = 1_000_000
    package var lockKeeping = LockKeepingLimits()
    /// Addresses reserved for reading the file through a mapping; 0 for none.
    package var mappingReserveBytes = 1 << 36
    /// The future size of a new file, if known: the addresses must suffice for it.
    package var expectedFileBytes: UInt64 = 0
    /// A longer transaction waits in an unnamed file for its commit.
    package var spoolBytes = 8 << 20
    /// That file is written in steps of about this size.
    package var spoolStepBytes = 512 << 10
    /// Files are read in steps of this.
    package var windowBytes = 1 << 20

    package init() {}

    /// Reserves addresses for reading a file of that size, by a function that may refuse. Leaves some for other stores
    /// and the program: if a process has many stores open, takes a sixteenth of the desired size, and at least twice
    /// the file's. If the process may have few addresses (`ulimit -v`, valgrind), takes a quarter of the available
    /// ones, and at least twice the file's size.
    func reserve<Memory>(fileBytes: UInt64, _ take: (Int) -> Memory?) -> Memory? {
        if mappingReserveBytes == 0 { return take(0) }
        if SystemCalls.hasAddresses(mappingReserveBytes * 64), let all = take(mappingReserveBytes) { return all }
        let least = Int(clamping: min(max(fileBytes, expectedFileBytes, 8 << 20), 1 << 60)) * 2
        if SystemCalls.hasAddresses(mappingReserveBytes), let part = take(max(mappingReserveBytes / 16, least)) {
            return part
        }
        var bytes = mappingReserveBytes / 2
        while bytes >= least {
            // This probe for the available size is released at once; another thread may take the addresses.
            if take(bytes) != nil, let some = take(max(bytes / 4, least)) { return some }
            bytes /= 2
        }
        return nil
    }
}

/// The conditions and times for keeping the lock.
package struct LockKeepingLimits: Equatable, Sendable {
    /// The number of commits that must follow one another ...
    package var commits = 8
    /// ... each begun within this time after the one before; and the number required after another handle has written.
    package var gapMicroseconds: Int64 = 20
    package var commitsAfterOthers = 24
    /// The time after which the keeper looks for a waiting process.
    package var leaseMicroseconds: Int64 = 500
    /// The longest such time, if the waiting process does not come when it may: it may have been stopped.
    package var longestLeaseMicroseconds: Int64 = 100_000
    /// The time after the last commit at which the lock is released.
    package var idleMicroseconds: Int64 = 500

    package init() {}
}
