// A store with a history of every kind, the same for the same seed, and requests about it.

import Annals
import Foundation
import TestSupport
import Testing

struct RandomHistory {
    static let authors: [String?] = [nil, "app", "widget", "sync"]
    static let contexts: [String?] = [nil, "view", "import"]
    /// More attributes than one word of a change entry has bits.
    static let wideNames = (0..<70).map { "w\($0)" }
    static let wide = EntityDescription("Wide", attributes: wideNames.map { AttributeDescription($0, .int) })
    static let note = EntityDescription(
        "Note",
        attributes: [
            AttributeDescription("text", .string, isPreservedOnDeletion: true), AttributeDescription("size", .int),
            AttributeDescription("mark", .bool),
        ])

    let store: Store
    var random: SeededRandom
    private(set) var live: [ObjectID] = []
    private(set) var everything: [ObjectID] = []
    private var counter = 0

    init(_ store: Store, seed: UInt64) throws {
        self.store = store
        random = SeededRandom(seed)
        for turn in 0..<90 {
            if turn == 45 {
                try changeSchema()
            } else if random.happens(0.04) {
                try undoADeletion()
            } else {
                try commit()
            }
        }
    }

    /// “size” becomes “bytes”, and so stands in history under both names.
    private func changeSchema() throws {
        try store.changeSchema(
            [
                .renameAttribute("size", of: "Note", to: "bytes"), .removeAttribute("mark", from: "Note"),
                .addAttribute(AttributeDescription("late", .int, defaultValue: 7), to: "Note"),
            ], author: "sync")
    }

    private mutating func undoADeletion() throws {
        let deletions = try store.history(after: 0).filter { transaction in
            !transaction.changes.isEmpty && transaction.changes.allSatisfy { $0.kind == .delete }
        }
        guard let deletion = deletions.last else { return }
        let outcome = try store.revert(deletion.number, author: "sync", conflicts: .storeWins)
        guard outcome.token != nil, outcome.conflicts.isEmpty else { return }
        live += deletion.changes.map(\.object).filter { !live.contains($0) }
    }

    private mutating func commit() throws {
        var random = random
        var (live, everything, counter) = (live, everything, counter)
        let onlyDeletes = random.happens(0.2)
        let count = random.happens(0.03) ? 400 : Int.random(in: 1...6, using: &random)
        try store.writeOptimistically(author: random.one(of: Self.authors), contextName: random.one(of: Self.contexts))
        {
            transaction in
            let names = try transaction.entity("Note").attributes
            var touched: Set<ObjectID> = []
            for _ in 0..<count {
                counter += 1
                let index = live.isEmpty ? nil : Int.random(in: 0..<live.count, using: &random)
                if let index, onlyDeletes || random.happens(0.15), !touched.contains(live[index]) {
                    try transaction.delete(live.remove(at: index))
                } else if onlyDeletes {
                    continue
                } else if let index, random.happens(0.6), touched.insert(live[index]).inserted {
                    let name = try entity(of: live[index], transaction)
                    let attribute =
                        name == "Clip" ? "rank" : name == "Wide" ? random.one(of: Self.wideNames) : names[1]
                    let other: [String: Value] =
                        name == "Note" && random.happens(0.5) ? ["text": .string("t\(counter)")] : [:]
                    try transaction.update(
                        live[index], other.merging([attribute: .int(Int64(counter))]) { old, _ in old })
                } else {
                    let name = random.one(of: ["Clip", "Note", "Wide"])
                    let values: [String: Value] =
                        name == "Clip"
                        ? ["url": .string("u\(counter)")]
                        : name == "Note" ? ["text": .string("n\(counter)")] : ["w3": 1]
                    let object = try transaction.insert(name, values)
                    touched.insert(object)
                    live.append(object)
                    everything.append(object)
                }
            }
        }
        (self.random, self.live, self.everything, self.counter) = (random, live, everything, counter)
    }

    private func entity(of object: ObjectID, _ transaction: Transaction) throws -> String {
        try #require(try transaction.row(object)).entity
    }

    // MARK: Requests

