// Processes that write, index and search texts of one store, and are killed. Each search finds what reading all objects
// of the same state finds.

import Annals
import FoundationEssentials
import Glibc
import TestSupport

enum Searchers {
    /// A second searched entity: the indexes of both have one consumer.
    struct Page: SearchSample {
        var body: String?
        var note: Reference<SearchNote>?

        static let schema = Schema<Page> { Attribute(\.body, .searchable(weight: 0.5)) }
        static var searched: [(name: String, weight: Double)] { [("body", 0.5)] }
        var searchedTexts: [String?] { [body] }
    }

    static func open(_ path: String, _ reading: Store.Reading = .mapped, types: Bool = true) throws -> Store {
        var options = Store.Options()
        options.durability = .relaxed
        options.lockTimeout = .seconds(600)
        options.reading = reading
        return types
            ? try Store(at: path, entities: [SearchNote.self, Page.self], options: options)
            : try Store(at: path, options: options)
    }

    /// `searchers work STORE LOG NUMBER SEED OPERATIONS`: notes each search in its log.
    static func work(_ path: String, log: String, number: Int, seed: UInt64, operations: Int) throws {
        var process = try SearcherProcess(path, log: log, number: number, seed: seed)
        try process.run(operations)
    }

    /// `searchers check STORE LOG...`: the index becomes complete, and has no fault.
    static func check(_ path: String, logs: [String]) throws {
        let store = try open(path, types: false)
        try require(store, "the store in the end")
        try store.close()
        let typed = try open(path)
        try typed.updateSearchIndexes()
        try require(typed, "the indexed store")
        let indexes = try typed.searchIndexes
        guard indexes.count == 2, indexes.allSatisfy({ $0.unindexedObjects == 0 }) else {
            throw Wrong("in the end the indexes are \(indexes)")
        }
        var random = SeededRandom(1)
        let snapshot = try typed.snapshot()
        for _ in 0..<100 {
            try compare(snapshot, SearchNote.self, &random, "the end")
            try compare(snapshot, Page.self, &random, "the end")
        }
        try typed.close()
        let words = logs.map { Lines.words(in: $0) }
        let starts = words.joined().count { $0[0] == "s" }
        let operations = words.joined().reduce(0) { $0 + ($1[0] == "o" ? Int($1[1]) ?? 0 : 0) }
        let objects = indexes.reduce(0) { $0 + $1.indexedObjects }
        Lines.write("\(starts) processes, \(operations) operations, \(objects) objects\n", to: 1)
    }

    static func require(_ store: Store, _ place: String) throws {
        if let fault = try store.searchIndexFaults().first { throw Wrong("\(place): \(fault)") }
    }

    static func compare<E: SearchSample>(
        _ snapshot: Snapshot, _ type: E.Type, _ random: inout SeededRandom, _ place: String
    ) throws {
        let oracle = try SearchOracle<E>(snapshot)
        for _ in 0..<2 {
            let query = SearchWords.query(&random)
            if let difference = try oracle.difference(from: snapshot, query) { throw Wrong("\(place): \(difference)") }
        }
    }
}

/// One process.
private struct SearcherProcess {
    private let path: String
    private let log: Lines
    private let stop: String
    private let name: String
    private var random: SeededRandom
    private var store: Store
    private var untyped: Store
    /// A state that other processes leave behind.
    private var kept: Snapshot?
    private var unnoted = 0

    init(_ path: String, log: String, number: Int, seed: UInt64) throws {
        self.path = path
        stop = log + ".stop"
        let starts = Lines.words(in: log).count { $0[0] == "s" }
        name = "\(number).\(starts)"
        random = SeededRandom(seed &* 7919 &+ UInt64(number) &* 131 &+ UInt64(starts))
        self.log = try Lines(appendingTo: log)
        self.log.add("s \(starts)")
        (store, untyped) = (try Searchers.open(path), try Searchers.open(path, .copied, types: false))
    }

    mutating func run(_ operations: Int) throws {
        for operation in 0..<operations {
            var action = ""
            do {
                action = try act()
                unnoted += 1
                if operation % 2 == 0 { try compare() }
            } catch { throw Wrong("process \(name), operation \(operation), \(action): \(error)") }
            if unnoted == 10 { note() }
        }
        note()
        Lines.write("done\n", to: 1)
        while access(stop, F_OK) != 0 { usleep(2000) }
        try compare()
        try Searchers.require(store, "process \(name) in the end")
        kept = nil
        try store.close()
        try untyped.close()
    }

    private mutating func note() {
        log.add("o \(unnoted)")
        unnoted = 0
    }

    // MARK: Operations

