// F25 as far as one definition can show it: limits, names, numbers, flags, defaults.

extension EntityDefinition {
    /// Throws an error of code `damaged` if the definition breaks a rule by itself; `SchemaCatalog` checks the rules
    /// that concern earlier versions. A writer checks before it writes, and uses an error code of its own.
    package func validate() throws(StoreError) {
        try require(number != 0, "An entity has the number 0.")
        if state == .removed {
            try require(
                name.text.isEmpty && attributes.isEmpty && keys.isEmpty && !keepsNoHistory,
                "The definition of a removed entity has a name, flags, attributes or keys.")
            return
        }
        try name.validate()
        try require(attributes.count <= FormatLimits.maximumAttributes, "An entity has more than 1000 attributes.")
        try require(keys.count <= Int(UInt16.max), "An entity has more than 65535 keys.")
        for attribute in attributes { try attribute.validate() }
        let numbers = attributes.map(\.number).inOrder()
        try require(!numbers.hasNeighbours, "Two attributes of an entity have the same number.")
        try require(!attributes.map(\.name.text).hasDuplicates, "Two attributes of an entity have the same name.")
        for key in keys { try key.validate(numbers) }
    }
}

extension AttributeDefinition {
    func validate() throws(StoreError) {
        try require(number != 0, "An attribute has the number 0.")
        try require(flags.isSubset(of: .known), "An attribute has unknown flags.")
        try name.validate()
        if !type.isReference {
            try require(
                target == 0 && inverse == nil && deleteRule == .noAction,
                "An attribute that does not refer to objects has a target, an inverse or a delete rule.")
        }
        try require(target != 0 || inverse == nil, "An attribute has an inverse but no target.")
        try inverse?.validate()
        if let defaultValue {
            try require(
                type.accepts(defaultValue),
                "A default value does not have the attribute's type.")
        }
    }
}

extension AttributeType {
    /// Whether these bytes are the content of a slot, or a variable value, in the only form of this type.
    package func accepts(_ content: [UInt8]) -> Bool {
        if isVariable && content.count > FormatLimits.maximumInlineValueBytes { return false }
        if !isVariable && content.count != slotBytes { return false }
        return content.withUnsafeBytes { StoredForm.isCanonical($0, self) }
    }
}

extension KeyDefinition {
    /// `numbers` are those of the entity's attributes, in ascending order.
    func validate(_ numbers: [UInt16]) throws(StoreError) {
        try require(!attributes.isEmpty, "A key has no attributes.")
        try require(attributes.count <= numbers.count, "A key contains an attribute twice.")
        try require(!attributes.inOrder().hasNeighbours, "A key contains an attribute twice.")
        try require(
            attributes.allSatisfy(numbers.hasSorted),
            "A key contains an attribute that the entity does not have.")
    }
}

extension IdentifierName {
    func validate() throws(StoreError) {
        let bytes = text.utf8.count
        try require(
            bytes >= 1 && bytes <= FormatLimits.maximumIdentifierBytes,
            "The name of an entity or attribute is empty or longer than 255 bytes.")
    }
}

@inline(__always)
func require(_ condition: Bool, _ message: @autoclosure () -> String) throws(StoreError) {
    guard condition else { throw StoreError(.damaged, message()) }
}
