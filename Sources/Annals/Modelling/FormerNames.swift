// New entities get the former names of their attributes first, and then the present ones, as in the versions of the
// program. So an older version finds its attributes in a store that it has not created, as after a migration.
//
// Invariants:
// FN1  The first transaction adds all missing entities and notes the steps that a new store does not need: a process
//      that ends after any of them leaves a store that the next opening finishes.
// FN2  Rings of names are not among them: they are noted instead (`DeclaredRenames`).

/// The names of an entity's attributes in the versions of a program, as far as its type lists them.
struct FormerNames {
    let entity: String
    /// For each version the properties that it has, and their names then. The last one has the present names.
    private(set) var stages: [[(property: Int, name: String)]] = []
    /// The rings, under the keys by which a store notes them (FN2).
    let rings: Set<String>

    init(_ model: EntityModel) {
        entity = model.name
        let renames = DeclaredRenames(model, present: model.properties.map(\.name)) { (_, _) in false }
        rings = Set(renames.rings.keys)
        let inRings = renames.rings.values.joined().map(\.to)
        let former = model.properties.map { property in
            inRings.contains { isSameName($0, property.name) } ? [] : property.formerNames
        }
        let depth = former.map(\.count).max() ?? 0
        if depth == 0 { return }
        stages = [Self.stage(0, model, former, Array(model.properties.indices))]
        let first = stages[0].map(\.property)
        for stage in 1..<max(1, depth) {
            let next = Self.stage(stage, model, former, first)
            // Otherwise two of them had one name at different times.
            if next.count == first.count { stages.append(next) }
        }
        // Opening adds the other attributes afterwards, as it does for every store.
        stages.append(first.map { ($0, model.properties[$0].name) })
    }

    /// Former names come first: a new property may have a name that became free.
    private static func stage(
        _ stage: Int, _ model: EntityModel, _ former: [[String]], _ properties: [Int]
    ) -> [(property: Int, name: String)] {
        var names: [(property: Int, name: String)] = []
        func isFree(_ name: String) -> Bool { !names.contains { isSameName($0.name, name) } }
        for property in properties where stage < former[property].count {
            if isFree(former[property][stage]) { names.append((property, former[property][stage])) }
        }
        for property in properties where !names.contains(where: { $0.property == property }) {
            if isFree(model.properties[property].name) { names.append((property, model.properties[property].name)) }
        }
        return names.inOrder { $0.property < $1.property }
    }

    /// The entity with the names of the first version.
    func description(_ model: EntityModel) -> EntityDescription {
        guard let first = stages.first else { return model.description }
        func name(_ present: String) -> String? {
            first.first { isSameName(model.properties[$0.property].name, present) }?.name
        }
        let attributes = first.map { (property, name) in
            var attribute = model.properties[property].description(isNew: true)
            attribute.name = name
            return attribute
        }
        // Keys over attributes that are added later are added with these.
        let keys = model.keys.compactMap { key -> IndexDescription? in
            let names = key.attributes.compactMap(name)
            return names.count == key.attributes.count ? IndexDescription(names, isUnique: key.isUnique) : nil
        }
        return EntityDescription(model.name, attributes: attributes, keys: keys, history: model.history)
    }

    /// The renames that lead from one version to the next. Empty if the store's entity is not as in that version: then
    /// another process has continued.
    func renames(from stage: Int, _ catalog: SchemaCatalog) -> [SchemaChange] {
        guard stage + 1 < stages.count, let number = catalog.number(ofEntity: entity),
            let definition = catalog.entity(number, version: catalog.newestVersion),
            definition.attributes.count == stages[stage].count,
            stages[stage].allSatisfy({ (_, name) in definition.position(of: name) != nil })
        else { return [] }
        return zip(stages[stage], stages[stage + 1]).compactMap { (before, after) in
            isSameName(before.name, after.name)
                ? nil : .renameAttribute(before.name, of: entity, to: after.name)
        }
    }
}

extension EntityDeclaration {
    /// For the entities that a store lacks if the attributes of one of them had other names; otherwise empty.
    func formerNames(missingIn catalog: SchemaCatalog) -> [(names: FormerNames, model: EntityModel)] {
        let missing = models.filter { catalog.number(ofEntity: $0.name) == nil }
        guard missing.contains(where: { $0.properties.contains { !$0.formerNames.isEmpty } }) else { return [] }
        let names = missing.map { (FormerNames($0), $0) }
        return names.contains { !$0.0.stages.isEmpty } ? names : []
    }

    /// For entities without objects that a store has under former names: a process may have ended while it added them.
    /// A migration that is still to do comes first, and knows the former names.
    fileprivate func unfinished(_ view: View, hasPending: Bool) -> [FormerNames] {
        if hasPending { return [] }
        return models.compactMap { model in
            guard model.properties.contains(where: { $0.formerNames.count > 1 }),
                let number = view.catalog.number(ofEntity: model.name), view.nextNumber(of: number) == 1
            else { return nil }
            let names = FormerNames(model)
            let isUnfinished = names.stages.indices.contains { !names.renames(from: $0, view.catalog).isEmpty }
            return isUnfinished ? names : nil
        }
    }
}

extension Store {
    /// Adds missing parts of a store if attributes had other names, version by version (FN1). Does nothing otherwise.
    func addUnderFormerNames(_ declaration: EntityDeclaration, _ migrations: [Migration]) throws {
        let view = try newest().view
        var added = try declaration.unfinished(view, hasPending: !migrations.isEmpty && lacks(migrations))
        let isMissing = !declaration.formerNames(missingIn: view.catalog).isEmpty
        if isMissing { added += try addMissing(declaration, migrations) }
        for stage in 0..<(added.map(\.stages.count).max() ?? 0) {
            try write { transaction in
                try transaction.addToSchema(added.flatMap { $0.renames(from: stage, transaction.draft.catalog) })
            }
        }
    }

    private func addMissing(_ declaration: EntityDeclaration, _ migrations: [Migration]) throws -> [FormerNames] {
        try write { transaction in
            let catalog = transaction.draft.catalog
            // Another process may have been faster.
            let missing = declaration.formerNames(missingIn: catalog)
            let added = missing.map(\.names)
            let changes = missing.map { SchemaChange.addEntity($0.names.description($0.model)) }
            try transaction.addToSchema(changes + Self.metadataAddition(catalog))
            if catalog.isWithoutEntities { for migration in migrations { try transaction.note(migration) } }
            for ring in Set(added.flatMap(\.rings)).inOrder() { try transaction.note(exchange: ring) }
            return added
        }.result
    }

    private func lacks(_ migrations: [Migration]) throws -> Bool {
        let done = try migrationsDone()
        return migrations.contains { !done.contains($0.name) }
    }
}

extension Transaction {
    fileprivate func addToSchema(_ changes: [SchemaChange]) throws(StoreError) {
        let definitions = try SchemaPlan.definitions(for: changes, catalog: draft.catalog, addsReserved: true)
        if !definitions.isEmpty { try draft.changeSchema(definitions) }
    }
}
