// The search of a live list, and the keys by which it is sorted.

internal import FoundationEssentials

/// Decides which objects are in a live list, and in which order.
struct LiveSearch<E: Entity>: Sendable {
    /// The order in the schema of one state.
    struct Order {
        private let binding: EntityBinding
        private let columns: [SortColumn]
        private let isSectioned: Bool
        /// The number of the entity.
        let entity: UInt16
        /// Whether objects with equal keys are in the opposite order of insertion.
        let isDescending: Bool

        /// - Parameter isRanked: Whether better matches of a search come first.
        fileprivate init(
            _ keys: [SortPart<E>], isSectioned: Bool, isRanked: Bool, _ snapshot: Snapshot
        ) throws(StoreError) {
            let layout = try snapshot.layout(of: E.model)
            binding = try layout.binding(E.self, snapshot.view.catalog)
            columns = try binding.columns(keys)
            self.isSectioned = isSectioned
            entity = layout.number
            isDescending = isRanked || !columns.isEmpty && columns.areDescending
        }

        func key(of value: E) throws(StoreError) -> LiveKey {
            if columns.isEmpty { return LiveKey() }
            guard isSectioned else { return LiveKey(bytes: try binding.key(of: value, columns)) }
            let section = try binding.key(of: value, Array(columns.prefix(1)))
            let rest = try binding.key(of: value, Array(columns.dropFirst()))
            return LiveKey(bytes: section + rest, sectionBytes: section.count)
        }
    }

    let predicate: Predicate<Object<E>>?
    /// The condition on the texts of the objects; nil without one.
    private let query: SearchQuery?
    private let limit: Int?
    /// With that of the sections first.
    private let sort: [SortPart<E>]
    private let isSectioned: Bool
    private let followsValues: Bool
    private(set) var dependencies: ResultsDependencies

    /// - Parameters:
    ///   - query: The condition on the texts of the objects; nil without one.
    ///   - limit: The most objects of a search.
    ///   - section: The property of the sections; nil without sections.
    ///   - followsValues: Whether the values of the objects matter, and not only their order.
    ///   - models: The models that the store was opened with.
    init(
        _ predicate: Predicate<Object<E>>?, _ sort: [SortPart<E>], for query: SearchQuery? = nil, limit: Int? = nil,
        section: SortPart<E>? = nil, followsValues: Bool, _ snapshot: Snapshot, _ models: [EntityModel]
    ) throws(StoreError) {
        (self.predicate, self.query, self.limit) = (predicate, query, limit)
        self.followsValues = followsValues
        isSectioned = section != nil
        var keys = sort
        if let section {
            // If the first sort key has the property of the sections, they follow its direction.
            let first = keys.firstIndex { $0.isOfSameProperty(as: section) }
            if first == 0 {
                keys = [keys[0]] + keys.dropFirst().filter { !$0.isOfSameProperty(as: section) }
            } else {
                keys = [section] + keys
            }
        }
        self.sort = keys
        dependencies = try Self.dependencies(predicate, keys, query != nil, followsValues, snapshot, models)
    }

    private static func dependencies(
        _ predicate: Predicate<Object<E>>?, _ sort: [SortPart<E>], _ isSearch: Bool, _ followsValues: Bool,
        _ snapshot: Snapshot, _ models: [EntityModel]
    ) throws(StoreError) -> ResultsDependencies {
        let condition = try Fetch(snapshot, predicate, sort).run.plan.condition
        let followed = sort.compactMap(\.slot) + (followsValues ? E.model.referringSlots : [])
        let searched = isSearch ? E.model.properties.indices.filter { E.model.properties[$0].searchWeight != nil } : []
        return ResultsDependencies(condition, followed, searched: searched, of: E.model, snapshot, models)
    }

    /// The same in another schema.
    func renewed(_ snapshot: Snapshot, _ models: [EntityModel]) throws(StoreError) -> LiveSearch {
        var renewed = self
        renewed.dependencies = try Self.dependencies(predicate, sort, isSearch, followsValues, snapshot, models)
        return renewed
    }

