// All schema versions that a file has defined, and the layout of every row in them.

/// Finds the layout of a row from its schema version and entity number.
///
/// 1. Versions are 1 to `newestVersion`, without gaps.
/// 2. An entity has one step for each version that defined it, in ascending order; between two steps, the definition of
///    the earlier one holds. So versions share unchanged definitions, and a file of n definitions takes memory for n.
/// 3. Every definition is valid by itself and with those before it (F25).
///
/// A value: a copy does not change with the original, as a snapshot requires.
package struct SchemaCatalog: Sendable {
    /// A class, like `History`: arrays of objects need no array type of their own (`SmallTables`).
    private final class Step: Sendable {
        let version: UInt16
        /// Contains the definition; nil if the entity is removed.
        let layout: RowLayout?

        init(version: UInt16, layout: RowLayout?) { (self.version, self.layout) = (version, layout) }
    }

    /// Sound although it is shared: it is changed only through a catalog that alone refers to it (`changeable`).
    private final class History: @unchecked Sendable {
        private(set) var steps: [Step] = []
        /// The numbers of all attributes that the entity ever had, and their types.
        var types = AttributeTypes()
        /// The end of its history gap; nil if its history was never off.
        private(set) var gapEnd: HistoryGap.End?

        init() {}

        init(copying other: History) { (steps, types, gapEnd) = (other.steps, other.types, other.gapEnd) }

        func append(_ step: Step) {
            assert((steps.last?.version ?? 0) < step.version, "The definitions of an entity are not in their order.")
            steps.append(step)
            switch (step.layout, gapEnd) {
            case (let layout?, _) where layout.entity.keepsNoHistory: gapEnd = .open
            case (.some, .open): gapEnd = .resumed(step.version)
            case (nil, .open): gapEnd = .removed(step.version)
            default: break
            }
        }
    }

    package private(set) var newestVersion: UInt16 = 0
    /// Whether the newest version serves reading rows of the past, and is in no file.
    private(set) var isOfPast = false
    /// One for each entity that ever existed, in the order of their first definitions.
    private var histories: [History] = []
    /// At index n: the index in `histories` of the entity with number n, plus 1; 0 if it does not exist. Only numbers,
    /// because a file may use the highest ones, and then every copy of the catalog would pay for unused histories.
    private var places: [UInt16] = []
    /// The numbers of all entities that ever existed, ascending.
    package private(set) var entityNumbers: [UInt16] = []
    /// The entities of the newest version.
    private var numbers = NameNumbers()
    /// The pool that layouts come from; nil to make new ones.
    private let layouts: LayoutPool?
    /// The mark of the store (`UUIDBytes.mark`); 0 if it does not matter.
    private let mark: UInt32

    package init(layouts: LayoutPool? = nil, mark: UInt32 = 0) {
        self.layouts = layouts
        self.mark = mark
    }

    // MARK: Looking up

    /// The layout of an entity's rows in a version; nil if the version is not known or does not have the entity.
    /// Constant time for an entity's newest definition, otherwise logarithmic in the number of its definitions.
    package func layout(version: UInt16, entity: UInt16) -> RowLayout? { step(version, entity)?.layout }

    /// The entity's layout in the newest version, and the version since which it holds; nil if the newest version lacks
    /// the entity.
    package func newestLayout(entity: UInt16) -> (since: UInt16, layout: RowLayout)? {
        guard let step = history(entity)?.steps.last, let layout = step.layout else { return nil }
        return (step.version, layout)
    }

    /// The catalog in which `version` was the newest.
    package func upTo(version: UInt16) -> SchemaCatalog {
        var past = SchemaCatalog(layouts: layouts, mark: mark)
        for earlier in 1...max(version, 1) where earlier <= version {
            // Each version was applied once already, in this order.
            try? past.apply(definition(version: earlier))
        }
        return past
    }

    package func entity(_ number: UInt16, version: UInt16) -> EntityDefinition? {
        step(version, number)?.layout?.entity
    }

    /// The number of the entity of that name in the newest version.
    package func number(ofEntity name: String) -> UInt16? { numbers[IdentifierName(name)].map(UInt16.init) }

    /// The entities of a version, by ascending number. Linear in the entities that ever existed.
    package func entities(version: UInt16) -> [EntityDefinition] {
        entityNumbers.compactMap { entity($0, version: version) }
    }

    /// The definitions of a version's schema frames.
    package func definition(version: UInt16) -> SchemaDefinition {
        var entities: [EntityDefinition] = []
        for number in entityNumbers {
            guard let step = step(version, number), step.version == version else { continue }
            entities.append(step.layout?.entity ?? .removal(of: number))
        }
        return SchemaDefinition(version: version, entities: entities)
    }

    /// Whether the number was ever an entity's.
    package func isUsed(entity number: UInt16) -> Bool {
        history(number) != nil
    }

    /// Whether the number was ever one of that entity's attributes.
    package func isUsed(attribute: UInt16, entity: UInt16) -> Bool {
        history(entity)?.types[attribute] != nil
    }

    /// The attribute of an entity's newest definition that once had this name; nil if no attribute had it. Linear in
    /// the entity's definitions.
    func attribute(formerly name: String, of entity: UInt16) -> UInt16? {
        guard let steps = history(entity)?.steps, let newest = steps.last?.layout else { return nil }
        for step in steps.reversed() {
            let attribute = step.layout?.entity.attributes.first { $0.name == IdentifierName(name) }
            if let attribute, newest.position(ofAttribute: attribute.number) != nil { return attribute.number }
        }
        return nil
    }

    /// The definitions of an entity, in their order, without its removal.
    func definitions(ofEntity number: UInt16) -> [EntityDefinition] {
        history(number)?.steps.compactMap { $0.layout?.entity } ?? []
    }

    /// The gap in the entity's history; nil if its history has never been off.
    package func historyGap(ofEntity number: UInt16) -> HistoryGap? {
        guard let history = history(number), let end = history.gapEnd, let first = history.steps.first else {
            return nil
        }
        return HistoryGap(entity: number, first: first.version, end: end)
    }

    @inline(__always)
    private func history(_ entity: UInt16) -> History? {
        guard Int(entity) < places.count, places[Int(entity)] != 0 else { return nil }
        return histories[Int(places[Int(entity)]) - 1]
    }

    @inline(__always)
    private func step(_ version: UInt16, _ entity: UInt16) -> Step? {
        guard version >= 1, version <= newestVersion, let steps = history(entity)?.steps else { return nil }
        guard let last = steps.last else { return nil }
        return last.version <= version ? last : earlierStep(version, steps)
    }

    /// The step in force in the version, by bisection.
    private func earlierStep(_ version: UInt16, _ steps: [Step]) -> Step? {
        var low = 0
        var high = steps.count
        while low < high {
            let middle = (low + high) / 2
            if steps[middle].version <= version { low = middle + 1 } else { high = middle }
        }
        return low == 0 ? nil : steps[low - 1]
    }

    // MARK: The next version

    /// Adds the next version, defined by all its schema frames together. An error, of code `damaged`, leaves the
    /// catalog unchanged. Linear in the new definitions, not in the catalog.
    package mutating func apply(_ schema: SchemaDefinition) throws(StoreError) {
        try validate(schema)
        for definition in schema.entities {
            if let before = current(definition.number) { numbers.remove(before.name) }
        }
        for definition in schema.entities { append(definition, schema.version) }
        newestVersion = schema.version
    }

    /// Adds definitions to the newest version, which spans several frames. Linear in the whole catalog: only a version
    /// of more than half a MiB that compaction has folded is read so.
    package mutating func extend(_ schema: SchemaDefinition) throws(StoreError) {
        try require(
            schema.version == newestVersion && newestVersion > 0, "A schema version is not one more than the last.")
        var whole = definition(version: newestVersion)
        whole.entities += schema.entities
        var extended = upTo(version: newestVersion - 1)
        try extended.apply(whole)
        self = extended
    }

    /// The catalog with one more version, for reading rows of the past. No file contains it, and it need not be valid
    /// after the earlier ones.
    func following(_ definitions: [EntityDefinition]) -> SchemaCatalog {
        guard newestVersion < .max else { return self }
        var next = self
        for definition in definitions {
            if let before = current(definition.number) { next.numbers.remove(before.name) }
        }
        for definition in definitions { next.append(definition, newestVersion + 1) }
        next.newestVersion = newestVersion + 1
        next.isOfPast = true
        return next
    }

    private mutating func append(_ definition: EntityDefinition, _ version: UInt16) {
        let number = Int(definition.number)
        if places.count <= number { places += repeatElement(0, count: number + 1 - places.count) }
        if places[number] == 0 {
            histories.append(History())
            entityNumbers.insert(
                definition.number, at: entityNumbers.partitioningIndex { $0 > definition.number })
            places[number] = UInt16(histories.count)
            assert(entityNumbers.count == histories.count, "An entity has two histories.")
        }
        let place = Int(places[number]) - 1
        let isPresent = definition.state == .present
        if isPresent { _ = numbers.insert(definition.name, UInt32(definition.number)) }
        let history = changeable(place)
        let earlier = history.steps.last?.layout
        let layout: RowLayout? =
            isPresent
            ? layouts?.layout(definition, after: earlier, mark: mark)
                ?? RowLayout(definition, after: earlier, mark: mark) : nil
        history.append(Step(version: version, layout: layout))
        // In ascending order, so that each is added at the end.
        for attribute in definition.attributes.inOrder(by: { $0.number < $1.number }) {
            history.types.insert(attribute.number, attribute.type)
        }
    }

    /// The history at an index of `histories` for changing, after copying it if another catalog shares it.
    private mutating func changeable(_ place: Int) -> History {
        if !isKnownUniquelyReferenced(&histories[place]) { histories[place] = History(copying: histories[place]) }
        return histories[place]
    }

    /// The entity's definition in the newest version, nil if it has none or is removed.
    private func current(_ number: UInt16) -> EntityDefinition? { entity(number, version: newestVersion) }

    /// Throws unless the schema can be the next version. A writer calls it before writing.
    package func validate(_ schema: SchemaDefinition) throws(StoreError) {
        try require(
            newestVersion < FormatLimits.maximumSchemaVersions && schema.version == newestVersion + 1,
            "A schema version is not one more than the last.")
        for definition in schema.entities { try definition.validate() }
        let changed = schema.entities.map(\.number).inOrder()
        try require(!changed.hasNeighbours, "A schema version defines an entity twice.")
        for definition in schema.entities { try validateNumbers(definition) }
        let names = schema.entities.compactMap { $0.state == .present ? $0.name.text : nil }
        try require(!names.hasDuplicates, "Two entities of a version have the same name.")
        for name in names {
            guard let holder = numbers[IdentifierName(name)] else { continue }
            try require(changed.hasSorted(UInt16(holder)), "Two entities of a version have the same name.")
        }
    }

    /// Numbers keep their meaning permanently: a removed entity or attribute does not come back, and types stay.
    private func validateNumbers(_ definition: EntityDefinition) throws(StoreError) {
        guard let types = history(definition.number)?.types else {
            try require(definition.state == .present, "A schema version removes a missing entity.")
            return
        }
        guard let before = current(definition.number) else {
            throw StoreError(.damaged, "The number of a removed entity is used again.")
        }
        guard !definition.attributes.isEmpty else { return }
        let present = before.attributes.map(\.number).inOrder()
        for attribute in definition.attributes {
            guard let type = types[attribute.number] else { continue }
            try require(present.hasSorted(attribute.number), "The number of a removed attribute is used again.")
            try require(type == attribute.type, "An attribute has changed its type.")
        }
    }
}
