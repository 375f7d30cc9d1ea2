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

/// A transaction of the group with its resources.
package struct MergeEntry: Sendable {
    package var transaction: MergeTransaction
    package var resources: MergeResources
    /// Whether not all of its resources are known, because an earlier mirror has applied it: then it counts as
    /// connected with everything.
    package var isOpen = false
    /// Whether it may have made names lead to other objects than before.
    package var movesNames = false

    package var stamp: Stamp { transaction.stamp }

    package init(_ transaction: MergeTransaction, _ resources: MergeResources) {
        (self.transaction, self.resources) = (transaction, resources)
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
    package var entries: [MergeEntry]
    /// The parts that were left out, by transaction.
    package var losses: [Stamp: [MergeLoss]]

    /// The names of all objects that may differ from what they were.
    package var names: Set<GroupObject> {
        var names = Set(state.objects.keys).union(state.aliases.keys).union(state.aliases.values)
        for entry in entries {
            for resource in entry.resources.changed { if let name = resource.object { names.insert(name) } }
        }
        return names
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
    ///   - past: Returns a state of the past.
    /// - Returns: The outcome over `now` if no later transaction is connected, and otherwise over a state of the past.
    package static func merge(
        _ new: MergeTransaction, into now: any MergeBase, _ window: MergeWindow,
        past: (MergePast) throws(StoreError) -> any MergeBase, _ schema: MergeSchema
    ) throws(StoreError) -> (outcome: MergeOutcome, isReplay: Bool) {
        var state = MergeState(schema, on: now)
        let losses = state.apply(new)
        let own = MergeEntry(new, state.resources)
        let lost = losses.isEmpty ? [:] : [new.stamp: losses]
        let last = (outcome: MergeOutcome(state: state, entries: [own], losses: lost), isReplay: false)
        guard let latest = window.latest(connectedWith: own.resources), latest > new.stamp else { return last }
        var reached = own.resources
        var connected = window.connected(with: reached, before: new.stamp)
        while true {
            let count = settled(connected.map(\.entry.stamp), below: new.stamp)
            guard count < connected.count else { return last }
            let again = connected[count...]
            let entries = (again.map(\.entry) + [own]).sorted { $0.stamp < $1.stamp }
            let base = try past(self.past(before: again))
            let (state, losses) = replay(entries, on: MergeState(schema, on: base))
            // MR1: what the transactions do together may reach further objects.
            reached.formUnion(state.resources)
            let more = window.connected(with: reached, before: new.stamp)
            if more.count == connected.count { return (outcome(state, entries, losses, own), true) }
            connected = more
        }
    }

    private static func past(before entries: ArraySlice<(number: UInt64, entry: MergeEntry)>) -> MergePast {
        var past = MergePast(end: entries.first?.number ?? 0, changed: [], movesNames: false)
        for (_, entry) in entries {
            past.changed.formUnion(entry.resources.changed.compactMap(\.object))
            if entry.movesNames { past.movesNames = true }
        }
        return past
    }

    /// The new entry has its own resources, and those that no other one has.
    private static func outcome(
        _ state: MergeState, _ entries: [MergeEntry], _ losses: [Stamp: [MergeLoss]], _ new: MergeEntry
    ) -> MergeOutcome {
        var known = MergeResources()
        for entry in entries where entry.stamp != new.stamp { known.formUnion(entry.resources) }
        var entries = entries
        for index in entries.indices where entries[index].stamp == new.stamp {
            entries[index].resources = state.resources.subtracting(known).union(new.resources)
        }
        return MergeOutcome(state: state, entries: entries, losses: losses)
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

    private static func replay(
        _ entries: [MergeEntry], on base: MergeState
    ) -> (state: MergeState, losses: [Stamp: [MergeLoss]]) {
        var state = base
        var losses: [Stamp: [MergeLoss]] = [:]
        for entry in entries {
            let lost = state.apply(entry.transaction)
            if !lost.isEmpty { losses[entry.stamp] = lost }
        }
        return (state, losses)
    }
}