    /// Calls `body` with a recorder of reads, if a part of the predicate is evaluated on objects.
    mutating func recordingReads<Result>(
        _ snapshot: Snapshot, _ body: (ReadRecorder?) throws -> Result
    ) throws -> Result {
        guard dependencies.isEvaluated else { return try body(nil) }
        let reads = ReadRecorder()
        defer { dependencies.add(reads, snapshot) }
        return try body(reads)
    }

    func order(_ snapshot: Snapshot) throws(StoreError) -> Order {
        try Order(sort, isSectioned: isSectioned, isRanked: isSearch && sort.isEmpty, snapshot)
    }

    /// Whether the list is that of a search. Each object of the entity counts for the rank and the limit, so the search
    /// is repeated after each change that decides about one.
    var isSearch: Bool { query != nil }

    /// The matches in a state; nil if the list is not that of a search.
    func matches(_ snapshot: Snapshot) throws(StoreError) -> [SearchMatch<E>]? {
        guard let query else { return nil }
        var search = try Search(snapshot, query, predicate, FetchPage(limit: limit))
        return try search.matches(sort)
    }

    func key(of match: SearchMatch<E>, _ order: Order) throws(StoreError) -> LiveKey {
        sort.isEmpty ? LiveKey(rank: match.score) : try order.key(of: match.value)
    }
}

extension SortPart {
    /// The slot of the property; nil if it is no stored one.
    fileprivate var slot: Int? { E.model.index(of: path) }

    fileprivate func isOfSameProperty(as other: SortPart) -> Bool { slot != nil && slot == other.slot }
}

// MARK: In a context

extension LiveSearch {
    /// The key of an object as a context shows it; nil if it is not shown, or does not satisfy the predicate.
    mutating func key(of id: ObjectID, _ core: ContextCore, _ order: Order) throws -> LiveKey? {
        let object = core.object(Reference<E>(id))
        if let failure = core.takeFailure() { throw failure }
        guard let object else { return nil }
        let predicate = predicate
        let isMatch = try recordingReads(core.snapshot) { try core.matches(object, predicate, reads: $0) }
        guard isMatch else { return nil }
        let value = object.current
        if let failure = core.takeFailure() { throw failure }
        return try order.key(of: value)
    }

    /// Whether a change lists all objects of the list that may have changed.
    func knows(_ change: ContextChange, _ core: ContextCore) throws(StoreError) -> Bool {
        guard let objects = change.objects else { return false }
        if isSearch {
            if !change.renamed.isEmpty || dependencies.isEvaluated { return false }
            let snapshot = try core.snapshot
            let entity = try order(snapshot).entity
            for (object, slots) in objects where object.entityNumber == entity {
                if try dependencies.isAffected(byOwn: Reference<E>(object), slots, change.older, snapshot) {
                    return false
                }
            }
        }
        if dependencies.isEmpty { return true }
        let snapshot = try core.snapshot
        for (object, slots) in objects {
            if try dependencies.isAffected(by: object, slots, change.older, snapshot) { return false }
        }
        return true
    }

    /// The objects and their keys, in no order.
    mutating func rows(_ core: ContextCore) throws -> [(id: ObjectID, key: LiveKey)] {
        let (snapshot, predicate, isSorted) = (try core.snapshot, predicate, !sort.isEmpty)
        let order = try order(snapshot)
        if let query {
            return try core.foundObjects(query, predicate, sort, FetchPage(limit: limit)).compactMap { found in
                if !isSorted { return (found.object, LiveKey(rank: found.score)) }
                let reference = Reference<E>(found.object)
                let unsaved = core.pending[found.object] == nil ? nil : core.registered(reference)?.current
                let value = try unsaved ?? snapshot.value(reference)
                return try value.map { (found.object, try order.key(of: $0)) }
            }
        }
        return try recordingReads(snapshot) { reads in
            let search = try ContextSearch(core, predicate, true, reads: reads)
            guard isSorted else {
                return try search.references([], limit: nil, offset: 0).map { ($0.id, LiveKey()) }
            }
            var rows: [(id: ObjectID, key: LiveKey)] = []
            var failure: StoreError?
            try search.forEachValue { reference, value in
                do throws(StoreError) {
                    if failure == nil { rows.append((reference.id, try order.key(of: value))) }
                } catch {
                    failure = error
                }
            }
            if let failure { throw failure }
            return rows
        }
    }
}
