// Constants of predicates: however one is written, the plan is that of a local variable.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct ConstantTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    struct Outer: Sendable, Codable {
        var title: String
        var inner: Inner
        var pages: Int?
        var upper: String { title + "" }
    }

    struct Inner: Sendable, Codable { var title: String }

    typealias Form = (name: String, predicate: Predicate<Object<Book>>)

    private func makeStore() throws -> (Store, [Reference<Book>: Book]) {
        let store = try Store(at: folder.path, entities: [Shelf.self, Book.self, Tag.self])
        try store.changeSchema([.changeAttribute("title", of: "Book", isIndexed: true)])
        var books: [Reference<Book>: Book] = [:]
        try store.writeOptimistically { transaction in
            let shelf = try transaction.insert(Shelf(name: "t3"))
            let tag = try transaction.insert(Tag(name: "t3"))
            for number in 0..<60 {
                var book = Book(title: "t\(number)", pages: number, code: number % 2 == 0 ? nil : number)
                if number % 3 == 0 { (book.shelf, book.tags) = (shelf, [tag]) }
                book.sortTitle = book.title
                books[try transaction.insert(book)] = book
            }
        }
        return (store, books)
    }

    /// Each of them means the same as the first.
    private func expectSame(_ forms: [Form], _ store: Store, _ books: [Reference<Book>: Book]) throws {
        let snapshot = try store.snapshot()
        let wanted = try snapshot.explain(Book.self, where: forms[0].predicate)
        let found = try snapshot.references(to: Book.self, where: forms[0].predicate)
        #expect(!wanted.isPartlyEvaluated && !found.isEmpty, "\(forms[0].name): \(wanted)")
        for form in forms.dropFirst() {
            let plan = try snapshot.explain(Book.self, where: form.predicate)
            #expect(plan.description == wanted.description, "\(form.name)")
            #expect(try snapshot.references(to: Book.self, where: form.predicate) == found, "\(form.name)")
        }
    }

    // MARK: Forms

    @Test func aTextConstantMayHaveAnyForm() throws {
        let (store, books) = try makeStore()
        let plain = "t3"
        let parts = ["a", "t3"]
        let outer = Outer(title: "t3", inner: Inner(title: "t3"), pages: 3)
        let optional: String? = "t3"
        let none: String? = nil
        let dictionary = ["k": "t3"]
        let some: Set<String> = ["t3"]
        let isWanted = true
        let closure = { (text: String) in #Predicate<Object<Book>> { $0.title == text } }
        try expectSame(
            [
                ("local", #Predicate { $0.title == plain }),
                ("literal", #Predicate { $0.title == "t3" }),
                ("the other way round", #Predicate { parts[1] == $0.title }),
                ("subscript", #Predicate { $0.title == parts[1] }),
                ("property", #Predicate { $0.title == outer.title }),
                ("computed property", #Predicate { $0.title == outer.upper }),
                ("nested property", #Predicate { $0.title == outer.inner.title }),
                ("unwrapped", #Predicate { $0.title == optional! }),
                ("or else", #Predicate { $0.title == optional ?? "" }),
                ("or else the other", #Predicate { $0.title == none ?? "t3" }),
                ("dictionary", #Predicate { $0.title == dictionary["k"] ?? "" }),
                ("dictionary with a default", #Predicate { $0.title == dictionary["k", default: ""] }),
                ("dictionary without", #Predicate { $0.title == dictionary["x", default: "t3"] }),
                ("conditional", #Predicate { $0.title == (isWanted ? plain : "x") }),
                ("captured", closure("t3")),
                ("a part that is certain", #Predicate { isWanted && $0.title == plain }),
                ("a part that is computed", #Predicate { parts.count == 2 && $0.title == plain }),
                ("a part that never holds", #Predicate { plain.isEmpty || $0.title == plain }),
                ("a branch", #Predicate { isWanted ? $0.title == plain : $0.pages == 1 }),
                ("what is bound", #Predicate { book in if let optional { book.title == optional } else { true } }),
                (
                    "what is not bound",
                    #Predicate { book in if let none { book.sortTitle == none } else { book.title == plain } }
                ),
                ("all of", allOf([#Predicate { $0.title == parts[1] }])),
            ], store, books)
        try expectSame(
            [
                ("local", #Predicate { $0.title.starts(with: plain) }),
                ("property", #Predicate { $0.title.starts(with: outer.inner.title) }),
                ("subscript", #Predicate { $0.title.starts(with: parts[1]) }),
                ("unwrapped", #Predicate { $0.title.starts(with: optional!) }),
            ], store, books)
        try expectSame(
            [
                ("local", #Predicate { some.contains($0.title) }),
                ("list", #Predicate { ["t3"].contains($0.title) }),
            ], store, books)
        try expectSame(
            [
                ("local", #Predicate { $0.sortTitle.caseFolded.contains(plain) }),
                ("subscript", #Predicate { $0.sortTitle.caseFolded.contains(parts[1]) }),
                ("folded", #Predicate { $0.sortTitle.caseFolded.contains(plain.caseFolded) }),
            ], store, books)
        try store.close()
        try folder.expectIntact()
    }

    @Test func aNumberConstantMayHaveAnyForm() throws {
        let (store, books) = try makeStore()
        let number = 30
        let numbers = [10, 30, 20]
        let outer = Outer(title: "", inner: Inner(title: ""), pages: 30)
        let half = 15
        let minus = -30
        try expectSame(
            [
                ("local", #Predicate { $0.pages > number }),
                ("product", #Predicate { $0.pages > half * 2 }),
                ("sum", #Predicate { half + half < $0.pages }),
                ("difference", #Predicate { $0.pages > 45 - half }),
                ("negative", #Predicate { $0.pages > -minus }),
                ("quotient", #Predicate { $0.pages > 61 / 2 }),
                ("remainder", #Predicate { $0.pages > 130 % 100 }),
                ("greatest", #Predicate { $0.pages > numbers.max()! }),
                ("subscript", #Predicate { $0.pages > numbers[1] }),
                ("property of an optional", #Predicate { $0.pages > outer.pages! }),
                ("or else", #Predicate { $0.pages > outer.pages ?? 0 }),
            ], store, books)
        try expectSame(
            [
                ("local", #Predicate { (numbers[0]...number).contains($0.pages) }),
                ("computed", #Predicate { (half - 5...half * 2).contains($0.pages) }),
            ], store, books)
        try expectSame(
            [
                ("local", #Predicate { ($0.code ?? number) >= number }),
                ("computed", #Predicate { ($0.code ?? half * 2) >= numbers[1] }),
            ], store, books)
        try expectSame(
            [
                ("local", #Predicate { if let code = $0.code { code > number } else { false } }),
                ("computed", #Predicate { if let code = $0.code { code > half * 2 } else { false } }),
            ], store, books)
        try store.close()
        try folder.expectIntact()
    }

    @Test func aConstantForARelatedObjectMayHaveAnyForm() throws {
        let (store, books) = try makeStore()
        let plain = "t3"
        let parts = ["a", "t3"]
        let outer = Outer(title: "t3", inner: Inner(title: "t3"))
        try expectSame(
            [
                ("local", #Predicate { $0.shelf?.name == plain }),
                ("subscript", #Predicate { $0.shelf?.name == parts[1] }),
                ("last", #Predicate { $0.shelf?.name == parts.last }),
            ], store, books)
        try expectSame(
            [
                ("local", #Predicate { $0.tags.contains { $0.name == plain } }),
                ("subscript", #Predicate { $0.tags.contains { $0.name == parts[1] } }),
                ("property", #Predicate { $0.tags.contains { $0.name == outer.title } }),
            ], store, books)
        let shelf = try #require(try store.snapshot().references(to: Shelf.self).first)
        let shelves = [shelf]
        try expectSame(
            [
                ("local", #Predicate { $0.shelf == shelf }),
                ("subscript", #Predicate { $0.shelf == shelves[0] }),
                ("first", #Predicate { $0.shelf == shelves.first }),
            ], store, books)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: What is no constant

    @Test func aConstantThatCannotBeComputedFailsIfAnObjectNeedsIt() throws {
        let (store, _) = try makeStore()
        let none: String? = nil
        let parts = ["a"]
        let snapshot = try store.snapshot()
        #expect(try snapshot.count(Book.self, where: #Predicate { none != nil && $0.title == none! }) == 0)
        #expect(try snapshot.count(Book.self, where: #Predicate { $0.pages > 99 && $0.title == none! }) == 0)
        expect(.invalidArgument) { try snapshot.count(Book.self, where: #Predicate { $0.title == none! }) }
        expect(.invalidArgument) { try snapshot.count(Book.self, where: #Predicate { $0.title == parts[3] }) }
        // It divides only if there is something to divide by.
        let (total, count) = (7, 0)
        #expect(try snapshot.count(Book.self, where: #Predicate { count > 0 && $0.pages > total / count }) == 0)
        #expect(try snapshot.count(Book.self, where: #Predicate { count == 0 || $0.pages > total / count }) == 60)
        try store.close()
        try folder.expectIntact()
    }

    @Test func explainNamesThePartThatKeepsAPredicateFromAnIndex() throws {
        let (store, _) = try makeStore()
        let snapshot = try store.snapshot()
        let (word, number) = ("t3", 3)
        func unindexed(_ predicate: Predicate<Object<Book>>) throws -> [String] {
            try snapshot.explain(Book.self, where: predicate).unindexed
        }
        #expect(try unindexed(#Predicate { $0.title == word }) == [])
        #expect(try unindexed(#Predicate { $0.pages >= number && $0.pages < 9 }) == [])
        #expect(try unindexed(#Predicate { $0.shelf?.name == word }) == [])
        #expect(
            try unindexed(#Predicate { $0.pages % 2 == number }) == [
                "pages % … == …, evaluated on the object: not a comparison with a constant"
            ])
        #expect(
            try unindexed(#Predicate { $0.title == $0.sortTitle }) == [
                "title == sortTitle, evaluated on the object: not a comparison with a constant"
            ])
        #expect(try unindexed(#Predicate { $0.sortTitle == word }) == ["sortTitle == …: “sortTitle” has no index"])
        #expect(
            try unindexed(#Predicate { $0.title.caseFolded == word && $0.pages == number }) == [
                "title.caseFolded == …: no index contains folded texts"
            ])
        #expect(
            try unindexed(#Predicate { $0.title == word || $0.pages == number }) == [
                "(title == …) or (pages == …): no index finds “or”"
            ])
        #expect(try unindexed(#Predicate { $0.title != word }) == ["not (title == …): no index finds “not”"])
        #expect(
            try unindexed(#Predicate { $0.isbn == word && $0.pages > number }) == [
                "pages > …: another access is better"
            ])
        let counted = try unindexed(#Predicate { $0.shelf?.name.count == number })
        #expect(
            counted == [
                "shelf?.name.count == …, evaluated on the object: not a comparison with a constant"
            ])
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Lists

    private static func random(
        _ number: Int, _ shelves: [Reference<Shelf>], _ random: inout SeededRandom
    ) -> Everything {
        var value = Everything()
        value.text = ["e\u{301}", "\u{e9}", "a", "b", "", "日"].randomElement(using: &random)!
        value.optionalText = Bool.random(using: &random) ? nil : value.text
        value.ratio = [0, -0.0, .nan, .infinity, 1.5, 2].randomElement(using: &random)!
        value.half = [0, -0.0, .nan, 1.5, 2].randomElement(using: &random)!
        value.date = Date(timeIntervalSinceReferenceDate: Double(number % 7) / 8)
        value.optionalDate = Bool.random(using: &random) ? nil : value.date
        value.uuid = UUID(uuid: (UInt8(number % 9), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1))
        value.data = Data([UInt8](repeating: 1, count: number % 5))
        value.decimal = ["1.10", "1.1", "11e-1", "-3", "NaN", "12345678901234567890123456789012345678", "0"]
            .map { $0 == "NaN" ? Decimal.nan : Decimal(string: $0)! }.randomElement(using: &random)!
        value.color = Bool.random(using: &random) ? .red : .blue
        value.level = Bool.random(using: &random) ? .low : .high
        value.optionalColor = Bool.random(using: &random) ? nil : value.color
        value.url = Bool.random(using: &random) ? nil : URL(string: "https://example.org/\(number % 4)")
        value.shelf = Bool.random(using: &random) ? nil : shelves.randomElement(using: &random)
        value.wide = UInt64(number % 3)
        value.nested = Everything.Nested(a: Int8(number % 3))
        return value
    }

    @Test(arguments: 0..<6) func aListOfConstantsMeansTheSameAsInSwift(_ seed: Int) throws {
        var random = SeededRandom(UInt64(seed))
        let store = try Store(at: folder.path, entities: [Everything.self, Shelf.self, Book.self, Tag.self])
        var all: [Reference<Everything>: Everything] = [:]
        try store.writeOptimistically { transaction in
            let shelves = try (0..<4).map { try transaction.insert(Shelf(name: "\($0)")) }
            for number in 0..<200 {
                let value = Self.random(number, shelves, &random)
                all[try transaction.insert(value)] = value
            }
        }
        let snapshot = try store.snapshot()
        func check(
            _ name: String, _ predicate: Predicate<Object<Everything>>, isEvaluated: Bool = false,
            _ meaning: (Everything) -> Bool
        ) throws {
            let wanted = all.filter { meaning($0.value) }.keys.sorted()
            #expect(try snapshot.references(to: Everything.self, where: predicate).sorted() == wanted, "\(name)")
            let plan = try snapshot.explain(Everything.self, where: predicate)
            #expect(plan.isPartlyEvaluated == isEvaluated, "\(name): \(plan)")
        }
        let few = all.values.filter { _ in Int.random(in: 0..<40, using: &random) == 0 }
        let texts = few.map(\.text)
        try check("text", #Predicate { texts.contains($0.text) }) { texts.contains($0.text) }
        let optionalTexts = few.map(\.optionalText)
        try check("text?", #Predicate { optionalTexts.contains($0.optionalText) }) {
            optionalTexts.contains($0.optionalText)
        }
        try check("no text", #Predicate { !texts.contains($0.text) }) { !texts.contains($0.text) }
        let ratios = few.map(\.ratio)
        try check("ratio", #Predicate { ratios.contains($0.ratio) }) { ratios.contains($0.ratio) }
        let halves = few.map(\.half)
        try check("half", #Predicate { halves.contains($0.half) }) { halves.contains($0.half) }
        // A date that cannot be stored is no object's.
        let dates = few.map(\.date) + [Date(timeIntervalSinceReferenceDate: .infinity)]
        try check("date", #Predicate { dates.contains($0.date) }) { dates.contains($0.date) }
        let optionalDates = few.map(\.optionalDate)
        try check("date?", #Predicate { optionalDates.contains($0.optionalDate) }) {
            optionalDates.contains($0.optionalDate)
        }
        let uuids = Set(few.map(\.uuid))
        try check("uuid", #Predicate { uuids.contains($0.uuid) }) { uuids.contains($0.uuid) }
        let datas = few.map(\.data)
        try check("data", #Predicate { datas.contains($0.data) }) { datas.contains($0.data) }
        let decimals = few.map(\.decimal)
        try check("decimal", #Predicate { decimals.contains($0.decimal) }) { decimals.contains($0.decimal) }
        let decimal = all.values.randomElement(using: &random)!.decimal
        try check("one decimal", #Predicate { $0.decimal == decimal }) { $0.decimal == decimal }
        let colors = few.prefix(1).map(\.color)
        try check("color", #Predicate { colors.contains($0.color) }) { colors.contains($0.color) }
        let optionalColors = few.prefix(2).map(\.optionalColor)
        try check("color?", #Predicate { optionalColors.contains($0.optionalColor) }) {
            optionalColors.contains($0.optionalColor)
        }
        let urls = few.map(\.url)
        try check("url", #Predicate { urls.contains($0.url) }) { urls.contains($0.url) }
        let shelves = few.map(\.shelf)
        try check("shelf", #Predicate { shelves.contains($0.shelf) }) { shelves.contains($0.shelf) }
        // A number that cannot be stored is no object's.
        let wides: [UInt64] = [1, .max]
        try check("wide", #Predicate { wides.contains($0.wide) }) { wides.contains($0.wide) }
        let nothing: [String] = []
        try check("nothing", #Predicate { nothing.contains($0.text) }) { nothing.contains($0.text) }
        // The program decides whether coded values are equal.
        let nested = few.map(\.nested)
        try check("nested", #Predicate { nested.contains($0.nested) }, isEvaluated: true) { nested.contains($0.nested) }
        try store.close()
        try folder.expectIntact()
    }

    struct Titled: Entity {
        var title = ""
        var number = 0

        static let schema = Schema<Titled>(unique: [[\.title, \.number]])
    }

    /// Bounds that end within a long text are the same for all texts that begin so.
    @Test func longConstantsWithTheSameBeginningFindEachObjectOnce() throws {
        let store = try Store(at: folder.path, entities: [Titled.self])
        let titles = ["x", "y", "z"].map { String(repeating: "a", count: 300) + $0 }
        try store.writeOptimistically { transaction in
            for number in 0..<12 { try transaction.insert(Titled(title: titles[number % 3], number: number)) }
        }
        let wanted = Array(titles.prefix(2))
        let predicate = #Predicate<Object<Titled>> { wanted.contains($0.title) }
        let snapshot = try store.snapshot()
        #expect(try snapshot.explain(Titled.self, where: predicate).access == "index on title")
        #expect(try snapshot.count(Titled.self, where: predicate) == 8)
        #expect(try Set(snapshot.references(to: Titled.self, where: predicate)).count == 8)
        try store.write { transaction in
            try transaction.insert(Titled(title: titles[0], number: 12))
            #expect(try transaction.count(Titled.self, where: predicate) == 9)
        }
        let context = store.makeContext()
        context.insert(Titled(title: titles[1], number: 13))
        #expect(try context.count(Titled.self, where: predicate) == 10)
        context.close()
        try store.close()
        try folder.expectIntact()
    }
}
