// Makes lists that stay current.

public import FoundationEssentials

extension Context {
    /// The objects that satisfy a predicate, in a list that stays current: after edits in this context, before they are
    /// saved, and after saving, merging, `rollback()`, `undo()` and `redo()`.
    ///
    /// An update costs a look at each object that was changed, two binary searches for each that is added, removed or
    /// moved, and one copy of the list's order, 8 bytes for each element. If the predicate follows a relationship,
    /// changes of the properties that it reads of related objects make the list fetch again. If a part of it is
    /// evaluated on objects (see `Snapshot.explain`), this holds for all properties that it reads. The list also
    /// fetches again if the changes of a merge are unknown: without history, or if more objects have changed than the
    /// context has.
    ///
    /// - Parameters:
    ///   - type: The entity.
    ///   - predicate: The condition; nil for all objects.
    ///   - sort: Their order; the first key counts most. Without one, that of their insertion.
    ///
    /// Throws `StoreError`: as `fetch`.
    public func results<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...
    ) throws -> Results<E> {
        try Results(core, search(predicate, SortKey.parts(of: sort)))
    }

    /// The same with a section for each value of a property. The sections come in ascending order of it, unless it is
    /// the first sort key. See `SectionedResults`.
    ///
    /// - Parameters:
    ///   - type: The entity.
    ///   - predicate: The condition; nil for all objects.
    ///   - sort: Their order in a section; without one, that of their insertion.
    ///   - path: The property.
    ///
    /// Throws `StoreError`: as `fetch`, and `invalidArgument` if the path is no stored property, or has no order.
    public func results<E: Entity, SectionValue>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...,
        sectionedBy path: any KeyPath<E, SectionValue> & Sendable
    ) throws -> SectionedResults<SectionValue, E> {
        let section = SortPart<E>(path: path, isDescending: false)
        return try SectionedResults(core, search(predicate, SortKey.parts(of: sort), section: section), path)
    }

    /// The objects whose searchable texts match a query, in a list that stays current.
    ///
    /// Each change of an object of the entity repeats the search, because it may change the rank of every match. With a
    /// `limit` that costs little.
    ///
    /// - Parameters:
    ///   - type: The entity. Its schema must have a property with the option `.searchable`.
    ///   - query: The words. For another query, make another list.
    ///   - predicate: A further condition; nil for none.
    ///   - sort: Their order; the first key counts most. Without one, the best match first.
    ///   - limit: The most objects in the list: the first ones. Nil for all.
    ///
    /// Throws `StoreError`: as `search`.
    public func results<E: Entity>(
        _ type: E.Type, for query: SearchQuery, where predicate: Predicate<Object<E>>? = nil,
        sortedBy sort: SortKey<E>..., limit: Int? = nil
    ) throws -> Results<E> {
        try Results(core, search(predicate, SortKey.parts(of: sort), for: query, limit: limit))
    }

    /// The same for a text as people type it.
    public func results<E: Entity>(
        _ type: E.Type, for text: String, where predicate: Predicate<Object<E>>? = nil,
        sortedBy sort: SortKey<E>..., limit: Int? = nil
    ) throws -> Results<E> {
        try Results(core, search(predicate, SortKey.parts(of: sort), for: SearchQuery(text), limit: limit))
    }

    private func search<E: Entity>(
        _ predicate: Predicate<Object<E>>?, _ sort: [SortPart<E>], for query: SearchQuery? = nil, limit: Int? = nil,
        section: SortPart<E>? = nil
    ) throws(StoreError) -> LiveSearch<E> {
        let store = try core.requireStore()
        return try LiveSearch(
            predicate, sort, for: query, limit: limit, section: section, followsValues: false, core.snapshot,
            store.declaredModels)
    }
}
