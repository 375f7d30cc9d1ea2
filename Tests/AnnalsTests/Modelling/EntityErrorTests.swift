// Every error of typed entities, met for real, with what it says as values. Nothing has changed after any of them.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct EntityErrorTests: StoreSuite {
    let folder: StoreFolder
    let store: Store
    let dock: Reference<Dock>
    let ship: Reference<Ship>

    struct Dock: Entity {
        var name = ""
        var ships = ToMany<Ship>()
        static let schema = Schema<Dock> {
            Attribute(\.name, .length(1...20), .check("must not be “bad”") { $0 != "bad" })
        }
    }
    struct Ship: Entity {
        var code = ""
        var tons = 0
        var length: UInt64 = 1
        var flag: String?
        var dock: Reference<Dock>?
        var sisters: [Reference<Ship>] = []

        static let schema = Schema<Ship> {
            Attribute(\.code, .unique, .pattern("[A-Z]{2}[0-9]+"))
            Attribute(\.tons, .range(0...1_000))
            Attribute(\.flag, .required, .pattern("[a-z]*"))
            Relationship(\.dock, inverse: \.ships, whenTargetIsDeleted: .deny)
            Attribute(\.sisters, .count(0...1))
        }
    }
    /// The same with a narrower type.
    struct SmallShip: Entity {
        var code = ""
        var tons: Int8 = 0
        var length: UInt64 = 1
        static let schema = Schema<SmallShip>("Ship") { Attribute(\.code, .unique) }
    }

    struct SmallDock: Entity {
        var name = ""
        static let schema = Schema<SmallDock>("Dock")
    }

    init() throws {
        let folder = try StoreFolder()
        let store = try Store(at: folder.path, entities: [Dock.self, Ship.self])
        (self.folder, self.store) = (folder, store)
        (dock, ship) = try store.writeOptimistically { transaction in
            let dock = try transaction.insert(Dock(name: "North"))
            return (dock, try transaction.insert(Ship(code: "AB1", tons: 900, flag: "red", dock: dock)))
        }.result
    }

    /// Expects an error, and that the store is as it was.
    private func refused(
        _ code: StoreError.Code, sourceLocation: SourceLocation = #_sourceLocation, _ body: (Transaction) throws -> Void
    ) throws -> StoreError? {
        let before = try store.snapshot()
        let error = expect(code, sourceLocation: sourceLocation) { try store.writeOptimistically(body) }
        let locked = expect(code, sourceLocation: sourceLocation) { try store.write(body) }
        #expect(error?.message == locked?.message, sourceLocation: sourceLocation)
        let after = try store.snapshot()
        #expect(try before.fetch(Ship.self).map(\.code) == after.fetch(Ship.self).map(\.code))
        #expect(try before.fetch(Dock.self).map(\.name) == after.fetch(Dock.self).map(\.name))
        return error
    }

    @Test func validationFailedHasAllFailuresWithTheirValues() throws {
        let second = try store.writeOptimistically { try $0.insert(Ship(code: "AB2", flag: "red")) }.result
        let error = try refused(.validationFailed) { transaction in
            try transaction.insert(Dock(name: ""))
            try transaction.update(dock) { $0.name = "bad" }
            try transaction.insert(Ship(code: "x", tons: -1, flag: "RED", sisters: [ship, second]))
        }
        let failures = error?.validationFailures ?? []
        let all = failures.map { "\($0.entity).\($0.attribute) = \($0.value): \($0.message)" }
        #expect(
            all.filter { !$0.hasPrefix("Ship.sisters") } == [
                "Dock.name = : must have 1 to 20 characters", "Dock.name = bad: must not be “bad”",
                "Ship.code = x: must match “[A-Z]{2}[0-9]+”", "Ship.tons = -1: must be from 0 to 1000",
                "Ship.flag = RED: must match “[a-z]*”",
            ], "\(all)")
        #expect(all.count == 6 && all.last?.hasSuffix("must have 0 to 1 objects") == true)
        // The sentence has no values: it may end in a log.
        #expect(error?.message.contains("RED") == false && error?.message.contains("“tons” of “Ship”") == true)
        try end()
    }

    @Test func deleteDeniedNamesTheReferringObjects() throws {
        let (second, _) = try store.writeOptimistically { try $0.insert(Ship(code: "AB2", flag: "red", dock: dock)) }
        let error = try refused(.deleteDenied) { try $0.delete(dock) }
        #expect(error?.entity == "Ship" && error?.attributes == ["dock"] && error?.objects == [ship.id, second.id])
        try end()
    }

    @Test func referenceMissingNamesTheReferenceAndItsObject() throws {
        let gone = try store.writeOptimistically { try $0.insert(Dock(name: "gone")) }.result
        try store.writeOptimistically { try $0.delete(gone) }
        let error = try refused(.referenceMissing) { try $0.update(ship) { $0.dock = gone } }
        #expect(error?.entity == "Ship" && error?.attributes == ["dock"] && error?.object == gone.id)
        // A later change of the same object keeps the reference, and so the error.
        let inserted = try refused(.referenceMissing) { transaction in
            let new = try transaction.insert(Ship(code: "AB2", flag: "red", dock: gone))
            try transaction.update(new) { $0.tons = 1 }
        }
        #expect(inserted?.attributes == ["dock"] && inserted?.object == gone.id)
        let former = try store.writeOptimistically { try $0.insert(Ship(code: "AB3", flag: "red")) }.result
        try store.writeOptimistically { try $0.delete(former) }
        let changed = try refused(.referenceMissing) { transaction in
            try transaction.update(ship) { $0.sisters = [former] }
            try transaction.update(ship) { $0.tons = 1 }
        }
        #expect(changed?.attributes == ["sisters"] && changed?.object == former.id)
        // One of another entity.
        _ = try refused(.referenceMissing) { try $0.update(ship) { $0.dock = Reference(ship.id) } }
        try end()
    }

    @Test func uniqueViolationNamesTheObjectThatHasTheValue() throws {
        let error = try refused(.uniqueViolation) { try $0.insert(Ship(code: "AB1", flag: "blue")) }
        #expect(error?.entity == "Ship" && error?.attributes == ["code"] && error?.object == ship.id)
        try end()
    }

    @Test func requiredMissingNamesTheProperty() throws {
        let error = try refused(.requiredMissing) { try $0.insert(Ship(code: "AB3")) }
        #expect(error?.entity == "Ship" && error?.attributes == ["flag"])
        _ = try refused(.requiredMissing) { try $0.update(ship) { $0.flag = nil } }
        try end()
    }

    @Test func valueOutOfRangeIsThrownByWritesAndReads() throws {
        let error = try refused(.valueOutOfRange) { try $0.insert(Ship(code: "AB4", length: .max, flag: "red")) }
        #expect(error?.entity == "Ship" && error?.attributes == ["length"])
        let small = Reference<SmallShip>(ship.id)
        let read = expect(.valueOutOfRange) { try store.snapshot()[small] }
        #expect(read?.entity == "Ship" && read?.attributes == ["tons"])
        try end()
    }

    @Test func objectNotFoundNamesTheObject() throws {
        let gone = try store.writeOptimistically { try $0.insert(Dock(name: "gone")) }.result
        try store.writeOptimistically { try $0.delete(gone) }
        let error = try refused(.objectNotFound) { try $0.update(gone) { $0.name = "x" } }
        #expect(error?.entity == "Dock" && error?.object == gone.id)
        try end()
    }

    @Test func migrationFailedHasChangedNothing() throws {
        let before = try store.snapshot().entities
        let migration = Migration("narrow", [.change(.removeAttribute("flag", from: "Ship"))]) { migration in
            try migration.transaction.delete(dock.id)
        }
        let error = expect(.migrationFailed) {
            try Store(at: folder.path, entities: [SmallDock.self, SmallShip.self], migrations: [migration])
        }
        #expect(error?.message.contains("“narrow”") == true)
        #expect(try store.snapshot().entities == before && store.snapshot()[ship]?.flag == "red")
        #expect(try store.snapshot()[dock]?.name == "North")
        // It was not noted as done either.
        try Store(at: folder.path, entities: [Dock.self, Ship.self]).close()
        try end()
    }
}
