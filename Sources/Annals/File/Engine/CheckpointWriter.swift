// Writes a checkpoint after the end while the writer lock is held: nodes, landmarks, the document.

/// Collects nodes into frames. Returns each node's offset before it is written.
final class NodesWriter {
    private let appender: Appender
    /// Including the landmarks of the frames written here.
    private(set) var landmarks: Landmarks
    /// The unfinished frame, from its header on. Empty between frames.
    private var frame = ByteWriter(capacity: FormatLimits.maximumNodeFrameBytes)
    /// The free bytes of the frame's last node of deltas.
    private var deltas = 0..<0
    /// The offset of the nodes in a frame.
    private static let front = FrameField.bytes + NodesField.bytes
    /// The number of bytes of nodes that fit in a frame.
    private static let maximumBodyBytes =
        (FormatLimits.maximumNodeFrameBytes - front) / IndexNode.bytes * IndexNode.bytes

    private let file: VerifiedFile

    init(_ appender: Appender, _ landmarks: Landmarks, _ file: VerifiedFile) {
        self.appender = appender
        self.landmarks = landmarks
        self.file = file
    }

    /// Adds a node, or a delta to a node of them. Returns its future offset.
    func add(_ content: UnsafeRawBufferPointer) throws(StoreError) -> UInt64 {
        if content.count < IndexNode.bytes { return try addDelta(content) }
        assert(content.count == IndexNode.bytes, "A node has another size.")
        try beginNode()
        let offset = appender.state.end + UInt64(frame.count)
        assert(offset % UInt64(FormatLimits.frameAlignment) == 0, "A node cannot be at that offset.")
        frame.append(content)
        return offset
    }

    private func beginNode() throws(StoreError) {
        if frame.count == Self.front + Self.maximumBodyBytes { try flush() }
        if frame.count == 0 { frame.appendZeros(Self.front) }
    }

    private func addDelta(_ delta: UnsafeRawBufferPointer) throws(StoreError) -> UInt64 {
        if deltas.count < delta.count {
            try beginNode()
            deltas = frame.count..<frame.count + IndexNode.bytes
            frame.appendZeros(IndexNode.bytes)
        }
        let place = deltas.lowerBound
        frame.mutableBytes(place..<place + delta.count).copyMemory(from: delta)
        deltas = place + delta.count..<deltas.upperBound
        return appender.state.end + UInt64(place)
    }

    /// Writes the collected nodes.
    func flush() throws(StoreError) {
        guard frame.count > 0 else { return }
        frame.patch(UInt32((frame.count - Self.front) / IndexNode.bytes), at: FrameField.bytes)
        try append(.nodes, tableBytes: NodesField.bytes)
    }

    /// Writes a frame with only this content, padded to whole nodes. Requires that no nodes wait. Returns the frame's
    /// offset.
    func addFrame(_ content: ArraySlice<UInt8>) throws(StoreError) -> UInt64 {
        assert(frame.count == 0, "Nodes wait while another frame is written.")
        let offset = appender.state.end
        frame.appendZeros(Self.front)
        content.withUnsafeBytes { frame.append($0) }
        frame.appendZeros((Self.front - frame.count) & (IndexNode.bytes - 1))
        try flush()
        return offset
    }

    /// Writes the unfinished frame.
    private func append(_ kind: FrameKind, tableBytes: Int) throws(StoreError) {
        let offset = appender.state.end
        defer {
            frame.truncate()
            deltas = 0..<0
        }
        assert(frame.count <= FormatLimits.maximumNodeFrameBytes, "A frame of nodes is too long.")
        // The size of a checkpoint is not known before.
        try file.requireReach(offset + UInt64(frame.count))
        try appender.prepare(bytes: UInt64(frame.count))
        try appender.appendStandalone(kind, frame.mutableBytes(0..<frame.count), tableBytes: tableBytes)
        _ = landmarks.note(offset, number: appender.state.lastNumber)
    }

    /// Ends the checkpoint with its document. The part that does not fit in the checkpoint frame goes into frames
    /// before it.
    func finish(_ content: CheckpointContent) throws(StoreError) {
        let document = content.encoded()
        let room = FormatLimits.maximumNodeFrameBytes - FrameField.bytes - CheckpointField.bytes
        var pieces: [UInt64] = []
        var rest = document[...]
        while rest.count.paddedTo8 > room - pieces.count * 8 {
            pieces.append(try addFrame(rest.prefix(Self.maximumBodyBytes)))
            rest = rest.dropFirst(Self.maximumBodyBytes)
            guard pieces.count * 8 < room / 2 else {
                throw StoreError(
                    .tooLarge,
                    "The schemas and names of the store are too long for a checkpoint: clean history and compact the "
                        + "store.")
            }
        }
        frame.appendZeros(FrameField.bytes)
        frame.append(UInt64(document.count))
        frame.append(UInt32(pieces.count))
        frame.append(UInt32(0))
        frame.append(content.features.reading)
        frame.append(content.features.writing)
        for piece in pieces { frame.append(piece) }
        let tableBytes = frame.count - FrameField.bytes
        rest.withUnsafeBytes { frame.append($0) }
        frame.appendPadding()
        try append(.checkpoint, tableBytes: tableBytes)
    }
}

