// The object numbers that the drafts of one handle use.

/// Gives each number to one draft at a time. Any thread may call it.
final class ObjectNumberSupply: Sendable {
    /// At the index of an entity's number: its next object number.
    private let next = Guarded<[UInt64]>([])

    /// Draws numbers for a draft, at `first` or above. Returns the first of them.
    func draw(_ entity: UInt16, count: UInt64, from first: UInt64) -> UInt64 {
        next.withLock { next in
            let index = Int(entity)
            if index >= next.count { next.append(contentsOf: repeatElement(1, count: index + 1 - next.count)) }
            let start = max(next[index], first)
            next[index] = start + count
            return start
        }
    }

    /// Unused numbers go to the next transaction, unless another one has drawn numbers after them.
    func returnNumbers(_ entity: UInt16, from first: UInt64, end: UInt64) {
        if first == end { return }
        next.withLock { next in
            let index = Int(entity)
            assert(first < end, "T3: numbers are returned that were not drawn.")
            if index < next.count, next[index] == end { next[index] = first }
        }
    }
}
