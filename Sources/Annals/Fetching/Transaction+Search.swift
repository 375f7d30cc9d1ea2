// Searching for words in a transaction, including its own changes.

public import FoundationEssentials

extension Transaction {
    /// The objects whose searchable texts match a query, as this transaction sees them, best match first.
    ///
    /// Parameters and errors are those of `Snapshot.search`. The transaction's own changes are read one by one. With
    /// such changes, a predicate or an order takes as long as `fetch` with the same.
    public func search<E: Entity>(
        _ type: E.Type, for query: SearchQuery, where predicate: Predicate<Object<E>>? = nil,
        sortedBy sort: SortKey<E>..., limit: Int? = nil, offset: Int = 0
    ) throws -> [SearchMatch<E>] {
        let page = FetchPage(limit: limit, offset: offset)
        guard draft.hasChanges else {
            var search = try Search(snapshot, query, predicate, page)
            return try search.matches(SortKey.parts(of: sort))
        }
        let (binding, layout) = try binding(E.self)
        let scope = try SearchedEntity(binding, layout)
        var run = SearchRun(snapshot, scope, query, try changes(scope, type))
        let isSorted = !SortKey.parts(of: sort).isEmpty
        let needsReferences = isSorted || predicate != nil
        let references = needsReferences ? try references(to: type, where: predicate, sortedBy: SortKey(sort)) : []
        let order = OverlaidOrder(isSorted: isSorted, hasPredicate: predicate != nil, references)
        return try order.found(&run, page).compactMap { found in
            let reference = Reference<E>(found.object, of: binding.storeMark)
            return try self[reference].map {
                SearchMatch(reference: reference, value: $0, score: found.score, plan: run.plan, scope: scope)
            }
        }
    }

    /// The same for a text as people type it.
    public func search<E: Entity>(
        _ type: E.Type, for text: String, where predicate: Predicate<Object<E>>? = nil,
        sortedBy sort: SortKey<E>..., limit: Int? = nil, offset: Int = 0
    ) throws -> [SearchMatch<E>] {
        try search(
            type, for: SearchQuery(text), where: predicate, sortedBy: SortKey(sort), limit: limit, offset: offset)
    }

    /// The number of objects whose searchable texts match a query, as this transaction sees them. With own changes, it
    /// takes as long as `search`.
    public func searchCount<E: Entity>(
        _ type: E.Type, for query: SearchQuery, where predicate: Predicate<Object<E>>? = nil
    ) throws -> Int {
        if draft.hasChanges { return try search(type, for: query, where: predicate).count }
        return try snapshot.searchCount(type, for: query, where: predicate)
    }

    /// The same for a text as people type it.
    public func searchCount<E: Entity>(
        _ type: E.Type, for text: String, where predicate: Predicate<Object<E>>? = nil
    ) throws -> Int {
        try searchCount(type, for: SearchQuery(text), where: predicate)
    }

    private func changes<E: Entity>(_ scope: SearchedEntity, _ type: E.Type) throws -> SearchedChanges {
        let draft = draft
        var changes = SearchedChanges()
        guard draft.base.shape.newestLayout(scope.entity) === scope.layout else {
            changes.areAll = true
            for reference in try references(to: type) {
                guard let value = try self[reference] else { continue }
                changes.texts.append((reference.id, scope.texts(of: value)))
            }
            return changes
        }
        try draft.frames.forEachEntry(withRows: false) { (change, _) in
            if change.object.entityNumber == scope.entity { changes.hidden.insert(change.object) }
            return true
        }
        try draft.forEachOwnRow(of: scope.entity) { (object, row) throws(StoreError) in
            var texts: [String?] = []
            for column in scope.columns {
                if case .string(let text) = try draft.value(row, at: column.position) {
                    texts.append(text)
                } else {
                    texts.append(nil)
                }
            }
            changes.texts.append((object, texts))
            return true
        }
        return changes
    }
}

extension SearchedEntity {
    /// The searched texts of a value, by column.
    func texts<E: Entity>(of value: E) -> [String?] {
        withUnsafePointer(to: value) { value in
            columns.map { column in
                guard let property = E.model.properties.first(where: { $0.name == column.name }) else { return nil }
                return (try? property.codec.value(at: UnsafeRawPointer(value) + property.offset))?.string
            }
        }
    }
}

/// The objects that satisfy a predicate, in an order, over uncommitted changes.
struct OverlaidOrder<E: Entity> {
    private let isSorted: Bool
    private let references: [Reference<E>]
    private let wanted: Set<ObjectID>?

    init(isSorted: Bool, hasPredicate: Bool, _ references: [Reference<E>]) {
        (self.isSorted, self.references) = (isSorted, references)
        wanted = hasPredicate ? Set(references.map(\.id)) : nil
    }

    func found(_ run: inout SearchRun, _ page: FetchPage) throws(StoreError) -> [FoundObject] {
        guard isSorted else {
            let wanted = wanted
            return page.of(try run.best(page.wanted) { (object) in wanted?.contains(object) ?? true })
        }
        let scores = try run.all()
        return page.of(
            references.compactMap { reference in
                scores[reference.id].map { FoundObject(object: reference.id, score: $0) }
            })
    }
}
