// Values derived from other sides, limits of other sides, and the time of the last change: right after every
// transaction.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct DerivedValueTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    struct Box: Entity, Equatable {
        var name = ""
        var itemCount = 0
        var weight = 0
        var volume = 0.0
        var price = Decimal(0)
        var items = ToMany<Item>()

        static let schema = Schema<Box> {
            Attribute(\.itemCount, .indexed, .derived(count: \.items))
            Attribute(\.weight, .derived(sum: \.items, \.weight))
            Attribute(\.volume, .derived(sum: \.items, \.volume))
            Attribute(\.price, .derived(sum: \.items, \.price))
        }
    }
    struct Kind: Entity {
        var name = ""
    }
    struct Label: Entity, Equatable {
        var useCount = 0
        var changed = Date.distantPast
        var items = ToMany<Item>()
        static let schema = Schema<Label> {
            Attribute(\.useCount, .derived(count: \.items))
            Attribute(\.changed, .derived(.lastChange))
        }
    }
    struct Item: Entity, Equatable {
        var weight = 0
        var volume = 0.0
        var price: Decimal?
        var note = ""
        var box: Reference<Box>?
        var kind: Reference<Kind>?
        var labels: [Reference<Label>] = []

        static let schema = Schema<Item> {
            Relationship(\.box, inverse: \.items)
            Relationship(\.kind, whenTargetIsDeleted: .cascade)
            Relationship(\.labels, inverse: \.items)
        }
    }
    static let all: [any Entity.Type] = [Box.self, Kind.self, Label.self, Item.self]

    private func open() throws -> Store { try Store(at: folder.path, entities: Self.all) }

    /// What the derived values must be, from all items.
    private func expectRight(_ store: Store, _ comment: String = "", sourceLocation: SourceLocation = #_sourceLocation)
        throws
    {
        let snapshot = try store.snapshot()
        var boxes: [ObjectID: Box] = [:]
        var uses: [ObjectID: Int] = [:]
        for item in try snapshot.fetch(Item.self) {
            for label in item.labels { uses[label.id, default: 0] += 1 }
            guard let box = item.box else { continue }
            boxes[box.id, default: Box()].itemCount += 1
            boxes[box.id, default: Box()].weight += item.weight
            boxes[box.id, default: Box()].volume += item.volume
            boxes[box.id, default: Box()].price += item.price ?? 0
        }
        for reference in try snapshot.references(to: Box.self) {
            var wanted = boxes[reference.id] ?? Box()
            let box = try #require(try snapshot[reference])
            wanted.name = box.name
            #expect(box == wanted, "\(reference) \(comment)", sourceLocation: sourceLocation)
        }
        for reference in try snapshot.references(to: Label.self) {
            let label = try snapshot[reference]
            #expect(label?.useCount == uses[reference.id] ?? 0, "\(comment)", sourceLocation: sourceLocation)
        }
        // The index is over the derived value, too.
        let empty = try snapshot.count(Box.self, where: #Predicate { $0.itemCount == 0 })
        let boxCount = try snapshot.count(Box.self)
        #expect(empty == boxCount - boxes.count, "\(comment)", sourceLocation: sourceLocation)
    }

    @Test(arguments: 1...4) func valuesAreRightAfterEveryTransaction(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let store = try open()
        for round in 0..<120 {
            let isLocked = round % 3 == 0
            let body = { (transaction: Transaction) in
                for _ in 0..<Int.random(in: 1...6, using: &random) { try change(transaction, &random) }
            }
            if isLocked { try store.write(body) } else { try store.writeOptimistically(body) }
            if round % 20 == 7 {
                let bound = Int.random(in: 0...9, using: &random)
                try store.update(Item.self, where: #Predicate { $0.weight < bound }) { $0.weight += 3 }
            }
            if round % 20 == 13 {
                let bound = Int.random(in: 0...9, using: &random)
                try store.delete(Item.self, where: #Predicate { $0.weight > bound })
            }
            if round % 40 == 39 { _ = try store.compact() }
            try expectRight(store, "seed \(seed), round \(round)")
        }
        try store.close()
        try folder.expectIntact()
    }

    /// One random change.
    private func change(_ transaction: Transaction, _ random: inout SeededRandom) throws {
        let boxes = try transaction.references(to: Box.self)
        let kinds = try transaction.references(to: Kind.self)
        let labels = try transaction.references(to: Label.self)
        let items = try transaction.references(to: Item.self)
        switch Int.random(in: 0..<14, using: &random) {
        case 0: try transaction.insert(Box(name: "b", itemCount: 77, weight: -1))
        case 1: try transaction.insert(Kind(name: "k"))
        case 2: try transaction.insert(Label(useCount: 5))
        case 3...6:
            var item = Item(weight: .random(in: 0...9, using: &random), volume: 0.5)
            if Bool.random(using: &random) { item.price = Decimal(Int.random(in: 1...5, using: &random)) / 4 }
            item.box = boxes.randomElement(using: &random)
            item.kind = kinds.randomElement(using: &random)
            item.labels = labels.filter { _ in Bool.random(using: &random) }
            try transaction.insert(item)
        case 7:
            guard let item = items.randomElement(using: &random) else { return }
            try transaction.update(item) { $0.box = boxes.randomElement(using: &random) }
        case 8:
            guard let item = items.randomElement(using: &random) else { return }
            try transaction.update(item) {
                $0.weight += 1
                $0.price = nil
            }
        case 9:
            guard let item = items.randomElement(using: &random) else { return }
            try transaction.update(item) { $0.labels = Array($0.labels.dropFirst()) }
        case 10: if let item = items.randomElement(using: &random) { try transaction.delete(item) }
        // Their items go too.
        case 11: if let kind = kinds.randomElement(using: &random) { try transaction.delete(kind) }
        case 12: if let box = boxes.randomElement(using: &random) { try transaction.delete(box) }
        default:
            // Without types, and a derived value that somebody sets.
            if let item = items.randomElement(using: &random) {
                try transaction.update(item.id, ["weight": .int(Int64.random(in: 0...9, using: &random))])
            }
            if let box = boxes.randomElement(using: &random) {
                try transaction.update(box) {
                    $0.name += "x"
                    $0.weight = 1_000
                }
            }
        }
    }

    @Test func aTransactionOfManyFramesWritesEachObjectOnce() throws {
        let store = try open()
        let (boxes, token) = try store.write { transaction in
            let boxes = try (0..<40).map { try transaction.insert(Box(name: "\($0)")) }
            for number in 0..<20_000 {
                try transaction.insert(
                    Item(weight: number % 7, note: "a note of some length \(number)", box: boxes[number % 40]))
            }
            return boxes
        }
        try expectRight(store)
        #expect(try store.snapshot()[boxes[0]]?.itemCount == 500)
        let changes = try store.changes(HistoryRequest())
        #expect(Set(changes.map(\.object)).count == changes.count && changes.count == 20_040)
        #expect(token != nil)
        try store.update(Item.self) { $0.weight += 1 }
        try expectRight(store)
        try store.delete(Box.self, where: #Predicate { $0.weight > 2_000 })
        try expectRight(store)
        try store.close()
        try folder.expectIntact()
    }

    @Test func concurrentWritersKeepDerivedValuesRight() async throws {
        let store = try open()
        let box = try newBox(store)
        let path = folder.path
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<3 { group.addTask { try Self.insertAndDelete(path, box) } }
            try await group.waitForAll()
        }
        try expectRight(store)
        #expect(try store.snapshot()[box]?.itemCount == 3 * 26)
        try store.close()
        try folder.expectIntact()
    }

    private func newBox(_ store: Store) throws -> Reference<Box> {
        try store.writeOptimistically { try $0.insert(Box(name: "shared")) }.result
    }

    private static func insertAndDelete(_ path: String, _ box: Reference<Box>) throws {
        let store = try Store(at: path, entities: Self.all)
        for number in 0..<40 {
            let (item, _) = try store.writeOptimistically { try $0.insert(Item(weight: number, box: box)) }
            if number % 3 == 0 { try store.writeOptimistically { try $0.delete(item) } }
        }
        try store.close()
    }

    @Test func aRevertDerivesValuesAgain() throws {
        let store = try open()
        let (box, _) = try store.writeOptimistically { try $0.insert(Box(name: "b")) }
        let (label, _) = try store.writeOptimistically { try $0.insert(Label()) }
        let (_, first) = try store.writeOptimistically { try $0.insert(Item(weight: 3, box: box, labels: [label])) }
        try store.writeOptimistically { try $0.insert(Item(weight: 4, box: box, labels: [label])) }
        let outcome = try store.revert(try #require(first), conflicts: .refuse)
        #expect(outcome.conflicts.isEmpty && outcome.token != nil)
        #expect(try store.snapshot()[box]?.itemCount == 1 && store.snapshot()[box]?.weight == 4)
        try expectRight(store)
        // What is not derived is still a conflict.
        let (_, renamed) = try store.writeOptimistically { try $0.update(box) { $0.name = "c" } }
        try store.writeOptimistically { try $0.update(box) { $0.name = "d" } }
        #expect(try store.revert(try #require(renamed), conflicts: .refuse).conflicts.count == 1)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Programs that do not keep it

    @Test func theNextSaveCorrectsDerivedValuesOfOtherPrograms() throws {
        let store = try open()
        let (box, _) = try store.writeOptimistically { transaction in
            let box = try transaction.insert(Box(name: "b"))
            for _ in 0..<3 { try transaction.insert(Item(weight: 2, box: box)) }
            return box
        }
        let untyped = try Store(at: folder.path)
        try untyped.writeOptimistically { try $0.insert("Item", ["weight": 5, "box": .object(box.id)]) }
        #expect(try store.snapshot()[box]?.itemCount == 3)
        try store.writeOptimistically { try $0.update(box) { $0.name = "c" } }
        #expect(try store.snapshot()[box]?.itemCount == 4 && store.snapshot()[box]?.weight == 11)
        try untyped.writeOptimistically { try $0.insert("Item", ["weight": 5, "box": .object(box.id)]) }
        #expect(try store.refreshDerived(of: Box.self) != nil)
        try expectRight(store)
        #expect(try store.refreshDerived(of: Box.self) == nil)
        try untyped.close()
        try store.close()
        try folder.expectIntact()
    }

    enum Before {
        struct Box: Entity {
            var name = ""
        }
        struct Item: Entity {
            var weight = 0
            var box: Reference<Box>?
        }
    }

    @Test func aNewDerivedAttributeIsRightForOldObjects() throws {
        let old = try Store(at: folder.path, entities: [Before.Box.self, Before.Item.self])
        try old.writeOptimistically { transaction in
            for number in 0..<5 {
                let box = try transaction.insert(Before.Box(name: "\(number)"))
                for weight in 0..<number { try transaction.insert(Before.Item(weight: weight, box: box)) }
            }
        }
        let store = try open()
        try expectRight(store)
        #expect(try store.snapshot().fetch(Box.self).map(\.itemCount) == [0, 1, 2, 3, 4])
        try store.close()
        try open().close()
        try old.close()
        try folder.expectIntact()
    }

    @Test func aSumThatTheTypeCannotHaveIsRefused() throws {
        struct Narrow: Entity {
            var sum: Int8 = 0
            var parts = ToMany<Part>()
            static let schema = Schema<Narrow> { Attribute(\.sum, .derived(sum: \.parts, \.size)) }
        }
        struct Part: Entity {
            var size: Int8 = 0
            var whole: Reference<Narrow>?
            static let schema = Schema<Part> { Relationship(\.whole, inverse: \.parts) }
        }
        let store = try Store(at: folder.path, entities: [Narrow.self, Part.self])
        let (whole, _) = try store.writeOptimistically { transaction in
            let whole = try transaction.insert(Narrow())
            try transaction.insert(Part(size: 100, whole: whole))
            return whole
        }
        let error = expect(.valueOutOfRange) {
            try store.writeOptimistically { try $0.insert(Part(size: 100, whole: whole)) }
        }
        #expect(error?.entity == "Narrow" && error?.attributes == ["sum"])
        #expect(try store.snapshot()[whole]?.sum == 100 && store.snapshot().count(Part.self) == 1)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: The time of the last change

    @Test func theTimeOfTheLastChangeIsThatOfTheTransaction() throws {
        let store = try open()
        func requireClose(_ label: Reference<Label>) throws -> Date {
            let changed = try #require(try store.snapshot()[label]?.changed)
            let transaction = try #require(store.history(HistoryRequest()).last)
            let age = Double(transaction.microseconds) / 1e6 - changed.timeIntervalSince1970
            #expect(age > -0.001 && age < 60)
            return changed
        }
        let (label, _) = try store.writeOptimistically { try $0.insert(Label()) }
        let first = try requireClose(label)
        // Nothing differs, so nothing is written.
        let (isChanged, token) = try store.writeOptimistically { try $0.update(label) { $0.useCount = 0 } }
        #expect(!isChanged && token == nil)
        let (item, _) = try store.writeOptimistically { try $0.insert(Item(labels: [label])) }
        let second = try requireClose(label)
        #expect(second > first)
        // By a rule, by hand and without types.
        try store.writeOptimistically { try $0.delete(item) }
        let third = try requireClose(label)
        try store.writeOptimistically { try $0.update(label) { $0.changed = .distantFuture } }
        let fourth = try requireClose(label)
        try store.writeOptimistically { try $0.update(label.id, ["useCount": 7]) }
        let fifth = try requireClose(label)
        #expect(third > second && fourth >= third && fifth > fourth)
        #expect(try store.snapshot()[label]?.useCount == 0)
        let (untyped, _) = try store.writeOptimistically { try $0.insert("Label", [:]) }
        _ = try requireClose(Reference(untyped))
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Limits

    enum Limited {
        struct Team: Entity {
            var name = ""
            var players = ToMany<Player>()
            static let schema = Schema<Team> { Attribute(\.players, .count(1...3)) }
        }
        struct Player: Entity {
            var name = ""
            var team: Reference<Team>?
            static let schema = Schema<Player> {
                Attribute(\.name, .length(1...9))
                Relationship(\.team, inverse: \.players)
            }
        }
    }

    @Test func anotherSideHasItsNumberOfObjectsWhenTheTransactionEnds() throws {
        let store = try Store(at: folder.path, entities: [Limited.Team.self, Limited.Player.self])
        let empty = expect(.validationFailed) {
            try store.writeOptimistically { try $0.insert(Limited.Team(name: "a")) }
        }
        let failure = empty?.validationFailures.first
        #expect(failure?.entity == "Team" && failure?.attribute == "players" && failure?.value == "0 objects")
        #expect(failure?.message == "must have 1 to 3 objects" && empty?.validationFailures.count == 1)
        let (team, _) = try store.writeOptimistically { transaction in
            let team = try transaction.insert(Limited.Team(name: "a"))
            for name in ["x", "y"] { try transaction.insert(Limited.Player(name: name, team: team)) }
            return team
        }
        // All failures of a transaction together.
        let both = expect(.validationFailed) {
            try store.writeOptimistically { transaction in
                for name in ["", "z"] { try transaction.insert(Limited.Player(name: name, team: team)) }
            }
        }
        #expect(both?.validationFailures.map(\.attribute) == ["name", "players"])
        #expect(both?.validationFailures.map(\.value) == ["", "4 objects"])
        #expect(try store.snapshot().count(Limited.Player.self) == 2)
        expect(.validationFailed) { try store.delete(Limited.Player.self) }
        // Only the end counts, and a team that is deleted needs nobody.
        try store.writeOptimistically { transaction in
            let players = try transaction.references(\.players, of: team)
            for player in players { try transaction.delete(player) }
            try transaction.insert(Limited.Player(name: "new", team: team))
        }
        try store.writeOptimistically { try $0.delete(team) }
        try store.close()
        try folder.expectIntact()
    }

    @Test func writersAtTheSameTimeKeepTheLimitTogether() async throws {
        let store = try Store(at: folder.path, entities: [Limited.Team.self, Limited.Player.self])
        let team = try newTeam(store)
        let path = folder.path
        let refused = try await withThrowingTaskGroup(of: Int.self) { group in
            for task in 0..<4 { group.addTask { try Self.join(path, team, task) } }
            return try await group.reduce(0, +)
        }
        #expect(refused == 38)
        #expect(try store.snapshot().references(\.players, of: team).count == 3)
        try store.close()
        try folder.expectIntact()
    }

    private func newTeam(_ store: Store) throws -> Reference<Limited.Team> {
        try store.writeOptimistically { transaction in
            let team = try transaction.insert(Limited.Team(name: "a"))
            try transaction.insert(Limited.Player(name: "first", team: team))
            return team
        }.result
    }

    /// How many players are refused.
    private static func join(_ path: String, _ team: Reference<Limited.Team>, _ task: Int) throws -> Int {
        let store = try Store(at: path, entities: [Limited.Team.self, Limited.Player.self])
        var refused = 0
        for number in 0..<10 {
            do {
                try store.writeOptimistically { try $0.insert(Limited.Player(name: "\(task)-\(number)", team: team)) }
            } catch let error as StoreError {
                #expect(error.code == .validationFailed)
                refused += 1
            }
        }
        try store.close()
        return refused
    }

    // MARK: Mistakes

    enum Mistaken {
        struct Whole: Entity {
            var sum = 0
            var changed = Date()
            var again = Date()
            var parts = ToMany<Part>()
            static let schema = Schema<Whole> {
                Attribute(\.sum, .derived(sum: \.parts, \.doubled))
                Attribute(\.changed, .derived(.lastChange))
                Attribute(\.again, .derived(.lastChange))
                Attribute(\.parts, .unique)
            }
        }
        struct Part: Entity {
            var size = 0
            var whole: Reference<Whole>?
            var doubled: Int { size * 2 }
            static let schema = Schema<Part> { Relationship(\.whole, inverse: \.parts) }
        }
        struct Computed: Entity {
            var sum = 0
            var parts = ToMany<ComputedPart>()
            static let schema = Schema<Computed> { Attribute(\.sum, .derived(sum: \.parts, \.doubled)) }
        }
        struct ComputedPart: Entity {
            var size = 0
            var whole: Reference<Computed>?
            var doubled: Int { size * 2 }
            static let schema = Schema<ComputedPart> { Relationship(\.whole, inverse: \.parts) }
        }
    }

    @Test func mistakesAreReportedWhenTheStoreOpens() throws {
        let error = expect(.modelInvalid) {
            try Store(at: folder.path, entities: [Mistaken.Whole.self, Mistaken.Part.self])
        }
        let lines = error?.message.split(separator: "\n") ?? []
        #expect(lines.contains { $0.hasPrefix("“again” of “Whole” and “changed” both contain") })
        #expect(
            lines.contains { $0.hasPrefix("“parts” of “Whole” is the other side of a relationship: set its options") })
        let computed = expect(.modelInvalid) {
            try Store(at: folder.path, entities: [Mistaken.Computed.self, Mistaken.ComputedPart.self])
        }
        #expect(
            computed?.message.hasPrefix(
                "“sum” of “Computed” is the sum of a property of “ComputedPart” that is not stored as a number") == true
        )
    }

    @Test func theProgramsRequirementCountsEvenIfTheStoreIsLessStrict() throws {
        struct Loose: Entity {
            var name: String?
            var size = 0
            static let schema = Schema<Loose>("Thing")
        }
        struct Strict: Entity {
            var name: String?
            var size = 0
            static let schema = Schema<Strict>("Thing") { Attribute(\.name, .required) }
        }
        let loose = try Store(at: folder.path, entities: [Loose.self])
        let (old, _) = try loose.writeOptimistically { try $0.insert(Loose()) }
        let store = try Store(at: folder.path, entities: [Strict.self])
        let missing = expect(.requiredMissing) { try store.writeOptimistically { try $0.insert(Strict(size: 1)) } }
        #expect(missing?.entity == "Thing" && missing?.attributes == ["name"])
        let same = Reference<Strict>(old.id)
        expect(.requiredMissing) { try store.writeOptimistically { try $0.update(same) { $0.size = 2 } } }
        try store.writeOptimistically { try $0.update(same) { $0.name = "now" } }
        expect(.requiredMissing) { try store.writeOptimistically { try $0.update(same) { $0.name = nil } } }
        try loose.close()
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Contexts

    struct Shelf: Entity {
        var name = ""
        var count = 0
        var upper = ""
        var changed = Date.distantPast
        var books = ToMany<Book>()

        static let schema = Schema<Shelf> {
            Attribute(\.count, .derived(count: \.books))
            Attribute(\.upper, .derived { $0.name.uppercased() })
            Attribute(\.changed, .derived(.lastChange))
        }
    }

    struct Book: Entity {
        var title = ""
        var shelf: Reference<Shelf>?
        static let schema = Schema<Book> { Relationship(\.shelf, inverse: \.books, whenTargetIsDeleted: .nullify) }
    }

    /// Nobody has changed by hand what is derived, so undo has no conflict with it.
    @Test(arguments: 0..<5) func undoHasNoConflictWithDerivedValues(way: Int) throws {
        let folder = try StoreFolder()
        let store = try Store(at: folder.path, entities: [Shelf.self, Book.self])
        let context = store.makeContext()
        context.undoLevels = 100
        let shelf = context.insert(Shelf(name: "s"))
        if way == 1 { try context.save() }
        let book = context.insert(Book(title: "b", shelf: shelf.objectReference))
        try context.save()
        switch way {
        case 2: book.title = "c"
        case 3: book.shelf = nil
        case 4: shelf.name = "t"
        default: break
        }
        try context.save()
        if way >= 2 {
            try context.undo()
            try context.save()
            #expect(try store.snapshot().fetch(Shelf.self).map(\.count) == [1])
            #expect(try store.snapshot().fetch(Shelf.self).map(\.upper) == ["S"])
        }
        while context.canUndo {
            try context.undo()
            try context.save()
        }
        #expect(try store.snapshot().count(Shelf.self) == 0 && store.snapshot().count(Book.self) == 0)
        while context.canRedo {
            try context.redo()
            try context.save()
        }
        let shelves = try store.snapshot().fetch(Shelf.self)
        #expect(shelves.map(\.count) == [way == 3 ? 0 : 1] && shelves.map(\.upper) == [way == 4 ? "T" : "S"])
        try store.close()
        try folder.expectIntact()
    }

    @Test(arguments: MergePolicy.allCases, [false, true])
    func savingHasNoConflictWithDerivedValues(policy: MergePolicy, merges: Bool) throws {
        let folder = try StoreFolder()
        let store = try Store(at: folder.path, entities: [Shelf.self, Book.self])
        let ((first, second), _) = try store.write { transaction in
            (try transaction.insert(Shelf(name: "a")), try transaction.insert(Shelf(name: "b")))
        }
        let context = store.makeContext()
        context.mergePolicy = policy
        let (shelf, gone) = (try context.object(first), try context.object(second))
        shelf.name = "mine"
        context.delete(gone)
        // Both shelves get a book: what is derived of them changes.
        try store.write { transaction in
            try transaction.insert(Book(title: "x", shelf: first))
            try transaction.insert(Book(title: "y", shelf: second))
        }
        if merges { try context.merge() }
        try context.save()
        let saved = try #require(try store.snapshot()[first])
        #expect(saved.name == "mine" && saved.upper == "MINE" && saved.count == 1)
        #expect(try store.snapshot()[second] == nil && shelf.count == 1 && shelf.upper == "MINE")
        #expect(try store.snapshot().count(Book.self, where: #Predicate { $0.shelf == nil }) == 1)
        try store.close()
        try folder.expectIntact()
    }
}
