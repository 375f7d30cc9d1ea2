// The keys of rows in ordered indexes: the same from rows, values and pieces, and what cutting them costs in order.

import Annals
import TestSupport
import Testing

@Suite struct IndexKeyTests {
    private static let types = AttributeType.allCases.filter { !$0.isObjectList }

    // MARK: From rows and from values

    @Test(arguments: types) func rowsAndValuesHaveTheSameKey(_ type: AttributeType) throws {
        let layout = Samples.layout([.int, type, .bool])
        var keys: Set<[UInt8]> = []
        let values = Samples.values(of: type) + [.absent]
        for value in values {
            let bytes = try Samples.row([.int(5), value, .bool(true)], layout)
            try bytes.withUnsafeBytes { (bytes) throws in
                let row = try RowImage(bytes, layout: layout)
                for (positions, types, all) in [
                    ([1], [type], [value]), ([2, 1], [.bool, type], [.bool(true), value]),
                    ([1, 0], [type, .int], [value, .int(5)]),
                ] {
                    let (key, hasAbsent) = try Self.key(row, positions)
                    let fromValues = try Self.key(all, types)
                    #expect(key == fromValues.key, "\(type) \(positions)")
                    #expect(hasAbsent == (value == .absent) && fromValues.hasAbsent == hasAbsent)
                    #expect(IndexKey.hasAbsent(row, positions: positions) == hasAbsent)
                    #expect(key.count <= IndexKey.maximumBytes)
                    if positions == [1] { keys.insert(key) }
                }
            }
        }
        // Only -0 and 0, and the two NaNs of doubles, are the same number.
        #expect(keys.count == values.count - (type == .double ? 2 : type == .date ? 1 : 0))
    }

    @Test func theKeyOfARowOlderThanAnAttributeHasItsDefault() throws {
        let old = Samples.layout([.int])
        var entity = Samples.entity([.int, .string, .bool])
        entity.attributes[1].defaultValue = Array("none".utf8)
        let index = IndexID(entity: 1, attributes: [2, 1, 3], isUnique: false)
        let bytes = try Samples.row([.int(7)], old)
        try bytes.withUnsafeBytes { (bytes) throws in
            let row = try RowImage(bytes, layout: old)
            var writer = ByteWriter()
            let columns = try index.columns(in: old, of: entity)
            #expect(try IndexKey.append(row: row, columns: columns, to: &writer, large: Self.noLargeValue))
            let expected = try Self.key([.string("none"), .int(7), .absent], [.string, .int, .bool])
            #expect(Array(writer.bytes) == expected.key && expected.hasAbsent)
        }
        #expect(code { _ = try index.columns(in: old, of: Samples.entity([.int])) } == .invalidArgument)
    }

    @Test func impossibleKeysAreRefusedAndLeaveTheWriterUnchanged() throws {
        var writer = ByteWriter()
        writer.append([1, 2, 3])
        let table: [([StoredValue], [AttributeType])] = [
            ([.int(1), .objects([])], [.int, .objects]), ([.absent], [.orderedObjects]), ([.int(1)], [.date]),
            ([.int(1), .string("a")], [.int]), ([.large(Samples.reference)], [.string]),
        ]
        for (values, types) in table {
            #expect(code { try IndexKey.append(values: values, types: types, to: &writer) } == .invalidArgument)
            let bound = code { _ = try IndexKey.bound(values: values, types: types, isIncluded: true) }
            #expect(bound == .invalidArgument)
        }
        let layout = Samples.layout([.string, .objects])
        let bytes = try Samples.row([.large(Samples.reference), .objects([])], layout)
        try bytes.withUnsafeBytes { (bytes) throws in
            let row = try RowImage(bytes, layout: layout)
            #expect(code { _ = try Self.key(row, [1]) } == .invalidArgument)
            let failing: IndexKey.LargeValueReader = { (_, visit) throws(StoreError) in
                try [UInt8](repeating: 0, count: 9000).withUnsafeBufferPointer { (piece) throws(StoreError) in
                    try visit(UnsafeRawBufferPointer(piece))
                }
                throw StoreError(.inputOutput, "Broken.")
            }
            let thrown = code { try IndexKey.append(row: row, positions: [0], to: &writer, large: failing) }
            #expect(thrown == .inputOutput)
        }
        #expect(Array(writer.bytes) == [1, 2, 3])
    }

    // MARK: Cutting

