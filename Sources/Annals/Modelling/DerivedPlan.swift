// The attributes that declared types derive from other sides, in the numbers and positions of one schema version.

/// The rules of all declared types in one schema.
struct DerivedPlan: Sendable {
    /// A relationship whose other side counts.
    struct Side: Sendable {
        /// The entity whose objects refer, the attribute that refers, and its position.
        let member: UInt16
        let attribute: UInt16
        let position: Int
        /// The summed attributes of `member`: their numbers and positions.
        var summed: [(attribute: UInt16, position: Int)] = []
    }

    /// A derived attribute.
    struct Derived: Sendable {
        let property: EntityModel.Property
        let attribute: UInt16
        let position: Int
        let side: Int
        /// Which of the sums of the side; nil for the number of objects.
        let sum: Int?
    }

    struct Owner: Sendable {
        let name: String
        var derived: [Derived] = []
        var limits: [(side: Int, limit: SideLimit)] = []
    }

    private(set) var sides: [Side] = []
    private(set) var owners: [UInt16: Owner] = [:]
    /// By the entity whose objects refer, where in `sides`.
    private(set) var sidesOfMembers: [UInt16: [Int]] = [:]
    /// By entity, the position of the time of the last change.
    private(set) var lastChanges: [UInt16: Int] = [:]
    /// The same attribute, by its number.
    private var timeOfLastChange: [UInt16: UInt16] = [:]
    /// By entity, the attributes of all properties that are derived from anything.
    private(set) var attributes: [UInt16: Set<UInt16>] = [:]
    /// By entity, the models with properties that are derived from the object's other ones.
    private(set) var ofOwnProperties: [UInt16: EntityModel] = [:]
    /// By entity, the numbers in the schema of unique indexes over attributes that are computed again.
    private(set) var keys: [UInt16: [Int]] = [:]

    /// Omits entities and attributes that the schema does not have yet.
    init(_ models: [EntityModel], _ draft: Draft) {
        for model in models where model.needsUpkeep || model.rules.derivesAnything {
            guard let number = draft.catalog.number(ofEntity: model.name), let layout = draft.newestLayout(number)
            else { continue }
            attributes[number] = Set(
                model.properties.filter(\.isDerived).compactMap { property in
                    layout.position(ofProperty: property.name, draft.catalog).map {
                        layout.entity.attributes[$0].number
                    }
                })
            if model.rules.derivesAnything { ofOwnProperties[number] = model }
            lastChanges[number] = model.lastChange.flatMap { layout.position(ofProperty: $0, draft.catalog) }
            timeOfLastChange[number] = lastChanges[number].map { layout.entity.attributes[$0].number }
            var owner = Owner(name: model.name)
            for rule in model.derived { add(rule, of: model, layout, draft, to: &owner) }
            for limit in model.limits {
                guard let side = side(at: limit.side, of: model, draft) else { continue }
                owner.limits.append((side, limit))
            }
            if !owner.derived.isEmpty || !owner.limits.isEmpty { owners[number] = owner }
            let shape = draft.shape
            keys[number] = shape.indexes(of: number).filter { index in
                let id = shape.indexes[index].id
                return id.isUnique && id.attributes.contains { isWorkedOut($0, of: number) }
            }
        }
    }

    /// Whether an attribute is computed again after a revert and a transaction of another store, even if it was
    /// written.
    func isWorkedOut(_ attribute: UInt16, of entity: UInt16) -> Bool {
        attributes[entity]?.contains(attribute) == true && attribute != timeOfLastChange[entity]
    }

    private mutating func add(
        _ rule: DerivedRule, of model: EntityModel, _ layout: RowLayout, _ draft: Draft,
        to owner: inout Owner
    ) {
        guard let property = model.properties.first(where: { $0.name == rule.attribute }),
            let position = layout.position(ofProperty: rule.attribute, draft.catalog),
            let side = side(at: rule.side, of: model, draft)
        else { return }
        var sum: Int?
        if case .sum(_, let offset, _, let target) = rule.kind {
            guard let summed = target.model.property(at: offset), let layout = draft.newestLayout(sides[side].member),
                let place = layout.position(ofProperty: summed.name, draft.catalog)
            else { return }
            sum = sides[side].summed.count
            sides[side].summed.append((layout.entity.attributes[place].number, place))
        }
        owner.derived.append(
            Derived(
                property: property, attribute: layout.entity.attributes[position].number, position: position,
                side: side, sum: sum))
    }

    /// The index in `sides` of the other side at an offset in values of the model.
    private mutating func side(at offset: Int?, of model: EntityModel, _ draft: Draft) -> Int? {
        guard let (target, name) = try? model.relationship(otherSideAt: offset),
            let member = draft.catalog.number(ofEntity: target.name), let layout = draft.newestLayout(member),
            let position = layout.position(ofProperty: name, draft.catalog)
        else { return nil }
        let attribute = layout.entity.attributes[position].number
        if let known = sides.firstIndex(where: { $0.member == member && $0.attribute == attribute }) { return known }
        sides.append(Side(member: member, attribute: attribute, position: position))
        sidesOfMembers[member, default: []].append(sides.count - 1)
        return sides.count - 1
    }
}
