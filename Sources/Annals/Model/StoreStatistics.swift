// The sizes and counts of a store.

/// Sizes and counts of one store at one moment.
public struct StoreStatistics: Hashable, Sendable, Codable {
    /// The size of the file, including reserved space.
    public let fileBytes: UInt64
    /// The end of the file's valid content.
    public let endBytes: UInt64
    /// The number of transactions in history.
    public let transactions: UInt64
    /// The number of objects of each entity.
    public let objects: [String: UInt64]
    /// The bytes of each kind of frame.
    public let bytesByKind: [String: UInt64]
    /// The memory of index nodes that are not written yet.
    public let dirtyNodeBytes: Int
    /// The reason why this handle's last automatic compaction has failed, and its cure; nil without a failure, or if
    /// this handle has compacted the store since. The next attempt follows after a minute or later. Standard error
    /// received the same text.
    public let compactionFailure: String?
    /// An estimate of the space that each kind of content takes.
    public let space: Space

    /// How the file's space is used. These are estimates from the total size of rows and changes.
    public struct Space: Hashable, Sendable, Codable {
        /// The newest rows of the existing objects.
        public let liveBytes: UInt64
        /// The size of data that only history needs: changes, and rows that newer ones have replaced.
        public let historyBytes: UInt64
        /// The size of data that can no longer be read. Compaction frees it.
        public let garbageBytes: UInt64
        /// Indexes. Nodes that newer ones have replaced are garbage and do not count here.
        public let indexBytes: UInt64
        /// Space reserved at the end of the file for future writes.
        public let freeBytes: UInt64
    }
}
