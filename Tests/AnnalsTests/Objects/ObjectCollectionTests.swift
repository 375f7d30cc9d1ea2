// Lists, sets, dictionaries and texts of an object are changed in place, as those of a struct: each operation is done
// to both, and compared at once, in history, after saving, undoing and opening again.

import Annals
import FoundationEssentials
import Observation
import Synchronization
import TestSupport
import Testing

@Suite struct ObjectCollectionTests {
    struct Thing: Entity {
        var name = ""
    }

    struct Place: Codable, Equatable, Sendable {
        var city = ""
        var lines: [String] = []
    }

    struct Bag: Entity, Equatable {
        var tags: [String] = ["b", "a", "c"]
        var scores: [Int] = [3, 1, 2]
        var ids: Set<Int> = [1, 2, 3]
        var counts: [String: Int] = ["a": 1, "b": 2]
        var notes: [String]? = ["x"]
        var missing: [String]?
        var place = Place(city: "Rome", lines: ["one", "two"])
        var home: Place?
        var text = "text"
        var data = Data([1, 2, 3])
        var number = 5
        var list: [Reference<Thing>] = []
        var set: Set<Reference<Thing>> = []
    }

    /// The same change of a value and of an object.
    struct Operation {
        let name: String
        let attribute: String
        let value: (inout Bag) -> Void
        let object: (Object<Bag>) -> Void
        let path: PartialKeyPath<Object<Bag>>

        init<V>(
            _ name: String, _ path: KeyPath<Object<Bag>, V>, _ value: @escaping (inout Bag) -> Void,
            _ object: @escaping (Object<Bag>) -> Void
        ) {
            (self.name, self.value, self.object, self.path) = (name, value, object, path)
            attribute = String(name.prefix { $0.isLetter })
        }
    }

    static var lists: [Operation] {
        [
            .init("tags.append", \.tags, { $0.tags.append("d") }, { $0.tags.append("d") }),
            .init("tags += []", \.tags, { $0.tags += ["d", "e"] }, { $0.tags += ["d", "e"] }),
            .init("tags.insert", \.tags, { $0.tags.insert("d", at: 1) }, { $0.tags.insert("d", at: 1) }),
            .init("tags.remove", \.tags, { $0.tags.remove(at: 1) }, { $0.tags.remove(at: 1) }),
            .init("tags.removeLast", \.tags, { $0.tags.removeLast() }, { $0.tags.removeLast() }),
            .init("tags.removeAll", \.tags, { $0.tags.removeAll() }, { $0.tags.removeAll() }),
            .init(
                "tags.removeAll where", \.tags, { $0.tags.removeAll { $0 < "b" } }, { $0.tags.removeAll { $0 < "b" } }),
            .init("tags.sort", \.tags, { $0.tags.sort() }, { $0.tags.sort() }),
            .init("tags.sort by", \.tags, { $0.tags.sort { $0 > $1 } }, { $0.tags.sort { $0 > $1 } }),
            .init("tags.reverse", \.tags, { $0.tags.reverse() }, { $0.tags.reverse() }),
            .init("tags.swapAt", \.tags, { $0.tags.swapAt(0, 2) }, { $0.tags.swapAt(0, 2) }),
            .init("tags = ", \.tags, { $0.tags = ["z"] }, { $0.tags = ["z"] }),
            .init("tags = []", \.tags, { $0.tags = [] }, { $0.tags = [] }),
            .init("tags[0] = ", \.tags, { $0.tags[0] = "z" }, { $0.tags[0] = "z" }),
            .init("tags[0].append", \.tags, { $0.tags[0].append("z") }, { $0.tags[0].append("z") }),
            .init("tags[1...] = ", \.tags, { $0.tags[1...] = ["z"] }, { $0.tags[1...] = ["z"] }),
            .init("scores[0] += ", \.scores, { $0.scores[0] += 1 }, { $0.scores[0] += 1 }),
            .init(
                "scores[count - 1]", \.scores, { $0.scores[$0.scores.count - 1] -= $0.scores[0] },
                { $0.scores[$0.scores.count - 1] -= $0.scores[0] }),
            .init(
                "scores for", \.scores, { for i in $0.scores.indices { $0.scores[i] *= 2 } },
                { for i in $0.scores.indices { $0.scores[i] *= 2 } }),
        ]
    }

