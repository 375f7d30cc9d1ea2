// Messages that quote the text of another error end each sentence once.

import Annals
import Foundation
import Testing

private struct Unsound: Error, CustomStringConvertible {
    let description: String
}

@Suite struct QuotedErrorTests {
    @Test(arguments: [
        ("no full stop", "no full stop."), ("a full stop.", "a full stop."), ("a line.\n", "a line."),
        ("really?", "really?"), ("stop!", "stop!"), ("and so on…", "and so on…"), ("[1, 2]", "[1, 2]."),
        ("check it. [/data/s]", "check it. [/data/s]"),
        ("check it. [/data/s, offset 5]", "check it. [/data/s, offset 5]"),
    ]) func everyTextEndsWithOneMark(text: String, sentence: String) {
        #expect(StoreError.sentence(Unsound(description: text)) == sentence)
    }

    private func expectSentences(
        _ error: (any Error)?, _ text: String, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let message = (error as? StoreError)?.message ?? ""
        #expect(message.contains(text), "\(message)", sourceLocation: sourceLocation)
        #expect(message.hasSuffix(".") && !message.contains(".."), "\(message)", sourceLocation: sourceLocation)
    }

    /// A body, an encoder and a rule of a program end their texts as they like.
    @Test(arguments: ["is odd", "is odd."]) func errorTextsOfTheProgramAreQuoted(text: String) throws {
        struct Encoded: Encodable {
            let text: String
            func encode(to encoder: any Encoder) throws { throw Unsound(description: text) }
        }
        struct Checked: Entity {
            var n = 0
            static let schema = Schema<Checked>("Checked") { Attribute(\.n, .check("is odd.") { $0 % 2 == 0 }) }
        }
        let folder = try StoreFolder()
        let store = try Store(at: folder.path, entities: [Checked.self])
        expectSentences(
            #expect(throws: StoreError.self) { try store.write { try $0.setMetadata(Encoded(text: text), for: "k") } },
            "cannot be encoded: is odd.")
        expectSentences(
            #expect(throws: StoreError.self) { try store.write { try $0.insert(Checked(n: 1)) } },
            "“n” of “Checked” is odd. Nothing was saved.")
        try store.close()
        let failing = Migration("failing", []) { _ in throw Unsound(description: text) }
        expectSentences(
            #expect(throws: StoreError.self) {
                try Store(at: folder.path, entities: [Checked.self], migrations: [failing])
            }, "the store is unchanged: is odd.")
        try folder.expectIntact()
    }
}
