// One step of an index, in one transaction: over the objects that have changed, and over the next ones to build.
//
// Invariants:
// XU1  The record, new blocks and new lists of dead objects are one transaction, which sets the place to the state that
//      it began with. If another transaction has changed the record since, the step is done again.
// XU2  A step builds at most one segment of objects that were not built yet, so building can go on after any crash.

/// The largest sizes of a step and of its results.
package struct SearchLimits {
    /// A new segment ends after so many terms. Building it takes about 25 bytes for each.
    package var termsPerSegment = 4_000_000
    /// Segments are joined up to these sizes. The list of dead objects must fit into one block.
    var mergedBytes: UInt64 = 48 << 20
    package var mergedObjects = 500_000
    /// So many segments of about the same size are joined.
    package var segmentsPerMerge = 4
    /// A place that lies so many transactions back is moved even if no searched object has changed.
    var transactionsBehind: UInt64 = 4096

    package init() {}
}

extension SearchLimits {
    /// The segments to join next, by ascending index: a few of about the same size, or one that a third of its objects
    /// have left. None if nothing needs joining.
    func segmentsToJoin(_ segments: [SearchState.Segment]) -> [Int] {
        var bySize: [Int: [Int]] = [:]
        for (index, segment) in segments.enumerated() {
            if segment.deadObjects > 0, segment.deadObjects >= segment.descriptor.objectCount / 3 { return [index] }
            guard segment.aliveBytes <= mergedBytes / 2, segment.aliveObjects <= mergedObjects / 2 else { continue }
            bySize[segment.aliveBytes.sizeClass, default: []].append(index)
        }
        for (_, members) in bySize.inOrder(by: { $0.key < $1.key }) where members.count >= segmentsPerMerge {
            var chosen: [Int] = []
            var (bytes, objects) = (UInt64(0), 0)
            for index in members {
                (bytes, objects) = (bytes + segments[index].aliveBytes, objects + segments[index].aliveObjects)
                if bytes > mergedBytes || objects > mergedObjects { break }
                chosen.append(index)
            }
            if chosen.count > 1 { return chosen }
        }
        return []
    }
}

extension SearchState.Segment {
    /// About the size that the segment would have without its dead objects.
    var aliveBytes: UInt64 { descriptor.byteCount / UInt64(descriptor.objectCount) * UInt64(aliveObjects) }
}

extension UInt64 {
    /// The same for sizes of which the larger one is less than four times the smaller.
    fileprivate var sizeClass: Int { (UInt64.bitWidth - (self >> 16).leadingZeroBitCount) / 2 }
}

/// The result of a step.
package struct SearchProgress: Equatable {
    /// Whether the step has written anything.
    var hasWritten = false
    /// Whether objects are left that were not built yet.
    var isBuilding = false
}

/// A step in a transaction.
struct SearchStep {
    private let snapshot: Snapshot
    private let draft: Draft
    private let blocks: SearchBlocks
    private let limits: SearchLimits
    private let object: ObjectID
    private(set) var state: SearchState
    /// Lists of dead objects that this step changes, by the index of the segment.
    private var opened: [Int: SearchIndex.Segment] = [:]
    private var view: View { snapshot.view }

    /// Nil if the entity has no index, or a newer program's. Throws `damaged` if the record is.
    init?(_ snapshot: Snapshot, _ draft: Draft, _ entity: UInt16, _ limits: SearchLimits) throws(StoreError) {
        guard let blocks = try SearchBlocks(snapshot.view), let record = try blocks.record(of: entity),
            let state = try record.readableState(), state.tokenizer <= Tokenizer.version
        else { return nil }
        (self.snapshot, self.draft, self.blocks, self.limits) = (snapshot, draft, blocks, limits)
        (object, self.state) = (record.object, state)
    }

    private var end: TransactionPlace { TransactionPlace(number: view.number, tag: view.tag) }

    // MARK: Moving on

    /// Moves the index to the state at which the transaction began.
    mutating func moveOn(of entity: UInt16) throws(StoreError) -> SearchProgress {
        let scope = view.shape.newestLayout(entity).map { layout in
            SearchedEntity(layout, state)
        }
        guard let scope, !scope.columns.isEmpty else {
            // The entity, or the last of its searched attributes, was removed.
            try remove()
            return SearchProgress(hasWritten: true)
        }
        if view.historyGaps.contains(where: { $0.entity == entity && $0.end == .open }) { return try suspend() }
        guard scope.columns.count == state.attributes.count else { return try beginAgain(with: scope) }
        let changed = try snapshot.objects(
            of: entity, changedAfter: state.place, atMost: SearchIndex.mostChanged)
        guard state.isReadable, let changed else { return try beginAgain(with: scope) }
        let behind = view.number - state.place.number
        let hasNew = view.nextNumber(of: entity) > state.nextToBuild
        let old = changed.filter { $0.number < state.nextToBuild }
        guard hasNew || !old.isEmpty || behind >= limits.transactionsBehind else { return SearchProgress() }
        return try view.core.reading { () throws(StoreError) in
            let writer = SearchSegmentWriter(scope, snapshot, limits, positional: state.attributes.positional)
            for object in old {
                try leaveOut(object)
                try writer.add(object)
            }
            if hasNew { state.nextToBuild = try writer.addRows(from: state.nextToBuild, in: view) }
            for segment in try writer.finish() { try insert(segment) }
            try writeDead()
            // XU1.
            state.place = end
            try write()
            return SearchProgress(
                hasWritten: true, isBuilding: state.nextToBuild < view.nextNumber(of: entity))
        }
    }

