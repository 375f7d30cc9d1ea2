// The newest row of each object, from frames that check, and the large values of rows.

/// The findings about an object.
struct SalvagedRow {
    var object: ObjectID
    /// One value for each attribute of the entity's newest definition. A large value is its reference in the source.
    var values: [StoredValue]
    var isFromGap: Bool
    var isGuessed: Bool
    /// The size without large values.
    var bytes: Int
}

/// Returns the notes of `SalvageScan`, object by object in ascending order. For one use by one thread.
final class SalvagedRows {
    private let window: ByteWindow
    private let transactions: SalvageTransactions
    private let schema: SalvagedSchema
    private let newest: [UInt16: EntityDefinition]
    private var records: SortedRecords<SalvagedChange>
    private var ahead: SalvagedChange?
    private var hasBegun = false
    /// By entity: one above the highest object number in any reference.
    private(set) var nextNumbers: [UInt16: UInt64] = [:]
    private(set) var losses: SalvageLosses
    /// By entity: objects with an unreadable row.
    private(set) var unreadable: [UInt16: UInt64] = [:]

    init(
        _ window: ByteWindow, _ scan: SalvageScan, _ schema: SalvagedSchema, _ definitions: [EntityDefinition],
        _ losses: SalvageLosses
    ) throws(StoreError) {
        self.losses = losses
        self.window = window
        transactions = scan.transactions
        self.schema = schema
        newest = Dictionary(uniqueKeysWithValues: definitions.map { ($0.number, $0) })
        records = try scan.changes.sorted()
    }

    /// The next object; nil after the last.
    func next() throws(StoreError) -> SalvagedRow? {
        while let change = try nextChange() {
            guard !change.isDeletion, let object = ObjectID(rawValue: change.object) else { continue }
            if let row = try read(change, object) { return row }
            if wasVisible(object.entityNumber) { unreadable[object.entityNumber, default: 0] += 1 }
        }
        return nil
    }

    /// Objects of a removed entity were hidden before, too.
    func wasVisible(_ entity: UInt16) -> Bool { newest[entity] != nil || schema.name(of: entity) == nil }

    /// Compares the rest of the index with the findings. Call it after `next` has returned nil.
    func finishLosses(nextNumbers: [UInt16: UInt64], isCounting: Bool) throws(StoreError) {
        try losses.finish(nextNumbers: nextNumbers, isCounting: isCounting)
    }

    /// The newest counting change of the next object.
    private func nextChange() throws(StoreError) -> SalvagedChange? {
        var found: SalvagedChange?
        var wasAlive = false
        if !hasBegun {
            ahead = try records.next()
            hasBegun = true
        }
        while let change = ahead {
            if let found, found.object != change.object { break }
            if !transactions.isDropped(change.place) {
                assert(found.map { !(change < $0) } ?? true, "SV2: the changes of an object are not in their order.")
                found = change
                if change.place < losses.knownEnd { wasAlive = !change.isDeletion }
            }
            ahead = try records.next()
        }
        assert(found.flatMap { found in ahead.map { found.object < $0.object } } ?? true, "SL1: an object comes twice.")
        if let found { try losses.note(found.object, at: found.place, wasAlive: wasAlive) }
        return found
    }

    private func read(_ change: SalvagedChange, _ object: ObjectID) throws(StoreError) -> SalvagedRow? {
        guard let definition = newest[object.entityNumber] else { return nil }
        let start = try window.bytes(at: change.place, count: min(Int(change.rest), RowField.bytes))
        guard start.count == RowField.bytes else { return nil }
        let version = start.integer(at: RowField.schemaVersion, as: UInt16.self)
        let size = Int(start.integer(at: RowField.rowBytes, as: UInt32.self))
        guard size <= Int(change.rest) else { return nil }
        let bytes = try window.bytes(at: change.place, count: min(size.paddedTo8, Int(change.rest)))
        let (layouts, isSure) = schema.layouts(version: version, entity: object.entityNumber)
        for layout in layouts {
            do throws(StoreError) {
                let row = try RowImage(bytes, layout: layout, fileOffset: change.place)
                try row.validate()
                let values = try values(of: row, layout, definition)
                return SalvagedRow(
                    object: object, values: values, isFromGap: transactions.isIncomplete(change.place),
                    isGuessed: !isSure, bytes: size)
            } catch  where error.code == .damaged {}
        }
        return nil
    }

