// Merged transactions of other stores as messages again, for a peer that cannot get them from their writer.

internal import Annals
internal import FoundationEssentials

extension MergingStore {
    /// Reads the merged transactions of another store again, with some of its numbers, for a peer that lacks them:
    /// their writer has left.
    ///
    /// - Parameter body: Returns false to end.
    func forEachMerged(
        from writer: UUID, _ numbers: ClosedRange<UInt64>, _ body: (TransactionMessage) throws -> Bool
    ) throws {
        guard unsettled[writer]?.contains(where: { numbers.contains($0.number) }) == true else { return }
        let snapshot = try store.snapshot()
        var records: [UInt64: MergeRecord] = [:]
        try store.forEachTransaction(after: floor.number, in: snapshot) { (transaction) throws(StoreError) in
            if let record = try store.mergeRecord(of: transaction) { records[transaction.number] = record }
            return true
        }
        var known = settledContents
        try store.forEachExportedTransaction(after: .number(floor.number), in: snapshot) { exported in
            guard let origin = exported.origin, let record = records[exported.token.number] else {
                if published[exported.token.number] != nil { known[identifier] = exported.token.number }
                return true
            }
            defer { known[origin.storeIdentifier] = origin.number }
            guard origin.storeIdentifier == writer, numbers.contains(origin.number) else { return true }
            var (transaction, knowledge) = (exported.original(by: identifier), known)
            if let content = record.content { transaction = try KeptTransaction(content).transaction }
            // More than the writer knew does no harm: those that get it have all of this, or wait for it.
            knowledge[writer] = 0
            return try body(
                TransactionMessage(
                    lamport: record.order, knowledge: knowledge, isKnowledgeComplete: true, transaction: transaction))
        }
    }
}

extension ExportedTransaction {
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