extension Engine {
    /// Does nothing if another handle has written a checkpoint in between.
    func write(_ step: CheckpointStep) throws(StoreError) {
        try log.locked(nil) { (appender) throws(StoreError) in
            let (end, dirty) = (appender.state.end, indexes.dirtyBytes)
            guard indexes.checkpoint.isWanted(at: end, dirty: dirty, options) else { return }
            if case .part(let bytes) = step {
                if indexes.checkpoint.isAnotherWriting(at: end, dirty: dirty, options) { return }
                if try writePart(ofBytes: bytes, appender) { return }
                // Only nodes are left that need the checkpoint's end.
                log.publish(appender)
            }
            log.removeLeftover()
            try writeCheckpoint(appender)
        }
    }

    /// Returns whether enough was left to write all of it.
    private func writePart(ofBytes bytes: Int, _ appender: Appender) throws(StoreError) -> Bool {
        indexes.core.file.beginReading()
        defer { indexes.core.file.endReading() }
        var left = bytes
        var leaves: [RowIndex.WrittenLeaf] = []
        // Written from copies, which share unchanged nodes. A failure leaves the indexes unchanged.
        var ordered = indexes.ordered
        try appendNodes(appender) { (writer) throws(StoreError) in
            let written = try indexes.rows.writeLeaves(ofBytes: bytes) { (content) throws(StoreError) in
                try writer.add(content)
            }
            (leaves, left) = (written.leaves, left - written.bytes)
            for index in ordered.indices where left > 0 {
                let file = indexes.core.file
                let bytes = try ordered[index]?.writeNodes(ofBytes: left, file) { (node) throws(StoreError) in
                    try writer.add(node)
                }
                left -= bytes ?? 0
            }
        }
        assert(left > -IndexNode.bytes, "More was written than the limit allows.")
        indexes.install(leaves, ordered)
        return left <= 0
    }

    /// Lets `body` write nodes after the end. No checkpoint names them yet. With the writer lock: nothing later in the
    /// same hold may fail before the appender was published.
    func appendNodes(
        _ appender: Appender, _ body: (NodesWriter) throws(StoreError) -> Void
    ) throws(StoreError) {
        let start = appender.state.end
        let writer = try nodesWriter(appender)
        let first = appender.state.end
        try body(writer)
        try writer.flush()
        let end = appender.state.end
        indexes.noteNodes(writer.landmarks, recoveryBytes: first - start, nodeBytes: end - first, end: end)
    }

    /// A writer after the end. A recovery frame for it is a landmark too.
    private func nodesWriter(_ appender: Appender) throws(StoreError) -> NodesWriter {
        let start = appender.state.end
        try indexes.core.file.requireReach(start + UInt64(FormatLimits.maximumNodeFrameBytes))
        try appender.prepare(bytes: UInt64(FormatLimits.maximumNodeFrameBytes))
        var landmarks = indexes.landmarks
        if appender.state.end > start { _ = landmarks.note(start, number: appender.state.lastNumber) }
        return NodesWriter(appender, landmarks, indexes.core.file)
    }

    /// Whether this handle has written enough since the last checkpoint to make the next opening slow.
    func isCheckpointWorthClosing() -> Bool {
        guard log.writer.withLock({ log.writing.hasAppended }) else { return false }
        return log.current.end > indexes.checkpoint.end + options.closingTailBytes
    }

    /// Writes the indexes into the file, so that opening need not read the frames below.
    package func writeCheckpoint() throws(StoreError) {
        try log.locked(nil) { (appender) throws(StoreError) in
            // Rare enough to be cheap, and frequent enough for handles that stay open for days.
            log.removeLeftover()
            try writeCheckpoint(appender)
        }
    }

    /// With the writer lock. The indexes are those of the appender's state. A failure leaves them unchanged. Does
    /// nothing directly after a complete checkpoint.
    func writeCheckpoint(_ appender: Appender) throws(StoreError) {
        let sealBytes = appender.state.isSealed ? UInt64(FrameField.bytes + SealRecord.bytes) : 0
        let isThere = appender.state.checkpoint?.end == appender.state.end - sealBytes
        if isThere, !indexes.checkpoint.hasBuiltIndex { return }
        indexes.core.file.beginReading()
        defer { indexes.core.file.endReading() }
        let start = appender.state.end
        let writer = try nodesWriter(appender)
        let first = appender.state.end
        var content = indexes.content(appender.state)
        let roots = try indexes.rows.writeNodes { (node) throws(StoreError) in try writer.add(node) }
        var ordered = indexes.ordered
        for index in ordered.indices {
            _ = try ordered[index]?.writeDirtyNodes(indexes.core.file) { (node) throws(StoreError) in
                try writer.add(node)
            }
        }
        try writer.flush()
        indexes.describe(roots, ordered, in: &content)
        content.landmarkFrames = try indexes.storeLandmarks { (node) throws(StoreError) in try writer.addFrame(node) }
        let stored = content.landmarkFrames.count * LandmarkField.inNode
        content.landmarks = Array(writer.landmarks.all[stored...])
        content.countedEnd = appender.state.end
        content.frames = appender.state.frames
        var counts = indexes.counts
        counts.add(.recovery, bytes: first - start)
        counts.add(.nodes, bytes: content.countedEnd - first)
        counts.describe(in: &content)
        try writer.finish(content)
        guard let place = appender.state.checkpoint else { return }
        counts.add(.nodes, bytes: place.offset - content.countedEnd)
        counts.add(.checkpoint, bytes: place.end - place.offset)
        indexes.installCheckpoint(
            roots, ordered, counts, writer.landmarks, landmarkFrames: content.landmarkFrames, end: place.end)
    }
}
