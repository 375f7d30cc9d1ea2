// A rehearsal finds every reason for which a commit would refuse a transaction. It writes nothing.
//
// Invariants:
// RH1  A rehearsal changes no file and takes no lock.
// RH2  On the same state, a rehearsal finds a reason if a commit refuses the transaction, and only then. Its first
//      reason may be another one than the commit's.

/// The reasons that a rehearsal has found.
final class Rehearsal {
    private(set) var refused: [StoreError] = []
    /// The reasons in `refused`, so that thousands of errors need not be compared with each other.
    private var noted: Set<Reason> = []
    /// Objects that could not be written. The rehearsal finds no reasons that depend on their values, or in references
    /// to them.
    fileprivate var unwritten: Set<ObjectID> = []

    private struct Reason: Hashable {
        let code: StoreError.Code
        let message: String
        let objects: [ObjectID]
    }

    fileprivate func add(_ error: StoreError) {
        let reason = Reason(code: error.code, message: error.message, objects: error.objects)
        // Validation failures have other facts than `objects`.
        if noted.insert(reason).inserted || error.objects.isEmpty && !refused.contains(error) { refused.append(error) }
    }
}

extension StoreError {
    /// Whether the error concerns the content of objects, and not the store: then there may be more such errors.
    var isRefusal: Bool {
        switch code {
        case .validationFailed, .uniqueViolation, .requiredMissing, .referenceMissing, .deleteDenied, .valueOutOfRange,
            .wrongContext, .referenceForeign, .tooLarge:
            true
        // A list that names an object twice.
        case .invalidArgument: facts is ObjectFacts
        default: false
        }
    }
}

extension Draft {
    /// Throws an error. A rehearsal notes it instead, if it concerns the content of objects, and continues.
    ///
    /// - Parameter object: The object that could not be written.
    func refuse(_ error: StoreError, unwritten object: ObjectID? = nil) throws(StoreError) {
        guard let rehearsal, error.isRefusal else { throw error }
        rehearsal.add(error)
        if let object { rehearsal.unwritten.insert(object) }
    }

    /// Notes that a rehearsal cannot write an object.
    func noteUnwritten(_ object: ObjectID) { rehearsal?.unwritten.insert(object) }

    /// Whether this is a rehearsal in which the object could not be written.
    func isUnwritten(_ object: ObjectID) -> Bool { rehearsal?.unwritten.contains(object) ?? false }

    /// Whether this is a rehearsal in which an object that refers to this one in the store could not be written.
    func isReferredToByUnwritten(_ target: ObjectID) throws(StoreError) -> Bool {
        guard let rehearsal else { return false }
        for object in rehearsal.unwritten where !isNew(object) {
            var refers = false
            _ = try base.withRow(object) { (row) throws(StoreError) in
                for number in shape.indexes(of: object.entityNumber) where shape.indexes[number].reference != nil {
                    let targets = try shape.indexes[number].elements(of: row, large: IndexShape.noLargeKeys)
                    if targets.contains(target) { refers = true }
                }
            }
            if refers { return true }
        }
        return false
    }

    /// Whether this transaction inserts the object, which is not in the store yet.
    func isNew(_ object: ObjectID) -> Bool { object.number >= base.nextNumber(of: object.entityNumber) }

    func findLargeKeys() throws(StoreError) {
        let shape = shape
        try frames.forEachEntry(withRows: true) { (change, bytes) throws(StoreError) in
            let entity = change.object.entityNumber
            guard change.kind != .delete, let bytes, let layout = shape.newestLayout(entity) else { return true }
            for number in shape.indexes(of: entity) where shape.indexes[number].reference == nil {
                let error = try shape.indexes[number].tooLarge(try RowImage(bytes, layout: layout), change.object)
                if let error { try refuse(error) }
            }
            return true
        }
    }

    func findTakenKeys() throws(StoreError) {
        guard let rehearsal else { return }
        let shape = shape
        let taken = try takenKeys { entity in
            shape.indexes(of: entity).filter { shape.indexes[$0].id.isUnique }
        }
        for (object, index, owner) in taken where !rehearsal.unwritten.contains(owner) {
            try refuse(shape.indexes[index].uniqueViolation(of: object, by: owner, isNew: isNew(owner)))
        }
    }

    func findMissingTargets() throws(StoreError) {
        guard let rehearsal, shape.hasReferences, checksReferences else { return }
        let shape = shape
        var written: Set<ObjectID> = []
        var targets: [(target: ObjectID, object: ObjectID, index: Int)] = []
        try frames.forEachEntry(withRows: true) { (change, bytes) throws(StoreError) in
            let (object, entity) = (change.object, change.object.entityNumber)
            guard change.kind != .delete, let bytes, let layout = shape.newestLayout(entity) else { return true }
            written.insert(object)
            let row = try RowImage(bytes, layout: layout)
            for number in shape.indexes(of: entity) where shape.indexes[number].reference != nil {
                var elements = Set(try shape.indexes[number].elements(of: row, large: IndexShape.noLargeKeys))
                if change.kind == .update {
                    // The references that the object had before are not new, so they are not checked.
                    _ = try base.withRow(object) { (before) throws(StoreError) in
                        elements.subtract(
                            try shape.indexes[number].elements(of: before, large: IndexShape.noLargeKeys))
                    }
                }
                targets += elements.inOrder().map { ($0, object, number) }
            }
            return true
        }
        for (target, object, number) in targets {
            let index = shape.indexes[number]
            if let reference = index.reference, reference.mayRefer(to: target) {
                // Delete rules have already handled the objects that this transaction deletes.
                if written.contains(target) || deletes(target) { continue }
                if rehearsal.unwritten.contains(target) || reserved.contains(target.rawValue) { continue }
                if try base.contains(target) { continue }
            }
            try refuse(index.missing(target, from: object, shape, isNew: isNew(object)))
        }
    }
}
