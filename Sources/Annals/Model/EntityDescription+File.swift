// Descriptions built from the file's definitions.

extension EntityDescription {
    /// The description of a definition. Names of other entities are those of the catalog's newest version. Throws
    /// `valueOutOfRange` for a default value that has no public form.
    init(_ definition: EntityDefinition, _ catalog: SchemaCatalog) throws(StoreError) {
        var names: [UInt16: String] = [:]
        var attributes: [AttributeDescription] = []
        for attribute in definition.attributes {
            names[attribute.number] = attribute.name.text
            attributes.append(try AttributeDescription(attribute, catalog))
        }
        let keys = definition.keys.map { key in
            IndexDescription(key.attributes.compactMap { names[$0] }, isUnique: key.isUnique)
        }
        self.init(
            definition.name.text, attributes: attributes, keys: keys,
            history: definition.keepsNoHistory ? .off : .full)
    }
}

extension EntityDefinition {
    /// The position of the attribute with this name; nil without one.
    func position(of name: String) -> Int? { attributes.firstIndex { isSameName($0.name.text, name) } }
}

extension AttributeDescription {
    init(_ definition: AttributeDefinition, _ catalog: SchemaCatalog) throws(StoreError) {
        self.init(
            definition.name.text, definition.type, isOptional: definition.isOptional,
            isIndexed: definition.flags.contains(.indexed), isUnique: definition.flags.contains(.unique),
            isPreservedOnDeletion: definition.flags.contains(.preservedOnDeletion),
            whenTargetIsDeleted: definition.deleteRule)
        if definition.defaultValue != nil { defaultValue = try Value(definition.valueBeforeItExisted) }
        guard let target = catalog.entity(definition.target, version: catalog.newestVersion) else { return }
        self.target = target.name.text
        inverse = definition.inverse?.text
    }
}
