// Reads a checkpoint: its document, in its frame or in frames before it, and its landmarks.

package enum LandmarkField {
    package static let offset = 0
    package static let number = 8
    package static let bytes = 16
    static let inNode = IndexNode.bytes / bytes
}

/// Reads private copies and verifies each frame by itself. It works before the rest of the file is known.
struct CheckpointReader: Sendable {
    private let files: any FileSystem
    private let file: Descriptor
    private let salt: UInt64

    init(_ files: any FileSystem, _ file: Descriptor, salt: UInt64) {
        (self.files, self.file, self.salt) = (files, file, salt)
    }

    /// A checkpoint frame, its document, and the frames with the document's beginning.
    struct Stored {
        let header: FrameHeader
        let content: CheckpointContent
        let pieces: [UInt64]
    }

    /// The checkpoint frame at an offset, with its document. Throws `damaged` if no checkpoint is there.
    func checkpoint(at offset: UInt64) throws(StoreError) -> Stored {
        let window = self.window
        defer { withExtendedLifetime(window) {} }
        let frame = try self.frame(at: offset, .checkpoint, window)
        let table = frame.table
        // Checked first: with unknown features, the rest may have any form.
        let features = try CheckpointField.features(frame)
        let bytes = table.integer(at: CheckpointField.documentBytes, as: UInt64.self)
        let pieces = Int(table.integer(at: CheckpointField.pieces, as: UInt32.self))
        guard table.count == CheckpointField.bytes + pieces * 8,
            bytes <= UInt64(pieces * FormatLimits.maximumNodeFrameBytes + frame.body.count)
        else { throw Self.malformed(offset) }
        let ending = Array(frame.body)
        let offsets = (0..<pieces).map { table.integer(at: CheckpointField.bytes + $0 * 8, as: UInt64.self) }
        var document: [UInt8] = []
        var end: UInt64 = 0
        for piece in offsets {
            // In ascending order, so that no piece is read twice.
            guard piece >= end, piece < offset else { throw Self.malformed(offset) }
            let frame = try self.frame(at: piece, .nodes, window)
            document += frame.body
            end = frame.end
        }
        document += ending
        guard Int(bytes) <= document.count, document.count - Int(bytes) < IndexNode.bytes,
            document[Int(bytes)...].allSatisfy({ $0 == 0 })
        else { throw Self.malformed(offset) }
        var content = try document.content(Int(bytes), ofCheckpointAt: offset)
        content.features = features
        try content.validateCounts(below: offset)
        let landmarks = UInt64(content.landmarkFrames.count * LandmarkField.inNode + content.landmarks.count)
        guard landmarks <= offset >> Landmarks.stepBits + 1 else {
            throw StoreError(
                .damaged,
                "F32: a checkpoint has more landmarks than there are MiB before it.", offset: offset)
        }
        return Stored(header: frame.header, content: content, pieces: offsets)
    }

    /// The landmarks of a checkpoint at `end`.
    func landmarks(_ content: CheckpointContent, below end: UInt64) throws(StoreError) -> Landmarks {
        var stored: [Landmark] = []
        var last: UInt64 = 0
        for offset in content.landmarkFrames {
            guard offset >= last else { throw Self.malformed(offset) }
            last = offset + UInt64(FrameField.bytes + IndexNode.bytes)
            stored += try landmarks(inFrameAt: offset)
        }
        stored += content.landmarks
        return try Landmarks(stored: stored, below: end)
    }

    /// The landmarks that fill the one node of a nodes frame.
    func landmarks(inFrameAt offset: UInt64) throws(StoreError) -> [Landmark] {
        let window = self.window
        defer { withExtendedLifetime(window) {} }
        let node = try frame(at: offset, .nodes, window).body
        guard node.count == IndexNode.bytes else { throw Self.malformed(offset) }
        return stride(from: 0, to: IndexNode.bytes, by: LandmarkField.bytes).map { entry in
            Landmark(
                offset: node.integer(at: entry + LandmarkField.offset, as: UInt64.self),
                number: node.integer(at: entry + LandmarkField.number, as: UInt64.self))
        }
    }

    /// A new window each time. The caller retains it.
    private var window: ByteWindow { ByteWindow(files, file, stepBytes: FormatLimits.maximumNodeFrameBytes) }

    private func frame(
        at offset: UInt64, _ kind: FrameKind, _ window: ByteWindow
    ) throws(StoreError) -> FrameView {
        let cursor = FrameCursor(window, salt: salt, at: offset)
        guard offset >= UInt64(FormatLimits.pageBytes), offset < FormatLimits.maximumFileBytes,
            let frame = try cursor.frame(kind, atMost: FormatLimits.maximumNodeFrameBytes)
        else { throw Self.malformed(offset) }
        if kind == .nodes { try NodesField.requireKnown(frame) }
        return frame
    }

    private static func malformed(_ offset: UInt64) -> StoreError {
        StoreError(.damaged, "F29: a checkpoint refers to a missing frame.", offset: offset)
    }
}

extension [UInt8] {
    /// The document in the first bytes; the rest is padding. Errors name the checkpoint, because its document may be in
    /// several frames.
    fileprivate func content(_ bytes: Int, ofCheckpointAt offset: UInt64) throws(StoreError) -> CheckpointContent {
        do throws(StoreError) {
            return try withUnsafeBufferPointer { (all) throws(StoreError) in
                try CheckpointContent.decode(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(all)[..<bytes]))
            }
        } catch {
            var placed = error
            placed.offset = offset
            throw placed
        }
    }
}
