// One step of a plan that is complete before anything is written: to undo a transaction, or to apply another store's.

/// A change of one object. Values are in the order of the newest layout.
enum PlannedStep {
    case insert([StoredValue])
    /// For an object that was deleted before: it gets its own ID again.
    case insertAgain([StoredValue])
    /// By ascending position.
    case update([(position: Int, value: StoredValue)])
    case delete

    /// The rest of the step without these attributes, which cannot be written.
    func without(_ attributes: [UInt16], _ layout: RowLayout?) -> PlannedStep? {
        guard case .update(let changes) = self, let layout else { return nil }
        let left = changes.filter { !attributes.contains(layout.entity.attributes[$0.position].number) }
        return left.isEmpty ? nil : .update(left)
    }
}

extension Draft {
    func carryOut(_ step: PlannedStep, on object: ObjectID) throws(StoreError) {
        switch step {
        case .insert(let values): try insert(reserved: object, values)
        case .insertAgain(let values):
            try insertAgain(object) { (row) throws(StoreError) in
                for (position, value) in values.enumerated() { try row.set(stored: value, at: position) }
            }
        case .update(let values): try update(object, values)
        case .delete: try delete(object)
        }
    }
}
