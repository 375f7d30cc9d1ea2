// What a delete rule takes from an object is held to the object's own rules, as if a program had changed it.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct LossRuleTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    struct Person: Entity, Equatable {
        var name = ""
        var team: Reference<Team>?
        static let schema = Schema<Person> { Relationship(\.team, whenTargetIsDeleted: .cascade) }
    }

    struct Team: Entity, Equatable {
        var name = ""
        var members: [Reference<Person>] = []
        var size = 0
        static let schema = Schema<Team> {
            Relationship(\.members, .count(1...2), whenTargetIsDeleted: .nullify)
            Attribute(\.size, .derived { $0.members.count })
        }
    }

    struct Crew: Entity, Equatable {
        var sailors: Set<Reference<Person>> = []
        static let schema = Schema<Crew> { Attribute(\.sailors, .count(2...3)) }
    }

    struct Duty: Entity, Equatable {
        var place = ""
        var guards: [Reference<Person>] = []
        var isManned = false
        static let schema = Schema<Duty> {
            Relationship(
                \.guards,
                .check("must be guarded by at most three people, and not by two") {
                    $0.count != 2 && $0.count < 4
                }, whenTargetIsDeleted: .noAction)
            Attribute(\.isManned, .derived { !$0.guards.isEmpty })
        }
    }

    static let entities: [any Entity.Type] = [Person.self, Team.self, Crew.self, Duty.self]

    private func store() throws -> Store { try Store(at: folder.path, entities: Self.entities) }

    private func people(_ names: String..., in store: Store) throws -> [Reference<Person>] {
        try store.insert(contentsOf: names.map { Person(name: $0) }).references
    }

    // MARK: Denied

    @Test(arguments: ["write", "commit", "untyped", "batch", "context"])
    func aDeletionIsDeniedIfAReferringObjectNeedsIt(_ how: String) throws {
        let store = try store()
        let p = try people("a", "b", "c", in: store)
        let ((team, crew), _) = try store.write { transaction in
            (
                try transaction.insert(Team(name: "t", members: [p[0]])),
                try transaction.insert(Crew(sailors: [p[1], p[2]]))
            )
        }
        let context = store.makeContext()
        let before = try store.currentToken
        for (person, referrer, attribute) in [(p[0], team.id, "members"), (p[1], crew.id, "sailors")] {
            var error: StoreError?
            do {
                switch how {
                case "write": try store.write { try $0.delete(person) }
                case "commit": try store.writeOptimistically { try $0.delete(person) }
                case "untyped": try store.writeOptimistically { try $0.delete(person.id) }
                case "batch": try store.delete(Person.self, where: #Predicate { $0.objectReference == person })
                default:
                    context.delete(try context.object(person))
                    try context.save()
                }
                Issue.record("not denied")
            } catch let thrown as StoreError { error = thrown }
            if how == "context" {
                // The context itself has taken the reference away.
                #expect(error?.code == .validationFailed)
                #expect(error?.validationFailures.map(\.attribute) == [attribute])
                context.rollback()
            } else {
                #expect(error?.code == .deleteDenied, "\(error as Any)")
                #expect(error?.objects == [referrer] && error?.attributes == [attribute])
                #expect(error?.message.contains("\(person) cannot be deleted") ?? false)
            }
        }
        #expect(try store.currentToken == before)
        // Each of these is a way out.
        try store.write { transaction in
            try transaction.delete(p[0])
            try transaction.delete(team)
            let new = try transaction.insert(Person(name: "d"))
            try transaction.update(crew) { $0.sailors = [p[2], new] }
            try transaction.delete(p[1])
        }
        let sailors = try #require(try store.snapshot()[crew]).sailors
        #expect(try store.snapshot().values(sailors).map(\.name).sorted() == ["c", "d"])
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    /// Of a context that does not know what refers.
    @Test func savingFindsReferrersThatTheContextDoesNotKnow() throws {
        let store = try store()
        let p = try people("a", in: store)
        let context = store.makeContext()
        let person = try context.object(p[0])
        let (team, _) = try store.write { try $0.insert(Team(name: "t", members: p)) }
        context.delete(person)
        let error = expect(.deleteDenied) { try context.save() }
        #expect(error?.objects == [team.id])
        try context.merge()
        try context.object(team).members = [context.insert(Person(name: "b"))]
        try context.save()
        #expect(try store.snapshot()[team]?.size == 1)
        #expect(try store.snapshot().fetch(Person.self).map(\.name) == ["b"])
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    /// Changes before and after the deletion count alike: the state in the end must be valid.
    @Test(arguments: [true, false]) func onlyTheFinalStateCounts(deletesFirst: Bool) throws {
        let store = try store()
        let p = try people("a", "b", "c", "d", in: store)
        let (team, _) = try store.write { try $0.insert(Team(name: "t", members: [p[0], p[1]])) }
        try store.write { transaction in
            if deletesFirst { try transaction.delete(p[0]) }
            // With the deleted one they are three.
            try transaction.update(team) { team in
                if !deletesFirst { team.members.removeFirst() }
                team.members.append(p[2])
            }
            if !deletesFirst { try transaction.delete(p[0]) }
        }
        #expect(try store.snapshot()[team] == Team(name: "t", members: [p[1], p[2]], size: 2))
        let error = expect(.deleteDenied) {
            try store.write { transaction in
                try transaction.delete(p[1])
                try transaction.update(team) { $0.name = "u" }
                try transaction.delete(p[2])
            }
        }
        #expect(error?.objects == [team.id])
        // What is wrong without any deletion stays so.
        expect(.validationFailed) {
            try store.write { transaction in
                try transaction.delete(p[1])
                try transaction.update(team) { $0.members = [p[2], p[3], p[0], p[1]] }
            }
        }
        expect(.validationFailed) {
            try store.write { transaction in
                try transaction.delete(p[3])
                try transaction.update(team) { $0.members = [] }
            }
        }
        try store.close()
        try folder.expectIntact()
    }

    @Test func theProgramsChecksAndTheTransactionsOwnChangesCount() throws {
        let store = try store()
        let p = try people("a", "b", "c", in: store)
        let (duty, _) = try store.write { try $0.insert(Duty(guards: p)) }
        // Under noAction, only what the transaction itself has written loses the reference.
        let error = expect(.deleteDenied) {
            try store.write { transaction in
                try transaction.update(duty) { $0.place = "gate" }
                try transaction.delete(p[2])
            }
        }
        #expect(error?.objects == [duty.id] && error?.attributes == ["guards"])
        expect(.deleteDenied) {
            try store.write { transaction in
                let new = try transaction.insert(Person(name: "d"))
                try transaction.insert(Duty(guards: [p[0], p[1], new]))
                try transaction.delete(new)
            }
        }
        try store.write { transaction in
            try transaction.update(duty) { $0.place = "gate" }
            try transaction.delete(p[1])
            try transaction.delete(p[2])
        }
        #expect(try store.snapshot()[duty] == Duty(place: "gate", guards: [p[0]], isManned: true))
        try store.close()
        try folder.expectIntact()
    }

    // MARK: What is derived and required

    @Test func valuesDerivedFromReferencesFollowTheRules() throws {
        let store = try store()
        let p = try people("a", "b", in: store)
        let ((team, duty), _) = try store.write { transaction in
            (
                try transaction.insert(Team(name: "t", members: p)), try transaction.insert(Duty(guards: [p[0]]))
            )
        }
        let (_, deletion) = try store.write { transaction in
            try transaction.update(duty) { $0.place = "gate" }
            try transaction.delete(p[0])
        }
        #expect(try store.snapshot()[team] == Team(name: "t", members: [p[1]], size: 1))
        #expect(try store.snapshot()[duty] == Duty(place: "gate"))
        let changes = try store.changes(HistoryRequest(after: .number(try #require(deletion).number - 1)))
        #expect(changes.count == 3 && Set(changes.map(\.object)).count == 3)
        try store.close()
        try folder.expectIntact()
    }

    /// Required by the program, and not by a store that has objects without a value.
    @Test func aReferenceThatOnlyTheProgramRequiresIsNotNullified() throws {
        struct Loose: Entity {
            var person: Reference<Person>?
            static let schema = Schema<Loose>("Job") { Relationship(\.person, whenTargetIsDeleted: .nullify) }
        }
        struct Job: Entity {
            var person: Reference<Person>?
            static let schema = Schema<Job> { Relationship(\.person, .required, whenTargetIsDeleted: .nullify) }
        }
        let older = try Store(at: folder.path, entities: Self.entities + [Loose.self])
        let p = try people("a", in: older)
        let (job, _) = try older.write { transaction in
            try transaction.insert(Loose())
            return try transaction.insert(Loose(person: p[0]))
        }
        try older.close()
        let store = try Store(at: folder.path, entities: Self.entities + [Job.self])
        let error = expect(.requiredMissing) { try store.write { try $0.delete(p[0]) } }
        #expect(error?.entity == "Job" && error?.attributes == ["person"])
        try store.write { transaction in
            try transaction.delete(job.id)
            try transaction.delete(p[0])
        }
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Revert and apply

    @Test func revertingAnInsertionIsDeniedToo() throws {
        let store = try store()
        let (p, inserted) = try store.write { try [$0.insert(Person(name: "a")), $0.insert(Person(name: "b"))] }
        let (team, _) = try store.write { try $0.insert(Team(name: "t", members: [p[0]])) }
        let error = expect(.deleteDenied) { try store.revert(try #require(inserted)) }
        #expect(error?.objects == [team.id])
        let other = try people("c", in: store)
        try store.write { try $0.update(team) { $0.members = other } }
        try store.revert(try #require(inserted))
        #expect(try store.snapshot().fetch(Person.self).map(\.name) == ["c"])
        try store.close()
        try folder.expectIntact()
    }

    /// A transaction of another store is applied as it is: validation is the other store's.
    @Test func anAppliedDeletionIsNotHeldToRulesOfValidation() throws {
        let source = try store()
        let p = try people("a", "b", in: source)
        let second = try StoreFolder()
        let target = try Store(at: second.path, entities: Self.entities)
        for transaction in try source.export() { try target.apply(transaction) }
        let there = try target.snapshot().references(to: Person.self)
        let (team, _) = try target.write { try $0.insert(Team(name: "t", members: there)) }
        let place = try source.currentToken
        try source.write { transaction in for person in p { try transaction.delete(person) } }
        for transaction in try source.export(after: .token(place)) { try target.apply(transaction) }
        #expect(try target.snapshot()[team] == Team(name: "t"))
        let error = expect(.validationFailed) { try target.write { try $0.update(team) { $0.name = "u" } } }
        #expect(error?.validationFailures.map(\.attribute) == ["members"])
        try target.write { transaction in
            let new = try transaction.insert(Person(name: "c"))
            try transaction.update(team) { $0.members = [new] }
        }
        try source.close()
        try target.close()
        try folder.expectIntact()
        try second.expectIntact()
    }
}
