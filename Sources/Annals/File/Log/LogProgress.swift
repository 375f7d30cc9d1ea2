// The part of the log's state that a commit changes: plain values, cheap to copy and to compare.

/// The end of the log, and its last frames.
package struct LogProgress: Equatable, Sendable {
    package internal(set) var end: UInt64
    package internal(set) var endChecksum: UInt64
    /// The start of the frame that ends at `end`; nil before the first frame.
    package internal(set) var lastFrame: UInt64?
    package internal(set) var durableMark: UInt64
    package internal(set) var lastNumber: UInt64
    package internal(set) var lastTime: Int64
    package internal(set) var lastTag: UInt64
    /// Whether the last frame is a seal.
    package internal(set) var isSealed = false
    /// Whether the last frame announces that another file is about to take this one's place.
    package internal(set) var isReplacing = false
    package internal(set) var mayStepBack = false
    /// Whether rows without history may come next: true as long as compaction may have written all frames so far.
    var mayHoldRows: Bool
    /// The number of dropped torn tails, from recovery frames.
    package internal(set) var recoveries = 0
    package internal(set) var frames: UInt64 = 0
    /// The newest checkpoint.
    package internal(set) var checkpoint: CheckpointPlace?

    /// Before the first frame of a file.
    init(_ header: FileHeader) {
        end = UInt64(FormatLimits.pageBytes)
        endChecksum = header.checksum
        durableMark = UInt64(FormatLimits.pageBytes)
        (lastNumber, lastTime, lastTag) = (header.baseNumber, header.baseTime, header.baseTag)
        mayHoldRows = header.generation > 0
    }
}

/// A checkpoint in the file.
package struct CheckpointPlace: Equatable, Sendable {
    package var offset: UInt64
    package var end: UInt64
    /// The last transaction before it.
    package var number: UInt64
}
