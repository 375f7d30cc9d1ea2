// The knowledge of a peer: for each peer, the number of the last transaction that it has applied.

package import FoundationEssentials

/// A version vector. A peer without an entry has the number 0.
///
/// Invariant: the entries ascend by the bytes of their peers, each peer once, and no number is 0.
package struct VersionVector: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        package let peer: UUID
        /// Not 0.
        package let number: UInt64
    }

    package private(set) var entries: [Entry] = []

    package init() {}

    /// Nil unless the entries obey the invariant.
    init?(ascending entries: [Entry]) {
        for (index, entry) in entries.enumerated() {
            guard entry.number > 0, index == 0 || Self.isBefore(entries[index - 1].peer, entry.peer) else { return nil }
        }
        self.entries = entries
    }

    /// The number of a peer's last transaction. Setting 0 removes the entry. Logarithmic to read, linear to add.
    package subscript(peer: UUID) -> UInt64 {
        get {
            let place = place(of: peer)
            return place < entries.count && entries[place].peer == peer ? entries[place].number : 0
        }
        set {
            let place = place(of: peer)
            let isKnown = place < entries.count && entries[place].peer == peer
            switch (isKnown, newValue > 0) {
            case (true, true): entries[place] = Entry(peer: peer, number: newValue)
            case (true, false): entries.remove(at: place)
            case (false, true): entries.insert(Entry(peer: peer, number: newValue), at: place)
            case (false, false): break
            }
        }
    }

    /// The first place whose peer is not before this one.
    private func place(of peer: UUID) -> Int {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if Self.isBefore(entries[middle].peer, peer) { low = middle + 1 } else { high = middle }
        }
        return low
    }

    package static func isBefore(_ left: UUID, _ right: UUID) -> Bool {
        withUnsafeBytes(of: left.uuid) { left in
            withUnsafeBytes(of: right.uuid) { right in left.lexicographicallyPrecedes(right) }
        }
    }
}
