// Filters history for a request: first by the record of a transaction, then by the entries of its change table. Rows
// are not read.

/// Chooses transactions by their authors. Names are represented by their numbers; 0 is no name.
package struct TransactionFilter {
    /// Nil for all.
    package var authors: Set<UInt32>?
    package var excludedAuthors: Set<UInt32> = []
    /// Nil for all.
    package var contexts: Set<UInt32>?
    package var excludedContexts: Set<UInt32> = []
    /// At least one pair must match; a nil set in a pair matches all. Nil without such a condition.
    package var anyOf: [(authors: Set<UInt32>?, contexts: Set<UInt32>?)]?

    package init() {}

    /// Whether any transaction of the author can pass.
    func shows(author: UInt32) -> Bool {
        guard authors?.contains(author) ?? true, !excludedAuthors.contains(author) else { return false }
        return anyOf?.contains { $0.authors?.contains(author) ?? true } ?? true
    }

    /// Whether a transaction passes, without its changes.
    @inline(__always)
    package func matches(_ transaction: TransactionView) -> Bool {
        if let authors, !authors.contains(transaction.authorNumber) { return false }
        if let contexts, !contexts.contains(transaction.contextNumber) { return false }
        if !excludedContexts.isEmpty, excludedContexts.contains(transaction.contextNumber) { return false }
        if let anyOf, !Self.matches(anyOf, transaction.authorNumber, transaction.contextNumber) { return false }
        return excludedAuthors.isEmpty || !excludedAuthors.contains(transaction.authorNumber)
    }
}

extension TransactionFilter {
    private static func matches(
        _ anyOf: [(authors: Set<UInt32>?, contexts: Set<UInt32>?)], _ author: UInt32, _ context: UInt32
    ) -> Bool {
        anyOf.contains { ($0.authors?.contains(author) ?? true) && ($0.contexts?.contains(context) ?? true) }
    }
}

extension TransactionView {
    package var authorNumber: UInt32 { table.integer(at: TransactionField.author, as: UInt32.self) }
    package var contextNumber: UInt32 { table.integer(at: TransactionField.context, as: UInt32.self) }
}

/// Chooses changes by their entries. One thread uses it, for one request.
package final class ChangeFilter {
    /// Nil for all.
    package var kinds: Set<ChangeKind>?
    package var entities: Set<UInt16>?
    package var objects: Set<ObjectID>?
    /// Attribute numbers by entity number: passes updates that wrote one of them. Nil for all changes.
    package var attributes: [UInt16: Set<UInt16>]?
    /// Entities whose changes never pass, regardless of the other conditions.
    package private(set) var hiddenEntities: Set<UInt16> = []
    /// By entity: the schema version below which a transaction's changes are left out.
    private var firstVersions: [UInt16: UInt32] = [:]
    /// The positions of `attributes` in an entity's list of attributes, by entity and schema version.
    private var positions: [UInt32: [Int]] = [:]

    package init() {}

    /// Passes all changes except those of the store's own objects and those without history; nil if neither exist.
    package static func showing(_ view: View, _ gaps: [HistoryGap]) -> ChangeFilter? {
        let filter = ChangeFilter()
        filter.hide(view.reservedEntities, gaps)
        return filter.hidesAnything ? filter : nil
    }

    /// Never passes changes of these, regardless of the other conditions.
    package func hide(_ entities: Set<UInt16>, _ gaps: [HistoryGap]) {
        hiddenEntities = entities
        firstVersions = [:]
        for gap in gaps {
            if case .resumed(let version) = gap.end {
                firstVersions[gap.entity] = UInt32(version)
            } else {
                firstVersions[gap.entity] = .max
            }
        }
    }

    package var hidesAnything: Bool { !hiddenEntities.isEmpty || !firstVersions.isEmpty }

    /// The entities that are requested by name; nil for all.
    package var namedEntities: Set<UInt16>? {
        var named = entities
        func narrow(to others: Set<UInt16>) { named = named.map { $0.intersection(others) } ?? others }
        if let objects { narrow(to: Set(objects.map(\.entityNumber))) }
        if let attributes { narrow(to: Set(attributes.keys)) }
        return named
    }

    /// Whether no condition on changes is set.
    package var isEmpty: Bool { kinds == nil && entities == nil && objects == nil && attributes == nil }

    /// Whether a change passes, in a transaction whose rows have that schema version.
    package func matches(_ change: ChangeView, version: UInt16, _ catalog: SchemaCatalog) -> Bool {
        guard matchesObject(change.object), !hides(change.object, version: version) else { return false }
        if let kinds, !kinds.contains(change.kind) { return false }
        guard attributes != nil else { return true }
        guard change.kind == .update else { return false }
        return positions(change.object.entityNumber, version, catalog).contains {
            change.contains(attributePosition: $0)
        }
    }

    /// Whether a change of the object is never returned from a transaction of that version.
    package func hides(_ object: ObjectID, version: UInt16) -> Bool {
        if !hiddenEntities.isEmpty, hiddenEntities.contains(object.entityNumber) { return true }
        guard !firstVersions.isEmpty, let first = firstVersions[object.entityNumber] else { return false }
        return UInt32(version) < first
    }

    private func matchesObject(_ object: ObjectID) -> Bool {
        if let objects, !objects.contains(object) { return false }
        return entities?.contains(object.entityNumber) ?? true
    }

    private func positions(_ entity: UInt16, _ version: UInt16, _ catalog: SchemaCatalog) -> [Int] {
        let key = UInt32(entity) << 16 | UInt32(version)
        if let known = positions[key] { return known }
        let layout = catalog.layout(version: version, entity: entity)
        let found = attributes?[entity].map { numbers in
            numbers.compactMap { layout?.position(ofAttribute: $0) }
        }
        positions[key] = found ?? []
        return found ?? []
    }
}

extension SchemaCatalog {
    /// The numbers of the entities that have that name, or had it when they were removed.
    package func numbers(ofEntityEverNamed name: String) -> [UInt16] {
        var numbers: [UInt16] = []
        for number in entityNumbers {
            if lastDefinition(ofEntity: number)?.name.text.utf8.elementsEqual(name.utf8) ?? false {
                numbers.append(number)
            }
        }
        return numbers
    }

    /// The numbers of an entity's attributes that have that name, or had it last before they were removed or replaced.
    /// Without any, the number of the attribute that had this name before it was renamed.
    package func numbers(ofAttributeEverNamed name: String, entity: UInt16) -> [UInt16] {
        var seen: Set<UInt16> = []
        var found: [UInt16] = []
        for version in stride(from: newestVersion, to: 0, by: -1) {
            for attribute in self.entity(entity, version: version)?.attributes ?? []
            where seen.insert(attribute.number).inserted && attribute.name.text.utf8.elementsEqual(name.utf8) {
                found.append(attribute.number)
            }
        }
        if found.isEmpty, let former = attribute(formerly: name, of: entity) { found.append(former) }
        return found
    }

    /// The entity's definition in the newest version that has it.
    package func lastDefinition(ofEntity number: UInt16) -> EntityDefinition? {
        guard isUsed(entity: number) else { return nil }
        var version = newestVersion
        while version > 0 {
            if let entity = entity(number, version: version) { return entity }
            version -= 1
        }
        return nil
    }
}
