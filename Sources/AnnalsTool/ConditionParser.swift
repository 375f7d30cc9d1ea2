// Parses the conditions of `annals find`: comparisons of attributes with values, “and”, “or”, “not” and parentheses.
//
//     condition   = conjunction { "or" conjunction }
//     conjunction = negation { "and" negation }
//     negation    = "not" negation | "(" condition ")" | comparison
//     comparison  = path ( ( "=" | "!=" | "<" | "<=" | ">" | ">=" | "contains" | "starts" "with" ) value
//                        | "in" "(" value { "," value } ")"
//                        | "is" [ "not" ] "null" )
//     path        = name [ "." name ]
//     name        = letters, digits and “_” | "`" anything else "`"
//     value       = a text, a number, true or false, as in JSON; a text in single quotes; or a word
//     word        = letters, digits, “_”, “-”, “+”, “.”, “:”, “/” and “@”

internal import Annals

/// A condition as written. The types of attributes are not known yet.
package indirect enum WrittenCondition: Equatable, Sendable {
    case all([WrittenCondition])
    case any([WrittenCondition])
    case not(WrittenCondition)
    case test(path: [String], WrittenComparison, [WrittenValue])
}

/// A value as written. The type of its attribute decides whether a word without quotes is a text.
package struct WrittenValue: Equatable, Sendable {
    package var json: JSONValue
    /// Nil for a text in quotes.
    package var word: String?
}

/// Comparisons as a user writes them. Null differs from every value, and is neither less nor greater.
package enum WrittenComparison: String, Sendable, CaseIterable {
    case equal = "="
    case notEqual = "!="
    case less = "<"
    case lessOrEqual = "<="
    case greater = ">"
    case greaterOrEqual = ">="
    case oneOf = "in"
    case contains = "contains"
    case startsWith = "starts with"
    case isNull = "is null"
    case isNotNull = "is not null"

    func fits(_ type: AttributeType) -> Bool {
        switch self {
        case .isNull, .isNotNull: true
        case .equal, .notEqual, .oneOf: type != .json && !type.isObjectList
        case .less, .lessOrEqual, .greater, .greaterOrEqual: [.int, .double, .decimal, .date, .string].contains(type)
        case .contains: type == .string || type.isObjectList
        case .startsWith: type == .string
        }
    }
}

package struct ConditionError: Error, Equatable, Sendable {
    package var position: Int
    /// A description of valid text at this position.
    package var expected: String
    package var found: String?
}

