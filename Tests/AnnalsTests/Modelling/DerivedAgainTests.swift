// Derived values after reverts and transactions of other stores: they fit what they are derived from, and are in
// nobody's way.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct DerivedAgainTests {
    struct Team: Entity {
        var name = ""
        var size = 0
        var points = 0
        var changed = Date.distantPast
        var players = ToMany<Player>()

        static let schema = Schema<Team> {
            Attribute(\.size, .derived(count: \.players))
            Attribute(\.points, .derived(sum: \.players, \.points))
            Attribute(\.changed, .derived(.lastChange))
        }
    }

    struct Player: Entity {
        var first = ""
        var last = ""
        var full = ""
        var points = 0
        var team: Reference<Team>?

        static let schema = Schema<Player> {
            Attribute(\.full, .indexed, .derived { "\($0.first) \($0.last)" })
            Relationship(\.team, inverse: \.players)
        }
    }

    private static let entities: [any Entity.Type] = [Team.self, Player.self]
    private static func named(_ name: String) -> Predicate<Object<Player>> { #Predicate { $0.full == name } }

    private func expectRight(
        _ store: Store, _ names: [String], sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let snapshot = try store.snapshot()
        let players = try snapshot.fetch(Player.self)
        #expect(players.map(\.full) == names, sourceLocation: sourceLocation)
        for name in names {
            let found = try snapshot.count(Player.self, where: Self.named(name))
            #expect(found == names.filter { $0 == name }.count, sourceLocation: sourceLocation)
        }
        for team in try snapshot.references(to: Team.self) {
            let members = players.filter { $0.team == team }
            let value = try #require(try snapshot[team])
            #expect(value.size == members.count, sourceLocation: sourceLocation)
            #expect(value.points == members.map(\.points).reduce(0, +), sourceLocation: sourceLocation)
        }
    }

    /// Each side changes what the same values are derived from.
    @Test(arguments: [ConflictPolicy.error, .storeWins, .exportWins])
    func derivedValuesCauseNoConflictInAnExchange(_ policy: ConflictPolicy) throws {
        let folders = [try StoreFolder(), try StoreFolder()]
        let stores = try folders.map { try Store(at: $0.path, entities: Self.entities) }
        let (a, b) = (stores[0], stores[1])
        try a.write { transaction in
            let team = try transaction.insert(Team(name: "Reds"))
            for number in 0..<2 {
                try transaction.insert(Player(first: "f\(number)", last: "l\(number)", points: 1, team: team))
            }
        }
        _ = try relay(from: a, to: b)
        try expectRight(b, ["f0 l0", "f1 l1"])
        try a.update(Player.self, where: Self.named("f0 l0")) { $0.first = "g0" }
        try a.update(Player.self, where: Self.named("f1 l1")) { $0.points = 10 }
        try b.update(Player.self, where: Self.named("f0 l0")) { player in
            player.last = "m0"
            player.points = 20
        }
        try b.write { transaction in
            let team = try #require(try transaction.references(to: Team.self).first)
            try transaction.insert(Player(first: "new", last: "one", points: 3, team: team))
        }
        for (from, to) in [(a, b), (b, a), (a, b)] {
            for result in try relay(from: from, to: to, conflicts: policy, leavingOut: true) {
                #expect(result.conflicts.isEmpty)
            }
        }
        for store in stores { try expectRight(store, ["g0 m0", "f1 l1", "new one"]) }
        #expect(try a.snapshot().fetch(Team.self).map(\.points) == [33])
        // The values themselves conflict as before.
        try a.update(Player.self, where: Self.named("g0 m0")) { $0.first = "h0" }
        try b.update(Player.self, where: Self.named("g0 m0")) { $0.first = "i0" }
        if policy == .error {
            let error = expect(.applyConflict) { _ = try relay(from: a, to: b, leavingOut: true) }
            #expect(error?.applyConflicts.map(\.attributes) == [["first"]])
        } else {
            let conflicts = try relay(from: a, to: b, conflicts: policy, leavingOut: true).flatMap(\.conflicts)
            #expect(conflicts.map(\.attributes) == [["first"]])
            try expectRight(b, [policy == .storeWins ? "i0 m0" : "h0 m0", "f1 l1", "new one"])
        }
        for store in stores { try store.close() }
        for folder in folders { try folder.expectIntact() }
    }

    @Test func derivedValuesCauseNoConflictInARevert() throws {
        let folder = try StoreFolder()
        let store = try Store(at: folder.path, entities: Self.entities)
        let ((team, player), _) = try store.write { transaction in
            let team = try transaction.insert(Team(name: "Reds"))
            return (team, try transaction.insert(Player(first: "f", last: "l", points: 1, team: team)))
        }
        let token = try store.write { try $0.update(player) { $0.first = "g" } }.token
        try store.write { transaction in
            try transaction.update(player) { $0.last = "m" }
            try transaction.insert(Player(first: "new", last: "one", points: 3, team: team))
        }
        try expectRight(store, ["g m", "new one"])
        let outcome = try store.revert(#require(token))
        #expect(outcome.conflicts.isEmpty)
        try expectRight(store, ["f m", "new one"])
        let again = try store.revert(#require(outcome.token))
        #expect(again.conflicts.isEmpty)
        try expectRight(store, ["g m", "new one"])
        try store.close()
        try folder.expectIntact()
    }

    /// Derived attributes that have changed since are no reason to keep an inserted object, or to call one that exists
    /// again another one.
    @Test func derivedValuesCauseNoConflictInARevertOfAnInsertionOrDeletion() throws {
        let folder = try StoreFolder()
        let store = try Store(at: folder.path, entities: Self.entities)
        let (team, insertion) = try store.write { try $0.insert(Team(name: "Reds")) }
        func addPlayer(_ name: String) throws {
            try store.write { try $0.insert(Player(first: name, last: "l", points: 3, team: team)) }
        }
        func revert(_ token: HistoryToken?) throws -> HistoryToken? {
            let outcome = try store.revert(#require(token))
            #expect(outcome.conflicts.isEmpty)
            return outcome.token
        }
        try addPlayer("a")
        #expect(try store.snapshot()[team]?.size == 1)
        let deletion = try revert(insertion)
        #expect(try store.snapshot()[team] == nil)
        // It exists again, and only derived attributes differ.
        #expect(try revert(deletion) != nil)
        try addPlayer("b")
        #expect(try revert(deletion) == nil)
        // It was deleted again with other derived attributes.
        try store.write { try $0.delete(team) }
        #expect(try revert(deletion) != nil)
        #expect(try store.snapshot()[team]?.name == "Reds")
        try expectRight(store, ["a l", "b l"])
        try store.close()
        try folder.expectIntact()
    }

    @Test func conflictsOfARevertNameOnlyAttributesThatUsersSet() throws {
        let folder = try StoreFolder()
        let store = try Store(at: folder.path, entities: Self.entities)
        let (player, insertion) = try store.write { try $0.insert(Player(first: "f", last: "l")) }
        let update = try store.write { try $0.update(player) { $0.first = "g" } }.token
        try store.write { try $0.update(player) { $0.first = "h" } }
        for token in [insertion, update] {
            let outcome = try store.revert(#require(token))
            #expect(outcome.conflicts.map(\.reason) == [.changedSince])
            #expect(outcome.conflicts.map(\.attributes) == [["first"]])
        }
        try store.close()
        try folder.expectIntact()
    }
}
