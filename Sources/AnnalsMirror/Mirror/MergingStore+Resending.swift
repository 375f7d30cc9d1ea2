// Transactions of the window as messages again, for a peer that lacks them: own ones, and those of a writer that does
// not answer.

internal import Annals
internal import FoundationEssentials

extension MergingStore {
    /// Reads own transactions of the window again.
    ///
    /// - Parameter body: Returns false to end.
    func forEachOwn(
        _ numbers: ClosedRange<UInt64>, in snapshot: Snapshot, _ body: (OwnTransaction) throws -> Bool
    ) throws {
        guard let first = window.firstPlace(of: identifier, numbers) else { return }
        try forEachPlace(after: mark(before: first.number), in: snapshot) { place, found, known in
            guard place.stamp.peer == identifier, place.origin >= numbers.lowerBound else { return true }
            guard place.origin <= numbers.upperBound else { return false }
            return try body(
                OwnTransaction(
                    lamport: place.stamp.lamport, knowledge: known.knowledge,
                    transaction: found.own(after: known.published)))
        }
    }

    /// Reads the transactions of the window from one store again, with some of its numbers.
    ///
    /// - Parameter body: Returns false to end.
    func forEachMessage(
        from writer: UUID, _ numbers: ClosedRange<UInt64>, _ body: (TransactionMessage) throws -> Bool
    ) throws {
        let snapshot = try store.snapshot()
        if writer == identifier {
            return try forEachOwn(numbers, in: snapshot) { try body(TransactionMessage($0)) }
        }
        guard let first = window.firstPlace(of: writer, numbers) else { return }
        // Own ones that were not sent are no part of the group yet.
        let sent = window.places.lazy.filter { [identifier, taken] in
            $0.stamp.peer != identifier || $0.origin <= taken
        }
        var earlier = EarlierTransactions(sent, since: floor.contents(identifier))
        try forEachPlace(after: mark(before: first.number), in: snapshot) { place, found, _ in
            guard place.stamp.peer == writer, numbers.contains(place.origin) else { return true }
            return try body(
                TransactionMessage(
                    lamport: place.stamp.lamport, knowledge: earlier.knowledge(of: place), isKnowledgeComplete: true,
                    transaction: try found.kept()?.transaction ?? found.exported.original(by: identifier)))
        }
    }

    /// The last mark before a transaction.
    private func mark(before number: UInt64) -> MergePlace {
        let index = marks.partitioningIndex { $0.number >= number }
        return index > marks.startIndex ? marks[index - 1] : floor
    }

    /// Reads the transactions of the window after a mark, with what was known before each.
    private func forEachPlace(
        after mark: MergePlace, in snapshot: Snapshot,
        _ body: (MergeWindow.Place, FoundTransaction, _ known: MergePlace) throws -> Bool
    ) throws {
        var known = mark
        try forEachTransaction(after: mark.number, in: snapshot, try ExchangeView(snapshot)) { found in
            guard let place = window.place(after: found.number - 1) else { return false }
            guard place.number == found.number else { return true }
            guard try body(place, found, known) else { return false }
            if place.stamp.peer == identifier {
                known.published = found.exported.token
            } else {
                known.knowledge[place.stamp.peer] = max(known.knowledge[place.stamp.peer], place.origin)
            }
            return true
        }
    }
}

/// The transactions that may have been known to the writer of another one: those of the window before it, in history
/// and in the group's order. A store that gets it waits for all of these. They are more than the writer knew, but come
/// before it in the order, so no two transactions wait for each other, also if two stores send them.
private struct EarlierTransactions<Places: Sequence<MergeWindow.Place>> {
    private var places: Places.Iterator
    private var next: MergeWindow.Place?
    private let settled: VersionVector
    /// By peer, ascending.
    private var known: [UUID: [(stamp: Stamp, number: UInt64)]] = [:]

    init(_ places: Places, since settled: VersionVector) {
        self.places = places.makeIterator()
        self.settled = settled
        next = self.places.next()
    }

    /// - Parameter place: A place after those of earlier calls.
    mutating func knowledge(of place: MergeWindow.Place) -> VersionVector {
        while let earlier = next, earlier.number < place.number {
            // One that was parked comes again.
            if known[earlier.stamp.peer]?.last.map({ $0.stamp < earlier.stamp }) ?? true {
                known[earlier.stamp.peer, default: []].append((earlier.stamp, earlier.origin))
            }
            next = places.next()
        }
        var knowledge = settled
        for (peer, transactions) in known {
            let count = transactions.partitioningIndex { place.stamp < $0.stamp }
            if count > 0 { knowledge[peer] = max(knowledge[peer], transactions[count - 1].number) }
        }
        knowledge[place.stamp.peer] = 0
        return knowledge
    }
}

extension TransactionMessage {
    init(_ own: OwnTransaction) {
        self.init(
            lamport: own.lamport, knowledge: own.knowledge, isKnowledgeComplete: true, transaction: own.transaction)
    }
}

extension ExportedTransaction {
    /// The same, following the last transaction that its group got from this store.
    func following(_ previous: HistoryToken?, withSchema: Bool) -> ExportedTransaction {
        ExportedTransaction(
            token: token, previous: previous, microseconds: microseconds, author: author, contextName: contextName,
            origin: nil, originPrevious: nil, holds: nil, schema: withSchema ? schema : nil, renames: renames,
            changes: changes)
    }

    /// The transaction as its own store has exported it. Names are complete.
    ///
    /// - Parameter exporter: The store that has merged it, and exports it now.
    fileprivate func original(by exporter: UUID) -> ExportedTransaction {
        func named(_ object: ExportedObject) -> ExportedObject {
            ExportedObject(object.id, of: object.store ?? exporter)
        }
        func named(_ value: ExportedValue) -> ExportedValue {
            switch value.content {
            case .plain: value
            case .object(let object): ExportedValue(.object(named(object)))
            case .orderedObjects(let objects): ExportedValue(.orderedObjects(objects.map(named)))
            case .objects(let objects): ExportedValue(.objects(objects.map(named)))
            }
        }
        return ExportedTransaction(
            token: origin ?? token, previous: originPrevious, microseconds: microseconds, author: author,
            contextName: contextName, origin: nil, originPrevious: nil, holds: nil, schema: schema, renames: renames,
            changes: changes.map { change in
                ExportedChange(
                    kind: change.kind, object: named(change.object), entity: change.entity,
                    attributes: change.attributes, values: change.values.map(named), before: change.before?.map(named))
            })
    }
}
