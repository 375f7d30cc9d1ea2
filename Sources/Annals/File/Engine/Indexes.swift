// The indexes of an open store. They follow the log, and every committed state becomes a view.
//
// Invariants:
// I1  Between two calls the indexes are exactly those of the state published last, or adopted since.
// I2  One thread at a time changes them: with the log's `follow` lock, or while appending with the writer lock, which
//     excludes the former.
// I3  `newest` is replaced if a reader holds it. A held view stays readable.
// I4  An entry of the row index may be newer than `newest.end`, never older. Views follow its previous version.

internal import Synchronization

/// Sound although it is shared: by I2. Readers use `core`, which guards itself, and `newest`, which is only touched
/// with `follow` locked. So accesses cannot overlap. Checking this would cost a tenth of a commit.
final class Indexes: LogFollower, @unchecked Sendable {
    let core: ReadCore
    /// The row index of `core`.
    let rows: RowIndex
    private let file: VerifiedFile
    private let sections: ReadSections
    let environment: any Environment
    @exclusivity(unchecked) private(set) var shape: StoreShape
    @exclusivity(unchecked) private(set) var totals = StoreTotals()
    @exclusivity(unchecked) private var reservedEnds: [UInt16: UInt64] = [:]
    /// One for each of `shape.indexes`; nil if it must still be built.
    @exclusivity(unchecked) var ordered: [OrderedIndex?] = []
    @exclusivity(unchecked) private(set) var landmarks = Landmarks()
    private let reader: CheckpointReader
    private let layouts: LayoutPool
    /// The first schema of a new store takes its layouts from here.
    private let emptyShape: StoreShape
    @exclusivity(unchecked) private(set) var counts = FrameCounts()
    @exclusivity(unchecked) private(set) var checkpoint = CheckpointProgress()
    /// Later formats' parts of checkpoints, kept from one checkpoint to the next.
    private var extensions: [CheckpointExtension] = []
    /// Members of another handle's transaction whose commit frame has not come yet.
    private var members: [(header: FrameHeader, offset: UInt64)] = []
    /// The state published last.
    @exclusivity(unchecked) private(set) var newest: View

    /// Empty indexes, for a file that is being opened.
    init(_ opening: FileBeingOpened, _ options: EngineOptions) throws(StoreError) {
        layouts = options.layouts
        let mapping = options.reading == .mapped ? opening.mapping?.mapping : nil
        let file = try VerifiedFile(
            opening.files, opening.file, header: opening.header, path: opening.path, mapping: mapping,
            copies: { options.log.limits.reserve(fileBytes: opening.size) { PrivateMemory(count: max($0, 1 << 20)) } },
            maximumCopiedBytes: options.copiedBytes)
        let core = try ReadCore(file, ReadSections(), options.deltas)
        self.core = core
        (rows, self.file, sections) = (core.rows, core.file, core.sections)
        environment = opening.environment
        reader = CheckpointReader(opening.files, opening.file, salt: opening.header.salt)
        emptyShape = StoreShape(SchemaCatalog(layouts: layouts, mark: opening.header.storeID.mark))
        shape = emptyShape
        newest = View(
            end: UInt64(FormatLimits.pageBytes), number: opening.header.baseNumber, tag: opening.header.baseTag,
            time: opening.header.baseTime, shape: shape, core: core, totals: StoreTotals(), ordered: [])
    }

    // MARK: Views

    func publish(_ state: LogProgress) {
        file.advance(to: state.end)
        // Usually no reader has the view, because the transaction that began on it has released it. Otherwise it is
        // replaced: I3.
        if newest.shape === shape, isKnownUniquelyReferenced(&newest) {
            // Readers' reads of the view, before they released it, happen before its changes.
            atomicMemoryFence(ordering: .acquiring)
            newest.advance(to: state, totals)
            if !ordered.isEmpty { newest.advance(ordered) }
        } else {
            newest = view(of: state)
        }
        assert(newest.end == state.end && newest.number == state.lastNumber, "I1: another state was published.")
        sections.reclaim()
    }

    /// The state as a view, published or not.
    func view(of state: LogProgress) -> View {
        View(
            end: state.end, number: state.lastNumber, tag: state.lastTag, time: state.lastTime, shape: shape,
            core: core, totals: totals, ordered: ordered)
    }

