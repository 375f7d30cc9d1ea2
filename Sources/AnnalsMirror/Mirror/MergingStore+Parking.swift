// Transactions that do not fit the schema of the store: they are parked.
//
// A parked transaction is kept in history like one whose parts were all impossible, and is confirmed to its group. When
// the schema changes, and when a mirror begins, it is merged again, as a transaction that comes late. Until then later
// transactions that need it lose these parts. They are connected with it, so they get them back.
//
// Invariants:
// MK1  A parked transaction stays in the window, with all that come after it in the group's order.
// MK2  A transaction is merged only if the schema has all its entities and attributes with its types of values.

internal import Annals
internal import FoundationEssentials

/// A parked transaction, and why it does not fit.
struct ParkedTransaction: Equatable, Codable {
    var store: UUID
    var number: UInt64
    var reason: MirrorRecord.Failure
}

extension MergingStore {
    /// Whether an error is about the transaction and the schema here, so that the same will happen again.
    static func isForParking(_ error: StoreError) -> Bool {
        [.schemaMismatch, .schemaRefused, .exportMalformed, .uniqueViolation].contains(error.code)
    }

    /// Keeps a transaction without an effect.
    ///
    /// - Returns: False if another writer was faster.
    func park(
        _ transaction: ExportedTransaction, _ stamp: Stamp, _ error: StoreError, onto snapshot: Snapshot
    ) throws -> Bool {
        let view = try ExchangeView(snapshot)
        let schema = try schema(of: view)
        var kept = KeptTransaction(transaction)
        kept.isParked = true
        let named = MergeTransaction(stamp, transaction.renamed(schema.presentNames))
        let base = StoreBase(view, schema)
        let resources = MergeState(schema, on: base).stated(by: named)
        try base.requireWhole()
        do {
            let result = try store.apply(
                MergedTransaction(
                    transaction.withoutSchema, as: [], order: stamp.lamport,
                    content: try kept.encoded(stamp.lamport)),
                onto: snapshot.token.number, durability: .relaxed)
            guard let token = result.token else { return false }
            note(parked: transaction, stamp, token.number, resources)
        } catch let error as StoreError where error.code == .conflict {
            return false
        }
        reasons[stamp] = ParkedTransaction(
            store: stamp.peer, number: transaction.token.number,
            reason: MirrorRecord.Failure(code: error.code.rawValue, message: error.message))
        return true
    }

    /// Merges the parked transactions that fit the schema by now, in their order. Nothing to do for most stores.
    package func mergeParked() throws -> [MergeConflict] {
        var conflicts: [MergeConflict] = []
        while !parked.isEmpty {
            let snapshot = try store.snapshot()
            guard let version = try news(of: snapshot) else { break }
            let view = try ExchangeView(snapshot)
            var found: [(Stamp, ExportedTransaction)] = []
            let places = window.places.filter { $0.isParked && parked.contains($0.stamp) }
            try forEachTransaction(of: places, in: snapshot, view) { place, transaction in
                if let kept = try transaction.kept() { found.append((place.stamp, kept.transaction)) }
            }
            for (stamp, transaction) in found {
                do {
                    conflicts += try merge(transaction, stamp, onto: try looked(), isAgain: true)
                    reasons[stamp] = nil
                } catch let error as StoreError where Self.isForParking(error) {
                    reasons[stamp] = ParkedTransaction(
                        store: stamp.peer, number: transaction.token.number,
                        reason: MirrorRecord.Failure(code: error.code.rawValue, message: error.message))
                } catch let error as StoreError where error.code == .conflict {
                    // Another writer was faster: all of them again.
                    return conflicts
                }
            }
            triedVersion = version
        }
        return conflicts
    }

    /// The version of the schema, unless the parked transactions were tried with it.
    private func news(of snapshot: Snapshot) throws -> UInt16? {
        let version = try ExchangeView(snapshot).schemaVersion
        return version == triedVersion ? nil : version
    }

    package var parkedCount: Int { parked.count }

    /// The parked transactions, in their order.
    var parkedTransactions: [ParkedTransaction] { parked.compactMap { reasons[$0] } }
}

extension MergeSchema {
    /// MK2. Throws `schemaMismatch`.
    func requireFitting(_ transaction: ExportedTransaction) throws(StoreError) {
        for change in transaction.changes {
            guard let entity = entities[change.entity] else {
                throw mismatch("This store has no entity “\(change.entity)”")
            }
            for (name, value) in zip(change.attributes, change.values) {
                guard let attribute = entity.attributes[name] else {
                    throw mismatch("“\(change.entity)” has no attribute “\(name)” in this store")
                }
                guard let type = value.type, type != attribute.type else { continue }
                throw mismatch(
                    "“\(name)” of “\(change.entity)” is \(attribute.type) in this store, and \(type) in the transaction"
                )
            }
        }
    }

    private func mismatch(_ fact: String) -> StoreError {
        StoreError(
            .schemaMismatch, fact + ": change the schema here, or there. The mirror tries it again after each change.")
    }
}

extension ExportedTransaction {
    fileprivate var withoutSchema: ExportedTransaction {
        ExportedTransaction(
            token: token, previous: previous, microseconds: microseconds, author: author, contextName: contextName,
            origin: origin, originPrevious: originPrevious, holds: holds, schema: nil, renames: [], changes: changes)
    }
}
