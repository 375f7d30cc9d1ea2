// Versions of a program take turns on one store: none loses what another one wrote, whether it knows of it or not.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct VersionTurnTests {
    /// The first version.
    enum First {
        struct Part: Entity, Equatable {
            var name = ""
        }

        struct Item: Entity, Equatable {
            var name = ""
            var count = 0
            var note: String?
            var part: Reference<Part>?
        }

        static let entities: [any Entity.Type] = [Part.self, Item.self]
    }

    /// The second one renames, makes optional, adds properties with and without defaults, and relationships.
    enum Second {
        struct Part: Entity, Equatable {
            var name = ""
            var size = 3
            var items = ToMany<Item>()
            var users = ToMany<Item>()
        }

        struct Item: Entity, Equatable {
            var title = ""
            var count: Int?
            var note: String?
            var extra = "extra"
            var weight = 2.5
            var tags = ["t"]
            var part: Reference<Part>?
            var parts: [Reference<Part>] = []
            var parent: Reference<Item>?
            var children = ToMany<Item>()

            static let schema = Schema<Item>(indexed: [[\.extra, \.weight]]) {
                Attribute(\.title, .indexed, .renamed(from: "name"))
                Attribute(\.count, .indexed)
                Attribute(\.weight, .valueForOlderObjects(1.5))
                Relationship(\.part, inverse: \.items)
                Relationship(\.parts, inverse: \.users, whenTargetIsDeleted: .deny)
                Relationship(\.parent, inverse: \.children, whenTargetIsDeleted: .cascade)
            }
        }

        static let entities: [any Entity.Type] = [Part.self, Item.self]
        /// Of the third version, which is otherwise as the second.
        static let migrations = [
            Migration("notes") { migration in
                try migration.update(Item.self) { _, item in item.note = (item.note ?? "none") + "!" }
            },
            Migration("more", [.change(.addAttribute(AttributeDescription("color", .string), to: "Part"))]),
        ]
    }

    /// Longer with `Tests/run long versions`: an operation is a round, which is a transaction of one of the versions.
    @Test func noVersionLosesChangesOfAnotherVersion() throws {
        guard let long = LongRun("versions", operations: 1200) else { return }
        var (done, store) = (0, UInt64(0))
        while done < long.operations {
            let run = try VersionTurns(seed: long.seed &* 10_000 &+ store)
            do {
                try run.run(rounds: min(400, long.operations - done))
            } catch {
                return long.record(error, "store \(store), round \(run.round)")
            }
            done += run.round
            store += 1
        }
        print("versions, seed \(long.seed): \(done) rounds on \(store) stores")
    }
}

/// One store, and what is in it.
private final class VersionTurns {
    private typealias First = VersionTurnTests.First
    private typealias Second = VersionTurnTests.Second

    /// An item by its ID, with all that any version knows.
    private struct Item: Equatable {
        var name: String
        var count: Int?
        var note: String?
        var extra = "extra"
        var weight = 1.5
        var tags = ["t"]
        var part: ObjectID?
        var parts: [ObjectID] = []
        var parent: ObjectID?
    }

    private let folder: StoreFolder
    private var random: SeededRandom
    private var items: [ObjectID: Item] = [:]
    private var parts: [ObjectID: (name: String, size: Int)] = [:]
    private var first: Store?
    private var second: Store?
    /// Whether the newer version has migrations by now.
    private var isThird = false
    private(set) var round = 0
    private let isCreatedBySecond: Bool

    init(seed: UInt64) throws {
        folder = try StoreFolder()
        random = SeededRandom(seed)
        isCreatedBySecond = seed % 2 == 1
    }

    private func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
    private func one(_ objects: [ObjectID]) -> ObjectID? { objects.sorted().randomElement(using: &random) }

    private func require(_ holds: Bool, _ what: @autoclosure () -> String) throws {
        if !holds { throw OracleDifference(what()) }
    }

    private var options: Store.Options {
        var options = Store.Options()
        options.durability = .relaxed
        options.reading = below(2) == 0 ? .mapped : .copied
        options.lockTimeout = .seconds(600)
        return options
    }

