// References lead to objects, whatever is written and deleted, by one process or several.

import Annals
import FoundationEssentials
import Glibc
import TestSupport
import Testing

@Suite struct ReferenceTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func store() throws -> Store { try folder.open(ReferenceSample.entities) }

    // MARK: What a reference names

    @Test func aReferenceNamesAnObjectOfItsEntity() throws {
        let store = try store()
        let (home, _) = try store.writeOptimistically { try $0.insert("Home", [:]) }
        let (team, _) = try store.writeOptimistically { try $0.insert("Team", ["home": .object(home)]) }
        let nobody = try #require(ObjectID(entityNumber: team.entityNumber, number: 999))
        let error = #expect(throws: StoreError.self) {
            try store.writeOptimistically { try $0.insert("Member", ["team": .object(nobody)]) }
        }
        #expect(error?.code == .referenceMissing && error?.object == nobody)
        #expect(error?.entity == "Member" && error?.attributes == ["team"])
        expect(.referenceMissing) { try store.writeOptimistically { try $0.insert("Member", ["team": .object(home)]) } }
        expect(.referenceMissing) { try store.write { try $0.update(team, ["parent": .object(nobody)]) } }
        expect(.referenceMissing) {
            try store.writeOptimistically { try $0.insert("Member", ["visited": .orderedObjects([team])]) }
        }
        // What a transaction deletes, it does not refer to in the end.
        let (own, _) = try store.writeOptimistically { transaction in
            let gone = try transaction.insert("Home", [:])
            let visited = Value.orderedObjects([home, gone])
            let member = try transaction.insert("Member", ["visited": visited, "seen": .object(gone)])
            try transaction.delete(gone)
            return member
        }
        let row = try #require(try store.snapshot().row(own))
        #expect(row["visited"] == .orderedObjects([home]) && row["seen"] == .null)
        // In one transaction, in circles.
        let (pair, _) = try store.writeOptimistically { transaction in
            let first = try transaction.insert("Team", [:])
            let second = try transaction.insert("Team", ["rival": .object(first), "parent": .object(first)])
            try transaction.update(first, ["rival": .object(second), "parent": .object(second)])
            return [first, second]
        }
        let snapshot = try store.snapshot()
        #expect(try snapshot.row(pair[0])?["rival"] == .object(pair[1]))
        #expect(
            try snapshot.objects(of: try snapshot.entity("Team"), where: "rival", equals: .object(pair[0])) == [pair[1]]
        )
        try store.close()
        try folder.expectIntact()
    }

    @Test func aListHasAtMost8000Objects() throws {
        let store = try store()
        let (homes, _) = try store.writeOptimistically { transaction in
            try (0...8000).map { _ in try transaction.insert("Home", [:]) }
        }
        expect(.tooLarge) {
            try store.writeOptimistically { try $0.insert("Member", ["visited": .orderedObjects(homes)]) }
        }
        let some = Array(homes.dropLast().reversed())
        let (member, _) = try store.writeOptimistically { try $0.insert("Member", ["visited": .orderedObjects(some)]) }
        try store.writeOptimistically { try $0.delete(homes[4000]) }
        let snapshot = try store.snapshot()
        #expect(try snapshot.row(member)?["visited"] == .orderedObjects(some.filter { $0 != homes[4000] }))
        let entity = try snapshot.entity("Member")
        #expect(try snapshot.objects(of: entity, where: "visited", equals: .object(homes[3])) == [member])
        #expect(try snapshot.objects(of: entity, where: "visited", equals: .object(homes[4000])) == [])
        #expect(
            try snapshot.count(
                of: "Member", by: ["visited"], from: .including([.object(homes[3])]),
                to: .including([.object(homes[3])])) == 1)
        expect(.invalidArgument) { try snapshot.rows(of: "Member", by: ["visited"]) }
        expect(.invalidArgument) { try snapshot.count(of: "Member", by: ["visited"]) }
        expect(.typeMismatch) { try snapshot.rows(of: "Member", where: "visited", equals: .orderedObjects([member])) }
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Rules

    @Test func aCascadeDeletesEachObjectOfATreeOnce() throws {
        let store = try store()
        let (teams, _) = try store.writeOptimistically { transaction in
            var teams = [try transaction.insert("Team", [:])]
            for place in 0..<30 {
                let parent = Value.object(teams[place / 3])
                teams.append(try transaction.insert("Team", ["parent": parent, "rival": .object(teams[0])]))
                try transaction.insert("Member", ["team": .object(teams[place])])
            }
            // The whole is a circle.
            try transaction.update(teams[0], ["parent": .object(teams[30])])
            return teams
        }
        let (_, token) = try store.writeOptimistically { try $0.delete(teams[30]) }
        let changes = try store.changes(HistoryRequest(after: .number(try #require(token).number - 1)))
        #expect(changes.count == 31 + 30 && changes.allSatisfy { $0.kind == .delete })
        #expect(Set(changes.map(\.object)).count == changes.count)
        // History says what they belonged to.
        #expect(changes.allSatisfy { $0.entity != "Member" || $0.preserved?["team"] != nil })
        #expect(try ReferenceModel(try store.snapshot()) == ReferenceModel())
        try store.close()
        try folder.expectIntact()
    }

    @Test func denyNamesTheReferringObjects() throws {
        let store = try store()
        let (home, _) = try store.writeOptimistically { try $0.insert("Home", [:]) }
        let (teams, _) = try store.writeOptimistically { transaction in
            try (0..<3).map { _ in try transaction.insert("Team", ["home": .object(home)]) }
        }
        let before = try store.currentToken
        let error = #expect(throws: StoreError.self) { try store.writeOptimistically { try $0.delete(home) } }
        #expect(error?.code == .deleteDenied && Set(error?.objects ?? []) == Set(teams))
        #expect(error?.entity == "Team" && error?.attributes == ["home"])
        expect(.deleteDenied) { try store.write { try $0.delete(home) } }
        #expect(try store.currentToken == before)
        // Nobody refers to it when the transaction ends.
        try store.writeOptimistically { transaction in
            try transaction.delete(home)
            try transaction.delete(teams[0])
            try transaction.update(teams[1], ["home": .null])
            try transaction.update(teams[2], ["home": .object(try transaction.insert("Home", [:]))])
        }
        #expect(try store.snapshot().row(home) == nil)
        try store.close()
        try folder.expectIntact()
    }

    @Test func aRequiredReferenceIsNotNullified() throws {
        let strict = EntityDescription(
            "Strict",
            attributes: [
                AttributeDescription("of", .object, isOptional: false, target: "Home", whenTargetIsDeleted: .nullify)
            ])
        let store = try folder.open(ReferenceSample.entities + [strict])
        let (home, _) = try store.writeOptimistically { transaction in
            let home = try transaction.insert("Home", [:])
            try transaction.insert("Strict", ["of": .object(home)])
            return home
        }
        let error = #expect(throws: StoreError.self) { try store.writeOptimistically { try $0.delete(home) } }
        #expect(error?.code == .requiredMissing && error?.entity == "Strict" && error?.attributes == ["of"])
        try store.close()
        try folder.expectIntact()
    }

    @Test func withoutARuleAReferenceReadsAsNull() throws {
        let store = try store()
        let (home, _) = try store.writeOptimistically { try $0.insert("Home", [:]) }
        let (member, inserted) = try store.writeOptimistically { try $0.insert("Member", ["seen": .object(home)]) }
        try store.writeOptimistically { try $0.delete(home) }
        let snapshot = try store.snapshot()
        #expect(try snapshot.row(member)?["seen"] == .null)
        let entity = try snapshot.entity("Member")
        let position = try #require(entity.position(of: "seen"))
        var shown: (object: ObjectID?, isPresent: Bool) = (member, true)
        let isRead = try snapshot.withRow(member, in: entity) { (row) throws(StoreError) in
            shown = (try row.object(at: position), row.isPresent(at: position))
        }
        #expect(shown.object == nil && !shown.isPresent)
        #expect(isRead)
        // The past had it, and history keeps what was written.
        #expect(try store.snapshot(asOf: try #require(inserted)).row(member)?["seen"] == .object(home))
        #expect(
            try store.changes(HistoryRequest(objects: [member]), includingValues: true).first?.after?["seen"]
                == .object(home))
        let (own, _) = try store.write { try $0.row(member)?["seen"] }
        #expect(own == .null)
        let report = try Checker.check(folder.path, files: RealFileSystem())
        #expect(report.isIntact && report.findings.map(\.rule) == ["F35"])
        try store.compact()
        try store.backup(to: folder.temporary.path("b.annals"))
        let copy = try Checker.check(folder.temporary.path("b.annals"), files: RealFileSystem())
        #expect(copy.isIntact && copy.findings.map(\.rule) == ["F35"])
        #expect(unlink(folder.temporary.path("b.annals")) == 0)
        // It may be written over, and nothing else is asked of it.
        try store.writeOptimistically { try $0.update(member, ["name": "m"]) }
        try store.writeOptimistically { try $0.update(member, ["seen": .object(member)]) }
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Long transactions

    /// The body changes what a rule deletes or changes after that, in frames that are complete by then.
    @Test(arguments: [false, true]) func aLongTransactionWritesEachObjectOnce(underLock: Bool) throws {
        let store = try store()
        let text = String(repeating: "x", count: 700)
        let (home, _) = try store.writeOptimistically { try $0.insert("Home", [:]) }
        let (teams, _) = try store.writeOptimistically { transaction in
            try (0..<2).map { _ in try transaction.insert("Team", ["rival": .null]) }
        }
        let (members, _) = try store.writeOptimistically { transaction in
            try (0..<2000).map { number in
                try transaction.insert(
                    "Member",
                    [
                        "name": .string("m \(number)"), "team": .object(teams[number % 2]),
                        "visited": .orderedObjects([home]),
                    ])
            }
        }
        let long = String(repeating: "l", count: 200_000)
        let body: (Transaction) throws -> [ObjectID] = { transaction in
            for member in members { try transaction.update(member, ["name": .string(text + "\(member.number)")]) }
            let more = try (0..<1000).map { number in
                try transaction.insert(
                    "Member",
                    [
                        "name": .string(number == 5 ? long : text), "team": .object(teams[number % 2]),
                        "visited": .orderedObjects([home]),
                    ])
            }
            try transaction.delete(teams[0])
            try transaction.delete(home)
            return more
        }
        let (more, token) = try underLock ? store.write(body) : store.writeOptimistically(body)
        let snapshot = try store.snapshot()
        for (number, member) in members.enumerated() {
            let row = try snapshot.row(member)
            #expect((row == nil) == (number % 2 == 0))
            if let row {
                #expect(row["name"] == .string(text + "\(member.number)") && row["visited"] == .orderedObjects([]))
            }
        }
        for (number, member) in more.enumerated() {
            let row = try snapshot.row(member)
            #expect((row == nil) == (number % 2 == 0))
            if let row {
                #expect(row["name"] == .string(number == 5 ? long : text) && row["visited"] == .orderedObjects([]))
            }
        }
        let changes = try store.changes(HistoryRequest(after: .number(try #require(token).number - 1)))
        #expect(changes.count == 2000 + 500 + 2 && Set(changes.map(\.object)).count == changes.count)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Several writers

    @Test func aTransactionRunsAgainIfItsTargetIsDeleted() throws {
        let (mine, other) = (try store(), try store())
        let (team, _) = try mine.writeOptimistically { try $0.insert("Team", [:]) }
        var runs = 0
        let (member, _) = try mine.writeOptimistically { transaction -> ObjectID? in
            runs += 1
            if runs == 1 { try other.writeOptimistically { try $0.delete(team) } }
            guard try transaction.snapshot.row(team) != nil else { return nil }
            return try transaction.insert("Member", ["team": .object(team)])
        }
        #expect(member == nil && runs == 2)
        try mine.close()
        try other.close()
        try folder.expectIntact()
    }

    @Test(arguments: ["team", "home"])
    func aConcurrentReferenceToADeletedObjectFollowsItsRule(_ attribute: String) throws {
        let (mine, other) = (try store(), try store())
        let (home, _) = try mine.writeOptimistically { try $0.insert("Home", [:]) }
        let (team, _) = try mine.writeOptimistically { try $0.insert("Team", [:]) }
        var runs = 0
        let delete = {
            try mine.writeOptimistically { transaction in
                runs += 1
                if runs == 1 {
                    try other.writeOptimistically { others in
                        if attribute == "team" {
                            try others.insert("Member", ["team": .object(team)])
                        } else {
                            try others.insert("Team", ["home": .object(home)])
                        }
                    }
                }
                try transaction.delete(attribute == "team" ? team : home)
            }
        }
        if attribute == "team" {
            _ = try delete()
            #expect(try mine.snapshot().count(of: "Member") == 0)
        } else {
            expect(.deleteDenied) { try delete() }
        }
        #expect(runs > 1)
        try mine.close()
        try other.close()
        try folder.expectIntact()
    }

    // MARK: Revert, export and apply

    @Test func aRevertedCascadeRestoresAllObjects() throws {
        let store = try store()
        let (team, _) = try store.writeOptimistically { try $0.insert("Team", [:]) }
        try store.writeOptimistically { transaction in
            for _ in 0..<5 { try transaction.insert("Member", ["team": .object(team)]) }
            try transaction.insert("Team", ["rival": .object(team), "parent": .null])
        }
        let before = try ReferenceModel(try store.snapshot())
        let (_, token) = try store.writeOptimistically { try $0.delete(team) }
        #expect(try ReferenceModel(try store.snapshot()) != before)
        try store.revert(try #require(token))
        #expect(try ReferenceModel(try store.snapshot()) == before)
        try store.close()
        try folder.expectIntact()
    }

    @Test(arguments: [RevertPolicy.refuse, .storeWins])
    func aRevertDoesNotReferToDeletedObjects(policy: RevertPolicy) throws {
        let store = try store()
        let (team, _) = try store.writeOptimistically { try $0.insert("Team", [:]) }
        let (home, _) = try store.writeOptimistically { try $0.insert("Home", [:]) }
        let (members, _) = try store.writeOptimistically { transaction in
            try ["a", "b"].map { name in
                try transaction.insert(
                    "Member",
                    ["name": .string(name), "team": name == "a" ? .object(team) : .null, "seen": .object(home)])
            }
        }
        let (_, token) = try store.writeOptimistically { transaction in
            for member in members { try transaction.delete(member) }
        }
        try store.writeOptimistically { transaction in
            try transaction.delete(team)
            try transaction.delete(home)
        }
        let outcome = try store.revert(try #require(token), conflicts: policy)
        // The team would have taken its member along, the home would not.
        #expect(outcome.conflicts.map(\.reason) == [.referenceMissing])
        #expect(outcome.conflicts.first?.object == members[0] && outcome.conflicts.first?.attributes == ["team"])
        let snapshot = try store.snapshot()
        #expect(try snapshot.row(members[0]) == nil)
        let other = try snapshot.row(members[1])
        #expect(policy == .refuse ? other == nil : other?["seen"] == .null && other?["name"] == "b")
        try store.close()
        try folder.expectIntact()
    }

    @Test func anAppliedReferenceToADeletedObjectFollowsItsRule() throws {
        let source = try store()
        let (ids, _) = try source.writeOptimistically { transaction in
            (team: try transaction.insert("Team", [:]), home: try transaction.insert("Home", [:]))
        }
        let second = try StoreFolder()
        let target = try second.open(ReferenceSample.entities)
        for transaction in try source.export() { try target.apply(transaction) }
        let place = try source.currentToken
        try source.writeOptimistically { transaction in
            try transaction.insert(
                "Member",
                ["team": .object(ids.team), "seen": .object(ids.home), "visited": .orderedObjects([ids.home])])
        }
        let there = try target.snapshot()
        let gone = try ["Team", "Home"].compactMap { try there.rows(of: $0).first?.id }
        try target.writeOptimistically { transaction in for object in gone { try transaction.delete(object) } }
        let exported = try #require(try source.export(after: .token(place)).first)
        let error = #expect(throws: StoreError.self) { try target.apply(exported) }
        #expect(error?.applyConflicts.map(\.reason) == [.unknownReference])
        #expect(error?.applyConflicts.first?.attributes == ["team"])
        try target.apply(exported, conflicts: .exportWins)
        let member = try #require(try target.snapshot().rows(of: "Member").first)
        #expect(member["team"] == .null && member["seen"] == .null && member["visited"] == .orderedObjects([]))
        try source.close()
        try target.close()
        try folder.expectIntact()
        try second.expectIntact()
    }
}
