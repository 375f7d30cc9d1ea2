// F32: each landmark of a checkpoint is the offset and the number of a frame.

/// Notes the offsets of frames, and compares the landmarks of checkpoints with them.
final class LandmarkChecker {
    private let reader: CheckpointReader
    private let window: ByteWindow
    private let salt: UInt64
    /// The first frame of each MiB read so far.
    private(set) var first = Landmarks()
    /// Frames full of landmarks in an earlier checkpoint: later checkpoints have the same ones, and more.
    private var checked: [UInt64] = []

    init(_ files: any FileSystem, _ file: Descriptor, salt: UInt64, _ reader: CheckpointReader) {
        self.reader = reader
        self.salt = salt
        window = ByteWindow(files, file, stepBytes: FormatLimits.maximumNodeFrameBytes)
    }

    func note(_ frame: FrameView) { _ = first.note(frame.offset, number: frame.header.number) }

    /// Throws `damaged` under F32.
    func check(_ content: CheckpointContent, at checkpoint: UInt64) throws(StoreError) {
        for (place, offset) in content.landmarkFrames.enumerated() {
            if place < checked.count, checked[place] == offset { continue }
            checked.removeSubrange(min(place, checked.count)...)
            for (entry, landmark) in try stored(at: offset, below: checkpoint).enumerated() {
                try check(landmark, place * LandmarkField.inNode + entry, below: checkpoint)
            }
            checked.append(offset)
        }
        checked.removeSubrange(min(content.landmarkFrames.count, checked.count)...)
        for (entry, landmark) in content.landmarks.enumerated() {
            let index = content.landmarkFrames.count * LandmarkField.inNode + entry
            try check(Landmark(offset: landmark.offset, number: landmark.number), index, below: checkpoint)
        }
        let count = content.landmarkFrames.count * LandmarkField.inNode + content.landmarks.count
        let possible = first.all.lastIndex { $0.offset < content.countedEnd }.map { $0 + 1 } ?? 0
        guard count == possible else {
            throw damaged(
                "A checkpoint does not have one landmark for each MiB before it.")
        }
    }

    private func stored(at offset: UInt64, below checkpoint: UInt64) throws(StoreError) -> [Landmark] {
        guard offset < checkpoint else { throw damaged("A frame of landmarks does not precede its checkpoint.") }
        do throws(StoreError) {
            return try reader.landmarks(inFrameAt: offset)
        } catch  where error.isBreach {
            throw damaged("A frame of landmarks is missing from the offset in a checkpoint.")
        }
    }

    private func check(_ landmark: Landmark, _ index: Int, below checkpoint: UInt64) throws(StoreError) {
        guard landmark.offset >> Landmarks.stepBits == UInt64(index), landmark.offset < checkpoint,
            try number(ofFrameAt: landmark.offset) == landmark.number
        else { throw damaged("A landmark is outside of its MiB, or has a wrong number.") }
    }

    /// The number of the frame at that offset; nil if no frame begins there. Walks from the first frame of that MiB.
    private func number(ofFrameAt offset: UInt64) throws(StoreError) -> UInt64? {
        guard let start = first.last(at: offset) else { return nil }
        if start.offset == offset { return start.number }
        var cursor = FrameCursor(window, salt: salt, at: start.offset)
        while cursor.position <= offset {
            guard let header = try cursor.header() else { return nil }
            if cursor.position == offset { return header.number }
            cursor.position += UInt64(header.frameBytes)
        }
        return nil
    }

    private func damaged(_ sentence: String) -> StoreError { StoreError(.damaged, "F32: " + sentence) }
}
