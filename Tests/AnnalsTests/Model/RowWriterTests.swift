// Rows that are set value by value: beside a model, with as many attributes as marks have words, and what is refused.

import Annals
import TestSupport
import Testing

@Suite struct RowWriterTests {
    /// Texts, numbers with a default and bools, in turn.
    private static func wide(_ count: Int) -> EntityDescription {
        EntityDescription(
            "Wide",
            attributes: (0..<count).map { position in
                switch position % 3 {
                case 0: AttributeDescription("a\(position)", .string)
                case 1: AttributeDescription("a\(position)", .int, defaultValue: .int(Int64(position)))
                default: AttributeDescription("a\(position)", .bool)
                }
            })
    }

    private static func value(_ position: Int, _ random: inout SeededRandom) -> Value {
        if Int.random(in: 0..<4, using: &random) == 0 { return .null }
        switch position % 3 {
        case 0: return .string(String(repeating: "t", count: Int.random(in: 0..<3, using: &random)))
        case 1: return .int(Int64(Int.random(in: 0..<3, using: &random)))
        default: return .bool(Int.random(in: 0..<2, using: &random) == 1)
        }
    }

    private static func set(
        _ values: [(position: Int, value: Value)], _ writer: inout RowWriter
    ) throws(StoreError) {
        for (position, value) in values {
            switch value {
            case .int(let int): try writer.set(int: int, at: position)
            case .bool(let bool): try writer.set(bool: bool, at: position)
            case .string(let text): try writer.set(string: text, at: position)
            default: try writer.set(value, at: position)
            }
        }
    }

    /// A choice of positions in any order, but for the texts, which come in theirs.
    private static func choice(of count: Int, _ random: inout SeededRandom) -> [(position: Int, value: Value)] {
        let share = 1 + Int.random(in: 0..<4, using: &random)
        let chosen = (0..<count).filter { _ in Int.random(in: 0..<4, using: &random) < share }
        var order = chosen.shuffled(using: &random)
        let places = order.indices.filter { order[$0] % 3 == 0 }
        for (place, position) in zip(places, chosen.filter { $0 % 3 == 0 }) { order[place] = position }
        return order.map { ($0, value($0, &random)) }
    }

    @Test(arguments: [1, 2, 63, 64, 65, 128, 129, 200])
    func setValuesAreReadBackAndOnlyDifferencesAreChanges(count: Int) throws {
        let folder = try StoreFolder()
        let store = try folder.open([Self.wide(count)])
        let entity = try store.entity("Wide")
        var random = SeededRandom(UInt64(count))
        for _ in 0..<20 {
            var model = (0..<count).map { $0 % 3 == 1 ? Value.int(Int64($0)) : .null }
            let values = Self.choice(of: count, &random)
            let (id, _) = try store.writeOptimistically { transaction in
                try transaction.insert(entity) { (writer) throws(StoreError) in try Self.set(values, &writer) }
            }
            for (position, value) in values { model[position] = value }
            #expect(try store.snapshot().row(id)?.values == model)
            for _ in 0..<4 {
                let before = try store.currentToken
                let values = Self.choice(of: count, &random)
                let (hasChanged, _) = try store.writeOptimistically { transaction in
                    try transaction.update(id) { (writer) throws(StoreError) in try Self.set(values, &writer) }
                }
                let changed = values.filter { model[$0.position] != $0.value }.map(\.position).sorted()
                for (position, value) in values { model[position] = value }
                #expect(hasChanged == !changed.isEmpty)
                #expect(try store.snapshot().row(id)?.values == model)
                let written = try store.history(after: before).flatMap(\.changes).flatMap(\.attributes)
                #expect(written == changed.map { "a\($0)" })
            }
        }
        try store.close()
        try folder.expectIntact()
    }

    private static let refusals: [(name: String, set: @Sendable (inout RowWriter) throws(StoreError) -> Void)] = [
        ("no such position", { (writer) throws(StoreError) in try writer.set(int: 1, at: 7) }),
        (
            "a position below 0",
            { (writer) throws(StoreError) in try writer.set(utf8: .init(start: nil, count: 0), at: -1) }
        ),
        ("another type", { (writer) throws(StoreError) in try writer.set(bool: true, at: 1) }),
        ("a text as a number", { (writer) throws(StoreError) in try writer.set(string: "1", at: 1) }),
        (
            "set twice",
            { (writer) throws(StoreError) in
                try writer.set(int: 1, at: 1)
                try writer.set(int: 1, at: 1)
            }
        ),
        (
            "absent, then set",
            { (writer) throws(StoreError) in
                try writer.set(.null, at: 0)
                try writer.set(string: "a", at: 0)
            }
        ),
        (
            "a text behind a later one",
            { (writer) throws(StoreError) in
                try writer.set(string: "b", at: 3)
                try writer.set(string: "a", at: 0)
            }
        ),
        (
            "a number set twice, the first time to nothing",
            { (writer) throws(StoreError) in
                try writer.set(.null, at: 1)
                try writer.set(int: 1, at: 1)
            }
        ),
        (
            "a number set to nothing twice",
            { (writer) throws(StoreError) in
                try writer.set(.null, at: 1)
                try writer.set(.null, at: 1)
            }
        ),
        (
            "a number, then nothing",
            { (writer) throws(StoreError) in
                try writer.set(int: 1, at: 1)
                try writer.set(.null, at: 1)
            }
        ),
        (
            "a text behind a later one that is absent",
            { (writer) throws(StoreError) in
                try writer.set(.null, at: 3)
                try writer.set(string: "a", at: 0)
            }
        ),
        (
            "an absent text behind a later one",
            { (writer) throws(StoreError) in
                try writer.set(string: "b", at: 3)
                try writer.set(.null, at: 0)
            }
        ),
    ]

