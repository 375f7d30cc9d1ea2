// Shorter ways to say the same: the first object, ranges of every kind, options and requests with parameters.

import Annals
import FoundationEssentials
import TestSupport
import Testing

private struct Member: Entity, Equatable {
    var name = ""
    var rank = 0
    var score: Double?
    var club: Reference<Club>?
    var friends: Set<Reference<Member>> = []

    static let schema = Schema<Member> {
        Attribute(\.name, .length(1...))
        Attribute(\.rank, .range(0..<10))
        Attribute(\.score, .range(...5.5))
        Relationship(\.club, inverse: \.members)
        Relationship(\.friends, .count(..<3))
    }
}

private struct Club: Entity, Equatable {
    var name = ""
    var members = ToMany<Member>()

    static let schema = Schema<Club> {
        Attribute(\.name, .length(1..<4))
        Attribute(\.members, .count(..<3))
    }
}

@Suite struct SmallFormTests: StoreSuite {
    let folder: StoreFolder
    let store: Store

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Member.self, Club.self])
    }

    /// As arguments, as an array, and as an array that a program holds: wherever something is sorted.
    @MainActor @Test func sortKeysCanBeArrays() async throws {
        let ranks = [1, 0, 1, 2, 0]
        try store.insert(contentsOf: ranks.enumerated().map { Member(name: "\($0)", rank: $1) })
        let keys: [SortKey<Member>] = [.descending(\.rank), .descending(\.name)]
        let forms: [(order: SortKey<Member>, names: [String])] = [
            (SortKey(keys), ["3", "2", "0", "4", "1"]),
            ([.descending(\.rank), .descending(\.name)], ["3", "2", "0", "4", "1"]),
            (SortKey(keys.reversed()), ["4", "3", "2", "1", "0"]), (SortKey([]), ["0", "1", "2", "3", "4"]),
            ([SortKey(keys)], ["3", "2", "0", "4", "1"]),
            ([.ascending(\.rank), .ascending(\.name)], ["1", "4", "0", "2", "3"]),
        ]
        let (snapshot, context) = (try store.snapshot(), store.mainContext)
        let unsaved = context.insert(Member(name: "5", rank: 9))
        for (order, names) in forms {
            #expect(try snapshot.fetch(Member.self, sortedBy: order).map(\.name) == names)
            #expect(try snapshot.first(Member.self, sortedBy: order)?.name == names[0])
            let references = try snapshot.references(to: Member.self, sortedBy: order)
            #expect(try references.map { try snapshot[$0]?.name } == names)
            #expect(try snapshot.values(of: \Member.name, sortedBy: order) == names)
            let written = try await store.write { try $0.fetch(Member.self, sortedBy: order).map(\.name) }
            #expect(written.result == names)
            let shown = try context.fetch(Member.self, sortedBy: order).map(\.name)
            #expect(shown.filter { $0 != "5" } == names && shown.count == 6)
            #expect(try context.results(Member.self, sortedBy: order).map(\.name) == shown)
            let sections = try context.results(Member.self, sortedBy: order, sectionedBy: \.rank)
            #expect(sections.sections.flatMap { $0.map(\.name) }.count == 6)
            var updates = store.results(Member.self, sortedBy: order).makeAsyncIterator()
            #expect(try await updates.next()?.values.map(\.name) == names)
        }
        context.delete(unsaved)
        try end()
    }

    @Test func aTransactionFindsTheFirstObject() throws {
        try store.write { transaction in
            #expect(try transaction.first(Member.self) == nil)
            for rank in [3, 1, 2] { try transaction.insert(Member(name: "m\(rank)", rank: rank)) }
            #expect(try transaction.first(Member.self, sortedBy: .ascending(\.rank))?.name == "m1")
            #expect(try transaction.first(Member.self, sortedBy: .descending(\.rank))?.name == "m3")
            #expect(try transaction.first(Member.self, where: #Predicate { $0.rank == 2 })?.name == "m2")
            #expect(try transaction.first(Member.self, where: #Predicate { $0.rank == 5 }) == nil)
        }
        try end()
    }

    // MARK: Ranges

    @Test func rangesOfEveryKindCanBeOptions() throws {
        func failures(_ member: Member) -> [String] {
            let error = expect(.validationFailed) { try store.writeOptimistically { try $0.insert(member) } }
            return error?.validationFailures.map { "\($0.attribute) \($0.message)" } ?? []
        }
        #expect(failures(Member(name: "a", rank: 10)) == ["rank must be at least 0 and less than 10"])
        #expect(failures(Member(name: "a", rank: -1)) == ["rank must be at least 0 and less than 10"])
        #expect(failures(Member(name: "a", score: 5.6)) == ["score must be at most 5.5"])
        #expect(failures(Member(name: "")) == ["name must have at least 1 character"])
        try store.writeOptimistically { try $0.insert(Member(name: "a", rank: 9, score: 5.5)) }
        let long = expect(.validationFailed) { try store.writeOptimistically { try $0.insert(Club(name: "four")) } }
        #expect(long?.validationFailures.map(\.message) == ["must have 1 to 3 characters"])
        // Lists, and the other side of a relationship.
        try store.writeOptimistically { transaction in
            let others = try (0..<3).map { try transaction.insert(Member(name: "o\($0)")) }
            try transaction.insert(Member(name: "b", friends: Set(others.prefix(2))))
        }
        let members = try store.snapshot().references(to: Member.self)
        #expect(
            failures(Member(name: "c", friends: Set(members.prefix(3)))) == ["friends must have fewer than 3 objects"])
        let club = try store.writeOptimistically { try $0.insert(Club(name: "abc")) }.result
        try store.writeOptimistically { transaction in
            for member in members.prefix(2) { try transaction.update(member) { $0.club = club } }
        }
        let full = expect(.validationFailed) {
            try store.writeOptimistically { try $0.update(members[2]) { $0.club = club } }
        }
        #expect(full?.validationFailures.map(\.message) == ["must have fewer than 3 objects"])
        try end()
    }

    // MARK: Parameters

    @Test func storeOptionsCanBeGivenAsParameters() throws {
        try store.close()
        let reader = try Store(
            at: folder.path, entities: [Member.self, Club.self], options: .init(access: .readOnly, reading: .copied))
        expect(.readOnly) { try reader.writeOptimistically { try $0.insert(Member(name: "a")) } }
        try reader.close()
        let missing = folder.temporary.path("none.annals")
        expect(.notFound) { try Store(at: missing, options: Store.Options(createsIfMissing: false)) }
        let options = Store.Options(durability: .relaxed, lockTimeout: .seconds(1), automaticCompaction: nil)
        #expect(options.durability == .relaxed && options.lockTimeout == .seconds(1))
        #expect(options.automaticCompaction == nil && options.access == .readWrite && options.createsIfMissing)
        try folder.expectIntact()
    }

    @Test func aRequestNamesEntitiesByTheirTypes() throws {
        try store.writeOptimistically { try $0.insert(Member(name: "a")) }
        try store.writeOptimistically { try $0.insert(Club(name: "b")) }
        let request = HistoryRequest(entities: [Club.self])
        #expect(request.entities == ["Club"])
        #expect(try store.changes(request).map(\.entity) == ["Club"])
        #expect(try store.changes(HistoryRequest(entities: [Club.self, Member.self], limit: 5)).count == 2)
        try end()
    }
}
