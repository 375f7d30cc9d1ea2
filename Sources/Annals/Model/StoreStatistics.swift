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
}
