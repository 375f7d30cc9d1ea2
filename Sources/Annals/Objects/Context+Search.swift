// Searching for words in a context, including its unsaved changes.

public import FoundationEssentials

/// An object of a context that a search has found.
public struct ObjectMatch<E: Entity> {
    /// The object.
    public let object: Object<E>
    private let match: SearchMatch<E>
    /// The rank: greater for better matches. Scores of different searches cannot be compared.
    public var score: Double { match.score }

    fileprivate init(_ object: Object<E>, _ match: SearchMatch<E>) { (self.object, self.match) = (object, match) }

    /// A part of a text, as it was when the search found it, with the words found. See `SearchMatch.snippet`.
    public func snippet<V: TextProperty>(of path: any KeyPath<E, V> & Sendable, length: Int = 160) -> SearchSnippet? {
        match.snippet(of: path, length: length)
    }

    /// The ranges of a text in which the words were found. See `SearchMatch.highlights`.
    public func highlights<V: TextProperty>(of path: any KeyPath<E, V> & Sendable) -> [Range<String.Index>] {
        match.highlights(of: path)
    }
}

extension Context {
    /// The objects whose searchable texts match a query, as this context shows them, best match first.
    ///
    /// Parameters and errors are those of `Snapshot.search`; also throws `contextClosed`. Unsaved objects are read one
    /// by one. With unsaved changes, a predicate or an order takes as long as `fetch` with the same.
    public func search<E: Entity>(
        _ type: E.Type, for query: SearchQuery, where predicate: Predicate<Object<E>>? = nil,
        sortedBy sort: SortKey<E>..., limit: Int? = nil, offset: Int = 0
    ) throws -> [ObjectMatch<E>] {
        let page = FetchPage(limit: limit, offset: offset)
        return try core.matches(query, predicate, SortKey.parts(of: sort), page).map { (match: SearchMatch<E>) in
            ObjectMatch(core.any(match.reference), match)
        }
    }

    /// The same for a text as people type it.
    public func search<E: Entity>(
        _ type: E.Type, for text: String, where predicate: Predicate<Object<E>>? = nil,
        sortedBy sort: SortKey<E>..., limit: Int? = nil, offset: Int = 0
    ) throws -> [ObjectMatch<E>] {
        try search(
            type, for: SearchQuery(text), where: predicate, sortedBy: SortKey(sort), limit: limit, offset: offset)
    }

    /// The number of objects whose searchable texts match a query, as this context shows them. With unsaved changes, it
    /// takes as long as `search`.
    public func searchCount<E: Entity>(
        _ type: E.Type, for query: SearchQuery, where predicate: Predicate<Object<E>>? = nil
    ) throws -> Int {
        if core.isOverlaid(predicate) { return try core.foundObjects(query, predicate, [], FetchPage()).count }
        return try snapshot.searchCount(type, for: query, where: predicate)
    }

    /// The same for a text as people type it.
    public func searchCount<E: Entity>(
        _ type: E.Type, for text: String, where predicate: Predicate<Object<E>>? = nil
    ) throws -> Int {
        try searchCount(type, for: SearchQuery(text), where: predicate)
    }
}

extension SearchQuery {
    /// A part of a text of an object, as its context shows it, with the words of the query: for the objects of a live
    /// list. See `SearchMatch.snippet`.
    public func snippet<E: Entity, V: TextProperty>(
        of path: any KeyPath<E, V> & Sendable, in object: Object<E>, length: Int = 160
    ) -> SearchSnippet? {
        snippet(of: path, in: object.current, length: length)
    }

    /// The ranges of a text of an object, as its context shows it, in which the words of the query occur.
    public func highlights<E: Entity, V: TextProperty>(
        of path: any KeyPath<E, V> & Sendable, in object: Object<E>
    ) -> [Range<String.Index>] {
        highlights(of: path, in: object.current)
    }
}

extension ContextCore {
    /// The matches as the context shows them.
    func matches<E: Entity>(
        _ query: SearchQuery, _ predicate: Predicate<Object<E>>?, _ sort: [SortPart<E>], _ page: FetchPage
    ) throws -> [SearchMatch<E>] {
        guard isOverlaid(predicate) else {
            var search = try Search(snapshot, query, predicate, page)
            return try search.matches(sort)
        }
        let (objects, run) = try overlaid(query, predicate, sort, page)
        return objects.map { found in
            let object = any(Reference<E>(found.object, of: mark))
            return SearchMatch(
                reference: object.reference, value: object.current, score: found.score, plan: run.plan,
                scope: run.scope)
        }
    }

    /// The matches without their values: no object is made for them.
    func foundObjects<E: Entity>(
        _ query: SearchQuery, _ predicate: Predicate<Object<E>>?, _ sort: [SortPart<E>], _ page: FetchPage
    ) throws -> [FoundObject] {
        if isOverlaid(predicate) { return try overlaid(query, predicate, sort, page).objects }
        var search = try Search(snapshot, query, predicate, page)
        return try search.objects(sort)
    }

    /// Whether unsaved changes may change what a search finds.
    fileprivate func isOverlaid<E: Entity>(_ predicate: Predicate<Object<E>>?) -> Bool {
        hasUnsaved(of: E.model) || predicate != nil && !pending.isEmpty
    }

    private func overlaid<E: Entity>(
        _ query: SearchQuery, _ predicate: Predicate<Object<E>>?, _ sort: [SortPart<E>], _ page: FetchPage
    ) throws -> (objects: [FoundObject], run: SearchRun) {
        let snapshot = try snapshot
        let layout = try snapshot.layout(of: E.model)
        let scope = try SearchedEntity(try layout.binding(E.self, snapshot.view.catalog), layout)
        var run = SearchRun(snapshot, scope, query, changes(scope, E.self))
        let needsReferences = !sort.isEmpty || predicate != nil
        let references =
            needsReferences
            ? try ContextSearch(self, predicate, true).references(sort, limit: nil, offset: 0) : []
        let order = OverlaidOrder(isSorted: !sort.isEmpty, hasPredicate: predicate != nil, references)
        return (try order.found(&run, page), run)
    }

    private func changes<E: Entity>(_ scope: SearchedEntity, _ type: E.Type) -> SearchedChanges {
        var changes = SearchedChanges()
        for object in unsaved(of: E.model) {
            changes.hidden.insert(object.id)
            guard let object = object as? Object<E>, object.isShown else { continue }
            changes.texts.append((object.id, scope.texts(of: object.current)))
        }
        return changes
    }
}
