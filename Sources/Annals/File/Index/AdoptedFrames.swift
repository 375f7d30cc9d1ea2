// Frames of other handles that this handle has copied, in file order.

/// Their offsets. `VerifiedFile` keeps the copies themselves.
struct AdoptedFrames {
    typealias Border = (end: UInt64, checksum: UInt64)

    let start: UInt64
    /// The end of the last frame that counts; nil if none does yet. The frames above may begin a transaction.
    private(set) var counted: Border?
    private var last: Border

    init(_ frame: FrameView, counts: Bool) {
        start = frame.offset
        last = (frame.end, frame.header.checksum)
        counted = counts ? last : nil
    }

    /// Adds a frame that follows the last one, or the last one that counts. False if, by its checksums, it follows
    /// neither: another transaction of the same length may have replaced an unfinished one.
    mutating func append(_ frame: FrameView, counts: Bool) -> Bool {
        let before: Border = (frame.offset, frame.header.previousChecksum)
        guard before == last || counted.map({ $0 == before }) ?? false else { return false }
        last = (frame.end, frame.header.checksum)
        if counts { counted = last }
        assert((counted?.end ?? 0) <= last.end, "V7: a frame that counts is above the last one.")
        return true
    }
}
