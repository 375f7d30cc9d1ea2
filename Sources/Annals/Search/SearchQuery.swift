// Queries: typed by a person, or built by a program. Each search reads its query anew; nothing of it is stored.
//
// Invariants:
// SQ1  No text is an error. Texts longer than `maximumTextBytes` are cut, so planning takes a bounded time.
// SQ2  A query is at most `maximumDepth` deep, so that reading it recursively is safe.

/// A condition on the searchable texts of an object.
///
/// ```swift
/// let typed: SearchQuery = "swift lin"
/// let built = SearchQuery.all([.word("swift"), .any([.prefix("lin"), .phrase("open source")]), .not(.word("taylor"))])
/// ```
///
/// Queries and texts are read in the same way: case, diacritics and width make no difference.
///
/// - A part without any letter or digit, such as `.word("!")`, has no effect. If a whole query has none, it matches
///   nothing.
/// - A word that contains several words, as "foo-bar" does, is a phrase.
/// - Chinese, Japanese, Thai and other scripts without spaces between words: the characters are found wherever they
///   occur next to each other, at the beginning of a word or within.
/// - A search considers the first 64 words and phrases of a query, the first 64 words of each phrase, and the first
///   4,096 UTF-8 bytes of each text. It ignores the rest.
public struct SearchQuery: Hashable, Sendable {
    package static let maximumTextBytes = 4096
    package static let maximumDepth = 100

    indirect enum Part: Hashable, Sendable {
        case typed(String)
        case word(String)
        case prefix(String)
        case phrase(String)
        case near([String], distance: Int)
        case all([SearchQuery])
        case any([SearchQuery])
        case not(SearchQuery)
        case attributes([String], SearchQuery)
    }

    let part: Part
    /// 1 for a text.
    let depth: Int

    private init(_ part: Part, depth: Int = 1) {
        precondition(depth <= Self.maximumDepth, "A search query is nested more than \(Self.maximumDepth) deep.")
        (self.part, self.depth) = (part, depth)
    }
}

extension SearchQuery {
    /// Reads a query as people type it. No text is an error.
    ///
    /// | typed | meaning |
    /// |---|---|
    /// | `swift linux` | objects with the words "swift" and "linux…": the last word is the beginning of one |
    /// | `swift linux ` | a space or punctuation after the last word ends it: "linux" alone |
    /// | `"swift on linux"` | the words next to each other, in this order; any of `" “ ” „ ‟ « » ＂` opens and closes |
    /// | `"swift on li` | a phrase without its end reaches to the end of the text, and its last word is a beginning |
    /// | `swift -taylor` | without the word "taylor"; also `-"taylor swift"` |
    /// | `foo-bar`, `C:/files`, `don't` | the words next to each other |
    ///
    /// A minus excludes only if it follows a space or begins the text, and a word or a phrase follows directly. An
    /// excluded word is always a whole one. If all words are excluded, the query matches every object without them.
    ///
    /// Everything else is text: `AND`, `OR`, `NEAR`, `NOT`, `*`, `:`, `^`, `(` and `)` have no meaning.
    public init(_ typed: String) { self.init(.typed(Self.cut(typed))) }

    /// Objects that contain the text's word. If it has several words, they are a phrase.
    public static func word(_ text: String) -> Self { Self(.word(cut(text))) }

    /// Objects that contain a word with this beginning. If the text has several words, they are a phrase, of which the
    /// last word is the beginning of one.
    public static func prefix(_ text: String) -> Self { Self(.prefix(cut(text))) }

    /// Objects that contain the text's words next to each other, in this order.
    public static func phrase(_ text: String) -> Self { Self(.phrase(cut(text))) }

    /// Objects that contain all words of the texts near each other, in any order and in one property: there is an
    /// occurrence of the first word for which each other word occurs at most `distance` words before or after.
    /// Neighbours have the distance 1.
    public static func near(_ texts: [String], within distance: Int) -> Self {
        Self(.near(texts.prefix(SearchPlan.maximumPatterns).map(cut), distance: max(0, min(distance, 0xFFFF_FFFF))))
    }

    /// Objects that match all parts. They match in any property, each part in its own.
    public static func all(_ parts: [SearchQuery]) -> Self {
        var flat: [SearchQuery] = []
        for part in parts { if case .all(let inner) = part.part { flat += inner } else { flat.append(part) } }
        return joined(flat) { .all($0) }
    }

    /// Objects that match at least one part.
    public static func any(_ parts: [SearchQuery]) -> Self {
        var flat: [SearchQuery] = []
        for part in parts { if case .any(let inner) = part.part { flat += inner } else { flat.append(part) } }
        return joined(flat) { .any($0) }
    }

    /// Objects that do not match the part. As a whole query it matches every other object of the entity.
    public static func not(_ part: SearchQuery) -> Self { Self(.not(part), depth: part.depth + 1) }

    /// The query about some of the searchable attributes, by name. Attributes that an inner query names count only if
    /// they are among these, too. With types, use `in`.
    public func inAttributes(_ names: [String]) -> Self { Self(.attributes(names, self), depth: depth + 1) }

    /// Parts within parts of the same kind are one list, so a query that a loop extends does not become deep.
    private static func joined(_ parts: [SearchQuery], _ join: ([SearchQuery]) -> Part) -> Self {
        if parts.count == 1 { return parts[0] }
        return Self(join(parts), depth: (parts.lazy.map(\.depth).max() ?? 0) + 1)
    }

    /// The first bytes of a text, as far as a search considers them (SQ1).
    private static func cut(_ text: String) -> String {
        let bytes = text.utf8
        guard bytes.count > maximumTextBytes else { return text }
        var end = bytes.index(bytes.startIndex, offsetBy: maximumTextBytes)
        while bytes[end] & 0xC0 == 0x80 { end = bytes.index(before: end) }
        return String(text[..<end])
    }
}

extension SearchQuery: ExpressibleByStringLiteral {
    public init(stringLiteral typed: String) { self.init(typed) }
}

extension SearchQuery: CustomStringConvertible {
    /// The query as Swift: a typed text as a literal, everything else as the calls that build it.
    public var description: String {
        switch part {
        case .typed(let text): text.debugDescription
        case .word(let text): ".word(\(text.debugDescription))"
        case .prefix(let text): ".prefix(\(text.debugDescription))"
        case .phrase(let text): ".phrase(\(text.debugDescription))"
        case .near(let texts, let distance): ".near(\(texts), within: \(distance))"
        case .all(let parts): ".all(\(parts))"
        case .any(let parts): ".any(\(parts))"
        case .not(let part): ".not(\(part))"
        case .attributes(let names, let part): "\(part).in(\(names.joined(separator: ", ")))"
        }
    }
}
