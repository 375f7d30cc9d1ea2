// Builds the ordered indexes that a schema change needs over existing objects, while other handles read and write.
//
// Invariants:
// J1  Each index has exactly the keys of its entity's rows as of transaction `number`, by the future schema.
// J2  No other handle sees these indexes: no checkpoint names their nodes until the schema change is in the store.
// J3  Options bound the keys being sorted and the nodes in memory, for any number of objects.

/// An index that was built before the transaction that needs it.
struct PreparedIndex {
    let shape: IndexShape
    var content: OrderedIndex
}

/// For one use by one thread: `run`, then `finish` with the writer lock, which is held until the transaction is
/// appended.
///
/// Reads the rows of a view in the order of their numbers and sorts their keys. Writes the index from its least key on,
/// in slices with a short hold of the lock each. Then it catches up: it applies later commits from the history, in ever
/// shorter rounds. The last one and the append are under the same lock.
final class IndexBuild {
    /// The indexes to build, including those that were empty at the beginning: they may no longer be empty at the end.
    var indexes: [PreparedIndex] = []
    let engine: Engine
    /// Called repeatedly while it runs. An error that it throws ends the build.
    var progress: (() throws(StoreError) -> Void)?
    private var bytesSinceReport = 0
    /// The future schema.
    let shape: StoreShape
    /// The version before it. No other handle may add one during the build.
    let version: UInt16
    private let view: View
    /// Whether a following checkpoint writes the nodes, as long as memory holds them. No other handle writes then.
    private let isCompleting: Bool
    var number: UInt64
    var keys = ByteWriter(capacity: 1024)
    /// Objects with the same key, and the position of the index that should be unique.
    private var duplicates: [(place: Int, pair: (ObjectID, ObjectID))] = []
    private static let maximumDuplicates = 10

    /// Nil if no index has to be built. Throws `schemaChanged` unless the transaction's schema is the successor of the
    /// newest one.
    init?(_ engine: Engine, _ transaction: DraftFrames) throws(StoreError) {
        // Appending throws the reason that prevents writing.
        guard engine.log.access == .readWrite else { return nil }
        try engine.log.ledger.requireUsable()
        let view = try engine.view()
        guard view.catalog.newestVersion == transaction.prepared.baseSchemaVersion else { throw Self.overtaken }
        let next = Indexes.OrderedState(
            after: transaction.catalog, view.shape, view.ordered, view.totals ?? StoreTotals(),
            engine.options.deltas.ordered)
        guard next.ordered.contains(where: { $0 == nil }) else { return nil }
        self.engine = engine
        self.view = view
        isCompleting = false
        shape = next.shape
        version = transaction.prepared.baseSchemaVersion
        number = view.number
        for (index, known) in zip(next.shape.indexes, next.ordered) {
            guard known?.isEmpty ?? true else { continue }
            indexes.append(PreparedIndex(shape: index, content: OrderedIndex(engine.options.deltas.ordered)))
        }
    }

    /// Builds missing indexes of a store's schema. Nil if all exist.
    init?(completing engine: Engine) throws(StoreError) {
        guard !engine.indexes.isComplete else { return nil }
        let view = try engine.view()
        self.engine = engine
        self.view = view
        isCompleting = true
        shape = view.shape
        version = view.catalog.newestVersion
        number = view.number
        for (index, known) in zip(shape.indexes, view.ordered) where known == nil {
            indexes.append(PreparedIndex(shape: index, content: OrderedIndex(engine.options.deltas.ordered)))
        }
    }

    static var overtaken: StoreError {
        StoreError(.schemaChanged, "Another process changed the schema: begin the transaction again.")
    }

    /// Does all slow work. Holds the writer lock for only a slice at a time.
    func run() throws(StoreError) {
        for place in indexes.indices { try build(place) }
        if !isCompleting { try catchUp() }
    }

    private func report() throws(StoreError) {
        bytesSinceReport = 0
        try progress?()
    }

    /// Called after each key. Reports about as often as a slice of the index is written.
    private func note(keyBytes: Int) throws(StoreError) {
        bytesSinceReport += keyBytes
        if bytesSinceReport >= engine.options.indexSliceBytes { try report() }
    }

    // MARK: From the rows of the view

    private func build(_ place: Int) throws(StoreError) {
        let index = indexes[place].shape
        let log = engine.log
        let sorter = KeySorter(log.files, memoryBytes: engine.options.keySortBytes) { () throws(StoreError) in
            try log.whileOpen { () throws(StoreError) in try log.files.createUnnamed(in: log.directory, mode: 0o600) }
        }
        let rows = View(
            end: view.end, number: view.number, tag: view.tag, time: view.time, shape: shape, core: view.core,
            totals: nil, ordered: [])
        try rows.scan(entity: index.id.entity) { (object, row) throws(StoreError) in
            keys.truncate()
            try index.forEachKey(of: row, in: &keys, large: IndexShape.noLargeKeys) {
                (key, hasAbsent) throws(StoreError) in
                try sorter.append(key, object, hasAbsent: hasAbsent)
                try note(keyBytes: key.count)
            }
            return true
        }
        // Before anything is written: an impossible index must not make the store grow.
        if index.id.isUnique { try requireUnique(sorter, place) }
        var entries = try sorter.sorted()
        while let entry = try entries.next() {
            guard let object = ObjectID(entityNumber: index.id.entity, number: entry.number) else { continue }
            var keyBytes = 0
            try entry.withKey { (key) throws(StoreError) in
                keyBytes = key.count
                try view.core.reading { () throws(StoreError) in
                    _ = try indexes[place].content.insert(key, object, view.core.file)
                }
            }
            try note(keyBytes: keyBytes)
            // Only at twice the size of a slice, so that the nodes for the next keys stay in memory.
            if indexes[place].content.dirtyBytes >= 2 * engine.options.indexSliceBytes { try writeSlice(place) }
        }
        if !isCompleting || hasManyNodes { try write(place) }
    }

    private func requireUnique(_ sorter: KeySorter, _ place: Int) throws(StoreError) {
        let entity = indexes[place].shape.id.entity
        var entries = try sorter.sorted()
        // The first entry with its key.
        guard var first = try entries.next() else { return }
        while duplicates.count < Self.maximumDuplicates, let next = try entries.next() {
            guard next.hasSameKey(as: first), !next.hasAbsent else {
                first = next
                continue
            }
            if let object = ObjectID(entityNumber: entity, number: next.number),
                let other = ObjectID(entityNumber: entity, number: first.number)
            {
                note(duplicate: object, of: other, place)
            }
        }
        try refuseDuplicates()
    }

    func note(duplicate object: ObjectID, of other: ObjectID, _ place: Int) {
        assert(object != other, "An object has its own unique key.")
        if duplicates.count < Self.maximumDuplicates { duplicates.append((place, (object, other))) }
    }

    func refuseDuplicates() throws(StoreError) {
        guard let place = duplicates.first?.place else { return }
        throw indexes[place].shape.uniqueViolation(duplicates.lazy.filter { $0.place == place }.map(\.pair))
    }

    /// Writes the nodes of an index to the file, a slice at a time.
    func write(_ place: Int) throws(StoreError) {
        while indexes[place].content.dirtyBytes > 0 { try writeSlice(place) }
    }

    private func writeSlice(_ place: Int) throws(StoreError) {
        try report()
        try engine.appendSlice(of: &indexes[place].content, ofSchema: version)
    }
}
