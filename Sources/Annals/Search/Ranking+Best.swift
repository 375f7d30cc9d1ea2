// Keeps the best matches of a search, without keeping the others.

/// A match and its place in the order (RK2).
package struct RankedMatch: Equatable {
    package var score: Double
    /// The object's number: newer objects have greater ones.
    package var number: UInt64

    package init(score: Double, number: UInt64) { (self.score, self.number) = (score, number) }

    package func precedes(_ other: Self) -> Bool {
        score != other.score ? score > other.score : number > other.number
    }
}

/// The best matches, up to a limit. Adding one takes time logarithmic in the limit.
package struct BestMatches {
    private let limit: Int
    /// A heap: each match comes after its children in the order, so the worst one is the first.
    private var heap: [RankedMatch] = []

    package init(limit: Int) {
        precondition(limit >= 0, "A limit is not negative.")
        self.limit = limit
    }

    /// Adds a match. The score is a number.
    package mutating func add(score: Double, number: UInt64) {
        assert(!score.isNaN)
        let match = RankedMatch(score: score, number: number)
        if heap.count < limit {
            heap.append(match)
            rise(from: heap.count - 1)
        } else if let worst = heap.first, match.precedes(worst) {
            heap[0] = match
            sink()
        }
    }

    /// The matches, the best one first.
    package func sorted() -> [RankedMatch] { heap.sorted { $0.precedes($1) } }

    private mutating func rise(from index: Int) {
        var index = index
        while index > 0, heap[(index - 1) / 2].precedes(heap[index]) {
            heap.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    private mutating func sink() {
        var index = 0
        while 2 * index + 1 < heap.count {
            var child = 2 * index + 1
            if child + 1 < heap.count, heap[child].precedes(heap[child + 1]) { child += 1 }
            if !heap[index].precedes(heap[child]) { return }
            heap.swapAt(index, child)
            index = child
        }
    }
}