    func close() { core.sections.close(environment) }

    // MARK: Adopting frames of other handles

    func adopt(
        _ frame: FrameView, _ accepted: LogState.Accepted, _ state: LogState
    ) throws(StoreError) {
        try core.file.requireReach(frame.end)
        core.file.beginReading()
        defer { core.file.endReading() }
        let isMember = if case .member = accepted { true } else { false }
        core.file.adopt(frame, counts: !isMember)
        switch accepted {
        case .member:
            // Members of an unfinished transaction never counted.
            if state.open?.start == frame.offset { members.removeAll(keepingCapacity: true) }
            members.append((frame.header, frame.offset))
        case .standalone:
            note(frame.header, at: frame.offset)
            core.file.advance(to: frame.end)
            switch frame.header.kind {
            case .checkpoint: try adoptCheckpoint(frame, state)
            case .schema: adopt(state.catalog)
            case .rows: try applyAll(frame)
            case .metadata: try applyObjectNumbers(frame)
            case .nodes: checkpoint.foundNodes(endingAt: frame.end)
            default: break
            }
        case .commit(let record):
            core.file.advance(to: frame.end)
            if record.changesSchema { adopt(state.catalog) }
            var changes = OrderedChanges()
            if record.start < frame.offset { try applyMembers(&changes) }
            note(frame.header, at: frame.offset)
            try apply(frame, ordered: &changes)
            try settle(&changes)
        }
    }

    /// Applies the members of a transaction that counts. Reads only the parts again.
    private func applyMembers(_ changes: inout OrderedChanges) throws(StoreError) {
        for (header, offset) in members {
            note(header, at: offset)
            guard header.kind == .part else { continue }
            try core.reading { () throws(StoreError) in
                try apply(try core.frame(at: offset), ordered: &changes)
            }
            if changes.memoryBytes > Self.orderedChangesBytes { try settle(&changes) }
        }
    }

    /// The size of a transaction's changes of ordered indexes that is gathered before applying them.
    private static let orderedChangesBytes = 16 << 20

    private func applyAll(_ frame: FrameView) throws(StoreError) {
        var changes = OrderedChanges()
        try apply(frame, ordered: &changes)
        try settle(&changes)
    }

    /// Applies a frame with changes that compaction has appended to its own file. The frame need not be in the file
    /// yet, unless ordered indexes follow, which read rows.
    ///
    /// Throws `damaged` if an object already has a version at or above `start`, the beginning of the transaction.
    func applyCopied(_ frame: FrameView, start: UInt64, maintainingOrdered: Bool) throws(StoreError) {
        note(frame.header, at: frame.offset)
        if maintainingOrdered { file.advance(to: frame.end) }
        var changes = OrderedChanges()
        try apply(frame, ordered: &changes, maintainingOrdered: maintainingOrdered, start: start)
        try settle(&changes)
    }

    /// Whether every index of the schema exists.
    var isComplete: Bool { !ordered.contains { $0 == nil } }

    /// Drops all ordered indexes: they will be built after all rows.
    func dropOrdered() { ordered = [OrderedIndex?](repeating: nil, count: shape.indexes.count) }

    /// Notes small frames that this handle has just appended outside of transactions.
    func noteStandalone(from start: UInt64, to end: UInt64) throws(StoreError) {
        file.advance(to: end)
        try forEachFrame(from: start, to: end) { (frame) throws(StoreError) in
            note(frame.header, at: frame.offset)
            if frame.header.kind == .metadata { try applyObjectNumbers(frame) }
        }
    }

    /// Whether a new schema version needs an index over existing rows. Adopting it does not build that index.
    func hasRowsToIndex(after catalog: SchemaCatalog) -> Bool {
        let all = [OrderedIndex?](repeating: OrderedIndex(rows.deltas.ordered), count: shape.indexes.count)
        return OrderedState(after: catalog, shape, all, totals, rows.deltas.ordered).ordered.contains { $0 == nil }
    }

    /// Installs an index that compaction has built.
    func install(_ built: OrderedIndex, at place: Int) {
        ordered[place] = built
        checkpoint.builtIndex()
    }

