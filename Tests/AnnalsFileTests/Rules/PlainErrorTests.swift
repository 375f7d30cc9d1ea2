// Error and help texts keep to plain English: the rule of the guides also holds for the string literals of the sources.

import Testing

@Suite struct PlainErrorTests {
    @Test func errorsAndHelpArePlain() {
        let files = SourceFile.all(under: "Sources/Annals") + SourceFile.all(under: "Sources/AnnalsTool")
        let texts = files.flatMap { file in Self.texts(of: file.text).map { (file, $0) } }
        #expect(texts.count > 1200)
        for (file, text) in texts {
            let faults = PlainEnglishTests.faults(in: text.words)
            #expect(faults == [], "\(file.path):\(Self.line(at: text.offset, of: file.text))")
        }
    }

    /// The rule must be able to fail.
    @Test(arguments: [
        (#"throw StoreError(.damaged, "F22: a value stands in a row.")"#, "stands"),
        (#"precondition(count > 0, "What is refused throws.")"#, "What"),
        (#"StoreError(.conflict, "It has changed. Whoever wrote wins.")"#, "Whoever"),
        (#"fail("The row index is read by "\#n    + "nobody any more.")"#, "nobody"),
        (#"log("Never make \(names.joined(separator: ", ")) and others wait.")"#, "others"),
        (#"log("Done: \(isDone ? "the row says nothing" : "")")"#, "says"),
        (#"let help = """\#n    A new file takes its\#n    name by then.\#n    """"#, "by then"),
        (##"log(#"The “"” is given quickly back."#)"##, "give back"),
    ]) func aPlantedFaultIsFound(source: String, fault: String) {
        let faults = Self.texts(of: source).flatMap { PlainEnglishTests.faults(in: $0.words) }
        #expect(faults.map(\.pattern) == [fault], "\(source)")
    }

    @Test func commentsNamesAndInterpolationsAreNoFaults() {
        let source = #"""
            // "Others stand behind it."
            /* "Nobody says so." */
            case others = "others", many = "so many"
            let text = "The \(others.behind(where: { $0.stands("so long") })) values of “\(name)” are read."
            let pattern = #/"Who tells it/#
            """#
        let texts = Self.texts(of: source)
        #expect(texts.map(\.words) == ["The code values of “code” are read."])
        #expect(texts.flatMap { PlainEnglishTests.faults(in: $0.words) } == [])
        #expect(texts.map { Self.line(at: $0.offset, of: source) } == [4])
    }

    // MARK: Texts

    /// String literals of at least three words: shorter literals are names and parts of formats.
    private static func texts(of source: String) -> [LiteralScanner.Literal] {
        LiteralScanner.literals(of: source).filter { $0.words.split { $0.isWhitespace }.count >= 3 }
    }

    private static func line(at offset: Int, of text: String) -> Int {
        1 + text.utf8.prefix(offset).count { $0 == UInt8(ascii: "\n") }
    }
}

/// Finds the string literals of Swift source, also those in interpolations.
private struct LiteralScanner {
    struct Literal {
        /// In UTF-8.
        var offset: Int
        /// With “code” for each interpolation. Literals that `+` joins are one.
        var words: String
    }

    private let bytes: [UInt8]
    private var place = 0
    private var literals: [Literal] = []

    static func literals(of source: String) -> [Literal] {
        var scanner = LiteralScanner(bytes: Array(source.utf8))
        scanner.scanCode(isInterpolation: false)
        return scanner.literals
    }

    private init(bytes: [UInt8]) { self.bytes = bytes }

    /// An interpolation ends with its closing parenthesis.
    private mutating func scanCode(isInterpolation: Bool) {
        var depth = 0
        var last: (end: Int, index: Int)?
        while place < bytes.count {
            switch bytes[place] {
            case UInt8(ascii: "/"):
                if !skip("//", through: "\n"), !skip("/*", through: "*/") { place += 1 }
            case UInt8(ascii: "#"), UInt8(ascii: "\""):
                let start = place
                let fence = String(repeating: "#", count: bytes[place...].prefix { $0 == UInt8(ascii: "#") }.count)
                if skip(fence + "/", through: "/" + fence) { continue }
                guard begins(fence + "\"") else {
                    place += fence.utf8.count
                    continue
                }
                let text = literal(fence)
                if let known = last, isJoined(known.end..<start) {
                    literals[known.index].words += text
                    last = (place, known.index)
                } else {
                    literals.append(Literal(offset: start, words: text))
                    last = (place, literals.count - 1)
                }
            case UInt8(ascii: "("):
                depth += 1
                place += 1
            case UInt8(ascii: ")"):
                depth -= 1
                place += 1
                if isInterpolation, depth < 0 { return }
            default: place += 1
            }
        }
    }

    /// Returns the text of the literal that begins here, and moves beyond it.
    private mutating func literal(_ fence: String) -> String {
        place += fence.utf8.count
        let quote = begins("\"\"\"") ? "\"\"\"" : "\""
        place += quote.utf8.count
        let escape = "\\" + fence
        var text: [UInt8] = []
        while place < bytes.count {
            if skip(quote + fence) { break }
            if skip(escape + "(") {
                scanCode(isInterpolation: true)
                text += "code".utf8
            } else if skip(escape + "n") {
                text.append(UInt8(ascii: "\n"))
            } else {
                _ = skip(escape)
                text.append(bytes[place])
                place += 1
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Whether only a plus sign and white space lie between two literals.
    private func isJoined(_ range: Range<Int>) -> Bool {
        bytes[range].filter { $0 > UInt8(ascii: " ") } == [UInt8(ascii: "+")]
    }

    private func begins(_ text: String) -> Bool { bytes[place...].starts(with: text.utf8) }

    private mutating func skip(_ text: String) -> Bool {
        guard begins(text) else { return false }
        place += text.utf8.count
        return true
    }

    private mutating func skip(_ text: String, through end: String) -> Bool {
        guard skip(text) else { return false }
        while place < bytes.count, !skip(end) { place += 1 }
        return true
    }
}
