// A transaction that arrives after later ones of its group's order: what has to be computed again.
//
// Two transactions can affect each other only if they share a *resource*: an object that one of them changes, or refers
// to, or a value of a unique key that one of them gives or takes away. So only transactions that are connected with the
// late one, directly or by others, are applied again, in their order, to the objects as they were before all of them.
//
// Invariants:
// MR1  The resources of a transaction contain every object and every value of a key that applying it to any state of
//      the group can read or write, other than by transactions that share a resource with it.
// MR2  Replaying connected transactions gives their objects the same values as replaying all.

package import Annals

/// Something that connects two transactions.
package enum MergeResource: Hashable, Sendable {
    case object(GroupObject)
    /// A value of one attribute of a unique key. Objects with equal keys have equal values in each attribute.
    case key(MergeSchema.Key, attribute: String, MergeState.KeyValue.Part)
}

/// A transaction of the group with its resources.
package struct MergeEntry: Sendable {
    package var transaction: MergeTransaction
    package var resources: Set<MergeResource>
    /// Whether not all of its resources are known, because an earlier mirror has applied it: then it counts as
    /// connected with everything.
    package var isOpen = false

    package var stamp: Stamp { transaction.stamp }

    package init(_ transaction: MergeTransaction, _ resources: Set<MergeResource>) {
        (self.transaction, self.resources) = (transaction, resources)
    }
}

extension MergeState {
    /// The resources of the change from one content of an object to another; nil for an object that does not exist.
    package func resources(
        of name: GroupObject, from before: MergeObject?, to after: MergeObject?
    ) -> Set<MergeResource> {
        var resources: Set<MergeResource> = [.object(name)]
        let attributes = Set((before?.values.keys).map(Array.init) ?? [])
            .union((after?.values.keys).map(Array.init) ?? [])
        let entity = (after ?? before)?.entity ?? ""
        for attribute in attributes {
            let (old, new) = (before?[attribute] ?? .null, after?[attribute] ?? .null)
            if old == new { continue }
            for value in [old, new] {
                for target in value.references { resources.insert(.object(self.name(target))) }
                guard let part = KeyValue.Part(value) else { continue }
                for key in schema.keys(of: entity) where key.attributes.contains(attribute) {
                    resources.insert(.key(key, attribute: attribute, part))
                }
            }
        }
        return resources
    }
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
            for case .object(let name) in entry.resources { names.insert(name) }
        }
        return names
    }
}

package enum MergeReplay {
    /// Merges a new transaction into a state that contains the transactions of a window.
    ///
    /// - Parameters:
    ///   - new: The transaction. Everything that its writer knew is in the state.
    ///   - now: The present state.
    ///   - connected: Returns the entries of the window that share a resource with these, directly or by others. The
    ///     window has the transactions of the state that may come after `new`, or be connected with such. All others
    ///     come before all of these and before `new`.
    ///   - floor: The state before the window.
    /// - Returns: The outcome over `now` if no later transaction is connected, and otherwise over `floor`.
    package static func merge(
        _ new: MergeTransaction, into now: any MergeBase, connected: (Set<MergeResource>) -> [MergeEntry],
        floor: () throws(StoreError) -> any MergeBase, _ schema: MergeSchema
    ) throws(StoreError) -> (outcome: MergeOutcome, isOverFloor: Bool) {
        var state = MergeState(schema, on: now)
        let losses = state.apply(new)
        var resources = state.effects(over: now).union(state.wanted(by: new))
        if connected(resources).allSatisfy({ $0.stamp < new.stamp }) {
            let entry = MergeEntry(new, resources)
            let lost = losses.isEmpty ? [:] : [new.stamp: losses]
            return (MergeOutcome(state: state, entries: [entry], losses: lost), false)
        }
        let floor = try floor()
        while true {
            // MR1: what the transactions do together may reach further objects.
            let entries = (connected(resources) + [MergeEntry(new, resources)])
                .sorted { $0.stamp < $1.stamp }
            let (state, losses) = replay(entries, on: MergeState(schema, on: floor))
            let reached = entries.reduce(into: state.effects(over: floor)) { $0.formUnion($1.resources) }
            let count = resources.count
            resources.formUnion(reached)
            if resources.count == count {
                return (MergeOutcome(state: state, entries: entries, losses: losses), true)
            }
        }
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

    /// The entries of a window that share a resource, directly or by others.
    ///
    /// Linear in the window for each step from one entry to the next.
    package static func connected(with first: Set<MergeResource>, in window: [MergeEntry]) -> [MergeEntry] {
        var resources = first
        var isConnected = [Bool](repeating: false, count: window.count)
        var isComplete = false
        while !isComplete {
            isComplete = true
            for (index, entry) in window.enumerated() where !isConnected[index] {
                if !entry.isOpen, resources.isDisjoint(with: entry.resources) { continue }
                isConnected[index] = true
                let count = resources.count
                resources.formUnion(entry.resources)
                if resources.count > count { isComplete = false }
            }
        }
        return window.indices.filter { isConnected[$0] }.map { window[$0] }
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

extension MergeState {
    /// The values of keys that a transaction gives to objects, even if it cannot.
    func wanted(by transaction: MergeTransaction) -> Set<MergeResource> {
        var resources: Set<MergeResource> = []
        for change in transaction.changes {
            for key in schema.keys(of: change.entity) {
                for attribute in key.attributes {
                    guard let part = change.values[attribute].flatMap(KeyValue.Part.init) else { continue }
                    resources.insert(.key(key, attribute: attribute, part))
                }
            }
        }
        return resources
    }

    /// The resources that the applied transactions have read or changed.
    func effects(over base: any MergeBase) -> Set<MergeResource> {
        var resources = Set(touched.map { MergeResource.object($0) })
        for (name, object) in objects {
            let before = base.object(name)
            resources.formUnion(
                self.resources(
                    of: name, from: before?.exists == true ? before : nil, to: object.exists ? object : nil))
        }
        // Both names of an object lead to it.
        for (alias, object) in aliases { resources.formUnion([.object(alias), .object(object)]) }
        return resources
    }
}
