// Former names: other stores may still use them for things with a new name here.

extension SchemaCatalog {
    /// The entity that had that name before, if it still exists and no other entity has the name now. If there were
    /// several, the last one.
    func number(ofEntityFormerlyNamed name: String) -> UInt16? {
        guard number(ofEntity: name) == nil else { return nil }
        let name = IdentifierName(name)
        for version in stride(from: newestVersion, to: 0, by: -1) {
            let found = entityNumbers.first { number in
                entity(number, version: version)?.name == name && entity(number, version: newestVersion) != nil
            }
            if let found { return found }
        }
        return nil
    }

    /// The same for an attribute of an entity.
    func number(ofAttributeFormerlyNamed name: String, entity number: UInt16) -> UInt16? {
        guard let present = entity(number, version: newestVersion)?.attributes else { return nil }
        let name = IdentifierName(name)
        guard !present.contains(where: { $0.name == name }) else { return nil }
        for version in stride(from: newestVersion, to: 0, by: -1) {
            let found = entity(number, version: version)?.attributes.first { attribute in
                attribute.name == name && present.contains { $0.number == attribute.number }
            }
            if let found { return found.number }
        }
        return nil
    }
}

/// Former names that were looked up. Each lookup goes through all schema versions once.
struct NamesBefore {
    private struct Attribute: Hashable {
        var entity: UInt16
        var name: IdentifierName
    }

    private let catalog: SchemaCatalog
    private var entities: [IdentifierName: UInt16?] = [:]
    private var attributes: [Attribute: UInt16?] = [:]

    init(_ catalog: SchemaCatalog) { self.catalog = catalog }

    mutating func entity(_ name: String) -> UInt16? {
        if let known = entities[IdentifierName(name)] { return known }
        let found = catalog.number(ofEntityFormerlyNamed: name)
        entities[IdentifierName(name)] = .some(found)
        return found
    }

    mutating func attribute(_ name: IdentifierName, of entity: UInt16) -> UInt16? {
        let key = Attribute(entity: entity, name: name)
        if let known = attributes[key] { return known }
        let found = catalog.number(ofAttributeFormerlyNamed: name.text, entity: entity)
        attributes[key] = .some(found)
        return found
    }

    // MARK: A schema

    /// The entities with the names that they have here, unless something else in them has these names.
    static func renamed(_ schema: [EntityDescription], _ catalog: SchemaCatalog) -> [EntityDescription] {
        var schema = schema
        let names = Set(schema.map { IdentifierName($0.name) })
        var present: [IdentifierName: String] = [:]
        for index in schema.indices {
            let name = IdentifierName(schema[index].name)
            guard let number = catalog.number(ofEntityFormerlyNamed: name.text),
                let here = catalog.entity(number, version: catalog.newestVersion)?.name, !names.contains(here)
            else { continue }
            schema[index].name = here.text
            present[name] = here.text
        }
        for index in schema.indices {
            rename(&schema[index], catalog)
            for place in schema[index].attributes.indices {
                guard let target = schema[index].attributes[place].target else { continue }
                schema[index].attributes[place].target = present[IdentifierName(target)] ?? target
            }
        }
        return schema
    }

    /// Renames the entity's attributes.
    private static func rename(_ entity: inout EntityDescription, _ catalog: SchemaCatalog) {
        guard let number = catalog.number(ofEntity: entity.name),
            let here = catalog.entity(number, version: catalog.newestVersion)
        else { return }
        let names = Set(entity.attributes.map { IdentifierName($0.name) })
        var present: [IdentifierName: String] = [:]
        for place in entity.attributes.indices {
            let name = IdentifierName(entity.attributes[place].name)
            guard let attribute = catalog.number(ofAttributeFormerlyNamed: name.text, entity: number),
                let other = here.attributes.first(where: { $0.number == attribute })?.name, !names.contains(other)
            else { continue }
            entity.attributes[place].name = other.text
            present[name] = other.text
        }
        for key in entity.keys.indices {
            let attributes = entity.keys[key].attributes.map { present[IdentifierName($0)] ?? $0 }
            entity.keys[key] = IndexDescription(attributes, isUnique: entity.keys[key].isUnique)
        }
    }
}

/// The present names for all former names of a catalog, to translate many.
package struct PresentNames: Hashable, Sendable {
    /// The present names of entities by their former ones.
    private var entities: [IdentifierName: IdentifierName] = [:]
    /// By the present name of their entity, the same for attributes.
    private var attributes: [IdentifierName: [IdentifierName: IdentifierName]] = [:]

    package init() {}

    init(_ catalog: SchemaCatalog) {
        let newest = catalog.newestVersion
        for present in catalog.entities(version: newest) where !present.name.isReserved {
            for version in stride(from: 1, to: newest, by: 1) {
                guard let before = catalog.entity(present.number, version: version) else { continue }
                if before.name != present.name,
                    catalog.number(ofEntityFormerlyNamed: before.name.text) == present.number
                {
                    entities[before.name] = present.name
                }
                for attribute in before.attributes {
                    guard let now = present.attributes.first(where: { $0.number == attribute.number }),
                        now.name != attribute.name,
                        catalog.number(ofAttributeFormerlyNamed: attribute.name.text, entity: present.number)
                            == attribute.number
                    else { continue }
                    attributes[present.name, default: [:]][attribute.name] = now.name
                }
            }
        }
    }

    package var isEmpty: Bool { entities.isEmpty && attributes.isEmpty }

    /// The present name of an entity.
    package func entity(_ name: String) -> String { entities[IdentifierName(name)]?.text ?? name }

    /// The present name of an attribute.
    ///
    /// - Parameter entity: Its present name.
    package func attribute(_ name: String, of entity: String) -> String {
        attributes[IdentifierName(entity)]?[IdentifierName(name)]?.text ?? name
    }
}
