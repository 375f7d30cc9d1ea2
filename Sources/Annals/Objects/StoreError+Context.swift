// Errors of calls that get an object which the context does not have.

extension StoreError {
    /// The object belongs to another context. If that one has saved it, this context has an object of its own for it.
    static func wrongContext<E: Entity>(_ object: Object<E>) -> StoreError {
        let (id, entity) = (object.reference.id, E.model.name)
        let isUnsaved = object.phase == .inserted || id.isTemporary
        return StoreError(
            .wrongContext,
            isUnsaved
                ? "An object of “\(entity)” belongs to another context, which has not saved it: save that context "
                    + "first, and use the object's objectReference."
                : "The object \(id) of “\(entity)” belongs to another context: call that context, or use the object "
                    + "that `object(_:)` of this context returns for its reference.", ObjectFacts(entity, object: id))
    }

    static func temporaryReference(_ object: ObjectID, _ entity: String) -> StoreError {
        StoreError(
            .wrongContext,
            "The reference to an object of “\(entity)” is temporary, and its object is inserted in another context, or "
                + "was released: save its context first, and use the object's objectReference.",
            ObjectFacts(entity, object: object))
    }

    static func objectGone<E: Entity>(_ object: Object<E>) -> StoreError {
        let (id, entity) = (object.reference.id, E.model.name)
        return StoreError(
            .objectGone,
            object.isReplaced
                ? "The object \(id) of “\(entity)” was not changed, because another object with its unique value has "
                    + "replaced it: use the object that `object(_:)` of the context returns for its reference."
                : "The object \(id) of “\(entity)” was not changed, because it was deleted: check objectStatus.isGone "
                    + "before you change an object.", ObjectFacts(entity, object: id))
    }
}

extension StoreError {
    /// The same error with this object, unless it has one.
    func about(_ object: ObjectID) -> StoreError {
        var error = self
        if var known = facts as? ObjectFacts {
            if known.objects.isEmpty { known.objects = [object] }
            error.facts = known
        }
        return error
    }

    /// The same with other IDs of objects: those that a context knows them by.
    func naming(_ ids: [ObjectID: ObjectID]) -> StoreError {
        var error = self
        if var known = facts as? ObjectFacts {
            known.objects = known.objects.map { ids[$0] ?? $0 }
            error.facts = known
        } else if case let failures = validationFailures, !failures.isEmpty {
            return .validationFailed(
                failures.map { failure in failure.object.map { failure.of(ids[$0] ?? $0) } ?? failure })
        }
        return error
    }
}
