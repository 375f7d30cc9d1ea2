// Losses by delete rules must pass the validation of the objects' types, as if a program had made the changes.
//
// Invariants:
// LO1  After a transaction, no object lacks a reference that its type needs because a delete rule has taken it away.
//      Transactions of other stores are applied as they are.
// LO2  Attributes that an object derives from its own properties match their values after the delete rules.

/// Looks at the objects of one transaction that have lost references.
struct LossRules {
    private let draft: Draft
    private let validates: Bool

    init(_ draft: Draft, _ validates: Bool) { (self.draft, self.validates) = (draft, validates) }

    /// Computes the objects' derived attributes again, and throws `deleteDenied` or `requiredMissing` if one needs a
    /// lost reference (LO1).
    func hold(_ models: [EntityModel]) throws(StoreError) {
        var byEntity: [UInt16: EntityModel] = [:]
        for model in models where model.mayLoseWhatItNeeds {
            if let number = draft.catalog.number(ofEntity: model.name) { byEntity[number] = model }
        }
        var needs: [Need] = []
        // In a fixed order, the same in every process.
        for object in draft.losses.keys.inOrder() {
            guard let model = byEntity[object.entityNumber] else { continue }
            needs += try hold(object, model.type)
        }
        if !validates { return }
        var said: Set<[String]> = []
        for need in needs where said.insert([need.failure.entity, need.failure.attribute]).inserted {
            try draft.refuse(denied(need, needs))
        }
    }

    /// A property that breaks its type's rules without the lost reference.
    private struct Need {
        let object: ObjectID
        let lost: ObjectID
        let failure: ValidationFailure
    }

    private func hold<E: Entity>(_ object: ObjectID, _ type: E.Type) throws(StoreError) -> [Need] {
        guard let layout = draft.newestLayout(object.entityNumber), let losses = draft.losses[object] else {
            return []
        }
        return try draft.withValue(of: object, type) { (value, binding) throws(StoreError) in
            let derived = try binding.derive(value)
            if !derived.isEmpty { try draft.update(object, derived) }
            if !validates { return [] }
            let after = try binding.changes(UnsafeRawPointer(value))
            // By name: the lost reference of the property; nil if only a derived value differs.
            var changed: [String: ObjectID?] = [:]
            for (index, property) in binding.properties.enumerated() {
                let position = binding.position(of: index)
                let lost = losses[layout.entity.attributes[position].number]?.min()
                if lost != nil, binding.isRequired(at: position),
                    after.contains(where: { $0.position == position && $0.value == .absent })
                {
                    try draft.refuse(Draft.required(position, layout, of: object))
                    continue
                }
                if lost != nil || derived.contains(where: { $0.position == position }) {
                    changed[property.name] = .some(lost)
                }
            }
            let some = losses.values.lazy.compactMap { $0.min() }.min()
            return binding.model.rules.failures(UnsafeRawPointer(value)).compactMap { failure in
                guard let named = changed[failure.attribute], let lost = named ?? some else { return nil }
                return Need(object: object, lost: lost, failure: failure)
            }
        }
    }

    private func denied(_ first: Need, _ needs: [Need]) -> StoreError {
        let (entity, attribute) = (first.failure.entity, first.failure.attribute)
        var objects: [ObjectID] = []
        for need in needs where need.failure.entity == entity && need.failure.attribute == attribute {
            if objects.last != need.object { objects.append(need.object) }
        }
        return StoreError(
            .deleteDenied,
            "\(first.lost) cannot be deleted: without it, “\(attribute)” of “\(entity)” \(first.object.number) is "
                + "invalid: it \(StoreError.sentence(first.failure.message)) Change or delete that object first; the "
                + "same transaction may do both.",
            ObjectFacts(entity, [attribute], objects: Array(objects.prefix(100))))
    }
}

extension Draft {
    /// Calls `body` with an object as this transaction leaves it, as a value of its type.
    func withValue<E: Entity, Result>(
        of object: ObjectID, _ type: E.Type,
        _ body: (_ value: UnsafeMutableRawPointer, _ binding: EntityBinding) throws(StoreError) -> Result
    ) throws(StoreError) -> Result {
        let layout = try layout(object.entityNumber)
        let binding = try layout.binding(type, catalog)
        var value = E()
        return try withUnsafeMutablePointer(to: &value) { (value) throws(StoreError) in
            let address = UnsafeMutableRawPointer(value)
            _ = try withRow(object) { (row) throws(StoreError) in
                try binding.read(row, self, layout, keepingDeleted: false, into: address)
            }
            return try body(address, binding)
        }
    }
}

extension EntityBinding {
    /// Computes a value's attributes that it derives from its own properties (LO2). Returns the differences.
    func derive(_ value: UnsafeMutableRawPointer) throws(StoreError) -> [(position: Int, value: StoredValue)] {
        let before = try changes(UnsafeRawPointer(value))
        model.rules.derive(value)
        return zip(before, try changes(UnsafeRawPointer(value))).filter { $0.value != $1.value }.map { $1 }
    }
}

extension EntityModel {
    /// Whether delete rules may take away references that a type needs, or from which it derives something.
    var mayLoseWhatItNeeds: Bool {
        referringSlots.contains { slot in
            let property = properties[slot]
            return (property.deleteRule == .nullify || property.deleteRule == .noAction)
                && (hasRules || property.isRequired)
        }
    }

    /// Takes references out of the value at an address.
    func removeReferences(at address: UnsafeMutableRawPointer, where isGone: (ObjectID) -> Bool) {
        for slot in referringSlots {
            let (codec, place) = (properties[slot].codec, address + properties[slot].offset)
            guard let value = try? codec.value(at: place) else { continue }
            let left: Value =
                switch value {
                case .object(let object): isGone(object) ? .null : value
                case .orderedObjects(let objects): .orderedObjects(objects.filter { !isGone($0) })
                case .objects(let objects): .objects(objects.filter { !isGone($0) })
                default: value
                }
            if left != value { _ = codec.store(left, of: codec.mark(at: place), at: place) }
        }
    }
}
