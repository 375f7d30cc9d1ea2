// Finding what is not committed: in a transaction and in a context with random changes, every search finds what looking
// at all objects finds.

import Annals
import FoundationEssentials
import TestSupport
import Testing

struct Keeper: Entity {
    var name = ""
    var things = ToMany<Thing>()

    static let schema = Schema<Keeper> { Attribute(\.name, .indexed) }
}

struct Thing: Entity {
    var code = 0
    var name = ""
    var rank = 0
    var note: String?
    var weight: Double?
    var made: Date?
    var plain = 0
    var keeper: Reference<Keeper>?
    var helpers: [Reference<Keeper>] = []

    static let schema = Schema<Thing> {
        Attribute(\.code, .unique)
        Attribute(\.name, .indexed)
        Attribute(\.rank, .indexed)
        Attribute(\.note, .indexed)
        Attribute(\.weight, .indexed)
        Attribute(\.made, .indexed)
        Relationship(\.keeper, inverse: \.things, whenTargetIsDeleted: .nullify)
    }
}

/// A thing as it is seen, with what it refers to.
private struct Seen {
    var reference: Reference<Thing>
    var thing: Thing
    var keeperName: String?
}

private struct Search {
    let name: String
    let predicate: Predicate<Object<Thing>>
    let meaning: (Seen) -> Bool

    init(_ name: String, _ predicate: Predicate<Object<Thing>>, _ meaning: @escaping (Seen) -> Bool) {
        (self.name, self.predicate, self.meaning) = (name, predicate, meaning)
    }

    static let names = ["a", "b", "ab", "c", ""]

