// Properties with the commonest names, and with those of members that protocols require of objects.

import Annals
import FoundationEssentials
import Observation
import TestSupport
import Testing

struct Ticket: Entity, Equatable {
    var id = 0
    var name = ""
    var status = ""
    var description = ""
    var debugDescription = ""
    var update = 0
    var reference = ""
    var hash: Int?
    var hashValue = 0.5
    var parent: Reference<Ticket>?
    var children = ToMany<Ticket>()

    static let schema = Schema<Ticket> {
        Attribute(\.id, .unique)
        Attribute(\.status, .indexed)
        Relationship(\.parent, inverse: \.children)
    }
}

/// A class of a program that is identified as the standard library does it.
private final class Window: Identifiable {}

/// One with an identifier of its own.
private final class Tab: Identifiable {
    let id = "tab"
}

@Suite struct FreeNameTests: StoreSuite {
    let folder: StoreFolder
    let store: Store
    let context: Context

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Ticket.self])
        context = store.makeContext(author: "app")
    }

    private let whole = Ticket(
        id: 7, name: "n", status: "open", description: "d", debugDescription: "dd", update: 3, reference: "r", hash: 9,
        hashValue: 1.5)

    @Test func propertiesAreReadAndWrittenThroughObjects() throws {
        let object = context.insert(whole)
        // Without types: what the compiler prefers by itself.
        let (id, status, text, debug) = (object.id, object.status, object.description, object.debugDescription)
        let (update, reference, hash, value) = (object.update, object.reference, object.hash, object.hashValue)
        let read = Ticket(
            id: id, name: object.name, status: status, description: text, debugDescription: debug, update: update,
            reference: reference, hash: hash, hashValue: value)
        #expect(read == whole && "\(object.id) \(object.status)" == "7 open")
        object.id += 1
        object.status = "done"
        object.description += "!"
        object.update *= 2
        object.reference = "s"
        object.hash = nil
        object.hashValue = 2
        #expect(object.objectStatus.changedValues["id"] == 8 && object.objectStatus.isInserted)
        try context.save()
        let saved = try #require(try store.snapshot()[object.objectReference])
        #expect(saved.id == 8 && saved.status == "done" && saved.description == "d!" && saved.update == 6)
        #expect(saved.reference == "s" && saved.hash == nil && saved.hashValue == 2)
        object.objectUpdate { ($0.status, $0.update) = ("again", 1) }
        #expect(object.objectStatus.savedValues == ["status": "done", "update": 6])
        // Over a relationship, and in key paths.
        let child = context.insert(Ticket(id: 1, parent: object.objectReference))
        let (theirs, none) = (child.parent?.id, child.parent?.parent?.description)
        #expect(theirs == 8 && none == nil && child.parent?.hash == nil && object.children.map(\.id) == [1])
        let (theirText, theirValue) = (child.parent?.description, child.parent?.hashValue)
        #expect(theirText == "d!" && theirValue == 2)
        child.parent?.status = "by the child"
        #expect([object, child].map(\.status) == ["by the child", ""] && object[keyPath: \.description] == "d!")
        #expect([object, child].sorted { $0.id < $1.id }.first === child)
        try context.save()
        try end()
    }

    @Test func transactionsReadAndWritePropertiesWithFreeNames() throws {
        let (ticket, _) = try store.write { transaction in
            let ticket = try transaction.insert(whole)
            try transaction.update(ticket) { ($0.status, $0.update, $0.description) = ("done", $0.update + 1, "e") }
            #expect(try transaction.count(Ticket.self, where: #Predicate { $0.update == 4 && $0.id == 7 }) == 1)
            return ticket
        }
        let same = try store.write { try $0.upsert(Ticket(id: 7, name: "u")) }
        #expect(same.0 == ticket)
        #expect(try store.snapshot()[ticket]?.name == "u")
        try end()
    }

    /// One for each property, and some that compare two.
    private func predicates() -> [(name: String, predicate: Predicate<Object<Ticket>>)] {
        [
            ("id", #Predicate { $0.id == 7 }), ("status", #Predicate { $0.status == "open" }),
            ("description", #Predicate { $0.description == "d" && $0.description.contains("d") }),
            ("debugDescription", #Predicate { $0.debugDescription.starts(with: "dd") }),
            ("update", #Predicate { $0.update > 2 }), ("reference", #Predicate { $0.reference == "r" }),
            ("hash", #Predicate { $0.hash == 9 && $0.hash != nil }), ("hashValue", #Predicate { $0.hashValue > 1 }),
            ("parent", #Predicate { $0.parent?.description == "root" && $0.parent?.id == 1 }),
            ("parent is there", #Predicate { $0.parent != nil && $0.id == 7 }),
            ("children", #Predicate { $0.children.contains { $0.description == "leaf" && $0.hash == nil } }),
        ]
    }

    @Test func predicatesFindPropertiesWithFreeNames() throws {
        let root = context.insert(Ticket(id: 1, description: "root"))
        let ticket = context.insert(whole)
        let leaf = context.insert(Ticket(id: 2, description: "leaf"))
        ticket.parent = root
        leaf.parent = ticket
        for isSaved in [false, true] {
            if isSaved { try context.save() }
            for (name, predicate) in predicates() {
                let found = try context.fetch(Ticket.self, where: predicate)
                #expect(found.map(\.id) == [7], "\(name), saved: \(isSaved)")
            }
        }
        let snapshot = try store.snapshot()
        for (name, predicate) in predicates() {
            #expect(try snapshot.fetch(Ticket.self, where: predicate).map(\.name) == ["n"], "\(name)")
            let plan = try snapshot.explain(Ticket.self, where: predicate)
            #expect(!plan.isPartlyEvaluated, "\(name): \(plan)")
        }
        let reference = ticket.objectReference
        #expect(try snapshot.count(Ticket.self, where: #Predicate { $0.objectReference == reference }) == 1)
        // Evaluated in the program, object by object.
        let same: Predicate<Object<Ticket>> = #Predicate { $0.description == $0.status || $0.id == $0.update + 4 }
        #expect(try snapshot.fetch(Ticket.self, where: same).map(\.id) == [7])
        try end()
    }

    @Test func fetchesSortByPropertiesWithFreeNames() throws {
        for (id, text) in [(1, "b"), (2, "c"), (3, "a")] {
            context.insert(Ticket(id: id, status: text, description: text, update: -id))
        }
        for isSaved in [false, true] {
            if isSaved { try context.save() }
            let byText = try context.fetch(Ticket.self, sortedBy: .ascending(\.description))
            #expect(byText.map(\.id) == [3, 1, 2])
            #expect(try context.fetch(Ticket.self, sortedBy: .descending(\.status)).map(\.id) == [2, 1, 3])
            #expect(try context.fetch(Ticket.self, sortedBy: .ascending(\.update)).map(\.id) == [3, 2, 1])
        }
        #expect(try store.snapshot().fetch(Ticket.self, sortedBy: .descending(\.id)).map(\.id) == [3, 2, 1])
        try end()
    }

    @Test func propertiesWithFreeNamesAreObserved() throws {
        let object = context.insert(whole)
        try context.save()
        let told = Guarded<Set<String>>([])
        func observe<V>(_ name: String, _ read: () -> V) {
            _ = withObservationTracking(read) { told.withLock { _ = $0.insert(name) } }
        }
        func named(_ change: () throws -> Void) rethrows -> Set<String> {
            observe("id") { object.id }
            observe("status") { object.status }
            observe("description") { object.description }
            observe("update") { object.update }
            observe("reference") { object.reference }
            observe("hash") { object.hash }
            told.withLock { $0 = [] }
            try change()
            return told.withLock { $0 }
        }
        #expect(named { object.id = 8 } == ["id"])
        #expect(named { object.description = "e" } == ["description"])
        #expect(named { object.update += 1 } == ["update"])
        #expect(named { object.reference = "s" } == ["reference"])
        #expect(named { object.hash = nil } == ["hash"])
        try context.save()
        // By other writers, too.
        try store.writeOptimistically { try $0.update(object.objectReference) { $0.status = "theirs" } }
        #expect(try named { try context.merge() } == ["status"] && object.status == "theirs")
        try end()
    }

    @Test func liveResultsFollowPropertiesWithFreeNames() throws {
        let results = try context.results(
            Ticket.self, where: #Predicate { $0.status == "open" }, sortedBy: .ascending(\.description))
        let (first, second) = (context.insert(whole), context.insert(whole))
        second.id = 8
        second.description = "a"
        #expect(results.map(\.id) == [8, 7])
        first.description = ""
        second.status = "done"
        #expect(results.map(\.id) == [7])
        try context.save()
        try store.writeOptimistically { try $0.update(second.objectReference) { $0.status = "open" } }
        try context.merge()
        #expect(results.map(\.description) == ["", "a"])
        try end()
    }

    @Test func theToolKnowsPropertiesWithFreeNames() throws {
        try store.writeOptimistically { try $0.insert(whole) }
        func run(_ arguments: [String]) throws -> String {
            let run = try runTool(arguments)
            #expect(run.status == 0, "\(run.errors)")
            return run.output
        }
        let condition = #"status = "open" and description = "d" and id = 7"#
        let found = try run(["find", folder.path, "Ticket", "--where", condition])
        for part in ["\"status\":\"open\"", "\"update\":3", "\"reference\":\"r\"", "\"hash\":9"] {
            #expect(found.contains(part), "\(found)")
        }
        let swift = try run(["schema", folder.path, "--swift"])
        for name in ["id", "status", "description", "update", "reference", "hash", "hashValue"] {
            #expect(swift.contains(" var \(name)"), "\(name) in \(swift)")
        }
        try end()
    }

    // MARK: Hashable and Identifiable

    @Test func objectsAreEqualHashedAndIdentifiedByIdentity() throws {
        let (first, second) = (context.insert(whole), context.insert(Ticket(id: 8)))
        var set: Set = [first, second, first]
        #expect(set.count == 2 && first == first && first != second && Set([first]).isSubset(of: set))
        let before = identifiers([first, second])
        try context.save()
        // The references are others now.
        #expect(set.contains(first) && set.remove(second) === second && identifiers([first, second]) == before)
        #expect(before == [ObjectIdentifier(first), ObjectIdentifier(second)])
        let other = store.makeContext()
        #expect(try other.object(first.objectReference) != first)
        #expect(try context.object(first.objectReference) == first)
        try end()
    }

    private func identifiers<Elements: Collection>(_ elements: Elements) -> [Elements.Element.ID]
    where Elements.Element: Identifiable { elements.map(\.id) }

    /// Code for any entity says which conformance it needs.
    private func unique<E: Entity>(_ objects: [Object<E>]) -> Set<Object<E>> where Object<E>: Hashable { Set(objects) }

    @Test func genericCodeCanHashObjects() throws {
        let object = context.insert(whole)
        #expect(unique([object, object]) == [object])
        try end()
    }

    /// A snapshot makes objects for each object that a predicate asks. They are compared by reference.
    @Test func predicatesCompareObjects() throws {
        let (pair, _) = try store.write { transaction in
            let root = try transaction.insert(Ticket(id: 1))
            try transaction.update(root) { $0.parent = root }
            return (root, try transaction.insert(Ticket(id: 2, parent: root)))
        }
        let own: Predicate<Object<Ticket>> = #Predicate { ticket in ticket.children.contains { $0 == ticket } }
        let child: Predicate<Object<Ticket>> = #Predicate { $0.parent != nil && $0.parent?.parent == $0.parent }
        let rootless: Predicate<Object<Ticket>> = #Predicate { $0.parent == nil }
        try store.writeOptimistically { try $0.insert(Ticket(id: 3)) }
        try context.merge()
        #expect(try store.snapshot().fetch(Ticket.self, where: own).map(\.id) == [1])
        #expect(try store.snapshot().fetch(Ticket.self, where: child).map(\.id) == [1, 2])
        #expect(try store.snapshot().fetch(Ticket.self, where: rootless).map(\.id) == [3])
        let root = try context.object(pair.0)
        #expect(root.parent == root && root.children.first == root)
        #expect(try context.fetch(Ticket.self, where: own).map(\.id) == [1])
        #expect(try context.fetch(Ticket.self, where: child).map(\.id) == [1, 2])
        #expect(try context.fetch(Ticket.self, where: rootless).map(\.id) == [3])
        try end()
    }

    /// This module has the member of the standard library, too (ON2).
    @Test func classesOfTheProgramAreIdentifiedAsBefore() {
        let (window, tab) = (Window(), Tab())
        let id = window.id
        #expect(id == ObjectIdentifier(window) && window[keyPath: \.id] == id && tab.id == "tab")
        #expect(identifiers([window]) == [id] && identifiers([tab]) == ["tab"])
    }
}