    /// Lends verified frames that count, or are about to, from a part of the file known to be readable.
    func forEachFrame(
        from start: UInt64, to end: UInt64, _ body: (FrameView) throws(StoreError) -> Void
    ) throws(StoreError) {
        var position = start
        while position < end {
            position = try core.reading { () throws(StoreError) in
                let frame = try core.frame(at: position)
                try body(frame)
                return frame.end
            }
        }
    }

    /// Counts a frame, and notes it if it can be a landmark.
    func note(_ header: FrameHeader, at offset: UInt64) {
        note(header.kind, bytes: UInt64(header.frameBytes), at: offset, number: header.number)
    }

    private func note(_ kind: FrameKind, bytes: UInt64, at offset: UInt64, number: UInt64) {
        counts.add(kind, bytes: bytes)
        if landmarks.note(offset, number: number) { core.file.install(landmarks) }
    }

    // MARK: Applying changes

    /// Applies the changes of a frame that counts, or is about to, and notes them for the ordered indexes. Its bytes
    /// are in the file.
    private func apply(
        _ frame: FrameView, ordered changes: inout OrderedChanges, maintainingOrdered: Bool = true,
        start: UInt64 = .max
    ) throws(StoreError) {
        var cursor = ChangeCursor(frame)
        while let change = try cursor.next() {
            if maintainingOrdered, !shape.indexes(of: change.object.entityNumber).isEmpty {
                try noteOrdered(change, frame, in: &changes)
            }
            if start != .max, try rows.newest(change.object) >= start {
                throw StoreError(.damaged, "F19: an object appears twice in a transaction, or in the base.")
            }
            try apply(change, frame: frame.offset)
        }
    }

    /// Applies the object numbers that a compacted file records, or that a handle has reserved.
    private func applyObjectNumbers(_ frame: FrameView) throws(StoreError) {
        for case .objectNumbers(let entity, let next) in try MetadataRecord.decodeAll(frame) {
            raise(nextNumber: next, of: entity)
            reservedEnds[entity] = max(next, reservedEnd(entity))
        }
    }

    /// One above the numbers of an entity that were reserved since the file was opened; 0 without any. A transaction
    /// that has drawn numbers below it may have drawn reserved ones.
    func reservedEnd(_ entity: UInt16) -> UInt64 { reservedEnds[entity] ?? 0 }

    var hasReservations: Bool { !reservedEnds.isEmpty }

    func raise(nextNumber next: UInt64, of entity: UInt16) {
        var known = totals[entity]
        known.nextNumber = max(known.nextNumber, next)
        totals.set(entity, to: known)
        rows.makeRoot(entity)
    }

    @inline(__always)
    private func apply(_ change: ChangeView, frame offset: UInt64) throws(StoreError) {
        counts.addChange()
        let word =
            change.kind == .delete
            ? offset + UInt64(change.entryOffset) | 1 : offset + UInt64(change.rowOffset ?? 0)
        totals.note(change.kind, change.object)
        assert(word >= newest.end, "I4: a version is below the newest view.")
        try rows.set(change.object, to: word)
    }

    /// The next free object number of an entity.
    func nextNumber(_ entity: UInt16) -> UInt64 { totals[entity].nextNumber }

    // MARK: Applying this handle's frames

    /// Applies a transaction that this handle has just written from `before` on, including its small frames. `next` is
    /// nil if the schema and the ordered indexes do not change.
    func apply(
        _ appended: AppendedTransaction, from before: UInt64, _ transaction: DraftFrames, _ next: OrderedState?
    ) throws(StoreError) {
        file.advance(to: appended.end)
        if let next {
            if transaction.prepared.changesSchema { shape = next.shape }
            ordered = next.ordered
            if next.hasBuilt { checkpoint.builtIndex() }
        }
        guard before == appended.commitFrame else {
            var none = OrderedChanges()
            return try forEachFrame(from: before, to: appended.end) { (frame) throws(StoreError) in
                note(frame.header, at: frame.offset)
                if frame.header.kind == .transaction || frame.header.kind == .part {
                    try apply(frame, ordered: &none, maintainingOrdered: false)
                }
            }
        }
        let start = appended.commitFrame
        note(.transaction, bytes: appended.end - start, at: start, number: appended.number)
        // Entries that this process wrote need no validation.
        let table = transaction.lastFrameTable
        var position = TransactionField.bytes
        while position < table.count {
            let change = ChangeView(at: position, of: table, rowShift: 0)
            try apply(change, frame: start)
            position += change.entryBytes
        }
        assert(position == table.count, "An entry is longer than its table.")
    }