    static func random(_ keepers: [Reference<Keeper>], _ random: inout SeededRandom) -> Search {
        let name = names.randomElement(using: &random)!
        let rank = Int.random(in: 0...6, using: &random)
        let code = Int.random(in: 0...60, using: &random)
        let weight = [0, -0.0, 1.5, .nan].randomElement(using: &random)!
        let day = Date(timeIntervalSinceReferenceDate: Double(rank) / 8)
        let some = Set((0..<3).map { _ in Int.random(in: 0...60, using: &random) })
        let keeper = keepers.randomElement(using: &random)
        switch Int.random(in: 0..<20, using: &random) {
        case 0: return Search("code", #Predicate { $0.code == code }) { $0.thing.code == code }
        case 1: return Search("name", #Predicate { $0.name == name }) { $0.thing.name == name }
        case 2: return Search("rank", #Predicate { $0.rank > rank }) { $0.thing.rank > rank }
        case 3:
            return Search("range", #Predicate { (1..<rank + 1).contains($0.rank) }) {
                (1..<rank + 1).contains($0.thing.rank)
            }
        case 4: return Search("note", #Predicate { $0.note == name }) { $0.thing.note == name }
        case 5: return Search("no note", #Predicate { $0.note == nil }) { $0.thing.note == nil }
        case 6: return Search("note or", #Predicate { ($0.note ?? "a") == name }) { ($0.thing.note ?? "a") == name }
        case 7: return Search("weight", #Predicate { $0.weight == weight }) { $0.thing.weight == weight }
        case 8: return Search("made", #Predicate { $0.made == day }) { $0.thing.made == day }
        case 9: return Search("codes", #Predicate { some.contains($0.code) }) { some.contains($0.thing.code) }
        case 10: return Search("plain", #Predicate { $0.plain == rank }) { $0.thing.plain == rank }
        case 11:
            return Search("both", #Predicate { $0.rank == rank && $0.note == name }) {
                $0.thing.rank == rank && $0.thing.note == name
            }
        case 12:
            return Search("either", #Predicate { $0.rank == rank || $0.note == name }) {
                $0.thing.rank == rank || $0.thing.note == name
            }
        case 13: return Search("keeper", #Predicate { $0.keeper == keeper }) { $0.thing.keeper == keeper }
        case 14: return Search("no keeper", #Predicate { $0.keeper == nil }) { $0.thing.keeper == nil }
        case 15: return Search("keeper's name", #Predicate { $0.keeper?.name == name }) { $0.keeperName == name }
        case 16:
            return Search("rank, keeper's name", #Predicate { $0.rank == rank && $0.keeper?.name == name }) {
                $0.thing.rank == rank && $0.keeperName == name
            }
        case 17:
            return Search("name, evaluated", #Predicate { $0.name == name && $0.plain % 2 == 0 }) {
                $0.thing.name == name && $0.thing.plain % 2 == 0
            }
        case 18:
            return Search("prefix", #Predicate { $0.name.starts(with: name) }) { $0.thing.name.starts(with: name) }
        default:
            guard let keeper else { return Search("all", #Predicate { _ in true }) { _ in true } }
            return Search("helpers", #Predicate { $0.helpers.contains(keeper) }) { $0.thing.helpers.contains(keeper) }
        }
    }

    /// What is to be found, and in which order.
    func wanted(_ all: [Seen], byRank: Bool, limit: Int?, offset: Int) -> [Reference<Thing>] {
        let found = all.filter(meaning).sorted { left, right in
            if byRank, left.thing.rank != right.thing.rank { return left.thing.rank > right.thing.rank }
            return byRank ? right.reference < left.reference : left.reference < right.reference
        }
        return Array(found.map(\.reference).dropFirst(offset).prefix(limit ?? .max))
    }
}

private func change(_ thing: inout Thing, _ keepers: [Reference<Keeper>], _ random: inout SeededRandom) {
    switch Int.random(in: 0..<8, using: &random) {
    case 0: thing.name = Search.names.randomElement(using: &random)!
    case 1: thing.rank = Int.random(in: 0...6, using: &random)
    case 2: thing.note = Bool.random(using: &random) ? nil : Search.names.randomElement(using: &random)
    case 3: thing.weight = [nil, 0, -0.0, 1.5, .nan].randomElement(using: &random)!
    case 4: thing.made = Date(timeIntervalSinceReferenceDate: Double.random(in: 0...6, using: &random).rounded() / 8)
    case 5: thing.plain = Int.random(in: 0...6, using: &random)
    case 6: thing.keeper = Bool.random(using: &random) ? nil : keepers.randomElement(using: &random)
    default: thing.helpers = keepers.filter { _ in Int.random(in: 0..<3, using: &random) == 0 }
    }
}

private func made(_ code: Int, _ keepers: [Reference<Keeper>], _ random: inout SeededRandom) -> Thing {
    var thing = Thing(code: code)
    for _ in 0..<6 { change(&thing, keepers, &random) }
    return thing
}

@Suite struct UnsavedFindingTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func makeStore(_ random: inout SeededRandom) throws -> Store {
        let store = try Store(at: folder.path, entities: [Keeper.self, Thing.self])
        try store.changeSchema([.addKey(IndexDescription(["rank", "note"]), to: "Thing")])
        try store.writeOptimistically { transaction in
            let keepers = try Search.names.map { try transaction.insert(Keeper(name: $0)) }
            for code in 0..<25 { try transaction.insert(made(code, keepers, &random)) }
        }
        return store
    }

    // MARK: In a transaction

    @Test(arguments: 0..<25) func aTransactionFindsItsOwnChanges(_ seed: Int) throws {
        var random = SeededRandom(UInt64(seed))
        let store = try makeStore(&random)
        for _ in 0..<3 {
            try store.write { transaction in
                for step in 0..<60 {
                    try changeRandomly(transaction, 1000 + Int.random(in: 0..<1_000_000, using: &random), &random)
                    if step % 2 == 0 { try compare(transaction, &random, "seed \(seed), step \(step)") }
                }
            }
        }
        try store.close()
        try folder.expectIntact()
    }

    private func changeRandomly(_ transaction: Transaction, _ code: Int, _ random: inout SeededRandom) throws {
        let things = try transaction.references(to: Thing.self)
        let keepers = try transaction.references(to: Keeper.self)
        let thing = things.randomElement(using: &random)
        switch Int.random(in: 0..<12, using: &random) {
        case 0, 1, 2: try transaction.insert(made(code, keepers, &random))
        case 3: if let thing { try transaction.delete(thing) }
        case 4:
            if keepers.count > 2, let keeper = keepers.randomElement(using: &random) { try transaction.delete(keeper) }
        case 5: try transaction.insert(Keeper(name: Search.names.randomElement(using: &random)!))
        case 6:
            if let keeper = keepers.randomElement(using: &random) {
                try transaction.update(keeper) { $0.name = Search.names.randomElement(using: &random)! }
            }
        case 7:
            let rank = Value(Int.random(in: 0...6, using: &random))
            if let thing { try transaction.update(thing.id, ["rank": rank]) }
        case 8:
            let reference = try transaction.reserve(Thing.self)
            try transaction.insert(made(code, keepers, &random), as: reference)
        case 9:
            let code = Int.random(in: 0...60, using: &random)
            try transaction.upsert(made(code, keepers, &random), updating: [\.rank])
        default: if let thing { try transaction.update(thing) { change(&$0, keepers, &random) } }
        }
    }

    private func compare(_ transaction: Transaction, _ random: inout SeededRandom, _ place: String) throws {
        let keepers = try transaction.references(to: Keeper.self)
        var all: [Seen] = []
        for reference in try transaction.references(to: Thing.self) {
            let thing = try #require(try transaction[reference])
            let name = try thing.keeper.flatMap { try transaction[$0]?.name }
            all.append(Seen(reference: reference, thing: thing, keeperName: name))
        }
        for _ in 0..<4 {
            let search = Search.random(keepers, &random)
            let (limit, offset) = (random.next() % 3 == 0 ? nil : Int(random.next() % 5), Int(random.next() % 3))
            let sorted = try transaction.references(
                to: Thing.self, where: search.predicate, sortedBy: .descending(\.rank), limit: limit, offset: offset)
            #expect(
                sorted == search.wanted(all, byRank: true, limit: limit, offset: offset), "\(place): \(search.name)")
            let found = try transaction.references(to: Thing.self, where: search.predicate).sorted()
            #expect(found == search.wanted(all, byRank: false, limit: nil, offset: 0), "\(place): \(search.name)")
            #expect(try transaction.count(Thing.self, where: search.predicate) == found.count)
        }
        for keeper in keepers {
            let wanted = all.filter { $0.thing.keeper == keeper }.map(\.reference).sorted()
            #expect(try transaction.references(\.things, of: keeper) == wanted, "\(place): \(keeper)")
        }
    }

    // MARK: In a context

    @Test(arguments: 0..<25) @MainActor func aContextFindsItsOwnChanges(_ seed: Int) async throws {
        var random = SeededRandom(UInt64(seed))
        let store = try makeStore(&random)
        let context = store.makeContext()
        context.mergePolicy = .overwrite
        context.undoLevels = 20
        var saves: [Task<Void, any Error>] = []
        for step in 0..<150 {
            let place = "seed \(seed), step \(step)"
            switch Int.random(in: 0..<24, using: &random) {
            case 0: try context.save()
            case 1, 2:
                saves.append(Task { @MainActor in _ = try await context.saveInBackground() })
                await Task.yield()
            case 3: for _ in 0..<3 { await Task.yield() }
            case 4: try context.merge()
            case 5: if context.canUndo { try context.undo(skippingConflicts: true) }
            case 6: if context.canRedo { try context.redo(skippingConflicts: true) }
            case 7: context.rollback()
            case 8: try changeElsewhere(store, 2000 + step + seed * 1000, &random)
            default: try changeRandomly(context, 1_000_000 + step, &random)
            }
            try compare(context, &random, place)
        }
        for save in saves { try await save.value }
        try compare(context, &random, "seed \(seed), at the end")
        try context.save()
        try compare(context, &random, "seed \(seed), saved")
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    private func changeElsewhere(_ store: Store, _ code: Int, _ random: inout SeededRandom) throws {
        try store.write { transaction in
            let things = try transaction.references(to: Thing.self)
            let keepers = try transaction.references(to: Keeper.self)
            try transaction.insert(made(code, keepers, &random))
            if let thing = things.randomElement(using: &random) {
                try transaction.update(thing) { change(&$0, keepers, &random) }
            }
        }
    }

    @MainActor private func changeRandomly(_ context: Context, _ code: Int, _ random: inout SeededRandom) throws {
        let things = try context.fetch(Thing.self)
        let keepers = try context.fetch(Keeper.self)
        let thing = things.randomElement(using: &random)
        switch Int.random(in: 0..<10, using: &random) {
        case 0, 1, 2: context.insert(made(code, keepers.map(\.objectReference), &random))
        case 3: if let thing { context.delete(thing) }
        case 4: if let keeper = keepers.randomElement(using: &random), keepers.count > 2 { context.delete(keeper) }
        case 5: context.insert(Keeper(name: Search.names.randomElement(using: &random)!))
        case 6: keepers.randomElement(using: &random)?.name = Search.names.randomElement(using: &random)!
        case 7: if let thing { context.discard(thing) }
        default: thing?.objectUpdate { change(&$0, keepers.map(\.objectReference), &random) }
        }
    }

    @MainActor private func compare(_ context: Context, _ random: inout SeededRandom, _ place: String) throws {
        let keepers = try context.fetch(Keeper.self)
        let all = try context.fetch(Thing.self).map { object in
            var thing = Thing(code: object.code)
            (thing.name, thing.rank, thing.note, thing.weight) = (object.name, object.rank, object.note, object.weight)
            (thing.made, thing.plain, thing.keeper) = (object.made, object.plain, object.keeper?.objectReference)
            thing.helpers = object.helpers.map(\.objectReference)
            return Seen(reference: object.objectReference, thing: thing, keeperName: object.keeper?.name)
        }
        for _ in 0..<4 {
            let search = Search.random(keepers.map(\.objectReference), &random)
            let (limit, offset) = (random.next() % 3 == 0 ? nil : Int(random.next() % 5), Int(random.next() % 3))
            let sorted = try context.fetch(
                Thing.self, where: search.predicate, sortedBy: .descending(\.rank), limit: limit, offset: offset)
            #expect(
                sorted.map(\.objectReference) == search.wanted(all, byRank: true, limit: limit, offset: offset),
                "\(place): \(search.name)")
            let found = try context.references(to: Thing.self, where: search.predicate).sorted()
            #expect(found == search.wanted(all, byRank: false, limit: nil, offset: 0), "\(place): \(search.name)")
            #expect(try context.count(Thing.self, where: search.predicate) == found.count)
            if let first = try context.first(Thing.self, where: search.predicate) {
                #expect(found.contains(first.objectReference), "\(place): \(search.name)")
            } else {
                #expect(found.isEmpty, "\(place): \(search.name)")
            }
        }
        for keeper in keepers {
            let wanted = all.filter { $0.thing.keeper == keeper.objectReference }.map(\.reference).sorted()
            #expect(keeper.things.map(\.objectReference) == wanted, "\(place): \(keeper.objectReference)")
        }
    }
}
