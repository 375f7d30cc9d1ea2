// Presents old states in terms of the newest schema: maps attributes of an older version to those of the newest.
//
// Invariants:
// PS1  An attribute is the same in two versions if it has the same number, under any name.
// PS2  An attribute that replaced another one of the same name represents that one in the earlier versions.
// PS3  An attribute missing in a version reads as it does in an old row of the newest state: by its default.

extension SchemaCatalog {
    /// This catalog with one more version, which describes the rows of an older version in the terms of the newest:
    /// with the newest names, and with attributes and entities added since. Removed ones come last, under their old
    /// names, unless these are taken. It has no keys.
    ///
    /// The additional version is for reading only. Linear in the definitions.
    func presenting(version old: UInt16) -> SchemaCatalog {
        guard old > 0, old < newestVersion else { return self }
        let before = entities(version: old)
        let now = entities(version: newestVersion)
        var definitions: [EntityDefinition] = []
        var names = Set(now.map(\.name))
        for entity in before where self.entity(entity.number, version: newestVersion) == nil {
            if let other = now.first(where: { $0.name == entity.name }) {
                // The name now belongs to another entity, which did not exist then.
                guard self.entity(other.number, version: old) == nil else { continue }
                definitions.append(.removal(of: other.number))
            }
            names.insert(entity.name)
            definitions.append(entity)
        }
        for entity in now {
            guard let earlier = self.entity(entity.number, version: old), earlier != entity else { continue }
            definitions.append(presented(entity, earlier))
        }
        return following(definitions)
    }

    private func presented(_ now: EntityDefinition, _ before: EntityDefinition) -> EntityDefinition {
        let replaced = replacedAttributes(ofEntity: now.number)
        // PS1.
        var left = before.attributes.filter { old in !now.attributes.contains { $0.number == old.number } }
        var presented = now
        presented.keys = []
        for position in now.attributes.indices {
            let attribute = now.attributes[position]
            var number = attribute.number
            // PS2. Without such an attribute the newest definition stays, with its default: PS3.
            while let earlier = replaced[number] {
                number = earlier
                guard let place = left.firstIndex(where: { $0.number == number }) else { continue }
                presented.attributes[position] = left.remove(at: place)
                presented.attributes[position].name = attribute.name
                break
            }
        }
        for attribute in left where presented.attributes.count < FormatLimits.maximumAttributes {
            guard !presented.attributes.contains(where: { $0.name == attribute.name }) else { continue }
            presented.attributes.append(attribute)
        }
        return presented
    }

    /// Maps the number of an attribute that replaced another one in a single version to the number of that one.
    private func replacedAttributes(ofEntity number: UInt16) -> [UInt16: UInt16] {
        var replaced: [UInt16: UInt16] = [:]
        var last: EntityDefinition?
        for definition in definitions(ofEntity: number) {
            defer { last = definition }
            guard let last else { continue }
            let gone = last.attributes.filter { old in !definition.attributes.contains { $0.number == old.number } }
            if gone.isEmpty { continue }
            for attribute in definition.attributes
            where !last.attributes.contains(where: { $0.number == attribute.number }) {
                replaced[attribute.number] = gone.first { $0.name == attribute.name }?.number
            }
        }
        return replaced
    }
}
