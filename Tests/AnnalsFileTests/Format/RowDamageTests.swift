// Rows that no writer writes: every rule of F21 and F22 broken by hand, then by chance. Errors, never traps.

import Annals
import SimulatedDisk
import TestSupport
import Testing

@Suite struct RowDamageTests {
    struct Case: Sendable {
        var name: String
        var type: AttributeType
        var value: StoredValue
        var optional = true
        /// Only a newer program can have written some of them.
        var code = StoreError.Code.damaged
        var damage: @Sendable (inout [UInt8]) -> Void
    }

    /// In a row of one attribute the slot is at 8; that of a variable one ends at 12, its value begins at 13.
    static let cases: [Case] = [
        Case(name: "bool of 2", type: .bool, value: .bool(true)) { $0[8] = 2 },
        Case(name: "absent bool not zero", type: .bool, value: .absent) { $0[8] = 1 },
        Case(name: "absent int not zero", type: .int, value: .absent) { $0[15] = 1 },
        Case(name: "required absent", type: .int, value: .int(0), optional: false) { $0[16] = 0 },
        Case(name: "presence bit of nothing", type: .int, value: .int(0)) { $0[16] |= 2 },
        Case(name: "padding", type: .int, value: .int(0)) { $0[23] = 1 },
        Case(name: "row too short", type: .int, value: .int(0)) { $0[4] = 16 },
        Case(name: "row too long", type: .int, value: .int(0)) { $0[4] = 18 },
        Case(name: "row beyond its bytes", type: .int, value: .int(0)) { $0[4] = 25 },
        Case(name: "row of 4 GiB", type: .int, value: .int(0)) {
            $0.replaceSubrange(4..<8, with: [255, 255, 255, 255])
        },
        Case(name: "row of 0 bytes", type: .int, value: .int(0)) { $0[4] = 0 },
        Case(name: "decimal class 3", type: .decimal, value: Samples.decimal(7, 1), code: .unsupportedVersion) {
            $0[8] = 3
        },
        Case(name: "decimal not a number with mantissa", type: .decimal, value: Samples.decimal(7, 1)) { $0[8] = 2 },
        Case(name: "decimal zero byte", type: .decimal, value: Samples.decimal(7, 1), code: .unsupportedVersion) {
            $0[9] = 1
        },
        Case(name: "decimal multiple of 10", type: .decimal, value: Samples.decimal(7, 1)) { $0[12] = 20 },
        Case(name: "decimal negative zero", type: .decimal, value: .decimal(.zero)) { $0[8] = 1 },
        Case(name: "decimal zero with exponent", type: .decimal, value: .decimal(.zero)) { $0[10] = 1 },
        Case(name: "decimal NaN with exponent", type: .decimal, value: .decimal(.notANumber)) { $0[11] = 1 },
        Case(name: "decimal exponent of -129", type: .decimal, value: Samples.decimal(7, 1)) {
            $0.replaceSubrange(10..<12, with: [0x7F, 0xFF])
        },
        Case(name: "decimal exponent of 165, with 7", type: .decimal, value: Samples.decimal(7, 1)) { $0[10] = 165 },
        Case(name: "object without entity", type: .object, value: .object(Samples.object(1))) { $0[14] = 0 },
        Case(name: "object without number", type: .object, value: .object(Samples.object(1))) { $0[8] = 0 },
        Case(name: "end below the values", type: .string, value: .string("abc")) { $0[8] = 12 },
        Case(name: "end of zero", type: .string, value: .string("abc")) { $0[8] = 0 },
        Case(name: "end beyond the row", type: .string, value: .string("abc")) { $0[8] = 17 },
        Case(name: "end before the row's end", type: .string, value: .string("abc")) { $0[8] = 15 },
        Case(name: "not UTF-8", type: .string, value: .string("abc")) { $0[15] = 0xff },
        Case(name: "cut off letter", type: .json, value: .json("ab\u{e9}")) {
            $0[16] = 0x61
            $0[15] = 0xc3
        },
        Case(name: "overlong", type: .string, value: .string("ab")) {
            $0[13] = 0xc0
            $0[14] = 0x80
        },
        Case(name: "surrogate", type: .string, value: .string("abc")) {
            $0.replaceSubrange(13..<16, with: [0xed, 0xa0, 0x80])
        },
        Case(name: "absent string with value", type: .string, value: .string("abc")) { $0[12] = 0 },
        Case(name: "absent string with large bit", type: .string, value: .absent) { $0[11] = 0x80 },
        Case(name: "reference of 3 bytes", type: .data, value: .data([1, 2, 3])) { $0[11] = 0x80 },
        Case(name: "reference below the first frame", type: .data, value: .large(Samples.reference)) { $0[14] = 0 },
        Case(name: "reference not aligned", type: .data, value: .large(Samples.reference)) { $0[13] = 4 },
        Case(name: "reference above the file", type: .data, value: .large(Samples.reference)) { $0[20] = 0x80 },
        Case(name: "reference to nothing", type: .data, value: .large(Samples.reference)) {
            $0.replaceSubrange(21..<29, with: [UInt8](repeating: 0, count: 8))
        },
        Case(name: "reference to too much", type: .data, value: .large(Samples.reference)) { $0[28] = 1 },
        Case(name: "set equal", type: .objects, value: set) { $0[21] = $0[13] },
        Case(name: "set descending", type: .objects, value: set) { $0[13] = 3 },
        Case(name: "set with no object", type: .objects, value: set) { $0[13] = 0 },
        Case(
            name: "list with an object twice", type: .orderedObjects,
            value: .orderedObjects([Samples.object(2), Samples.object(1)])
        ) { $0[21] = 2 },
        Case(name: "list cut off", type: .orderedObjects, value: .orderedObjects([Samples.object(2)])) {
            $0[8] -= 1
            $0[4] -= 1
            $0[20] = 0
        },
    ]

