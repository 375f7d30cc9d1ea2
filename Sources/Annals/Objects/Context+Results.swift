// How a program gets lists that stay current.

public import FoundationEssentials

extension Context {
    /// The objects that satisfy a predicate, in a list that stays current: after edits in this context, before they are
    /// saved, and after saving, merging, `rollback()`, `undo()` and `redo()`.
    ///
    /// An update costs a look at each object that was changed, two binary searches for each that comes, goes or moves,
    /// and one copy of the list's order, 8 bytes for each element. If the predicate follows a relationship, changes of
    /// the properties that it asks of related objects make the list fetch again. If a part of it is evaluated on
    /// objects (`Snapshot.explain` says so), that counts for everything that it reads. The list also fetches again if
    /// it is not known what a merge has changed: without history, or if more has changed than the context has objects.
    ///
    /// - Parameters:
    ///   - type: The entity.
    ///   - predicate: Which objects; nil for all.
    ///   - sort: Their order; the first key counts most. If there is none, that of their insertion.
    ///
    /// Throws `StoreError`: as `fetch`.
    public func results<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...
    ) throws -> Results<E> {
        try Results(core, search(predicate, SortKey(sort).parts))
    }

    /// The same with a section for each value of a property. The sections come in ascending order of it, unless it is
    /// the first sort key. See `SectionedResults`.
    ///
    /// - Parameters:
    ///   - type: The entity.
    ///   - predicate: Which objects; nil for all.
    ///   - sort: Their order in a section; if there is none, that of their insertion.
    ///   - path: The property.
    ///
    /// Throws `StoreError`: as `fetch`, and `invalidArgument` if the path is no stored property, or has no order.
    public func results<E: Entity, SectionValue>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...,
        sectionedBy path: any KeyPath<E, SectionValue> & Sendable
    ) throws -> SectionedResults<SectionValue, E> {
        let section = SortPart<E>(path: path, isDescending: false)
        return try SectionedResults(core, search(predicate, SortKey(sort).parts, section: section), path)
    }

    private func search<E: Entity>(
        _ predicate: Predicate<Object<E>>?, _ sort: [SortPart<E>], section: SortPart<E>? = nil
    ) throws(StoreError) -> LiveSearch<E> {
        let store = try core.requireStore()
        return try LiveSearch(
            predicate, sort, section: section, followsValues: false, core.snapshot, store.declaredModels)
    }
}
