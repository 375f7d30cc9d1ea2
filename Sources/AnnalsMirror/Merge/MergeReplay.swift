// A transaction that arrives after later ones of its group's order: what has to be computed again.
//
// Two transactions can affect each other only if they share a *resource*, and one of them changes it. So only
// transactions that are connected with the late one in this way, directly or by others, are applied again, in their
// order. The store has a state of its past in which those of them are applied that come before all others and before
// the late one: they need not be applied again.
//
// Invariants:
// MR1  The resources of a transaction contain everything that applying it to any state of the group can read or change,
//      other than by transactions that are connected with it.
// MR2  Replaying connected transactions gives their objects the same values as replaying all.

package import Annals

/// A transaction of the window, read again.
package struct MergeEntry {
    package var transaction: MergeTransaction
    /// The objects that it may have changed in this store. No others: transactions that have changed them are connected
    /// with this one.
    package var changed: Set<GroupObject>

    package init(_ transaction: MergeTransaction, changed: Set<GroupObject>) {
        (self.transaction, self.changed) = (transaction, changed)
    }
}

/// A state of the past from which connected transactions are applied again.
package struct MergePast {
    /// The first transaction of the store's history that it does not have.
    package var end: UInt64
    /// The objects that may have changed since.
    package var changed: Set<GroupObject>
    /// Whether names may lead to other objects since.
    package var movesNames: Bool
}

/// The outcome of merging a transaction.
package struct MergeOutcome {
    /// The changed objects, over the base that was read.
    package var state: MergeState
    /// The transactions that were applied: the new one, and those that were applied again, in the group's order.
    package var transactions: [MergeTransaction]
    /// The objects that the transactions that were applied again may have changed before.
    package var changed: Set<GroupObject>
    /// The resources of the new transaction, and those that no other one of the window has.
    package var resources: MergeResources
    /// The parts that were left out, by transaction.
    package var losses: [Stamp: [MergeLoss]]

    /// The names of all objects that may differ from what they were.
    package var names: Set<GroupObject> {
        Set(state.objects.keys).union(state.aliases.keys).union(state.aliases.values).union(changed)
            .union(resources.changed.compactMap(\.object))
    }

    /// Whether a transaction has read objects that no later look at it finds: those that keep another one from being
    /// deleted.
    var hasRefusedDeletions: Bool {
        losses.values.contains { $0.contains { $0.reason == .stillReferred } }
    }
}

package enum MergeReplay {
    /// Merges a new transaction into a state that contains the transactions of a window.
    ///
    /// - Parameters:
    ///   - new: The transaction. Everything that its writer knew is in the state.
    ///   - now: The present state.
    ///   - window: The transactions of the state that may come after `new`, or be connected with such. All others come
    ///     before all of these and before `new`.
    ///   - read: Returns transactions of the window.
    ///   - past: Returns a state of the past.
    /// - Returns: The outcome over `now` if no later transaction is connected, and otherwise over a state of the past.
    package static func merge(
        _ new: MergeTransaction, into now: any MergeBase, _ window: MergeWindow,
        read: ([MergeWindow.Place]) throws(StoreError) -> [MergeEntry],
        past: (MergePast) throws(StoreError) -> any MergeBase, _ schema: MergeSchema
    ) throws(StoreError) -> (outcome: MergeOutcome, isReplay: Bool) {
        var state = MergeState(schema, on: now)
        let losses = state.apply(new)
        let own = state.resources
        let last = (
            outcome: MergeOutcome(
                state: state, transactions: [new], changed: [], resources: own,
                losses: losses.isEmpty ? [:] : [new.stamp: losses]), isReplay: false
        )
        guard let latest = window.latest(connectedWith: own), latest > new.stamp else { return last }
        var reached = own
        var connected = window.connected(with: reached, before: new.stamp)
        while true {
            let count = settled(connected.map(\.stamp), below: new.stamp)
            guard count < connected.count else { return last }
            // It may be parked there.
            let again = connected[count...].filter { $0.stamp != new.stamp }
            if again.isEmpty { return last }
            let entries = try read(again)
            let changed = entries.reduce(into: Set<GroupObject>()) { $0.formUnion($1.changed) }
            let base = try past(
                MergePast(end: again[0].number, changed: changed, movesNames: again.contains(where: \.movesNames)))
            let transactions = (entries.map(\.transaction) + [new]).sorted { $0.stamp < $1.stamp }
            let (state, losses, resources) = replay(transactions, new: new.stamp, on: MergeState(schema, on: base))
            // MR1: what the transactions do together may reach further objects.
            reached.formUnion(state.resources)
            let more = window.connected(with: reached, before: new.stamp)
            if more.count == connected.count {
                let certain = own.union(resources)
                let all = certain.union(window.unknown(state.resources, besides: certain))
                return (
                    MergeOutcome(
                        state: state, transactions: transactions, changed: changed, resources: all, losses: losses),
                    true
                )
            }
            connected = more
        }
    }

    /// Applies transactions. Returns the resources of the new one, too.
    private static func replay(
        _ transactions: [MergeTransaction], new: Stamp, on base: MergeState
    ) -> (state: MergeState, losses: [Stamp: [MergeLoss]], resources: MergeResources) {
        var (state, resources) = (base, MergeResources())
        var losses: [Stamp: [MergeLoss]] = [:]
        for transaction in transactions {
            let others = transaction.stamp == new ? state.takeResources() : MergeResources()
            let lost = state.apply(transaction)
            if transaction.stamp == new {
                resources = state.resources
                state.add(others)
            }
            if !lost.isEmpty { losses[transaction.stamp] = lost }
        }
        return (state, losses, resources)
    }

    /// The number of transactions at the beginning of a window that no later transaction can come before: all of them
    /// come before `stable`, and before those that stay. They need not be replayed any more.
    package static func settled(_ stamps: [Stamp], below stable: Stamp) -> Int {
        // From the end: the first of those that stay, in the group's order.
        var smallest: [Stamp] = []
        for stamp in stamps.reversed() { smallest.append(min(stamp, smallest.last ?? stamp)) }
        smallest.reverse()
        var (count, largest) = (0, Stamp?.none)
        for index in stamps.indices {
            guard stamps[index] < stable else { break }
            largest = max(stamps[index], largest ?? stamps[index])
            if let largest, index + 1 == stamps.count || largest < smallest[index + 1] { count = index + 1 }
        }
        return count
    }
}