    private static let set = StoredValue.objects([Samples.object(1), Samples.object(2)])

    @Test func everyBrokenRuleIsNamed() throws {
        for damage in Self.cases {
            let layout = Samples.layout([damage.type], flags: damage.optional ? .optional : [])
            var bytes = try Samples.row([damage.value], layout)
            #expect(validation(of: bytes, layout) == nil, "\(damage.name), before")
            damage.damage(&bytes)
            #expect(validation(of: bytes, layout)?.code == damage.code, "\(damage.name)")
            #expect(validation(of: bytes, layout)?.offset ?? 0 >= 1 << 40, "\(damage.name) names its offset")
            readEverything(bytes, layout)
        }
    }

    @Test func crossedEndsOfTwoValuesAreDamage() throws {
        let layout = Samples.layout([.string, .data])
        var bytes = try Samples.row([.string("ab"), .data([1, 2])], layout)
        #expect(bytes[8] == 19 && bytes[12] == 21)
        bytes[8] = 22
        #expect(validation(of: bytes, layout)?.code == .damaged)
        readEverything(bytes, layout)
    }

    @Test func valuesAboveTheLimitsAreDamage() throws {
        // A value of 65,537 bytes, made of two neighbours of which one takes all.
        let two = Samples.layout([.data, .data])
        var bytes = try Samples.row([.data([UInt8](repeating: 1, count: 65536)), .data([1])], two)
        bytes.replaceSubrange(8..<12, with: bytes[12..<16])
        #expect(validation(of: bytes, two)?.code == .damaged)
        // Five values of 64 KiB, more than a row may hold.
        let five = Samples.layout(Array(repeating: .data, count: 5))
        var writer = ByteWriter()
        writer.appendZeros(8)
        for index in 1...5 { writer.append(UInt32(29 + index * 65536)) }
        writer.append(0x1f as UInt8)
        writer.appendZeros(5 * 65536 + 3)
        writer.patch(UInt32(29 + 5 * 65536), at: RowField.rowBytes)
        #expect(validation(of: Array(writer.bytes), five)?.code == .damaged)
    }

    @Test func aRowCutAtAnyLengthIsDamageOrReadsTheSame() throws {
        let layout = Samples.layout(Self.mixedTypes)
        let bytes = try Samples.row(Self.mixedValues, layout)
        #expect(validation(of: bytes, layout) == nil)
        for count in 0..<bytes.count {
            let cut = Array(bytes[..<count])
            #expect(validation(of: cut, layout)?.code == .damaged, "\(count) bytes")
            readEverything(cut, layout)
        }
    }

    @Test func flippedBitsNeverTrap() throws {
        let layout = Samples.layout(Self.mixedTypes)
        let original = try Samples.row(Self.mixedValues, layout)
        var random = SeededRandom(6)
        for _ in 0..<50_000 {
            var bytes = original
            for _ in 0...random.next() % 3 {
                bytes[Int(random.next() % UInt64(bytes.count))] ^= UInt8(truncatingIfNeeded: random.next())
            }
            readEverything(bytes, layout)
            // What validates is in its only form, so writing it again gives the same bytes.
            if validation(of: bytes, layout) == nil { try expectSameAgain(bytes, layout) }
        }
    }

    @Test func randomBytesNeverTrap() throws {
        var random = SeededRandom(7)
        for _ in 0..<20_000 {
            let types = (0..<random.next() % 20).map { _ in AttributeType.allCases[Int(random.next() % 12)] }
            var bytes = (0..<random.next() % 300).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            if bytes.count >= 8, random.next() % 4 != 0 {
                bytes.replaceSubrange(4..<8, with: [UInt8(bytes.count & 255), UInt8(bytes.count >> 8), 0, 0])
            }
            readEverything(bytes, Samples.layout(types))
        }
    }

    // MARK: Helpers

    private static let mixedTypes: [AttributeType] = AttributeType.allCases + [.string, .data, .objects]
    private static let mixedValues: [StoredValue] =
        AttributeType.allCases.map { type in Samples.values(of: type).filter { $0.variableBytes < 100 }.last! }
        + [.absent, .large(Samples.reference), .absent]

    private func validation(of bytes: [UInt8], _ layout: RowLayout) -> StoreError? {
        bytes.withUnsafeBytes { buffer in
            do throws(StoreError) {
                try RowImage(buffer, layout: layout, fileOffset: 1 << 40).validate()
                return nil
            } catch { return error }
        }
    }

    /// Reads every attribute; all errors must be about the content. Copied to the end of its own block, so that a
    /// sanitizer sees a step too far.
    private func readEverything(_ bytes: [UInt8], _ layout: RowLayout) {
        let block = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
        defer { block.deallocate() }
        block.copyBytes(from: bytes)
        guard let row = try? RowImage(UnsafeRawBufferPointer(block), layout: layout) else { return }
        for position in 0..<layout.count {
            do throws(StoreError) {
                _ = try row.value(at: position)
            } catch {
                if error.code != .damaged, error.code != .unsupportedVersion { Issue.record("\(error)") }
            }
        }
        _ = try? row.validate()
    }

    private func expectSameAgain(_ bytes: [UInt8], _ layout: RowLayout) throws {
        try bytes.withUnsafeBytes { (buffer) throws in
            let row = try RowImage(buffer, layout: layout)
            let header = try RowHeader(buffer)
            var writer = ByteWriter()
            try EncodedRow.append(
                try row.values(), layout: layout, entryDistance: header.entryDistance,
                schemaVersion: header.schemaVersion, to: &writer)
            #expect(Array(writer.bytes) == bytes)
        }
    }
}
