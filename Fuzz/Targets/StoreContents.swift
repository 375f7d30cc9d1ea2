// Everything that can be read from an open store, boiled down to what two readings are compared by.

internal import Annals

struct StoreContents: Equatable {
    /// One transaction: where it is, what it is called, and a hash over every change, row, value and error met.
    struct Transaction: Equatable {
        var number: UInt64
        var tag: UInt64
        var time: Int64
        var commitFrame: UInt64
        var hash: UInt64
    }

    var transactions: [Transaction] = []
    /// The highest object number met, by entity.
    var highest: [UInt16: UInt64] = [:]
    private var hash: UInt64 = 0
    /// Bytes of large values read; beyond a bound no more are, so that references to one long value do not multiply it.
    private var largeBytes: UInt64 = 0

    init(of log: Log) {
        do throws(StoreError) {
            try log.forEachFrame { (frame, state) throws(StoreError) in read(frame, state, log) }
        } catch {
            FuzzTargets.violation("Z3", "a store that opened cannot be read: \(error)")
        }
        let last = log.current
        FuzzTargets.require(
            transactions.last.map { $0.number == last.lastNumber && $0.tag == last.lastTag }
                ?? (last.lastNumber == last.header.baseNumber),
            "Z3", "the last transaction read is not the last that opening found")
    }

    private mutating func read(_ frame: FrameView, _ state: LogState, _ log: Log) {
        switch frame.header.kind {
        case .transaction, .part, .rows: break
        default: return
        }
        do throws(StoreError) {
            try readChanges(frame, state, log)
        } catch {
            FuzzTargets.requireByteError(error, "Reading changes")
            mix(1)
        }
        guard frame.header.kind == .transaction, let record = try? TransactionRecord.decode(frame.table) else { return }
        transactions.append(
            Transaction(
                number: frame.header.number, tag: record.tag, time: record.time, commitFrame: frame.offset, hash: hash))
        hash = 0
    }

    private mutating func readChanges(_ frame: FrameView, _ state: LogState, _ log: Log) throws(StoreError) {
        var cursor = ChangeCursor(frame)
        while let change = try cursor.next() {
            highest[change.object.entityNumber] = max(highest[change.object.entityNumber] ?? 0, change.object.number)
            mix(change.object.rawValue)
            mix(UInt64(change.kind.rawValue) << 32 | (change.previous?.rawValue ?? 0))
            for position in change.attributePositions { mix(UInt64(position)) }
            guard let bytes = frame.row(of: change) else { continue }
            do throws(StoreError) {
                try readRow(bytes, change, state.rowCatalog, log)
            } catch {
                FuzzTargets.requireByteError(error, "Reading a row")
                mix(2)
            }
        }
    }

    private mutating func readRow(
        _ bytes: UnsafeRawBufferPointer, _ change: ChangeView, _ catalog: SchemaCatalog, _ log: Log
    ) throws(StoreError) {
        let header = try RowHeader(bytes)
        guard let layout = catalog.layout(version: header.schemaVersion, entity: change.object.entityNumber) else {
            return mix(3)
        }
        let view = try RowImage(bytes, layout: layout)
        mix(Checksum.hash(UnsafeRawBufferPointer(rebasing: bytes[..<view.rowBytes]), seed: 0))
        let isValid = (try? view.validate(isDeletion: change.kind == .delete)) != nil
        for position in 0..<layout.count {
            do throws(StoreError) {
                if case .large(let reference) = try view.value(at: position) { readLarge(reference, log) }
            } catch {
                FuzzTargets.require(!isValid, "Z2", "a value of a valid row cannot be read: \(error)")
                FuzzTargets.requireByteError(error, "Reading a value")
                mix(4)
            }
        }
    }

    private mutating func readLarge(_ reference: LargeValueReference, _ log: Log) {
        guard largeBytes < 1 << 20 else { return }
        var count: UInt64 = 0
        var content: UInt64 = 0
        do throws(StoreError) {
            try log.readLargeValue(reference) { (piece) throws(StoreError) in
                count += UInt64(piece.count)
                content = Checksum.hash(piece, seed: content)
            }
            FuzzTargets.require(
                count == reference.valueBytes, "Z2", "a large value has \(count) bytes, not \(reference.valueBytes)")
        } catch {
            FuzzTargets.requireByteError(error, "Reading a large value")
            content = 5
        }
        largeBytes += count
        mix(content)
    }

    private mutating func mix(_ value: UInt64) { hash = (hash ^ value) &* 0x9E37_79B9_7F4A_7C15 ^ hash >> 29 }
}
