// What a store takes and holds, in numbers.

/// Sizes and counts of one store at one moment.
public struct StoreStatistics: Hashable, Sendable, Codable {
    /// The size of the file, reserved space included.
    public let fileBytes: UInt64
    /// Where what counts ends in it.
    public let endBytes: UInt64
    /// How many transactions history holds.
    public let transactions: UInt64
    /// How many objects each entity has.
    public let objects: [String: UInt64]
    /// The bytes of each kind of frame.
    public let bytesByKind: [String: UInt64]
    /// Memory in which index nodes wait to be written.
    public let dirtyNodeBytes: Int
    /// What the file is made of, about.
    public let space: Space

    /// What a file is made of. Estimates from what all rows and changes take together.
    public struct Space: Hashable, Sendable, Codable {
        /// The newest rows of the objects that there are.
        public let liveBytes: UInt64
        /// What only history still needs: changes, and rows that others have taken the place of.
        public let historyBytes: UInt64
        /// What nobody can read any more: compaction gives it back.
        public let garbageBytes: UInt64
        /// Indexes that are in the file, without nodes that later ones have replaced: those are garbage.
        public let indexBytes: UInt64
        /// Reserved at the end of the file for what will be written.
        public let freeBytes: UInt64
    }
}