    /// The whole of a text's key is three bytes longer than the text.
    @Test(arguments: [236, 237, 238, 4092, 4093, 4094, 8189, 8190, 60_000]) func keysAreCutAbove240Bytes(_ count: Int)
        throws
    {
        let text = Samples.text(count)
        let whole = [1] + Array(text.utf8) + [0, 0]
        let (key, _) = try Self.key([.string(text)], [.string])
        let isCut = key.withUnsafeBytes { IndexKey.isCut($0) }
        #expect(isCut == (whole.count > 240))
        guard isCut else { return #expect(key == whole) }
        #expect(key == Self.cut(whole))
    }

    /// By the words of the definition.
    private static func cut(_ whole: [UInt8]) -> [UInt8] {
        var hash: UInt64 = 0
        for start in stride(from: 0, to: whole.count, by: 4096) {
            let block = Array(whole[start..<min(start + 4096, whole.count)])
            hash = block.withUnsafeBytes { Checksum.hash($0, seed: hash) }
        }
        func big(_ number: UInt64) -> [UInt8] { Swift.withUnsafeBytes(of: number.bigEndian) { Array($0) } }
        return whole.prefix(240) + big(UInt64(whole.count)) + big(hash)
    }

    /// However a large value comes in pieces, and whatever stands before it and after it.
    @Test(arguments: [1, 2, 3] as [UInt64]) func aValueInPiecesHasTheSameKey(_ seed: UInt64) throws {
        var random = SeededRandom(seed)
        let layout = Samples.layout([.int, .data, .string])
        for count in [1, 235, 240, 4000, 4096, 8192, 12_288, 70_000, 1_000_000] {
            let value = (0..<count).map { _ in random.next() % 3 == 0 ? 0 : UInt8(random.next() % 256) }
            let reader = Self.pieces(value, UInt64(count) ^ seed)
            let bytes = try Samples.row([.int(3), .large(Samples.reference), .string("end")], layout)
            try bytes.withUnsafeBytes { (bytes) throws in
                let row = try RowImage(bytes, layout: layout)
                for positions in [[1], [0, 1, 2], [2, 1], [1, 2]] {
                    let values = positions.map { [StoredValue.int(3), .data(value), .string("end")][$0] }
                    let types = positions.map { [AttributeType.int, .data, .string][$0] }
                    var writer = ByteWriter()
                    writer.append([9, 9, 9])
                    #expect(try !IndexKey.append(row: row, positions: positions, to: &writer, large: reader))
                    let expected = try [9, 9, 9] + Self.key(values, types).key
                    #expect(Array(writer.bytes) == expected, "seed \(seed): \(count) \(positions)")
                }
            }
        }
    }

    private static func pieces(_ value: [UInt8], _ seed: UInt64) -> IndexKey.LargeValueReader {
        { (reference, visit) throws(StoreError) in
            #expect(reference == Samples.reference)
            var random = SeededRandom(seed)
            var start = 0
            while start < value.count {
                let end = min(value.count, start + Int(random.next() % (random.next() % 2 == 0 ? 20_000 : 5000)))
                try value[start..<end].withUnsafeBufferPointer { (piece) throws(StoreError) in
                    try visit(UnsafeRawBufferPointer(piece))
                }
                start = end
            }
        }
    }

    /// The three promises of `IndexKey`, on pairs of long keys that differ early, late, in length, or not at all.
    @Test func cutKeysCompareAsDocumented() throws {
        var random = SeededRandom(21)
        func text() -> [UInt8] {
            var text = [UInt8](
                repeating: 5, count: [230, 236, 237, 238, 239, 240, 241, 300, 1000][Int(random.next() % 9)])
            if random.next() % 2 == 0 { text[Int(random.next() % UInt64(text.count))] = UInt8(random.next() % 3 + 4) }
            if random.next() % 4 == 0 { text[text.count - 1] = 0 }
            return text
        }
        var runs = 0
        for _ in 0..<8000 {
            let (a, b) = (text(), text())
            let tail = UInt8(random.next() % 2)
            let (left, right) = try (Self.pair(a, 0), Self.pair(b, tail))
            let (wholeLeft, wholeRight) = (Self.whole(a, 0), Self.whole(b, tail))
            #expect((left == right) == (wholeLeft == wholeRight))
            let areCut = left.count == 256 && right.count == 256
            if areCut, wholeLeft.prefix(240) == wholeRight.prefix(240) {
                runs += 1
                #expect(left.prefix(240) == right.prefix(240))
            } else {
                let isLess = left.lexicographicallyPrecedes(right)
                #expect(isLess == wholeLeft.lexicographicallyPrecedes(wholeRight))
            }
            let prefix = wholeRight.prefix(Int(random.next() % 241))
            #expect(left.starts(with: prefix) == wholeLeft.starts(with: prefix))
        }
        #expect(runs > 400)
    }

    private static func pair(_ data: [UInt8], _ tail: UInt8) throws -> [UInt8] {
        try key([.data(data), .bool(tail == 1)], [.data, .bool]).key
    }

    private static func whole(_ data: [UInt8], _ tail: UInt8) -> [UInt8] {
        [1] + data.flatMap { $0 == 0 ? [0, 0xff] : [$0] } + [0, 0, 1, tail]
    }

    @Test func boundsOfLongValuesAreWide() throws {
        let types: [AttributeType] = [.int, .string]
        for isIncluded in [false, true] {
            let short = try IndexKey.bound(values: [.int(1)], types: types, isIncluded: isIncluded)
            let key = try Self.key([.int(1)], types).key
            #expect(short.isExact && short.bound == (isIncluded ? .including(key) : .excluding(key)))
            let text = Samples.text(228)
            let fitting = try IndexKey.bound(values: [.int(1), .string(text)], types: types, isIncluded: isIncluded)
            #expect(fitting.isExact)
            let long = try IndexKey.bound(values: [.int(1), .string(text + "x")], types: types, isIncluded: isIncluded)
            let whole = key + [1] + Array(text.utf8) + Array("x".utf8) + [0, 0]
            #expect(!long.isExact && long.bound == .including(Array(whole.prefix(240))))
        }
        let none = try IndexKey.bound(values: [], types: types, isIncluded: true)
        #expect(none.isExact && none.bound == .including([]))
    }

    /// A wide bound holds all that the exact one would: here, texts that differ after the 240th byte only.
    @Test func rangesOfLongTextsContainEveryPossibleMatch() throws {
        let nodes = MemoryNodes()
        var index = OrderedIndex()
        let texts = (0..<300).map { Samples.text(250) + String($0) } + ["a", "y", "xx"]
        for (number, text) in texts.enumerated() {
            try index.insert(IndexEntry(Self.key([.string(text)], [.string]).key, UInt64(number + 1)), nodes)
        }
        for from in [texts[17], "a", "xx", "y"] {
            let bound = try IndexKey.bound(values: [.string(from)], types: [.string], isIncluded: false)
            let found = try index.list(bound.bound, .unbounded, nodes).map { texts[Int($0.object.number - 1)] }
            let expected = texts.filter { from < $0 }
            #expect(Set(expected).isSubset(of: found))
            if bound.isExact { #expect(found.count == expected.count) }
        }
        for (number, text) in texts.enumerated() {
            let key = try Self.key([.string(text)], [.string]).key
            #expect(try index.first(key, nodes) == Samples.object(UInt64(number + 1)))
            #expect(try index.list(.including(key), .including(key), nodes).count == 1)
        }
    }

    // MARK: Which indexes there are

    @Test func aDefinitionHasOneIndexForEachListOfAttributes() throws {
        func attribute(
            _ number: UInt16, _ type: AttributeType, _ flags: AttributeFlags = []
        ) -> AttributeDefinition {
            AttributeDefinition(number: number, type: type, flags: flags, name: "a\(number)")
        }
        let entity = EntityDefinition(
            number: 6, name: "E",
            attributes: [
                attribute(1, .int, .indexed), attribute(2, .string, .unique), attribute(3, .object),
                attribute(4, .bool),
                attribute(5, .json, [.indexed, .unique]), attribute(6, .objects), attribute(7, .date, .indexed),
            ],
            keys: [
                KeyDefinition(isUnique: true, attributes: [2]), KeyDefinition(isUnique: true, attributes: [1, 4]),
                KeyDefinition(isUnique: false, attributes: [4, 1]), KeyDefinition(isUnique: false, attributes: [1, 4]),
                KeyDefinition(isUnique: false, attributes: [2]), KeyDefinition(isUnique: true, attributes: [7]),
            ])
        let expected: [([UInt16], Bool)] = [
            ([1], false), ([2], true), ([3], false), ([5], true), ([6], false), ([7], true), ([1, 4], true),
            ([4, 1], false),
        ]
        #expect(
            IndexID.all(of: entity)
                == expected.map { IndexID(entity: 6, attributes: $0.0, isUnique: $0.1) })
        try IndexID.requireIndexable(entity)
        #expect(IndexID.all(of: .removal(of: 6)) == [])
    }

    @Test func listsOfObjectsHaveOnlyAnIndexOfTheirElements() throws {
        for type in [AttributeType.objects, .orderedObjects] {
            let plain = Samples.entity([.int, type])
            try IndexID.requireIndexable(plain)
            let elements = [IndexID(entity: plain.number, attributes: [2], isUnique: false)]
            #expect(IndexID.all(of: plain) == elements)
            var flagged = plain
            flagged.attributes[1].flags = .indexed
            var unique = plain
            unique.attributes[1].flags = .unique
            var keyed = plain
            keyed.keys = [KeyDefinition(isUnique: true, attributes: [1, 2])]
            for entity in [flagged, unique, keyed] {
                #expect(code { try IndexID.requireIndexable(entity) } == .invalidArgument)
                #expect(IndexID.all(of: entity) == elements)
            }
        }
    }

    // MARK: Helpers

    private static func noLargeValue(
        _ reference: LargeValueReference, _ visit: (UnsafeRawBufferPointer) throws(StoreError) -> Void
    ) throws(StoreError) {
        throw StoreError(.damaged, "F23: there is no such value.")
    }

    private static func key(_ row: RowImage, _ positions: [Int]) throws -> (key: [UInt8], hasAbsent: Bool) {
        var writer = ByteWriter()
        let hasAbsent = try IndexKey.append(row: row, positions: positions, to: &writer, large: noLargeValue)
        return (Array(writer.bytes), hasAbsent)
    }

    private static func key(_ values: [StoredValue], _ types: [AttributeType]) throws -> (key: [UInt8], hasAbsent: Bool)
    {
        var writer = ByteWriter()
        let hasAbsent = try IndexKey.append(values: values, types: types, to: &writer)
        return (Array(writer.bytes), hasAbsent)
    }
}
