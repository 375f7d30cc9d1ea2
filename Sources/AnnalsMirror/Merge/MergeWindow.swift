// The transactions of a store that a transaction still to come may precede, in the order of its history.
//
// Invariants:
// MW1  `uses` counts, for each resource, the entries that have it, and `openCount` those whose resources are not all
//      known. So a transaction that shares nothing with the window is known by looking up its own resources.

internal import Annals

package struct MergeWindow {
    package private(set) var entries: [(number: UInt64, entry: MergeEntry)] = []
    private var uses: [MergeResource: Int] = [:]
    private var openCount = 0

    package init() {}

    /// - Parameter number: Of the transaction in the store's history.
    package mutating func append(_ entry: MergeEntry, number: UInt64) {
        entries.append((number, entry))
        for resource in entry.resources { uses[resource, default: 0] += 1 }
        if entry.isOpen { openCount += 1 }
    }

    package mutating func removeFirst(_ count: Int) {
        for (_, entry) in entries.prefix(count) {
            for resource in entry.resources {
                guard let number = uses[resource] else { continue }
                uses[resource] = number > 1 ? number - 1 : nil
            }
            if entry.isOpen { openCount -= 1 }
        }
        entries.removeFirst(count)
    }

    /// The entries that share a resource with these, directly or by others.
    ///
    /// Constant for each resource if there are none. Otherwise linear in the window for each step from one entry to the
    /// next.
    package func connected(_ resources: Set<MergeResource>) -> [MergeEntry] {
        if openCount == 0, !resources.contains(where: { uses[$0] != nil }) { return [] }
        return MergeReplay.connected(with: resources, in: entries.map(\.entry))
    }
}
