// Rows come back as they were written, in every shape; what does not belong in one is refused.

import Annals
import SimulatedDisk
import TestSupport
import Testing

@Suite struct RowTests {
    @Test(arguments: AttributeType.allCases)
    func everyValueOfEveryTypeIsReadBack(type: AttributeType) throws {
        for value in Samples.values(of: type) {
            try roundTrip([value], Samples.layout([type], flags: []))
            try roundTrip([value], Samples.layout([type]))
        }
        try roundTrip([.absent], Samples.layout([type]))
    }

    @Test(arguments: AttributeType.allCases.filter { $0.isVariable && !$0.isObjectList })
    func referencesAreReadBack(type: AttributeType) throws {
        try roundTrip([.large(Samples.reference)], Samples.layout([type]))
        try roundTrip(
            [.large(Samples.reference), .absent, .large(Samples.reference)], Samples.layout([type, type, type]))
    }

    @Test func everyPairOfTypesIsReadBackWithAndWithoutValues() throws {
        for first in AttributeType.allCases {
            for second in AttributeType.allCases {
                let layout = Samples.layout([first, second, first])
                for pattern in 0..<8 {
                    let values = [first, second, first].enumerated().map { index, type in
                        pattern >> index & 1 == 1 ? Samples.values(of: type)[1] : .absent
                    }
                    try roundTrip(values, layout)
                }
            }
        }
    }

    @Test func oneThousandAttributesAreReadBack() throws {
        let types = (0..<1000).map { AttributeType.allCases[$0 % 12] }
        let layout = Samples.layout(types)
        var random = SeededRandom(4)
        let values = types.map { type -> StoredValue in
            let few = Samples.values(of: type).filter { $0.variableBytes < 1000 }
            return random.next() % 4 == 0 ? .absent : few[Int(random.next() % UInt64(few.count))]
        }
        try roundTrip(values, layout)
        try roundTrip(types.map { _ in .absent }, layout)
        try roundTrip(types.map { Samples.values(of: $0)[0] }, Samples.layout(types, flags: []))
    }

    @Test func aRowWithoutAttributesIsReadBack() throws {
        try roundTrip([], Samples.layout([]))
        #expect(try Samples.row([], Samples.layout([])) == [7, 0, 3, 0, 8, 0, 0, 0])
    }

    /// The bytes, by hand, as the page defines them.
    @Test func aRowHasTheDocumentedBytes() throws {
        let layout = Samples.layout([.bool, .string, .uuid, .data, .decimal, .string])
        let values: [StoredValue] = [
            .bool(true), .string("hi"), .uuid(UUIDBytes(high: 0x0102_0304_0506_0708, low: 0x090a_0b0c_0d0e_0f10)),
            .absent, Samples.decimal(0x0102, -2, true), .string("\u{e9}"),
        ]
        let expected: [UInt8] =
            [7, 0, 3, 0, 62, 0, 0, 0, 1, 60, 0, 0, 0] + (1...16).map { UInt8($0) } + [60, 0, 0, 0]
            + [1, 0, 0xfe, 0xff, 2, 1] + [UInt8](repeating: 0, count: 14) + [62, 0, 0, 0, 0b11_0111]
            + [0x68, 0x69, 0xc3, 0xa9] + [0, 0]
        #expect(layout.variableOffset == 58)
        #expect(try Samples.row(values, layout) == expected)
    }

    @Test func typedAccessorsReadWithoutCopies() throws {
        let layout = Samples.layout([.int, .double, .date, .object, .string, .uuid, .decimal, .bool])
        let values: [StoredValue] = [
            .int(-5), .double(2.5), .date(9.1), .object(Samples.object(4)), .string("text"),
            .uuid(UUIDBytes(high: 1, low: 2)), .decimal(.zero), .bool(true),
        ]
        try Samples.row(values, layout).withUnsafeBytes { (bytes) throws in
            let row = try RowImage(bytes, layout: layout)
            #expect(row.int(at: 0) == -5)
            #expect(row.double(at: 1) == 2.5)
            #expect(row.date(at: 2) == 9.1)
            #expect(try row.object(at: 3) == Samples.object(4))
            #expect(row.uuid(at: 5) == UUIDBytes(high: 1, low: 2))
            #expect(try row.decimal(at: 6) == .zero)
            #expect(try row.bool(at: 7) == true)
            guard case .inline(let text) = try row.variable(at: 4) else { throw StoreError(.damaged, "not inline") }
            #expect(Array(text) == Array("text".utf8))
            let header = try RowHeader(bytes)
            #expect(header.entryDistance == 7 && header.schemaVersion == 3 && header.rowBytes == row.rowBytes)
        }
    }

    @Test func severalRowsAreWrittenOneAfterAnother() throws {
        let layout = Samples.layout([.string])
        var writer = ByteWriter()
        for text in ["a", "", "abcdefgh"] {
            try EncodedRow.append(
                [.string(text)], layout: layout, entryDistance: 0, schemaVersion: 1, to: &writer)
            #expect(writer.count % 8 == 0)
        }
        let second = try RowImage(UnsafeRawBufferPointer(rebasing: writer.bytes[16...]), layout: layout)
        #expect(try second.value(at: 0) == .string(""))
        let third = try RowImage(UnsafeRawBufferPointer(rebasing: writer.bytes[32...]), layout: layout)
        #expect(try third.value(at: 0) == .string("abcdefgh"))
    }

