// Values of a program's own types, read from a fuzzed file: the types are those that stored inputs have objects of.

internal import Annals
internal import FoundationEssentials

/// The entity of the stored input “references”: a relationship of each kind and rule.
private struct Node: Entity, Hashable {
    var cascade: Reference<Node>?
    var nullify: Set<Reference<Node>> = []
    var deny: [Reference<Node>] = []
    var noAction: Reference<Node>?
    var children = ToMany<Node>()
    var members = ToMany<Node>()

    static let schema = Schema<Node> {
        Relationship(\.cascade, inverse: \.children, whenTargetIsDeleted: .cascade)
        Relationship(\.nullify, inverse: \.members)
        Relationship(\.deny, whenTargetIsDeleted: .deny)
        Relationship(\.noAction, whenTargetIsDeleted: .noAction)
    }
}

/// The entity of most stored inputs.
private struct Note: Entity, Hashable {
    var title = "none"
    var rank: Int32?
    var body: Data?
}

/// The entity of the stored input “types”.
private struct Everything: Entity, Hashable {
    var bool: Bool?
    var int = 7
    var double: Double?
    var string: String?
    var data = Data()
    var date: Date?
    var uuid: UUID?
    var decimal: Decimal?
    var json: [String: Int]?
    var object: Reference<Note>?
    var orderedObjects: [Reference<Note>] = []
    var objects: Set<Reference<Note>> = []
}

extension FuzzTargets {
    /// Z11: reads values of all types that the file may have objects of, in its newest state and in one of the past.
    static func readEntities(_ engine: Engine, isIntact: Bool, hasTrueSets: Bool) {
        do throws(StoreError) {
            let newest = try engine.view()
            let base = engine.log.header.baseNumber
            for view in [newest, try engine.view(asOf: base + (newest.number - base) / 2)] {
                let snapshot = Snapshot(view, engine, UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)))
                // A tree that is wrong may show an object again and again.
                guard isIntact else {
                    EntityReading(snapshot, isIntact: false).read()
                    continue
                }
                EntityReading(snapshot, isIntact: hasTrueSets).read()
            }
        } catch {
            requireByteError(error, "A view for values")
            require(!isIntact, "Z11", "an intact store has no state to read: \(error)")
        }
    }
}

/// Reads what is there of each type, in every way.
private struct EntityReading {
    private let snapshot: Snapshot
    private let isIntact: Bool

    init(_ snapshot: Snapshot, isIntact: Bool) { (self.snapshot, self.isIntact) = (snapshot, isIntact) }

    func read() {
        attempt("Nodes") { try readNodes() }
        attempt("Notes") { try readNotes() }
        attempt("Everything") { try readEverything() }
    }

    /// The types need not fit what the file says, and not all of its values.
    private func attempt(_ what: String, _ body: () throws -> Void) {
        do {
            try body()
        } catch let error as StoreError {
            switch error.code {
            case .schemaMismatch, .unknownEntity, .valueOutOfRange, .historyGap: return
            default:
                FuzzTargets.requireByteError(error, what)
                FuzzTargets.require(!isIntact, "Z11", "\(what) of an intact store: \(error)")
            }
        } catch {
            FuzzTargets.violation("Z11", "an error of another type: \(error)")
        }
    }

    /// Values of a type, and the predicate that holds for these objects.
    private struct Found<E: Entity & Hashable> {
        var values: [Reference<E>: E] = [:]
        var scope: Predicate<Object<E>>

        func within(_ predicate: Predicate<Object<E>>) -> Predicate<Object<E>> { allOf([scope, predicate]) }
    }

    /// All objects of an intact store; some of another, in which a tree may show an object again and again.
    private func all<E: Entity & Hashable>(_ type: E.Type, _ name: String) throws -> Found<E> {
        var references: [Reference<E>] = []
        if isIntact {
            references = try snapshot.references(to: type)
        } else {
            try snapshot.forEachRow(of: try snapshot.entity(name), numbers: 1...(1 << 14)) { (row) in
                references.append(Reference(row.id))
                return references.count < 200
            }
        }
        var found = Found<E>(scope: allOf([]))
        for reference in references {
            guard let value = try snapshot[reference] else { continue }
            found.values[reference] = value
        }
        guard isIntact else {
            found.scope = #Predicate { references.contains($0.objectReference) }
            return found
        }
        var count = 0
        try snapshot.forEach(type) { reference, value in
            FuzzTargets.require(found.values[reference] == value, "Z11", "a value is another one by its reference")
            count += 1
            return true
        }
        FuzzTargets.require(found.values.count == count, "Z11", "a scan has not the objects that there are")
        return found
    }

