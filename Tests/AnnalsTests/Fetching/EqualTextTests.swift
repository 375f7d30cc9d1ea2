// A text is found by every text that Swift calls equal to it: with an index and without one, before and after saving,
// in contexts and transactions, by `find`, and where transactions are applied. Rows keep it as it was given.
//
// `Tests/run long equal` runs it for longer: an operation is a value.

import Annals
import FoundationEssentials
import TestSupport
import Testing

struct TextItem: Entity, Equatable {
    var number = 0
    var indexed = ""
    var plain = ""
    var key = ""
    var tags: Set<String> = []
    var note = ""

    static let schema = Schema<TextItem>(unique: [[\.tags, \.number]]) {
        Attribute(\.indexed, .indexed)
        Attribute(\.key, .unique)
    }

    init(_ number: Int, _ text: String) {
        self.number = number
        (indexed, plain, key, tags) = (text, text, text, [text, "z", "\u{1F600}"])
    }

    init() {}
}

/// A text, and one that is equal to it.
struct EqualTexts {
    let given: String
    let other: String

    /// No two texts of different pairs are equal.
    static func several(_ count: Int, _ random: inout SeededRandom) -> [EqualTexts] {
        var seen: Set<String> = []
        var pairs: [EqualTexts] = []
        while pairs.count < count {
            let text = String(String.UnicodeScalarView((0...Int(random.next() % 9)).flatMap { _ in part(&random) }))
            let pair = EqualTexts(given: another(text, &random), other: another(text, &random))
            guard pair.given == text && pair.other == text else {
                precondition(text.unicodeScalars.contains { unlikeSwift.contains($0.value) })
                continue
            }
            if seen.insert(text).inserted { pairs.append(pair) }
        }
        return pairs
    }

    /// Signs that Swift 6.3 does not divide before it orders marks, as Unicode does. Where it calls texts with them
    /// equal, Unicode does so, too.
    static let unlikeSwift: Set<UInt32> = [0xF73, 0xF75, 0xF81]

    private static let letters =
        "aAeosSzk\u{e9}\u{c5}\u{212b}\u{2126}\u{1e69}\u{1e9b}\u{fb01}\u{1fb3}\u{df}\u{3c3}\u{3c2}".unicodeScalars
        .map { $0 }
    private static let marks = "\u{301}\u{323}\u{307}\u{308}\u{30a}\u{327}\u{338}\u{345}\u{344}\u{5b0}\u{f71}\u{3099}"
        .unicodeScalars
        .map { $0 }

    private static func part(_ random: inout SeededRandom) -> [Unicode.Scalar] {
        switch random.next() % 8 {
        case 0, 1: return [letters.randomElement(using: &random)!, marks.randomElement(using: &random)!]
        case 2: return (0..<3).map { _ in marks.randomElement(using: &random)! }
        case 3: return [Unicode.Scalar(UInt32(0xAC00 + random.next() % 11172))!]
        case 4: return [Unicode.Scalar(UInt32(0x1100 + random.next() % 0x100))!]
        case 5: return [Unicode.Scalar(UInt32(0x20 + random.next() % 0x2000))!]
        case 6: return [Unicode.Scalar(UInt32(0xF900 + random.next() % 0x200))!]
        default: return [letters.randomElement(using: &random)!]
        }
    }

    /// The text composed, decomposed, or decomposed with marks in another order.
    private static func another(_ text: String, _ random: inout SeededRandom) -> String {
        switch random.next() % 4 {
        case 0: return text
        case 1: return NormalForm.of(text)
        default: break
        }
        var scalars = Array(NormalForm.decomposed(text).unicodeScalars)
        for place in scalars.indices.dropLast() where random.next() % 2 == 0 {
            let classes = (scalars[place].properties, scalars[place + 1].properties)
            let (a, b) = (classes.0.canonicalCombiningClass, classes.1.canonicalCombiningClass)
            if a != b, a != .notReordered, b != .notReordered { scalars.swapAt(place, place + 1) }
        }
        return String(String.UnicodeScalarView(scalars))
    }

    var shown: Comment { "\(given.unicodeScalars.map(\.value)) \(other.unicodeScalars.map(\.value))" }
}

@Suite struct EqualTextTests {
    private let folder: StoreFolder
    private let other: StoreFolder

