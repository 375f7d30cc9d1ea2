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
        assert(positions.count == patterns.count, "Each pattern has its positions.")
        var next = [Int](repeating: 0, count: positions.count)
        var frequency: UInt32 = 0
        for first in positions[0] {
            let isMatch = positions.indices.dropFirst().allSatisfy { pattern in
                let (earliest, latest) = window(of: pattern, around: Int(first))
                while next[pattern] < positions[pattern].count, positions[pattern][next[pattern]] < earliest {
                    next[pattern] += 1
                }
                return next[pattern] < positions[pattern].count && positions[pattern][next[pattern]] <= latest
            }
            if isMatch { frequency += 1 }
        }
        return frequency
    }

    /// The positions at which a pattern may match, if the first one matches at `first`.
    private func window(of pattern: Int, around first: Int) -> (earliest: Int, latest: Int) {
        guard let distance else { return (first + pattern, first + pattern) }
        return (first - distance, first + distance)
    }
}
