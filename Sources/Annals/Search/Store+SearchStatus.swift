// Looking at the search indexes of a store, and managing them by names.

/// The search index of an entity.
public struct SearchIndexStatus: Hashable, Sendable, Codable {
    /// The name of the entity.
    public let entity: String
    /// The searched attributes with their weights.
    public let weights: [String: Double]
    /// The objects whose words are in the index.
    public let indexedObjects: Int
    /// The objects that are not in the index, or have changed since: a search reads their rows. Nil if history does not
    /// tell which; then a search reads all rows, until the index is built again.
    public let unindexedObjects: Int?
    /// The size of the index, without what compaction will free.
    public let bytes: UInt64
    /// The parts of the index. Small ones are joined.
    public let segments: Int
    /// The number of terms of all texts that the index has.
    public let terms: UInt64
}

extension Store {
    /// The search indexes, in the order of the entities. Throws `StoreError`: `damaged` if one of them must be built
    /// again.
    public var searchIndexes: [SearchIndexStatus] {
        get throws { try searchIndexes(leavingOutDamaged: false) }
    }

    private func searchIndexes(leavingOutDamaged: Bool) throws -> [SearchIndexStatus] {
        let snapshot = try snapshot()
        guard let blocks = try SearchBlocks(snapshot.view) else { return [] }
        var all: [SearchIndexStatus] = []
        for record in try blocks.records().inOrder(by: { $0.entity < $1.entity }) {
            do throws(StoreError) {
                if let status = try status(record, snapshot) { all.append(status) }
            } catch {
                // A condition of the clause would crash the compiler.
                guard leavingOutDamaged, error.code == .damaged else { throw error }
            }
        }
        return all
    }

    private func status(_ record: SearchBlocks.Record, _ snapshot: Snapshot) throws(StoreError) -> SearchIndexStatus? {
        guard let layout = snapshot.view.shape.newestLayout(record.entity), let state = try record.readableState()
        else {
            return nil
        }
        let scope = SearchedEntity(layout, state)
        let all = try snapshot.view.count(entity: record.entity)
        var unindexed: Int?
        if state.isReadable, state.nextToBuild == 1 {
            unindexed = Int(clamping: all)
        } else if let index = try snapshot.view.core.reading({ () throws(StoreError) in
            try SearchIndex(snapshot, scope)
        }) {
            let alive = index.segments.reduce(0) { $0 + $1.objects - $1.deadObjects }
            unindexed = Int(clamping: all) - alive
        }
        let terms = state.segments.reduce(UInt64(0)) { sum, segment in
            sum + segment.descriptor.totalLengths.reduce(0, +) - segment.deadLengths.reduce(0, +)
        }
        return SearchIndexStatus(
            entity: layout.entity.name.text,
            weights: Dictionary(scope.columns.map { ($0.name, $0.weight) }) { first, _ in first },
            indexedObjects: state.segments.reduce(0) { $0 + $1.aliveObjects }, unindexedObjects: unindexed,
            bytes: state.segments.reduce(0) { $0 + $1.descriptor.byteCount }, segments: state.segments.count,
            terms: terms)
    }

    /// Makes attributes of an entity searchable, for programs without types; those that are already stay so. With
    /// types, the option `.searchable` does this. Their index is built by `updateSearchIndexes`.
    ///
    /// Throws `StoreError`: `unknownEntity`, `unknownAttribute`, `typeMismatch` for an attribute that is no text,
    /// `invalidArgument` for no attribute, for a weight that is not above 0 and up to 1000, or for more than 64
    /// attributes, `readOnly`, and errors of `write`.
    public func addSearchIndex(of entity: String, _ weights: [String: Double]) throws {
        let handle = try self.entity(entity)
        guard !weights.isEmpty else {
            throw StoreError(
                .invalidArgument, "No attribute of “\(entity)” is named: name at least one to search.",
                ObjectFacts(entity))
        }
        for (name, weight) in weights {
            let position = try handle.requirePosition(of: name)
            guard handle.types[position] == .string else {
                throw StoreError(
                    .typeMismatch, "“\(name)” of “\(entity)” is no text: only texts are searchable.",
                    ObjectFacts(entity, [name]))
            }
            guard weight > 0, weight <= 1000 else {
                throw StoreError(
                    .invalidArgument, "The search weight of “\(name)” is \(weight): use one above 0 and up to 1000.")
            }
        }
        guard options.access == .readWrite else {
            throw StoreError(.readOnly, "The store is open for reading only: open it for writing.", path: path)
        }
        let texts = weights.map { SearchDeclaration.Text(name: $0.key, weight: $0.value) }
        try declareSearches([SearchDeclaration(entity: entity, attributes: texts)])
    }

