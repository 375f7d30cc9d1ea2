// How a program gets lists that stay current.

public import FoundationEssentials

extension Context {
    /// The objects that satisfy a predicate, in a list that stays current: after edits in this context, before they are
    /// saved, and after saving, merging, `rollback()`, `undo()` and `redo()`.
    ///
    /// An update costs a look at each object that was changed, two binary searches for each that comes, goes or moves,
    /// and one copy of the list's order, 8 bytes for each element. If the predicate follows a relationship, changes of
    /// the properties that it asks of related objects make the list fetch again. If a part of it is evaluated on
    /// objects (`Snapshot.explain` says so), every change in the context does. The same if it is not known what a
    /// merge has changed: without history, or if more has changed than there are objects.
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
        try Results(core, LiveSearch(core, predicate, sort))
    }
}
