// The search index of an entity in one state, for reading.
//
// Invariants:
// SX1  A search with the index finds the same objects with the same scores as one that looks at every row: each object
//      is either alive in one segment or loose, and never both.

/// An index that a search can use.
struct SearchIndex {
    /// An open segment.
    struct Segment {
        let reader: SegmentReader
        let objects: Int
        /// For each object whether it counts no more: it has changed, or was deleted. 64 in a word; empty if all count.
        var dead: [UInt64]
        var deadObjects: Int
        /// The terms of all its objects that count, by attribute.
        var lengths: [UInt64]
    }

    let scope: SearchedEntity
    /// The columns of `scope` in the index: their places among its attributes.
    let columns: [Int]
    private(set) var segments: [Segment]
    /// Objects with a smaller number than `firstUnbuilt` that have changed since, by ascending ID.
    let changed: [ObjectID]
    /// All objects from this number on are loose.
    let firstUnbuilt: UInt64

    /// Reads the index of the scope's entity. Nil if this state has none, or none that can be used: then every object
    /// is loose. Call it, and use the result, in a read section (`ReadCore.reading`).
    init?(_ snapshot: Snapshot, _ scope: SearchedEntity) throws(StoreError) {
        guard let blocks = try SearchBlocks(snapshot.view),
            let state = try blocks.record(of: scope.entity)?.readableState(), state.isReadable
        else { return nil }
        var columns: [Int] = []
        for column in scope.columns {
            guard let place = state.attributes.firstIndex(where: { $0.number == column.attribute }) else { return nil }
            columns.append(place)
        }
        guard state.nextToBuild > 1,
            let changed = try snapshot.objects(
                of: scope.entity, changedAfter: state.place, atMost: Self.mostChanged)
        else { return nil }
        (self.scope, self.columns, firstUnbuilt) = (scope, columns, state.nextToBuild)
        self.changed = changed.filter { $0.number < state.nextToBuild }
        segments = []
        for segment in state.segments { segments.append(try blocks.open(segment)) }
        // Changed objects are loose (SX1).
        try leaveOut(self.changed)
    }

    /// More changes than these are not listed, so that a list takes at most 32 MiB: reading every row is as fast.
    static let mostChanged = 4_000_000

    /// Leaves out objects: the caller has changed them.
    mutating func leaveOut(_ objects: some Sequence<ObjectID>) throws(StoreError) {
        for object in objects {
            for index in segments.indices {
                guard let ordinal = try segments[index].reader.ordinal(of: object.number) else { continue }
                try segments[index].leaveOut(ordinal)
            }
        }
    }
}

extension SearchIndex.Segment {
    func isDead(_ ordinal: Int) -> Bool { !dead.isEmpty && dead[ordinal >> 6] >> UInt64(ordinal & 63) & 1 == 1 }

    /// Notes that an object counts no more. Returns false if it did not before.
    @discardableResult
    mutating func leaveOut(_ ordinal: Int) throws(StoreError) -> Bool {
        if isDead(ordinal) { return false }
        if dead.isEmpty { dead = [UInt64](repeating: 0, count: (objects + 63) / 64) }
        dead[ordinal >> 6] |= 1 << UInt64(ordinal & 63)
        deadObjects += 1
        for attribute in lengths.indices {
            let length = UInt64(try reader.length(ordinal, attribute))
            guard length <= lengths[attribute] else { throw SearchBlocks.damaged("the lengths of texts") }
            lengths[attribute] -= length
        }
        return true
    }
}

/// The rows of all indexes in one state.
struct SearchBlocks {
    let view: View
    let searches: EntityHandle
    let blocks: EntityHandle

    /// Nil if the state has none, or is one of the past: their history is not kept.
    init?(_ view: View) throws(StoreError) {
        guard view.totals != nil, !view.reservedEntities.isEmpty,
            let searches = try ReservedEntity.handle(.searches, view.catalog),
            let blocks = try ReservedEntity.handle(.searchBlocks, view.catalog)
        else { return nil }
        (self.view, self.searches, self.blocks) = (view, searches, blocks)
    }