    @Test func setsAreSortedAndHaveNoDuplicates() throws {
        let layout = Samples.layout([.objects])
        let mixed = [3, 1, 2, 3, 1].map { Samples.object($0) }
        let sorted = [1, 2, 3].map { Samples.object($0) }
        #expect(StoredValue.objectSet(mixed) == .objects(sorted))
        try Samples.row([.objects(mixed)], layout).withUnsafeBytes { (bytes) throws in
            #expect(try RowImage(bytes, layout: layout).value(at: 0) == .objects(sorted))
        }
    }

    @Test func deletionsHoldOnlyPreservedValues() throws {
        let preserved = Samples.layout([.int, .string], flags: .preservedOnDeletion)
        let row = try Samples.row([.int(1), .absent], preserved, isDeletion: true)
        row.withUnsafeBytes { bytes in
            #expect(throws: Never.self) { try RowImage(bytes, layout: preserved).validate(isDeletion: true) }
            #expect(throws: StoreError.self) { try RowImage(bytes, layout: preserved).validate() }
        }
        let plain = Samples.layout([.int])
        try Samples.row([.int(1)], plain).withUnsafeBytes { (bytes) throws in
            let view = try RowImage(bytes, layout: plain)
            #expect(throws: StoreError.self) { try view.validate(isDeletion: true) }
        }
    }

    // MARK: Refusals

    @Test func valuesThatDoNotFitAreRefusedAndNothingIsWritten() throws {
        let twice = [1, 1].map { Samples.object($0) }
        let cases: [([StoredValue], [AttributeType], AttributeFlags, StoreError.Code)] = [
            ([], [.int], .optional, .invalidArgument),
            ([.int(1), .int(1)], [.int], .optional, .invalidArgument),
            ([.int(1)], [.double], .optional, .invalidArgument),
            ([.date(1)], [.int], .optional, .invalidArgument),
            ([.string("")], [.json], .optional, .invalidArgument),
            ([.absent], [.int], [], .requiredMissing),
            ([.orderedObjects(twice)], [.orderedObjects], .optional, .invalidArgument),
            ([.large(Samples.reference)], [.int], .optional, .invalidArgument),
        ]
        for (index, (values, types, flags, code)) in cases.enumerated() {
            let machine = Machine()
            let log = try machine.create()
            let schema = log.makeFrames()
            try schema.changeSchema([Samples.entity(types, flags: flags)])
            try log.commit(schema)
            let transaction = log.makeFrames()
            var met: StoreError.Code?
            do {
                try transaction.insert(Samples.object(1), values)
            } catch { met = error.code }
            #expect(met == code, "case \(index)")
            #expect(transaction.changes == 0)
            try log.close()
            try expectIntact(machine.disk, isSealed: true)
        }
    }

    @Test func theLongestValuesAreMovedOutOfTheRow() throws {
        func moved(_ sizes: [Int], _ limits: InlineLimits = InlineLimits()) -> [Int] {
            DraftFrames.valuesToMoveOut(sizes.map { .string(Samples.text($0)) }, limits: limits)
        }
        #expect(moved([65536, 65537, 3]) == [1])
        #expect(moved([65536, 65536, 65536, 65536]) == [])
        #expect(moved([65536, 65536, 1, 65536, 65536]) == [0])
        #expect(moved([60000, 65000, 60000, 64000, 64000, 3]) == [1])
        #expect(moved([100, 200, 300], InlineLimits(valueBytes: 250, rowBytes: 200)) == [1, 2])
        #expect(moved([24, 24, 25], InlineLimits(valueBytes: 0, rowBytes: 0)) == [2])
        // Values that are in an index come last.
        let values = [65536, 60000, 60000, 60000, 60000].map { StoredValue.string(Samples.text($0)) }
        let types = [AttributeType](repeating: .string, count: 5)
        let indexed = Samples.entity(types, flags: [.optional, .indexed])
        let plain = Samples.entity(types)
        let mixed = EntityDefinition(
            number: 1, name: "Mixed", attributes: Array(indexed.attributes[..<2] + plain.attributes[2...]))
        #expect(DraftFrames.valuesToMoveOut(values, of: plain) == [0])
        #expect(DraftFrames.valuesToMoveOut(values, of: indexed) == [0])
        #expect(DraftFrames.valuesToMoveOut(values, of: mixed) == [2])
        let large = StoredValue.large(Samples.reference)
        #expect(DraftFrames.valuesToMoveOut([large, large], limits: InlineLimits(rowBytes: 1)) == [])
    }

    @Test func movingOutMakesEveryRowFit() throws {
        var random = SeededRandom(5)
        for _ in 0..<50 {
            var values = (0..<12).map { _ in StoredValue.string(Samples.text(Int(random.next() % 70_000))) }
            for position in DraftFrames.valuesToMoveOut(values) { values[position] = .large(Samples.reference) }
            try roundTrip(values, strings(12))
        }
    }

    private func strings(_ count: Int) -> RowLayout { Samples.layout(Array(repeating: .string, count: count)) }

    private func roundTrip(
        _ values: [StoredValue], _ layout: RowLayout, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        try Samples.row(values, layout).withUnsafeBytes { (bytes) throws in
            let row = try RowImage(bytes, layout: layout)
            try row.validate()
            #expect(try row.values() == values, sourceLocation: sourceLocation)
        }
    }
}
