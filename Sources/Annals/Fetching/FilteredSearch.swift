// A search whose matches also satisfy a condition, in an order, for callers with and without types.

/// A search in a state, with the places of the wanted matches in their order. Not generic, as `FetchRun`.
package struct FilteredSearch {
    private var run: SearchRun
    private let condition: Condition
    private let page: FetchPage
    var plan: SearchPlan { run.plan }
    var scope: SearchedEntity { run.scope }

    init(_ run: SearchRun, _ condition: Condition, _ page: FetchPage = FetchPage()) {
        (self.run, self.condition, self.page) = (run, condition, page)
    }

    /// - Parameters:
    ///   - entity: An entity of this state.
    ///   - present: The newest state, whose index names the searched attributes and their weights. Without an index,
    ///     all texts of the entity count the same.
    package init(
        _ snapshot: Snapshot, _ query: SearchQuery, _ condition: Condition, of entity: EntityHandle,
        indexedIn present: Snapshot, limit: Int?, offset: Int
    ) throws(StoreError) {
        let state = try SearchBlocks(present.view)?.record(of: entity.number)?.readableState()
        let none: [SearchedEntity.Column] = []
        var scope = state.map { SearchedEntity(entity.layout, $0) } ?? SearchedEntity(entity.layout, none)
        if scope.columns.isEmpty {
            let texts = zip(entity.attributeNumbers, entity.types).filter { $0.1 == .string }
            scope = SearchedEntity(entity.layout, texts.prefix(SearchPlan.maximumAttributes).map { ($0.0, 1) })
        }
        guard !scope.columns.isEmpty else {
            throw StoreError(
                .invalidArgument, "“\(entity.name)” has no texts to search: none of its attributes is a string.",
                ObjectFacts(entity.name))
        }
        self.init(SearchRun(snapshot, scope, query), condition, FetchPage(limit: limit, offset: offset))
    }

    /// The matches, in the order of these columns. Without any, the best one comes first.
    package mutating func objects(_ sort: [SortColumn]) throws(StoreError) -> [FoundObject] {
        let isWanted = isWanted
        if sort.isEmpty { return page.of(try run.best(page.wanted, isWanted)) }
        let scores = try run.all()
        let condition = Condition.both(.isOne(Set(scores.keys)), condition)
        var fetch = FetchRun(
            run.snapshot, try FetchPlan(condition, sort, run.scope.layout, run.snapshot.view), page)
        return try fetch.objects().map { FoundObject(object: $0, score: scores[$0] ?? 0) }
    }

    /// The number of matches.
    package mutating func count() throws(StoreError) -> Int {
        let isWanted = isWanted
        return max(0, min(page.limit, try run.count(isWanted) - page.offset))
    }

    /// Whether an object of the state satisfies the condition.
    private var isWanted: (ObjectID) throws(StoreError) -> Bool {
        if case .constant(let isTrue) = condition { return { _ in isTrue } }
        let (view, condition, layout) = (run.snapshot.view, condition, run.scope.layout)
        let reader = ConditionReader(view: view)
        return { (object) throws(StoreError) in
            var isMatch = false
            _ = try view.withRow(object) { (row) throws(StoreError) in
                isMatch = try reader.matches(condition, row, object, layout)
            }
            return isMatch
        }
    }
}
