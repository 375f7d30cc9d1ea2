// The types that a program opens a store with, compared with each other and with the store.

/// Models that belong together.
struct EntityDeclaration: StoreModels {
    let models: [EntityModel]

    /// Throws `modelInvalid`, which names all mistakes.
    init(_ types: [any Entity.Type]) throws(StoreError) {
        models = types.map { $0.model }
        var problems = models.flatMap(\.problems)
        var names: Set<String> = []
        for model in models where !names.insert(model.name).inserted {
            problems.append(
                "Two entities are named “\(model.name)”: give one of them another name, `Schema<…>(\"Name\")`.")
        }
        for model in models { problems += self.problems(of: model) }
        guard problems.isEmpty else { throw EntityModel.invalid(problems) }
    }

    /// The searchable properties of the types that have some.
    var searches: [SearchDeclaration] {
        models.compactMap { model in
            let searched = model.properties.compactMap { property in
                property.searchWeight.map { weight in
                    SearchDeclaration.Text(
                        name: property.name, weight: weight, keepsPositions: property.keepsPositions)
                }
            }
            return searched.isEmpty ? nil : SearchDeclaration(entity: model.name, attributes: searched)
        }
    }

    private func model(of type: any Entity.Type) -> EntityModel? { models.first { $0.type == type } }

    private func problems(of model: EntityModel) -> [String] {
        var problems: [String] = []
        for property in model.properties {
            let title = "“\(property.name)” of “\(model.name)”"
            guard let target = property.codec.target else { continue }
            guard let other = self.model(of: target) else {
                problems.append("\(title) refers to \(target), which is not in `entities:`: add it there.")
                continue
            }
            guard let inverse = property.inverse else { continue }
            guard let side = other.otherSides.first(where: { $0.offset == inverse.offset }) else {
                problems.append(
                    "The inverse of \(title) is not a stored property of \(target): make it a stored property.")
                continue
            }
            if side.isOne, !property.isUnique {
                problems.append(
                    "\(title) has the inverse “\(side.name)”, which is one object, but several objects may refer to "
                        + "the same object: add the option .unique, or make “\(side.name)” a ToMany.")
            }
        }
        // If another side is wrong, that has its own message already.
        if model.problems.isEmpty { problems += model.problemsOfDerived() }
        for side in model.otherSides {
            let relationships = relationships(to: side, of: model)
            let title = "“\(side.name)” of “\(model.name)”"
            if self.model(of: side.target) == nil {
                problems.append("\(title) reads \(side.target), which is not in `entities:`: add it there.")
            } else if relationships.isEmpty {
                problems.append(
                    "\(title) is not the other side of any relationship: write Relationship(\\.…, inverse: "
                        + "\\.\(side.name)) in the schema of \(side.target).")
            } else if relationships.count > 1 {
                problems.append(
                    "\(title) is the other side of \(relationships.map { "“\($0)”" }.joined(separator: " and ")): give "
                        + "each of them a property of its own.")
            }
        }
        return problems
    }

    /// The names of the properties that have a property as their other side.
    private func relationships(to side: EntityModel.OtherSide, of model: EntityModel) -> [String] {
        (self.model(of: side.target)?.properties ?? []).compactMap { property in
            guard let inverse = property.inverse, inverse.target == model.type, inverse.offset == side.offset else {
                return nil
            }
            return property.name
        }
    }

    // MARK: The store

    /// The changes that make a store's schema hold everything that is declared. Nothing is removed.
    ///
    /// `exchanged` are the keys of the rings of names that the store has noted.
    ///
    /// Throws `schemaMismatch` if the store contradicts the declaration, unless this is an older version of the
    /// program.
    func additions(
        to catalog: SchemaCatalog, isOlder: Bool, exchanged: Set<String>
    ) throws(StoreError) -> [SchemaChange] {
        var changes: [SchemaChange] = []
        for model in models {
            guard let number = catalog.number(ofEntity: model.name),
                let definition = catalog.entity(number, version: catalog.newestVersion)
            else {
                changes.append(.addEntity(model.description))
                continue
            }
            let former = { (name: String) in
                catalog.attribute(formerly: name, of: number).flatMap { attribute in
                    definition.attributes.first { $0.number == attribute }?.name.text
                }
            }
            var renames = DeclaredRenames(model, present: definition.attributes.map(\.name.text)) { (name, other) in
                catalog.wasAttribute(name, ofEntity: number, everNamed: other)
            }
            renames.leaveOut(exchanged)
            let present = try EntityDescription(definition, catalog)
            try add(model, to: present, renamedBy: renames, isOlder, former, &changes)
        }
        return changes
    }

    private func add(
        _ model: EntityModel, to present: EntityDescription, renamedBy renames: DeclaredRenames, _ isOlder: Bool,
        _ former: (String) -> String?, _ changes: inout [SchemaChange]
    ) throws(StoreError) {
        var present = present
        for rename in renames.renames { changes.append(.renameAttribute(rename.from, of: model.name, to: rename.to)) }
        for place in present.attributes.indices {
            present.attributes[place].name = renames.newName(of: present.attributes[place].name)
        }
        present.keys = present.keys.map { key in
            IndexDescription(key.attributes.map { renames.newName(of: $0) }, isUnique: key.isUnique)
        }
        // The names of properties in the store.
        var names: [String: String] = [:]
        for property in model.properties {
            var declared = property.description(isNew: false)
            // The attribute may have the property's former name.
            let presentName = former(property.name).flatMap { name in
                model.property(named: name) == nil ? name : nil
            }
            guard let there = present[property.name] ?? presentName.flatMap({ present[$0] }) else {
                changes.append(.addAttribute(property.description(isNew: true, sampling: true), to: model.name))
                continue
            }
            // A property that is optional in the program has no value in some objects.
            if declared.isOptional, !there.isOptional, !property.isRequired {
                changes.append(.changeAttribute(there.name, of: model.name, isOptional: true))
            }
            declared.isOptional = there.isOptional
            declared.name = there.name
            names[property.name] = there.name
            if isOlder { continue }
            try requireSameUniqueness(property, there, of: model.name)
            if let change = try SchemaPlan.addition(of: declared, to: there, of: model.name) { changes.append(change) }
        }
        if isOlder { return }
        let keys = model.keys.map { key in
            IndexDescription(key.attributes.map { names[$0] ?? $0 }, isUnique: key.isUnique)
        }
        try requireSameKeys(keys, of: model, present, known: Set(model.properties.map { names[$0.name] ?? $0.name }))
        changes += SchemaPlan.additions(of: keys, to: present.keys, of: model.name)
    }
}

