// The transactions of a store that a transaction still to come may precede, in the order of its history.
//
// Entries that are connected form a group. The groups are a forest of entries: a new entry joins the groups with which
// it shares resources (Tarjan, 1975), so that no group is computed again for each transaction.
//
// Invariants:
// MW1  Two entries that share a resource that one of them changes are in one group. Groups never divide: after removals
//      they may be larger than necessary, until they are made again.
// MW2  `uses` leads to the group of each resource that an entry changes, and to all entries that only read it before an
//      entry changes it.

internal import Annals

package struct MergeWindow {
    /// The first of these may be removed already, up to `first`.
    private var all: [(number: UInt64, entry: MergeEntry)] = []
    private var first = 0
    private var uses: [MergeResource: Use] = [:]
    private var openCount = 0
    /// By entry, the largest stamp up to there.
    private var largest: [Stamp] = []

    // The groups, by entry.

    /// Another entry of the group, or itself.
    private var parents: [Int32] = []
    /// For an entry that is its own parent: the size of the group, and its largest stamp.
    private var roots: [(size: Int32, latest: Stamp)] = []

    private enum Use {
        case read(by: [Int32])
        case changed(by: Int32)
    }

    package init() {}

    package var entries: ArraySlice<(number: UInt64, entry: MergeEntry)> { all[first...] }

    // MARK: Changing

    /// - Parameter number: Of the transaction in the store's history.
    package mutating func append(_ entry: MergeEntry, number: UInt64) {
        all.append((number, entry))
        if entry.isOpen { openCount += 1 }
        enter(entry)
    }

    package mutating func removeFirst(_ count: Int) {
        for (_, entry) in entries.prefix(count) where entry.isOpen { openCount -= 1 }
        first += count
        guard first == all.count || first > max(Self.mostRemoved, all.count / 2) else { return }
        all.removeFirst(first)
        (first, uses, parents, roots, largest) = (0, [:], [], [], [])
        for (_, entry) in all { enter(entry) }
    }

    private static let mostRemoved = 1000

    /// Adds an entry to the groups (MW1, MW2).
    private mutating func enter(_ entry: MergeEntry) {
        let place = Int32(parents.count)
        largest.append(max(largest.last ?? entry.stamp, entry.stamp))
        parents.append(place)
        roots.append((1, entry.stamp))
        for resource in entry.resources.changed {
            switch uses.updateValue(.changed(by: place), forKey: resource) {
            case .read(let readers)?: for reader in readers { join(reader, place) }
            case .changed(let changer)?: join(changer, place)
            case nil: break
            }
        }
        for resource in entry.resources.read {
            switch uses[resource] {
            case .changed(let changer)?: join(changer, place)
            case .read(var readers)?:
                // Not copied.
                uses[resource] = nil
                readers.append(place)
                uses[resource] = .read(by: readers)
            case nil: uses[resource] = .read(by: [place])
            }
        }
    }

    private mutating func join(_ one: Int32, _ other: Int32) {
        let (one, other) = (root(of: one), root(of: other))
        guard one != other else { return }
        let isLarger = roots[Int(one)].size >= roots[Int(other)].size
        let (large, small) = isLarger ? (one, other) : (other, one)
        parents[Int(small)] = large
        roots[Int(large)].size += roots[Int(small)].size
        roots[Int(large)].latest = max(roots[Int(large)].latest, roots[Int(small)].latest)
    }

    /// Logarithmic, because the smaller group joins the larger one.
    private func root(of entry: Int32) -> Int32 {
        var entry = entry
        while parents[Int(entry)] != entry { entry = parents[Int(entry)] }
        return entry
    }

    // MARK: Reading

    private func groups(of resources: MergeResources) -> Set<Int32> {
        var found: Set<Int32> = []
        for resource in resources.changed {
            switch uses[resource] {
            case .read(let readers)?: for reader in readers { found.insert(root(of: reader)) }
            case .changed(let changer)?: found.insert(root(of: changer))
            case nil: break
            }
        }
        for resource in resources.read {
            if case .changed(let changer)? = uses[resource] { found.insert(root(of: changer)) }
        }
        return found
    }

    /// The largest stamp of the entries that are connected with these resources; nil if there are none. It may also be
    /// that of an entry that was removed.
    ///
    /// Constant for each resource, and for each entry that only reads one of the changed ones.
    package func latest(connectedWith resources: MergeResources) -> Stamp? {
        if openCount > 0 { return largest.last }
        return groups(of: resources).map { roots[Int($0)].latest }.max()
    }

    /// The largest stamp of the entries that satisfy a condition. Tests the latest entries first.
    func latest(where isWanted: (MergeEntry) -> Bool) -> Stamp? {
        var found: Stamp?
        for index in (first..<all.count).reversed() {
            if let found, largest[index] <= found { break }
            let entry = all[index].entry
            if let found, entry.stamp < found { continue }
            if isWanted(entry) { found = entry.stamp }
        }
        return found
    }

    /// The entries that are connected with these resources, directly or by others, in the order of history. Entries at
    /// the beginning are left out if they come before a new transaction and before all others.
    ///
    /// Linear in the entries that are not left out.
    package func connected(
        with resources: MergeResources, before new: Stamp
    ) -> [(number: UInt64, entry: MergeEntry)] {
        let beginning = end(before: new)
        if openCount > 0 { return Array(all[beginning...]) }
        let groups = groups(of: resources)
        return (beginning..<all.count).filter { groups.contains(root(of: Int32($0))) }.map { all[$0] }
    }

    /// The end of the entries that come before a new transaction and before all later entries.
    private func end(before new: Stamp) -> Int {
        var (end, smallest) = (all.count, new)
        while end > first, largest[end - 1] > smallest {
            end -= 1
            smallest = min(smallest, all[end].entry.stamp)
        }
        return end
    }
}
