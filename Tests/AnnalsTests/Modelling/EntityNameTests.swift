// Objects as URIs, the one object on the other side, and which names properties may have.

import Annals
import FoundationEssentials
import TestSupport
import Testing

struct Person: Entity, Equatable {
    var name = ""
    var passport = ToOne<Passport>()
    var boss: Reference<Person>?
    var deputy = ToOne<Person>()

    static let schema = Schema<Person> { Relationship(\.boss, .unique, inverse: \.deputy) }
}

struct Passport: Entity, Equatable {
    var number = 0
    var owner: Reference<Person>?

    static let schema = Schema<Passport> {
        Attribute(\.number, .unique)
        Relationship(\.owner, .unique, inverse: \.passport, whenTargetIsDeleted: .cascade)
    }
}

@Suite struct EntityNameTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func open() throws -> Store { try Store(at: folder.path, entities: [Person.self, Passport.self]) }

    // MARK: The other side that is one

    @Test func theOtherSideOfAUniqueRelationshipIsOneObject() throws {
        let store = try open()
        let (people, _) = try store.write { transaction in
            let ada = try transaction.insert(Person(name: "Ada"))
            let bob = try transaction.insert(Person(name: "Bob", boss: ada))
            let passport = try transaction.insert(Passport(number: 7, owner: ada))
            #expect(try transaction.reference(\.passport, of: ada) == passport)
            #expect(try transaction.reference(\.passport, of: bob) == nil)
            let found = try transaction.fetch(Person.self, where: #Predicate { $0.passport?.number == 7 })
            #expect(found.map(\.name) == ["Ada"])
            return (ada, bob)
        }
        let snapshot = try store.snapshot()
        #expect(try snapshot.value(\.passport, of: people.0)?.number == 7)
        #expect(try snapshot.reference(\.passport, of: people.1) == nil)
        #expect(try snapshot.value(\.deputy, of: people.0)?.name == "Bob")
        #expect(try snapshot.fetch(Person.self, where: #Predicate { $0.passport?.number == 7 }).map(\.name) == ["Ada"])
        #expect(try snapshot.fetch(Person.self, where: #Predicate { $0.passport?.number == 8 }).isEmpty)
        #expect(try snapshot.fetch(Person.self, where: #Predicate { $0.deputy?.name == "Bob" }).map(\.name) == ["Ada"])
        #expect(
            try snapshot.fetch(Person.self, where: #Predicate { $0.passport?.number == nil }).map(\.name) == ["Bob"])
        #expect(
            try snapshot.fetch(Person.self, where: #Predicate { ($0.passport?.number ?? 0) == 0 }).map(\.name)
                == ["Bob"])
        let plan = try snapshot.explain(Person.self, where: #Predicate { $0.passport?.number == 7 })
        #expect(!plan.isPartlyEvaluated, "\(plan)")
        // Nobody else may refer to her.
        let taken = expect(.uniqueViolation) {
            try store.writeOptimistically { try $0.insert(Passport(number: 8, owner: people.0)) }
        }
        #expect(taken?.attributes == ["owner"])
        try store.writeOptimistically { try $0.delete(people.0) }
        #expect(try store.snapshot().count(Passport.self) == 0)
        #expect(try store.snapshot()[people.1]?.boss == nil)
        try store.close()
        try folder.expectIntact()
    }

    @Test func aToOneInverseNeedsAUniqueRelationship() throws {
        struct Owner: Entity {
            var name = ""
            var thing = ToOne<Thing>()
        }
        struct Thing: Entity {
            var owner: Reference<Owner>?
            static let schema = Schema<Thing> { Relationship(\.owner, inverse: \.thing) }
        }
        let error = expect(.modelInvalid) { try Store(at: folder.path, entities: [Owner.self, Thing.self]) }
        #expect(
            error?.message.contains(
                "“owner” of “Thing” has the inverse “thing”, which is one object, but several objects may "
                    + "refer to the same object: add the option .unique") == true, "\(error?.message ?? "")")
    }

    // MARK: URIs

    @Test func aURINamesAnObjectOfAStore() throws {
        let store = try open()
        let (passport, _) = try store.writeOptimistically { try $0.insert(Passport(number: 1)) }
        let uri = try store.uri(of: passport)
        #expect(uri.absoluteString == "annals://\(store.identifier.uuidString)/Passport/\(passport.id)")
        #expect(try store.reference(for: uri, as: Passport.self) == passport)
        let same: Reference<Passport> = try store.reference(for: uri.absoluteString)
        #expect(same == passport)
        #expect(try store.objectID(for: uri) == passport.id && store.uri(of: passport.id) == uri)
        // It outlives the object and the name of its entity, in copies too.
        try store.writeOptimistically { try $0.delete(passport) }
        #expect(try store.reference(for: uri, as: Passport.self) == passport)
        #expect(try store.snapshot()[passport] == nil)
        try store.backup(to: folder.temporary.path("copy.annals"))
        let copy = try Store(at: folder.temporary.path("copy.annals"))
        try copy.changeSchema([.renameEntity("Passport", to: "Travel document")])
        #expect(try copy.objectID(for: uri) == passport.id)
        let renamed = try copy.uri(of: passport.id)
        #expect(renamed.absoluteString.contains("/Travel%20document/"))
        #expect(try store.objectID(for: renamed) == passport.id)
        try copy.close()
        try Store.destroy(at: folder.temporary.path("copy.annals"))
        // What is none of an object of this store and type.
        let wrong = expect(.invalidArgument) { try store.reference(for: uri, as: Person.self) }
        #expect(wrong?.message.contains("“Passport”") == true && wrong?.message.contains("“Person”") == true)
        expect(.invalidArgument) { try store.uri(of: Reference<Person>(passport.id)) }
        let foreign = uri.absoluteString.replacing(store.identifier.uuidString, with: UUID().uuidString)
        expect(.referenceForeign) { try store.objectID(for: foreign) }
        for text in [
            "", "annals:", "annals://x/Passport/2:1", uri.absoluteString + "/", uri.absoluteString + "x",
            uri.absoluteString.replacing("annals", with: "http"), uri.absoluteString.replacing("/Passport", with: "/"),
            uri.absoluteString.replacing("/Passport", with: ""), "annals://\(store.identifier)/Passport/0:1",
        ] {
            expect(.invalidArgument) { try store.objectID(for: text) }
        }
        expect(.unknownEntity) { try store.objectID(for: "annals://\(store.identifier)/No/99:1") }
        #expect(
            try store.objectID(for: "ANNALS://\(store.identifier.uuidString.lowercased())/P/\(passport.id)").number == 1
        )
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Names of properties

    @Test func everyMemberOfObjectsIsAReservedName() throws {
        let root = PackageFolder.url("Sources/Annals")
        var members: Set<String> = []
        var found = 0
        for folder in ["Modelling", "Fetching", "Objects"] {
            let path = root.appending(path: folder).path(percentEncoded: false)
            for file in (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? [] {
                let text = try String(
                    decoding: Data(contentsOf: root.appending(path: "\(folder)/\(file)")), as: UTF8.self)
                var isObject = false
                for line in text.split(separator: "\n") {
                    if line.contains(/^(public final class Object<|(public )?extension Object\b)/) {
                        isObject = true
                        found += 1
                    } else if line.hasPrefix("}") {
                        isObject = false
                    }
                    guard isObject, !line.contains(" static ") else { continue }
                    if let member = line.firstMatch(of: /^    (?:@\S+ )?public .*?(?:var|let|func) ([a-zA-Z]+)/) {
                        members.insert(String(member.output.1))
                    }
                }
            }
        }
        #expect(found >= 2 && members.contains("objectReference"), "\(members)")
        // These are disfavored: a property wins over them.
        #expect(members.subtracting(ReservedNames.ofObjects) == ["hash", "hashValue"])
    }

    enum Clashes {
        struct Hidden: Entity {
            var name = ""
            var objectReference = ""
            var objectStatus = 0
            var schema = ""
            var objectUpdate = ToMany<Other>()
            static let schema = Schema<Hidden> { Transient(\.objectStatus) }
        }
        struct Other: Entity {
            var target: Reference<Hidden>?
            static let schema = Schema<Other> { Relationship(\.target, inverse: \.objectUpdate) }
        }
    }

    @Test func aPropertyMayNotHideAMemberOfObjects() throws {
        let error = expect(.modelInvalid) {
            try Store(at: folder.path, entities: [Clashes.Hidden.self, Clashes.Other.self])
        }
        let lines = error?.message.split(separator: "\n") ?? []
        #expect(lines.count == 4, "\(lines)")
        for name in ["objectReference", "objectStatus", "objectUpdate"] {
            #expect(lines.contains { $0.hasPrefix("“\(name)” of “Hidden” has the name of a member of every object") })
        }
        #expect(lines.contains { $0.hasPrefix("“schema” of “Hidden” has the name of a member of the entity's type") })
        #expect(lines.contains { $0.contains("choose another name, with .renamed(from: \"objectReference\")") })
    }

    /// Names that programs are likely to use, and that a class could have by itself.
    struct Free: Entity, Equatable {
        var id = ""
        var key = ""
        var snapshot = 2
        var context = 3
        var value = 4
        var type = 5
        var source = 6
        var current = 7
        var loaded = 8
    }

    @Test func otherNamesAreFree() throws {
        let store = try Store(at: folder.path, entities: [Free.self])
        try store.writeOptimistically { try $0.insert(Free(id: "x", key: "y", current: 9)) }
        let snapshot = try store.snapshot()
        #expect(try snapshot.count(Free.self, where: #Predicate { $0.id == "x" }) == 1)
        #expect(try snapshot.count(Free.self, where: #Predicate { $0.key == "y" }) == 1)
        #expect(try snapshot.count(Free.self, where: #Predicate { $0.snapshot == 2 && $0.context == 3 }) == 1)
        #expect(try snapshot.count(Free.self, where: #Predicate { $0.value == 4 }) == 1)
        let more = try snapshot.count(
            Free.self, where: #Predicate { $0.type == 5 && $0.source == 6 && $0.current == 9 && $0.loaded == 8 })
        #expect(more == 1)
        try store.close()
        try folder.expectIntact()
    }
}
