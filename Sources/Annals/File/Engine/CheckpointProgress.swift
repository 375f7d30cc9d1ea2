// Tracks which part of the indexes is in a checkpoint, and decides when to write more.

/// The part of a checkpoint to write after a commit.
enum CheckpointStep: Equatable {
    case none
    /// Some nodes, of this number of bytes together. No checkpoint names them yet. A node that changes again before the
    /// checkpoint ends is written again.
    case part(bytes: Int)
    /// All remaining nodes, and the checkpoint frame, which names the nodes of all parts.
    case end
}

struct CheckpointProgress {
    /// Progress of a checkpoint that is written in parts.
    private struct Parts {
        /// The memory of unwritten nodes before the first part.
        let dirtyAtFirst: Int
        /// The memory of the nodes in the parts written so far.
        var written = 0
        /// The memory of unwritten nodes after the last part.
        var dirtyAfter = 0
        /// The bytes of the file between the last checkpoint and the end of the first part.
        let tailAtFirst: UInt64
    }

    /// The end of the last checkpoint.
    private(set) var end = UInt64(FormatLimits.pageBytes)
    /// The offsets of frames that each have one node full of landmarks.
    private(set) var landmarkFrames: [UInt64] = []
    /// Whether an ordered index was built that is in no checkpoint yet.
    private(set) var hasBuiltIndex = false
    /// Nil if no nodes were written that the next checkpoint must name.
    private var parts: Parts?
    /// The number of objects in the last checkpoint.
    private var objects: UInt64 = 0
    /// The end of the last nodes that another handle has written.
    private var foreignNodesEnd: UInt64 = 0

    // MARK: Events

    mutating func builtIndex() { hasBuiltIndex = true }

    mutating func foundNodes(endingAt end: UInt64) { foreignNodesEnd = end }

    /// `before` and `after` are the bytes of memory of nodes and deltas that are not in the file.
    mutating func wrotePart(_ before: Int, _ after: Int, fileEnd: UInt64) {
        assert(after <= before, "Writing nodes has left more of them.")
        var parts = parts ?? Parts(dirtyAtFirst: before, tailAtFirst: tail(at: fileEnd))
        parts.written += before - after
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

    /// Whether a checkpoint is due: since the last one the file has grown so much that opening would take too long, or
    /// nodes take too much memory.
    func isDue(at fileEnd: UInt64, dirty: Int, _ options: EngineOptions) -> Bool {
        let tail = tail(at: fileEnd)
        return dirty >= options.dirtyNodeBytes || tail >= leastTail(options) && tail >= 2 * UInt64(dirty)
    }

    private func tail(at fileEnd: UInt64) -> UInt64 { fileEnd - min(fileEnd, end) }

    /// The shortest tail that can make a checkpoint due.
    private func leastTail(_ options: EngineOptions) -> UInt64 {
        let wanted = max(options.checkpointTailBytes, objects &* options.tailBytesForEachObject)
        return min(wanted, max(options.checkpointTailBytes, options.mostCheckpointTailBytes))
    }

    /// Whether a checkpoint is due or has been begun, so that a part of it may have to be written.
    func isWanted(at fileEnd: UInt64, dirty: Int, _ options: EngineOptions) -> Bool {
        hasBuiltIndex || parts != nil || isDue(at: fileEnd, dirty: dirty, options)
    }

    /// The step after a transaction of this number of bytes.
    func nextStep(
        at fileEnd: UInt64, dirty: Int, transactionBytes: UInt64, _ options: EngineOptions
    ) -> CheckpointStep {
        if hasBuiltIndex { return .end }
        guard parts != nil || isDue(at: fileEnd, dirty: dirty, options) else { return .none }
        let least = options.checkpointPartBytes
        // After a large transaction, for which other writers had to wait anyway, the checkpoint is written to its end.
        // It must also end if new nodes come faster than parts write them.
        let isLarge = transactionBytes >= UInt64(options.indexSliceBytes)
        if isLarge || dirty >= options.dirtyNodeBytes / 2 * 3 { return .end }
        guard let parts else {
            if dirty <= options.undividedCheckpointBytes { return .end }
            return isAnotherWriting(at: fileEnd, dirty: dirty, options) ? .none : .part(bytes: least)
        }
        // A checkpoint in parts ends when the tail has become this long.
        // So an opening after a crash never reads more than twice the tail with which it began, or twice the nodes.
        let most = 2 * max(parts.tailAtFirst, leastTail(options), UInt64(parts.dirtyAtFirst))
        if tail(at: fileEnd) >= most { return .end }
        // A delta takes up to twice its memory in the file, because it is merged with deltas below it.
        let bytes = dirty * 2
        // Twice the new amount, so that the rest shrinks.
        let part = max(least, (bytes - min(bytes, parts.dirtyAfter * 2)) * 2)
        return bytes <= part || parts.written >= parts.dirtyAtFirst * 2 ? .end : .part(bytes: part)
    }

    /// Whether another handle seems to write the same nodes: its checkpoint will serve all handles.
    func isAnotherWriting(at fileEnd: UInt64, dirty: Int, _ options: EngineOptions) -> Bool {
        parts == nil && foreignNodesEnd > end
            && fileEnd - min(fileEnd, foreignNodesEnd) < UInt64(options.indexSliceBytes) * 8
            && dirty < options.dirtyNodeBytes / 4 * 5
    }
}
