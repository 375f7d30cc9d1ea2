// The part of a text that shows best why it was found, and the places of the words found.
//
// Invariants:
// SN1  Highlights are ascending, do not overlap or touch, and begin and end at whole characters.
// SN2  A snippet has at most the characters asked for, and an ellipsis at each end where the text goes on.

/// A part of a text that a search has found, with the places of the words found in it.
///
/// ```swift
/// snippet.text        // "…a crash leaves the index right or behind…"
/// snippet.marked()    // "…a [crash] leaves the [index] right or behind…"
/// ```
public struct SearchSnippet: Hashable, Sendable {
    /// The part of the text with most of the words searched for. It is cut between words, with "…" at each end where
    /// the text goes on. Line breaks in it stay.
    public let text: String
    /// The words found, as ranges of whole characters of `text`, in order and apart from each other.
    ///
    /// A word that was found by its beginning is highlighted as a whole. In Chinese, Japanese, Korean, Thai and other
    /// languages without spaces between words, only the characters searched for are highlighted.
    public let highlights: [Range<String.Index>]

    /// Returns the text with marks around the words found.
    ///
    /// The text itself is not changed. For HTML and the like, where it may contain what looks like a mark, use
    /// `highlights` and escape the parts of the text.
    public func marked(_ open: String = "[", _ close: String = "]") -> String {
        var (marked, done) = ("", text.startIndex)
        for range in highlights {
            marked += text[done..<range.lowerBound]
            marked += open
            marked += text[range]
            marked += close
            done = range.upperBound
        }
        return marked + text[done...]
    }
}

extension SearchSnippet {
    /// The snippet of a text for the leaves of a plan. Leaves beneath `not` count for nothing, and neither do leaves
    /// that do not allow the attribute. Takes a time in proportion to the length of the text.
    package init(_ text: String, _ leaves: [SearchLeaf], attribute: Int? = nil, maximumCharacters: Int = 160) {
        let places = SearchPlaces(text, leaves, attribute)
        let window = SnippetWindow(places, max(1, maximumCharacters)).range
        let (start, end) = (window.lowerBound, window.upperBound)
        let opening = start > text.startIndex ? "…" : ""
        let snippet = opening + text[window] + (end < text.endIndex ? "…" : "")
        let first = text.utf8.distance(from: text.startIndex, to: start) - opening.utf8.count
        func index(_ index: String.Index) -> String.Index {
            let offset = text.utf8.distance(from: text.startIndex, to: index) - first
            return snippet.utf8.index(snippet.startIndex, offsetBy: offset)
        }
        highlights = places.highlights.filter { $0.upperBound > start && $0.lowerBound < end }.map {
            index(max($0.lowerBound, start))..<index(min($0.upperBound, end))
        }
        self.text = snippet
    }

    /// The ranges in a text of all words found. Takes a time in proportion to the length of the text.
    package static func highlights(
        in text: String, _ leaves: [SearchLeaf], attribute: Int? = nil
    ) -> [Range<String.Index>] {
        SearchPlaces(text, leaves, attribute).highlights
    }
}

/// The words found in a text, as ranges of whole characters.
struct SearchPlaces {
    let text: String
    /// By their starts; they may overlap.
    private(set) var found: [(range: Range<String.Index>, leaf: Int)] = []
    let leafCount: Int

    init(_ text: String, _ leaves: [SearchLeaf], _ attribute: Int?) {
        var bytes = text
        let hits = bytes.withUTF8 { SearchHits.hits(in: UnsafeRawBufferPointer($0), leaves, attribute: attribute) }
        (self.text, leafCount) = (text, leaves.count)
        found.reserveCapacity(hits.count)
        var starts = CharacterCursor(text)
        var ends = CharacterCursor(text)
        for hit in hits {
            let lower = starts.character(at: hit.start).lowerBound
            found.append((lower..<ends.character(at: hit.end - 1).upperBound, hit.leaf))
        }
    }

    /// The ranges that are covered, without the bounds between those that overlap or touch (SN1).
    var highlights: [Range<String.Index>] {
        var ranges: [Range<String.Index>] = []
        for (range, _) in found {
            if let last = ranges.last, range.lowerBound <= last.upperBound {
                ranges[ranges.count - 1] = last.lowerBound..<max(last.upperBound, range.upperBound)
            } else {
                ranges.append(range)
            }
        }
        return ranges
    }
}

/// Finds the characters around UTF-8 offsets that mostly ascend. It walks over short distances, because a jump into a
/// long run of flags has to look at the whole run.
private struct CharacterCursor {
    private static let walkedBytes = 256

    private let text: String
    /// The last character, and the offsets in UTF-8 of its bounds.
    private var range: Range<String.Index>
    private var offsets: Range<Int>

    init(_ text: String) {
        self.text = text
        range = text.startIndex..<text.startIndex
        offsets = 0..<0
    }

    /// The character that contains the byte at an offset.
    mutating func character(at offset: Int) -> Range<String.Index> {
        if offset < offsets.lowerBound || offset - offsets.upperBound > Self.walkedBytes { jump(to: offset) }
        while offset >= offsets.upperBound, range.upperBound < text.endIndex { moveTo(range.upperBound) }
        return range
    }

    private mutating func jump(to offset: Int) {
        let index = text.utf8.index(text.startIndex, offsetBy: offset)
        // The character after this index begins after the character that contains it.
        moveTo(text.index(before: text.index(after: index)))
    }

    private mutating func moveTo(_ start: String.Index) {
        range = start..<text.index(after: start)
        let first = text.utf8.distance(from: text.startIndex, to: start)
        offsets = first..<first + text.utf8.distance(from: start, to: range.upperBound)
    }
}