    /// Brings the search indexes up to date: everything is indexed when this returns. Searches do not need it: they
    /// read what is missing. A handle that was opened with searchable types and writes does this in the background.
    ///
    /// Works in steps of one transaction each. If it is interrupted, the next call goes on where it ended. If an index
    /// is damaged, the others are still brought up to date.
    ///
    /// - Parameter progress: Called after each step with the state of the indexes that are not damaged. Return false to
    ///   stop.
    ///
    /// Throws `StoreError`: errors of `write`, and `damaged` for an index that `rebuildSearchIndex` must build again.
    public func updateSearchIndexes(progress: ([SearchIndexStatus]) -> Bool = { _ in true }) throws {
        try searchUpdates.finish { progress(try self.searchIndexes(leavingOutDamaged: true)) }
    }

    /// Throws an entity's search index away and builds it from the rows, also if it is damaged. Parameters and errors
    /// are those of `updateSearchIndexes`. Also throws `unknownEntity`, `notFound` if the entity has no search index,
    /// and `damaged` if neither the index nor the types of this handle show which texts it has: then remove it first.
    public func rebuildSearchIndex(
        of entity: String, progress: ([SearchIndexStatus]) -> Bool = { _ in true }
    ) throws {
        try change(indexOf: entity) { (step) throws(StoreError) in
            try step.beginAgain()
        } repairing: { (record, layout) throws(StoreError) in
            try self.attributes(ofDamaged: record, layout)
        }
        try updateSearchIndexes(progress: progress)
    }

    /// Removes an entity's search index, also if it is damaged. Opening the store with a type that has searchable
    /// properties makes it again.
    ///
    /// Throws `StoreError`: `unknownEntity`, `notFound` if it has none, and errors of `write`.
    public func removeSearchIndex(of entity: String) throws {
        try change(indexOf: entity, advice: "there is nothing to remove") { (step) throws(StoreError) in
            try step.remove()
        } repairing: { _, _ in
            []
        }
        try searchUpdates.keepConsumer()
    }

    static func lacksSearchIndex(
        _ entity: String, advice: String = "make its texts searchable first"
    ) -> StoreError {
        StoreError(.notFound, "“\(entity)” has no search index: \(advice).", ObjectFacts(entity))
    }

    /// `attributes` returns those that the index has after it was damaged; if there are none, it is removed.
    private func change(
        indexOf entity: String, advice: String = "make its texts searchable first",
        _ body: (inout SearchStep) throws(StoreError) -> Void,
        repairing attributes: (SearchBlocks.Record, RowLayout) throws(StoreError) -> [SearchState.Attribute]
    ) throws {
        let number = try self.entity(entity).number
        _ = try handle.write(author: SearchUpdates.name, durability: options.durability) { draft in
            if let blocks = try SearchBlocks(draft.base), let record = try blocks.record(of: number),
                record.damage != nil, let layout = draft.base.shape.newestLayout(number)
            {
                return try blocks.repair(record, with: try attributes(record, layout), draft)
            }
            let snapshot = Snapshot(draft.base, engine(of: draft.base), identifier)
            guard var step = try SearchStep(snapshot, draft, number, SearchLimits()) else {
                throw Self.lacksSearchIndex(entity, advice: advice)
            }
            try body(&step)
        }
    }
}
