// Writing values of a program's own types.

/// The binding of the type that a transaction has written last.
struct LastBinding {
    let type: ObjectIdentifier
    let binding: EntityBinding
    let layout: RowLayout
}

extension Transaction {
    private var lastBinding: LastBinding? {
        get { notesIfAny?.lastBinding }
        set { notes.lastBinding = newValue }
    }

    // MARK: Inserting

    /// Inserts an object with the properties of a value. Throws `StoreError`: `requiredMissing`, `valueOutOfRange`,
    /// `tooLarge`; `referenceForeign` if it refers to an object of another store. If the value is not valid, the commit
    /// throws `validationFailed` when the body has ended.
    @discardableResult
    public func insert<E: Entity>(_ value: E) throws -> Reference<E> {
        let (binding, layout) = try binding(E.self)
        guard binding.model.hasRules else {
            // Without rules nothing changes in it.
            return Reference(
                try withUnsafePointer(to: value) { (value) throws(StoreError) in
                    try insert(UnsafeRawPointer(value), binding, layout)
                }, of: binding.storeMark)
        }
        var value = value
        return Reference(
            try withUnsafeMutablePointer(to: &value) { (value) throws(StoreError) in
                let failures = prepare(value, binding)
                let object = try insert(UnsafeRawPointer(value), binding, layout)
                noteFailures(failures, of: object)
                return object
            }, of: binding.storeMark)
    }

    /// Not generic: it looks up no types while it runs. The value must be as it is to be stored.
    func insert(
        _ value: UnsafeRawPointer, _ binding: EntityBinding, _ layout: RowLayout
    ) throws(StoreError) -> ObjectID {
        try draft.insert(layout) { (row) throws(StoreError) in try binding.write(value, to: &row) }
    }

    /// Returns the reference of an object that this transaction may insert later, once. Throws `StoreError`.
    public func reserve<E: Entity>(_ type: E.Type) throws -> Reference<E> {
        let (binding, layout) = try binding(E.self)
        return Reference(try draft.reserve(entity: layout.number), of: binding.storeMark)
    }

    /// Inserts an object under a reference that this transaction has reserved. Throws `StoreError`: `invalidArgument`
    /// if it was not reserved here or has been used, and as `insert(_:)`.
    public func insert<E: Entity>(_ value: E, as reference: Reference<E>) throws {
        let (binding, layout) = try binding(E.self)
        try reference.requireStore(binding.storeMark)
        var value = value
        try withUnsafeMutablePointer(to: &value) { (value) throws(StoreError) in
            noteFailures(prepare(value, binding), of: reference.id)
            try draft.insert(reserved: reference.id, layout) { (row) throws(StoreError) in
                try binding.write(UnsafeRawPointer(value), to: &row)
            }
        }
    }

    // MARK: Updating

    /// Changes an object: `change` gets its properties as this transaction sees them. Attributes that the type does not
    /// know do not change.
    ///
    /// References to objects that this transaction has deleted are still in the properties that `change` gets. Remove
    /// them there if delete rules must not see them: rules are evaluated after the body.
    ///
    /// - Returns: Whether any property differs. If none does, nothing is written.
    ///
    /// Throws `StoreError`: `objectNotFound`, `referenceForeign`, and as `insert(_:)`; and errors of `change`.
    @discardableResult
    public func update<E: Entity>(_ reference: Reference<E>, _ change: (inout E) throws -> Void) throws -> Bool {
        let (binding, layout) = try binding(E.self)
        guard var value = try valueToChange(reference, binding, layout) else {
            throw binding.notFound(reference.id)
        }
        let read = mayReadOtherValues(reference.id, binding) ? value : nil
        try change(&value)
        return try write(&value, to: reference.id, binding, layout, asRead: read)
    }

