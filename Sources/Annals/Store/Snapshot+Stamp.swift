// Whether an object has changed, without reading it.

/// Identifies one version of one object in one file. Equal stamps of an object mean that it has not changed.
///
/// Compaction writes every version to a new place: afterwards stamps of the same version differ. So different stamps
/// only mean that the object may have changed.
public struct ObjectStamp: Hashable, Sendable {
    private let generation: UInt64
    private let version: UInt64

    init(generation: UInt64, version: UInt64) { (self.generation, self.version) = (generation, version) }
}

extension Snapshot {
    /// The stamp of an object in this state; nil if it does not exist. Constant time; reads the index, not the object.
    ///
    /// Throws `StoreError`: `damaged`, `closed`.
    public func stamp(of object: ObjectID) throws -> ObjectStamp? { try version(of: object) }

    private func version(of object: ObjectID) throws(StoreError) -> ObjectStamp? {
        guard isKept(object) else { return nil }
        try requireKnown(object.entityNumber)
        let version = try view.core.reading { () throws(StoreError) in
            try view.core.visibleRow(object, below: view.end)
        }
        return version.map { ObjectStamp(generation: engine.log.header.generation, version: $0) }
    }

    /// Whether the state has objects of that entity that are visible to programs.
    private func isKept(_ object: ObjectID) -> Bool {
        view.shape.has(object.entityNumber) && !view.reservedEntities.contains(object.entityNumber)
    }

    /// Whether an object differs between two states: changed, inserted or deleted in between.
    ///
    /// Constant time, without reading the object. If the store was compacted between the two states, the values are
    /// compared. Throws `StoreError`: `damaged`, `closed`.
    public func differs(_ object: ObjectID, from other: Snapshot) throws -> Bool {
        try isOther(object, than: other)
    }

    func isOther(_ object: ObjectID, than other: Snapshot) throws(StoreError) -> Bool {
        if view.core === other.view.core, isKept(object), other.isKept(object) {
            try requireKnown(object.entityNumber)
            try other.requireKnown(object.entityNumber)
            return try view.core.reading { () throws(StoreError) in
                try view.core.differs(object, below: view.end, other.view.end)
            }
        }
        let (mine, theirs) = (try version(of: object), try other.version(of: object))
        if mine == theirs { return false }
        guard mine != nil, theirs != nil, view.core !== other.view.core else { return true }
        return try value(of: object) != other.value(of: object)
    }
}
