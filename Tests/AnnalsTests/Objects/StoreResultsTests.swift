// Live results of stores: which changes come as updates, and that their differences lead from one list to the next.

import Annals
import FoundationEssentials
import TestSupport
import Testing

/// What is not kept in the history.
struct Visit: Entity, Equatable {
    var page = ""

    static let schema = Schema<Visit>(history: .off) {}
}

/// Refers to what may be deleted.
struct Pin: Entity, Equatable {
    var place = 0
    var note: Reference<Note>?

    static let schema = Schema<Pin> {
        Relationship(\.note, whenTargetIsDeleted: .noAction)
    }
}

@Suite(.timeLimit(.minutes(20))) struct StoreResultsTests: TwoHandleSuite {
    static let entities: [any Entity.Type] = [Group.self, Note.self, Label.self, Visit.self, Pin.self]
    let folder: StoreFolder
    let store: Store
    let other: Store

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: Self.entities)
        other = try Store(at: folder.path, entities: Self.entities)
    }

    private let high: Predicate<Object<Note>> = #Predicate { $0.rank >= 10 }

    // MARK: Updates

    @Test func eachUpdateHasTheDifferenceToTheLast() async throws {
        let notes = try store.insert(contentsOf: [5, 10, 20, 30].map { Note(title: "n\($0)", rank: $0) }).references
        var updates = store.results(Note.self, where: high, sortedBy: .ascending(\.rank)).makeAsyncIterator()
        let first = try #require(try await updates.next())
        #expect(first.values.map(\.rank) == [10, 20, 30] && first.references == Array(notes.dropFirst()))
        #expect(first.diff == ResultsDiff(inserted: [0, 1, 2]))
        // Moved and updated, gone, new: in one update, because the reader was slow.
        try await other.writeOptimistically { try $0.update(notes[1]) { $0.rank = 40 } }
        try await other.writeOptimistically { try $0.delete(notes[2]) }
        try await store.writeOptimistically { try $0.update(notes[0]) { $0.rank = 15 } }
        try await other.writeOptimistically { try $0.update(notes[3]) { $0.text = "text" } }
        let second = try #require(try await updates.next())
        #expect(second.values.map(\.rank) == [15, 30, 40] && second.values[1].text == "text")
        #expect(
            second.diff
                == ResultsDiff(
                    removed: [1], inserted: [0], moved: [ResultsDiff.Move(from: 0, to: 2)], updated: [1, 2]))
        #expect(try second.snapshot.token == store.currentToken)
        // Nothing of this matters.
        try await other.writeOptimistically { try $0.insert(Group(name: "g")) }
        try await other.writeOptimistically { try $0.insert(Note(title: "low", rank: 1)) }
        try await other.writeOptimistically { try $0.update(notes[0]) { $0.rank = 15 } }
        try await other.writeOptimistically { try $0.delete(notes[1]) }
        let third = try #require(try await updates.next())
        #expect(third.diff == ResultsDiff(removed: [2]) && third.values == Array(second.values.prefix(2)))
        try end()
    }

    @Test func relatedObjectsCountIfThePredicateUsesThem() async throws {
        let group = try store.insert(contentsOf: [Group(name: "g")]).references[0]
        _ = try store.insert(contentsOf: (0..<3).map { Note(title: "n", rank: $0, group: group) })
        var named = store.results(Note.self, where: #Predicate { $0.group?.name == "g" }).makeAsyncIterator()
        var evaluated = store.results(Note.self, where: #Predicate { $0.group?.name.count ?? 0 > 3 })
            .makeAsyncIterator()
        #expect(try await named.next()?.values.count == 3)
        #expect(try await evaluated.next()?.values.count == 0)
        try await other.writeOptimistically { try $0.update(group) { $0.name = "group" } }
        #expect(try await named.next()?.diff == ResultsDiff(removed: [0, 1, 2]))
        #expect(try await evaluated.next()?.diff == ResultsDiff(inserted: [0, 1, 2]))
        try end()
    }

    @Test func aReferenceToADeletedObjectIsNil() async throws {
        let note = try store.insert(contentsOf: [Note(title: "n")]).references[0]
        _ = try store.insert(contentsOf: [Pin(place: 1, note: note), Pin(place: 2)])
        var pins = store.results(Pin.self, sortedBy: .ascending(\.place)).makeAsyncIterator()
        #expect(try await pins.next()?.values == [Pin(place: 1, note: note), Pin(place: 2)])
        try await other.writeOptimistically { try $0.delete(note) }
        let update = try #require(try await pins.next())
        #expect(update.values == [Pin(place: 1), Pin(place: 2)] && update.diff == ResultsDiff(updated: [0]))
        try end()
    }

    // MARK: Without history

    @Test func withoutHistoryResultsAreFetchedAgain() async throws {
        let visits = try store.insert(contentsOf: ["a", "b", "c"].map { Visit(page: $0) }).references
        var updates = store.results(Visit.self, sortedBy: .descending(\.page)).makeAsyncIterator()
        #expect(try await updates.next()?.values.map(\.page) == ["c", "b", "a"])
        try await other.writeOptimistically { try $0.update(visits[0]) { $0.page = "d" } }
        let update = try #require(try await updates.next())
        #expect(update.values.map(\.page) == ["d", "c", "b"])
        #expect(update.diff == ResultsDiff(moved: [ResultsDiff.Move(from: 2, to: 0)], updated: [0]))
        try end()
    }

    @Test(arguments: [false, true]) func changesInCleanedHistoryAreFoundByComparing(isCompacted: Bool) async throws {
        let notes = try store.insert(contentsOf: (0..<4).map { Note(title: "n\($0)", rank: $0) }).references
        var updates = store.results(Note.self, sortedBy: .ascending(\.rank)).makeAsyncIterator()
        #expect(try await updates.next()?.values.count == 4)
        for rank in 10..<14 {
            try await other.writeOptimistically { try $0.update(notes[rank - 10]) { $0.rank = 20 - rank } }
        }
        _ = try other.deleteHistory(before: try other.currentToken.number)
        if isCompacted { try other.compact() }
        let update = try #require(try await updates.next())
        #expect(update.values.map(\.rank) == [7, 8, 9, 10] && update.references == notes.reversed())
        #expect(update.diff.updated == [0, 1, 2, 3])
        try await other.writeOptimistically { try $0.delete(notes[0]) }
        #expect(try await updates.next()?.diff == ResultsDiff(removed: [3]))
        try end()
    }

    @Test func anotherSchemaIsFollowed() async throws {
        _ = try store.insert(contentsOf: [Note(title: "n", rank: 10)])
        var updates = store.results(Note.self, where: high).makeAsyncIterator()
        #expect(try await updates.next()?.values.count == 1)
        try other.changeSchema([.addAttribute(AttributeDescription("more", .int, isOptional: true), to: "Note")])
        try await other.writeOptimistically { try $0.insert(Note(title: "m", rank: 20)) }
        #expect(try await updates.next()?.diff == ResultsDiff(inserted: [1]))
        try end()
    }

    // MARK: The end

    @Test func updatesEndWithTheirTask() async throws {
        let store = store
        let task = Task {
            var count = 0
            for try await update in store.results(Note.self) { count += 1 + update.values.count }
            return count
        }
        try await Task.sleep(for: .milliseconds(20))
        task.cancel()
        #expect(try await task.value <= 1)
        try end()
    }

    @Test func updatesThrowReadErrors() async throws {
        var updates = store.results(Note.self).makeAsyncIterator()
        _ = try await updates.next()
        try store.close()
        do {
            _ = try await updates.next()
            Issue.record("no error")
        } catch let error as StoreError {
            #expect(error.code == .closed)
        }
        #expect(try await updates.next() == nil)
        struct Unknown: Entity { var name = "" }
        var others = other.results(Unknown.self).makeAsyncIterator()
        do {
            _ = try await others.next()
            Issue.record("no error")
        } catch let error as StoreError {
            #expect(error.code == .unknownEntity)
        }
        try end()
    }

    // MARK: Random work

    /// Longer with `Tests/run long results`: an operation is a round.
    @Test func updatesAgreeWithAFetch() async throws {
        guard let long = LongRun("results", operations: 250) else { return }
        try store.close()
        try other.close()
        for first in stride(from: 0, to: long.operations, by: 500) {
            let run = try StoreResultsRun(seed: long.seed &* 10_000 &+ UInt64(first))
            do {
                try await run.run(rounds: min(500, long.operations - first))
            } catch {
                return long.record(error, "rounds from \(first)")
            }
        }
        print("results, seed \(long.seed): \(long.operations) rounds of stores")
    }
}

/// One sequence, and what a fetch finds instead.
private final class Sequence<E: Entity & Equatable> {
    let title: String
    private var updates: StoreResults<E>.AsyncIterator
    private var values: [E] = []
    private var references: [Reference<E>] = []
    private let fetch: (Snapshot) throws -> [(Reference<E>, E)]

    init(_ title: String, _ results: StoreResults<E>, _ fetch: @escaping (Snapshot) throws -> [(Reference<E>, E)]) {
        (self.title, self.fetch) = (title, fetch)
        updates = results.makeAsyncIterator()
    }

    func check(_ snapshot: Snapshot, isFirst: Bool = false) async throws {
        let found = try fetch(snapshot)
        let isSame = found.map(\.0) == references && found.map(\.1) == values
        if isSame, !isFirst { return }
        guard let update = try await updates.next() else { throw OracleDifference("\(title): the end") }
        let diff = update.diff
        let isRight =
            update.references == found.map(\.0) && update.values == found.map(\.1)
            && diff.applied(to: values) { update.values[$0] } == update.values
            && diff.applied(to: references) { update.references[$0] } == update.references
            && (!diff.isEmpty || isFirst) && update.snapshot.token == snapshot.token
        let updated = Set(diff.updated)
        let isExact = diff.updated.allSatisfy { position in
            references.firstIndex(of: update.references[position]).map { values[$0] != update.values[position] }
                ?? false
        }
        if !isRight || !isExact { throw OracleDifference("\(title): \(diff), \(updated.count) updated") }
        (values, references) = (update.values, update.references)
    }
}

private final class StoreResultsRun {
    private let folder: StoreFolder
    private let reader: Store
    private var stores: [Store] = []
    private var contexts: [Context] = []
    private var notes: [Sequence<Note>] = []
    private var groups: [Sequence<Group>] = []
    private var pins: [Sequence<Pin>] = []
    private var random: SeededRandom
    /// Either objects are inserted again after others have deleted them, or history is cleaned: what is no longer in
    /// the file cannot be inserted again.
    private let isCleaned: Bool

    init(seed: UInt64) throws {
        folder = try StoreFolder()
        random = SeededRandom(seed)
        isCleaned = Bool.random(using: &random)
        reader = try Store(at: folder.path, entities: StoreResultsTests.entities)
        for number in 0..<2 {
            stores.append(try Store(at: folder.path, entities: StoreResultsTests.entities))
            contexts.append(stores[number].makeContext(author: "\(number)"))
            contexts[number].mergePolicy = isCleaned ? .storeWins : .objectWins
        }
        note("all", nil)
        note("rank", #Predicate { $0.rank >= 10 }, .ascending(\.rank))
        note("descending", nil, .descending(\.rank))
        note("group", nil, .ascending(\.group))
        note("no group", #Predicate { $0.group == nil }, .ascending(\.title))
        note("related", #Predicate { $0.group?.name == "g1" }, .ascending(\.rank))
        note("labels", #Predicate { $0.labels.contains { $0.name == "l1" } }, .ascending(\.rank))
        note("evaluated", #Predicate { $0.title.count > 2 }, .descending(\.rank))
        note("evaluated, related", #Predicate { $0.group?.name.count == 2 && $0.rank > 3 }, .descending(\.rank))
        let full: Predicate<Object<Group>> = #Predicate { $0.notes.contains { $0.rank > 12 } }
        groups.append(
            Sequence("full", reader.results(Group.self, where: full, sortedBy: .ascending(\.name))) {
                try Self.pairs($0, full, .ascending(\.name))
            })
        pins.append(
            Sequence("pins", reader.results(Pin.self, sortedBy: .descending(\.note))) {
                try Self.pairs($0, nil, .descending(\.note))
            })
    }

    private static func pairs<E: Entity>(
        _ snapshot: Snapshot, _ predicate: Predicate<Object<E>>?, _ sort: SortKey<E>?
    ) throws -> [(Reference<E>, E)] {
        let references =
            try sort.map { try snapshot.references(to: E.self, where: predicate, sortedBy: $0) }
            ?? snapshot.references(to: E.self, where: predicate).sorted()
        return try references.map { ($0, try snapshot[$0] ?? E()) }
    }

    private func note(_ title: String, _ predicate: Predicate<Object<Note>>?, _ sort: SortKey<Note>? = nil) {
        let results =
            sort.map { reader.results(Note.self, where: predicate, sortedBy: $0) }
            ?? reader.results(Note.self, where: predicate)
        notes.append(Sequence(title, results) { try Self.pairs($0, predicate, sort) })
    }

    private func check(isFirst: Bool = false) async throws {
        let snapshot = try reader.snapshot()
        for sequence in notes { try await sequence.check(snapshot, isFirst: isFirst) }
        for sequence in groups { try await sequence.check(snapshot, isFirst: isFirst) }
        for sequence in pins { try await sequence.check(snapshot, isFirst: isFirst) }
    }

    func run(rounds: Int) async throws {
        try await check(isFirst: true)
        for round in 0..<rounds {
            let number = Int.random(in: 0..<2, using: &random)
            // Several transactions may come as one update.
            for _ in 0..<Int.random(in: 1...3, using: &random) { try act(in: contexts[number], stores[number], round) }
            do {
                try await check()
            } catch let difference as OracleDifference {
                throw OracleDifference("round \(round): \(difference)")
            }
        }
        for context in contexts { context.close() }
        for store in stores + [reader] { try store.close() }
        try folder.expectIntact()
    }

    private func pick<Element>(_ elements: [Element]) -> Element? { elements.randomElement(using: &random) }

    private func act(in context: Context, _ store: Store, _ round: Int) throws {
        try context.merge()
        let (groups, notes) = (try context.fetch(Group.self), try context.fetch(Note.self))
        let labels = try context.fetch(Label.self)
        let rank = Int.random(in: 0..<20, using: &random)
        switch Int.random(in: 0..<40, using: &random) {
        case 0..<4: context.insert(Group(name: "g\(groups.count % 12)"))
        case 4..<12:
            context.insert(Note(title: "n\(round % 20)", rank: rank, group: pick(groups)?.objectReference))
        case 12..<14: context.insert(Label(name: "l\(round % 4)"))
        case 14..<16: context.insert(Pin(place: round, note: pick(notes)?.objectReference))
        case 16..<20: pick(notes)?.rank = rank
        case 20..<22: pick(notes)?.text = "x\(round)"
        case 22..<25: pick(notes)?.group = pick(groups)
        case 25..<27: pick(groups)?.name = "g\(Int.random(in: 0..<12, using: &random))"
        case 27..<29: if let label = pick(labels) { pick(notes)?.labels = [label] }
        case 29..<30: pick(labels)?.name = "l\(round % 4)"
        case 30..<32: if let group = pick(groups) { context.delete(group) }
        case 32..<36: if let note = pick(notes) { context.delete(note) }
        case 36: try store.update(Note.self, where: #Predicate { $0.rank == rank }) { $0.rank += 1 }
        case 37: try store.delete(Note.self, where: #Predicate { $0.rank == rank })
        case 38: if isCleaned { _ = try store.deleteHistory(before: try store.currentToken.number) }
        default: if isCleaned, round.isMultiple(of: 5) { try store.compact() }
        }
        do {
            try context.save()
        } catch let error as StoreError {
            guard [.uniqueViolation, .mergeConflict, .referenceMissing].contains(error.code) else { throw error }
            context.rollback()
        }
    }
}
