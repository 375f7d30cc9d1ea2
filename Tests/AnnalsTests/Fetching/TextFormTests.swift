// A text in another Unicode form is the same value everywhere. Writing it is a change all the same, and what was
// written comes back in its form.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct TextFormTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    /// Texts of one value: composed, decomposed, marks in another order, Hangul.
    private static let forms: [[String]] = [
        ["caf\u{e9}", "cafe\u{301}"], ["\u{1e69}", "s\u{323}\u{307}", "s\u{307}\u{323}", "\u{1e61}\u{323}"],
        ["\u{ac01}", "\u{1100}\u{1161}\u{11a8}", "\u{ac00}\u{11a8}"], ["\u{c5}", "A\u{30a}", "\u{212b}"],
    ]

    private static func bytes(_ text: String?) -> [UInt8] { text.map { Array($0.utf8) } ?? [] }

    /// Another form is a change: history has it, and undoing and reverting give the form back.
    @Test(arguments: forms) func anotherFormOfATextIsAChange(_ forms: [String]) throws {
        let store = try Store(at: folder.path, entities: [TextItem.self])
        let (reference, _) = try store.writeOptimistically { try $0.insert(TextItem(1, forms[0])) }
        let context = store.makeContext(author: "app")
        context.undoLevels = 5
        let item = try context.object(reference)
        func plain() throws -> [UInt8] { Self.bytes(try store.snapshot()[reference]?.plain) }
        var tokens: [HistoryToken] = []
        for form in forms[1...] + [forms[0]] {
            item.plain = form
            item.indexed = form
            #expect(item.objectStatus.changedValues.keys.sorted() == ["indexed", "plain"] && context.hasChanges)
            try context.undo()
            #expect(!context.hasChanges)
            try context.redo()
            tokens.append(try context.save())
            #expect(try plain() == Self.bytes(form) && Self.bytes(item.plain) == Self.bytes(form))
        }
        for (token, form) in zip(tokens, forms[1...] + [forms[0]]) {
            let changes = try store.history(HistoryRequest(authors: ["app"])).filter { $0.number == token.number }
            #expect(changes.flatMap(\.changes).map(\.attributes) == [["indexed", "plain"]])
            #expect(try Self.bytes(store.snapshot(asOf: token)[reference]?.plain) == Self.bytes(form))
        }
        // The same form again is none.
        item.plain = forms[0]
        #expect(!context.hasChanges)
        #expect(try store.writeOptimistically { try $0.update(reference) { $0.plain = forms[0] } }.token == nil)
        // Reverting the last change gives its form back. The one before has been changed since, but the text is equal.
        #expect(try store.revert(try #require(tokens.last)).conflicts.isEmpty)
        #expect(try plain() == Self.bytes(forms[forms.count - 1]))
        #expect(try store.revert(tokens[0]).conflicts.isEmpty)
        #expect(try plain() == Self.bytes(forms[0]))
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    /// What was written in another form since is not contradicted when a transaction is reverted.
    @Test(arguments: forms) func aRevertAcceptsAnotherFormOfAText(_ forms: [String]) throws {
        let store = try Store(at: folder.path, entities: [TextItem.self])
        let (reference, _) = try store.writeOptimistically { try $0.insert(TextItem(1, "before")) }
        let token = try #require(
            try store.writeOptimistically { try $0.update(reference) { $0.plain = forms[0] } }.token)
        try store.writeOptimistically { try $0.update(reference) { $0.plain = forms[1] } }
        #expect(try store.revert(token).conflicts.isEmpty)
        #expect(try store.snapshot()[reference]?.plain == "before")
        // A deleted object comes back unless another one has its key, in whatever form.
        try store.writeOptimistically { try $0.update(reference) { $0.key = forms[0] } }
        let deletion = try #require(try store.writeOptimistically { try $0.delete(reference) }.token)
        let (other, _) = try store.writeOptimistically { try $0.insert(TextItem(2, forms[1])) }
        #expect(try store.revert(deletion).conflicts.map(\.reason) == [.keyTaken(by: other.id)])
        try store.writeOptimistically { try $0.delete(other) }
        #expect(try store.revert(deletion).conflicts.isEmpty)
        #expect(try Self.bytes(store.snapshot()[reference]?.key) == Self.bytes(forms[0]))
        try store.close()
        try folder.expectIntact()
    }

    /// Groups, distinct values, sections and orders take equal texts for one value, in the form that they met first.
    @Test(arguments: forms) func equalTextsAreOneValue(_ forms: [String]) throws {
        let store = try Store(at: folder.path, entities: [TextItem.self])
        let texts = forms + ["zz"] + forms.reversed() + ["A"]
        func item(_ number: Int) -> TextItem {
            var item = TextItem(number, texts[number])
            item.key = "\(number)"
            return item
        }
        let half = forms.count + 1
        try store.writeOptimistically { transaction in for number in 0..<half { try transaction.insert(item(number)) } }
        let context = store.makeContext()
        for number in half..<texts.count { context.insert(item(number)) }
        let sections = try context.results(
            TextItem.self, sortedBy: .ascending(\.plain), sectionedBy: \.plain)
        let wanted = texts.indices.sorted { (texts[$0], $0) < (texts[$1], $1) }
        for isSaved in [false, true] {
            if isSaved { try context.save() }
            #expect(try context.fetch(TextItem.self, sortedBy: .ascending(\.plain)).map(\.number) == wanted)
            #expect(try context.fetch(TextItem.self, sortedBy: .ascending(\.indexed)).map(\.number) == wanted)
            #expect(sections.sections.map(\.count).sorted() == [1, 1, texts.count - 2])
        }
        let snapshot = try store.snapshot()
        #expect(try snapshot.values(of: \TextItem.plain, distinct: true).count == 3)
        #expect(try snapshot.values(of: \TextItem.indexed, distinct: true).count == 3)
        for groups in [
            try snapshot.groups(by: \TextItem.plain), try snapshot.groups(by: \TextItem.indexed),
        ] {
            #expect(groups.count == 3 && groups.map(\.count).max() == texts.count - 2)
        }
        #expect(try snapshot.fetch(TextItem.self, sortedBy: .ascending(\.plain)).map(\.number) == wanted)
        #expect(try snapshot.fetch(TextItem.self, sortedBy: .ascending(\.indexed)).map(\.number) == wanted)
        let selected = try snapshot.select(TextItem.self, \.number, \.plain, where: #Predicate { $0.number < 99 })
        for (number, plain) in selected { #expect(Self.bytes(plain) == Self.bytes(texts[number])) }
        let few = [forms[0]]
        #expect(try snapshot.count(TextItem.self, where: #Predicate { few.contains($0.plain) }) == texts.count - 2)
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    struct Derived: Entity {
        var name = ""
        var size = 0
        var key = ""
        var folded = ""
        static let schema = Schema<Derived> {
            Attribute(\.key, .unique, .derived { $0.name })
            Attribute(\.folded, .indexed, .derived { $0.name.caseFolded })
        }
    }

    /// A derived value has the form of what it is derived from; as a key all forms are one.
    @Test(arguments: forms) func derivedValuesFollowTheForm(_ forms: [String]) throws {
        let store = try Store(at: folder.path, entities: [Derived.self])
        let (first, _) = try store.writeOptimistically { try $0.insert(Derived(name: forms[0])) }
        expect(.uniqueViolation) { try store.writeOptimistically { try $0.insert(Derived(name: forms[1])) } }
        let (same, _) = try store.writeOptimistically { try $0.upsert(Derived(name: forms[1], size: 2)) }
        #expect(same == first)
        let value = try #require(try store.snapshot()[first])
        #expect(Self.bytes(value.key) == Self.bytes(forms[1]) && value.size == 2)
        #expect(Self.bytes(value.folded) == Self.bytes(forms[0].caseFolded))
        let context = store.makeContext()
        context.upserts = true
        context.insert(Derived(name: forms[0], size: 3))
        try context.save()
        #expect(try store.snapshot().count(Derived.self) == 1 && store.snapshot()[first]?.size == 3)
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    enum Before {
        struct Derived: Entity {
            var name = ""
            var size = 0
            var key = ""
            var folded = ""
            static let schema = Schema<Derived> {
                Attribute(\.key, .unique, .derived { $0.name })
                Attribute(\.folded, .indexed, .derived { $0.name.lowercased() })
            }
        }
    }

    /// As after a change of the tables: what was derived stays until its object is written.
    @Test func valuesOfAnOlderFoldingAreDerivedAgain() throws {
        let older = try Store(at: folder.path, entities: [Before.Derived.self])
        try older.insert(contentsOf: ["Stra\u{df}e", "x"].map { Before.Derived(name: $0) })
        try older.close()
        let store = try Store(at: folder.path, entities: [Derived.self])
        func find() throws -> Int {
            let folded = "STRASSE".caseFolded
            return try store.snapshot().count(Derived.self, where: #Predicate { $0.folded == folded })
        }
        #expect(try find() == 0)
        #expect(try store.update(Derived.self) { _ in }.count == 1)
        #expect(try find() == 1)
        try store.close()
        try folder.expectIntact()
    }
}
