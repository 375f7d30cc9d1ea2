// A save says everything for which it is refused, and `validate()` says the same without saving.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct SaveFailureTests: StoreSuite {
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

    struct Captain: Entity {
        var name = ""
        static let schema = Schema<Captain> { Attribute(\.name, .indexed) }
    }

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

    struct Parcel: Entity {
        var label = ""
        var code = ""
        var mark: String? = "m"
        var draught = Draught()
        var readings = [1.0]
        var count: UInt64 = 0
        var weight = 1
        var stops: [Reference<Captain>] = []
        var sender: Reference<Captain>?
        var carrier: Reference<Captain>?
        var next: Reference<Parcel>?
        static let schema = Schema<Parcel> {
            Attribute(\.label, .unique)
            Attribute(\.code, .indexed)
            Attribute(\.mark, .required)
            Attribute(\.weight, .range(0...9))
            Relationship(\.next, whenTargetIsDeleted: .deny)
        }
    }

    static let entities: [any Entity.Type] = [Port.self, Ship.self, Captain.self, Command.self, Parcel.self]
    static let tooLong = String(repeating: "x", count: 65_537)

    let folder: StoreFolder
    let store: Store

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: Self.entities)
        try store.writeOptimistically { transaction in
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
        Fault(name: "too long for an index", expected: ["tooLarge Captain.name"]) { context in
            context.insert(Captain(name: tooLong))
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

    @Test func everySetOfFaultsIsReportedCompletely() throws {
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

    @MainActor @Test func aBackgroundSaveReportsEveryFault() async throws {
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

    // MARK: Several reasons in one object

    /// Each breaks and mends one property of a parcel.
    private struct ParcelFault {
        let expected: String
        let plant: (inout Parcel) -> Void
        let mend: (inout Parcel) -> Void
    }

    private func parcelFaults(_ elsewhere: Reference<Captain>, _ unsaved: Reference<Captain>) throws -> [ParcelFault] {
        let captain = try #require(try store.snapshot().references(to: Captain.self).first)
        let faults: [(String, (inout Parcel) -> Void, (inout Parcel) -> Void)] = [
            ("valueOutOfRange Parcel.draught", { $0.draught.metres = .nan }, { $0.draught.metres = 2 }),
            ("valueOutOfRange Parcel.readings", { $0.readings = [.infinity] }, { $0.readings = [2] }),
            ("valueOutOfRange Parcel.count", { $0.count = .max }, { $0.count = 7 }),
            ("requiredMissing Parcel.mark", { $0.mark = nil }, { $0.mark = "n" }),
            ("validationFailed Parcel.weight", { $0.weight = -1 }, { $0.weight = 2 }),
            ("tooLarge Parcel.label", { $0.label = Self.tooLong }, { $0.label = "mended" }),
            ("tooLarge Parcel.code", { $0.code = Self.tooLong }, { $0.code = "mended" }),
            ("invalidArgument Parcel.stops", { $0.stops = [captain, captain] }, { $0.stops = [captain] }),
            ("referenceForeign Parcel.sender", { $0.sender = elsewhere }, { $0.sender = captain }),
            ("wrongContext Parcel.carrier", { $0.carrier = unsaved }, { $0.carrier = captain }),
        ]
        return faults.map { ParcelFault(expected: $0.0, plant: $0.1, mend: $0.2) }
    }

    @Test func everyPropertyThatCannotBeStoredIsReported() throws {
        let elsewhere = try Store(inMemory: [Captain.self])
        let stranger = try elsewhere.writeOptimistically { try $0.insert(Captain(name: "s")) }.0
        let other = store.makeContext()
        let unsaved = other.insert(Captain(name: "unsaved"))
        let faults = try parcelFaults(stranger, unsaved.objectReference)
        let (stored, _) = try store.writeOptimistically { try $0.insert(Parcel(label: "stored")) }
        for set in 1..<(1 << faults.count) {
            let context = store.makeContext()
            let parcel = set % 2 == 0 ? try context.object(stored) : context.insert(Parcel(label: "new"))
            var planted = faults.indices.filter { set >> $0 & 1 == 1 }.map { faults[$0] }
            parcel.objectUpdate { value in for fault in planted { fault.plant(&value) } }
            while !planted.isEmpty {
                let valid = expectError { try context.validate() }
                let saved = expectError { try context.save() }
                #expect(Self.named(valid) == Set(planted.map(\.expected)), "\(valid?.message ?? "nothing")")
                #expect(valid == saved && valid?.failures.count == planted.count)
                let codes: Set<StoreError.Code> = [.valueOutOfRange, .tooLarge, .requiredMissing]
                for failure in valid?.failures ?? [] where codes.contains(failure.code) {
                    #expect(failure.object == parcel.objectReference.id)
                }
                // All of them mended, one after the other, in some of the sets.
                guard set % 61 == 0 || set == (1 << faults.count) - 1 else { break }
                let mended = planted.remove(at: set % planted.count)
                parcel.objectUpdate { mended.mend(&$0) }
            }
            if planted.isEmpty {
                try context.validate()
                try context.save()
                try store.writeOptimistically { transaction in
                    if parcel.objectReference != stored { try transaction.delete(parcel.objectReference) }
                    try transaction.update(stored, to: Parcel(label: "stored"))
                }
            }
            context.close()
        }
        try elsewhere.close()
        try end()
    }

    /// What refers to an object that cannot be written, and what that would have freed, is no failure.
    @Test func anObjectThatIsRefusedCausesNoOtherFailure() throws {
        let faults: [(StoreError.Code, (Object<Parcel>) -> Void)] = [
            (.valueOutOfRange, { $0.draught.metres = .nan }), (.valueOutOfRange, { $0.count = .max }),
            (.requiredMissing, { $0.mark = nil }), (.validationFailed, { $0.weight = -1 }),
            (.tooLarge, { $0.code = Self.tooLong }),
        ]
        let (stored, target) = try store.writeOptimistically { transaction in
            let target = try transaction.insert(Parcel(label: "target"))
            return (try transaction.insert(Parcel(label: "held", next: target)), target)
        }.0
        for (code, plant) in faults {
            for isPermanent in [false, true] {
                let context = store.makeContext()
                let first = context.insert(Parcel(label: "first"))
                if isPermanent { try context.obtainPermanentReferences(for: [first]) }
                plant(first)
                context.insert(Parcel(label: "second", next: first.objectReference))
                let error = expectError { try context.validate() }
                #expect(error?.failures.map(\.code) == [code], "\(error?.message ?? "")")
                #expect(expectError { try context.save() } == error)
                context.close()
            }
            let context = store.makeContext()
            let held = try context.object(stored)
            held.label = "another"
            held.next = nil
            plant(held)
            context.insert(Parcel(label: "held"))
            context.delete(try context.object(target))
            let error = expectError { try context.validate() }
            #expect(error?.failures.map(\.code) == [code], "\(error?.message ?? "")")
            #expect(expectError { try context.save() } == error)
            context.close()
        }
        try end()
    }

    /// The reason for which an object is not worked out again at all: it must refer to what others have deleted.
    @Test func anObjectWhoseTargetIsDeletedCausesNoOtherFailure() throws {
        struct Leg: Entity {
            var label = ""
            var captain: Reference<Captain>?
            var next: Reference<Leg>?
            static let schema = Schema<Leg> {
                Attribute(\.label, .unique)
                Relationship(\.captain, .required)
            }
        }
        let store = try Store(inMemory: [Leg.self, Captain.self])
        let (captain, other) = try store.writeOptimistically { transaction in
            (try transaction.insert(Captain(name: "a")), try transaction.insert(Captain(name: "b")))
        }.0
        let context = store.makeContext()
        context.mergePolicy = .objectWins
        let first = context.insert(Leg(label: "first", captain: captain))
        context.insert(Leg(label: "second", captain: other, next: first.objectReference))
        try store.writeOptimistically { try $0.delete(captain) }
        let valid = expectError { try context.validate() }
        #expect(valid?.failures.map(\.code) == [.referenceMissing], "\(valid?.message ?? "")")
        #expect(expectError { try context.save() } == valid)
        first.captain = try context.object(other)
        try context.save()
        #expect(try store.snapshot().count(Leg.self) == 2)
        context.close()
        try store.close()
    }

    /// The values of a row that are in an index must be in the row, also together.
    @Test func valuesThatAreTooLongTogetherAreReported() throws {
        struct Wide: Entity, Equatable {
            var (a, b, c, d, e) = ("", "", "", "", "")
            var (p, q, r, s) = ("", "", "", "")
            static let schema = Schema<Wide> {
                Attribute(\.a, .unique)
                Attribute(\.b, .indexed)
                Attribute(\.c, .indexed)
                Attribute(\.d, .indexed)
                Attribute(\.e, .indexed)
            }
        }
        let store = try Store(inMemory: [Wide.self, Captain.self])
        let context = store.makeContext()
        let wide = context.insert(Wide())
        func fill(_ count: Int) {
            let text = String(repeating: "y", count: count)
            wide.objectUpdate { ($0.a, $0.b, $0.c, $0.d, $0.e) = (text, text, text, text, text) }
        }
        fill(60_000)
        let captain = context.insert(Captain(name: Self.tooLong))
        let valid = expectError { try context.validate() }
        #expect(valid?.failures.map(\.code).allSatisfy { $0 == .tooLarge } == true)
        let objects = Set((valid?.failures ?? []).compactMap(\.object))
        #expect(objects == [wide.objectReference.id, captain.objectReference.id])
        #expect(expectError { try context.save() } == valid)
        captain.name = "short"
        #expect(expectError { try context.validate() }?.object == wide.objectReference.id)
        fill(50_000)
        try context.validate()
        try context.save()
        // Values that are in no index make room for those that are.
        fill(1)
        wide.a = String(repeating: "y", count: 65_536)
        let filling = (0..<4).map { String(repeating: "\($0)", count: 60_000) }
        wide.objectUpdate { ($0.p, $0.q, $0.r, $0.s) = (filling[0], filling[1], filling[2], filling[3]) }
        try context.validate()
        try context.save()
        let (reference, text) = (wide.objectReference, wide.a)
        #expect(try store.snapshot()[reference] == wide.objectStatus.snapshot)
        #expect(try store.snapshot().references(to: Wide.self, where: #Predicate { $0.a == text }) == [reference])
        context.close()
        try store.close()
    }

    /// A ship that cannot be written leaves a port: whether the port has too many is not known.
    @Test func anObjectThatCannotBeWrittenMakesNoCountFail() throws {
        let context = store.makeContext()
        let port = context.insert(Port(name: "Count"))
        let ships = (0..<2).map { _ in context.insert(Ship(port: port.objectReference)) }
        try context.save()
        context.insert(Ship(port: port.objectReference))
        ships[0].port = nil
        try context.validate()
        ships[0].flag = nil
        #expect(expectError { try context.validate() }?.failures.map(\.code) == [.requiredMissing])
        ships[0].flag = "red"
        try context.save()
        try end()
    }

    // MARK: Batches

    @Test func errorsOfABatchNameTheElement() throws {
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
        let long = expect(.tooLarge) {
            try store.insert(contentsOf: ["a", Self.tooLong].map { Captain(name: $0) })
        }
        #expect(long?.elements == [1] && long?.attributes == ["name"] && long?.entity == "Captain")
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
