// Whether an object has changed, without reading it.

/// Identifies one version of one object in one file. Compaction writes every version to a new place, so afterwards the
/// same version has another stamp.
private struct ObjectStamp: Equatable {
    let generation: UInt64
    let version: UInt64
}

extension Snapshot {
    /// The stamp of an object in this state; nil if it does not exist. Reads the index, not the object.
    private func stamp(of object: ObjectID) throws(StoreError) -> ObjectStamp? {
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
        let (mine, theirs) = (try stamp(of: object), try other.stamp(of: object))
        if mine == theirs { return false }
        guard mine != nil, theirs != nil, view.core !== other.view.core else { return true }
        return try value(of: object) != other.value(of: object)
    }
}
