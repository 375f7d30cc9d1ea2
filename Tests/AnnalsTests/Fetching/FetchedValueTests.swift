// Values made of rows: every kind of property, properties without a value, and rows that cannot be read.

import Annals
import FoundationEssentials
import Synchronization
import TestSupport
import Testing

@Suite struct FetchedValueTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func store() throws -> Store { try Store(at: folder.path, entities: [Part.self]) }

    /// What is fetched is made in one piece, and what a reference names is read into a new value: both are the same.
    @Test func fetchedValuesMatchTheirReferences() throws {
        let store = try store()
        let made = try store.writeOptimistically { transaction in
            let first = try transaction.insert(Part())
            return [
                first, try transaction.insert(Part(of: first)), try transaction.insert(Part(text: "ä\u{301}", half: 2)),
            ]
        }.result
        // Nothing is set but what is required: the rest reads as a new value has it.
        try store.writeOptimistically { try $0.insert("Part", [:]) }
        let snapshot = try store.snapshot()
        let parts = try snapshot.fetch(Part.self)
        let references = try snapshot.references(to: Part.self)
        #expect(parts.count == 4 && references.prefix(3) == made[...])
        #expect(parts[0] == Part() && parts[1] == Part(of: made[0]) && parts[2] == Part(text: "ä\u{301}", half: 2))
        #expect(parts[3] == Part())
        for (part, reference) in zip(parts, references) { #expect(try snapshot[reference] == part) }
        var lent: [Part] = []
        try snapshot.forEach(Part.self) { _, part in
            lent.append(part)
            return true
        }
        #expect(lent == parts)
        try store.close()
        try folder.expectIntact()
    }

    @Test func rowsOfEarlierSchemasAreReadWithInitialValues() throws {
        struct Early: Entity {
            var text = "t"
            static let schema = Schema<Early>("Part")
        }
        let early = try Store(at: folder.path, entities: [Early.self])
        try early.writeOptimistically { transaction in
            for number in 0..<5 { try transaction.insert(Early(text: "\(number)")) }
        }
        try early.close()
        let store = try store()
        try store.writeOptimistically { try $0.insert(Part(text: "new", half: 1)) }
        let parts = try store.snapshot().fetch(Part.self)
        #expect(parts == (0..<5).map { Part(text: "\($0)") } + [Part(text: "new", half: 1)])
        try store.close()
        try folder.expectIntact()
    }

    /// A property has a class in it whose objects are counted.
    @Test func rowsThatCannotBeReadLeaveNothingInMemory() throws {
        let wide = try Store(at: folder.path, entities: [WideCounter.self])
        try wide.writeOptimistically { transaction in
            for number in 1...40 { try transaction.insert(WideCounter(number: number * 10)) }
        }
        try wide.close()
        let store = try Store(at: folder.path, entities: [Counter.self])
        let before = Counted.live.load(ordering: .relaxed)
        do {
            let snapshot = try store.snapshot()
            // The 13th has a number that its type does not have.
            expect(.valueOutOfRange) { try snapshot.fetch(Counter.self) }
            expect(.valueOutOfRange) { try snapshot.forEach(Counter.self) { _, _ in true } }
            #expect(try snapshot.fetch(Counter.self, limit: 12).map(\.number) == (1...12).map { Int8($0 * 10) })
            var found: [Int8] = []
            try snapshot.forEach(Counter.self) { _, counter in
                found.append(counter.number)
                return found.count < 3
            }
            #expect(found == [10, 20, 30])
            struct Refusal: Error {}
            #expect(throws: Refusal.self) { try snapshot.forEach(Counter.self) { _, _ in throw Refusal() } }
        }
        #expect(Counted.live.load(ordering: .relaxed) == before)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Ranges

    /// Comparisons that a range decides are not asked again: so the range must decide them.
    @Test func rangesOfIntegersDecideComparisons() throws {
        let store = try Store(at: folder.path, entities: [Place.self])
        let long = String(repeating: "x", count: 300)
        let least = -9
        var places: [Place] = []
        for number in 0..<60 {
            places.append(
                Place(
                    row: number % 10, seat: number % 7 == 0 ? nil : number % 6,
                    block: number % 3 == 0 ? long : long + "y",
                    level: number % 5))
        }
        try store.insert(contentsOf: places)
        let snapshot = try store.snapshot()
        func check(
            _ predicate: Predicate<Object<Place>>, _ index: String?, _ isMatch: (Place) -> Bool,
            sourceLocation: SourceLocation = #_sourceLocation
        ) throws {
            let found = try snapshot.fetch(Place.self, where: predicate).map(\.description).sorted()
            #expect(found == places.filter(isMatch).map(\.description).sorted(), sourceLocation: sourceLocation)
            guard let index else { return }
            let access = try snapshot.explain(Place.self, where: predicate).access
            #expect(access.contains(index), sourceLocation: sourceLocation)
        }
        for bound in -1...10 {
            try check(#Predicate { $0.row < bound }, "row") { $0.row < bound }
            try check(#Predicate { $0.row > bound }, "row") { $0.row > bound }
            try check(#Predicate { $0.row <= bound && $0.row > 3 && $0.row != 5 }, "row") {
                $0.row <= bound && $0.row > 3 && $0.row != 5
            }
            try check(#Predicate { $0.row >= bound && $0.row >= 4 && $0.row < 8 }, "row") {
                $0.row >= bound && $0.row >= 4 && $0.row < 8
            }
            try check(#Predicate { $0.row == bound && $0.row < 8 }, "row") { $0.row == bound && $0.row < 8 }
            // Objects without a value are before the range, or satisfy the comparison too.
            try check(#Predicate { ($0.seat ?? 99) < bound }, "seat") { ($0.seat ?? 99) < bound }
            try check(#Predicate { ($0.seat ?? 2) < bound }, nil) { ($0.seat ?? 2) < bound }
            try check(#Predicate { ($0.seat ?? least) > bound }, "seat") { ($0.seat ?? least) > bound }
            try check(#Predicate { $0.block == long && $0.level > bound }, "block, level") {
                $0.block == long && $0.level > bound
            }
        }
        try store.close()
        try folder.expectIntact()
    }
}

/// Every kind of property, all of them stored.
private struct Part: Entity, Equatable {
    enum Color: String { case red, blue }
    struct Nested: Codable, Equatable { var a = [1, 2] }

    var text = "t"
    var flag = true
    var small: Int8 = 1
    var middle: Int16 = 2
    var third: Int32 = 3
    var long: Int64 = 4
    var byte: UInt8 = 5
    var word: UInt16 = 6
    var fourth: UInt32 = 7
    var wide: UInt64 = 8
    var ratio = 0.5
    var half: Float = 0.25
    var date = Date(timeIntervalSince1970: 9)
    var uuid = UUID(uuid: (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    var data = Data([1, 2])
    var url: URL?
    var decimal = Decimal(3)
    var color = Color.blue
    var nested = Nested()
    var optionalText: String?
    var optionalFlag: Bool?
    var optionalSmall: Int8?
    var optionalLong: Int?
    var optionalWide: UInt64?
    var optionalRatio: Double?
    var optionalHalf: Float?
    var optionalDate: Date?
    var optionalNested: Nested?
    var whole: Reference<Part>?
    var others: [Reference<Part>] = []
    var parts = ToMany<Part>()
    var last = "a text that is longer than fifteen bytes"

    static let schema = Schema<Part> { Relationship(\.whole, inverse: \.parts) }

    init() {}

    init(text: String, half: Float = 0.25) { (self.text, self.half) = (text, half) }

    /// Everything differs from a new value.
    init(of whole: Reference<Part>) {
        (text, flag, small, middle, third, long) = ("", false, -1, -2, -3, -4)
        (byte, word, fourth, wide, ratio, half) = (50, 60, 70, 80, -0.5, -0.25)
        (date, uuid, data) = (
            Date(timeIntervalSince1970: -9), UUID(uuid: (9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9)), Data()
        )
        (url, decimal, color, nested) = (URL(string: "https://swift.org"), -3, .red, Nested(a: []))
        (optionalText, optionalFlag, optionalSmall, optionalLong) = ("an optional text of some length", true, -8, .min)
        (optionalWide, optionalRatio, optionalHalf) = (UInt64(Int64.max), .infinity, 1)
        (optionalDate, optionalNested) = (Date(timeIntervalSince1970: 1), Nested(a: [9]))
        (self.whole, others, last) = (whole, [whole], "")
    }
}

/// Counts its objects.
private final class Counted: Codable, Sendable {
    static let live = Atomic<Int>(0)
    init() { Self.live.add(1, ordering: .relaxed) }
    convenience init(from decoder: any Decoder) throws { self.init() }
    func encode(to encoder: any Encoder) throws { _ = encoder.unkeyedContainer() }
    deinit { Self.live.subtract(1, ordering: .relaxed) }
}

private struct Holder: Codable, Sendable {
    var counted = Counted()
}

private struct WideCounter: Entity {
    var name = "a name that is longer than fifteen bytes"
    var counted = Holder()
    var number = 0
    var after = Holder()
    static let schema = Schema<WideCounter>("Counter")
}

private struct Counter: Entity {
    var name = "a name that is longer than fifteen bytes"
    var counted = Holder()
    var number: Int8 = 0
    var after = Holder()
    static let schema = Schema<Counter>("Counter")
}

private struct Place: Entity, CustomStringConvertible {
    var row = 0
    var seat: Int?
    var block = ""
    var level = 0

    static let schema = Schema<Place>(indexed: [[\.block, \.level]]) {
        Attribute(\.row, .indexed)
        Attribute(\.seat, .indexed)
    }

    var description: String { "\(row) \(seat ?? -1) \(block.count) \(level)" }
}
