// References lead to objects: what a transaction must not break, checked on the newest state.
//
// Invariants:
// RF1  A reference that a transaction writes names an object that exists after it, of the attribute's entity.
// RF2  After a transaction, no reference names what it deletes, unless its rule is `noAction`.

extension Indexes {
    /// Throws `referenceMissing` or `deleteDenied` if the transaction would break RF1 or RF2. `next` is the state after
    /// it, with complete indexes. With the writer lock.
    func requireReferences(
        _ changes: borrowing OrderedChanges, _ transaction: TransactionBuilder, _ next: OrderedState
    ) throws(StoreError) {
        try requireTargets(changes, transaction, next.shape)
        try transaction.forEachEntry { (change, _) throws(StoreError) in
            if change.kind == .delete { try requireNoReferrer(to: change.object, next) }
            return true
        }
    }

    // MARK: What is referred to

    private func requireTargets(
        _ changes: borrowing OrderedChanges, _ transaction: TransactionBuilder, _ shape: StoreShape
    ) throws(StoreError) {
        // Those that exist are taken out: what the transaction itself has, then what the store has.
        var missing: Set<ObjectID> = []
        try changes.forEachNewTarget(shape) { (target, object, number) throws(StoreError) in
            if let reference = shape.indexes[number].reference, !reference.mayRefer(to: target) {
                throw Self.missing(target, object, shape.indexes[number], shape, isNew: try isNew(object))
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
                throw Self.missing(target, object, shape.indexes[number], shape, isNew: try isNew(object))
            }
        }
    }

    /// Whether an object is not in the store yet.
    private func isNew(_ object: ObjectID) throws(StoreError) -> Bool {
        try core.reading { () throws(StoreError) in try rows.newest(object) } == 0
    }

    /// `isNew` if `object`, which refers to `target`, is not in the store yet: its number says nothing to anybody.
    static func missing(
        _ target: ObjectID, _ object: ObjectID, _ index: IndexShape, _ shape: StoreShape, isNew: Bool
    ) -> StoreError {
        let entity = index.layout.entity.name.text
        let sentence: String
        if let reference = index.reference, !reference.mayRefer(to: target) {
            let wanted = reference.target
            let name = shape.newestLayout(wanted)?.entity.name.text ?? "entity \(wanted)"
            sentence = "which is not of “\(name)”: refer to an object of that entity."
        } else {
            sentence = "which does not exist: insert it in the same transaction, or refer to another object."
        }
        let referrer = isNew ? "a new object of “\(entity)”" : "“\(entity)” \(object.number)"
        return StoreError(
            .referenceMissing, "\(index.attributeNames) of \(referrer) refers to \(target), \(sentence)",
            ObjectFacts(entity, index.attributes, objects: [target, object]))
    }

    // MARK: What refers

    private func requireNoReferrer(to object: ObjectID, _ next: OrderedState) throws(StoreError) {
        for number in next.shape.referring(to: object.entityNumber) {
            let index = next.shape.indexes[number]
            guard let attribute = index.reference, attribute.deleteRule != .noAction,
                let content = next.ordered[number]
            else { continue }
            var key = ByteWriter(capacity: 16)
            IndexKey.append(element: object, to: &key)
            let referrer = try core.reading { () throws(StoreError) in try content.first(key.bytes, core.file) }
            if let referrer { throw Self.denied(object, [referrer], index) }
        }
    }

    static func denied(_ object: ObjectID, _ referrers: [ObjectID], _ index: IndexShape) -> StoreError {
        let entity = index.layout.entity.name.text
        let named = referrers.prefix(10).map(\.description).joined(separator: ", ")
        let more = referrers.count > 10 ? " and others" : ""
        let refers = referrers.count > 1 ? "refer" : "refers"
        return StoreError(
            .deleteDenied,
            "\(object) cannot be deleted: \(index.attributeNames) of “\(entity)” \(named)"
                + "\(more) \(refers) to it. Change or delete what refers to it first.",
            ObjectFacts(entity, index.attributes, objects: referrers))
    }
}