    /// Throws the index away: it is built from the rows again.
    mutating func beginAgain() throws(StoreError) {
        try removeSegments()
        state = SearchState(place: end, attributes: state.attributes)
        try write()
    }

    /// Builds the index from the rows again: of other attributes, with another tokenizer, or because history no longer
    /// reaches back to its place.
    private mutating func beginAgain(with scope: SearchedEntity) throws(StoreError) -> SearchProgress {
        try removeSegments()
        let attributes = state.attributes.filter { known in
            scope.columns.contains { $0.attribute == known.number }
        }
        state = SearchState(place: end, attributes: attributes)
        try write()
        return SearchProgress(hasWritten: true, isBuilding: !attributes.isEmpty)
    }

    /// Without history nothing tells what has changed: searches read the rows.
    private mutating func suspend() throws(StoreError) -> SearchProgress {
        guard state.nextToBuild > 1 else { return SearchProgress() }
        try removeSegments()
        state.nextToBuild = 1
        try write()
        return SearchProgress(hasWritten: true)
    }

    /// Sets the attributes. If there are others than before, the index is built again.
    mutating func declare(_ attributes: [SearchState.Attribute]) throws(StoreError) {
        if attributes == state.attributes { return }
        let isSameIndex = attributes.map(\.number) == state.attributes.map(\.number)
        if isSameIndex, attributes.positional == state.attributes.positional {
            state.attributes = attributes
        } else {
            try removeSegments()
            state = SearchState(place: end, attributes: attributes)
        }
        try write()
    }

    // MARK: Joining

    /// Joins segments of about the same size if there are enough of them, or one with many dead objects. Returns false
    /// if there is nothing to join.
    mutating func join() throws(StoreError) -> Bool {
        try join(limits.segmentsToJoin(state.segments))
    }

    /// Writes a segment with dead objects again, without them. Returns false if there is none.
    mutating func rewrite() throws(StoreError) -> Bool {
        try join(state.segments.firstIndex { $0.deadObjects > 0 }.map { [$0] } ?? [])
    }

    private mutating func join(_ chosen: [Int]) throws(StoreError) -> Bool {
        guard state.isReadable, !chosen.isEmpty else { return false }
        return try view.core.reading { () throws(StoreError) in
            let open = try chosen.map { (index) throws(StoreError) in try blocks.open(state.segments[index]) }
            var written: [[UInt8]] = []
            let descriptor = try SegmentMerge.merge(open.map(\.reader), dead: open.map(\.dead)) { (block) in
                written.append(Array(block))
            }
            for index in chosen.reversed() { try remove(state.segments.remove(at: index)) }
            if let descriptor { try insert(BuiltSegment(descriptor: descriptor, blocks: written)) }
            try write()
            return true
        }
    }

    // MARK: Dead objects

    private mutating func leaveOut(_ object: ObjectID) throws(StoreError) {
        for index in state.segments.indices {
            let descriptor = state.segments[index].descriptor
            guard object.number >= descriptor.firstNumber, object.number <= descriptor.lastNumber else { continue }
            if opened[index] == nil { opened[index] = try blocks.open(state.segments[index]) }
            guard var segment = opened.removeValue(forKey: index) else { continue }
            // XS1: it is alive in the new segment instead.
            if let ordinal = try segment.reader.ordinal(of: object.number) { try segment.leaveOut(ordinal) }
            opened[index] = segment
        }
    }

    private mutating func writeDead() throws(StoreError) {
        var gone: [Int] = []
        for (index, segment) in opened where segment.deadObjects != Int(state.segments[index].deadObjects) {
            if segment.deadObjects == segment.objects {
                gone.append(index)
                continue
            }
            var bytes = ByteWriter(capacity: segment.dead.count * 8)
            for word in segment.dead { bytes.append(word) }
            let value = StoredValue.data(Array(bytes.bytes))
            state.segments[index].note(segment)
            if let row = blockID(state.segments[index].deadRow) {
                try draft.update(row, [(0, value)])
            } else {
                state.segments[index].deadRow = try draft.insert(entity: blocks.blocks.number, [value]).number
            }
        }
        opened = [:]
        for index in gone.sorted(by: >) { try remove(state.segments.remove(at: index)) }
    }

    // MARK: Rows

