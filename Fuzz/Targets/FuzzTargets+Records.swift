// The record target: each decoder alone, on bytes of which the first chooses the decoder.

internal import Annals

extension FuzzTargets {
    /// What the first byte of an input chooses.
    package enum RecordKind: UInt8, CaseIterable, Sendable {
        case frameHeader, transaction, changes, value, metadata, recovery, seal, schema, row, orderedKey, headerPage,
            hint,
            content, consumer, cleaning, replacing
    }

    /// Z1 and Z2 for single records.
    package static func records(_ bytes: UnsafeRawBufferPointer, planted: Planted? = nil) {
        timed("A record") {
            var input = InputReader(bytes)
            let number = Int(input.byte()) % RecordKind.allCases.count
            do throws(StoreError) {
                try record(RecordKind.allCases[number], &input, planted)
            } catch {
                requireByteError(error, "\(RecordKind.allCases[number])")
            }
        }
    }

    private static func record(
        _ kind: RecordKind, _ input: inout InputReader, _ planted: Planted?
    ) throws(StoreError) {
        switch kind {
        case .frameHeader: frameHeader(&input)
        case .transaction: try transaction(&input, planted)
        case .changes: try changes(&input)
        case .value: try value(&input)
        case .metadata: try metadata(&input)
        case .recovery:
            let frame = frame(.recovery, input.rest)
            requireSame(try RecoveryRecord.decode(frame).encoded(), frame.table, "A recovery record")
        case .seal:
            let frame = frame(.seal, input.rest)
            requireSame(try SealRecord.decode(frame).encoded(), frame.table, "A seal record")
        case .schema: try schema(&input)
        case .row: try row(&input)
        case .orderedKey: try orderedKey(&input)
        case .headerPage: try headerPage(&input)
        case .hint: hint(&input)
        case .content: content(&input)
        case .consumer:
            let frame = frame(.consumer, input.rest)
            requireSame(try ConsumerRecord.decode(frame).encoded(), frame.table, "A consumer record")
        case .cleaning:
            let frame = frame(.cleaning, input.rest)
            requireSame(try CleaningRecord.decode(frame).encoded(), frame.table, "A cleaning record")
        case .replacing:
            let frame = frame(.replacing, input.rest)
            requireSame(try ReplacingRecord.decode(frame).encoded(), frame.table, "A replacing record")
        }
    }

    static func requireSame(_ encoded: [UInt8], _ bytes: UnsafeRawBufferPointer, _ what: @autoclosure () -> String) {
        require(encoded.elementsEqual(bytes), "Z2", "\(what()) is written in another form than it was read in")
    }

    /// A frame of that kind whose table is these bytes, and which stands somewhere in a file.
    static func frame(
        _ kind: FrameKind, _ table: UnsafeRawBufferPointer, body: UnsafeRawBufferPointer = .init(start: nil, count: 0)
    ) -> FrameView {
        let header = FrameHeader(
            kind: kind, isMember: false, frameBytes: UInt32(FrameField.bytes + table.count + body.count),
            tableBytes: UInt32(table.count), number: 1, durableMark: 4096, previousChecksum: 0, tableChecksum: 0,
            bodyChecksum: 0)
        return FrameView(offset: 8192, header: header, table: table, body: body)
    }

    // MARK: Frames

    private static func frameHeader(_ input: inout InputReader) {
        let choices = input.byte()
        let offset = UInt64(choices & 0x7F) * 8
        let salt = UInt64(input.byte())
        var bytes = Array(input.bytes(FrameField.bytes))
        if choices & 0x80 != 0, bytes.count == FrameField.bytes {
            bytes.store(bytes.hash(8..<FrameField.bytes, seed: salt ^ offset), at: FrameField.checksum)
        }
        guard case .good(var header) = bytes.withUnsafeBytes({ FrameHeader.decode($0, offset: offset, salt: salt) })
        else { return }
        require(header.bodyBytes >= 0, "Z2", "a good frame header has a body of \(header.bodyBytes) bytes")
        // A frame that is skipped is never written again: its kind is not known.
        if header.kind == .skipped { return }
        var again = [UInt8](repeating: 0xAA, count: FrameField.bytes)
        let before = header
        again.withUnsafeMutableBytes { header.encode(into: $0, offset: offset, salt: salt) }
        require(again == bytes && header == before, "Z2", "a frame header is written in another form")
    }

    private static func transaction(_ input: inout InputReader, _ planted: Planted?) throws(StoreError) {
        let record = try TransactionRecord.decode(input.rest)
        var again = [UInt8](repeating: 0xAA, count: TransactionField.bytes)
        again.withUnsafeMutableBytes { record.encode(into: $0) }
        if planted == .changedByte { again[again.count - 1] ^= 1 }
        requireSame(again, .init(rebasing: input.rest[..<TransactionField.bytes]), "A transaction record")
    }