    /// Whether `valueToChange` may have values that the object's row does not have. A row that this transaction has
    /// written itself may refer to an object that it has reserved and not inserted yet, or to one that does not exist,
    /// which the commit refuses.
    func mayReadOtherValues(_ object: ObjectID, _ binding: EntityBinding) -> Bool {
        binding.readsOtherValues || binding.hasReferences && draft.isChangedHere(object)
    }

    /// Gives an object the properties of a value, all of them. As `update(_:_:)` with a closure.
    ///
    /// A value that was read after its target was deleted refers to nothing, and so will the object.
    @discardableResult
    public func update<E: Entity>(_ reference: Reference<E>, to value: E) throws -> Bool {
        let (binding, layout) = try binding(E.self)
        try reference.requireStore(binding.storeMark)
        var value = value
        return try write(&value, to: reference.id, binding, layout)
    }

    /// Sets the properties of an object. If `read` is the value that the program received, properties that it did not
    /// change keep their value in the row: a missing value stays missing, and delete rules find all references.
    func write<E: Entity>(
        _ value: inout E, to object: ObjectID, _ binding: EntityBinding, _ layout: RowLayout, asRead read: E? = nil
    ) throws(StoreError) -> Bool {
        try binding.requireObject(object, layout)
        // The program may have changed the schema since it read the value.
        try draft.requireNewest(layout)
        return try withUnsafeMutablePointer(to: &value) { (value) throws(StoreError) in
            noteFailures(prepare(value, binding), of: object)
            let properties = UnsafeRawPointer(value)
            if let read {
                let before = try withUnsafePointer(to: read) { (read) throws(StoreError) in
                    try binding.changes(UnsafeRawPointer(read))
                }
                var changes: [(position: Int, value: StoredValue)] = []
                for (old, new) in zip(before, try binding.changes(properties)) where old.value != new.value {
                    changes.append(new)
                }
                return try update(object, changes, binding)
            }
            guard binding.mayHaveLongValues(properties) else {
                return try draft.update(object) { (row) throws(StoreError) in try binding.write(properties, to: &row) }
            }
            return try update(object, try binding.changes(properties), binding)
        }
    }

    /// Changes attributes of an object, in ascending order. Returns false, and writes nothing, if nothing differs.
    func update(
        _ object: ObjectID, _ changes: [(position: Int, value: StoredValue)], _ binding: EntityBinding
    ) throws(StoreError) -> Bool {
        let canonical = try withoutSameForms(changes, object, binding)
        let different = try Self.withoutSameLargeValues(canonical, object, draft)
        return try draft.update(object) { (row) throws(StoreError) in try binding.write(different, to: &row) }
    }

    /// Removes values that the object has in another form, such as a set in another order. They are equal. Also removes
    /// fallbacks that replace the object's stored values.
    private func withoutSameForms(
        _ changes: [(position: Int, value: StoredValue)], _ object: ObjectID, _ binding: EntityBinding
    ) throws(StoreError) -> [(position: Int, value: StoredValue)] {
        let draft = draft
        guard binding.hasForms || binding.hasFallbacks, let layout = draft.newestLayout(object.entityNumber) else {
            return changes
        }
        var different: [(position: Int, value: StoredValue)] = []
        let isThere = try draft.withRow(object) { (row) throws(StoreError) in
            for change in changes {
                let attribute = layout.entity.attributes[change.position].number
                guard let place = row.layout.position(ofAttribute: attribute) else {
                    different.append(change)
                    continue
                }
                if case .json = change.value,
                    try binding.isSame(try draft.value(row, at: place), change.value, at: change.position)
                {
                    continue
                }
                if binding.hasFallbacks,
                    try binding.keepsUnknown(change.value, try draft.value(row, at: place), at: change.position)
                {
                    continue
                }
                different.append(change)
            }
        }
        return isThere ? different : changes
    }

    // MARK: Deleting

