// When a store is compacted by itself, and how far a compaction is.

extension Store {
    /// When a store is compacted by itself, in the background of a handle that commits and has been open for 10
    /// seconds.
    public struct AutomaticCompaction: Hashable, Sendable {
        /// How much of the file would be freed, about: more than this part.
        public var garbage = 0.5
        /// Smaller files are left alone.
        public var minimumBytes: UInt64 = 16 << 20

        /// The standard choice: over half of the file is garbage, and the file has at least 16 MiB.
        public init() {}

        var trigger: CompactionTrigger {
            var trigger = CompactionTrigger()
            trigger.garbageShare = UInt64(min(max(garbage.isNaN ? 1 : garbage, 0), 1) * 1024)
            trigger.minimumBytes = minimumBytes
            return trigger
        }
    }

    /// How far a compaction is.
    public struct CompactionProgress: Hashable, Sendable {
        /// Bytes of the store that were gone through, and how many there are. Others may write meanwhile: then there
        /// are more.
        public let doneBytes: UInt64
        /// How many bytes of the store there are to go through.
        public let totalBytes: UInt64
    }
}
