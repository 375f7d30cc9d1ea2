// What a user of the engine may choose.

package struct EngineOptions: Sendable {
    package var log = LogOptions()
    package var reading = Reading.mapped
    /// A checkpoint is begun when nodes that are not in the file take so much memory; half as much again is the most
    /// there is while it is written ...
    package var dirtyNodeBytes = 64 << 20
    /// ... or when so much stands behind the last one, and it is at least twice what the checkpoint would take.
    package var checkpointTailBytes: UInt64 = 16 << 20
    /// Where it would take more than this, it is written part by part, each behind a commit.
    package var undividedCheckpointBytes = 8 << 20
    /// Closing writes a checkpoint where so much would have to be read again at opening.
    package var closingTailBytes: UInt64 = 64 << 10
    /// The keys of an index that is built take so much memory; what is more waits in a file.
    package var keySortBytes = 24 << 20
    /// So much of an index that is built is written at once, while others wait, and of a checkpoint in parts, or there
    /// twice what has come anew: whole nodes.
    package var indexSliceBytes = 1 << 20

    /// Reading by copies forgets them when they have come to so much, and nobody reads.
    package var copiedBytes: UInt64 = 64 << 20

    /// Whether history goes by itself that the store's retention does not keep.
    package var appliesRetention = true
    /// Looked at when so much time has passed, or so much was written, since the last look of this handle.
    package var retentionCheckMicroseconds: Int64 = 60_000_000
    package var retentionCheckBytes: UInt64 = 16 << 20

    /// Where those wait who want to know of changes; nil for where all of the process do.
    package var hub: ChangeHub?

    /// Layouts of rows: the same for all files that take one another's place.
    package var layouts = LayoutPool()

    /// Who reads by copies touches no mapping at all.
    var logOptions: LogOptions {
        var options = log
        options.maps = log.maps && reading == .mapped
        return options
    }

    package init() { log.limits.mappingReserveBytes = 1 << 40 }

    /// Sizes low enough that small tests meet them.
    package static var lowered: EngineOptions {
        var options = EngineOptions()
        options.log.limits = .lowered
        options.log.limits.mappingReserveBytes = 16 << 20
        options.dirtyNodeBytes = 64 << 10
        options.checkpointTailBytes = 16 << 10
        options.undividedCheckpointBytes = 12 << 10
        options.closingTailBytes = 4 << 10
        options.keySortBytes = 6 << 10
        options.indexSliceBytes = 16 << 10
        options.copiedBytes = 32 << 10
        // Tests that are not about it set their clocks as they like.
        options.appliesRetention = false
        return options
    }
}