    private func openFirst() throws {
        try first?.close()
        first = try Store(at: folder.path, entities: First.entities, options: options)
    }

    private func openSecond() throws {
        try second?.close()
        if !isThird, round > 100, below(3) == 0 {
            isThird = true
            for id in items.keys { items[id]!.note = (items[id]!.note ?? "none") + "!" }
        }
        second = try Store(
            at: folder.path, entities: Second.entities, migrations: isThird ? Second.migrations : [], options: options)
    }

    func run(rounds: Int) throws {
        // Either version creates the store.
        if isCreatedBySecond { try openSecond() }
        try openFirst()
        let begin = below(60)
        while round < rounds {
            if round == begin || second != nil && below(40) == 0 { try openSecond() }
            if below(40) == 0 { try openFirst() }
            if below(90) == 0 { _ = try (below(2) == 0 ? second ?? first : first)?.compact() }
            if let second, below(2) == 0 { try turn(second, isSecond: true) } else { try turn(first!, isSecond: false) }
            round += 1
            if round % 20 == 0 { try compare() }
        }
        try compare()
        try first?.close()
        try second?.close()
        try folder.expectIntact()
    }

    // MARK: Turns

    private func turn(_ store: Store, isSecond: Bool) throws {
        let (item, part) = (one(Array(items.keys)), one(Array(parts.keys)))
        var (nextItems, nextParts) = (items, parts)
        let kind = below(16)
        do {
            try store.write { transaction in
                switch kind {
                case 0..<2:
                    let (name, size) = ("p\(round)", isSecond ? below(9) : 3)
                    let id =
                        isSecond
                        ? try transaction.insert(Second.Part(name: name, size: size)).id
                        : try transaction.insert(First.Part(name: name)).id
                    nextParts[id] = (name, size)
                case 2: if let part { try delete(part, transaction, &nextItems, &nextParts) }
                case 3..<5: if let item { try delete(item, transaction, &nextItems, &nextParts) }
                case 5..<9:
                    var new = Item(name: "n\(round)", count: below(9), note: below(2) == 0 ? nil : "x", part: part)
                    if isSecond { change(&new, part, item) }
                    nextItems[try insert(new, transaction, isSecond)] = new
                default:
                    guard let item, var new = items[item] else { return }
                    if below(2) == 0 { new.name += isSecond ? "2" : "1" }
                    if below(3) == 0 { new.count = below(9) }
                    if below(3) == 0 { new.note = below(2) == 0 ? nil : "y\(round)" }
                    if below(3) == 0 { new.part = part }
                    if isSecond { change(&new, part, one(Array(items.keys))) }
                    // Who reads 0 where nothing is, and leaves it, changes nothing.
                    if !isSecond, new.count == items[item]!.count ?? 0 { new.count = items[item]!.count }
                    try update(item, items[item]!, new, transaction, isSecond)
                    nextItems[item] = new
                }
            }
        } catch let error as StoreError where error.code == .deleteDenied {
            guard kind == 2 || kind == 3 || kind == 4 else { throw error }
            try require(
                items.contains { $0.value.parts.contains { nextParts[$0] == nil } && nextItems[$0.key] != nil },
                "a deletion was denied, and nothing is in use")
            return
        }
        for (id, item) in nextItems where item.parts.contains(where: { nextParts[$0] == nil }) {
            throw OracleDifference("\(id) uses a part that is gone")
        }
        (items, parts) = (nextItems, nextParts)
    }

    /// What only the newer version knows.
    private func change(_ item: inout Item, _ part: ObjectID?, _ parent: ObjectID?) {
        if below(4) == 0 { item.count = nil }
        if below(3) == 0 { item.extra = "e\(below(5))" }
        if below(3) == 0 { item.weight = Double(below(7)) / 2 }
        if below(3) == 0 { item.tags = (0..<below(3)).map { "\($0)" } }
        if below(3) == 0 { item.parts = part.map { [$0] } ?? [] }
        if below(4) == 0 { item.parent = parent }
    }

