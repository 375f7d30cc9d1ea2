// Conflicts: parts of transactions that were impossible, and values of one attribute that two stores have written
// without knowing of each other.
//
// An update has the values that its writer saw before. If the attribute has another value here, a transaction has
// written it that the writer did not know.

internal import Annals

package struct MergeConflict: Hashable, Sendable {
    package var object: GroupObject
    /// Nil if the whole change was overruled.
    package var attribute: String?
    package var reason: MergeLoss.Reason
    /// The value of the attribute after the merge. Names are those of the group.
    package var kept: MergeValue
    /// The value that has lost.
    package var lost: MergeValue
    /// The transaction that has lost.
    package var loser: Stamp
}

extension MergingStore {
    /// A transaction that is applied again loses again what it has lost before: that is reported once.
    func conflicts(_ outcome: MergeOutcome) -> [MergeConflict] {
        outcome.losses.flatMap { stamp, losses in
            let known = lost.updateValue(Set(losses), forKey: stamp) ?? []
            let transaction = outcome.transactions.first { $0.stamp == stamp }
            return losses.filter { !known.contains($0) }.flatMap { loss in
                let attributes: [String?] = loss.attributes.isEmpty ? [nil] : loss.attributes
                let object = outcome.state.object(outcome.state.name(loss.object))
                let change = transaction?.changes.first { $0.object == loss.object }
                return attributes.map { attribute in
                    MergeConflict(
                        object: loss.object, attribute: attribute, reason: loss.reason,
                        kept: attribute.flatMap { object?[$0] } ?? .null,
                        lost: attribute.flatMap { change?.values[$0] } ?? .null, loser: stamp)
                }
            }
        }
    }

    /// The values that a merged transaction and one that its writer did not know have both written.
    func overwritten(
        by transaction: MergeTransaction, _ exported: ExportedTransaction, _ now: StoreBase, _ outcome: MergeOutcome,
        _ schema: MergeSchema
    ) throws -> [MergeConflict] {
        var conflicts: [MergeConflict] = []
        func shown(_ value: MergeValue) -> MergeValue {
            value.mapped { name in
                let main = now.name(ofAlias: name) ?? name
                return now.object(main)?.exists == true ? main : nil
            }
        }
        for (change, source) in zip(transaction.changes, exported.changes) where change.kind == .update {
            let here = now.name(ofAlias: change.object) ?? change.object
            guard let values = source.before, let present = now.object(here), present.exists,
                let after = outcome.state.object(outcome.state.name(change.object)), after.exists
            else { continue }
            for (attribute, value) in zip(source.attributes, values) {
                let (before, other) = (MergeValue(value, from: exported.store), present[attribute])
                let new = change.values[attribute] ?? .null
                guard shown(before) != shown(other), shown(new) != shown(other),
                    !isLost(attribute, change.object, outcome.losses[transaction.stamp])
                else { continue }
                let wins = shown(after[attribute]) == shown(new)
                guard let loser = wins ? try writer(of: attribute, here, now, schema) : transaction.stamp else {
                    continue
                }
                conflicts.append(
                    MergeConflict(
                        object: change.object, attribute: attribute, reason: .overwritten, kept: after[attribute],
                        lost: wins ? other : new, loser: loser))
            }
        }
        return conflicts
    }

    private func isLost(_ attribute: String, _ object: GroupObject, _ losses: [MergeLoss]?) -> Bool {
        losses?.contains { loss in
            loss.object == object && (loss.attributes.isEmpty || loss.attributes.contains(attribute))
        } ?? false
    }

    /// The transaction of the window that has given an attribute its value; nil if delete rules did.
    private func writer(
        of attribute: String, _ object: GroupObject, _ now: StoreBase, _ schema: MergeSchema
    ) throws -> Stamp? {
        var known: [UInt64: MergeEntry] = [:]
        for place in window.places(changing: .content(object)).sorted(by: { $0.stamp > $1.stamp }) {
            let entry = try entries([place], &known, schema, now.view).first
            let isWriter = entry?.transaction.changes.contains { change in
                change.values[attribute] != nil && (now.name(ofAlias: change.object) ?? change.object) == object
            }
            if isWriter == true { return place.stamp }
        }
        return nil
    }
}