    private mutating func place(_ all: [HistoryTransaction]) -> HistoryRequest.Place {
        let transaction = random.one(of: all)
        switch Int.random(in: 0..<4, using: &random) {
        case 0: return .number(transaction.number)
        case 1: return .token(transaction.token)
        case 2: return .date(transaction.timestamp)
        default:
            // Between two transactions, as a rule.
            return .date(transaction.timestamp.addingTimeInterval(2e-6))
        }
    }

    mutating func request(_ all: [HistoryTransaction]) -> HistoryRequest {
        var request = HistoryRequest()
        if random.happens(0.5) { request.after = place(all) }
        if random.happens(0.4) { request.before = place(all) }
        if random.happens(0.3) { request.authors = random.some(of: Self.authors + ["nobody"]) }
        if random.happens(0.3) { request.excludedAuthors = random.some(of: Self.authors + ["nobody"]) }
        if random.happens(0.3) { request.contextNames = random.some(of: Self.contexts + ["none"]) }
        if random.happens(0.3) { request.excludedContextNames = random.some(of: Self.contexts + ["none"]) }
        if random.happens(0.3) {
            request.anyOf = (0..<Int.random(in: 0...3, using: &random)).map { _ in
                HistoryRequest.Source(
                    authors: random.happens(0.7) ? random.some(of: Self.authors + ["nobody"]) : nil,
                    contextNames: random.happens(0.6) ? random.some(of: Self.contexts + ["none"]) : nil)
            }
        }
        if random.happens(0.3) { request.predicate = predicate() }
        if random.happens(0.3) { request.entities = random.some(of: ["Clip", "Note", "Wide"]) }
        if random.happens(0.2) { request.objects = Set((0..<20).map { _ in random.one(of: everything) }) }
        if random.happens(0.3) { request.kinds = random.some(of: HistoryChange.Kind.allCases) }
        if random.happens(0.3) {
            request.changedAttributes = random.one(of: [
                ["Clip": ["rank"]], ["Note": ["text"]], ["Note": ["bytes"]], ["Note": ["bytes", "mark"]],
                ["Wide": Set(Self.wideNames[60...])], ["Wide": ["w3"], "Note": ["text"]], ["Clip": []], [:],
            ])
        }
        if random.happens(0.4) { request.order = .newestFirst }
        if random.happens(0.3) { request.limit = Int.random(in: 0...12, using: &random) }
        return request
    }
}

extension RandomHistory {
    /// Predicates of which all, some or no parts compare names.
    private mutating func predicate() -> Predicate<TransactionFacts> {
        let (author, other) = (random.one(of: Self.authors), random.one(of: Self.authors))
        let (context, authors) = (random.one(of: Self.contexts), Array(random.some(of: Self.authors + ["nobody"])))
        let (set, limit) = (random.some(of: Self.contexts), UInt64.random(in: 1...6, using: &random))
        let name = author ?? "nobody"
        switch Int.random(in: 0..<12, using: &random) {
        case 0:
            return #Predicate<TransactionFacts> {
                $0.author == author && $0.contextName == context || authors.contains($0.author)
            }
        case 1: return #Predicate<TransactionFacts> { $0.author != author }
        case 2: return #Predicate<TransactionFacts> { !(author == $0.author || other != $0.author) }
        case 3: return #Predicate<TransactionFacts> { set.contains($0.contextName) && $0.author == nil }
        case 4: return #Predicate<TransactionFacts> { $0.changeCount >= limit || $0.author == author }
        case 5: return #Predicate<TransactionFacts> { $0.number % 2 == 0 && $0.contextName != nil }
        case 6: return #Predicate<TransactionFacts> { ($0.author ?? "nobody") == name }
        case 7: return #Predicate<TransactionFacts> { $0.author?.contains("e") == true }
        case 8: return #Predicate<TransactionFacts> { $0.author == "" || $0.changesSchema }
        case 9:
            return #Predicate<TransactionFacts> {
                $0.contextName == context ? $0.changeCount < limit : authors.contains($0.author)
            }
        case 10: return #Predicate<TransactionFacts> { facts in authors.contains { $0 == facts.author } }
        default: return #Predicate<TransactionFacts> { _ in true }
        }
    }
}

// MARK: The same by looking at everything

/// What requests must give, worked out from all transactions as values.
struct NaiveHistory {
    let all: [HistoryTransaction]

