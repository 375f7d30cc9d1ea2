// The frequency of a word, a phrase, or words near each other, from the positions of their terms.

extension SearchLeaf {
    /// How often the leaf occurs in one text, from the ascending positions at which each of its patterns matches.
    ///
    /// - A word: the number of its positions.
    /// - A phrase: the number of positions at which the first pattern matches, and the others at the next positions, in
    ///   order.
    /// - Words near each other: the number of positions of the first pattern for which each other pattern matches at
    ///   most `distance` positions before or after. One position can serve several patterns.
    package func frequency(_ positions: [[UInt32]]) -> UInt32 {
        var next = [Int](repeating: 0, count: positions.count)
        return frequency(positions, &next)
    }

    /// The same with memory for a number for each pattern, which a caller can use again.
    func frequency(_ positions: [[UInt32]], _ next: inout [Int]) -> UInt32 {
        assert(positions.count == patterns.count, "Each pattern has its positions.")
        for pattern in next.indices { next[pattern] = 0 }
        var frequency: UInt32 = 0
        for first in positions[0] where areNear(Int(first), positions, &next) { frequency += 1 }
        return frequency
    }

    /// Whether all patterns match, if the first one matches at a position. Positions come in ascending order.
    private func areNear(_ first: Int, _ positions: [[UInt32]], _ next: inout [Int]) -> Bool {
        for pattern in 1..<positions.count {
            let (earliest, latest) = window(of: pattern, around: first)
            let count = positions[pattern].count
            while next[pattern] < count, positions[pattern][next[pattern]] < earliest { next[pattern] &+= 1 }
            guard next[pattern] < count, positions[pattern][next[pattern]] <= latest else { return false }
        }
        return true
    }

    /// The positions at which a pattern may match, if the first one matches at `first`.
    private func window(of pattern: Int, around first: Int) -> (earliest: Int, latest: Int) {
        guard let distance else { return (first + pattern, first + pattern) }
        return (first - distance, first + distance)
    }
}
