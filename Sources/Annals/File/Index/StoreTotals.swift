// The next object number of every entity, in a form that is cheap to copy at every commit.
//
// Invariants:
// Z1  `latest` has the totals of `latestEntity`, `settled` those of other entities. An entity beyond the end of
//     `settled` has those of a new one.

/// The totals of all entities. A copy shares the array; changes of a single entity do not copy the array.
struct StoreTotals: Sendable {
    /// Two numbers for each entity: an array of the standard library's numbers needs no type of its own.
    private var settled: [UInt64] = []
    /// No entity has the number 0.
    private var latestEntity: UInt16 = 0
    private var latest = EntityTotals()

    @inline(__always)
    subscript(entity: UInt16) -> EntityTotals {
        if entity == latestEntity { return latest }
        let index = Int(entity) * 2
        guard index < settled.count else { return EntityTotals() }
        return EntityTotals(nextNumber: settled[index], live: settled[index + 1])
    }

    /// One above the highest entity number that has totals.
    var entityLimit: Int { max(settled.count / 2, Int(latestEntity) + 1) }

    /// Becomes equal to `other`. Counts no reference if both share the array.
    @inline(__always)
    mutating func become(_ other: borrowing StoreTotals) {
        (latestEntity, latest) = (other.latestEntity, other.latest)
        let isShared = settled.withUnsafeBufferPointer { mine in
            other.settled.withUnsafeBufferPointer { mine.baseAddress == $0.baseAddress && mine.count == $0.count }
        }
        if !isShared { settled = other.settled }
    }

    /// Notes a change of an object.
    @inline(__always)
    mutating func note(_ kind: ChangeKind, _ object: ObjectID) {
        if object.entityNumber != latestEntity { goOver(to: object.entityNumber) }
        switch kind {
        case .insert, .base:
            if object.number >= latest.nextNumber { latest.nextNumber = object.number + 1 }
            latest.live &+= 1
        // A forged file may delete objects that do not exist.
        case .delete: if latest.live > 0 { latest.live &-= 1 }
        case .update: break
        }
    }

    mutating func set(_ entity: UInt16, to totals: EntityTotals) {
        goOver(to: entity)
        assert(latestEntity == entity, "Z1: the totals of another entity are replaced.")
        latest = totals
    }

    @inline(never)
    private mutating func goOver(to entity: UInt16) {
        let next = self[entity]
        let index = Int(latestEntity) * 2
        let new = EntityTotals()
        while settled.count <= index + 1 { settled += [new.nextNumber, new.live] }
        (settled[index], settled[index + 1]) = (latest.nextNumber, latest.live)
        (latestEntity, latest) = (entity, next)
    }
}
