// From schema changes to the definitions that a store writes. Pure functions, so a table can test every refusal.
//
// Invariants:
// SP1  A number that the catalog ever used for an entity, or for an attribute of that entity, is not used for another.
// SP2  The returned definitions are exactly those that differ from the newest version's, by ascending number.
// SP3  While changes are applied, two entities or two attributes may have one name. Then a name means the one that no
//      change has renamed, so that names can be exchanged. In the end all are different.

/// The newest schema version of a catalog, while it is being changed.
package struct SchemaPlan {
    private let catalog: SchemaCatalog
    /// Whether the store's own entities may be added.
    private let addsReserved: Bool
    private var entities: [EntityDefinition]
    private var removed: Set<UInt16> = []
    /// References by name. They are resolved after all changes, because they may name additions.
    private var references: [Reference] = []
    /// Attribute numbers that this plan has used.
    private var lastNumbers: [UInt16: UInt16] = [:]
    /// The entities that this plan has renamed.
    private var renamedEntities: Set<UInt16> = []
    private var renamedAttributes: Set<AttributePlace> = []
    /// By reference: the attribute whose new name its inverse has.
    private var followedInverses: [AttributePlace: AttributePlace] = [:]

    private struct AttributePlace: Hashable {
        var entity: UInt16
        var attribute: UInt16
    }

    private struct Reference {
        var entity: UInt16
        var attribute: UInt16
        var target: String
    }

    init(_ catalog: SchemaCatalog, addsReserved: Bool = false) {
        self.catalog = catalog
        self.addsReserved = addsReserved
        entities = catalog.entities(version: catalog.newestVersion)
    }

    /// Returns the definitions of the next version (SP2); empty if nothing differs. Throws `schemaRefused`,
    /// `unknownEntity`, `unknownAttribute`.
    package static func definitions(
        for changes: [SchemaChange], catalog: SchemaCatalog, addsReserved: Bool = false
    ) throws(StoreError) -> [EntityDefinition] {
        var plan = SchemaPlan(catalog, addsReserved: addsReserved)
        for change in changes { try plan.apply(change) }
        return try plan.definitions()
    }

    /// The numbers of an attribute after changes, which need not make a whole schema yet.
    static func numbers(
        ofAttribute name: String, of entity: String, after changes: [SchemaChange], _ catalog: SchemaCatalog
    ) throws(StoreError) -> (entity: UInt16, attribute: UInt16) {
        var plan = SchemaPlan(catalog, addsReserved: true)
        for change in changes { try plan.apply(change) }
        let index = try plan.index(of: entity)
        let definition = plan.entities[index]
        return (definition.number, definition.attributes[try plan.position(of: name, in: index)].number)
    }

    private mutating func definitions() throws(StoreError) -> [EntityDefinition] {
        try requireDifferentNames()
        try settleReferences()
        var changed = removed.filter { catalog.isUsed(entity: $0) }.map { EntityDefinition.removal(of: $0) }
        for entity in entities where catalog.entity(entity.number, version: catalog.newestVersion) != entity {
            changed.append(entity)
        }
        changed.putInOrder { $0.number < $1.number }
        guard !changed.isEmpty else { return [] }
        do throws(StoreError) {
            try catalog.validate(SchemaDefinition(version: catalog.newestVersion &+ 1, entities: changed))
        } catch {
            throw StoreError(.schemaRefused, error.message + " Correct the description.")
        }
        return changed
    }

    // MARK: One change

    private mutating func apply(_ change: SchemaChange) throws(StoreError) {
        switch change {
        case .addEntity(let description): try add(description)
        case .removeEntity(let name): try removeEntity(name)
        case .renameEntity(let name, let newName):
            let index = try index(of: name)
            try requirePossible(newName)
            entities[index].name = IdentifierName(newName)
            renamedEntities.insert(entities[index].number)
        case .changeEntity(let name, let history): entities[try index(of: name)].keepsNoHistory = history == .off
        case .addAttribute(let attribute, let name):
            let index = try index(of: name)
            try add(attribute, at: entities[index].attributes.count, to: index)
        case .removeAttribute(let attribute, let name): _ = try remove(attribute, from: try index(of: name))
        case .renameAttribute(let attribute, let name, let newName):
            let index = try index(of: name)
            let position = try position(of: attribute, in: index)
            try requireUsable(newName)
            let oldName = entities[index].attributes[position].name
            entities[index].attributes[position].name = IdentifierName(newName)
            let place = AttributePlace(
                entity: entities[index].number, attribute: entities[index].attributes[position].number)
            renamedAttributes.insert(place)
            renameInverses(oldName, of: index, to: IdentifierName(newName), following: place)
        case .replaceAttribute(let attribute, let name, let replacement):
            let index = try index(of: name)
            let position = try remove(attribute, from: index)
            try add(replacement, at: position, to: index)
        case .changeAttribute(
            let attribute, let name, let optional, let indexed, let unique, let preserved, let inverse, let rule):
            let index = try index(of: name)
            let position = try position(of: attribute, in: index)
            try changeReference(inverse, rule, of: position, in: index)
            var flags = entities[index].attributes[position].flags
            if optional == false && flags.contains(.optional) {
                throw StoreError(
                    .schemaRefused,
                    "“\(attribute)” of “\(name)” may be null in existing objects: add a required attribute with a "
                        + "default, carry the values over, and remove this one.")
            }
            flags.set(.optional, optional)
            flags.set(.indexed, indexed)
            flags.set(.unique, unique)
            flags.set(.preservedOnDeletion, preserved)
            entities[index].attributes[position].flags = flags
        case .addKey(let key, let name): try add(key, to: try index(of: name))
        case .removeKey(let key, let name): try remove(key, from: try index(of: name))
        }
    }

    // MARK: Entities

    private mutating func add(_ description: EntityDescription) throws(StoreError) {
        try requireFreeEntity(description.name)
        var highest: UInt16 = entities.map(\.number).max() ?? 0
        highest = max(highest, removed.max() ?? 0)
        var number = Int(highest) + 1
        while number <= FormatLimits.maximumEntities, isUsedAbove(number) { number += 1 }
        guard number <= FormatLimits.maximumEntities else {
            throw StoreError(.schemaRefused, "All 65,535 numbers of entities are used: begin a new store.")
        }
        entities.append(
            EntityDefinition(
                number: UInt16(number), keepsNoHistory: description.history == .off, name: description.name,
                attributes: []))
        let index = entities.count - 1
        for attribute in description.attributes {
            try add(attribute, at: entities[index].attributes.count, to: index)
        }
        for key in description.keys { try add(key, to: index) }
    }

    /// Whether that number, or a higher one, was ever used for an entity.
    private func isUsedAbove(_ number: Int) -> Bool {
        guard number <= FormatLimits.maximumEntities else { return false }
        return catalog.isUsed(entity: UInt16(number))
    }

    private mutating func removeEntity(_ name: String) throws(StoreError) {
        let index = try index(of: name)
        let number = entities[index].number
        for entity in entities where entity.number != number {
            guard let attribute = entity.attributes.first(where: { $0.target == number }) else { continue }
            throw StoreError(
                .schemaRefused,
                "“\(attribute.name)” of “\(entity.name)” refers to “\(name)”: remove that attribute first.")
        }
        removed.insert(number)
        references.removeAll { $0.entity == number }
        entities.remove(at: index)
    }

    private func index(of name: String) throws(StoreError) -> Int {
        let named = entities.indices.filter { entities[$0].name == IdentifierName(name) }
        guard let index = named.first(where: { !renamedEntities.contains(entities[$0].number) }) ?? named.first,
            addsReserved || !entities[index].name.isReserved
        else { throw StoreError.unknownEntity(name) }
        return index
    }

    private func requireFreeEntity(_ name: String) throws(StoreError) {
        try requirePossible(name)
        guard entities.contains(where: { $0.name == IdentifierName(name) }) else { return }
        throw Self.entityExists(name)
    }

    private static func entityExists(_ name: String) -> StoreError {
        StoreError(.schemaRefused, "The entity “\(name)” exists already: choose another name.")
    }

    private func requirePossible(_ name: String) throws(StoreError) {
        try requireUsable(name)
        if !addsReserved { try Self.requireOpen(name) }
    }

    /// SP3.
    private func requireDifferentNames() throws(StoreError) {
        var names: Set<IdentifierName> = []
        for entity in entities {
            guard names.insert(entity.name).inserted else { throw Self.entityExists(entity.name.text) }
            guard renamedAttributes.contains(where: { $0.entity == entity.number }) else { continue }
            var known: Set<IdentifierName> = []
            for attribute in entity.attributes where !known.insert(attribute.name).inserted {
                throw Self.attributeExists(attribute.name.text, of: entity)
            }
        }
    }

    private static func attributeExists(_ name: String, of entity: EntityDefinition) -> StoreError {
        StoreError(.schemaRefused, "“\(entity.name)” already has an attribute “\(name)”: choose another name.")
    }

    /// Throws `schemaRefused` if a name is the store's own.
    static func requireOpen(_ entity: String) throws(StoreError) {
        guard IdentifierName(entity).isReserved else { return }
        throw StoreError(
            .schemaRefused,
            "“\(entity)” begins with “\(EntityDefinition.reservedPrefix)”, which is reserved for the store's own "
                + "entities: choose another name.")
    }

    private func requireUsable(_ name: String) throws(StoreError) {
        guard (1...FormatLimits.maximumIdentifierBytes).contains(name.utf8.count) else {
            throw StoreError(
                .schemaRefused,
                "The name of an entity or attribute must have 1 to 255 bytes: choose another name.")
        }
    }

    // MARK: Attributes

    private mutating func add(_ attribute: AttributeDescription, at position: Int, to index: Int) throws(StoreError) {
        let entity = entities[index]
        // Checked first: the rest takes time for each existing attribute.
        guard entity.attributes.count < FormatLimits.maximumAttributes else {
            throw StoreError(
                .schemaRefused,
                "An entity may have at most \(FormatLimits.maximumAttributes) attributes, and “\(entity.name)” would "
                    + "have more: split it into two entities."
            )
        }
        try requireFreeAttribute(attribute.name, in: index)
        guard attribute.isOptional || attribute.defaultValue != nil || !catalog.isUsed(entity: entity.number) else {
            throw StoreError(
                .schemaRefused,
                "“\(attribute.name)” of “\(entity.name)” is required, but existing objects have no value for it: "
                    + "give it a default, or make it optional.")
        }
        guard attribute.type.isReference || (attribute.target == nil && attribute.whenTargetIsDeleted == .noAction)
        else {
            throw StoreError(
                .schemaRefused,
                "“\(attribute.name)” of “\(entity.name)” does not refer to objects, but has a target or a delete rule: "
                    + "remove the target and the rule, or give it a type that refers to objects.")
        }
        guard attribute.inverse == nil || attribute.target != nil else {
            throw StoreError(
                .schemaRefused,
                "“\(attribute.name)” of “\(entity.name)” has an inverse but no target: name the target.")
        }
        if let inverse = attribute.inverse { try requireUsable(inverse) }
        let number = try nextAttributeNumber(in: index)
        let definition = AttributeDefinition(
            number: number, type: attribute.type, flags: AttributeFlags(attribute), inverse: attribute.inverse,
            deleteRule: attribute.whenTargetIsDeleted, name: attribute.name,
            defaultValue: try Self.defaultBytes(attribute, of: entity))
        entities[index].attributes.insert(definition, at: position)
        guard let target = attribute.target else { return }
        references.append(Reference(entity: entity.number, attribute: number, target: target))
    }

    /// A number that the entity never used: SP1.
    private mutating func nextAttributeNumber(in index: Int) throws(StoreError) -> UInt16 {
        let entity = entities[index]
        var number = Int(lastNumbers[entity.number] ?? 0) + 1
        number = max(number, Int(entity.attributes.map(\.number).max() ?? 0) + 1)
        while number <= Int(UInt16.max), catalog.isUsed(attribute: UInt16(number), entity: entity.number) {
            number += 1
        }
        guard let next = UInt16(exactly: number) else {
            throw StoreError(
                .schemaRefused, "All 65,535 numbers of attributes of “\(entity.name)” are used: begin a new entity.")
        }
        lastNumbers[entity.number] = next
        return next
    }

    private static func defaultBytes(
        _ attribute: AttributeDescription, of entity: EntityDefinition
    ) throws(StoreError) -> [UInt8]? {
        guard let value = attribute.defaultValue, !value.isNull else { return nil }
        guard value.type == attribute.type else {
            throw StoreError(
                .typeMismatch,
                "The default of “\(attribute.name)” of “\(entity.name)” must be of the type \(attribute.type).")
        }
        var writer = ByteWriter()
        try value.storedValue().appendContent(to: &writer)
        guard writer.count <= FormatLimits.maximumInlineValueBytes else {
            throw StoreError(
                .tooLarge,
                "The default of “\(attribute.name)” of “\(entity.name)” is longer than 65,536 bytes: shorten it.")
        }
        return Array(writer.bytes)
    }

    /// Removes an attribute and returns its position.
    private mutating func remove(_ attribute: String, from index: Int) throws(StoreError) -> Int {
        let position = try position(of: attribute, in: index)
        let entity = entities[index]
        let number = entity.attributes[position].number
        if let key = entity.keys.first(where: { $0.attributes.contains(number) }) {
            let names = key.attributes.compactMap { number in entity.attributes.first { $0.number == number }?.name.text
            }
            throw StoreError(
                .schemaRefused,
                "The key on \(names.joined(separator: ", ")) of “\(entity.name)” contains “\(attribute)”: remove the "
                    + "key first."
            )
        }
        lastNumbers[entity.number] = max(lastNumbers[entity.number] ?? 0, number)
        references.removeAll { $0.entity == entity.number && $0.attribute == number }
        entities[index].attributes.remove(at: position)
        return position
    }

    private func position(of attribute: String, in index: Int) throws(StoreError) -> Int {
        let (name, entity) = (IdentifierName(attribute), entities[index])
        let named = entity.attributes.indices.filter { entity.attributes[$0].name == name }
        let isRenamed = { [renamedAttributes] (position: Int) in
            renamedAttributes.contains(
                AttributePlace(entity: entity.number, attribute: entity.attributes[position].number))
        }
        guard let position = named.first(where: { !isRenamed($0) }) ?? named.first else {
            throw StoreError.unknownAttribute(attribute, of: entity.name.text)
        }
        return position
    }

    private func requireFreeAttribute(_ name: String, in index: Int) throws(StoreError) {
        try requireUsable(name)
        guard entities[index].attributes.contains(where: { $0.name == IdentifierName(name) }) else { return }
        throw Self.attributeExists(name, of: entities[index])
    }

    // MARK: Keys and references

    private func definition(_ key: IndexDescription, in index: Int) throws(StoreError) -> KeyDefinition {
        var numbers: [UInt16] = []
        for attribute in key.attributes {
            numbers.append(entities[index].attributes[try position(of: attribute, in: index)].number)
        }
        return KeyDefinition(isUnique: key.isUnique, attributes: numbers)
    }

    private mutating func add(_ key: IndexDescription, to index: Int) throws(StoreError) {
        let definition = try definition(key, in: index)
        guard !definition.attributes.isEmpty, Set(definition.attributes).count == definition.attributes.count else {
            throw StoreError(
                .schemaRefused,
                "A key of “\(entities[index].name)” is empty or contains an attribute twice: name each attribute "
                    + "once.")
        }
        guard !entities[index].keys.contains(where: { $0.attributes == definition.attributes }) else {
            throw StoreError(
                .schemaRefused,
                "“\(entities[index].name)” already has a key on \(key.attributes.joined(separator: ", ")): remove it "
                    + "first."
            )
        }
        entities[index].keys.append(definition)
    }

    private mutating func remove(_ key: IndexDescription, from index: Int) throws(StoreError) {
        let definition = try definition(key, in: index)
        guard let place = entities[index].keys.firstIndex(where: { $0.attributes == definition.attributes }) else {
            throw StoreError(
                .schemaRefused,
                "“\(entities[index].name)” has no key on \(key.attributes.joined(separator: ", ")): check the "
                    + "attributes.")
        }
        entities[index].keys.remove(at: place)
    }

    /// Gives attributes that are the other side of a relationship their new name in its inverse.
    private mutating func renameInverses(
        _ old: IdentifierName, of target: Int, to new: IdentifierName, following renamed: AttributePlace
    ) {
        let name = entities[target].name
        for index in entities.indices {
            for position in entities[index].attributes.indices {
                let attribute = entities[index].attributes[position]
                guard attribute.inverse == old else { continue }
                let named = unsettled(attribute, of: entities[index]).map { IdentifierName($0) }
                guard named == name || attribute.target == entities[target].number else { continue }
                let place = AttributePlace(entity: entities[index].number, attribute: attribute.number)
                // Names may be exchanged: it has its name from another attribute.
                if let followed = followedInverses[place], followed != renamed { continue }
                followedInverses[place] = renamed
                entities[index].attributes[position].inverse = new
            }
        }
    }

    /// The name of an attribute's target, if it has still to be resolved.
    private func unsettled(_ attribute: AttributeDefinition, of entity: EntityDefinition) -> String? {
        references.first { $0.entity == entity.number && $0.attribute == attribute.number }?.target
    }

    private mutating func changeReference(
        _ inverse: String?, _ rule: DeleteRule?, of position: Int, in index: Int
    ) throws(StoreError) {
        guard inverse != nil || rule != nil else { return }
        let attribute = entities[index].attributes[position]
        let hasTarget = attribute.target != 0 || unsettled(attribute, of: entities[index]) != nil
        guard attribute.type.isReference, hasTarget || inverse == nil else {
            throw StoreError(
                .schemaRefused,
                "“\(attribute.name)” of “\(entities[index].name)” does not refer to objects, or refers to any entity: "
                    + "remove the inverse and the delete rule, or name a target.")
        }
        if let inverse {
            try requireUsable(inverse)
            entities[index].attributes[position].inverse = IdentifierName(inverse)
            followedInverses[AttributePlace(entity: entities[index].number, attribute: attribute.number)] = nil
        }
        if let rule { entities[index].attributes[position].deleteRule = rule }
    }

    private mutating func settleReferences() throws(StoreError) {
        for reference in references {
            let target = try index(of: reference.target)
            guard let index = entities.firstIndex(where: { $0.number == reference.entity }),
                let position = entities[index].attributes.firstIndex(where: { $0.number == reference.attribute })
            else { continue }
            entities[index].attributes[position].target = entities[target].number
        }
    }
}

extension AttributeFlags {
    fileprivate init(_ attribute: AttributeDescription) {
        self = []
        set(.optional, attribute.isOptional)
        set(.indexed, attribute.isIndexed)
        set(.unique, attribute.isUnique)
        set(.preservedOnDeletion, attribute.isPreservedOnDeletion)
    }

    fileprivate mutating func set(_ flag: AttributeFlags, _ isOn: Bool?) {
        switch isOn {
        case true?: insert(flag)
        case false?: remove(flag)
        case nil: break
        }
    }
}

extension StoreError {
    static func unknownEntity(_ name: String) -> StoreError {
        StoreError(
            .unknownEntity, "The schema has no entity “\(name)”: check the name, or add the entity.", ObjectFacts(name))
    }

    static func unknownAttribute(_ name: String, of entity: String) -> StoreError {
        StoreError(
            .unknownAttribute, "“\(entity)” has no attribute “\(name)”: check the name, or add the attribute.",
            ObjectFacts(entity, [name]))
    }
}
