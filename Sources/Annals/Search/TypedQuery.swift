// Cuts a typed text into words and phrases. The tokenizer then finds the terms in each.

/// A word between spaces, or a phrase between quotes.
package struct TypedPart: Equatable {
    /// Without a minus and without quotes.
    package var text: Substring
    package var isQuoted: Bool
    /// Whether a minus precedes it, after a space or at the beginning. Before a word it excludes only if the word's
    /// first term begins right there: in "-->" it is text.
    package var hasMinus: Bool
    /// Whether the typed text ends with it, so its last term may be the beginning of one.
    package var isLast: Bool
}

/// Reads the parts of a typed text in order.
package struct TypedQuery {
    private var rest: Substring.UnicodeScalarView
    private var isAfterSpace = true

    package init(_ text: String) { rest = text[...].unicodeScalars }

    package mutating func next() -> TypedPart? {
        if !take(while: Self.isSpace).isEmpty { isAfterSpace = true }
        guard let first = rest.first else { return nil }
        // A minus before a space is a word without a term.
        let hasMinus = isAfterSpace && Self.isMinus(first) && rest.dropFirst().first.map(Self.isSpace) == false
        isAfterSpace = false
        if hasMinus { rest.removeFirst() }
        return rest.first.map(Self.isQuote) == true ? phrase(hasMinus) : word(hasMinus)
    }

    private mutating func word(_ hasMinus: Bool) -> TypedPart {
        let text = take { !Self.isSpace($0) }
        return TypedPart(text: text, isQuoted: false, hasMinus: hasMinus, isLast: rest.isEmpty)
    }

    /// A phrase to the next quote, or to the end.
    private mutating func phrase(_ hasMinus: Bool) -> TypedPart {
        rest.removeFirst()
        let text = take { !Self.isQuote($0) }
        let isLast = rest.isEmpty
        rest = rest.dropFirst()
        return TypedPart(text: text, isQuoted: true, hasMinus: hasMinus, isLast: isLast)
    }

    private mutating func take(while condition: (Unicode.Scalar) -> Bool) -> Substring {
        let taken = rest.prefix(while: condition)
        rest = rest[taken.endIndex...]
        return Substring(taken)
    }

    private static func isSpace(_ scalar: Unicode.Scalar) -> Bool {
        scalar.isASCII ? scalar == " " || (9...13).contains(scalar.value) : scalar.properties.isWhitespace
    }

    /// A hyphen, a minus, the dash into which keyboards change it, and the wide form.
    private static func isMinus(_ scalar: Unicode.Scalar) -> Bool {
        scalar == "-" || scalar == "\u{2212}" || scalar == "\u{2013}" || scalar == "\u{FF0D}"
    }

    private static func isQuote(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "\"", "«", "»", "\u{201C}"..."\u{201F}", "\u{FF02}": true
        default: false
        }
    }
}
