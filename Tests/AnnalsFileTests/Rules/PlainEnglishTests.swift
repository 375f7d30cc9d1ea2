// The guides and the README keep to plain English: patterns that were weeded out do not come back.

import TestSupport
import Testing

@Suite struct PlainEnglishTests {
    /// The format's page is exempt until it is rewritten.
    private static let exempt = ["FileFormat.md"]

    @Test func theGuidesAndTheReadmeArePlain() throws {
        let guides = SourceFile.all(under: "Sources/Annals/Annals.docc", ending: ".md")
        #expect(guides.count > 30)
        for guide in guides where !Self.exempt.contains(guide.name) {
            #expect(Self.faults(in: guide.text) == [], "\(guide.path)")
        }
        let readme = try #require(SourceFile.read(PackageFolder.path + "README.md"))
        #expect(Self.faults(in: readme) == [])
    }

    /// The rule must be able to fail.
    @Test(arguments: [
        ("What is refused throws.", "What"), ("Who reads sees it.", "Who"), ("Whoever reads sees it.", "Whoever"),
        ("It ends. Whose lock it is decides.", "Whose"), ("| a | Where it ends |", "Where"),
        ("## What it costs", "What"),
        ("- **What counts** is below it.", "What"), ("1. Whatever comes\n   stays.", "Whatever"),
        ("The page behind it.", "behind"), ("It gives the\nspace back.", "give back"),
        ("Given back later.", "give back"),
        ("Read it anew.", "anew"), ("It stays for ever.", "for ever"), ("It is gone by now.", "by now"),
        ("It was there by then.", "by then"), ("Meanwhile it waits.", "meanwhile"), ("It is mostly empty.", "mostly"),
        ("An object that there is not.", "that there is not"), ("It is nil if there is none.", "there is none"),
        ("A value stands in a row.", "stands"), ("The bytes that stood there.", "stood"),
        ("The header tells it.", "tells"), ("It was told so.", "told"), ("The row says nothing.", "says"),
        ("Never make others wait.", "others"), ("Somebody holds it.", "somebody"), ("Nobody waits.", "nobody"),
        ("Everybody reads.", "everybody"), ("It is not for anybody.", "anybody"), ("After so many rounds.", "so many"),
        ("A draft in the making.", "in the making"), ("It is worked out once.", "worked out"),
    ]) func aPlantedFaultIsFound(text: String, fault: String) {
        #expect(Self.faults(in: text).map(\.pattern) == [fault], "\(text)")
    }

    @Test func questionsNamesAndCodeAreNoFaults() {
        let text = """
            ## Where is the lock?

            The standard is plain: `behind`, `give back`. You understand `--others x. What y`. Give it, then go back.
            <!-- Who -->
            ```swift
            // What others tell stands behind.
            ```
            | what | where |
            |---|---|
            | `a \\| b` | says `who` |
            """
        #expect(Self.faults(in: text).map(\.pattern) == ["says"])
    }
}

// MARK: The rule

extension PlainEnglishTests {
    struct Fault: Equatable, CustomStringConvertible {
        var pattern: String
        var sentence: String
        var description: String { "“\(pattern)” in: \(sentence)" }
    }

    /// Words that begin a question. Without a question mark they begin a clause that has no noun.
    private static let questionWords: Set<Substring> = ["What", "Whatever", "Who", "Whoever", "Whose", "Where"]

    private static let words: Set<Substring> = [
        "anew", "anybody", "behind", "everybody", "meanwhile", "mostly", "nobody", "others", "said", "says", "somebody",
        "stand", "standing", "stands", "stood", "tell", "telling", "tells", "told", "whoever",
    ]

    private static let phrases = [
        "by now", "by then", "for ever", "in the making", "so long", "so many", "that there are not",
        "that there is not", "there are none", "there is none", "there was none", "worked out",
    ]

    private static let formsOfGive: Set<Substring> = ["gave", "give", "given", "gives", "giving"]

    static func faults(in text: String) -> [Fault] {
        sentences(of: text).flatMap { sentence in
            patterns(in: sentence).map { Fault(pattern: $0, sentence: sentence) }
        }
    }

    private static func patterns(in sentence: String) -> [String] {
        let all = sentence.split { !$0.isLetter && $0 != "'" }
        var found: [String] = []
        if let first = all.first, questionWords.contains(first), !sentence.contains("?") { found.append(String(first)) }
        let lower = sentence.lowercased().split { !$0.isLetter && $0 != "'" }
        found += lower.dropFirst(found.count).filter { words.contains($0) }.map(String.init)
        let line = " " + lower.joined(separator: " ") + " "
        found += phrases.filter { line.contains(" " + $0 + " ") }
        // A few words may lie between them: “gives its space back”.
        for index in lower.indices where formsOfGive.contains(lower[index]) {
            if lower[index...].prefix(4).contains("back") { found.append("give back") }
        }
        return found
    }

    /// Headings, list items and cells of tables each begin a sentence. Code is left out.
    private static func sentences(of text: String) -> [String] {
        let item = #/^([-*]|\d+\.) /#
        let endOfSentence = #/[.!?:][)*”"]* +(?=[A-Z`“*(<])/#
        var paragraphs = [""]
        var isCode = false
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            let line = line.drop { $0 == " " }
            if line.hasPrefix("```") { isCode.toggle() }
            if isCode || line.hasPrefix("```") || line.hasPrefix("<!--") {
                paragraphs.append("")
            } else if line.hasPrefix("|") {
                paragraphs += withoutCode(line).split(separator: "|").map(String.init) + [""]
            } else if line.isEmpty || line.hasPrefix("#") {
                paragraphs += [withoutCode(line), ""]
            } else if line.firstMatch(of: item) != nil {
                paragraphs.append(String(line))
            } else {
                paragraphs[paragraphs.count - 1] += " " + line
            }
        }
        return paragraphs.flatMap { paragraph in
            var rest = withoutCode(paragraph[...])[...]
            var found: [String] = []
            while let end = rest.firstRange(of: endOfSentence) {
                found.append(String(rest[..<end.upperBound]))
                rest = rest[end.upperBound...]
            }
            return found + [String(rest)]
        }
    }

    private static func withoutCode(_ text: Substring) -> String {
        text.split(separator: "`", omittingEmptySubsequences: false).enumerated()
            .map { $0.offset.isMultiple(of: 2) ? $0.element : "code" }.joined(separator: "`")
    }
}
