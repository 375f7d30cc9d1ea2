// Chooses the part of a text for a snippet.

/// The part of a text that has the most different leaves; among those the one with the most matches; then the first.
struct SnippetWindow {
    private let text: String
    private let maximum: Int
    private(set) var range: Range<String.Index>

    init(_ places: SearchPlaces, _ maximumCharacters: Int) {
        text = places.text
        maximum = maximumCharacters
        range = text.startIndex..<text.startIndex
        let core = best(places)
        range = aroundWords(core, in: around(core))
    }

    // MARK: The matches

    /// From the first match to the last one that fits.
    private func best(_ places: SearchPlaces) -> Range<String.Index> {
        let found = places.found
        guard !found.isEmpty else { return text.startIndex..<text.startIndex }
        // The number of characters before the start and the end of each match, where long gaps count as shorter ones.
        var (starts, ends) = ([0], [distance(from: found[0].range.lowerBound, to: found[0].range.upperBound)])
        for (last, next) in zip(found, found.dropFirst()) {
            // One character may contain many matches and be as long as the text, so it is measured once.
            let isSame = next.range == last.range
            let start = starts[starts.count - 1] + distance(from: last.range.lowerBound, to: next.range.lowerBound)
            let length = isSame ? 0 : distance(from: next.range.lowerBound, to: next.range.upperBound)
            starts.append(start)
            ends.append(isSame ? ends[ends.count - 1] : start + length)
        }
        var best = (leaves: 0, matches: 0, range: 0..<0)
        var counts = [Int](repeating: 0, count: places.leafCount)
        var (leaves, end) = (0, 0)
        for start in found.indices {
            while end < found.count, end == start || ends[end] - starts[start] <= maximum {
                if counts[found[end].leaf] == 0 { leaves += 1 }
                counts[found[end].leaf] += 1
                end += 1
            }
            if (leaves, end - start) > (best.leaves, best.matches) { best = (leaves, end - start, start..<end) }
            counts[found[start].leaf] -= 1
            if counts[found[start].leaf] == 0 { leaves -= 1 }
        }
        let lower = found[best.range.lowerBound].range.lowerBound
        let upper = found[best.range].reduce(lower) { max($0, $1.range.upperBound) }
        // A word may have more characters than the snippet.
        return lower..<(text.index(lower, offsetBy: maximum, limitedBy: upper) ?? upper)
    }

    /// The number of characters; at most one more than the snippet has.
    private func distance(from start: String.Index, to end: String.Index) -> Int {
        var (index, count) = (start, 0)
        while index < end, count <= maximum {
            index = text.index(after: index)
            count += 1
        }
        return count
    }

    // MARK: The text around them

    /// The matches and as much text as fits, a third of it before them, if there is as much.
    private func around(_ core: Range<String.Index>) -> Range<String.Index> {
        let rest = max(0, maximum - distance(from: core.lowerBound, to: core.upperBound))
        let after = distance(from: core.upperBound, to: text.endIndex)
        var (start, before) = (core.lowerBound, 0)
        while start > text.startIndex, before < max(rest / 3, rest - after) {
            start = text.index(before: start)
            before += 1
        }
        let end = text.index(core.upperBound, offsetBy: rest - before, limitedBy: text.endIndex)
        return start..<(end ?? text.endIndex)
    }

    /// A snippet does not begin with one of these, if the word before it is left out.
    private static let closing: Set<Character> = [".", ",", ";", ":", "!", "?", ")", "]", "}", "”", "»", "。", "、"]

    /// Leaves out the words and the white space at the ends of a range where the text goes on, but no matches.
    private func aroundWords(_ core: Range<String.Index>, in range: Range<String.Index>) -> Range<String.Index> {
        var (start, end) = (range.lowerBound, range.upperBound)
        if start > text.startIndex {
            while start < core.lowerBound, isInWord(start) { start = text.index(after: start) }
            while start < core.lowerBound, text[start].isWhitespace || Self.closing.contains(text[start]) {
                start = text.index(after: start)
            }
        }
        guard end < text.endIndex else { return start..<end }
        while end > core.upperBound, isInWord(end) { end = text.index(before: end) }
        while end > core.upperBound, text[text.index(before: end)].isWhitespace { end = text.index(before: end) }
        // A text that begins with a long word and has no match.
        return start..<(end > start ? end : range.upperBound)
    }

    /// Whether a word goes on at an index inside the text.
    private func isInWord(_ index: String.Index) -> Bool {
        Self.isLetter(text[index]) && Self.isLetter(text[text.index(before: index)])
    }

    private static func isLetter(_ character: Character) -> Bool {
        guard let first = character.unicodeScalars.first else { return false }
        let folding = TermFolding(first.value)
        return folding == .letter
            || folding.letters.map { TermFolding(TermFolding.letter($0.lowerBound)) == .letter } ?? false
    }
}
