// A save says everything for which it is refused, and `validate()` says the same without saving.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct SaveFailureTests {
    struct Port: Entity {
        var name = ""
        var ships = ToMany<Ship>()
        static let schema = Schema<Port> {
            Attribute(\.name, .unique, .length(1...9))
            Attribute(\.ships, .count(...2))
        }
    }

    struct Ship: Entity {
        var code = ""
        var tons = 0
        var flag: String? = "red"
        var draught = Draught()
        var port: Reference<Port>?
        static let schema = Schema<Ship> {
            Attribute(\.code, .pattern("[A-Z]*[0-9]*"))
            Attribute(\.tons, .range(0...1_000))
            Attribute(\.flag, .required)
            Relationship(\.port, inverse: \.ships, whenTargetIsDeleted: .deny)
        }
    }

    struct Draught: Codable, Hashable { var metres = 1.0 }

    struct Captain: Entity { var name = "" }

    struct Command: Entity {
        var captain: Reference<Captain>?
        var mate: Reference<Captain>?
        var crew: Set<Reference<Captain>> = []
        static let schema = Schema<Command> {
            Relationship(\.captain, .required, whenTargetIsDeleted: .nullify)
            Relationship(\.mate, .required, whenTargetIsDeleted: .nullify)
            Relationship(\.crew, .count(1...), whenTargetIsDeleted: .nullify)
        }
    }

    static let entities: [any Entity.Type] = [Port.self, Ship.self, Captain.self, Command.self]

    let folder: StoreFolder
    let store: Store

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: Self.entities)
        try store.commit { transaction in
            let north = try transaction.insert(Port(name: "North"))
            try transaction.insert(Port(name: "South"))
            try transaction.insert(Ship(code: "A1", port: north))
            let full = try transaction.insert(Port(name: "Full"))
            for number in 2...3 { try transaction.insert(Ship(code: "A\(number)", port: full)) }
            let captains = try (0..<3).map { try transaction.insert(Captain(name: "c\($0)")) }
            try transaction.insert(Command(captain: captains[0], mate: captains[1], crew: [captains[2]]))
            try transaction.insert(Command(captain: captains[1], mate: captains[1], crew: [captains[1]]))
        }
    }

    private func end() throws {
        try store.close()
        try folder.expectIntact()
    }

    /// What is wrong with one object, and how the error names it.
    struct Fault: Sendable {
        let name: String
        let expected: Set<String>
        let plant: @Sendable (Context) throws -> Void
    }

    private static func port(_ name: String, _ context: Context) throws -> Object<Port> {
        try #require(try context.first(Port.self, where: #Predicate { $0.name == name }))
    }

    private static func captain(_ name: String, _ context: Context) throws -> Object<Captain> {
        try #require(try context.first(Captain.self, where: #Predicate { $0.name == name }))
    }

    static let faults: [Fault] = [
        Fault(name: "range", expected: ["validationFailed Ship.tons"]) { $0.insert(Ship(tons: -1)) },
        Fault(name: "pattern of an existing object", expected: ["validationFailed Ship.code"]) { context in
            try context.first(Ship.self, where: #Predicate { $0.code == "A1" })?.code = "lower"
        },
        Fault(name: "nothing that is required", expected: ["requiredMissing Ship.flag"]) { context in
            context.insert(Ship(flag: nil))
        },
        Fault(name: "two new ones", expected: ["uniqueViolation Port.name"]) { context in
            for _ in 0..<2 { context.insert(Port(name: "Twin")) }
        },
        Fault(name: "one of the store", expected: ["uniqueViolation Port.name"]) { context in
            context.insert(Port(name: "South"))
        },
        Fault(name: "deny", expected: ["deleteDenied Ship.port"]) { context in
            context.delete(try port("North", context))
        },
        Fault(
            name: "two required references lost",
            expected: [
                "requiredMissing Command.captain", "requiredMissing Command.mate", "validationFailed Command.crew",
            ]
        ) { context in
            for name in ["c0", "c1"] { context.delete(try captain(name, context)) }
        },
        Fault(name: "too few left", expected: ["validationFailed Command.crew"]) { context in
            context.delete(try captain("c2", context))
        },
        Fault(name: "too many refer", expected: ["validationFailed Port.ships"]) { context in
            context.insert(Ship(code: "B1")).port = try port("Full", context)
        },
        Fault(name: "no number", expected: ["valueOutOfRange Ship.draught"]) { context in
            context.insert(Ship(draught: Draught(metres: .nan)))
        },
    ]

    private static func named(_ error: StoreError?) -> Set<String> {
        Set(
            (error?.failures ?? []).flatMap { error in
                error.code == .validationFailed
                    ? error.validationFailures.map { "\(error.code) \($0.entity).\($0.attribute)" }
                    : error.attributes.map { "\(error.code) \(error.entity ?? "?").\($0)" }
            })
    }

    @Test func everySetOfFaultsIsReportedWhole() throws {
        let number = try store.currentToken.number
        for set in 1..<(1 << Self.faults.count) {
            let context = store.makeContext()
            let faults = Self.faults.indices.filter { set >> $0 & 1 == 1 }.map { Self.faults[$0] }
            for fault in faults { try fault.plant(context) }
            let pending = context.insertedObjects(Ship.self).count
            let valid = expectError { try context.validate() }
            let saved = expectError { try context.save() }
            let wanted = faults.reduce(into: Set<String>()) { $0.formUnion($1.expected) }
            let title = faults.map(\.name).joined(separator: ", ")
            #expect(Self.named(valid) == wanted, "\(title): \(valid?.message ?? "nothing")")
            #expect(valid == saved, "\(title): \(saved?.message ?? "nothing")")
            #expect(context.insertedObjects(Ship.self).count == pending)
            context.close()
        }
        #expect(try store.currentToken.number == number)
        try end()
    }

    @Test func objectsAreNamedAsTheContextKnowsThem() throws {
        let context = store.makeContext()
        let twins = (0..<2).map { _ in context.insert(Port(name: "Twin")) }
        let ship = context.insert(Ship(tons: 2_000, flag: nil))
        let error = try #require(expectError { try context.save() })
        #expect(error.failures.map(\.code) == [.validationFailed, .requiredMissing, .uniqueViolation])
        #expect(error.code == .validationFailed && error.validationFailures.map(\.object) == [ship.objectReference.id])
        let (required, unique) = (error.failures[1], error.failures[2])
        #expect(required.object == ship.objectReference.id)
        #expect(Set(unique.objects) == Set(twins.map(\.objectReference.id)))
        #expect(unique.message.contains("two objects") && error.message.contains(unique.message))
        ship.tons = 1
        ship.flag = "blue"
        let left = try #require(expectError { try context.save() })
        #expect(left.code == .uniqueViolation && left.failures == [left] && Set(left.objects) == Set(unique.objects))
        twins[1].name = "South"
        let south = try #require(expectError { try context.save() })
        let existing = try Self.port("South", store.makeContext()).objectReference.id
        #expect(south.objects == [existing, twins[1].objectReference.id])
        #expect(south.message.contains("\(existing) has this value already"))
        twins[1].name = "West"
        try context.validate()
        try context.save()
        try end()
    }

    @MainActor @Test func aBackgroundSaveReportsAllToo() async throws {
        let context = store.makeContext()
        for fault in Self.faults { try fault.plant(context) }
        let valid = expectError { try context.validate() }
        do {
            try await context.saveInBackground()
            Issue.record("saved")
        } catch let error as StoreError {
            #expect(error == valid && Self.named(error).count > 9)
        }
        context.rollback()
        try context.validate()
        try end()
    }

    @Test func keysThatAreExchangedAreNoFailure() throws {
        let context = store.makeContext()
        let (north, south) = (try Self.port("North", context), try Self.port("South", context))
        (north.name, south.name) = (south.name, north.name)
        try context.validate()
        try context.save()
        context.delete(try Self.port("South", context).ships[0])
        context.delete(try Self.port("South", context))
        context.insert(Port(name: "South"))
        try context.validate()
        try context.save()
        try end()
    }

    /// The store may change after `validate()`: it says what is wrong now, and changes nothing.
    @Test func validatingChangesNothing() throws {
        let (context, other) = (store.makeContext(), store.makeContext())
        let port = context.insert(Port(name: "New"))
        let number = try store.currentToken.number
        for _ in 0..<3 { try context.validate() }
        #expect(try store.currentToken.number == number && port.objectStatus.isInserted)
        other.insert(Port(name: "New"))
        try other.save()
        #expect(expectError { try context.validate() }?.code == .uniqueViolation)
        #expect(expectError { try context.save() }?.code == .uniqueViolation)
        context.upserts = true
        try context.validate()
        try context.save()
        try end()
    }

    // MARK: Batches

    @Test func errorsOfABatchSayWhichElement() throws {
        func elements(_ code: StoreError.Code, _ ships: [Ship]) -> [Int] {
            let error = expect(code) { try store.insert(contentsOf: ships) }
            let once = expect(code) { try store.insert(contentsOf: AnySequence(ships)) }
            #expect(error?.elements == once?.elements)
            #expect(error?.message.contains(" of the batch (the first is 0): ") == true, "\(error?.message ?? "")")
            let failures = error?.validationFailures ?? []
            #expect(failures.isEmpty || failures.map(\.element) == error?.elements)
            return error?.elements ?? []
        }
        let good = Ship()
        #expect(elements(.requiredMissing, [good, good, Ship(flag: nil), good]) == [2])
        #expect(elements(.valueOutOfRange, [Ship(draught: Draught(metres: .nan))]) == [0])
        #expect(elements(.validationFailed, [good, Ship(tons: -1), good, Ship(code: "x")]) == [1, 3])
        let missing = Reference<Port>(try #require(ObjectID(entityNumber: 1, number: 999)))
        #expect(elements(.referenceMissing, [good, Ship(port: missing)]) == [1])
        let twins = expect(.uniqueViolation) {
            try store.insert(contentsOf: ["a", "b", "c", "b"].map { Port(name: $0) })
        }
        #expect(twins?.elements == [1, 3] && twins?.message.hasPrefix("Elements 1, 3 of the batch (the first") == true)
        let taken = expect(.uniqueViolation) { try store.insert(contentsOf: [Port(name: "a"), Port(name: "North")]) }
        #expect(taken?.elements == [1])
        let upserted = expect(.validationFailed) {
            try store.upsert(contentsOf: ["North", "East", ""].map { Port(name: $0) })
        }
        #expect(upserted?.elements == [2])
        try end()
    }

    private func expectError(_ body: () throws -> Void) -> StoreError? {
        do {
            try body()
            return nil
        } catch {
            return error as? StoreError
        }
    }
}
