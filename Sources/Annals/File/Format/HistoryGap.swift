// The transactions for which an entity's history is not kept. The schema versions define them; each transaction names
// its version.
//
// Invariants:
// N1  A change is part of history if its entity's history is on in the newest version, and has been on since the
//     version of the change's transaction or an earlier one. Nothing else decides this, so it is the same before and
//     after compaction.

/// Transactions whose changes of an entity are no part of history.
package struct HistoryGap: Hashable, Sendable {
    package enum End: Hashable, Sendable {
        /// History is off.
        case open
        /// It was off when that version removed the entity.
        case removed(UInt16)
        /// It begins with the first transaction of that version.
        case resumed(UInt16)
    }

    package let entity: UInt16
    /// The version that added the entity: no history could exist before it.
    package let first: UInt16
    package let end: End

    package init(entity: UInt16, first: UInt16, end: End) {
        (self.entity, self.first, self.end) = (entity, first, end)
    }

    /// Whether a change of the entity is left out of a transaction of that version. (N1)
    package func hides(version: UInt16) -> Bool {
        switch end {
        case .open, .removed: true
        case .resumed(let resumed): version < resumed
        }
    }

    /// Whether transactions of these versions may lack changes of the entity. Without versions: whether its history is
    /// off.
    package func meets(_ versions: ClosedRange<UInt16>?) -> Bool {
        guard let versions else { return end == .open }
        switch end {
        case .open: return true
        case .removed(let next), .resumed(let next): return versions.lowerBound < next && versions.upperBound >= first
        }
    }

    /// Whether a request for all entities includes this one: it has a history, even if not from its beginning.
    package var concernsAll: Bool {
        if case .resumed = end { true } else { false }
    }
}

extension SchemaCatalog {
    /// The gaps of all entities whose history has ever been off, by ascending number. Linear in the definitions.
    package var historyGaps: [HistoryGap] {
        entityNumbers.compactMap { historyGap(ofEntity: $0) }
    }
}
