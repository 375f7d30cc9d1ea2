// The schema as far as it was found. If versions are missing, it lists the definitions that a row may have.
//
// Invariants:
// SD1  `steps` has each definition of an entity by ascending version; one of a removed entity has no layout.
// SD2  Up to `lastWhole` every version was found.

struct SalvagedSchema {
    private struct Step {
        var version: UInt16
        var definition: EntityDefinition
        var layout: RowLayout?
    }

    private var steps: [UInt16: [Step]] = [:]
    private var versions = Set<UInt16>()
    private(set) var lastWhole: UInt16 = 0

    /// Collects a version, or a part of it. An entity's known definition in that version stays.
    mutating func collect(_ schema: SchemaDefinition) {
        guard schema.version > 0 else { return }
        versions.insert(schema.version)
        while lastWhole < .max, versions.contains(lastWhole + 1) { lastWhole += 1 }
        assert(lastWhole == 0 || versions.contains(lastWhole), "SD2: a version counts as found that was not.")
        for definition in schema.entities where (try? definition.validate()) != nil {
            var known = steps[definition.number] ?? []
            guard !known.contains(where: { $0.version == schema.version }) else { continue }
            let step = Step(
                version: schema.version, definition: definition,
                layout: definition.state == .present ? RowLayout(definition) : nil)
            let place = known.firstIndex { $0.version > schema.version } ?? known.count
            assert(
                place == 0 || known[place - 1].version < schema.version,
                "SD1: the definitions of an entity are not in their order.")
            known.insert(step, at: place)
            steps[definition.number] = known
        }
    }

    /// The number of missing versions below the highest known one.
    var missingVersions: UInt64 { UInt64(versions.max() ?? 0) - UInt64(versions.count) }

    /// The possible layouts of a version's rows, the likeliest first, and whether the first is certain.
    func layouts(version: UInt16, entity: UInt16) -> (layouts: [RowLayout], isSure: Bool) {
        guard let known = steps[entity] else { return ([], false) }
        let place = known.lastIndex { $0.version <= version }
        if let place, version <= lastWhole || known[place].version == version {
            return (known[place].layout.map { [$0] } ?? [], true)
        }
        var order: [Step] = []
        if let place { order = known[...place].reversed() + known[(place + 1)...] } else { order = known }
        return (order.compactMap(\.layout), false)
    }

    /// Whether the newest known version has the entity.
    func isPresent(_ entity: UInt16) -> Bool { steps[entity]?.last?.layout != nil }

    func name(of entity: UInt16) -> String? {
        steps[entity]?.last { $0.layout != nil }?.definition.name.text
    }

    /// The newest definition of each entity that is not removed, by ascending number. Together they make a valid
    /// version. `changes` receives the changes needed for that. `isWhole` is true if nothing of the file is missing:
    /// then targets that are not found never existed, and nothing is lost with them.
    func newest(isWhole: Bool, _ changes: inout [String]) -> [EntityDefinition] {
        var definitions: [EntityDefinition] = []
        var names = Set<IdentifierName>()
        for number in steps.keys.inOrder() {
            guard let last = steps[number]?.last, last.layout != nil else { continue }
            var definition = last.definition.withoutListIndexes
            if !names.insert(definition.name).inserted {
                var other = IdentifierName("entity \(number)")
                while !names.insert(other).inserted { other = IdentifierName(other.text + "'") }
                changes.append(
                    "Two entities are named “\(definition.name)”: the entity with number \(number) is now “\(other)”.")
                definition.name = other
            }
            definitions.append(definition)
        }
        var missing: [String] = []
        definitions = definitions.map { definition in withTargets(definition, among: definitions, &missing) }
        if !isWhole { changes += missing }
        return definitions
    }

    /// A reference to an unknown entity may now lead to any, and then has no inverse.
    private func withTargets(
        _ definition: EntityDefinition, among all: [EntityDefinition], _ changes: inout [String]
    ) -> EntityDefinition {
        var definition = definition
        for index in definition.attributes.indices where definition.attributes[index].target != 0 {
            let attribute = definition.attributes[index]
            if all.contains(where: { $0.number == attribute.target }) { continue }
            (definition.attributes[index].target, definition.attributes[index].inverse) = (0, nil)
            changes.append(
                "“\(definition.name).\(attribute.name)” refers to an entity that was not found: it now refers to any "
                    + "entity.")
        }
        return definition
    }
}

extension EntityDefinition {
    /// A definition may have an index over a list of objects. It has no effect, and this program does not write it.
    fileprivate var withoutListIndexes: EntityDefinition {
        var definition = self
        var lists = Set<UInt16>()
        for index in attributes.indices where attributes[index].type.isObjectList {
            definition.attributes[index].flags.subtract([.indexed, .unique])
            lists.insert(attributes[index].number)
        }
        definition.keys.removeAll { !lists.isDisjoint(with: $0.attributes) }
        return definition
    }
}
