// The stored inputs of the record target: each kind of record out of real stores, and with boundary values.

import Annals
import FuzzTargets
import SimulatedDisk
import Testing

extension FuzzCorpus {
    static func records() throws -> [Input] {
        var records: [Input] = []
        var seen: Set<[UInt8]> = []
        func add(_ kind: FuzzTargets.RecordKind, _ bytes: [UInt8]) {
            let input = [kind.rawValue] + bytes
            guard input.count <= 1500, seen.insert(input).inserted else { return }
            records.append(("\(kind)-\(records.count)", input))
        }
        for name in ["types", "schema", "recovered", "clock"] {
            let golden = try #require(GoldenStores.all.first { $0.name == name })
            try addFrames(of: try golden.make(), add)
        }
        addValues(add)
        addHeaders(add)
        for name in ["compacted", "replacing"] {
            let golden = try #require(GoldenStores.all.first { $0.name == name })
            try addFrames(of: try golden.make(), add)
        }
        try addHeadersOfLaterPrograms(add)
        return records
    }

    /// A header page with a byte that means nothing today, and the header of a frame that is skipped.
    private static func addHeadersOfLaterPrograms(_ add: Add) throws {
        let golden = try #require(GoldenStores.all.first { $0.name == "types" })
        var page = Array(try golden.make()[..<HeaderField.bytes])
        page[HeaderField.writeVersion] += 1
        page[HeaderField.zero] = 1
        add(.headerPage, [1] + page)
        var frame = [UInt8](repeating: 0, count: FrameField.bytes)
        (frame[FrameField.frameBytes], frame[FrameField.kind], frame[FrameField.flags]) = (64, 20, 2)
        add(.frameHeader, [0x81, 3] + frame)
    }

    private typealias Add = (FuzzTargets.RecordKind, [UInt8]) -> Void

    private static func addFrames(of store: [UInt8], _ add: Add) throws {
        add(.headerPage, [0] + store[..<128] + store[512..<576] + store[1024..<1088])
        add(.headerPage, [1] + store[..<128])
        let machine = Machine()
        machine.disk.install(store, at: Machine.path)
        try machine.open(access: .readOnly).forEachFrame { (frame, state) throws(StoreError) in
            let table = Array(frame.table)
            switch frame.header.kind {
            case .transaction, .part:
                add(.transaction, table)
                let entries = Array(table.dropFirst(TransactionField.bytes))
                add(.changes, [0, UInt8(min(255, frame.body.count / 8))] + entries)
                var cursor = ChangeCursor(frame)
                while let change = try cursor.next() { try addRow(change, frame, state, add) }
            case .schema: add(.schema, table)
            case .metadata: add(.metadata, table)
            case .recovery: add(.recovery, table)
            case .seal: add(.seal, table)
            case .consumer: add(.consumer, table)
            case .cleaning: add(.cleaning, table)
            case .replacing: add(.replacing, table)
            case .rows:
                add(.changes, [1, UInt8(min(255, frame.body.count / 8))] + table.dropFirst(RowsField.bytes))
            default: break
            }
        }
    }

    private static func addRow(_ change: ChangeView, _ frame: FrameView, _ state: LogState, _ add: Add)
        throws(StoreError)
    {
        guard let bytes = frame.row(of: change) else { return }
        let header = try RowHeader(bytes)
        guard let layout = state.rowCatalog.layout(version: header.schemaVersion, entity: change.object.entityNumber)
        else {
            return
        }
        let choices = layout.slots.map { slot in
            (slot.type.code - 1) | (slot.isOptional ? 0x80 : 0) | (slot.isPreservedOnDeletion ? 0x40 : 0)
        }
        let count = UInt8(layout.count) | (change.kind == .delete ? 0x80 : 0)
        add(.row, [count] + choices + bytes.prefix((header.rowBytes + 7) & ~7))
    }

    private static func addValues(_ add: Add) {
        for type in AttributeType.allCases {
            for value in Samples.values(of: type) where value.variableBytes < 1000 {
                var writer = ByteWriter()
                value.appendContent(to: &writer)
                add(.content, [type.code - 1] + writer.bytes)
                if let (component, key) = key(of: value) { add(.orderedKey, [1, component] + key) }
            }
        }
        add(.orderedKey, [3, 0, 1, 8, 0, 0, 0])
    }

    /// What the record target calls the component's type, and its key.
    private static func key(of value: StoredValue) -> (UInt8, [UInt8])? {
        var key = ByteWriter()
        let component: UInt8
        switch value {
        case .bool(let bool): (component, _) = (0, OrderedKey.append(bool: bool, to: &key))
        case .int(let int): (component, _) = (1, OrderedKey.append(int: int, to: &key))
        case .double(let double): (component, _) = (2, OrderedKey.append(double: double, to: &key))
        case .data(let data): (component, _) = (3, data.withUnsafeBytes { OrderedKey.append(data: $0, to: &key) })
        case .string(let text): (component, _) = (4, OrderedKey.append(string: text, to: &key))
        case .uuid(let uuid): (component, _) = (5, OrderedKey.append(uuid: uuid.high, uuid.low, to: &key))
        case .object(let object): (component, _) = (6, OrderedKey.append(object: object.rawValue, to: &key))
        case .date(let seconds): (component, _) = (7, OrderedKey.append(double: seconds, to: &key))
        case .decimal(.notANumber): (component, _) = (8, OrderedKey.appendDecimalNotANumber(to: &key))
        case .decimal(let decimal):
            component = 8
            OrderedKey.append(
                decimal: decimal.mantissa, exponent: decimal.exponent, isNegative: decimal.isNegative, to: &key)
        default: return nil
        }
        return (component, Array(key.bytes))
    }

    private static func addHeaders(_ add: Add) {
        for (index, kind) in FrameKind.allCases.enumerated() {
            let most = UInt64.max >> UInt64(index * 5)
            var header = FrameHeader(
                kind: kind, isMember: index % 2 == 1, frameBytes: index == 0 ? 524_288 : 64 + UInt32(index) * 8,
                tableBytes: UInt32(index) * 8, number: most, durableMark: most, previousChecksum: most,
                tableChecksum: 1, bodyChecksum: 2)
            var bytes = [UInt8](repeating: 0, count: FrameField.bytes)
            bytes.withUnsafeMutableBytes { header.encode(into: $0, offset: 8, salt: 3) }
            add(.frameHeader, [0x81, 3] + bytes)
        }
        for sequence: UInt64 in [1, 2, .max - 1, .max] {
            let hint = Hint(sequence: sequence, checkpoint: 0, durableEnd: .max, number: sequence)
            add(.hint, [UInt8(sequence % 2), 5] + hint.encoded(salt: 5))
        }
        for (size, piece, position) in [(1, 1, 0), (9, 8, 1), (FormatLimits.maximumValueBytes, 16, 0)] {
            var table = [UInt8](repeating: 0, count: ValueField.bytes)
            let record = ValuePiece(
                valueBytes: UInt64(size), position: UInt64(position), first: position == 0 ? 8192 : 4096,
                pieceBytes: UInt32(piece))
            table.withUnsafeMutableBytes { record.encode(into: $0) }
            add(.value, table + [UInt8](repeating: 0, count: (piece + 7) & ~7))
        }
    }
}
