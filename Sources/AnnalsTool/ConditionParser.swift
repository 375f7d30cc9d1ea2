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
    private let scalars: [Unicode.Scalar]
    private var place = 0
    private var depth = 0

    private init(_ text: String) { scalars = Array(text.unicodeScalars) }

    package static func parse(_ text: String) throws(ConditionError) -> WrittenCondition {
        var parser = ConditionParser(text)
        let condition = try parser.condition()
        parser.skipSpace()
        guard parser.place == parser.scalars.count else { throw parser.error("“and”, “or” or the end") }
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
        if place < scalars.count, scalars[place] == "." {
            place += 1
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
        if place < scalars.count, scalars[place] == "`" {
            guard let end = scalars[(place + 1)...].firstIndex(of: "`"), end > place + 1 else {
                throw error(expected + " between two “`”")
            }
            defer { place = end + 1 }
            return text(place + 1..<end)
        }
        let word = word(at: place)
        guard let first = word.first, !("0"..."9").contains(scalars[first]) else { throw error(expected) }
        let name = text(word)
        guard !Self.keywords.contains(name) else { throw error(expected + ", in “`” if it is a keyword of conditions") }
        place = word.upperBound
        return name
    }

    private static let keywords: Set<String> = ["and", "or", "not", "in", "is", "null", "contains", "true", "false"]

    private mutating func value() throws(ConditionError) -> WrittenValue {
        skipSpace()
        let expected = "a value: a number, true, false, a word, or a text in quotes"
        guard place < scalars.count else { throw error(expected) }
        if ["'", "\""].contains(scalars[place]) { return WrittenValue(json: try quoted()) }
        let end = scalars[place...].firstIndex { !Self.isPartOfWord($0) && !"+-.:/@".unicodeScalars.contains($0) }
        let range = place..<(end ?? scalars.count)
        let word = text(range)
        guard !range.isEmpty, word != "null", !Self.keywords.subtracting(["true", "false"]).contains(word) else {
            if word == "null" { throw error("a value; “is null” finds objects without one") }
            throw error(word.isEmpty ? expected : expected + ": a keyword needs quotes")
        }
        place = range.upperBound
        return WrittenValue(json: (try? JSONReader.value(word)) ?? .string(word), word: word)
    }

    /// A text in the quotes that are here. In single quotes only “\'” and “\\” are special.
    private mutating func quoted() throws(ConditionError) -> JSONValue {
        let quote = scalars[place]
        var (next, plain) = (place + 1, "")
        while next < scalars.count, scalars[next] != quote {
            if scalars[next] == "\\", next + 1 < scalars.count {
                if quote == "\"" || !["'", "\\"].contains(scalars[next + 1]) { plain.unicodeScalars.append("\\") }
                next += 1
            }
            plain.unicodeScalars.append(scalars[next])
            next += 1
        }
        guard next < scalars.count else {
            throw error("a text that ends with a \(quote == "'" ? "single" : "double") quote")
        }
        let range = place..<(next + 1)
        guard let json = quote == "'" ? .string(plain) : try? JSONReader.value(text(range)) else {
            throw error("a text as in JSON, or in single quotes")
        }
        place = range.upperBound
        return json
    }

    private mutating func skipSpace() {
        while place < scalars.count, scalars[place].properties.isWhitespace { place += 1 }
    }

    private mutating func takeSign(_ sign: String) -> Bool {
        skipSpace()
        guard scalars[place...].starts(with: sign.unicodeScalars) else { return false }
        place += sign.unicodeScalars.count
        return true
    }

    private mutating func takeWord(_ wanted: String) -> Bool {
        skipSpace()
        let word = word(at: place)
        guard scalars[word].elementsEqual(wanted.unicodeScalars) else { return false }
        place = word.upperBound
        return true
    }

    private func word(at start: Int) -> Range<Int> {
        start..<(scalars[start...].firstIndex { !Self.isPartOfWord($0) } ?? scalars.count)
    }

    private static func isPartOfWord(_ scalar: Unicode.Scalar) -> Bool {
        scalar == "_" || scalar.properties.isXIDContinue
    }

    private func text(_ range: Range<Int>) -> String {
        var text = ""
        text.unicodeScalars.append(contentsOf: scalars[range])
        return text
    }

    private mutating func error(_ expected: String) -> ConditionError {
        skipSpace()
        let end = min(max(word(at: place).upperBound, place + 1), place + 40, scalars.count)
        let found = place < scalars.count ? text(place..<end) : nil
        return ConditionError(position: text(0..<place).count + 1, expected: expected, found: found)
    }
}
