// A store of version 1 as a program with typed entities left it: every later program reads it and goes on.
// `ANNALS_WRITE_GOLDEN=1 swift test` makes it only if there is none: what is there stays for ever.

import Annals
import FoundationEssentials
import TestSupport
import Testing

/// One property of each type.
private struct Kept: Entity, Equatable {
    enum Color: String, Codable { case red, blue }
    struct Nested: Codable, Hashable { var a = 0 }

    var name = ""
    var flag = false
    var number = 0
    var ratio = 0.0
    var data = Data()
    var date = Date(timeIntervalSinceReferenceDate: 0)
    var uuid = UUID(uuid: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16))
    var decimal = Decimal(0)
    var nested = Nested()
    var color = Color.red
    var text: String?
    var owner: Reference<Owner>?
    var marks: Set<Reference<Mark>> = []
    var order: [Reference<Mark>] = []

    static let schema = Schema<Kept>(unique: [[\.owner, \.number]]) {
        Attribute(\.name, .indexed, .preservedOnDeletion)
        Relationship(\.owner, inverse: \.kept, whenTargetIsDeleted: .cascade)
        Relationship(\.marks, inverse: \.kept)
    }
}

private struct Owner: Entity, Equatable {
    var name = ""
    var kept = ToMany<Kept>()
    static let schema = Schema<Owner> { Attribute(\.name, .unique) }
}

private struct Mark: Entity, Equatable {
    var name = ""
    var kept = ToMany<Kept>()
}

@Suite struct TypedGoldenTests {
    private static let golden = PackageFolder.url("Tests/AnnalsTests/Golden/typed.annals")

    private static func open(_ path: String) throws -> Store {
        try Store(at: path, entities: [Kept.self, Owner.self, Mark.self])
    }

    /// Number 2 has a value that is too long for a row.
    private static func kept(_ number: Int, _ owner: Reference<Owner>?, _ marks: [Reference<Mark>]) -> Kept {
        Kept(
            name: "kept \(number)", flag: number % 2 == 0, number: number, ratio: Double(number) / 4,
            data: Data(repeating: UInt8(number), count: number == 2 ? 70_000 : number),
            date: Date(timeIntervalSinceReferenceDate: Double(number) * 1000.5), decimal: Decimal(number) / 8,
            nested: Kept.Nested(a: number), color: number % 2 == 0 ? .blue : .red,
            text: number == 3 ? nil : "text \(number)", owner: owner, marks: Set(marks.prefix(number % 3)),
            order: marks.reversed())
    }

    /// History was cleaned and compacted once, and went on.
    private static func make(_ path: String) throws {
        let store = try open(path)
        let (owner, marks) = try store.writeOptimistically(author: "app") { transaction in
            let owner = try transaction.insert(Owner(name: "owner"))
            let marks = try ["a", "b"].map { try transaction.insert(Mark(name: $0)) }
            for number in 1...3 { try transaction.insert(kept(number, owner, marks)) }
            return (owner, marks)
        }.result
        try store.registerConsumer("reader")
        try store.write(author: "share") { transaction in
            try transaction.insert(kept(4, owner, marks))
            try transaction.insert(kept(5, nil, []))
        }
        let start = try #require(try store.consumer("reader")).cursor
        try store.advanceConsumer("reader", from: start, to: try store.currentToken)
        try store.clean()
        try store.compact()
        let references = try store.snapshot().references(to: Kept.self)
        try store.write(author: "share", contextName: "edits") { transaction in
            try transaction.update(references[0]) { ($0.name, $0.number) = ("changed", 10) }
            try transaction.delete(references[4])
        }
        try store.close()
    }

    @Test func aStoreOfVersion1CanBeReadAndWritten() throws {
        let folder = try StoreFolder()
        if ProcessInfo.processInfo.environment["ANNALS_WRITE_GOLDEN"] == "1",
            !FileManager.default.fileExists(atPath: Self.golden.path)
        {
            try Self.make(Self.golden.path)
        }
        try Data(contentsOf: Self.golden).write(to: URL(filePath: folder.path))
        let store = try Self.open(folder.path)
        let snapshot = try store.snapshot()
        let owners = try snapshot.references(to: Owner.self)
        let marks = try snapshot.references(to: Mark.self)
        #expect(try owners.count == 1 && snapshot[owners[0]]?.name == "owner")
        var expected = (1...4).map { Self.kept($0, owners[0], marks) }
        (expected[0].name, expected[0].number) = ("changed", 10)
        #expect(try snapshot.fetch(Kept.self) == expected)
        #expect(try snapshot.fetch(Kept.self, where: #Predicate { $0.name == "kept 2" }) == [expected[1]])
        // What came after cleaning, with what was there before.
        let history = try store.history(HistoryRequest(after: .oldest), includingValues: true)
        #expect(history.last?.author == "share" && history.last?.contextName == "edits")
        #expect(history.last?.changes.map(\.kind) == [.update, .delete])
        #expect(history.last?.changes.last?.preserved?["name"] == .string("kept 5"))
        let reader = try #require(try store.consumer("reader"))
        #expect(try !reader.isLost && reader.cursor.number + 1 == store.currentToken.number)
        // And on: by another struct, through a context, and compacted again.
        let context = store.makeContext()
        let objects = try context.fetch(Kept.self)
        #expect(objects.compactMap(\.owner?.name) == Array(repeating: "owner", count: 4))
        objects[0].number = 2
        expect(.uniqueViolation) { try context.save() }
        objects[0].number = 1
        try context.save()
        context.delete(try context.object(owners[0]))
        try context.save()
        #expect(try store.snapshot().count(Kept.self) == 0)
        context.close()
        try store.compact()
        try store.close()
        try folder.expectIntact()
    }
}
