// The engine's options.

package struct EngineOptions: Sendable {
    package var log = LogOptions()
    package var reading = FileReading.mapped
    /// A checkpoint begins when unwritten nodes take this memory. While it is written they take at most half as much
    /// again ...
    package var dirtyNodeBytes = 64 << 20
    /// ... or when this number of bytes follows the last one, and at least twice the checkpoint's own size. In a store
    /// of many objects it is this number for each, up to a limit: they spread over more leaves, of which each has fewer
    /// changes then.
    package var checkpointTailBytes: UInt64 = 16 << 20
    package var tailBytesForEachObject: UInt64 = 1
    package var mostCheckpointTailBytes: UInt64 = 256 << 20
    /// A larger checkpoint is written in parts, each after a commit.
    package var undividedCheckpointBytes = 256 << 10
    /// The least size of a part.
    package var checkpointPartBytes = 256 << 10
    /// Closing writes a checkpoint if the next opening would have to read this number of bytes.
    package var closingTailBytes: UInt64 = 64 << 10
    /// Which changed leaves of indexes get deltas.
    package var deltas = DeltaPolicy()
    /// The memory for the keys of a new index. The rest waits in a file.
    package var keySortBytes = 24 << 20
    /// The part of a new index that is written at once, while other writers wait. Whole nodes.
    package var indexSliceBytes = 1 << 20

    /// Reading by copies forgets them when they take this memory and no thread reads. Pages kept for the next copies
    /// count, too.
    package var copiedBytes: UInt64 = 64 << 20

    /// Whether history beyond the store's retention is cleaned automatically.
    package var appliesRetention = true
    /// Retention is checked when this time has passed, or this number of bytes was written, since this handle's last
    /// check.
    package var retentionCheckMicroseconds: Int64 = 60_000_000
    package var retentionCheckBytes: UInt64 = 16 << 20

    /// The hub that delivers change signals; nil for the one of the process.
    package var hub: ChangeHub?

    /// Rung by a search that had to read many rows.
    package let searchBell = UpkeepBell()

    /// Layouts of rows, shared by all files that replace one another.
    package var layouts = LayoutPool()

    /// Reading by copies touches no mapping at all.
    var logOptions: LogOptions {
        var options = log
        options.maps = log.maps && reading == .mapped
        return options
    }

    package init(hub: ChangeHub? = nil) {
        self.hub = hub
        log.limits.mappingReserveBytes = 1 << 40
    }
}