    init() throws { (folder, other) = (try StoreFolder(), try StoreFolder()) }

    @Test func textsAreFoundByEveryEqualText() throws {
        guard let long = LongRun("equal", operations: 150) else { return }
        let stores = long.forEachStore(50) { seed, count in
            var random = SeededRandom(seed)
            try check(EqualTexts.several(count, &random), "seed \(seed)")
        }
        if let stores { print("equal, seed \(long.seed): \(long.operations) texts in \(stores) stores") }
    }

    private func check(_ pairs: [EqualTexts], _ place: Comment) throws {
        for path in [folder.path, other.path] where FileManager.default.fileExists(atPath: path) {
            try FileManager.default.removeItem(atPath: path)
        }
        let store = try Store(at: folder.path, entities: [TextItem.self])
        let half = pairs.count / 2
        let context = store.makeContext()
        let objects = pairs[..<half].enumerated().map { context.insert(TextItem($0, $1.given)) }
        for (object, pair) in zip(objects, pairs) { try find(context, pair, object) }
        try context.save()
        for (object, pair) in zip(objects, pairs) {
            #expect(object.plain.utf8.elementsEqual(pair.given.utf8), pair.shown)
            try find(context, pair, object)
        }
        let live = try objects.indices.map { number in
            let text = pairs[number].other
            return try context.results(TextItem.self, where: #Predicate { $0.indexed == text && $0.plain == text })
        }
        for object in objects { object.note = "changed" }
        try context.save()
        #expect(live.map { $0.map(\.number) } == objects.indices.map { [$0] } && !context.hasChanges)
        try store.writeOptimistically { transaction in
            for (number, pair) in pairs.enumerated().dropFirst(half) {
                let reference = try transaction.insert(TextItem(number, pair.given))
                let text = pair.other
                let found = try transaction.references(to: TextItem.self, where: #Predicate { $0.indexed == text })
                let plain = try transaction.references(to: TextItem.self, where: #Predicate { $0.plain == text })
                #expect(found == [reference] && plain == [reference], pair.shown)
            }
        }
        try compare(store, pairs)
        try relay(store, pairs, place)
        try findByTool(pairs, place)
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    private func find(_ context: Context, _ pair: EqualTexts, _ object: Object<TextItem>) throws {
        let text = pair.other
        let (wanted, tags) = ([object.number], Set([text, "z", "\u{1F600}"]))
        #expect(try context.fetch(TextItem.self, where: #Predicate { $0.indexed == text }).map(\.number) == wanted)
        let plain = try context.fetch(TextItem.self, where: #Predicate { $0.plain == text })
        let several = try context.fetch(TextItem.self, where: #Predicate { [text].contains($0.indexed) })
        let tagged = try context.fetch(TextItem.self, where: #Predicate { $0.tags == tags })
        #expect(plain.map(\.number) == wanted && several.map(\.number) == wanted, pair.shown)
        #expect(tagged.map(\.number) == wanted, pair.shown)
    }

    /// What is committed, as of now: equality, ranges, prefixes, sets, order, groups, upsert.
    private func compare(_ store: Store, _ pairs: [EqualTexts]) throws {
        let snapshot = try store.snapshot()
        let texts = pairs.map(\.given)
        let sorted = texts.sorted(by: NormalForm.isBefore)
        for (number, pair) in pairs.enumerated() {
            let text = pair.other
            let same = try snapshot.fetch(TextItem.self, where: #Predicate { $0.indexed == text && $0.plain == text })
            #expect(same.map(\.number) == [number] && same[0].plain.utf8.elementsEqual(pair.given.utf8), pair.shown)
            let below = texts.count { NormalForm.isBefore($0, text) }
            #expect(
                try snapshot.count(TextItem.self, where: #Predicate { $0.indexed < text }) == below
                    && snapshot.count(TextItem.self, where: #Predicate { $0.plain < text }) == below
                    && snapshot.count(TextItem.self, where: #Predicate { $0.indexed <= text }) == below + 1,
                pair.shown)
            let beginning = String(text.prefix(1))
            let begins = texts.count { $0.starts(with: beginning) }
            #expect(
                try snapshot.count(TextItem.self, where: #Predicate { $0.indexed.starts(with: beginning) }) == begins
                    && snapshot.count(TextItem.self, where: #Predicate { $0.plain.starts(with: beginning) }) == begins,
                pair.shown)
        }
        let few = pairs.enumerated().filter { $0.offset % 3 == 0 }.map(\.element.other)
        #expect(try snapshot.count(TextItem.self, where: #Predicate { few.contains($0.indexed) }) == few.count)
        #expect(try snapshot.count(TextItem.self, where: #Predicate { few.contains($0.plain) }) == few.count)
        #expect(
            try snapshot.fetch(TextItem.self, sortedBy: .ascending(\.plain)).map(\.plain) == sorted
                && snapshot.fetch(TextItem.self, sortedBy: .descending(\.indexed)).map(\.plain)
                    == sorted.reversed()
        )
        try store.writeOptimistically { transaction in
            for (number, pair) in pairs.enumerated() {
                var item = TextItem(number, pair.other)
                item.note = "upserted"
                try transaction.upsert(item, updating: [\.note])
            }
        }
        #expect(try store.snapshot().count(TextItem.self, where: #Predicate { $0.note == "upserted" }) == pairs.count)
        #expect(try store.snapshot().count(TextItem.self) == pairs.count)
    }

    private func relay(_ store: Store, _ pairs: [EqualTexts], _ place: Comment) throws {
        let copy = try Store(at: other.path, entities: [TextItem.self])
        try copy.writeOptimistically { transaction in
            for (number, pair) in pairs.enumerated() { try transaction.insert(TextItem(number, pair.other)) }
        }
        let error = #expect(throws: StoreError.self) {
            for transaction in try store.export() {
                _ = try copy.apply(try ExportedTransaction(jsonLine: transaction.jsonLine))
            }
        }
        #expect(error?.code == .applyConflict || error?.code == .uniqueViolation, place)
        try copy.writeOptimistically { transaction in
            for reference in try transaction.references(to: TextItem.self) { try transaction.delete(reference) }
        }
        for transaction in try store.export() {
            _ = try copy.apply(try ExportedTransaction(jsonLine: transaction.jsonLine))
        }
        let texts = try copy.snapshot().rows(of: "TextItem").map { $0["plain"]?.string.map { Array($0.utf8) } }
        #expect(try texts == store.snapshot().rows(of: "TextItem").map { $0["plain"]?.string.map { Array($0.utf8) } })
        try copy.close()
    }

    private func findByTool(_ pairs: [EqualTexts], _ place: Comment) throws {
        for attribute in ["plain", "indexed"] {
            let condition = try pairs.map { pair in
                let quoted = String(decoding: try JSONEncoder().encode(pair.other), as: UTF8.self)
                return "\(attribute) = \(quoted)"
            }.joined(separator: " or ")
            let found = try runTool(["find", folder.path, "TextItem", "--where", condition, "--count"])
            #expect(found.output == "\(pairs.count)\n", place)
        }
    }

    // MARK: Where two values are compared

    private static let (composed, decomposed) = ("caf\u{e9}", "cafe\u{301}")

    @Test func aUniqueTextIsUniqueInEveryForm() throws {
        let store = try Store(at: folder.path, entities: [TextItem.self])
        try store.writeOptimistically { try $0.insert(TextItem(1, Self.composed)) }
        let error = #expect(throws: StoreError.self) {
            try store.writeOptimistically { try $0.insert(TextItem(2, Self.decomposed)) }
        }
        #expect(error?.code == .uniqueViolation)
        let context = store.makeContext()
        context.insert(TextItem(3, Self.decomposed))
        #expect(throws: StoreError.self) { try context.save() }
        context.rollback()
        // The form of a text can be changed, and it is kept as it was given.
        let item = try #require(try context.fetch(TextItem.self).first)
        item.key = Self.decomposed
        item.plain = Self.decomposed
        try context.save()
        let kept = try #require(try store.snapshot().fetch(TextItem.self).first)
        #expect(kept.key.utf8.elementsEqual(Self.decomposed.utf8) && kept.plain.utf8.count == 6)
        try store.close()
        try folder.expectIntact()
    }

    @Test func anotherFormOfATextIsNoConflict() throws {
        let store = try Store(at: folder.path, entities: [TextItem.self])
        let (reference, _) = try store.writeOptimistically { try $0.insert(TextItem(1, Self.composed)) }
        let context = store.makeContext()
        let item = try context.object(reference)
        item.plain = "mine"
        try store.writeOptimistically { try $0.update(reference) { $0.plain = Self.decomposed } }
        try context.save()
        #expect(try store.snapshot()[reference]?.plain == "mine")
        item.note = Self.composed
        try store.writeOptimistically { try $0.update(reference) { $0.note = Self.decomposed } }
        try context.save()
        #expect(try store.snapshot()[reference]?.note == Self.composed)
        // Nor is it one if the context has written another form, and the other side another text.
        item.note = "cafe\u{301}"
        item.plain = "own"
        try store.writeOptimistically { try $0.update(reference) { $0.note = "theirs" } }
        try context.merge()
        #expect(item.note == "theirs" && item.objectStatus.changedValues.keys.sorted() == ["plain"])
        try context.save()
        #expect(try store.snapshot()[reference]?.note == "theirs")
        // Nor for an object that is deleted here.
        context.delete(item)
        try store.writeOptimistically { try $0.update(reference) { $0.key = Self.decomposed } }
        try context.save()
        #expect(try store.snapshot()[reference] == nil)
        // Nor if both insert it again.
        let deletion = try store.currentToken
        context.undoLevels = 5
        let again = context.insert(TextItem(2, Self.composed))
        try context.save()
        context.delete(again)
        try context.save()
        try context.undo()
        let number = try store.currentToken.number
        #expect(try store.revert(number).conflicts.isEmpty && number > deletion.number)
        try store.writeOptimistically { try $0.update(again.objectReference) { $0.plain = Self.decomposed } }
        try context.save()
        #expect(try store.snapshot().count(TextItem.self) == 1)
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    @Test func anotherFormOfATextContradictsNoUpdate() throws {
        let store = try Store(at: folder.path, entities: [TextItem.self])
        let copy = try Store(at: other.path, entities: [TextItem.self])
        let (reference, _) = try store.writeOptimistically { try $0.insert(TextItem(1, Self.composed)) }
        func relay() throws -> [ApplyResult] {
            let place = try copy.lastApplied(from: store.identifier)
            return try store.export(after: place.map { .number($0.number) }).map { try copy.apply($0) }
        }
        _ = try relay()
        let there = try #require(try copy.snapshot().references(to: TextItem.self).first)
        try copy.writeOptimistically { try $0.update(there) { $0.plain = Self.decomposed } }
        try store.writeOptimistically { try $0.update(reference) { $0.plain = "new" } }
        #expect(try relay().allSatisfy { $0.outcome == .applied && $0.conflicts.isEmpty })
        #expect(try copy.snapshot()[there]?.plain == "new")
        try store.close()
        try copy.close()
        try folder.expectIntact()
    }

    @Test func valuesAndGroupsAreEqualInEveryForm() throws {
        let store = try Store(at: folder.path, entities: [TextItem.self])
        try store.writeOptimistically { transaction in
            for (number, text) in [Self.composed, Self.decomposed, "x"].enumerated() {
                var item = TextItem(number, text)
                item.key = "\(number)"
                try transaction.insert(item)
            }
        }
        let rows = try store.snapshot().rows(of: "TextItem")
        #expect(rows[0]["plain"] == rows[1]["plain"] && Set(rows.map { $0["plain"] }).count == 2)
        #expect(rows[0]["tags"] == rows[1]["tags"])
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Folding

    /// FT1 and FT2.
    @Test func foldedTextsMatchUnicode() {
        let equal = [
            ("Stra\u{df}e", "STRASSE"), ("\u{39f}\u{394}\u{39f}\u{3a3}", "\u{3bf}\u{3b4}\u{3bf}\u{3c2}"),
            ("\u{1fb3}", "\u{3b1}\u{345}"), ("\u{fb01}", "FI"), ("\u{c9}", "e\u{301}"), ("\u{212a}", "k"),
            ("\u{1e9e}", "ss"), ("\u{130}", "i\u{307}"), ("\u{10d50}", "\u{10d70}"), ("\u{16ea0}", "\u{16ebb}"),
        ]
        for (left, right) in equal { #expect(left.caseFolded == right.caseFolded, "\(left)") }
        for text in equal.flatMap({ [$0.0, $0.1] }) { #expect(text.caseFolded.caseFolded == text.caseFolded) }
        #expect("\u{e9}".caseFolded != "e".caseFolded && "I".caseFolded == "i" && "\u{131}".caseFolded != "i")
        let plain = [
            ("R\u{e9}sum\u{e9}", "resume"), ("re\u{301}sume\u{301}", "RESUME"), ("\u{419}", "\u{438}"),
            ("\u{390}", "\u{3b9}"), ("\u{1ed4}", "o"), ("\u{130}", "i"), ("Stra\u{df}e", "strasse"),
        ]
        for (left, right) in plain {
            #expect(left.caseAndDiacriticFolded == right.caseAndDiacriticFolded, "\(left)")
        }
        for text in ["\u{f8}", "\u{142}", "\u{5d0}\u{5b8}", "\u{915}\u{93e}", "\u{304c}"] {
            #expect(text.caseAndDiacriticFolded == text)
        }
    }

    /// What Swift calls a capital letter is folded as its small letter is.
    @Test func everyScalarIsFoldedAsItsSmallLetter() {
        var count = 0
        for number in UInt32(0)...0x10FFFF {
            guard let scalar = Unicode.Scalar(number), scalar.properties.changesWhenLowercased else { continue }
            count += 1
            let text = String(scalar)
            #expect(text.caseFolded == scalar.properties.lowercaseMapping.caseFolded, "\(number)")
        }
        #expect(count > 1400)
    }

    /// The tables are those of Unicode 17, whichever version Swift has. What later versions add stays as it is.
    @Test func theTablesMatchUnicode17() {
        // What 16 and 17 added: Garay, Latin letters, Cyrillic Tje, Beria Erfe.
        let added: [(ClosedRange<UInt32>, UInt32)] = [
            (0x10D50...0x10D65, 0x10D70), (0xA7CB...0xA7CB, 0x264), (0xA7CC...0xA7CC, 0xA7CD),
            (0xA7CE...0xA7CE, 0xA7CF), (0xA7D2...0xA7D2, 0xA7D3), (0xA7D4...0xA7D4, 0xA7D5),
            (0xA7DA...0xA7DA, 0xA7DB), (0xA7DC...0xA7DC, 0x19B), (0x1C89...0x1C89, 0x1C8A),
            (0x16EA0...0x16EB8, 0x16EBB),
        ]
        func text(_ number: UInt32) -> String { String(Unicode.Scalar(number)!) }
        for (scalars, target) in added {
            for number in scalars {
                let folded = text(target + number - scalars.lowerBound)
                #expect(text(number).caseFolded == folded && folded.caseFolded == folded, "\(number)")
                #expect(text(number).caseAndDiacriticFolded == folded, "\(number)")
            }
        }
        var (folded, later) = (0, 0)
        for number in UInt32(0)...0x10FFFF {
            guard let scalar = Unicode.Scalar(number) else { continue }
            let isFolded = text(number).caseFolded != text(number)
            if let age = scalar.properties.age, age.major <= 17 {
                #expect(isFolded == scalar.properties.changesWhenCaseFolded, "\(number)")
                folded += isFolded ? 1 : 0
            } else {
                #expect(!isFolded, "\(number)")
                later += 1
            }
        }
        #expect(folded > 1_500 && later > 800_000)
    }

    @Test func foldedTextsAreFound() throws {
        let store = try Store(at: folder.path, entities: [TextItem.self])
        try store.writeOptimistically { transaction in
            for (number, text) in ["Stra\u{df}e", "R\u{e9}sum\u{e9}", "resume"].enumerated() {
                try transaction.insert(TextItem(number, text))
            }
        }
        let (word, search) = ("STRASSE".caseFolded, "R\u{c9}SUM".caseAndDiacriticFolded)
        let snapshot = try store.snapshot()
        #expect(
            try snapshot.fetch(TextItem.self, where: #Predicate { $0.plain.caseFolded == word }).map(\.number) == [0])
        let found = try snapshot.fetch(
            TextItem.self, where: #Predicate { $0.plain.caseAndDiacriticFolded.contains(search) })
        #expect(found.map(\.number) == [1, 2])
        let cases = try snapshot.fetch(TextItem.self, where: #Predicate { $0.plain.caseFolded.contains("r\u{e9}s") })
        #expect(cases.map(\.number) == [1])
        try store.close()
    }
}