package struct ConditionParser {
    /// The greatest depth of nested conditions. Parsing and deciding them recurse.
    package static let maximumDepth = 100
    private let text: String
    private var rest: Substring.UnicodeScalarView
    private var depth = 0

    private init(_ text: String) { (self.text, rest) = (text, text[...].unicodeScalars) }

    package static func parse(_ text: String) throws(ConditionError) -> WrittenCondition {
        var parser = ConditionParser(text)
        let condition = try parser.condition()
        parser.skipSpace()
        guard parser.rest.isEmpty else { throw parser.error("“and”, “or” or the end") }
        return condition
    }

    private mutating func condition() throws(ConditionError) -> WrittenCondition {
        var parts = [try conjunction()]
        while takeWord("or") { parts.append(try conjunction()) }
        return parts.count == 1 ? parts[0] : .any(parts)
    }

    private mutating func conjunction() throws(ConditionError) -> WrittenCondition {
        var parts = [try negation()]
        while takeWord("and") { parts.append(try negation()) }
        return parts.count == 1 ? parts[0] : .all(parts)
    }

    private mutating func negation() throws(ConditionError) -> WrittenCondition {
        depth += 1
        defer { depth -= 1 }
        guard depth <= Self.maximumDepth else { throw error("at most \(Self.maximumDepth) levels of nesting") }
        if takeWord("not") { return .not(try negation()) }
        guard takeSign("(") else { return try comparison() }
        let inner = try condition()
        guard takeSign(")") else { throw error("“and”, “or” or “)”") }
        return inner
    }

    private mutating func comparison() throws(ConditionError) -> WrittenCondition {
        var path = [try name()]
        if rest.first == "." {
            rest.removeFirst()
            path.append(try name())
        }
        if takeSign("==") { return .test(path: path, .equal, [try value()]) }
        // The longest first.
        for comparison in [WrittenComparison.equal, .notEqual, .lessOrEqual, .greaterOrEqual, .less, .greater]
        where takeSign(comparison.rawValue) { return .test(path: path, comparison, [try value()]) }
        if takeWord("contains") { return .test(path: path, .contains, [try value()]) }
        if takeWord("starts") {
            guard takeWord("with") else { throw error("“with”") }
            return .test(path: path, .startsWith, [try value()])
        }
        if takeWord("in") { return .test(path: path, .oneOf, try list()) }
        guard takeWord("is") else {
            throw error("one of =, !=, <, <=, >, >=, in, contains, “starts with”, “is null” and “is not null”")
        }
        let comparison: WrittenComparison = takeWord("not") ? .isNotNull : .isNull
        guard takeWord("null") else { throw error(comparison == .isNull ? "“null” or “not null”" : "“null”") }
        return .test(path: path, comparison, [])
    }

    private mutating func list() throws(ConditionError) -> [WrittenValue] {
        guard takeSign("(") else { throw error("“(”") }
        var values = [try value()]
        while takeSign(",") { values.append(try value()) }
        guard takeSign(")") else { throw error("“,” or “)”") }
        return values
    }

    private mutating func name() throws(ConditionError) -> String {
        skipSpace()
        let expected = "the name of an attribute"
        if rest.first == "`" {
            let inner = rest.dropFirst().prefix { $0 != "`" }
            guard !inner.isEmpty, inner.endIndex < rest.endIndex else { throw error(expected + " between two “`”") }
            rest = rest[inner.endIndex...].dropFirst()
            return String(inner)
        }
        let name = word
        guard let first = name.first, !("0"..."9").contains(first) else { throw error(expected) }
        guard !Self.keywords.contains(String(name)) else {
            throw error(expected + ", in “`” if it is a keyword of conditions")
        }
        rest = rest[name.endIndex...]
        return String(name)
    }

    private static let keywords: Set<String> = ["and", "or", "not", "in", "is", "null", "contains", "true", "false"]

    private mutating func value() throws(ConditionError) -> WrittenValue {
        skipSpace()
        let expected = "a value: a number, true, false, a word, or a text in quotes"
        if let first = rest.first, ["'", "\""].contains(first) { return WrittenValue(json: try quoted(first)) }
        let range = rest.prefix { Self.isPartOfWord($0) || "+-.:/@".unicodeScalars.contains($0) }
        let word = String(range)
        if word == "null" { throw error("a value; “is null” finds objects without one") }
        guard !word.isEmpty, !Self.keywords.subtracting(["true", "false"]).contains(word) else {
            throw error(word.isEmpty ? expected : expected + ": a keyword needs quotes")
        }
        rest = rest[range.endIndex...]
        return WrittenValue(json: (try? JSONReader.value(word)) ?? .string(word), word: word)
    }

    /// A text in quotes. In single quotes only “\'” and “\\” are special.
    private mutating func quoted(_ quote: Unicode.Scalar) throws(ConditionError) -> JSONValue {
        var (after, plain) = (rest.dropFirst(), String.UnicodeScalarView())
        while let scalar = after.first, scalar != quote {
            after.removeFirst()
            let special = scalar == "\\" ? after.popFirst() : nil
            if special == nil || quote == "\"" || !["'", "\\"].contains(special) { plain.append(scalar) }
            if let special { plain.append(special) }
        }
        guard after.popFirst() != nil else {
            throw error("a text that ends with a \(quote == "'" ? "single" : "double") quote")
        }
        let written = String(rest[..<after.startIndex])
        let json = try (quote == "'" ? .string(String(plain)) : try? JSONReader.value(written)).orThrow(
            error("a text as in JSON, or in single quotes"))
        rest = after
        return json
    }

    private mutating func skipSpace() { rest = rest.drop { $0.properties.isWhitespace } }

    private mutating func takeSign(_ sign: String) -> Bool {
        skipSpace()
        guard rest.starts(with: sign.unicodeScalars) else { return false }
        rest.removeFirst(sign.unicodeScalars.count)
        return true
    }

    private mutating func takeWord(_ wanted: String) -> Bool {
        skipSpace()
        let word = word
        guard word.elementsEqual(wanted.unicodeScalars) else { return false }
        rest = rest[word.endIndex...]
        return true
    }

    private var word: Substring.UnicodeScalarView { rest.prefix(while: Self.isPartOfWord) }

    private static func isPartOfWord(_ scalar: Unicode.Scalar) -> Bool {
        scalar == "_" || scalar.properties.isXIDContinue
    }

    private mutating func error(_ expected: String) -> ConditionError {
        skipSpace()
        let found = word.isEmpty ? rest.prefix(1) : word.prefix(40)
        return ConditionError(
            position: text[..<rest.startIndex].count + 1, expected: expected, found: found.isEmpty ? nil : String(found)
        )
    }
}