    /// Deletes an object, and applies the delete rules of relationships to the objects that refer to it. Throws
    /// `StoreError`: `objectNotFound`, also if the ID is one of another entity; `referenceForeign`. The commit throws
    /// `deleteDenied` if a rule denies it.
    public func delete<E: Entity>(_ reference: Reference<E>) throws {
        let (binding, layout) = try binding(E.self)
        try reference.requireStore(binding.storeMark)
        try binding.requireObject(reference.id, layout)
        try delete(reference.id)
    }

    // MARK: Reading

    /// The object as this transaction sees it, with its own changes; nil if it does not exist. Throws `StoreError`.
    public subscript<E: Entity>(reference: Reference<E>) -> E? {
        get throws {
            let (binding, layout) = try binding(E.self)
            return try value(reference, binding, layout)
        }
    }

    /// The object for a change: with references to objects that this transaction has deleted, which the change may
    /// remove. Without them, a property that is set to nothing would look like one that is unchanged.
    func valueToChange<E: Entity>(
        _ reference: Reference<E>, _ binding: EntityBinding, _ layout: RowLayout
    ) throws(StoreError) -> E? {
        try value(reference, binding, layout, keepingDeleted: true)
    }

    private func value<E: Entity>(
        _ reference: Reference<E>, _ binding: EntityBinding, _ layout: RowLayout, keepingDeleted: Bool = false
    ) throws(StoreError) -> E? {
        try reference.requireStore(binding.storeMark)
        guard reference.id.entityNumber == layout.number else { return nil }
        var value = E()
        let isFound = try withUnsafeMutablePointer(to: &value) { (value) throws(StoreError) in
            try draft.withRow(reference.id) { (row) throws(StoreError) in
                try readDraft(
                    row, reference.id, binding, layout, keepingDeleted: keepingDeleted,
                    into: UnsafeMutableRawPointer(value))
            }
        }
        return isFound ? value : nil
    }

    /// Reads a row that may be one of this transaction, and so may have values that are not in the file yet.
    func readDraft(
        _ row: RowImage, _ object: ObjectID, _ binding: EntityBinding, _ layout: RowLayout,
        keepingDeleted: Bool = false, into value: UnsafeMutableRawPointer
    ) throws(StoreError) {
        guard draft.isChangedHere(object) || !keepingDeleted && draft.deletesAnything else {
            return try binding.read(row, object, draft.base, layout, into: value)
        }
        try binding.read(row, draft, layout, keepingDeleted: keepingDeleted, into: value)
    }

    // MARK: Before writing

    func binding<E: Entity>(
        _ type: E.Type
    ) throws(StoreError) -> (EntityBinding, RowLayout) {
        if let known = lastBinding, known.type == ObjectIdentifier(type), draft.shape.isNewest(known.layout) {
            return (known.binding, known.layout)
        }
        let draft = draft
        let name = E.model.name
        guard let number = draft.catalog.number(ofEntity: name), let layout = draft.newestLayout(number) else {
            throw E.model.undeclared
        }
        let binding = try layout.binding(type, draft.catalog)
        lastBinding = LastBinding(type: ObjectIdentifier(type), binding: binding, layout: layout)
        return (binding, layout)
    }

    /// Computes derived properties. Returns the validation failures.
    private func prepare<E: Entity>(
        _ value: UnsafeMutablePointer<E>, _ binding: EntityBinding
    ) -> [ValidationFailure] {
        guard binding.model.hasRules else { return [] }
        let model = binding.model
        model.rules.derive(UnsafeMutableRawPointer(value))
        var failures = model.rules.failures(UnsafeRawPointer(value))
        if !failures.isEmpty, draft.deletesAnything, binding.hasReferences {
            // References to objects deleted so far will be gone in the end.
            var left = value.pointee
            let inTheEnd = withUnsafeMutablePointer(to: &left) { left in
                model.removeReferences(at: UnsafeMutableRawPointer(left)) { draft.deletes($0) }
                return model.rules.failures(UnsafeRawPointer(left))
            }
            failures.removeAll { failure in !inTheEnd.contains { $0.attribute == failure.attribute } }
        }
        return failures
    }
}