    static var others: [Operation] {
        [
            .init("ids.insert", \.ids, { $0.ids.insert(9) }, { $0.ids.insert(9) }),
            .init("ids.remove", \.ids, { $0.ids.remove(1) }, { $0.ids.remove(1) }),
            .init("ids.formUnion", \.ids, { $0.ids.formUnion([2, 7]) }, { $0.ids.formUnion([2, 7]) }),
            .init("ids.subtract", \.ids, { $0.ids.subtract([2, 7]) }, { $0.ids.subtract([2, 7]) }),
            .init("ids = ", \.ids, { $0.ids = [8] }, { $0.ids = [8] }),
            .init("ids = filter", \.ids, { $0.ids = $0.ids.filter { $0 > 1 } }, { $0.ids = $0.ids.filter { $0 > 1 } }),
            .init("counts[] = ", \.counts, { $0.counts["c"] = 3 }, { $0.counts["c"] = 3 }),
            .init("counts[] = nil", \.counts, { $0.counts["a"] = nil }, { $0.counts["a"] = nil }),
            .init("counts[]?", \.counts, { $0.counts["a"]? += 1 }, { $0.counts["a"]? += 1 }),
            .init(
                "counts[default]", \.counts, { $0.counts["z", default: 7] += 1 }, { $0.counts["z", default: 7] += 1 }),
            .init(
                "counts.merge", \.counts, { $0.counts.merge(["a": 5]) { $0 + $1 } },
                { $0.counts.merge(["a": 5]) { $0 + $1 } }),
            .init("notes?.append", \.notes, { $0.notes?.append("y") }, { $0.notes?.append("y") }),
            .init("notes![0]", \.notes, { $0.notes![0] += "y" }, { $0.notes![0] += "y" }),
            .init("notes = nil", \.notes, { $0.notes = nil }, { $0.notes = nil }),
            .init("missing = ", \.missing, { $0.missing = ["y"] }, { $0.missing = ["y"] }),
            .init(
                "missing ?? []", \.missing, { $0.missing = ($0.missing ?? []) + ["y"] },
                { $0.missing = ($0.missing ?? []) + ["y"] }),
            .init("place.city = ", \.place, { $0.place.city = "Oslo" }, { $0.place.city = "Oslo" }),
            .init("place.lines.append", \.place, { $0.place.lines.append("z") }, { $0.place.lines.append("z") }),
            .init("place.lines[0]", \.place, { $0.place.lines[0] += "z" }, { $0.place.lines[0] += "z" }),
            .init("home = ", \.home, { $0.home = Place() }, { $0.home = Place() }),
            .init("text.append", \.text, { $0.text.append("s") }, { $0.text.append("s") }),
            .init("text.removeAll", \.text, { $0.text.removeAll { $0 == "t" } }, { $0.text.removeAll { $0 == "t" } }),
            .init("data.append", \.data, { $0.data.append(9) }, { $0.data.append(9) }),
            .init("data[0] = ", \.data, { $0.data[0] = 9 }, { $0.data[0] = 9 }),
            .init("number += ", \.number, { $0.number += 2 }, { $0.number += 2 }),
            .init("number.negate", \.number, { $0.number.negate() }, { $0.number.negate() }),
        ]
    }

    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func open() throws -> Store { try Store(at: folder.path, entities: [Bag.self, Thing.self]) }

    private final class Notices: Sendable {
        let count = Atomic(0)
    }

    /// How often an observer of what `body` reads is told while `change` runs.
    private func notices(_ body: () -> Void, during change: () -> Void) -> Int {
        let notices = Notices()
        withObservationTracking(body) { notices.count.add(1, ordering: .relaxed) }
        change()
        return notices.count.load(ordering: .relaxed)
    }

