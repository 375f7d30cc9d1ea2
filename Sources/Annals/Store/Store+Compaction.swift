// Automatic compaction, and the progress of a compaction.

extension Store {
    /// The conditions for automatic compaction. It happens in the background of a handle that commits and has been open
    /// for 10 seconds.
    ///
    /// If it fails, the file keeps growing. Then standard error gets a line with the reason and its cure, once for each
    /// reason, and `StoreStatistics.compactionFailure` has it until a compaction succeeds. It is no failure if another
    /// process compacts at the same time.
    public struct AutomaticCompaction: Hashable, Sendable {
        /// The part of the file, about, that compaction must be able to free, from 0 to 1.
        public var garbage = 0.5
        /// Smaller files are not compacted automatically.
        public var minimumBytes: UInt64 = 16 << 20

        /// The standard choice: compacts a file of at least 16 MiB when over half of it is garbage.
        public init() {}

        var trigger: CompactionTrigger {
            var trigger = CompactionTrigger()
            trigger.garbageShare = UInt64(min(max(garbage.isNaN ? 1 : garbage, 0), 1) * 1024)
            trigger.minimumBytes = minimumBytes
            return trigger
        }

        /// Errors of automatic compaction go to standard error, because no caller waits for it.
        static func log(_ failure: StoreError) { StandardError.log("Automatic compaction has failed. \(failure)") }
    }

    /// The progress of a compaction.
    public struct CompactionProgress: Hashable, Sendable {
        /// The number of bytes of the store that have been processed.
        public let doneBytes: UInt64
        /// The number of bytes of the store to process. It grows if other handles write during the compaction.
        public let totalBytes: UInt64
    }
}
