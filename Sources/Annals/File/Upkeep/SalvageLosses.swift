// Compares the objects that salvage has found with those of the newest readable checkpoint, by entity.
//
// Invariants:
// SL1  Objects are noted by ascending ID, once each. Then `finish` is called.
// SL2  `lost` counts no object that was found, and none that the checkpoint does not know to be alive.

struct SalvageLosses {
    struct Counts: Equatable {
        /// Live objects without any findings.
        var lost: UInt64 = 0
        /// Objects of which only an older version was found.
        var outdated: UInt64 = 0
        /// Object numbers assigned after the checkpoint without any findings: lost or deleted.
        var unaccounted: UInt64 = 0
    }

    private(set) var counts: [UInt16: Counts] = [:]
    private var indexed: IndexedObjects?
    private var item: IndexedObjects.Item?
    /// By entity: live objects that the index names, and those found in its unreadable ranges.
    private var named: [UInt16: UInt64] = [:]
    private var foundUnnamed: [UInt16: UInt64] = [:]
    /// By entity: objects found whose numbers the checkpoint does not know.
    private var foundLater: [UInt16: UInt64] = [:]
    private let nextNumbers: [UInt16: UInt64]

    init(_ indexed: IndexedObjects?) throws(StoreError) {
        self.indexed = indexed
        nextNumbers = Dictionary(
            uniqueKeysWithValues: (indexed?.content.entities ?? []).map { ($0.entity, $0.nextNumber) })
        item = try self.indexed?.next()
    }

    /// The end of the changes that the checkpoint knows; 0 without one.
    var knownEnd: UInt64 { indexed?.offset ?? 0 }

    /// Notes an object whose newest version was found at `place`, and counts those that were not found before it (SL2).
    /// `wasAlive`: whether the findings show that it was
    /// alive at the checkpoint.
    mutating func note(_ object: UInt64, at place: UInt64, wasAlive: Bool) throws(StoreError) {
        let entity = UInt16(truncatingIfNeeded: object >> 48)
        if object & FormatLimits.maximumObjectNumber >= nextNumbers[entity] ?? 1 { foundLater[entity, default: 0] += 1 }
        while let next = item {
            switch next {
            case .version(let other, let newest, let isDeletion):
                guard other <= object else { return }
                if !isDeletion { named[Self.entity(other), default: 0] += 1 }
                if other == object {
                    if place < newest { counts[entity, default: Counts()].outdated += 1 }
                } else if !isDeletion {
                    counts[Self.entity(other), default: Counts()].lost += 1
                }
            case .unreadable(let first, let end):
                guard end <= object else {
                    if first <= object, wasAlive { foundUnnamed[entity, default: 0] += 1 }
                    return
                }
            }
            item = try indexed?.next()
        }
    }

    /// Counts the rest of the index. `nextNumbers` are one above the highest object numbers in any frame. `isCounting`:
    /// whether numbers without any findings may be those of lost objects.
    mutating func finish(nextNumbers next: [UInt16: UInt64], isCounting: Bool) throws(StoreError) {
        while let left = item {
            if case .version(let object, _, false) = left {
                named[Self.entity(object), default: 0] += 1
                counts[Self.entity(object), default: Counts()].lost += 1
            }
            item = try indexed?.next()
        }
        for root in indexed?.content.entities ?? [] {
            // The index only has their number.
            let known = (named[root.entity] ?? 0) + (foundUnnamed[root.entity] ?? 0)
            if root.liveObjects > known { counts[root.entity, default: Counts()].lost += root.liveObjects - known }
        }
        guard isCounting else { return }
        for (entity, end) in next {
            let given = end - min(end, nextNumbers[entity] ?? 1)
            let found = foundLater[entity] ?? 0
            if given > found { counts[entity, default: Counts()].unaccounted = given - found }
        }
    }

    private static func entity(_ object: UInt64) -> UInt16 { UInt16(truncatingIfNeeded: object >> 48) }
}