    @Test func eachOperationChangesAnObjectLikeAValue() throws {
        let store = try open()
        let context = store.makeContext(author: "app")
        context.undoLevels = 10
        var expected: [(Reference<Bag>, Bag)] = []
        for operation in Self.lists + Self.others {
            let name = operation.name
            let object = context.insert(Bag())
            let token = try context.save()
            var value = Bag()
            operation.value(&value)
            let own = notices({ _ = object[keyPath: operation.path] }, during: { operation.object(object) })
            #expect(object.objectStatus.snapshot == value && value != Bag() && own == 1, "\(name)")
            #expect(Array(object.objectStatus.changedValues.keys) == [operation.attribute], "\(name)")
            // It is one change of one attribute.
            try context.undo()
            #expect(object.objectStatus.snapshot == Bag() && !context.hasChanges, "\(name)")
            try context.redo()
            try context.save()
            let changes = try store.history(HistoryRequest(after: .token(token))).flatMap(\.changes)
            #expect(changes.map(\.attributes) == [[operation.attribute]], "\(name)")
            #expect(try store.snapshot()[object.objectReference] == value, "\(name)")
            expected.append((object.objectReference, value))
            // Another property is not told.
            let isNumber = operation.attribute == "number"
            let others = notices(
                { if isNumber { _ = object.text } else { _ = object.number } }, during: { operation.object(object) })
            #expect(others == 0, "\(name)")
            context.rollback()
        }
        context.close()
        try store.close()
        let again = try open()
        for (reference, value) in expected { #expect(try again.snapshot()[reference] == value) }
        try again.close()
        try folder.expectIntact()
    }

    // MARK: Lists and sets of objects

    @Test func listsAndSetsOfObjectsTakeReferencesAndObjects() throws {
        let store = try open()
        let context = store.makeContext(author: "app")
        let bag = context.insert(Bag())
        let things = ["a", "b", "c"].map { context.insert(Thing(name: $0)) }
        try context.save()
        let references = things.map(\.objectReference)
        bag.list.append(things[0])
        bag.list.append(references[1])
        bag.list.insert(things[2], at: 0)
        #expect(bag.list == [things[2], things[0], things[1]])
        bag.list.removeAll { $0.name == "a" }
        bag.list.swapAt(0, 1)
        #expect(bag.list.map(\.name) == ["b", "c"] && bag.list.contains(references[2]))
        bag.set.insert(references[1])
        bag.set.insert(things[0])
        bag.set.insert(things[0])
        #expect(bag.set == [things[0], things[1]] && bag.set.contains(things[1]) && !bag.set.contains(references[2]))
        #expect(bag.set.remove(things[1]) == references[1] && bag.set.remove(things[2]) == nil)
        bag.set.formUnion([references[2]])
        try context.save()
        let saved = try #require(try store.snapshot()[bag.objectReference])
        #expect(saved.list == [references[1], references[2]] && saved.set == [references[0], references[2]])
        bag.set = [things[1]]
        bag.list = []
        try context.save()
        let last = try #require(try store.snapshot()[bag.objectReference])
        #expect(last.list.isEmpty && last.set == [references[1]])
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    // MARK: In place

    @Test func aListGrowsInPlace() throws {
        let store = try open()
        let context = store.makeContext(author: "app")
        context.undoLevels = 1
        let bag = context.insert(Bag())
        try context.save()
        func place<T>(_ list: [T]?) -> UnsafePointer<T>? { list?.withUnsafeBufferPointer(\.baseAddress) }
        // Once it has another owner: what was saved.
        bag.scores.reserveCapacity(1_000)
        bag.notes?.reserveCapacity(1_000)
        bag.place.lines.reserveCapacity(1_000)
        let places = (place(bag.scores), place(bag.notes), place(bag.place.lines))
        for number in 0..<900 {
            bag.scores.append(number)
            bag.notes?.append("\(number)")
            bag.place.lines.append("\(number)")
        }
        #expect(place(bag.scores) == places.0 && place(bag.notes) == places.1 && place(bag.place.lines) == places.2)
        #expect(bag.scores.count == 903 && bag.notes?.count == 901 && bag.place.lines.count == 902)
        try context.undo()
        #expect(bag.objectStatus.snapshot == Bag())
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    @Test func whileAListChangesOtherPropertiesCanBeUsed() throws {
        let store = try open()
        let context = store.makeContext(author: "app")
        let (bag, other) = (context.insert(Bag()), context.insert(Bag()))
        try context.save()
        bag.tags.removeAll { tag in
            if tag > bag.text { return false }
            bag.number += 1
            bag.counts[tag] = other.tags.count
            return tag != "b"
        }
        var value = Bag()
        value.tags = ["b"]
        value.number = 8
        value.counts = ["a": 3, "b": 3, "c": 3]
        #expect(bag.objectStatus.snapshot == value)
        // The property itself cannot: its copy can.
        var scores = bag.scores
        scores.removeAll { $0 > bag.scores[2] }
        bag.scores = scores
        #expect(bag.scores == [1, 2])
        bag.scores = [3, 1, 2]
        swap(&bag.tags, &other.tags)
        swap(&bag.notes, &bag.missing)
        #expect(bag.tags == Bag().tags && other.tags == ["b"] && bag.notes == nil && bag.missing == ["x"])
        // What was changed when an error is thrown stays changed.
        struct Stop: Error {}
        #expect(throws: Stop.self) {
            try bag.scores.withUnsafeMutableBufferPointer { scores in
                scores[0] = 7
                throw Stop()
            }
        }
        #expect(bag.scores == [7, 1, 2])
        try context.save()
        #expect(try store.snapshot()[bag.objectReference]?.scores == [7, 1, 2])
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    @Test func anObjectThatIsGoneIsNotChanged() throws {
        let store = try open()
        let context = store.makeContext(author: "app")
        let bag = context.insert(Bag())
        try context.save()
        context.delete(bag)
        bag.tags.append("d")
        bag.number += 1
        #expect(bag.tags == Bag().tags && bag.number == 5)
        #expect(context.deferredError?.code == .objectGone)
        context.rollback()
        bag.tags.append("d")
        #expect(bag.tags.count == 4)
        context.close()
        try store.close()
        try folder.expectIntact()
    }
}
