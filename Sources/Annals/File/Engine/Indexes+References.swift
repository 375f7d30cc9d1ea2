// References lead to objects: rules for transactions, checked on the newest state.
//
// Invariants:
// RF1  A reference that a transaction writes names an object that exists after it, of the attribute's entity.
// RF2  After a transaction, no reference names an object that it deletes, unless the reference's rule is `noAction`.

extension Indexes {
    /// Throws `referenceMissing` or `deleteDenied` if the transaction would break RF1 or RF2. `next` is the state after
    /// it, with complete indexes. With the writer lock.
    func requireReferences(
        _ changes: borrowing OrderedChanges, _ transaction: DraftFrames, _ next: OrderedState
    ) throws(StoreError) {
        try requireTargets(changes, transaction, next.shape)
        try transaction.forEachEntry { (change, _) throws(StoreError) in
            if change.kind == .delete { try requireNoReferrer(to: change.object, next) }
            return true
        }
    }

    // MARK: Targets

    private func requireTargets(
        _ changes: borrowing OrderedChanges, _ transaction: DraftFrames, _ shape: StoreShape
    ) throws(StoreError) {
        // Existing targets are removed: first those in the transaction itself, then those in the store.
        var missing: Set<ObjectID> = []
        try changes.forEachNewTarget(shape) { (target, object, number) throws(StoreError) in
            if let reference = shape.indexes[number].reference, !reference.mayRefer(to: target) {
                throw shape.indexes[number].missing(target, from: object, shape, isNew: try isNew(object))
            }
            missing.insert(target)
        }
        if missing.isEmpty { return }
        var deleted: Set<ObjectID> = []
        try transaction.forEachEntry { (change, _) throws(StoreError) in
            if missing.contains(change.object) {
                missing.remove(change.object)
                if change.kind == .delete { deleted.insert(change.object) }
            }
            return true
        }
        for target in missing {
            let newest = try core.reading { () throws(StoreError) in try rows.newest(target) }
            if newest != 0, newest & 1 == 0 { missing.remove(target) }
        }
        missing.formUnion(deleted)
        if missing.isEmpty { return }
        try changes.forEachNewTarget(shape) { (target, object, number) throws(StoreError) in
            if missing.contains(target) {
                throw shape.indexes[number].missing(target, from: object, shape, isNew: try isNew(object))
            }
        }
    }

    /// Whether an object is not in the store yet.
    private func isNew(_ object: ObjectID) throws(StoreError) -> Bool {
        try core.reading { () throws(StoreError) in try rows.newest(object) } == 0
    }

    // MARK: Referrers

    private func requireNoReferrer(to object: ObjectID, _ next: OrderedState) throws(StoreError) {
        for number in next.shape.referring(to: object.entityNumber) {
            let index = next.shape.indexes[number]
            guard let attribute = index.reference, attribute.deleteRule != .noAction,
                let content = next.ordered[number]
            else { continue }
            var key = ByteWriter(capacity: 16)
            IndexKey.append(element: object, to: &key)
            let referrer = try core.reading { () throws(StoreError) in try content.first(key.bytes, core.file) }
            if let referrer { throw index.denied(object, [referrer]) }
        }
    }
}