    // MARK: Schema changes

    /// Adopts a new schema version of another process.
    func adopt(_ catalog: SchemaCatalog) {
        let next = after(catalog)
        (shape, ordered) = (next.shape, next.ordered)
    }

    // MARK: Checkpoints

    /// Restores the state at the checkpoint in a hint. Without a usable checkpoint, returns the beginning: then the
    /// whole file is read.
    func restore(_ opening: FileBeingOpened) throws(StoreError) -> LogState {
        guard let offset = opening.hint?.checkpoint, offset != 0 else {
            core.file.begin(at: UInt64(FormatLimits.pageBytes))
            return beginning(opening)
        }
        do throws(StoreError) {
            return try restore(opening, checkpointAt: offset)
        } catch  where error.code == .unsupportedVersion {
            throw error
        } catch {
            // A hint is never trusted. Reading the file finds real damage.
            forgetEverything()
            core.file.beginAgain(at: UInt64(FormatLimits.pageBytes))
            return beginning(opening)
        }
    }

    private func beginning(_ opening: FileBeingOpened) -> LogState {
        LogState(header: opening.header, layouts: layouts)
    }

    private func restore(_ opening: FileBeingOpened, checkpointAt offset: UInt64) throws(StoreError) -> LogState {
        let stored = try reader.checkpoint(at: offset)
        let content = stored.content
        let state = try LogState(
            header: opening.header, checkpoint: stored.header, at: offset, pieces: stored.pieces.count, content,
            layouts: layouts)
        try core.file.requireReach(state.end)
        landmarks = try reader.landmarks(content, below: offset)
        core.file.install(landmarks)
        core.file.begin(at: state.end)
        guard content.countedEnd <= offset, offset - content.countedEnd < 1 << 32 else {
            throw StoreError(.damaged, "F29: a checkpoint counts frames after itself.", offset: offset)
        }
        counts = FrameCounts(content)
        try forEachFrame(from: content.countedEnd, to: state.end) { (frame) in note(frame.header, at: frame.offset) }
        shape = StoreShape(state.catalog)
        install(content, endingAt: state.end)
        return state
    }

    private func forgetEverything() {
        landmarks = Landmarks()
        (counts, checkpoint) = (FrameCounts(), CheckpointProgress())
        totals = StoreTotals()
        ordered = []
        extensions = []
        shape = emptyShape
        rows.install([])
    }

    /// Another handle has appended a checkpoint. Its content is that of these indexes, and is in the file.
    private func adoptCheckpoint(_ frame: FrameView, _ state: LogState) throws(StoreError) {
        let content = try reader.checkpoint(at: frame.offset).content
        guard content.number == state.lastNumber, content.tag == state.lastTag else {
            throw StoreError(.damaged, "F29: a checkpoint does not match its place in the log.", offset: frame.offset)
        }
        guard content.landmarkFrames.count * LandmarkField.inNode <= landmarks.all.count else {
            throw StoreError(.damaged, "F32: a checkpoint has more landmarks than the log.", offset: frame.offset)
        }
        install(content, endingAt: frame.end)
    }

    /// Makes the roots of a checkpoint the indexes.
    private func install(_ content: CheckpointContent, endingAt end: UInt64) {
        checkpoint.found(
            endingAt: end, objects: content.entities.reduce(0) { $0 &+ $1.nextNumber },
            landmarkFrames: content.landmarkFrames)
        extensions = content.extensions
        rows.install(content.entities.map { RowIndex.StoredRoot(entity: $0.entity, depth: $0.depth, offset: $0.root) })
        totals = StoreTotals()
        for root in content.entities {
            totals.set(root.entity, to: EntityTotals(nextNumber: root.nextNumber, live: root.liveObjects))
        }
        ordered = shape.indexes.map { index in
            let stored = content.indexes.first {
                $0.entity == index.id.entity && $0.isUnique == index.id.isUnique && $0.attributes == index.id.attributes
            }
            guard let stored, stored.isComplete else { return nil }
            return OrderedIndex(root: stored.root, entries: stored.entries, rows.deltas.ordered)
        }
    }

