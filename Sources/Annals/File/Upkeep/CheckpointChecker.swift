// F28, F29, F32 and F36: checks nodes and checkpoint frames, and compares each checkpoint with the log.
//
// Invariants:
// CP1  `totals` and the passed counts are those of the complete groups below the current frame.
// CP2  `found` holds the last checkpoint that agrees with the log, and before it those that a good hint names.

/// A checkpoint whose document agrees with the log, with the data for checking its indexes.
struct FoundCheckpoint {
    let offset: UInt64
    let content: CheckpointContent
    let shape: StoreShape
}

/// Follows the frames of a file and checks each checkpoint on the way.
final class CheckpointChecker {
    /// Frames with nodes, for checking references to them.
    let nodes: ExternalSorter<NodeRecord>
    private(set) var found: [FoundCheckpoint] = []
    private let reader: CheckpointReader
    private let hinted: Set<UInt64>
    let landmarks: LandmarkChecker
    private var features = FeatureChecker()
    private var totals = EntityFold()
    /// The nodes frames directly before the current frame; of a long run the last ones.
    private var nodesBefore: [UInt64] = []
    private static let maximumPieces = FormatLimits.maximumNodeFrameBytes / 8
    private var shape = StoreShape(SchemaCatalog())
    /// All schema versions up to that shape's.
    private var schemas: [SchemaDefinition] = []

    init(
        _ files: any FileSystem, _ file: Descriptor, salt: UInt64, hinted: Set<UInt64>,
        nodes: ExternalSorter<NodeRecord>
    ) {
        reader = CheckpointReader(files, file, salt: salt)
        landmarks = LandmarkChecker(files, file, salt: salt, reader)
        self.hinted = hinted
        self.nodes = nodes
    }

    func note(_ change: ChangeView) { totals.note(change) }

    private func noteRecords(_ frame: FrameView) throws(StoreError) {
        for record in try MetadataRecord.decodeAll(frame) {
            switch record {
            case .objectNumbers(let entity, let next): totals.note(nextNumber: next, entity)
            case .features(let declared): features.note(declared)
            case .name, .clockStep, .retention: break
            }
        }
    }

    /// Checks an accepted frame; `before` counts the frames below it, `state` is the log's state after it.
    func check(
        _ frame: FrameView, before: CheckCounts, _ state: LogState, into findings: inout FindingList
    ) throws(StoreError) {
        landmarks.note(frame)
        switch frame.header.kind {
        case .nodes: try checkNodes(frame, into: &findings)
        case .metadata: try noteRecords(frame)
        case .skipped: features.check(skipped: frame, state.header, into: &findings)
        case .checkpoint: try checkCheckpoint(frame, before, state, into: &findings)
        default: break
        }
        if frame.header.kind == .nodes { noteNodes(frame) } else if !nodesBefore.isEmpty { nodesBefore = [] }
        if !frame.header.isMember { totals.commit() }
    }

    // MARK: Nodes

    private func checkNodes(_ frame: FrameView, into findings: inout FindingList) throws(StoreError) {
        try NodesField.requireKnown(frame)
        if !NodesField.fits(frame) { findings.add("F28", at: frame.offset, "A nodes frame has the wrong form.") }
        // References to the nodes of a malformed frame are not wrong for that reason.
        let count = frame.body.count / IndexNode.bytes
        if count > 0 { try nodes.append(NodeRecord(nodes: count, from: frame.end - UInt64(frame.body.count))) }
    }

    private func noteNodes(_ frame: FrameView) {
        if nodesBefore.count >= 2 * Self.maximumPieces { nodesBefore.removeFirst(Self.maximumPieces) }
        nodesBefore.append(frame.offset)
    }

    // MARK: Checkpoints

    private func checkCheckpoint(
        _ frame: FrameView, _ before: CheckCounts, _ state: LogState, into findings: inout FindingList
    ) throws(StoreError) {
        do throws(StoreError) {
            let stored = try reader.checkpoint(at: frame.offset)
            let content = stored.content
            features.check(content, at: frame.offset, state.header, into: &findings)
            if schemas.count != Int(state.schemaVersion) { collectSchemas(state.catalog) }
            let difference =
                difference(content, state) ?? difference(content.entities) ?? difference(content.indexes)
                ?? difference(content, stored.pieces, frame, before)
            if let difference {
                findings.add("F29", at: frame.offset, "A checkpoint \(difference).")
            } else {
                found.removeAll { !hinted.contains($0.offset) }
                found.append(FoundCheckpoint(offset: frame.offset, content: content, shape: shape))
                assert(
                    found.dropLast().allSatisfy { hinted.contains($0.offset) },
                    "CP2: a checkpoint is kept that no hint names.")
            }
            try landmarks.check(content, at: frame.offset)
        } catch  where error.isBreach {
            findings.add(error.at(offset: frame.offset), rule: "F29")
        }
    }