    private func moment(_ date: Date) -> Int64 { Int64((date.timeIntervalSince1970 * 1e6).rounded()) }

    private func isAfter(_ transaction: HistoryTransaction, _ place: HistoryRequest.Place?) -> Bool {
        switch place {
        case nil, .oldest: true
        case .now: false
        case .number(let number): transaction.number > number
        case .token(let token): transaction.token > token
        case .date(let date): transaction.microseconds > moment(date)
        }
    }

    private func isBefore(_ transaction: HistoryTransaction, _ place: HistoryRequest.Place?) -> Bool {
        switch place {
        case nil, .now: true
        case .oldest: false
        case .number(let number): transaction.number < number
        case .token(let token): transaction.token < token
        case .date(let date): transaction.microseconds < moment(date)
        }
    }

    private func matches(_ change: HistoryChange, _ request: HistoryRequest) -> Bool {
        if let entities = request.entities, !entities.contains(change.entity) { return false }
        if let objects = request.objects, !objects.contains(change.object) { return false }
        if let kinds = request.kinds, !kinds.contains(change.kind) { return false }
        guard let attributes = request.changedAttributes else { return true }
        // An attribute has its newest name in a request.
        let names = Set(change.attributes.map { $0 == "size" ? "bytes" : $0 })
        return change.kind == .update && !(attributes[change.entity] ?? []).isDisjoint(with: names)
    }

    private func isOfASource(_ transaction: HistoryTransaction, _ request: HistoryRequest) -> Bool {
        guard let sources = request.anyOf else { return true }
        return sources.contains { source in
            (source.authors.map { $0.contains(transaction.author) } ?? true)
                && (source.contextNames.map { $0.contains(transaction.contextName) } ?? true)
        }
    }

    private func isTrue(_ predicate: Predicate<TransactionFacts>?, _ transaction: HistoryTransaction) -> Bool {
        guard let predicate else { return true }
        let facts = TransactionFacts(
            number: transaction.number, microseconds: transaction.microseconds, author: transaction.author,
            contextName: transaction.contextName, processID: transaction.processID, process: transaction.process,
            changesSchema: transaction.changesSchema, changeCount: UInt64(transaction.changes.count))
        return (try? predicate.evaluate(facts)) ?? false
    }

    /// Whatever the order and the limit.
    func chosen(_ request: HistoryRequest) -> [ChosenTransaction] {
        let filtersChanges =
            request.entities != nil || request.objects != nil || request.kinds != nil
            || request.changedAttributes != nil
        return all.compactMap { transaction in
            guard isAfter(transaction, request.after), isBefore(transaction, request.before),
                request.authors?.contains(transaction.author) ?? true,
                !request.excludedAuthors.contains(transaction.author),
                request.contextNames?.contains(transaction.contextName) ?? true, isOfASource(transaction, request),
                isTrue(request.predicate, transaction), !request.excludedContextNames.contains(transaction.contextName)
            else { return nil }
            let changes = transaction.changes.filter { matches($0, request) }
            return filtersChanges && changes.isEmpty ? nil : ChosenTransaction(transaction, changes)
        }
    }

    func transactions(_ request: HistoryRequest) -> [ChosenTransaction] {
        let chosen = chosen(request)
        let ordered = request.order == .newestFirst ? chosen.reversed() : chosen
        return Array(ordered.prefix(request.limit ?? .max))
    }

    func changes(_ request: HistoryRequest) -> [HistoryChange] {
        var unlimited = request
        unlimited.limit = nil
        return Array(transactions(unlimited).flatMap(\.changes).prefix(request.limit ?? .max))
    }

    func objects(_ request: HistoryRequest) -> [ObjectID] {
        let objects = Set(chosen(request).flatMap(\.changes).map(\.object)).sorted()
        return Array((request.order == .newestFirst ? objects.reversed() : objects).prefix(request.limit ?? .max))
    }
}

/// A transaction with the changes that were chosen.
struct ChosenTransaction: Equatable {
    var number: UInt64
    var changes: [HistoryChange]

    init(_ transaction: HistoryTransaction, _ changes: [HistoryChange]? = nil) {
        number = transaction.number
        self.changes = changes ?? transaction.changes
    }
}
