// Counts the content of a store's file as it grows. A checkpoint has the counts, so that opening counts only the rest.

struct FrameCounts {
    private var bytes = [UInt64](repeating: 0, count: CheckpointContent.kinds)
    private(set) var transactions: UInt64 = 0
    /// The number of changes in the transactions, including rows without history.
    private(set) var changes: UInt64 = 0

    init() {}

    init(_ content: CheckpointContent) {
        (bytes, transactions, changes) = (content.frameBytes, content.transactions, content.changes)
    }

    func describe(in content: inout CheckpointContent) {
        (content.frameBytes, content.transactions, content.changes) = (bytes, transactions, changes)
    }

    /// Bytes of frames of that kind, headers included.
    subscript(kind: FrameKind) -> UInt64 { bytes[Int(kind.rawValue)] }

    mutating func add(_ kind: FrameKind, bytes count: UInt64) {
        bytes[Int(kind.rawValue)] &+= count
        if kind == .transaction { transactions += 1 }
    }

    @inline(__always)
    mutating func addChange() { changes &+= 1 }
}