    // MARK: Making a checkpoint

    /// The memory of nodes that are not in the file.
    var dirtyBytes: Int { ordered.reduce(rows.dirtyBytes) { $0 + ($1?.dirtyBytes ?? 0) } }

    /// The content of a checkpoint of this moment, without the offsets of nodes.
    func content(_ state: LogState) -> CheckpointContent {
        var content = CheckpointContent()
        content.number = state.lastNumber
        content.tag = state.lastTag
        content.time = state.lastTime
        content.recoveries = UInt64(state.recoveries)
        content.mayStepBack = state.mayStepBack
        content.names = state.names
        (content.horizon, content.hidden, content.consumers) = (
            state.tracking.horizon, state.tracking.hidden, state.tracking.consumers
        )
        content.retention = state.tracking.retention
        content.features = state.features
        content.extensions = extensions
        let newest = state.schemaVersion
        if newest > 0 { content.schemas = (1...newest).map { state.catalog.definition(version: $0) } }
        return content
    }

    /// Puts the roots into a checkpoint's document.
    func describe(_ roots: [RowIndex.StoredRoot], _ ordered: [OrderedIndex?], in content: inout CheckpointContent) {
        content.entities = roots.map { root in
            let totals = totals[root.entity]
            return EntityRoot(
                entity: root.entity, depth: root.depth, root: root.offset, nextNumber: totals.nextNumber,
                liveObjects: totals.live)
        }
        content.indexes = zip(shape.indexes, ordered).map { (index, content) in
            OrderedRoot(
                entity: index.id.entity, isUnique: index.id.isUnique, isComplete: content != nil,
                attributes: index.id.attributes, root: content?.rootOffset ?? 0, entries: content?.entries ?? 0)
        }
    }

    /// Writes full nodes of landmarks that are not in the file yet. Returns all frames that hold such nodes.
    func storeLandmarks(
        _ write: (ArraySlice<UInt8>) throws(StoreError) -> UInt64
    ) throws(StoreError) -> [UInt64] {
        var frames = checkpoint.landmarkFrames
        while landmarks.all.count >= (frames.count + 1) * LandmarkField.inNode {
            var node: [UInt8] = []
            for landmark in landmarks.all[(frames.count * LandmarkField.inNode)...].prefix(LandmarkField.inNode) {
                node.append(integer: landmark.offset)
                node.append(integer: landmark.number)
            }
            frames.append(try write(node[...]))
        }
        return frames
    }

    /// Notes nodes that this handle has just written, and that no checkpoint names yet, after `recoveryBytes` of a
    /// recovery frame.
    func noteNodes(_ landmarks: Landmarks, recoveryBytes: UInt64, nodeBytes: UInt64, end: UInt64) {
        self.landmarks = landmarks
        core.file.install(landmarks)
        core.file.advance(to: end)
        counts.add(.recovery, bytes: recoveryBytes)
        counts.add(.nodes, bytes: nodeBytes)
    }

    /// Installs nodes that are now in the file. No checkpoint names them yet.
    func install(_ leaves: [RowIndex.WrittenLeaf], _ stored: [OrderedIndex?]) {
        assert(stored.count == shape.indexes.count, "I1: other indexes are installed than the schema has.")
        let before = dirtyBytes
        rows.installLeaves(leaves)
        ordered = stored
        checkpoint.wrotePart(before, dirtyBytes, fileEnd: core.file.readableEnd)
    }

    /// Installs a checkpoint that this handle has just written: its nodes are now the indexes.
    func installCheckpoint(
        _ roots: [RowIndex.StoredRoot], _ stored: [OrderedIndex?], _ counts: FrameCounts, _ landmarks: Landmarks,
        landmarkFrames: [UInt64], end: UInt64
    ) {
        assert(stored.count == shape.indexes.count, "I1: other indexes are installed than the schema has.")
        self.landmarks = landmarks
        core.file.install(landmarks)
        core.file.advance(to: end)
        self.counts = counts
        rows.install(roots)
        ordered = stored
        checkpoint.wrote(
            endingAt: end, objects: roots.reduce(0) { $0 &+ totals[$1.entity].nextNumber },
            landmarkFrames: landmarkFrames)
    }
}