    private mutating func act() throws -> String {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<26: try insert()
        case 26..<38: try update()
        case 38..<46: try deleteSome()
        case 46..<50: try changeMany()
        case 50..<54: try editInContext()
        case 54..<58: try insertUntyped()
        case 58..<60:
            try insertMany()
            return "many insertions"
        case 60..<76:
            var steps = Int.random(in: 1...6, using: &random)
            try (random.happens(0.5) ? store : untyped).updateSearchIndexes { _ in
                steps -= 1
                return steps > 0
            }
            return "indexing"
        case 76..<78: try rebuild()
        case 78..<83: try compact()
        case 83..<85: try store.deleteHistory(before: Date.distantFuture)
        case 85..<88:
            kept = nil
            try store.close()
            store = try Searchers.open(path, random.happens(0.5) ? .mapped : .copied)
        case 88..<89: try removeIndex()
        case 89..<93: try Searchers.require(store, "indexed by all processes")
        case 93..<96: kept = try store.snapshot()
        default: usleep(UInt32.random(in: 0..<3000, using: &random))
        }
        return "an operation"
    }

    private mutating func newNote(_ most: Int = 12) -> SearchNote {
        SearchNote(
            title: SearchWords.text(&random, most: 3),
            text: random.happens(0.8) ? SearchWords.text(&random, most: most) : nil,
            rank: Int.random(in: 0..<40, using: &random))
    }

    private mutating func newPage() -> Searchers.Page { Searchers.Page(body: SearchWords.text(&random)) }

    private mutating func insert() throws {
        let notes = (0..<random.one(of: [0, 1, 1, 5, 20])).map { _ in newNote() }
        let pages = (0..<random.one(of: [0, 1, 1, 5])).map { _ in newPage() }
        try store.write(author: name) { transaction in
            for note in notes { _ = try transaction.insert(note) }
            for page in pages { _ = try transaction.insert(page) }
        }
    }

    /// So many that the indexer of this process begins to work, and then removed again.
    private mutating func insertMany() throws {
        let notes = (0..<1100).map { _ in newNote(2) }
        try store.insert(contentsOf: notes, author: name)
        try Searchers.compare(store.snapshot(), SearchNote.self, &random, "many notes")
        let kept = Int.random(in: 0..<40, using: &random)
        try store.delete(SearchNote.self, where: #Predicate { $0.rank != kept }, author: name)
    }

    private mutating func some<E: SearchSample>(_ type: E.Type, _ store: Store) throws -> [Reference<E>] {
        let all = try store.snapshot().references(to: E.self)
        return all.isEmpty ? [] : (0..<random.one(of: [1, 2, 10])).map { _ in random.one(of: all) }
    }

    private mutating func update() throws {
        let notes = try some(SearchNote.self, store).map { ($0, newNote()) }
        let pages = try some(Searchers.Page.self, store).map { ($0, newPage()) }
        try store.write(author: name) { transaction in
            // Another process may have deleted some of them.
            for (reference, note) in notes where try transaction[reference] != nil {
                try transaction.update(reference, to: note)
            }
            for (reference, page) in pages where try transaction[reference] != nil {
                try transaction.update(reference, to: page)
            }
        }
    }

    private mutating func deleteSome() throws {
        let notes = Set(try some(SearchNote.self, store))
        let pages = Set(try some(Searchers.Page.self, store))
        try store.write(author: name) { transaction in
            for reference in notes where try transaction[reference] != nil { try transaction.delete(reference) }
            for reference in pages where try transaction[reference] != nil { try transaction.delete(reference) }
        }
        // The store stays small, so that reading all of it is fast.
        let rank = Int.random(in: 0..<40, using: &random)
        if try store.snapshot().count(SearchNote.self) > 150 {
            try store.delete(SearchNote.self, where: #Predicate { $0.rank > rank }, author: name)
        }
        if try store.snapshot().count(Searchers.Page.self) > 100 { try store.delete(Searchers.Page.self, author: name) }
    }

    private mutating func changeMany() throws {
        let (rank, text) = (Int.random(in: 0..<6, using: &random), SearchWords.text(&random))
        try store.update(SearchNote.self, where: #Predicate { $0.rank == rank }, author: name) { $0.text = text }
    }

    private mutating func editInContext() throws {
        let context = store.makeContext(author: name)
        defer { context.close() }
        context.mergePolicy = .objectWins
        for reference in try some(SearchNote.self, store) {
            let text = SearchWords.text(&random)
            if let object = try? context.object(reference) { object.text = text }
        }
        context.insert(newNote())
        do { try context.save() } catch let error as StoreError {
            // Another process has deleted what was edited.
            guard error.code == .objectNotFound || error.code == .conflict else { throw error }
            context.rollback()
        }
    }

    private mutating func insertUntyped() throws {
        let text = SearchWords.text(&random)
        try untyped.write(author: name) { transaction in
            _ = try transaction.insert("Page", ["body": .string(text)])
        }
    }

    private mutating func rebuild() throws {
        do {
            try store.rebuildSearchIndex(of: random.happens(0.5) ? "SearchNote" : "Page") { _ in false }
        } catch let error as StoreError {
            // Another process has removed it.
            guard error.code == .notFound else { throw error }
        }
    }

    /// Opening the store declares it again.
    private mutating func removeIndex() throws {
        do { try untyped.removeSearchIndex(of: "Page") } catch let error as StoreError {
            guard error.code == .notFound else { throw error }
        }
        kept = nil
        try store.close()
        store = try Searchers.open(path)
    }

    private func compact() throws {
        do { _ = try store.compact() } catch let error as StoreError {
            guard error.code == .busy else { throw error }
        }
    }

    // MARK: Comparisons

    private mutating func compare() throws {
        var snapshot = try store.snapshot()
        if let kept, random.happens(0.3) { snapshot = kept }
        try Searchers.compare(snapshot, SearchNote.self, &random, "a search")
        try Searchers.compare(snapshot, Searchers.Page.self, &random, "a search")
    }
}