    /// The difference of the document from the log; nil without one.
    private func difference(_ content: CheckpointContent, _ state: LogState) -> String? {
        guard content.number == state.lastNumber, content.tag == state.lastTag, content.time == state.lastTime else {
            return "has another last transaction than the log at this point"
        }
        guard content.recoveries == UInt64(state.recoveries), content.mayStepBack == state.mayStepBack else {
            return "counts other recoveries or clock steps than the log at this point"
        }
        guard TrackingState(content) == state.tracking else {
            return "has another horizon or retention, other hidden authors or other consumers than the log"
        }
        guard content.names == state.names else { return "has other names than the log" }
        return content.schemas == schemas ? nil : "has other schemas than the log"
    }

    /// The definitions of a version never change: only new versions are looked up.
    private func collectSchemas(_ catalog: SchemaCatalog) {
        shape = StoreShape(catalog)
        while schemas.count < Int(catalog.newestVersion) {
            schemas.append(catalog.definition(version: UInt16(schemas.count + 1)))
        }
    }

    private func difference(_ roots: [EntityRoot]) -> String? {
        let expected = totals.all
        guard roots.map(\.entity) == expected.map(\.entity) else { return "has other entities than the log" }
        let isSame = zip(roots, expected).allSatisfy { root, entity in
            root.nextNumber == entity.totals.nextNumber && root.liveObjects == entity.totals.live
        }
        return isSame ? nil : "counts other objects than the log"
    }

    private func difference(_ roots: [OrderedRoot]) -> String? {
        let isSame =
            roots.count == shape.indexes.count
            && zip(roots, shape.indexes).allSatisfy { root, index in
                IndexID(entity: root.entity, attributes: root.attributes, isUnique: root.isUnique) == index.id
                    && (root.isComplete || (root.root == 0 && root.entries == 0))
            }
        return isSame ? nil : "has other indexes than the schema requires"
    }

    private func difference(
        _ content: CheckpointContent, _ pieces: [UInt64], _ frame: FrameView, _ before: CheckCounts
    ) -> String? {
        guard nodesBefore.suffix(pieces.count) == pieces[...], content.countedEnd == pieces.first ?? frame.offset else {
            return "does not follow its own pieces"
        }
        var frameBytes = before.frameBytes
        frameBytes[Int(FrameKind.nodes.rawValue)] -= frame.offset - content.countedEnd
        frameBytes += repeatElement(0, count: CheckpointContent.kinds - frameBytes.count)
        guard content.frames == before.frames - UInt64(pieces.count), content.transactions == before.transactions,
            content.changes == before.changes, content.frameBytes == frameBytes
        else { return "counts other frames than the log at this point" }
        return nil
    }
}

/// Counts the objects of each entity along the log.
private struct EntityFold {
    private var totals: [UInt16: EntityTotals] = [:]
    /// The changes of the current group, which may never count.
    private var open: [UInt16: Delta] = [:]
    /// Of one entity: changes of one entity lie together.
    private var last: (entity: UInt16, delta: Delta) = (0, Delta())

    private struct Delta {
        var next: UInt64 = 1
        var live: UInt64 = 0
    }

    var all: [(entity: UInt16, totals: EntityTotals)] {
        totals.inOrder { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    mutating func note(_ change: ChangeView) {
        if change.object.entityNumber != last.entity { settle(change.object.entityNumber) }
        switch change.kind {
        case .insert, .base:
            last.delta.next = max(last.delta.next, change.object.number + 1)
            last.delta.live &+= 1
        case .delete: last.delta.live &-= 1
        case .update: break
        }
    }

    mutating func note(nextNumber next: UInt64, _ entity: UInt16) {
        if entity != last.entity { settle(entity) }
        last.delta.next = max(last.delta.next, next)
    }

    private mutating func settle(_ next: UInt16) {
        if last.entity != 0 { open[last.entity] = last.delta }
        last = (next, open[next] ?? Delta())
    }

    mutating func commit() {
        guard last.entity != 0 else { return }
        settle(0)
        for (entity, delta) in open {
            var entityTotals = totals[entity] ?? EntityTotals()
            entityTotals.nextNumber = max(entityTotals.nextNumber, delta.next)
            entityTotals.live &+= delta.live
            totals[entity] = entityTotals
        }
        open = [:]
        assert(last.entity == 0, "CP1: changes of a complete group are not counted.")
    }
}

extension NodesField {
    /// Whether a nodes frame has the right form.
    static func fits(_ frame: FrameView) -> Bool {
        guard frame.table.count == bytes, frame.table.integer(at: zero, as: UInt32.self) == 0 else { return false }
        let count = Int(frame.table.integer(at: nodes, as: UInt32.self))
        return count > 0 && count * IndexNode.bytes == frame.body.count
    }
}
