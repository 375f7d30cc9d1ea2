// Tracks which part of the indexes is in a checkpoint, and decides when to write more.

/// The part of a checkpoint to write after a commit.
enum CheckpointStep: Equatable {
    case none
    /// Nodes of this number of bytes, which no checkpoint names yet. Nodes that change again before the end are written
    /// again.
    case part(bytes: Int)
    /// All remaining nodes, and the frame that names them all.
    case end
}

/// The memory of nodes and deltas that are not in the file.
struct DirtyBytes {
    var rows = 0
    var ordered = 0

    var memory: Int { rows + ordered }
    /// About what they take there: deltas are merged with those below them.
    var inFile: Int { rows * 2 + ordered }
}

struct CheckpointProgress {
    /// Progress of a checkpoint that is written in parts.
    private struct Parts {
        /// The number of bytes to write at first, written since, and left after the last part.
        let dirtyAtFirst: Int
        var written = 0
        var dirtyAfter = DirtyBytes()
        /// The bytes of the file between the last checkpoint and the end of the first part.
        let tailAtFirst: UInt64
    }

    /// The end of the last checkpoint.
    private(set) var end = UInt64(FormatLimits.pageBytes)
    /// Frames with a node full of landmarks each.
    private(set) var landmarkFrames: [UInt64] = []
    /// Whether an ordered index was built that no checkpoint has.
    private(set) var hasBuiltIndex = false
    /// Nil without written nodes that the next checkpoint must name.
    private var parts: Parts?
    /// The number of objects in the last checkpoint.
    private var objects: UInt64 = 0
    /// The end of the last nodes that another handle has written.
    private var foreignNodesEnd: UInt64 = 0

    // MARK: Events

    mutating func builtIndex() { hasBuiltIndex = true }

    mutating func foundNodes(endingAt end: UInt64) { foreignNodesEnd = end }

    mutating func wrotePart(_ before: DirtyBytes, _ after: DirtyBytes, fileEnd: UInt64) {
        assert(after.memory <= before.memory, "Writing nodes has left more of them.")
        var parts = parts ?? Parts(dirtyAtFirst: before.memory, tailAtFirst: tail(at: fileEnd))
        parts.written += before.memory - after.memory
        parts.dirtyAfter = after
        self.parts = parts
    }

    /// Notes that this handle has written a checkpoint that ends there.
    mutating func wrote(endingAt end: UInt64, objects: UInt64, landmarkFrames: [UInt64]) {
        found(endingAt: end, objects: objects, landmarkFrames: landmarkFrames)
        hasBuiltIndex = false
    }

    /// Notes that a checkpoint that ends there was read.
    mutating func found(endingAt end: UInt64, objects: UInt64, landmarkFrames: [UInt64]) {
        assert(end >= self.end, "A checkpoint is below the last one.")
        (self.end, self.objects, self.landmarkFrames) = (end, objects, landmarkFrames)
        parts = nil
    }

    // MARK: Decisions

    /// Whether the file has grown since the last checkpoint so far that opening would take too long, or nodes take too
    /// much memory.
    func isDue(at fileEnd: UInt64, dirty: Int, _ options: EngineOptions) -> Bool {
        let tail = tail(at: fileEnd)
        return dirty >= options.dirtyNodeBytes || tail >= leastTail(options) && tail >= 2 * UInt64(dirty)
    }

    private func tail(at fileEnd: UInt64) -> UInt64 { fileEnd - min(fileEnd, end) }

    /// The tail that makes a checkpoint due.
    private func leastTail(_ options: EngineOptions) -> UInt64 {
        let wanted = max(options.checkpointTailBytes, objects &* options.tailBytesForEachObject)
        return min(wanted, max(options.checkpointTailBytes, options.mostCheckpointTailBytes))
    }

    /// Whether a part of a checkpoint must be written.
    func isWanted(at fileEnd: UInt64, dirty: Int, _ options: EngineOptions) -> Bool {
        hasBuiltIndex || parts != nil || isDue(at: fileEnd, dirty: dirty, options)
    }

    /// The step after a transaction of this number of bytes.
    func nextStep(
        at fileEnd: UInt64, dirty: DirtyBytes, transactionBytes: UInt64, _ options: EngineOptions
    ) -> CheckpointStep {
        if hasBuiltIndex { return .end }
        let memory = dirty.memory
        guard parts != nil || isDue(at: fileEnd, dirty: memory, options) else { return .none }
        let least = options.checkpointPartBytes
        // The writer of a large transaction is waited for in any case. And if nodes come faster than parts write them,
        // the checkpoint must end.
        let isLarge = transactionBytes >= UInt64(options.indexSliceBytes)
        if isLarge || memory >= options.dirtyNodeBytes / 2 * 3 { return .end }
        guard let parts else {
            if memory <= options.undividedCheckpointBytes { return .end }
            return isAnotherWriting(at: fileEnd, dirty: memory, options) ? .none : .part(bytes: least)
        }
        // So an opening after a crash never reads more than twice the tail with which it began, or twice the nodes.
        let most = 2 * max(parts.tailAtFirst, leastTail(options), UInt64(parts.dirtyAtFirst))
        if tail(at: fileEnd) >= most { return .end }
        // Twice the new amount, so that the rest shrinks.
        let part = max(least, (dirty.inFile - min(dirty.inFile, parts.dirtyAfter.inFile)) * 2)
        return dirty.inFile <= part || parts.written >= parts.dirtyAtFirst * 2 ? .end : .part(bytes: part)
    }

    /// Whether another handle seems to write the same nodes: its checkpoint will serve all handles.
    func isAnotherWriting(at fileEnd: UInt64, dirty: Int, _ options: EngineOptions) -> Bool {
        parts == nil && foreignNodesEnd > end
            && fileEnd - min(fileEnd, foreignNodesEnd) < UInt64(options.indexSliceBytes) * 8
            && dirty < options.dirtyNodeBytes / 4 * 5
    }
}
