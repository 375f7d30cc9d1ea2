// Deletions of another store that a delete rule denies here: a conflict like others, and the exchange goes on.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct DeniedApplyTests {
    struct Person: Entity {
        var name = ""
        var passports = ToMany<Passport>()
    }

    struct Passport: Entity {
        var number = 0
        var owner: Reference<Person>?
        var heir: Reference<Person>?
        var friends: [Reference<Person>] = []

        static let schema = Schema<Passport> {
            Relationship(\.owner, inverse: \.passports, whenTargetIsDeleted: .deny)
            Relationship(\.heir, .required, whenTargetIsDeleted: .nullify)
            Relationship(\.friends, whenTargetIsDeleted: .nullify)
        }
    }

    /// Refers to a passport, and goes with it.
    struct Visa: Entity {
        var passport: Reference<Passport>?
        static let schema = Schema<Visa> { Relationship(\.passport, whenTargetIsDeleted: .cascade) }
    }

    /// Holds a visa.
    struct Stamp: Entity {
        var visa: Reference<Visa>?
        static let schema = Schema<Stamp> { Relationship(\.visa, whenTargetIsDeleted: .deny) }
    }

    static let entities: [any Entity.Type] = [Person.self, Passport.self, Visa.self, Stamp.self]

    /// What refers to the deleted object here.
    enum Referrer: CaseIterable { case denied, required, byCascade, nullified, goesToo }

    @Test(arguments: Referrer.allCases, ConflictPolicy.allCases)
    func aDeniedDeletionIsAConflict(referrer: Referrer, policy: ConflictPolicy) throws {
        let folders = (try StoreFolder(), try StoreFolder())
        let there = try Store(at: folders.0.path, entities: Self.entities)
        let here = try Store(at: folders.1.path, entities: Self.entities)
        func relay(_ policy: ConflictPolicy) throws -> [ApplyConflict] {
            var conflicts: [ApplyConflict] = []
            for transaction in try there.export(after: here.lastApplied(from: there.identifier).map { .token($0) }) {
                conflicts += try here.apply(transaction, conflicts: policy).conflicts
            }
            return conflicts
        }
        let (made, _) = try there.write { transaction in
            let ann = try transaction.insert(Person(name: "ann"))
            let bob = try transaction.insert(Person(name: "bob"))
            let passport = try transaction.insert(Passport(number: 1, owner: bob, heir: bob))
            return (ann: ann, bob: bob, passport: passport)
        }
        #expect(try relay(.error).isEmpty)
        let snapshot = try here.snapshot()
        let ann = try #require(snapshot.references(to: Person.self, where: #Predicate { $0.name == "ann" }).first)
        let bob = try #require(snapshot.references(to: Person.self, where: #Predicate { $0.name == "bob" }).first)
        let passport = try #require(snapshot.references(to: Passport.self).first)
        let (own, _) = try here.write { transaction -> ObjectID? in
            switch referrer {
            case .denied: return try transaction.insert(Passport(number: 2, owner: ann, heir: bob)).id
            case .required: return try transaction.insert(Passport(number: 2, heir: ann)).id
            case .nullified, .goesToo:
                _ = try transaction.insert(Passport(number: 2, heir: bob, friends: [ann, bob]))
                if referrer == .goesToo { _ = try transaction.insert(Visa(passport: passport)) }
                return nil
            case .byCascade:
                let visa = try transaction.insert(Visa(passport: passport))
                return try transaction.insert(Stamp(visa: visa)).id
            }
        }
        try there.write { transaction in
            switch referrer {
            case .byCascade, .goesToo: try transaction.delete(made.passport)
            default: try transaction.delete(made.ann)
            }
            try transaction.update(made.bob) { $0.name = "robert" }
        }
        let before = try here.currentToken
        if own != nil {
            let error = expect(.applyConflict) { try relay(.error) }
            #expect(error?.applyConflicts.map(\.reason) == own.map { [.stillReferred(by: $0)] })
            #expect(try here.currentToken == before)
        }
        if policy == .error {
            // The way out that the error names: change what is here first.
            if let own {
                try here.write { try $0.delete(own) }
            }
            #expect(try relay(.error).isEmpty)
        } else {
            #expect(try relay(policy).count == (own == nil ? 0 : 1))
        }
        let now = try here.snapshot()
        let isLeft = policy != .error && own != nil
        switch referrer {
        case .byCascade, .goesToo:
            #expect(try (now[passport] != nil) == isLeft && now.count(Visa.self) == (isLeft ? 1 : 0))
        default: #expect(try (now[ann] != nil) == isLeft)
        }
        #expect(try now[bob]?.name == "robert")
        // The exchange goes on.
        try there.write { try $0.update(made.bob) { $0.name = "bob" } }
        #expect(try relay(.error).isEmpty && here.snapshot()[bob]?.name == "bob")
        for (store, folder) in [(there, folders.0), (here, folders.1)] {
            try store.close()
            try folder.expectIntact()
        }
    }
}