    /// A record of an index.
    struct Record {
        let object: ObjectID
        let entity: UInt16
        /// Nil if a newer program has given it another form, or if it is damaged.
        let state: SearchState?
        /// Of a damaged record.
        var damage: StoreError?
        /// Of a damaged record: the attributes, if they can be read. Otherwise empty.
        var attributes: [SearchState.Attribute] = []

        /// The state; nil if a newer program has given it another form. Throws `damaged`.
        func readableState() throws(StoreError) -> SearchState? {
            if let damage { throw damage }
            return state
        }
    }

    /// One damaged record does not hide the others. A record of an impossible entity is left out.
    func records() throws(StoreError) -> [Record] {
        var records: [Record] = []
        try view.scan(entity: searches.number) { (object, row) throws(StoreError) in
            guard let entity = row.int(at: 0).flatMap({ UInt16(exactly: $0) }) else { return true }
            var content: [UInt8] = []
            do throws(StoreError) {
                if case .data(let bytes) = try view.value(row, at: 1) { content = bytes }
                let state = try content.withUnsafeBufferPointer { (content) throws(StoreError) in
                    try SearchState(UnsafeRawBufferPointer(content))
                }
                records.append(Record(object: object, entity: entity, state: state))
            } catch {
                guard error.code == .damaged else { throw error }
                let attributes = content.withUnsafeBytes { SearchState.attributes($0) }
                records.append(
                    Record(
                        object: object, entity: entity, state: nil,
                        damage: Self.damaged("the record (\(error.message))"), attributes: attributes))
            }
            return true
        }
        return records
    }

    func record(of entity: UInt16) throws(StoreError) -> Record? {
        try records().first { $0.entity == entity }
    }

    func open(_ segment: SearchState.Segment) throws(StoreError) -> SearchIndex.Segment {
        // XS2.
        let (first, descriptor) = (segment.firstBlock, segment.descriptor)
        let reader = SegmentReader(descriptor) { (block) throws(StoreError) in try bytes(first + UInt64(block)) }
        var lengths: [UInt64] = []
        for (all, dead) in zip(descriptor.totalLengths, segment.deadLengths) {
            guard dead <= all else { throw Self.damaged("the lengths of texts") }
            lengths.append(all - dead)
        }
        var dead: [UInt64] = []
        if segment.deadRow > 0 {
            let bytes = try bytes(segment.deadRow)
            guard bytes.count == (descriptor.objectCount + 63) / 64 * 8 else { throw Self.damaged("a list of objects") }
            dead = (0..<bytes.count / 8).map { bytes.integer(at: $0 * 8, as: UInt64.self) }
            guard dead.reduce(0, { $0 + $1.nonzeroBitCount }) == segment.deadObjects else {
                throw Self.damaged("a list of objects")
            }
        }
        return SearchIndex.Segment(
            reader: reader, objects: descriptor.objectCount, dead: dead, deadObjects: Int(segment.deadObjects),
            lengths: lengths)
    }

    /// The content of a block, which lives until the read section ends.
    private func bytes(_ number: UInt64) throws(StoreError) -> UnsafeRawBufferPointer {
        guard let object = ObjectID(entityNumber: blocks.number, number: number) else { throw Self.damaged("a block") }
        var content: UnsafeRawBufferPointer?
        _ = try view.withRow(object) { (row) throws(StoreError) in
            if case .inline(let bytes) = try row.variable(at: 0) { content = bytes }
        }
        guard let content else { throw Self.damaged("a block") }
        return content
    }

    static func damaged(_ what: String) -> StoreError {
        StoreError(
            .damaged,
            "SX1: \(what) of a search index is damaged. Build the index again: `annals search-index STORE --rebuild "
                + "ENTITY`.")
    }
}