    @Test(arguments: refusals.indices)
    func aRefusedRowLeavesNothing(index: Int) throws {
        let folder = try StoreFolder()
        let store = try folder.open([Self.wide(6)])
        let entity = try store.entity("Wide")
        let (id, _) = try store.writeOptimistically { try $0.insert(entity, ["x", 1, true, "y", 2, false]) }
        let refusal = Self.refusals[index]
        try store.writeOptimistically { transaction in
            expect(.invalidArgument) { try transaction.insert(entity, refusal.set) }
            expect(.invalidArgument) { try transaction.update(id, refusal.set) }
            // Who catches the error cannot make a row of what is left either.
            expect(.invalidArgument) {
                try transaction.insert(entity) { (writer) throws(StoreError) in
                    do throws(StoreError) { try refusal.set(&writer) } catch {}
                }
            }
            expect(.invalidArgument) {
                try transaction.update(id) { (writer) throws(StoreError) in
                    do throws(StoreError) { try refusal.set(&writer) } catch {}
                }
            }
            try transaction.insert(entity, ["z", 3, true, "w", 4, false])
        }
        let rows = try store.snapshot().rows(of: "Wide").map(\.values)
        #expect(rows == [["x", 1, true, "y", 2, false], ["z", 3, true, "w", 4, false]], "\(refusal.name)")
        try store.close()
        try folder.expectIntact()
    }

    /// The row is in the old schema, and what reads it would be in the new one.
    @Test func theSchemaCannotChangeWhileARowIsWritten() throws {
        let folder = try StoreFolder()
        let store = try folder.open([Self.wide(6)])
        let entity = try store.entity("Wide")
        let (id, _) = try store.writeOptimistically { transaction in
            let id = try transaction.insert(entity) { (writer) throws(StoreError) in
                try writer.set(int: 42, at: 1)
                expect(.invalidArgument) { try transaction.changeSchema([.removeAttribute("a0", from: "Wide")]) }
                try writer.set(int: 7, at: 4)
            }
            #expect(try transaction.row(id)?.values == [.null, 42, .null, .null, 7, .null])
            try transaction.update(id, ["a2": true])
            return id
        }
        #expect(try store.snapshot().row(id)?.values == [.null, 42, true, .null, 7, .null])
        // Neither does one stay that the row did.
        try store.writeOptimistically { transaction in
            expect(.invalidArgument) {
                try transaction.insert(entity) { (writer) throws(StoreError) in
                    do {
                        try transaction.changeSchema([.removeAttribute("a0", from: "Wide")])
                    } catch let error as StoreError {
                        throw error
                    } catch {
                        throw StoreError(.closed, "\(error)")
                    }
                }
            }
            try transaction.insert(entity, [.null, 1, .null, .null, 2, .null])
        }
        #expect(try store.snapshot().count(of: "Wide") == 2)
        #expect(try store.entity("Wide").attributes.count == 6)
        try store.close()
        try folder.expectIntact()
    }

    /// Texts of all short lengths, with a byte that is not ASCII at each place: looking at eight bytes at a time must
    /// see every one.
    @Test func invalidUTF8IsRefusedAtEveryPosition() throws {
        let folder = try StoreFolder()
        let store = try folder.open([Self.wide(1)])
        let entity = try store.entity("Wide")
        var expected: [Value] = []
        try store.writeOptimistically { transaction in
            func insert(_ bytes: [UInt8]) throws {
                _ = try bytes.withUnsafeBytes { bytes in
                    try transaction.insert(entity) { (writer) throws(StoreError) in try writer.set(utf8: bytes, at: 0) }
                }
            }
            for count in 0...34 {
                var bytes = [UInt8](repeating: 0x61, count: count)
                try insert(bytes)
                expected.append(.string(String(repeating: "a", count: count)))
                for place in 0..<count {
                    for wrong in [0x80, 0xC3, 0xFF] as [UInt8] {
                        bytes[place] = wrong
                        expect(.invalidArgument) { try insert(bytes) }
                    }
                    bytes[place] = 0x61
                    guard place + 1 < count else { continue }
                    bytes.replaceSubrange(place...place + 1, with: [0xC3, 0xA9])
                    try insert(bytes)
                    expected.append(.string(String(decoding: bytes, as: UTF8.self)))
                    bytes.replaceSubrange(place...place + 1, with: [0x61, 0x61])
                }
            }
        }
        let texts = try store.snapshot().rows(of: "Wide").map { $0.values[0] }
        #expect(texts == expected)
        try store.close()
        try folder.expectIntact()
    }
}
