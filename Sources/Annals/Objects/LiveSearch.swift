// What a live list looks for, and the keys by which it is sorted.

internal import FoundationEssentials

/// Which objects of a context are in a list, and in which order.
struct LiveSearch<E: Entity> {
    /// The order in the schema of one state.
    struct Order {
        let binding: EntityBinding
        let columns: [SortColumn]
        /// The number of the entity.
        let entity: UInt16

        var isDescending: Bool { !columns.isEmpty && columns.allSatisfy(\.isDescending) }

        /// The key of an object as a context shows it; nil if it is not shown, or does not satisfy the predicate.
        func key(of id: ObjectID, _ core: ContextCore, _ predicate: Predicate<Object<E>>?) throws -> [UInt8]? {
            let object = core.object(Reference<E>(id))
            if let failure = core.takeFailure() { throw failure }
            guard let object, try core.matches(object, predicate) else { return nil }
            let value = object.current
            if let failure = core.takeFailure() { throw failure }
            return try binding.key(of: value, columns)
        }
    }

    let predicate: Predicate<Object<E>>?
    let sort: [SortKey<E>]
    private let dependencies: ResultsDependencies

    init(_ core: ContextCore, _ predicate: Predicate<Object<E>>?, _ sort: [SortKey<E>]) throws(StoreError) {
        let store = try core.requireStore()
        let snapshot = try core.snapshot
        self.predicate = predicate
        self.sort = sort
        let fetch = try Fetch(snapshot, predicate, sort)
        let sorted = sort.compactMap { key in
            E.model.properties.firstIndex { $0.offset == MemoryLayout<E>.offset(of: key.path) }
        }
        dependencies = ResultsDependencies(
            fetch.plan.condition, sorted, of: E.model, snapshot, store.declaredModels)
    }

    func order(_ snapshot: Snapshot) throws(StoreError) -> Order {
        let layout = try snapshot.layout(of: E.model)
        let binding = try layout.binding(E.self, snapshot.view.catalog)
        return Order(binding: binding, columns: try binding.columns(sort, layout), entity: layout.number)
    }

    /// Whether a change says which objects of the list may have changed.
    func knows(_ change: ContextChange, _ core: ContextCore) throws(StoreError) -> Bool {
        guard let objects = change.objects else { return false }
        if dependencies.isEmpty { return true }
        let snapshot = try core.snapshot
        for (object, slots) in objects {
            if try dependencies.isAffected(by: object, slots, change.older, snapshot) { return false }
        }
        return true
    }

    /// Calls `body` with each object and its key, in no order.
    func forEachRow(_ core: ContextCore, _ body: (ObjectID, [UInt8]) throws -> Void) throws {
        let search = try ContextSearch(core, predicate, true)
        guard !sort.isEmpty else {
            for reference in try search.references([], limit: nil, offset: 0) { try body(reference.id, []) }
            return
        }
        let order = try order(search.snapshot)
        var failure: (any Error)?
        try search.forEachValue { reference, value in
            do {
                if failure == nil { try body(reference.id, try order.binding.key(of: value, order.columns)) }
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
    }
}