    private func insert(_ item: Item, _ transaction: Transaction, _ isSecond: Bool) throws -> ObjectID {
        guard isSecond else {
            return try transaction.insert(
                First.Item(
                    name: item.name, count: item.count ?? 0, note: item.note, part: item.part.map { Reference($0) })
            ).id
        }
        return try transaction.insert(whole(item)).id
    }

    private func whole(_ item: Item) -> Second.Item {
        Second.Item(
            title: item.name, count: item.count, note: item.note, extra: item.extra, weight: item.weight,
            tags: item.tags, part: item.part.map { Reference($0) }, parts: item.parts.map { Reference($0) },
            parent: item.parent.map { Reference($0) })
    }

    private func update(
        _ id: ObjectID, _ old: Item, _ new: Item, _ transaction: Transaction, _ isSecond: Bool
    ) throws {
        guard isSecond else {
            try transaction.update(Reference<First.Item>(id)) { value in
                value.name = new.name
                if old.count != new.count { value.count = new.count ?? 0 }
                value.note = new.note
                value.part = new.part.map { Reference($0) }
            }
            return
        }
        try transaction.update(Reference<Second.Item>(id)) { $0 = whole(new) }
    }

    /// As the rules of the newer version say, once the store has heard of them.
    private func delete(
        _ object: ObjectID, _ transaction: Transaction, _ items: inout [ObjectID: Item],
        _ parts: inout [ObjectID: (name: String, size: Int)]
    ) throws {
        try transaction.delete(object)
        var gone: Set<ObjectID> = [object]
        var count = 0
        while gone.count > count {
            count = gone.count
            for (id, item) in items { if let parent = item.parent, gone.contains(parent) { gone.insert(id) } }
        }
        for id in gone {
            items[id] = nil
            parts[id] = nil
        }
        for id in items.keys { if let part = items[id]!.part, gone.contains(part) { items[id]!.part = nil } }
    }

    // MARK: Comparing

    private func compare() throws {
        let one = try first!.snapshot()
        for (id, item) in items {
            let wanted = First.Item(
                name: item.name, count: item.count ?? 0, note: item.note, part: item.part.map { Reference($0) })
            let found = try one[Reference<First.Item>(id)]
            try require(found == wanted, "the first version reads \(String(describing: found)), and not \(wanted)")
        }
        try require(try one.references(to: First.Item.self).map(\.id) == items.keys.sorted(), "other items")
        try require(try one.references(to: First.Part.self).map(\.id) == parts.keys.sorted(), "other parts")
        let zeros = try one.references(to: First.Item.self, where: #Predicate { $0.count == 0 }).map(\.id).sorted()
        try require(zeros == items.filter { ($0.value.count ?? 0) == 0 }.keys.sorted(), "items without a count")
        let sorted = try one.fetch(First.Item.self, sortedBy: .ascending(\.count)).map(\.count)
        try require(sorted == items.values.map { $0.count ?? 0 }.sorted(), "the order of counts")
        guard let second else { return }
        let two = try second.snapshot()
        for (id, item) in items {
            let found = try two[Reference<Second.Item>(id)]
            try require(
                found == whole(item), "the second version reads \(String(describing: found)), and not \(whole(item))")
        }
        for (id, part) in parts {
            let reference = Reference<Second.Part>(id)
            let found = try two[reference]
            try require(found == Second.Part(name: part.name, size: part.size), "a part is another one")
            try require(
                try two.references(\Second.Part.items, of: reference).map(\.id)
                    == items.filter { $0.value.part == id }.keys.sorted(), "the items of a part")
            try require(
                try two.references(\Second.Part.users, of: reference).map(\.id)
                    == items.filter { $0.value.parts.contains(id) }.keys.sorted(), "the users of a part")
        }
        let empty = try two.references(to: Second.Item.self, where: #Predicate { $0.count == nil }).map(\.id)
        try require(empty.sorted() == items.filter { $0.value.count == nil }.keys.sorted(), "items with no count")
        let heavy = try two.references(
            to: Second.Item.self, where: #Predicate { $0.extra == "extra" && $0.weight > 1 }
        ).map(\.id).sorted()
        try require(
            heavy == items.filter { $0.value.extra == "extra" && $0.value.weight > 1 }.keys.sorted(), "heavy items")
    }
}
