// The transactions of a store that a transaction still to come may precede, in the order of its history.
//
// History has the transactions themselves. The window has their places and hashes of their resources: about 80 bytes
// for a transaction of one object. So it may have millions of them, after a member was off for a week.
//
// Transactions that are connected form a group. The groups are a forest of entries: a new entry joins the groups with
// which it shares resources (Tarjan, 1975), so that no group is computed again for each transaction.
//
// Invariants:
// MW1  Two entries that share a resource that one of them changes are in one group. Groups may be larger than that:
//      two resources may have one hash, and groups never divide, until they are made again after removals.
// MW2  `uses` leads to the group of each resource that an entry changes, and to all entries that only read it before an
//      entry changes it.
// MW3  From each entry, `next` leads around its group, and through no other entry.

package import FoundationEssentials

package struct MergeWindow {
    /// A transaction of the window.
    package struct Place: Hashable, Sendable {
        /// In the history of this store.
        package var number: UInt64
        package var stamp: Stamp
        /// In the history of its writer.
        package var origin: UInt64
        /// Whether it may have made names lead to other objects than before.
        package var movesNames: Bool
        /// Whether it is here without an effect.
        package var isParked: Bool

        package init(
            number: UInt64, stamp: Stamp, origin: UInt64, movesNames: Bool = false, isParked: Bool = false
        ) {
            (self.number, self.stamp, self.origin) = (number, stamp, origin)
            (self.movesNames, self.isParked) = (movesNames, isParked)
        }
    }

    private struct Entry {
        var number: UInt64
        var lamport: UInt64
        var origin: UInt64
        /// Another entry of the group; for the root of a group, its size, negative.
        var parent: Int32
        var next: Int32
        /// Of a root: the entry with the largest stamp.
        var latest: Int32
        /// The end of its resources among those of its chunk.
        var end: UInt32
        var peer: Int32
        var movesNames: Bool
        var isParked: Bool
    }

    /// Entries in pieces: an array of all would be copied while it grows.
    private struct Chunk {
        var entries: [Entry] = []
        var resources: [ResourceHash] = []
        var smallest = UInt64.max
        /// Of all entries up to the last of this chunk, also of those that were removed.
        var largest: Stamp

        static let count = 1024
    }

    /// The first of these may be removed already, up to `first`.
    private var chunks: [Chunk] = []
    private var first = 0
    private var end = 0
    private var uses = ResourceTable()
    /// The entries that only read a resource: each leads to the one before it.
    private var readers: [(entry: Int32, earlier: Int32)] = []
    private var peers: [UUID] = []
    /// By peer: a number that was confirmed, and its first entry that is not.
    private var unconfirmed: [(entry: Int, number: UInt64)] = []

    package init() {}

    package var count: Int { end - first }
    package var isEmpty: Bool { count == 0 }

    private subscript(entry: Int) -> Entry {
        get { chunks[entry / Chunk.count].entries[entry % Chunk.count] }
        _modify { yield &chunks[entry / Chunk.count].entries[entry % Chunk.count] }
    }

    private func stamp(_ entry: Entry) -> Stamp { Stamp(entry.lamport, peers[Int(entry.peer)]) }

    private func place(_ entry: Int) -> Place {
        let entry = self[entry]
        return Place(
            number: entry.number, stamp: stamp(entry), origin: entry.origin, movesNames: entry.movesNames,
            isParked: entry.isParked)
    }

    /// The transactions, in the order of history.
    package var places: some Sequence<Place> { (first..<end).lazy.map { place($0) } }

    /// The first transaction after a number of history.
    package func place(after number: UInt64) -> Place? {
        let range = first..<end
        let index = range.partitioningIndex { self[$0].number > number }
        return index < end ? place(index) : nil
    }

    /// The first transaction of a writer whose number there is in a range. Linear, without reading history.
    package func firstPlace(of writer: UUID, _ numbers: ClosedRange<UInt64>) -> Place? {
        guard let peer = peers.firstIndex(of: writer) else { return nil }
        return (first..<end).first { Int(self[$0].peer) == peer && numbers.contains(self[$0].origin) }.map { place($0) }
    }

    // MARK: Changing

    package mutating func append(_ place: Place, _ resources: MergeResources) {
        let changed = resources.changed.map { ResourceHash($0, isChanged: true) }
        append(place, changed + resources.read.map { ResourceHash($0, isChanged: false) })
    }

    private mutating func append(_ place: Place, _ resources: some Collection<ResourceHash>) {
        let index = Int32(end)
        var chunk = chunks.popLast() ?? Chunk(largest: place.stamp)
        if chunk.entries.count == Chunk.count {
            chunks.append(chunk)
            chunk = Chunk(largest: chunk.largest)
        }
        if chunk.entries.isEmpty { chunk.entries.reserveCapacity(Chunk.count) }
        chunk.resources += resources
        chunk.entries.append(
            Entry(
                number: place.number, lamport: place.stamp.lamport, origin: place.origin, parent: -1, next: index,
                latest: index, end: UInt32(chunk.resources.count), peer: peer(place.stamp.peer),
                movesNames: place.movesNames, isParked: place.isParked))
        chunk.smallest = min(chunk.smallest, place.stamp.lamport)
        chunk.largest = max(chunk.largest, place.stamp)
        chunks.append(chunk)
        end += 1
        enter(index, resources)
    }

    private mutating func peer(_ identifier: UUID) -> Int32 {
        if let peer = peers.firstIndex(of: identifier) { return Int32(peer) }
        peers.append(identifier)
        unconfirmed.append((first, 0))
        return Int32(peers.count - 1)
    }

    package mutating func removeFirst(_ count: Int) {
        first += count
        guard first == end || first > max(Self.mostRemoved, end / 2) else { return }
        rebuild()
    }

    private static let mostRemoved = 1000

    /// Makes the groups again, of the entries that are left (MW1).
    private mutating func rebuild() {
        let (old, start, count) = (self, first, end)
        self = MergeWindow()
        for index in start..<count {
            append(old.place(index), old.resources(of: index))
        }
    }

    private func resources(of entry: Int) -> ArraySlice<ResourceHash> {
        let start = entry % Chunk.count == 0 ? 0 : self[entry - 1].end
        return chunks[entry / Chunk.count].resources[Int(start)..<Int(self[entry].end)]
    }

    /// Adds an entry to the groups (MW1, MW2).
    private mutating func enter(_ entry: Int32, _ resources: some Collection<ResourceHash>) {
        for resource in resources {
            switch uses[resource] {
            case .changed(let other)?: join(other, entry)
            case .read(var reader)? where resource.isChanged:
                while reader >= 0 {
                    join(readers[Int(reader)].entry, entry)
                    reader = readers[Int(reader)].earlier
                }
                uses[resource] = .changed(by: entry)
            case .read(let last)?: note(entry, reads: resource, after: last)
            case nil where resource.isChanged: uses[resource] = .changed(by: entry)
            case nil: note(entry, reads: resource, after: -1)
            }
        }
    }

    private mutating func note(_ entry: Int32, reads resource: ResourceHash, after earlier: Int32) {
        readers.append((entry, earlier))
        uses[resource] = .read(last: Int32(readers.count - 1))
    }

    private mutating func join(_ one: Int32, _ other: Int32) {
        let (one, other) = (root(of: one), root(of: other))
        guard one != other else { return }
        let (first, second) = (self[Int(one)], self[Int(other)])
        let (large, small) = first.parent <= second.parent ? (one, other) : (other, one)
        self[Int(large)].parent = first.parent + second.parent
        self[Int(large)].latest =
            stamp(self[Int(first.latest)]) < stamp(self[Int(second.latest)]) ? second.latest : first.latest
        self[Int(small)].parent = large
        // MW3: two rings become one.
        self[Int(one)].next = second.next
        self[Int(other)].next = first.next
    }

    /// Logarithmic, because the smaller group joins the larger one.
    private func root(of entry: Int32) -> Int32 {
        var entry = entry
        while self[Int(entry)].parent >= 0 { entry = self[Int(entry)].parent }
        return entry
    }

    // MARK: Connected transactions

    /// The roots of the groups that use these resources.
    private func groups(of resources: MergeResources) -> Set<Int32> {
        var found: Set<Int32> = []
        for resource in resources.changed {
            switch uses[ResourceHash(resource, isChanged: true)] {
            case .changed(let entry)?: found.insert(root(of: entry))
            case .read(var reader)?:
                while reader >= 0 {
                    found.insert(root(of: readers[Int(reader)].entry))
                    reader = readers[Int(reader)].earlier
                }
            case nil: break
            }
        }
        for resource in resources.read {
            if case .changed(let entry)? = uses[ResourceHash(resource, isChanged: false)] {
                found.insert(root(of: entry))
            }
        }
        return found
    }

    /// The largest stamp of the transactions that are connected with these resources; nil if there are none. It may
    /// also be that of one that was removed.
    ///
    /// Constant for each resource, and for each entry that only reads one of the changed ones.
    package func latest(connectedWith resources: MergeResources) -> Stamp? {
        return groups(of: resources).map { stamp(self[Int(self[Int($0)].latest)]) }.max()
    }

    /// The transactions that are connected with these resources, directly or by others, in the order of history. Some
    /// at the beginning are left out if they come before a new transaction and before all others.
    ///
    /// O(n log n) in their number.
    package func connected(with resources: MergeResources, before new: Stamp) -> [Place] {
        let rest = beginning(before: new)..<end
        var found: [Int] = []
        for root in groups(of: resources) {
            if Int(-self[Int(root)].parent) > rest.count {
                found += rest.filter { self.root(of: Int32($0)) == root }
            } else {
                var entry = root
                repeat {
                    if rest.contains(Int(entry)) { found.append(Int(entry)) }
                    entry = self[Int(entry)].next
                } while entry != root
            }
        }
        return found.sorted().map { place($0) }
    }

    /// The transactions that change a resource, and perhaps a few others. Linear in their group.
    package func places(changing resource: MergeResource) -> [Place] {
        let resource = ResourceHash(resource, isChanged: true)
        guard case .changed(let start)? = uses[resource] else { return [] }
        var found: [Place] = []
        var entry = start
        repeat {
            if entry >= first, resources(of: Int(entry)).contains(resource) { found.append(place(Int(entry))) }
            entry = self[Int(entry)].next
        } while entry != start
        return found
    }

    /// An entry that comes before a new transaction and before all later entries, with all before it.
    private func beginning(before new: Stamp) -> Int {
        var smallest = new.lamport
        for index in chunks.indices.reversed() {
            if chunks[index].largest.lamport < smallest { return max(first, min(end, (index + 1) * Chunk.count)) }
            smallest = min(smallest, chunks[index].smallest)
        }
        return first
    }

    /// Resources without those that connect a transaction only with those with which others connect it anyway.
    ///
    /// - Parameter others: Further resources of the transaction.
    package func unknown(_ resources: MergeResources, besides others: MergeResources) -> MergeResources {
        let groups = groups(of: others)
        func isKnown(_ resource: MergeResource) -> Bool {
            guard case .changed(let entry)? = uses[ResourceHash(resource, isChanged: true)] else { return false }
            return groups.contains(root(of: entry))
        }
        var unknown = MergeResources()
        unknown.changed = resources.changed.filter { !isKnown($0) }
        unknown.read = resources.read.filter { !isKnown($0) }
        return unknown
    }

    // MARK: Settled transactions

    /// The number of transactions at the beginning whose numbers in the group's order are below one, and below those of
    /// all others in the window.
    ///
    /// Linear in the ones below, apart from a look at each 1,024 of the others.
    package func settled(below lamport: UInt64) -> Int {
        guard first < end, self[first].lamport < lamport else { return 0 }
        let limit = (first..<end).first { self[$0].lamport >= lamport } ?? end
        var largest: [UInt64] = []
        for index in first..<limit { largest.append(max(self[index].lamport, largest.last ?? 0)) }
        var smallest = smallest(from: limit)
        for index in (first..<limit).reversed() {
            if largest[index - first] < smallest { return index - first + 1 }
            smallest = min(smallest, self[index].lamport)
        }
        return 0
    }

    private func smallest(from index: Int) -> UInt64 {
        let chunk = (index + Chunk.count - 1) / Chunk.count
        let own = (index..<min(end, chunk * Chunk.count)).map { self[$0].lamport }.min() ?? .max
        return chunks.dropFirst(chunk).reduce(own) { min($0, $1.smallest) }
    }

    /// The first transaction in the group's order that is the first one of its writer after a confirmed number.
    ///
    /// - Parameter confirmed: Returns the number up to which the transactions of a writer are confirmed.
    package mutating func firstUnconfirmed(_ confirmed: (UUID) -> UInt64) -> Stamp? {
        var found: Stamp?
        for peer in peers.indices {
            let number = confirmed(peers[peer])
            // A new member has confirmed nothing.
            var entry = number < unconfirmed[peer].number ? first : max(first, unconfirmed[peer].entry)
            while entry < end, Int(self[entry].peer) != peer || self[entry].origin <= number { entry += 1 }
            unconfirmed[peer] = (entry, number)
            guard entry < end else { continue }
            found = min(found ?? stamp(self[entry]), stamp(self[entry]))
        }
        return found
    }
}
