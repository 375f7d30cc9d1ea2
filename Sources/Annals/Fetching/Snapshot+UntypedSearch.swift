// Searching for words in a state, without types.

extension Snapshot {
    /// The objects of an entity whose texts match a query, best match first.
    ///
    /// The texts and their weights are those of the entity's search index (`Store.addSearchIndex`). Without an index, a
    /// search reads all rows, and all attributes of the type string count the same.
    ///
    /// - Parameters:
    ///   - entity: The name of the entity in this state.
    ///   - query: The words.
    ///   - limit: The most objects to return; nil for all.
    ///   - offset: So many of the best objects are left out.
    ///
    /// Costs as `search` with types. Throws `StoreError`: `unknownEntity`, `invalidArgument` if the entity has no
    /// attribute of the type string, and as `forEachRow`.
    public func search(
        _ entity: String, for query: SearchQuery, limit: Int? = nil, offset: Int = 0
    ) throws -> [FoundObject] {
        var search = try untypedSearch(entity, query, limit: limit, offset: offset)
        return try search.objects([])
    }

    /// The number of objects whose texts match a query. As `search`.
    public func searchCount(_ entity: String, for query: SearchQuery) throws -> Int {
        var search = try untypedSearch(entity, query, limit: nil, offset: 0)
        return try search.count()
    }

    private func untypedSearch(
        _ entity: String, _ query: SearchQuery, limit: Int?, offset: Int
    ) throws -> FilteredSearch {
        let snapshot = inPresentTerms
        // A state of the past has no index; the present one names the attributes.
        let present = view.totals != nil ? self : Snapshot(try engine.viewOfThisFile(), engine, storeIdentifier)
        return try FilteredSearch(
            snapshot, query, .constant(true), of: snapshot.entity(entity), indexedIn: present, limit: limit,
            offset: offset)
    }
}
