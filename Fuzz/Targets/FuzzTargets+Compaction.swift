// Compaction of an intact store: what it holds stays, whatever its form was.

internal import Annals
internal import SimulatedDisk

extension FuzzTargets {
    /// Z9: a compacted store has the rows, the transactions above the horizon and the consumers that it had before, and
    /// is intact.
    static func compact(_ store: FuzzedStore) {
        guard let engine = open(store, .readWrite, .mapped, true) else { return }
        let generations = StoreHandle(engine)
        do throws(StoreError) {
            let before = try EngineContents(generations)
            do throws(StoreError) {
                _ = try generations.compact(.lowered)
            } catch {
                require(error.code == .tooLarge, "Z9", "an intact store cannot be compacted: \(error)")
            }
            let after = try EngineContents(generations)
            require(before.rows == after.rows, "Z9", "compaction has changed rows")
            require(before.transactions == after.transactions, "Z9", "compaction has changed transactions")
            require(before.tracking == after.tracking, "Z9", "compaction has changed consumers or what is hidden")
            try generations.close()
            let report = try store.check()
            require(report.isIntact, "Z9", "a compacted store is damaged: \(report.findings)")
        } catch {
            violation("Z9", "an intact store cannot be read around a compaction: \(error)")
        }
    }
}

/// What must be the same before and after, whichever engine tells it.
private struct EngineContents {
    struct Row: Equatable {
        var object: ObjectID
        var hash: UInt64
    }

    struct Transaction: Equatable {
        var number: UInt64
        var tag: UInt64
        var time: Int64
        var author: String?
        var hash: UInt64 = 0
    }

    private(set) var rows: [Row] = []
    private(set) var transactions: [Transaction] = []
    let tracking: TrackingState
    /// Large values are read up to so many bytes, so that references to one long value do not multiply it.
    private var largeBytes = 1 << 18

    init(_ store: StoreHandle) throws(StoreError) {
        let (engine, view) = try store.newest()
        tracking = engine.tracking
        for entity in view.catalog.entities(version: view.catalog.newestVersion) {
            try takeRows(of: entity.number, view)
        }
        var transactions: [Transaction] = []
        try engine.tracked(view).forEachTransaction(after: max(tracking.horizon, engine.log.header.baseNumber)) {
            (transaction) throws(StoreError) in
            var found = Transaction(
                number: transaction.number, tag: transaction.tag, time: transaction.time, author: transaction.author)
            // No request returns the changes of an entity from while its history was off.
            let hidden = view.historyGaps.filter { $0.hides(version: transaction.schemaVersion) }.map(\.entity)
            try transaction.forEachChange { (change) throws(StoreError) in
                if hidden.contains(change.object.entityNumber) { return true }
                found.hash = found.hash &* 31 ^ change.object.rawValue ^ UInt64(change.kind.rawValue) << 60
                for position in change.attributePositions { found.hash = found.hash &* 31 ^ UInt64(position) }
                return true
            }
            transactions.append(found)
            return true
        }
        self.transactions = transactions
    }

    private mutating func takeRows(of entity: UInt16, _ view: View) throws(StoreError) {
        var rows: [Row] = []
        var left = largeBytes
        try view.scan(entity: entity) { (object, row) throws(StoreError) in
            var writer = ByteWriter()
            for position in 0..<row.layout.count {
                var value = try row.value(at: position)
                if case .large(let reference) = value {
                    guard reference.valueBytes <= left else { continue }
                    left -= Int(reference.valueBytes)
                    value = try view.value(row, at: position)
                }
                writer.append(UInt8(value == .absent ? 0 : 1))
                value.appendContent(to: &writer)
            }
            rows.append(Row(object: object, hash: Checksum.hash(writer.bytes, seed: 0)))
            return true
        }
        self.rows += rows
        largeBytes = left
    }
}