    private static func changes(_ input: inout InputReader) throws(StoreError) {
        let isRows = input.byte() & 1 == 1
        let bodyBytes = Int(input.byte()) * 8
        let first = isRows ? RowsField.bytes : TransactionField.bytes
        let table = [UInt8](repeating: 0, count: first) + input.rest.prefix(input.rest.count & ~7)
        try table.withBytes { (table) throws(StoreError) in
            let body = [UInt8](repeating: 0, count: bodyBytes)
            try body.withBytes { (body) throws(StoreError) in
                let frame = frame(isRows ? .rows : .transaction, table, body: body)
                var cursor = ChangeCursor(frame)
                var end = FrameField.bytes + first
                while let change = try cursor.next() {
                    require(change.entryOffset == end, "Z2", "a change entry does not follow the one before it")
                    end += change.entryBytes
                    check(change, frame)
                }
                require(end == FrameField.bytes + table.count, "Z2", "change entries do not fill their table")
            }
        }
    }

    private static func check(_ change: ChangeView, _ frame: FrameView) {
        let positions = change.attributePositions
        require(
            positions.allSatisfy { change.contains(attributePosition: $0) }, "Z2", "an attribute set contradicts itself"
        )
        require(!change.contains(attributePosition: -1), "Z2", "an attribute set has a negative position")
        if let previous = change.previous {
            require(PreviousVersion(rawValue: previous.rawValue) == previous, "Z2", "a previous version changes")
        }
        if change.rowOffset != nil {
            require(
                (frame.row(of: change)?.count ?? 0) >= RowField.bytes, "Z2", "an accepted row lies outside its frame")
        }
    }

    private static func value(_ input: inout InputReader) throws(StoreError) {
        let table = input.bytes(ValueField.bytes)
        let piece = try ValuePiece.decode(frame(.value, table, body: input.rest))
        var again = [UInt8](repeating: 0xAA, count: ValueField.bytes)
        again.withUnsafeMutableBytes { piece.encode(into: $0) }
        requireSame(again, table, "A value piece")
    }

    private static func metadata(_ input: inout InputReader) throws(StoreError) {
        let frame = frame(.metadata, input.rest)
        var again: [UInt8] = []
        for record in try MetadataRecord.decodeAll(frame) { record.append(to: &again) }
        requireSame(again, frame.table, "A metadata table")
    }

    // MARK: The header page

    private static func headerPage(_ input: inout InputReader) throws(StoreError) {
        let isSealed = input.byte() & 1 == 1
        var page = [UInt8](repeating: 0, count: FormatLimits.pageBytes)
        page.replaceSubrange(..<HeaderField.bytes, with: Self.padded(input.bytes(HeaderField.bytes), HeaderField.bytes))
        if isSealed { page.store(page.hash(0..<HeaderField.checksum, seed: 0), at: HeaderField.checksum) }
        for slot in HintField.slots {
            page.replaceSubrange(
                slot..<slot + HintField.bytes, with: Self.padded(input.bytes(HintField.bytes), HintField.bytes))
        }
        let rest = input.rest.prefix(FormatLimits.pageBytes - 2048)
        page.replaceSubrange(2048..<2048 + rest.count, with: rest)
        let header = try page.withBytes { (page) throws(StoreError) in try FileHeader.decode(page) }
        let slots = page.withUnsafeBytes { HintSlot.decodeAll($0, salt: header.salt) }
        require(slots.count == HintField.slots.count, "Z2", "a header page has \(slots.count) hint slots")
        guard header.writeVersion <= FormatLimits.writeVersion else {
            // A newer program's page is kept, and known by the checksum that it says.
            let checksum = page.hash(0..<HeaderField.checksum, seed: 0)
            require(header.checksum == checksum, "Z2", "a newer header page has another checksum")
            return
        }
        var expected = page
        for slot in HintField.slots { for index in slot..<slot + HintField.bytes { expected[index] = 0 } }
        require(header.encoded() == expected, "Z2", "a header page is written in another form")
    }

    private static func padded(_ bytes: UnsafeRawBufferPointer, _ count: Int) -> [UInt8] {
        Array(bytes) + repeatElement(0, count: count - bytes.count)
    }

    private static func hint(_ input: inout InputReader) {
        let choices = input.byte()
        let index = Int(choices & 1)
        let salt = UInt64(input.byte())
        let slot = HintField.slots[index]
        var page = [UInt8](repeating: 0, count: slot)
        page += Self.padded(input.bytes(HintField.bytes), HintField.bytes)
        if choices & 2 != 0 {
            page.store(
                page.hash(slot..<slot + HintField.checksum, seed: salt ^ UInt64(slot)), at: slot + HintField.checksum)
        }
        switch page.withUnsafeBytes({ HintSlot.decode($0, index: index, salt: salt) }) {
        case .bad: break
        case .empty: require(page.allSatisfy { $0 == 0 }, "Z2", "a hint slot that is not zero is called empty")
        case .good(let hint):
            require(hint.slotOffset == slot, "Z2", "a hint is in the other's slot")
            require(hint.encoded(salt: salt) == Array(page[slot...]), "Z2", "a hint is written in another form")
        }
    }
}
