// Derived values that a revert or a transaction of another store cannot write, and the changes that they come from.
//
// Invariant:
// DO1  Without the changes of all causes, the object's derived value is as it was before the transaction.

/// A derived attribute whose type does not have the value.
struct DerivedOutOfRange {
    let object: ObjectID
    let owner: String
    let derived: DerivedPlan.Derived

    var error: StoreError {
        StoreError(
            .valueOutOfRange,
            "“\(derived.property.name)” of “\(owner)” \(object.number) is derived, and its type cannot represent the "
                + "result: use a wider type, or change the values that it is derived from.",
            ObjectFacts(owner, [derived.property.name], object: object))
    }
}

/// Examines the state that a transaction leaves, after computing derived values.
struct DerivedObstacles {
    private let plan: DerivedPlan
    private let draft: Draft

    init(_ plan: DerivedPlan, _ draft: Draft) { (self.plan, self.draft) = (plan, draft) }

    /// Throws an error with `upkeepObstacles` if some of the values cannot be written.
    func requireNone(_ outOfRange: [DerivedOutOfRange]) throws(StoreError) {
        var obstacles: [UpkeepObstacle] = []
        for found in outOfRange {
            let attributes: Set = [found.derived.attribute]
            obstacles.append(
                UpkeepObstacle(
                    object: found.object, reason: .derivedOutOfRange(of: found.object), attributes: attributes,
                    causes: try causes(of: attributes, found.object)))
        }
        if let first = outOfRange.first {
            throw StoreError(first.error.code, first.error.message, upkeepObstacles: obstacles)
        }
        for (object, index, other) in try takenKeys() {
            let attributes = Set(draft.shape.indexes[index].id.attributes)
            obstacles.append(
                UpkeepObstacle(
                    object: object, reason: .keyTaken(by: other), attributes: attributes,
                    causes: try causes(of: attributes, object)))
        }
        guard let (object, index, other) = try takenKeys().first else { return }
        let error = draft.shape.indexes[index].uniqueViolation(of: object, by: other, isNew: draft.isNew(other))
        throw StoreError(error.code, error.message, upkeepObstacles: obstacles)
    }

    /// The objects that would have a unique key of another object, if the key is derived.
    private func takenKeys() throws(StoreError) -> [(object: ObjectID, index: Int, by: ObjectID)] {
        guard plan.keys.contains(where: { !$0.value.isEmpty }) else { return [] }
        return try draft.takenKeys { plan.keys[$0] ?? [] }
    }

    // MARK: Causes

    /// The changes of this transaction from which attributes of an object get their values.
    private func causes(
        of attributes: Set<UInt16>, _ object: ObjectID
    ) throws(StoreError) -> [ObjectID: Set<UInt16>] {
        let own = try draft.frames.ownChange(of: object)
        if let own, own.kind == .insert { return [object: []] }
        var causes: [ObjectID: Set<UInt16>] = [:]
        let owner = plan.owners[object.entityNumber]
        let fromOthers = owner?.derived.filter { attributes.contains($0.attribute) } ?? []
        for derived in fromOthers { try add(plan.sides[derived.side], object, to: &causes) }
        let others = Set(fromOthers.map(\.attribute))
        guard let own, let layout = draft.newestLayout(object.entityNumber) else { return causes }
        let written = layout.entity.attributes.enumerated().filter { own.attributes.contains($0.offset) }
            .filter { !plan.isWorkedOut($0.element.number, of: object.entityNumber) }.map(\.offset)
        var numbers = Set(written.map { layout.entity.attributes[$0].number })
        if !attributes.subtracting(others).isDisjoint(with: plan.attributes[object.entityNumber] ?? []) {
            let sources = try sources(of: attributes, object, written, layout)
            if !sources.isEmpty { numbers = sources.union(numbers.intersection(attributes)) }
        } else {
            numbers.formIntersection(attributes)
        }
        if !numbers.isEmpty { causes[object] = numbers }
        // Delete rules may have removed its sources.
        for lost in draft.losses[object, default: [:]].values.joined() { causes[lost] = [] }
        return causes
    }

    /// Adds the changes of objects that refer to an object, or did before.
    private func add(
        _ side: DerivedPlan.Side, _ object: ObjectID, to causes: inout [ObjectID: Set<UInt16>]
    ) throws(StoreError) {
        guard let layout = draft.newestLayout(side.member) else { return }
        let places = [(attribute: side.attribute, position: side.position)] + side.summed
        try draft.frames.forEachEntry(withRows: true) { (change, bytes) throws(StoreError) in
            guard change.object.entityNumber == side.member else { return true }
            var refers = false
            if change.kind != .delete, let bytes {
                refers = try refersTo(object, try RowImage(bytes, layout: layout), side)
            }
            if !refers {
                _ = try draft.base.withRow(change.object) { (row) throws(StoreError) in
                    refers = try refersTo(object, row, side)
                }
            }
            guard refers else { return true }
            if change.kind == .update {
                let written = places.filter { change.contains(attributePosition: $0.position) }.map(\.attribute)
                if !written.isEmpty { causes[change.object, default: []].formUnion(written) }
            } else {
                causes[change.object] = []
            }
            return true
        }
    }

    private func refersTo(_ object: ObjectID, _ row: RowImage, _ side: DerivedPlan.Side) throws(StoreError) -> Bool {
        guard let place = row.layout.position(ofAttribute: side.attribute) else { return false }
        return try draft.value(row, at: place).targets.contains(object)
    }

    /// The attributes among the written ones on which derived values depend. Found by trial: a program's closures do
    /// not list the attributes that they read.
    private func sources(
        of attributes: Set<UInt16>, _ object: ObjectID, _ written: [Int], _ layout: RowLayout
    ) throws(StoreError) -> Set<UInt16> {
        guard let model = plan.ofOwnProperties[object.entityNumber] else { return [] }
        let old = try valuesBefore(object, written, layout)
        return try draft.withValue(of: object, model.type) { (value, binding) throws(StoreError) in
            func derived() throws(StoreError) -> [StoredValue] {
                binding.model.rules.derive(value)
                return try binding.changes(UnsafeRawPointer(value)).compactMap { place in
                    attributes.contains(layout.entity.attributes[place.position].number) ? place.value : nil
                }
            }
            let after = try derived()
            var sources: Set<UInt16> = []
            for (index, property) in binding.properties.enumerated() {
                guard let before = old[binding.position(of: index)] else { continue }
                let (codec, address) = (property.codec, value + property.offset)
                guard let now = try? codec.value(at: address), codec.store(before, of: binding.storeMark, at: address)
                else { continue }
                if try derived() != after {
                    sources.insert(layout.entity.attributes[binding.position(of: index)].number)
                }
                _ = codec.store(now, of: binding.storeMark, at: address)
            }
            return sources
        }
    }

    /// The values at some positions before the transaction.
    private func valuesBefore(
        _ object: ObjectID, _ positions: [Int], _ layout: RowLayout
    ) throws(StoreError) -> [Int: Value] {
        var values: [Int: Value] = [:]
        _ = try draft.base.withRow(object) { (row) throws(StoreError) in
            for position in positions {
                let attribute = layout.entity.attributes[position]
                guard let place = row.layout.position(ofAttribute: attribute.number) else {
                    values[position] = try Value(attribute.valueBeforeItExisted)
                    continue
                }
                values[position] = try Value(try draft.value(row, at: place))
            }
        }
        return values
    }
}
