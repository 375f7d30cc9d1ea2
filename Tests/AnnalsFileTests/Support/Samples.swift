// Values and layouts that several tests use.

import Annals
import SimulatedDisk

enum Samples {
    /// Of every type: boundaries, empty values, and some in between.
    static func values(of type: AttributeType) -> [StoredValue] {
        switch type {
        case .bool: [.bool(false), .bool(true)]
        case .int: [.int(.min), .int(-1), .int(0), .int(.max)]
        case .double:
            [
                .double(-0.0), .double(0), .double(.nan), .double(Double(nan: 5, signaling: true)), .double(.infinity),
                .double(1.5),
            ]
        case .string: [.string(""), .string("\0"), .string("e\u{301}\u{10ffff}"), .string(text(65536))]
        case .data: [.data([]), .data([0]), .data([UInt8](repeating: 0xff, count: 65536))]
        case .date:
            [.date(-0.0), .date(0), .date(.nan), .date(-.infinity), .date(-62_135_769_600), .date(721_692_800.123)]
        case .uuid: [.uuid(UUIDBytes(high: 0, low: 0)), .uuid(UUIDBytes(high: 0x0102_0304_0506_0708, low: .max))]
        case .decimal:
            [
                .decimal(.zero), .decimal(.notANumber), decimal(1, -128), decimal(.max, 127), decimal(7, 0, true),
                decimal(1 << 64, -3), decimal(3, 165),
            ]
        case .json: [.json("null"), .json("{\"a\":[1,\"\u{e9}\"]}")]
        case .object: [.object(object(1)), .object(ObjectID(rawValue: .max)!)]
        case .orderedObjects: [.orderedObjects([]), .orderedObjects([object(3), object(1), object(2)])]
        case .objects: [.objects([]), .objects([object(1)]), .objects((1...8000).map { object($0) })]
        }
    }

    static func object(_ number: UInt64) -> ObjectID { ObjectID(entityNumber: 1, number: number)! }

    static func text(_ bytes: Int) -> String { String(repeating: "x", count: bytes) }

    static func decimal(_ mantissa: UInt128, _ exponent: Int16, _ isNegative: Bool = false) -> StoredValue {
        .decimal(DecimalValue(isNegative: isNegative, mantissa: mantissa, exponent: Int(exponent))!)
    }

    static let reference = LargeValueReference(offset: 4096, valueBytes: 80_000, checksum: 7)!

    /// An entity with these types, numbered and named by position.
    static func entity(
        _ types: [AttributeType], flags: AttributeFlags = .optional, number: UInt16 = 1, name: String = "Sample"
    ) -> EntityDefinition {
        let attributes = types.enumerated().map { index, type in
            AttributeDefinition(number: UInt16(index + 1), type: type, flags: flags, name: "a\(index)")
        }
        return EntityDefinition(number: number, name: name, attributes: attributes)
    }

    private static let kept = Guarded<[RowLayout]>([])

    static func layout(_ types: [AttributeType], flags: AttributeFlags = .optional) -> RowLayout {
        do {
            let layout = try RowLayout.make(entity(types, flags: flags))
            // Views of rows do not keep their layout.
            kept.withLock { $0.append(layout) }
            return layout
        } catch { preconditionFailure("\(error)") }
    }

    static func row(_ values: [StoredValue], _ layout: RowLayout, isDeletion: Bool = false) throws -> [UInt8] {
        var writer = ByteWriter()
        try EncodedRow.append(
            values, layout: layout, entryDistance: 7, schemaVersion: 3, isDeletion: isDeletion, to: &writer)
        return Array(writer.bytes)
    }
}
