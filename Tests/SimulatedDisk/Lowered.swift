// Sizes and limits so low that small tests reach them.

package import Annals

extension LogLimits {
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
        limits.spoolStepBytes = 4096
        limits.windowBytes = 8192
        // Simulated time passes faster than a thread releases a kept lock.
        limits.lockKeeping.commits = .max
        return limits
    }
}

extension EngineOptions {
    /// Sizes so small that small tests reach them.
    package static var lowered: EngineOptions {
        var options = EngineOptions()
        options.log.limits = .lowered
        options.log.limits.mappingReserveBytes = 16 << 20
        options.dirtyNodeBytes = 64 << 10
        options.checkpointTailBytes = 16 << 10
        options.tailBytesForEachObject = 0
        options.undividedCheckpointBytes = 12 << 10
        options.checkpointPartBytes = 16 << 10
        options.deltas.mostInMemory = 6
        options.deltas.mostInFile = 10
        options.deltas.mostInChain = 4
        options.deltas.ordered.mostEdits = 6
        options.deltas.ordered.mostInFile = 320
        options.closingTailBytes = 4 << 10
        options.keySortBytes = 6 << 10
        options.indexSliceBytes = 16 << 10
        options.copiedBytes = 32 << 10
        // Most tests set their clocks freely.
        options.appliesRetention = false
        return options
    }
}

extension CompactionOptions {
    package static var lowered: CompactionOptions {
        var options = CompactionOptions()
        options.finalBytes = 2048
        options.sliceBytes = 8192
        return options
    }
}