    private func expect<E: Entity & Hashable>(
        _ all: Found<E>, _ predicate: Predicate<Object<E>>, _ isMatch: (Reference<E>, E) -> Bool
    ) throws {
        let found = try snapshot.references(to: E.self, where: all.within(predicate))
        guard isIntact else { return }
        let wanted = all.values.filter { isMatch($0.key, $0.value) }.keys.sorted()
        FuzzTargets.require(
            found.sorted() == wanted, "Z11", "a predicate finds \(found.count) objects, and not \(wanted.count)")
        FuzzTargets.require(
            try snapshot.count(E.self, where: predicate) == wanted.count, "Z11", "a count is not that of the objects")
    }

    private func readNodes() throws {
        let all = try all(Node.self, "Node")
        let nodes = all.values
        for reference in nodes.keys.sorted().prefix(4) {
            try expect(all, #Predicate { $0.cascade == reference }) { $1.cascade == reference }
            try expect(all, #Predicate { $0.nullify.contains(reference) }) { $1.nullify.contains(reference) }
            try expect(all, #Predicate { $0.deny.contains(reference) }) { $1.deny.contains(reference) }
            let children = try snapshot.references(\Node.children, of: reference)
            let members = try snapshot.references(\Node.members, of: reference)
            guard isIntact else { continue }
            FuzzTargets.require(
                children.sorted() == nodes.filter { $0.value.cascade == reference }.keys.sorted(), "Z11",
                "the other side of a reference is not those that refer")
            FuzzTargets.require(
                members.sorted() == nodes.filter { $0.value.nullify.contains(reference) }.keys.sorted(), "Z11",
                "the other side of a set is not those that refer")
        }
        try expect(all, #Predicate { $0.noAction == nil }) { $1.noAction == nil }
        try expect(all, #Predicate { $0.deny.count > 1 }) { $1.deny.count > 1 }
        try expect(all, #Predicate { $0.cascade?.noAction == nil }) { _, node in
            node.cascade.flatMap { nodes[$0]?.noAction } == nil
        }
        try expect(all, #Predicate { $0.children.contains { $0.noAction != nil } }) { reference, _ in
            nodes.values.contains { $0.cascade == reference && $0.noAction != nil }
        }
    }

    private func readNotes() throws {
        let all = try all(Note.self, "Note")
        let notes = all.values
        let rank = notes.values.compactMap(\.rank).min() ?? 0
        try expect(all, #Predicate { $0.rank == rank }) { $1.rank == rank }
        try expect(all, #Predicate { ($0.rank ?? 3) > rank }) { ($1.rank ?? 3) > rank }
        try expect(all, #Predicate { $0.rank == nil }) { $1.rank == nil }
        let sorted = try snapshot.references(to: Note.self, where: all.scope, sortedBy: .descending(\.rank))
        _ = try snapshot.fetch(Note.self, where: all.within(#Predicate { $0.title.contains("n") }))
        _ = try snapshot.values(of: \Note.title, where: all.scope, sortedBy: .ascending(\.title), distinct: true)
        let groups = try snapshot.groups(by: \Note.rank, where: all.scope)
        let least = try snapshot.minimum(of: \Note.rank, where: all.scope)
        guard isIntact else { return }
        let ranks = sorted.map { notes[$0]?.rank.map { Int($0) } ?? Int.min }
        FuzzTargets.require(ranks == ranks.sorted(by: >), "Z11", "objects are not in their order")
        FuzzTargets.require(groups.reduce(0) { $0 + $1.count } == notes.count, "Z11", "groups have not all objects")
        FuzzTargets.require(least == notes.values.compactMap(\.rank).min(), "Z11", "a minimum is not the least value")
    }

    private func readEverything() throws {
        let all = try all(Everything.self, "Everything")
        try expect(all, #Predicate { $0.bool == true }) { $1.bool == true }
        try expect(all, #Predicate { $0.int >= 7 }) { $1.int >= 7 }
        try expect(all, #Predicate { if let double = $0.double { double < 1 } else { false } }) { _, thing in
            thing.double.map { $0 < 1 } ?? false
        }
        try expect(all, #Predicate { $0.object != nil }) { $1.object != nil }
        try expect(all, #Predicate { $0.objects.isEmpty }) { $1.objects.isEmpty }
        try expect(all, #Predicate { $0.decimal == nil }) { $1.decimal == nil }
        _ = try snapshot.fetch(Everything.self, where: all.scope, sortedBy: .ascending(\.date), .descending(\.double))
        _ = try snapshot.groups(by: \Everything.string, aggregating: \.decimal, \.double, where: all.scope)
        _ = try snapshot.average(of: \Everything.double, where: all.scope)
    }
}
