// An open file description: what a descriptor stands for, with the locks that belong to it.

internal import Annals

struct OpenFile: Sendable {
    enum Target: Sendable, Equatable {
        case inode(Int)
        case directory(Int)
    }

    let number: Int32
    /// Which life of which process opened it.
    let life: Int
    let target: Target
    let access: FileAccess
    /// How many write-back errors of the file it has been told of.
    var errorsSeen: UInt64 = 0
    var locks = LockSet()
}

/// The ranges that one open file description has locked: sorted, neither overlapping nor touching.
struct LockSet: Sendable, Equatable {
    private(set) var ranges: [LockRange] = []

    /// Adds a range; like the system's, it melts together with those it overlaps or touches.
    mutating func insert(_ range: LockRange) {
        var whole = range
        for other in ranges where other.start <= whole.end && whole.start <= other.end {
            whole = LockRange(start: min(whole.start, other.start), end: max(whole.end, other.end))
        }
        ranges.removeAll { $0.start >= whole.start && $0.end <= whole.end }
        ranges.append(whole)
        ranges.sort { $0.start < $1.start }
    }

    mutating func remove(_ range: LockRange) {
        ranges = ranges.flatMap { other -> [LockRange] in
            guard other.overlaps(range) else { return [other] }
            var rest: [LockRange] = []
            if other.start < range.start { rest.append(LockRange(start: other.start, end: range.start)) }
            if other.end > range.end { rest.append(LockRange(start: range.end, end: other.end)) }
            return rest
        }
    }

    func firstOverlap(with range: LockRange) -> LockRange? { ranges.first { $0.overlaps(range) } }
}

extension LockRange {
    func overlaps(_ other: LockRange) -> Bool { start < other.end && other.start < end }
}