    private func blockID(_ number: UInt64) -> ObjectID? {
        number == 0 ? nil : ObjectID(entityNumber: blocks.blocks.number, number: number)
    }

    private mutating func insert(_ segment: BuiltSegment) throws(StoreError) {
        assert(segment.descriptor.objectCount <= limits.mergedObjects, "A list of dead objects has no room in a block.")
        let entity = blocks.blocks.number
        let first = try draft.draw(entity: entity, count: UInt64(segment.blocks.count))
        for (index, block) in segment.blocks.enumerated() {
            guard let id = ObjectID(entityNumber: entity, number: first + UInt64(index)) else {
                throw .tooManyObjects
            }
            try draft.insert(drawn: id, [.data(block)])
        }
        state.segments.append(SearchState.Segment(firstBlock: first, descriptor: segment.descriptor))
    }

    private func remove(_ segment: SearchState.Segment) throws(StoreError) {
        for block in 0..<UInt64(segment.descriptor.blockCount) { try removeBlock(segment.firstBlock + block) }
        try removeBlock(segment.deadRow)
    }

    /// A damaged index may lack blocks, and is still removed.
    private func removeBlock(_ number: UInt64) throws(StoreError) {
        guard let id = blockID(number) else { return }
        do throws(StoreError) {
            try draft.delete(id)
        } catch {
            guard error.code == .objectNotFound else { throw error }
        }
    }

    private mutating func removeSegments() throws(StoreError) {
        if let own = try blocks.blocks(namedByNoneBut: object) {
            for block in own { try removeBlock(block.number) }
        } else {
            for segment in state.segments { try remove(segment) }
        }
        (state.segments, opened) = ([], [:])
    }

    private func write() throws(StoreError) { try draft.update(object, [(1, .data(state.encoded))]) }

    /// Removes the index.
    mutating func remove() throws(StoreError) {
        try removeSegments()
        try draft.delete(object)
    }
}

extension SearchState.Segment {
    /// Takes over the dead objects of an open segment.
    mutating func note(_ segment: SearchIndex.Segment) {
        deadObjects = UInt32(segment.deadObjects)
        for attribute in deadLengths.indices {
            deadLengths[attribute] = descriptor.totalLengths[attribute] - segment.lengths[attribute]
        }
    }
}

/// A segment in memory.
struct BuiltSegment {
    let descriptor: SegmentDescriptor
    let blocks: [[UInt8]]
}

/// Makes segments from the rows of objects. A class, because closures over rows change it. For one thread.
private final class SearchSegmentWriter {
    private let scope: SearchedEntity
    private let snapshot: Snapshot
    private let limits: SearchLimits
    @exclusivity(unchecked) private var builder: SegmentBuilder
    @exclusivity(unchecked) private var tokenizer = Tokenizer()
    private var built: [BuiltSegment] = []

    init(_ scope: SearchedEntity, _ snapshot: Snapshot, _ limits: SearchLimits, positional: UInt64) {
        (self.scope, self.snapshot, self.limits) = (scope, snapshot, limits)
        builder = SegmentBuilder(attributes: max(scope.columns.count, 1), positional: positional)
    }

    /// Adds an object, if it exists.
    func add(_ object: ObjectID) throws(StoreError) {
        let (snapshot, layout) = (snapshot, scope.layout)
        _ = try snapshot.view.withRow(object) { (row) throws(StoreError) in
            try snapshot.lend(object, row, layout) { (row) throws(StoreError) in try add(row) }
        }
    }

    /// Adds objects by ascending number until a segment is full. Returns the number after the last one.
    func addRows(from number: UInt64, in view: View) throws(StoreError) -> UInt64 {
        let (snapshot, layout) = (snapshot, scope.layout)
        var next = view.nextNumber(of: scope.entity)
        try view.scan(entity: scope.entity, from: number) { (object, row) throws(StoreError) in
            // XU2.
            if isFull {
                next = object.number
                return false
            }
            try snapshot.lend(object, row, layout) { (row) throws(StoreError) in try add(row) }
            return true
        }
        return next
    }

    private var isFull: Bool {
        builder.termCount >= limits.termsPerSegment || builder.objectCount >= limits.mergedObjects
    }

    private func add(_ row: borrowing RowView) throws(StoreError) {
        if isFull || !builder.canAdd(row.id.number) { try flush() }
        builder.begin(number: row.id.number)
        try scope.forEachText(row) { (column, text) in
            tokenizer.forEachTerm(of: text) { (term, place) in
                builder.add(term: term, attribute: column, position: place.position)
            }
        }
        builder.end()
    }

    private func flush() throws(StoreError) {
        guard !builder.isEmpty else { return }
        var blocks: [[UInt8]] = []
        let descriptor = try builder.finish { (block) in blocks.append(Array(block)) }
        built.append(BuiltSegment(descriptor: descriptor, blocks: blocks))
    }

    func finish() throws(StoreError) -> [BuiltSegment] {
        try flush()
        return built
    }
}
