// Predicates: what is translated finds the same objects as Swift's own decision, through whatever index.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct PredicateTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    /// A predicate, and what it means.
    struct Pair {
        let predicate: Predicate<Object<Book>>
        let meaning: (Book, Library) -> Bool

        init(_ predicate: Predicate<Object<Book>>, _ meaning: @escaping (Book, Library) -> Bool) {
            (self.predicate, self.meaning) = (predicate, meaning)
        }
    }

    /// What is in the store.
    struct Library {
        var shelves: [Reference<Shelf>: Shelf] = [:]
        var books: [Reference<Book>: Book] = [:]
        var tags: [Reference<Tag>: Tag] = [:]

        func shelf(_ book: Book) -> Shelf? { book.shelf.flatMap { shelves[$0] } }
        func tags(_ book: Book) -> [Tag] { book.tags.compactMap { tags[$0] } }
    }

    private static let words = ["", "a", "b", "ab", "Ab", "abc", "ä", "äb", "Ä", "a\r\nb", "z", "é", "日本", "ß", "SS"]

    private static func random(_ library: Library, _ random: inout SeededRandom) -> Book {
        var book = Book()
        book.title = words.randomElement(using: &random)!
        book.isbn = Bool.random(using: &random) ? nil : "\(Int.random(in: 0..<1_000_000, using: &random))"
        book.pages = Int.random(in: 0...20, using: &random)
        book.code = Bool.random(using: &random) ? nil : Int.random(in: -3...3, using: &random)
        book.price = [nil, 0, -0.0, 1.5, 3, .infinity, .nan].randomElement(using: &random)!
        book.isRead = Bool.random(using: &random)
        book.bought =
            Bool.random(using: &random)
            ? nil : Date(timeIntervalSinceReferenceDate: Double(Int.random(in: -4...4, using: &random)) / 4)
        book.shelf = library.shelves.keys.sorted().randomElement(using: &random)
        if Int.random(in: 0..<3, using: &random) == 0 { book.shelf = nil }
        book.tags = library.tags.keys.filter { _ in Int.random(in: 0..<3, using: &random) == 0 }.sorted()
        return book
    }

    private func makeStore(_ random: inout SeededRandom, indexed: Bool) throws -> (Store, Library) {
        let store = try Store(at: folder.path, entities: [Shelf.self, Book.self, Tag.self])
        if indexed {
            try store.changeSchema([
                .changeAttribute("title", of: "Book", isIndexed: true),
                .changeAttribute("code", of: "Book", isIndexed: true),
                .changeAttribute("price", of: "Book", isIndexed: true),
                .changeAttribute("bought", of: "Book", isIndexed: true),
                .addKey(IndexDescription(["isRead", "pages"]), to: "Book"),
                .changeAttribute("room", of: "Shelf", isIndexed: true),
            ])
        }
        var library = Library()
        try store.writeOptimistically { transaction in
            for number in 0..<5 {
                let shelf = Shelf(name: "s\(number)", room: number < 2 ? nil : Self.words[number])
                library.shelves[try transaction.insert(shelf)] = shelf
                let tag = Tag(name: Self.words[number + 1])
                library.tags[try transaction.insert(tag)] = tag
            }
            for _ in 0..<120 {
                var book = Self.random(library, &random)
                if book.title.isEmpty { book.title = "empty" }
                let reference = try transaction.insert(book)
                book.sortTitle = book.title.lowercased()
                library.books[reference] = book
            }
        }
        return (store, library)
    }

    // MARK: Every form

    private static func pair(_ library: Library, _ random: inout SeededRandom) -> Pair {
        let word = words.randomElement(using: &random)!
        let other = words.randomElement(using: &random)!
        let number = Int.random(in: -1...21, using: &random)
        let more = number + Int.random(in: 0...5, using: &random)
        let code: Int? = Bool.random(using: &random) ? nil : Int.random(in: -3...3, using: &random)
        let price = [0, -0.0, 1.5, 3, .infinity, .nan].randomElement(using: &random)!
        let date = Date(timeIntervalSinceReferenceDate: Double(Int.random(in: -4...4, using: &random)) / 4 + 1e-7)
        let some: Set<Int> = [number, more]
        let texts = [word, other]
        let shelf = library.shelves.keys.sorted().randomElement(using: &random)!
        let tag = library.tags.keys.sorted().randomElement(using: &random)!
        let name = "s\(Int.random(in: 0..<7, using: &random))"
        let room: String? = Bool.random(using: &random) ? nil : word
        switch Int.random(in: 0..<48, using: &random) {
        case 0: return Pair(#Predicate { $0.pages == number }) { book, _ in book.pages == number }
        case 1: return Pair(#Predicate { $0.pages != number }) { book, _ in book.pages != number }
        case 2: return Pair(#Predicate { $0.pages < number }) { book, _ in book.pages < number }
        case 3: return Pair(#Predicate { number <= $0.pages }) { book, _ in number <= book.pages }
        case 4: return Pair(#Predicate { some.contains($0.pages) }) { book, _ in some.contains(book.pages) }
        case 5:
            return Pair(#Predicate { (number...more).contains($0.pages) }) { b, _ in (number...more).contains(b.pages) }
        case 6:
            return Pair(#Predicate { (number..<more).contains($0.pages) }) { b, _ in (number..<more).contains(b.pages) }
        case 7: return Pair(#Predicate { $0.pages % 2 == 0 }) { book, _ in book.pages % 2 == 0 }
        case 8: return Pair(#Predicate { $0.code == code }) { book, _ in book.code == code }
        case 9: return Pair(#Predicate { $0.code == nil }) { book, _ in book.code == nil }
        case 10: return Pair(#Predicate { $0.code != nil }) { book, _ in book.code != nil }
        case 11: return Pair(#Predicate { ($0.code ?? 2) > number }) { book, _ in (book.code ?? 2) > number }
        case 12:
            return Pair(#Predicate { if let code = $0.code { code >= number } else { true } }) { book, _ in
                book.code.map { $0 >= number } ?? true
            }
        case 13:
            return Pair(#Predicate { if let code = $0.code { code >= number } else { false } }) { book, _ in
                book.code.map { $0 >= number } ?? false
            }
        case 14: return Pair(#Predicate { $0.title == word }) { book, _ in book.title == word }
        case 15: return Pair(#Predicate { $0.title != word }) { book, _ in book.title != word }
        case 16: return Pair(#Predicate { $0.title < word }) { book, _ in book.title < word }
        case 17: return Pair(#Predicate { $0.title >= word }) { book, _ in book.title >= word }
        case 18: return Pair(#Predicate { $0.title.contains(word) }) { book, _ in book.title.contains(word) }
        case 19: return Pair(#Predicate { $0.title.starts(with: word) }) { book, _ in book.title.starts(with: word) }
        case 20:
            return Pair(#Predicate { $0.title.caseFolded == word }) { book, _ in book.title.caseFolded == word }
        case 21:
            return Pair(#Predicate { $0.title.caseFolded.contains(word) }) { book, _ in
                book.title.caseFolded.contains(word)
            }
        case 22: return Pair(#Predicate { texts.contains($0.title) }) { book, _ in texts.contains(book.title) }
        case 23: return Pair(#Predicate { $0.title.isEmpty }) { book, _ in book.title.isEmpty }
        case 24: return Pair(#Predicate { $0.title.count > 1 }) { book, _ in book.title.count > 1 }
        case 25: return Pair(#Predicate { $0.isRead }) { book, _ in book.isRead }
        case 26: return Pair(#Predicate { !$0.isRead }) { book, _ in !book.isRead }
        case 27: return Pair(#Predicate { $0.price == price }) { book, _ in book.price == price }
        case 28: return Pair(#Predicate { ($0.price ?? 1) > price }) { book, _ in (book.price ?? 1) > price }
        case 29:
            return Pair(#Predicate { if let price = $0.price { price <= 1.5 } else { false } }) { book, _ in
                book.price.map { $0 <= 1.5 } ?? false
            }
        case 30: return Pair(#Predicate { $0.bought == date }) { book, _ in book.bought == date }
        case 31: return Pair(#Predicate { ($0.bought ?? date) > date }) { book, _ in (book.bought ?? date) > date }
        case 32:
            return Pair(#Predicate { if let bought = $0.bought { bought <= date } else { false } }) { book, _ in
                book.bought.map { $0 <= date } ?? false
            }
        case 33: return Pair(#Predicate { $0.shelf == shelf }) { book, _ in book.shelf == shelf }
        case 34: return Pair(#Predicate { $0.shelf == nil }) { book, _ in book.shelf == nil }
        case 35: return Pair(#Predicate { $0.shelf?.name == name }) { book, all in all.shelf(book)?.name == name }
        case 36: return Pair(#Predicate { $0.shelf?.name != name }) { book, all in all.shelf(book)?.name != name }
        case 37: return Pair(#Predicate { $0.shelf?.room == room }) { book, all in all.shelf(book)?.room == room }
        case 38: return Pair(#Predicate { $0.shelf?.objectReference == shelf }) { book, _ in book.shelf == shelf }
        case 39:
            return Pair(#Predicate { $0.shelf?.name.contains("3") == true }) { book, all in
                all.shelf(book)?.name.contains("3") == true
            }
        case 40:
            return Pair(#Predicate { $0.shelf?.name.contains("3") ?? true }) { book, all in
                all.shelf(book)?.name.contains("3") ?? true
            }
        case 41: return Pair(#Predicate { $0.tags.contains(tag) }) { book, _ in book.tags.contains(tag) }
        case 42: return Pair(#Predicate { $0.tags.isEmpty }) { book, _ in book.tags.isEmpty }
        case 43: return Pair(#Predicate { $0.tags.count > 1 }) { book, _ in book.tags.count > 1 }
        case 44:
            return Pair(#Predicate { $0.tags.contains { $0.name == word } }) { book, all in
                all.tags(book).contains { $0.name == word }
            }
        case 45:
            return Pair(#Predicate { $0.tags.allSatisfy { $0.name < word } }) { book, all in
                all.tags(book).allSatisfy { $0.name < word }
            }
        case 46:
            return Pair(#Predicate { ($0.shelf?.room ?? "a") > word }) { book, all in
                (all.shelf(book)?.room ?? "a") > word
            }
        default:
            return Pair(#Predicate { $0.pages > number ? $0.isRead : $0.title == word }) { book, _ in
                book.pages > number ? book.isRead : book.title == word
            }
        }
    }

    private static func tree(_ depth: Int, _ library: Library, _ random: inout SeededRandom) -> Pair {
        guard depth > 0, Int.random(in: 0..<4, using: &random) > 0 else { return pair(library, &random) }
        let (left, right) = (tree(depth - 1, library, &random), tree(depth - 1, library, &random))
        let (a, b) = (left.predicate, right.predicate)
        switch Int.random(in: 0..<5, using: &random) {
        case 0, 1, 2:
            return Pair(allOf([a, b])) {
                left.meaning($0, $1) && right.meaning($0, $1)
            }
        case 3:
            return Pair(anyOf([a, b])) {
                left.meaning($0, $1) || right.meaning($0, $1)
            }
        default: return Pair(noneOf([a])) { !left.meaning($0, $1) }
        }
    }

    @Test(arguments: 0..<12)
    func aTranslatedPredicateMeansTheSameAsInSwift(_ seed: Int) throws {
        var random = SeededRandom(UInt64(seed))
        let (store, library) = try makeStore(&random, indexed: seed % 2 == 1)
        let snapshot = try store.snapshot()
        for round in 0..<250 {
            let pair = Self.tree(round % 4, library, &random)
            let wanted = library.books.filter { pair.meaning($0.value, library) }.keys.sorted()
            let found = try snapshot.references(to: Book.self, where: pair.predicate)
            let how = try snapshot.explain(Book.self, where: pair.predicate)
            try #require(found.sorted() == wanted, "seed \(seed), round \(round): \(how)")
            #expect(try snapshot.count(Book.self, where: pair.predicate) == wanted.count)
            #expect(how.results == wanted.count && how.rowsTouched >= wanted.count)
            let (limit, offset) = (round % 7, round % 3)
            let sorted = try snapshot.references(
                to: Book.self, where: pair.predicate, sortedBy: .descending(\.pages), .ascending(\.title),
                limit: limit, offset: offset)
            let all = wanted.sorted { left, right in
                let (a, b) = (library.books[left]!, library.books[right]!)
                if a.pages != b.pages { return a.pages > b.pages }
                if a.title.utf8.elementsEqual(b.title.utf8) { return left < right }
                return a.title.utf8.lexicographicallyPrecedes(b.title.utf8)
            }
            #expect(sorted == Array(all.dropFirst(offset).prefix(limit)))
            let byIndex = try snapshot.references(to: Book.self, where: pair.predicate, sortedBy: .descending(\.pages))
            let descending = wanted.sorted { left, right in
                let (a, b) = (library.books[left]!.pages, library.books[right]!.pages)
                return a == b ? left > right : a > b
            }
            #expect(byIndex == descending, "seed \(seed), round \(round): \(how)")
        }
        try store.close()
        try folder.expectIntact()
    }

    // MARK: How

    @Test func explainNamesTheIndexThatIsUsed() throws {
        var random = SeededRandom(1)
        let (store, library) = try makeStore(&random, indexed: true)
        let snapshot = try store.snapshot()
        let shelf = library.shelves.first { $0.value.name == "s3" }!.key
        func explained(_ predicate: Predicate<Object<Book>>) throws -> FetchExplanation {
            try snapshot.explain(Book.self, where: predicate)
        }
        let scan = try explained(#Predicate { $0.sortTitle == "a" })
        #expect(scan.access == "scan of all objects" && scan.rowsTouched == 120 && !scan.isPartlyEvaluated)
        let range = try explained(#Predicate { $0.pages > 18 && $0.isbn != nil })
        #expect(range.access == "index on pages" && range.rowsTouched < 40)
        let compound = try explained(#Predicate { $0.isRead && $0.pages == 3 })
        #expect(compound.access == "index on isRead, pages" && compound.rowsTouched == compound.results)
        let unique = try explained(#Predicate { $0.isbn == "1" && $0.pages > 3 })
        #expect(unique.access == "index on isbn" && unique.rowsTouched <= 1)
        let reference = try explained(#Predicate { $0.shelf == shelf })
        #expect(reference.access == "index on shelf" && reference.rowsTouched == reference.results)
        let step = try explained(#Predicate { $0.shelf?.name == "s3" })
        #expect(step.access == "index on shelf, after index on name of “Shelf”")
        #expect(step.rowsTouched == step.results && step.results == reference.results)
        let evaluated = try explained(#Predicate { $0.pages > 18 && $0.pages % 2 == 0 })
        #expect(evaluated.isPartlyEvaluated && evaluated.access == "index on pages")
        let sorted = try snapshot.explain(Book.self, sortedBy: .descending(\.pages), limit: 3)
        #expect(sorted.access == "index on pages, in its order" && sorted.rowsTouched == 3 && !sorted.isSorted)
        let inMemory = try snapshot.explain(Book.self, sortedBy: .ascending(\.sortTitle))
        #expect(inMemory.isSorted && inMemory.rowsTouched == 120)
        // The other side, and a state of the past, which has no index.
        let full = try snapshot.fetch(Shelf.self, where: #Predicate { $0.books.contains { $0.pages > 19 } }).map(\.name)
        let wanted = library.shelves.filter { shelf in
            library.books.values.contains { $0.shelf == shelf.key && $0.pages > 19 }
        }
        #expect(full.sorted() == wanted.map(\.value.name).sorted())
        let empty = try snapshot.count(Shelf.self, where: #Predicate { $0.books.isEmpty })
        #expect(empty == library.shelves.keys.count { key in !library.books.values.contains { $0.shelf == key } })
        try store.close()
        try folder.expectIntact()
    }
}