// MARK: Uniqueness

extension EntityDeclaration {
    /// A different uniqueness is no addition: it changes which saves fail.
    private func requireSameUniqueness(
        _ property: EntityModel.Property, _ there: AttributeDescription, of entity: String
    ) throws(StoreError) {
        guard property.isUnique != there.isUnique else { return }
        throw SchemaPlan.mismatch(
            there, of: entity, there.isUnique ? "is unique" : "is not unique",
            property.isUnique ? "it as unique" : "it without .unique",
            "declare the stored one, or write a migration with .redeclare(\"\(there.name)\", of: \"\(entity)\").")
    }

    /// The same for keys whose properties are not new.
    private func requireSameKeys(
        _ keys: [IndexDescription], of model: EntityModel, _ present: EntityDescription, known: Set<String>
    ) throws(StoreError) {
        for key in keys where key.isUnique && key.attributes.allSatisfy({ present[$0] != nil }) {
            guard !present.keys.contains(where: { $0.attributes == key.attributes && $0.isUnique }) else { continue }
            throw mismatch(key, of: model.name, isThere: false)
        }
        for key in present.keys where key.isUnique && key.attributes.count > 1 {
            let isKnown = key.attributes.allSatisfy { name in known.contains { isSameName($0, name) } }
            if isKnown, !keys.contains(where: { $0.attributes == key.attributes && $0.isUnique }) {
                throw mismatch(key, of: model.name, isThere: true)
            }
        }
    }

    private func mismatch(_ key: IndexDescription, of entity: String, isThere: Bool) -> StoreError {
        let names = key.attributes.map { "“\($0)”" }.joined(separator: ", ")
        let list = key.attributes.map { "\"\($0)\"" }.joined(separator: ", ")
        let change = "Key(IndexDescription([\(list)], isUnique: true), \(isThere ? "from" : "to"): \"\(entity)\"))."
        return StoreError(
            .schemaMismatch,
            "“\(entity)” has \(isThere ? "a" : "no") unique key on \(names) in the store, but the program declares "
                + "\(isThere ? "none" : "one"): declare the keys of the store, or write a migration with "
                + ".change(.\(isThere ? "remove" : "add")" + change, ObjectFacts(entity, key.attributes))
    }
}

/// Names that mean something else.
package enum ReservedNames {
    /// The public members of every object beside its properties. A property of the same name could not be reached
    /// through an object or in a predicate. Members that come later belong to `ObjectStatus`.
    package static let ofObjects: Set<String> = ["objectReference", "objectStatus", "objectUpdate"]

    /// The owner of a member with that name, as a part of a sentence; nil if a property may have it.
    package static func owner(of name: String) -> String? {
        if ofObjects.contains(name) { return "every object" }
        // The compiler then takes the schema of entities that declare none, without a warning.
        return name == "schema" ? "the entity's type" : nil
    }
}

extension EntityModel {
    /// The entity as a new one in a store.
    var description: EntityDescription {
        EntityDescription(
            name, attributes: properties.map { $0.description(isNew: true) }, keys: keys, history: history)
    }
}

extension EntityModel.Property {
    /// The attribute in a store.
    ///
    /// - Parameters:
    ///   - isNew: Whether to name the property's initial value as the default, for objects that other programs insert.
    ///   - sampling: The same for an initial value that is different each time.
    func description(isNew: Bool, sampling: Bool = false) -> AttributeDescription {
        var value = defaultValue
        if isNew, value == nil, !initial.isNull, isInitialStable || sampling { value = initial }
        return AttributeDescription(
            name, codec.attributeType, isOptional: codec.isOptional && !isRequired, isIndexed: isIndexed,
            isUnique: isUnique, isPreservedOnDeletion: isPreserved, defaultValue: value,
            target: codec.target.map { $0.model.name }, inverse: inverse?.name, whenTargetIsDeleted: deleteRule)
    }
}

extension Store {
    /// The types that it was opened with.
    var declaredModels: [EntityModel] { (extensions.models as? EntityDeclaration)?.models ?? [] }

    /// Opens a store for the entities of a program. Creates a missing one if `options.createsIfMissing` is true.
    ///
    /// Entities, attributes, indexes and keys that the store lacks are added in one transaction. Nothing is removed,
    /// and parts that the program does not know are kept. An attribute that the store requires and that is optional in
    /// the program becomes optional.
    ///
    /// - Parameters:
    ///   - path: The file. Its directory must exist.
    ///   - entities: The types, with all types that they refer to.
    ///   - options: See `Options`.
    ///
    /// Throws `StoreError`: `modelInvalid`, which names all mistakes in the types; `schemaMismatch` if the store has a
    /// different thing under the same name; and as the initializer that takes descriptions.
    public convenience init(
        at path: String, entities: [any Entity.Type], options: Options = Options()
    ) throws {
        try self.init(at: path, entities: entities, migrations: [], options: options)
    }
}