    /// The row's values by the newest definition.
    private func values(
        of row: RowImage, _ layout: RowLayout, _ definition: EntityDefinition
    ) throws(StoreError) -> [StoredValue] {
        var values: [StoredValue] = []
        values.reserveCapacity(definition.attributes.count)
        for attribute in definition.attributes {
            guard let position = layout.position(ofAttribute: attribute.number),
                layout.slots[position].type == attribute.type
            else {
                values.append(attribute.valueBeforeItExisted)
                continue
            }
            let value = try row.value(at: position)
            for object in value.targets { note(object) }
            values.append(value)
        }
        return values
    }

    private func note(_ object: ObjectID) {
        if object.number >= nextNumbers[object.entityNumber] ?? 1 {
            nextNumbers[object.entityNumber] = object.number + 1
        }
    }
}

/// Reads large values of the source. Each piece is in its own frame and checks by itself.
final class SalvagedValues {
    private let window: ByteWindow
    private let salt: UInt64

    init(_ window: ByteWindow, salt: UInt64) { (self.window, self.salt) = (window, salt) }

    /// Whether all pieces of a value exist and it fits the type.
    func isWhole(_ reference: LargeValueReference, _ type: AttributeType) throws(StoreError) -> Bool {
        var form = LargeValueForm()
        var offset = reference.offset
        var position: UInt64 = 0
        while position < reference.valueBytes {
            guard let piece = try piece(of: reference, at: offset, position) else { return false }
            form.accept(piece.bytes)
            position += UInt64(piece.bytes.count)
            offset = piece.end
        }
        return form.finish().isSuperset(of: .needed(for: type))
    }

    /// Adds the value to a transaction of another store. Throws `damaged` if it is no longer whole.
    func copy(_ reference: LargeValueReference, into transaction: DraftFrames) throws(StoreError) -> StoredValue {
        var offset = reference.offset
        var next = offset
        var position: UInt64 = 0
        var taken = 0
        return try transaction.addLargeValue(bytes: reference.valueBytes) { (buffer) throws(StoreError) in
            guard let piece = try piece(of: reference, at: offset, position) else {
                throw StoreError(
                    .damaged,
                    "The file was changed while it was salvaged: salvage it again.", offset: offset)
            }
            next = piece.end
            let count = min(buffer.count, piece.bytes.count - taken)
            buffer.copyMemory(from: piece.bytes.slice(taken, count))
            taken += count
            if taken == piece.bytes.count {
                position += UInt64(taken)
                (offset, taken) = (next, 0)
            }
            return count
        }
    }

    /// The piece in the frame at an offset, if it is the value's piece at a position.
    private func piece(
        of reference: LargeValueReference, at offset: UInt64, _ position: UInt64
    ) throws(StoreError) -> (bytes: UnsafeRawBufferPointer, end: UInt64)? {
        let cursor = FrameCursor(window, salt: salt, at: offset)
        guard let frame = try cursor.frame(.value),
            offset > reference.offset || frame.header.checksum == reference.checksum
        else { return nil }
        let piece: ValuePiece
        do throws(StoreError) {
            piece = try ValuePiece.decode(frame)
        } catch  where error.code == .damaged {
            return nil
        }
        guard piece.first == reference.offset, piece.valueBytes == reference.valueBytes, piece.position == position
        else { return nil }
        return (frame.body.slice(0, Int(piece.pieceBytes)), frame.end)
    }
}
