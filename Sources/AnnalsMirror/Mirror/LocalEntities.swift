// Entities that stay in their store: the group gets nothing of them.
//
// Invariants:
// MO1  Nothing of a local entity leaves the store, in a transaction or in a state, and nothing of one comes in.
// MO2  No relation leads from a local entity to a mirrored one, or back. So what the group has is the same whether a
//      store has local entities or not.
// MO3  An entity becomes local while the group has no objects of it, and stays local.

internal import Annals

package struct LocalEntities: Equatable, Sendable {
    /// The names that the entities had when they became local. They may be renamed since. Names are compared by their
    /// bytes.
    let names: [String]

    package init(_ names: [String] = []) { self.names = names }

    /// The present names of entities. Without local ones, this costs nothing.
    func presentNames(of snapshot: Snapshot) throws(StoreError) -> PresentNames {
        names.isEmpty ? PresentNames() : try ExchangeView(snapshot).schema().presentNames
    }

    func contains(_ entity: String, _ present: PresentNames) -> Bool {
        if names.isEmpty { return false }
        let entity = present.entity(entity)
        return names.contains { present.entity($0).utf8.elementsEqual(entity.utf8) }
    }

    /// The transaction as the group gets it.
    func removed(from transaction: ExportedTransaction, _ present: PresentNames) -> ExportedTransaction {
        if names.isEmpty { return transaction }
        var rest = withoutSchema(transaction, present)
        rest.changes = rest.changes.filter { !contains($0.entity, present) }
        return rest
    }

    /// A transaction of another store, without what its schema says of local entities. Throws `groupConflict` for a
    /// change of one.
    func admitted(_ transaction: ExportedTransaction, _ present: PresentNames) throws(StoreError) -> ExportedTransaction
    {
        if names.isEmpty { return transaction }
        for change in transaction.changes { try requireMirrored(change.entity, present) }
        return withoutSchema(transaction, present)
    }

    /// The same for a part of a state.
    func admitted(_ part: ExportedStatePart, _ present: PresentNames) throws(StoreError) -> ExportedStatePart {
        switch part {
        case .beginning(let beginning): return .beginning(try admitted(beginning, present))
        case .stretches(let stretches):
            for stretch in stretches { try requireMirrored(stretch.entity, present) }
        // Objects and further names have a stretch.
        case .objects, .aliases, .end: break
        }
        return part
    }

    private func requireMirrored(_ entity: String, _ present: PresentNames) throws(StoreError) {
        guard contains(entity, present) else { return }
        throw StoreError(
            .groupConflict,
            "The group has objects of “\(entity)”, which is a local entity of this store: make it local in all stores "
                + "of the group, or join with a new store in which it is not local.")
    }

    private func withoutSchema(_ transaction: ExportedTransaction, _ present: PresentNames) -> ExportedTransaction {
        transaction.with(
            schema: transaction.schema?.filter { !contains($0.name, present) },
            renames: transaction.renames.filter { !contains($0.entity, present) && !contains($0.name, present) })
    }

    /// MO2. Throws `invalidArgument`.
    func requireSeparate(_ entities: [EntityDescription], _ present: PresentNames) throws(StoreError) {
        if names.isEmpty { return }
        for entity in entities {
            let isLocal = contains(entity.name, present)
            for attribute in entity.attributes where attribute.type.isReference {
                guard let target = attribute.target else {
                    throw StoreError(
                        .invalidArgument,
                        "“\(attribute.name)” of “\(entity.name)” may refer to objects of any entity, so the mirror "
                            + "cannot keep entities local: give the attribute a target.")
                }
                guard contains(target, present) != isLocal else { continue }
                throw StoreError(
                    .invalidArgument,
                    "“\(attribute.name)” leads from “\(entity.name)” to “\(target)”, and one of them is local: make "
                        + "both local, or none.")
            }
        }
    }
}

extension ExportedTransaction {
    fileprivate func with(schema: [EntityDescription]?, renames: [ExportedRename]) -> ExportedTransaction {
        ExportedTransaction(
            token: token, previous: previous, microseconds: microseconds, author: author, contextName: contextName,
            origin: origin, originPrevious: originPrevious, holds: holds, schema: schema, renames: renames,
            changes: changes)
    }
}
