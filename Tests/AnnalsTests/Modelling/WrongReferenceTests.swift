// References that name what they must not: an object of another entity.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct WrongReferenceTests {
    let folder: StoreFolder
    let store: Store
    let team: Reference<Team>
    let player: Reference<Player>

    struct Team: Entity, Equatable {
        var name = ""
        var players = ToMany<Player>()
        static let schema = Schema<Team> { Attribute(\.name, .unique) }
    }

    struct Player: Entity, Equatable {
        var nick = ""
        var team: Reference<Team>?
        var teams: [Reference<Team>] = []
        static let schema = Schema<Player> { Relationship(\.team, inverse: \.players, whenTargetIsDeleted: .cascade) }
    }

    init() throws {
        folder = try StoreFolder()
        let store = try Store(at: folder.path, entities: [Team.self, Player.self])
        self.store = store
        (team, player) = try store.write { transaction in
            let team = try transaction.insert(Team(name: "t"))
            return (team, try transaction.insert(Player(nick: "p", team: team)))
        }.result
    }

    /// Every call that takes a reference, with one whose ID is of another entity.
    @Test func aReferenceOfAnotherEntityNamesNothing() throws {
        let wrong = Reference<Team>(player.id)
        let decoded = try JSONDecoder().decode([Reference<Team>].self, from: try JSONEncoder().encode([player]))[0]
        #expect(decoded == wrong)
        let before = try store.currentToken
        for underLock in [true, false] {
            let run: ((Transaction) throws -> Void) throws -> Void = { body in
                if underLock { try store.write(body) } else { try store.writeOptimistically(body) }
            }
            let deleted = expect(.objectNotFound) { try run { try $0.delete(wrong) } }
            #expect(deleted?.entity == "Team" && deleted?.object == player.id)
            expect(.objectNotFound) { try run { try $0.update(wrong) { $0.name = "x" } } }
            expect(.objectNotFound) { try run { try $0.update(wrong, to: Team(name: "x")) } }
            expect(.invalidArgument) { try run { try $0.insert(Team(name: "x"), as: wrong) } }
            expect(.invalidArgument) {
                try run { transaction in
                    let reserved = try transaction.reserve(Player.self)
                    try transaction.insert(Team(name: "x"), as: Reference<Team>(reserved.id))
                }
            }
            expect(.referenceMissing) { try run { try $0.insert(Player(nick: "x", team: wrong)) } }
            expect(.referenceMissing) { try run { try $0.insert(Player(nick: "x", teams: [wrong])) } }
            expect(.referenceMissing) { try run { try $0.update(player) { $0.team = wrong } } }
            try run { (transaction: Transaction) throws -> Void in
                #expect(try transaction[wrong] == nil)
                #expect(try transaction.references(\Team.players, of: wrong).isEmpty)
                #expect(try transaction.count(Player.self, where: #Predicate { $0.team == wrong }) == 0)
                #expect(try transaction.count(Team.self, where: #Predicate { $0.objectReference == wrong }) == 0)
            }
        }
        let snapshot = try store.snapshot()
        #expect(try snapshot[wrong] == nil)
        #expect(try snapshot.values([wrong, team]) == [Team(name: "t")])
        #expect(try snapshot.references(\Team.players, of: wrong).isEmpty)
        #expect(try snapshot.count(Team.self, where: #Predicate { $0.objectReference == wrong }) == 0)
        #expect(try snapshot.count(Player.self, where: #Predicate { $0.team == wrong }) == 0)
        expect(.invalidArgument) { try store.uri(of: wrong) }
        expect(.invalidArgument) { try store.reference(for: try store.uri(of: player), as: Team.self) }
        #expect(try store.currentToken == before)
        try store.close()
        try folder.expectIntact()
    }

    @Test(arguments: [true, false]) func aContextHasNoObjectOfAnotherEntity(isHeld: Bool) throws {
        let wrong = Reference<Team>(player.id)
        let context = store.makeContext()
        let held = isHeld ? try context.object(player) : nil
        expect(.objectNotFound) { try context.object(wrong) }
        let mate = context.insert(Player(nick: "m"))
        mate.objectUpdate { $0.team = wrong }
        #expect(mate.team == nil)
        expect(.referenceMissing) { try context.save() }
        context.rollback()
        try context.object(player).nick = "q"
        try context.save()
        #expect(try store.snapshot()[player]?.nick == "q")
        withExtendedLifetime(held) {}
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    struct Role: Codable, Equatable {
        var title = ""
        var who: Reference<Person>?
    }

    struct Person: Entity { var name = "" }

    struct Project: Entity {
        var name = ""
        var lead: Role?
        var byTitle: [String: Reference<Person>] = [:]
        var maybe: [Reference<Person>?] = []
    }

    /// A temporary reference inside a coded value cannot be replaced when the object gets its permanent one.
    @Test(arguments: 0..<3) func noTemporaryReferenceIsCoded(where place: Int) throws {
        let folder = try StoreFolder()
        let store = try Store(at: folder.path, entities: [Person.self, Project.self])
        let context = store.makeContext()
        let ada = context.insert(Person(name: "Ada"))
        func set(_ project: inout Project, _ person: Reference<Person>) {
            switch place {
            case 0: project.lead = Role(title: "boss", who: person)
            case 1: project.byTitle = ["boss": person]
            default: project.maybe = [nil, person]
            }
        }
        let project = context.insert(Project(name: "p"))
        project.objectUpdate { set(&$0, ada.objectReference) }
        for _ in 0..<2 {
            let error = expect(.wrongContext) { try context.save() }
            #expect(error?.attributes == [["lead", "byTitle", "maybe"][place]] && error?.entity == "Project")
            expect(.wrongContext) { try context.validate() }
        }
        expect(.wrongContext) {
            try store.write { transaction in
                var value = Project()
                set(&value, ada.objectReference)
                try transaction.insert(value)
            }
        }
        expect(.wrongContext) { _ = try JSONEncoder().encode([ada.objectReference]) }
        // The way out that the error names.
        try context.obtainPermanentReferences(for: [ada])
        project.objectUpdate { set(&$0, ada.objectReference) }
        try context.save()
        #expect(!context.hasChanges)
        var wanted = Project(name: "p")
        set(&wanted, ada.objectReference)
        let saved = try #require(try store.snapshot()[project.objectReference])
        #expect(saved.lead == wanted.lead && saved.byTitle == wanted.byTitle && saved.maybe == wanted.maybe)
        #expect(try store.snapshot()[ada.objectReference]?.name == "Ada")
        context.close()
        for store in [store, self.store] { try store.close() }
        for folder in [folder, self.folder] { try folder.expectIntact() }
    }
}
