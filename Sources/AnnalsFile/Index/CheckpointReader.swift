// Reads a checkpoint: the document in its frame or in frames before it, and the landmarks that it names.

enum LandmarkField {
    static let offset = 0
    static let number = 8
    static let bytes = 16
    static let inNode = IndexNode.bytes / bytes
}

/// Reads through private copies, each frame verified by itself: works before anything else of the file is known.
struct CheckpointReader: Sendable {
    private let files: any FileSystem
    private let file: Descriptor
    private let salt: UInt64

    init(_ files: any FileSystem, _ file: Descriptor, salt: UInt64) {
        self.files = files
        self.file = file
        self.salt = salt
    }

    /// The checkpoint frame at an offset, and its document. Throws `damaged` where there is none.
    func checkpoint(at offset: UInt64) throws(FileError) -> (header: FrameHeader, content: CheckpointContent) {
        let window = self.window
        let frame = try self.frame(at: offset, .checkpoint, window)
        let table = frame.table
        guard table.count >= CheckpointField.bytes, table.integer(at: CheckpointField.zero, as: UInt32.self) == 0 else {
            throw Self.malformed(offset)
        }
        let bytes = table.integer(at: CheckpointField.documentBytes, as: UInt64.self)
        let pieces = Int(table.integer(at: CheckpointField.pieces, as: UInt32.self))
        guard table.count == CheckpointField.bytes + pieces * 8,
            bytes <= UInt64(pieces * FormatLimits.maximumNodeFrameBytes + frame.body.count)
        else { throw Self.malformed(offset) }
        let last = Array(frame.body)
        let offsets = (0..<pieces).map { table.integer(at: CheckpointField.bytes + $0 * 8, as: UInt64.self) }
        var document: [UInt8] = []
        for piece in offsets {
            guard piece < offset else { throw Self.malformed(offset) }
            document += try self.frame(at: piece, .nodes, window).body
        }
        document += last
        guard Int(bytes) <= document.count, document.count - Int(bytes) < IndexNode.bytes else {
            throw Self.malformed(offset)
        }
        let content = try document.withContent(Int(bytes))
        return (frame.header, content)
    }

    /// The landmarks that a checkpoint at `end` names.
    func landmarks(_ content: CheckpointContent, below end: UInt64) throws(FileError) -> Landmarks {
        let window = self.window
        var stored: [Landmark] = []
        for offset in content.landmarkFrames {
            let node = try frame(at: offset, .nodes, window).body
            guard node.count == IndexNode.bytes else { throw Self.malformed(offset) }
            for entry in stride(from: 0, to: IndexNode.bytes, by: LandmarkField.bytes) {
                stored.append(
                    Landmark(
                        offset: node.integer(at: entry + LandmarkField.offset, as: UInt64.self),
                        number: node.integer(at: entry + LandmarkField.number, as: UInt64.self)))
            }
        }
        stored += content.landmarks.map { Landmark(offset: $0.offset, number: $0.number) }
        return try Landmarks(stored: stored, below: end)
    }

    private var window: ByteWindow { ByteWindow(files, file, stepBytes: FormatLimits.maximumNodeFrameBytes) }

    private func frame(
        at offset: UInt64, _ kind: FrameKind, _ window: ByteWindow
    ) throws(FileError) -> FrameView {
        guard offset >= UInt64(FormatLimits.pageBytes), offset < FormatLimits.maximumFileBytes else {
            throw Self.malformed(offset)
        }
        let start = try window.bytes(at: offset, count: FrameField.bytes)
        guard case .good(let header) = FrameHeader.decode(start, offset: offset, salt: salt), header.kind == kind else {
            throw Self.malformed(offset)
        }
        let bytes = try window.bytes(at: offset, count: Int(header.frameBytes))
        guard bytes.count == Int(header.frameBytes) else { throw Self.malformed(offset) }
        let frame = FrameView(bytes, header: header, offset: offset)
        guard frame.checksumsMatch(salt: salt) else { throw Self.malformed(offset) }
        return frame
    }

    private static func malformed(_ offset: UInt64) -> FileError {
        FileError(.damaged, "F29: what a checkpoint needs does not stand here.", offset: offset)
    }
}

extension [UInt8] {
    /// The document in the first bytes; what is behind them is padding.
    fileprivate func withContent(_ bytes: Int) throws(FileError) -> CheckpointContent {
        var result: Result<CheckpointContent, FileError> = .failure(FileError(.damaged, "F29: no document."))
        self.withUnsafeBytes { all in
            do throws(FileError) {
                result = .success(try CheckpointContent.decode(UnsafeRawBufferPointer(rebasing: all[..<bytes])))
            } catch { result = .failure(error) }
        }
        return try result.get()
    }
}
