// Reading values of a program's own types.

extension Snapshot {
    /// The object that a reference names, as a value; nil if it does not exist. Constant time.
    ///
    /// Throws `StoreError`: `schemaMismatch` if the store has not all properties of the type, `valueOutOfRange` if it
    /// has a value that the type does not have, `referenceForeign`, `damaged`, `closed`.
    public subscript<E: Entity>(reference: Reference<E>) -> E? {
        get throws { try value(reference) }
    }

    func value<E: Entity>(_ reference: Reference<E>) throws(StoreError) -> E? {
        var value = E()
        return try read(reference, into: &value) ? value : nil
    }

    /// Reads an object into a new value. Returns false if it does not exist.
    func read<E: Entity>(_ reference: Reference<E>, into value: inout E) throws(StoreError) -> Bool {
        if view.past != nil { return try inPresentTerms.read(reference, into: &value) }
        let object = reference.id
        guard let layout = view.shape.newestLayout(object.entityNumber), !layout.isReserved else { return false }
        let binding = try layout.binding(E.self, view.catalog)
        guard binding.isOfEntity else { return false }
        try reference.requireStore(binding.storeMark)
        try requireKnown(object.entityNumber)
        return try withUnsafeMutablePointer(to: &value) { (value) throws(StoreError) in
            try read(object, binding, layout, into: UnsafeMutableRawPointer(value))
        }
    }

    /// Not generic: it looks up no types while it runs.
    private func read(
        _ object: ObjectID, _ binding: EntityBinding, _ layout: RowLayout, into value: UnsafeMutableRawPointer
    ) throws(StoreError) -> Bool {
        try view.withRow(object) { (row) throws(StoreError) in
            try binding.read(row, object, view, layout, into: value)
        }
    }

    /// The objects that these references name, as values, in their order. References to nothing are left out. Throws as
    /// the subscript.
    public func values<E: Entity>(_ references: some Sequence<Reference<E>>) throws -> [E] {
        var values: [E] = []
        for reference in references {
            if let value = try value(reference) { values.append(value) }
        }
        return values
    }

    // MARK: Relationships

    /// The objects that refer to an object through a relationship, which is named by its other side:
    /// `snapshot.references(\.clips, of: folder)`. In the order in which they were inserted. Reads only the index.
    ///
    /// Throws `StoreError`: `modelInvalid`, `schemaMismatch`, `damaged`, `closed`.
    public func references<E: Entity, T: Entity>(
        _ path: any KeyPath<E, ToMany<T>> & Sendable, of reference: Reference<E>
    ) throws -> [Reference<T>] {
        let mark = mark
        return try referring(to: reference, MemoryLayout<E>.offset(of: path)).map { Reference($0, of: mark) }
    }

    /// The same objects as values.
    public func values<E: Entity, T: Entity>(
        _ path: any KeyPath<E, ToMany<T>> & Sendable, of reference: Reference<E>
    ) throws -> [T] {
        try values(references(path, of: reference))
    }

    /// The object that refers to an object through a unique relationship to one object, named by its other side:
    /// `snapshot.reference(\.passport, of: person)`. Nil if none does. Reads only the index. Throws as for several.
    public func reference<E: Entity, T: Entity>(
        _ path: any KeyPath<E, ToOne<T>> & Sendable, of reference: Reference<E>
    ) throws -> Reference<T>? {
        try referring(to: reference, MemoryLayout<E>.offset(of: path)).first.map { Reference($0, of: mark) }
    }

    /// The same object as a value.
    public func value<E: Entity, T: Entity>(
        _ path: any KeyPath<E, ToOne<T>> & Sendable, of reference: Reference<E>
    ) throws -> T? {
        guard let referrer = try self.reference(path, of: reference) else { return nil }
        return try self[referrer]
    }

    /// The mark of the store (`UUIDBytes.mark`).
    var mark: UInt32 { engine.log.header.storeID.mark }

    func referring<E: Entity>(to reference: Reference<E>, _ offset: Int?) throws(StoreError) -> [ObjectID] {
        try reference.requireStore(mark)
        let (target, name) = try E.model.relationship(otherSideAt: offset)
        return try referring(to: reference.id, target, name)
    }

    /// The objects of an entity that refer to an object by a property.
    func referring(to object: ObjectID, _ model: EntityModel, _ name: String) throws(StoreError) -> [ObjectID] {
        if view.past != nil { return try inPresentTerms.referring(to: object, model, name) }
        let layout = try layout(of: model)
        guard let position = layout.position(ofProperty: name, view.catalog) else {
            throw .unknownAttribute(name, of: model.name)
        }
        var objects: [ObjectID] = []
        let attribute = layout.entity.attributes[position].number
        guard let index = view.shape.index(of: layout.number, over: [attribute]) else { return [] }
        try view.forEachReferring(to: object, index: index) { (referrer) throws(StoreError) in
            objects.append(referrer)
            return true
        }
        return objects
    }

    /// The layout of an entity's objects. Throws `unknownEntity`.
    func layout(of model: EntityModel) throws(StoreError) -> RowLayout {
        guard let number = view.catalog.number(ofEntity: model.name), let layout = view.shape.newestLayout(number)
        else {
            throw model.undeclared
        }
        try requireKnown(number)
        return layout
    }
}

extension EntityModel {
    /// The entity with the property whose other side is at an offset, and that property's name. Throws `modelInvalid`.
    func relationship(otherSideAt offset: Int?) throws(StoreError) -> (target: EntityModel, property: String) {
        guard let side = otherSides.first(where: { $0.offset == offset }) else {
            throw Self.invalid([
                "The key path does not lead to a stored property of the type ToMany or ToOne of "
                    + "“\(name)”."
            ])
        }
        let target = side.target.model
        let property = target.properties.first { property in
            property.inverse?.target == type && property.inverse?.offset == side.offset
        }
        guard let property else {
            throw Self.invalid([
                "“\(side.name)” of “\(name)” is not the other side of any relationship: write Relationship(\\.…, "
                    + "inverse: \\.\(side.name)) in the schema of \(side.target)."
            ])
        }
        return (target, property.name)
    }

    /// The error for a type that the store does not know.
    var undeclared: StoreError {
        StoreError(
            .unknownEntity, "The store has no entity “\(name)”: open it with \(type).self in `entities:`.",
            ObjectFacts(name))
    }
}
