// Derived attributes that must be unique, or that their type cannot have, where transactions of other stores are
// applied and where transactions are undone.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct DerivedKeyTests {
    struct Team: Entity {
        var name = ""
        var points = 0
        var players = ToMany<Player>()

        static let schema = Schema<Team> { Attribute(\.points, .derived(sum: \.players, \.points)) }
    }

    struct Player: Entity {
        var first = ""
        var last = ""
        var full = ""
        var points = 0
        var team: Reference<Team>?

        static let schema = Schema<Player> {
            Attribute(\.full, .unique, .derived { "\($0.first) \($0.last)" })
            Relationship(\.team, inverse: \.players)
        }
    }

    struct Shelf: Entity {
        var name = ""
        var size = 0
        var books = ToMany<Book>()

        static let schema = Schema<Shelf> { Attribute(\.size, .unique, .derived(count: \.books)) }
    }

    struct Book: Entity {
        var name = ""
        var pages = 0
        var shelf: Reference<Shelf>?

        static let schema = Schema<Book> { Relationship(\.shelf, inverse: \.books) }
    }

    private static let entities: [any Entity.Type] = [Team.self, Player.self, Shelf.self, Book.self]

    /// Two stores; what the first has is in the second too.
    private struct Pair {
        let folders: [StoreFolder]
        let (a, b): (Store, Store)

        init(_ body: (Transaction) throws -> Void) throws {
            folders = [try StoreFolder(), try StoreFolder()]
            a = try Store(at: folders[0].path, entities: DerivedKeyTests.entities)
            b = try Store(at: folders[1].path, entities: DerivedKeyTests.entities)
            try a.write { try body($0) }
            _ = try relay(from: a, to: b)
        }

        /// Applies what is new in `a`. The policy “refuse” must refuse it.
        func apply(
            _ policy: ConflictPolicy, sourceLocation: SourceLocation = #_sourceLocation
        ) throws -> [ApplyConflict] {
            let error = expect(.applyConflict, sourceLocation: sourceLocation) { _ = try relay(from: a, to: b) }
            if policy == .error { return error?.applyConflicts ?? [] }
            let conflicts = try relay(from: a, to: b, conflicts: policy).flatMap(\.conflicts)
            #expect(conflicts == error?.applyConflicts, sourceLocation: sourceLocation)
            // Nothing is left to apply.
            #expect(try relay(from: a, to: b).isEmpty, sourceLocation: sourceLocation)
            return conflicts
        }

        func player(_ name: String) throws -> (Reference<Player>, Player)? {
            let snapshot = try b.snapshot()
            guard let object = try snapshot.references(to: Player.self, where: DerivedKeyTests.named(name)).first
            else { return nil }
            return (object, try #require(try snapshot[object]))
        }

        func close() throws {
            try a.close()
            try b.close()
            for folder in folders { try folder.expectIntact() }
        }
    }

    private static func named(_ name: String) -> Predicate<Object<Player>> { #Predicate { $0.full == name } }

    private static func makePlayer(_ transaction: Transaction) throws {
        try transaction.insert(Player(first: "f", last: "l", points: 1))
    }

    // MARK: Keys derived from the object's own properties

    /// The exported value is another object's here, and the value that is worked out here is not.
    @Test(arguments: ConflictPolicy.allCases) func anExportedDerivedValueTakesNoKey(_ policy: ConflictPolicy) throws {
        let pair = try Pair(Self.makePlayer)
        try pair.b.update(Player.self, where: Self.named("f l")) { $0.last = "m" }
        try pair.b.write { try $0.insert(Player(first: "g", last: "l")) }
        try pair.a.update(Player.self, where: Self.named("f l")) { $0.first = "g" }
        #expect(try relay(from: pair.a, to: pair.b, conflicts: policy).allSatisfy(\.conflicts.isEmpty))
        #expect(try pair.b.snapshot().fetch(Player.self).map(\.full) == ["g m", "g l"])
        try pair.close()
    }

    @Test(arguments: ConflictPolicy.allCases) func aDerivedKeyThatIsTakenIsAConflict(_ policy: ConflictPolicy) throws {
        let pair = try Pair(Self.makePlayer)
        try pair.b.update(Player.self, where: Self.named("f l")) { $0.last = "m" }
        let taker = try pair.b.write { try $0.insert(Player(first: "g", last: "m")) }.result
        try pair.a.update(Player.self, where: Self.named("f l")) { player in
            player.first = "g"
            player.points = 7
        }
        let conflicts = try pair.apply(policy)
        #expect(conflicts.map(\.reason) == [.keyTaken(by: taker.id)])
        #expect(conflicts.map(\.attributes) == [["full"]])
        // What the key is derived from is left out, and the rest is written.
        #expect(try pair.player("f m")?.1.points == (policy == .error ? 1 : 7))
        try pair.close()
    }

    @Test(arguments: ConflictPolicy.allCases)
    func anInsertionWithATakenDerivedKeyBecomesTheExistingObject(_ policy: ConflictPolicy) throws {
        let pair = try Pair { _ in }
        let own = try pair.b.write { try $0.insert(Player(first: "f", last: "l")) }.result
        let other = try pair.a.write { transaction in
            let player = try transaction.insert(Player(first: "f", last: "l", points: 3))
            try transaction.insert(Player(first: "x", last: "y"))
            return player
        }.result
        #expect(try pair.apply(policy).map(\.reason) == [.keyTaken(by: own.id)])
        #expect(try pair.b.snapshot()[own]?.points == (policy == .exportWins ? 3 : 0))
        #expect(try pair.player("x y") != nil || policy == .error)
        if policy != .error {
            // From now on it is that one.
            try pair.a.write { try $0.update(other) { $0.points = 9 } }
            _ = try relay(from: pair.a, to: pair.b, conflicts: .exportWins)
            #expect(try pair.b.snapshot()[own]?.points == 9)
        }
        try pair.close()
    }

    /// The source does not know that the attribute is derived. Here two of its objects have one value.
    @Test(arguments: ConflictPolicy.allCases)
    func twoObjectsWithTheSameDerivedKeyAreAConflict(_ policy: ConflictPolicy) throws {
        let pair = try Pair { _ in }
        try pair.a.close()
        let a = try Store(at: pair.folders[0].path)
        try a.write { transaction in
            for full in ["1", "2"] {
                try transaction.insert("Player", ["first": "f", "last": "l", "full": .string(full), "points": 0])
            }
        }
        let exported = try #require(try a.export().last)
        for transaction in try a.export().dropLast() { try pair.b.apply(transaction) }
        let error = expect(.applyConflict) { try pair.b.apply(exported) }
        #expect(error?.applyConflicts.count == 1)
        if policy != .error {
            let result = try pair.b.apply(exported, conflicts: policy)
            let kept = try #require(try pair.player("f l")).0
            #expect(result.conflicts.map(\.reason) == [.keyTaken(by: kept.id)])
        }
        #expect(try pair.b.snapshot().count(Player.self) == (policy == .error ? 0 : 1))
        try a.close()
        try pair.b.close()
    }

    @Test(arguments: ConflictPolicy.allCases)
    func exchangedAndFreedDerivedKeysAreNoConflict(_ policy: ConflictPolicy) throws {
        let pair = try Pair { transaction in
            try transaction.insert(Player(first: "f", last: "l", points: 1))
            try transaction.insert(Player(first: "g", last: "l", points: 2))
            try transaction.insert(Player(first: "h", last: "l", points: 3))
        }
        let players = try pair.a.snapshot().references(to: Player.self)
        try pair.a.write { transaction in
            try transaction.delete(players[0])
            try transaction.update(players[1]) { $0.first = "h" }
            try transaction.update(players[2]) { $0.first = "f" }
        }
        #expect(try relay(from: pair.a, to: pair.b, conflicts: policy).allSatisfy(\.conflicts.isEmpty))
        #expect(try pair.b.snapshot().fetch(Player.self).map(\.full) == ["h l", "f l"])
        try pair.close()
    }

    // MARK: Values derived from other objects

    /// An object that the transaction does not change would get a value that another has.
    @Test(arguments: ConflictPolicy.allCases)
    func aDerivedCountThatIsTakenIsAConflict(_ policy: ConflictPolicy) throws {
        let pair = try Pair { transaction in
            let shelf = try transaction.insert(Shelf(name: "x"))
            try transaction.insert(Book(name: "1", shelf: shelf))
        }
        let other = try pair.b.write { transaction in
            let shelf = try transaction.insert(Shelf(name: "y"))
            for name in ["2", "3"] { try transaction.insert(Book(name: name, shelf: shelf)) }
            return shelf
        }.result
        try pair.a.write { transaction in
            let shelf = try #require(try transaction.references(to: Shelf.self).first)
            let book = try #require(try transaction.references(to: Book.self).first)
            try transaction.insert(Book(name: "4", shelf: shelf))
            try transaction.update(book) { $0.pages = 8 }
        }
        let conflicts = try pair.apply(policy)
        #expect(conflicts.map(\.reason) == [.keyTaken(by: other.id)])
        #expect(conflicts.map(\.kind) == [.insert])
        let snapshot = try pair.b.snapshot()
        #expect(try snapshot.fetch(Shelf.self).map(\.size) == [1, 2])
        #expect(try snapshot.fetch(Book.self).first?.pages == (policy == .error ? 0 : 8))
        try pair.close()
    }

    @Test(arguments: ConflictPolicy.allCases) func aSumThatIsOutOfRangeIsAConflict(_ policy: ConflictPolicy) throws {
        let pair = try Pair { transaction in
            let team = try transaction.insert(Team(name: "Reds"))
            try transaction.insert(Player(first: "f", last: "l", points: 1, team: team))
        }
        try pair.b.write { transaction in
            let team = try #require(try transaction.references(to: Team.self).first)
            try transaction.insert(Player(first: "own", last: "own", points: .max - 10, team: team))
        }
        let team = try #require(try pair.b.snapshot().references(to: Team.self).first)
        try pair.a.update(Player.self, where: Self.named("f l")) { player in
            player.first = "g"
            player.points = 100
        }
        let conflicts = try pair.apply(policy)
        #expect(conflicts.map(\.reason) == [.derivedOutOfRange(of: team.id)])
        #expect(conflicts.map(\.attributes) == [["points"]])
        #expect(try pair.player(policy == .error ? "f l" : "g l")?.1.points == 1)
        #expect(try pair.b.snapshot()[team]?.points == .max - 9)
        try pair.close()
    }

    // MARK: Undoing

    @Test func aRevertWithATakenDerivedKeyIsAConflict() throws {
        let folder = try StoreFolder()
        let store = try Store(at: folder.path, entities: Self.entities)
        let player = try store.write { try $0.insert(Player(first: "f", last: "l", points: 1)) }.result
        let token = try #require(
            try store.write {
                try $0.update(player) { player in
                    player.first = "g"
                    player.points = 2
                }
            }.token)
        let taker = try store.write { transaction in
            try transaction.update(player) { $0.last = "m" }
            return try transaction.insert(Player(first: "f", last: "m"))
        }.result
        let number = try store.currentToken.number
        for policy in [RevertPolicy.refuse, .storeWins] {
            let outcome = try store.revert(token, conflicts: policy)
            #expect(outcome.conflicts.map(\.reason) == [.keyTaken(by: taker.id)])
            #expect(outcome.conflicts.map(\.attributes) == [["full"]])
            #expect(try store.currentToken.number == (policy == .refuse ? number : number + 1))
        }
        let value = try #require(try store.snapshot()[player])
        #expect(value.full == "g m" && value.points == 1)
        try store.close()
        try folder.expectIntact()
    }

    /// The old value is another object's, and the value that is worked out is not.
    @Test func aRevertTakesNoKeyWithAnOldDerivedValue() throws {
        let folder = try StoreFolder()
        let store = try Store(at: folder.path, entities: Self.entities)
        let player = try store.write { try $0.insert(Player(first: "f", last: "l")) }.result
        let token = try #require(try store.write { try $0.update(player) { $0.first = "g" } }.token)
        try store.write { transaction in
            try transaction.update(player) { $0.last = "m" }
            try transaction.insert(Player(first: "f", last: "l"))
        }
        #expect(try store.revert(token).conflicts.isEmpty)
        #expect(try store.snapshot()[player]?.full == "f m")
        try store.close()
        try folder.expectIntact()
    }

    @Test func aRevertWithATooLargeSumIsAConflict() throws {
        let folder = try StoreFolder()
        let store = try Store(at: folder.path, entities: Self.entities)
        let (team, player) = try store.write { transaction in
            let team = try transaction.insert(Team(name: "Reds"))
            return (team, try transaction.insert(Player(first: "f", last: "l", points: 100, team: team)))
        }.result
        let deletion = try #require(try store.write { try $0.delete(player) }.token)
        try store.write { try $0.insert(Player(first: "x", last: "y", points: .max - 10, team: team)) }
        for policy in [RevertPolicy.refuse, .storeWins] {
            let outcome = try store.revert(deletion, conflicts: policy)
            #expect(outcome.conflicts.map(\.reason) == [.derivedOutOfRange(of: team.id)])
            #expect(outcome.conflicts.map(\.object) == [player.id] && outcome.token == nil)
        }
        #expect(try store.snapshot()[team]?.points == .max - 10)
        try store.close()
        try folder.expectIntact()
    }
}
