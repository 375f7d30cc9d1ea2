// Reads the row indexes of a checkpoint in the order of objects, from unverified nodes.
//
// Invariants:
// RI1  Levels fall by one from node to node, so no path is longer than `maximumDepth`.
// RI2  Every node except those on the way to the lowest numbers leads to an object, and a leaf has few deltas: so the
//     number of nodes and deltas read is bounded by the number of objects returned.

/// Reads nodes below a checkpoint through copies, and notes their required offsets.
///
/// Sound although it lends its memory: the last two nodes of each level of an ordered index stay in memory, as many as
/// a walk uses, and the deltas of two leaves; an impossible depth is damage before the rest of the node is read.
final class CheckedNodes: NodeSource {
    private let window: ByteWindow
    private let nodes: ExternalSorter<NodeRecord>
    private let checkpoint: UInt64
    private let rule: IndexRule
    private let memory: UnsafeMutableRawBufferPointer
    private var turns = [Int](repeating: 0, count: CheckedNodes.levels)
    private var deltaTurn = 0
    private static let levels = OrderedLimits.maximumLevel + 2
    private static let deltaTurns = 3 * FormatLimits.maximumDeltas + 2

    init(_ window: ByteWindow, _ nodes: ExternalSorter<NodeRecord>, checkpoint: UInt64, _ rule: IndexRule) {
        (self.window, self.nodes, self.checkpoint, self.rule) = (window, nodes, checkpoint, rule)
        memory = .allocate(byteCount: (Self.levels * 2 + Self.deltaTurns) * IndexNode.bytes, alignment: 64)
    }

    deinit { memory.deallocate() }

    /// The node's bytes, until the next call.
    func read(_ offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer {
        guard offset >= UInt64(FormatLimits.pageBytes), offset < checkpoint,
            checkpoint - offset >= UInt64(IndexNode.bytes), offset % UInt64(FormatLimits.frameAlignment) == 0
        else { throw damaged("an index refers to an offset that does not precede its checkpoint.") }
        let bytes = try window.bytes(at: offset, count: IndexNode.bytes)
        guard bytes.count == IndexNode.bytes else { throw damaged("a node is cut off.") }
        try nodes.append(NodeRecord(use: offset, rule: rule, checkpoint: checkpoint))
        return bytes
    }

    /// A delta over a leaf. Its entries live until the next call.
    func readDelta(_ offset: UInt64) throws(StoreError) -> StoredDelta {
        guard offset >= UInt64(FormatLimits.pageBytes), offset < checkpoint,
            let head = DeltaHead(try window.bytes(at: offset, count: 8).integerIfThere, at: offset),
            let delta = StoredDelta(try window.bytes(at: offset, count: head.bytes), at: offset)
        else { throw damaged("a delta is malformed.") }
        try nodes.append(NodeRecord(delta: offset, bytes: head.bytes, .delta, checkpoint: checkpoint))
        return delta
    }

    func delta(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer {
        guard offset >= UInt64(FormatLimits.pageBytes), offset < checkpoint,
            let bytes = OrderedDeltaView.bytes(try window.bytes(at: offset, count: OrderedDeltaField.slots)),
            bytes % 8 == 0
        else { throw damaged("a delta is malformed.") }
        let content = try window.bytes(at: offset, count: bytes)
        guard content.count == bytes else { throw damaged("a delta is cut off.") }
        try nodes.append(NodeRecord(delta: offset, bytes: bytes, .orderedDelta, checkpoint: checkpoint))
        deltaTurn = (deltaTurn + 1) % Self.deltaTurns
        let place = (Self.levels * 2 + deltaTurn) * IndexNode.bytes
        let copy = UnsafeMutableRawBufferPointer(rebasing: memory[place..<place + bytes])
        copy.copyMemory(from: content)
        return UnsafeRawBufferPointer(copy)
    }

    func node(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer {
        let bytes = try read(offset)
        let level = min(Int(bytes.integer(at: OrderedNodeField.level, as: UInt16.self)), Self.levels - 1)
        turns[level] ^= 1
        let place = (level * 2 + turns[level]) * IndexNode.bytes
        let copy = UnsafeMutableRawBufferPointer(rebasing: memory[place..<place + IndexNode.bytes])
        copy.copyMemory(from: bytes)
        return UnsafeRawBufferPointer(copy)
    }

    func damaged(_ sentence: String) -> StoreError {
        StoreError(.damaged, "\(rule.name): \(sentence)", offset: checkpoint)
    }
}

/// The words of all objects in ascending order, one at a time.
struct RowIndexStream {
    struct Entry: Equatable {
        var object: UInt64
        var word: UInt64
    }

    private struct Level {
        let offset: UInt64
        var words: [UInt64]
        var position = 0
        /// The first number below this node.
        let first: UInt64
        let isFirst: Bool
        var hasObject = false
    }

    private let roots: [EntityRoot]
    private let nodes: CheckedNodes
    private var nextRoot = 0
    private var path: [Level] = []
    private var depth = 0

    init(_ roots: [EntityRoot], _ nodes: CheckedNodes) {
        self.roots = roots
        self.nodes = nodes
    }

    /// The next object that ever existed; nil after the last. Throws `damaged` under F30.
    mutating func next() throws(StoreError) -> Entry? {
        while true {
            guard let place = path.indices.last else {
                guard nextRoot < roots.count else { return nil }
                depth = Int(roots[nextRoot].depth)
                try descend(to: roots[nextRoot].root, first: 0, isFirst: true)
                nextRoot += 1
                continue
            }
            let position = path[place].position
            guard position < IndexNode.words else {
                try ascend()
                continue
            }
            path[place].position += 1
            let word = path[place].words[position]
            if word == 0 { continue }
            let level = UInt64(depth - path.count)
            let first = path[place].first + UInt64(position) << (level * IndexNode.bits)
            if level == 0 { return try entry(first, word) }
            let isFirst = path[place].isFirst && position == 0
            if level == 1, word & 5 == 0, NodeReference(word: word).isDelta {
                try descendToDelta(NodeReference(word: word), first: first, isFirst: isFirst)
            } else {
                try descend(to: word, first: first, isFirst: isFirst)
            }
        }
    }

    private mutating func entry(_ number: UInt64, _ word: UInt64) throws(StoreError) -> Entry {
        path[path.count - 1].hasObject = true
        guard let object = ObjectID(entityNumber: roots[nextRoot - 1].entity, number: number), word & 6 == 0 else {
            throw nodes.damaged("a node of the row index is malformed.")
        }
        return Entry(object: object.rawValue, word: word)
    }

    private mutating func descend(to offset: UInt64, first: UInt64, isFirst: Bool) throws(StoreError) {
        guard first <= FormatLimits.maximumObjectNumber else {
            throw nodes.damaged("the row index contains impossible object numbers.")
        }
        guard offset < path.last?.offset ?? .max else {
            throw nodes.damaged("a node refers to a node that does not precede it.")
        }
        let bytes = try nodes.read(offset)
        let words = (0..<IndexNode.words).map { bytes.integer(at: $0 * 8, as: UInt64.self) }
        path.append(Level(offset: offset, words: words, first: first, isFirst: isFirst))
        assert(path.count <= depth, "RI1: a path is longer than its root is deep.")
    }

    private mutating func descendToDelta(
        _ reference: NodeReference, first: UInt64, isFirst: Bool
    ) throws(StoreError) {
        guard reference.offset < path.last?.offset ?? 0 else {
            throw nodes.damaged("a node refers to a delta that does not precede it.")
        }
        var merged = MergedEntries()
        var next = reference
        var count = 0
        while next.isDelta {
            guard count < FormatLimits.maximumDeltas else { throw nodes.damaged("a leaf has too many deltas.") }
            let delta = try nodes.readDelta(next.offset)
            delta.forEachEntry { merged.add($0) }
            next = delta.head.base
            count += 1
        }
        // X7: below the lowest delta, and so below the parent.
        try descend(to: next.word, first: first, isFirst: isFirst)
        guard path[path.count - 1].words.allSatisfy({ $0 & 6 == 0 }) else {
            throw nodes.damaged("a leaf below a delta has a word that names neither a row nor a deletion.")
        }
        merged.forEachEntry { path[path.count - 1].words[Int($0.index)] = $0.word }
    }

    private mutating func ascend() throws(StoreError) {
        guard let level = path.popLast() else { return }
        // RI2.
        guard level.hasObject || level.isFirst else { throw nodes.damaged("a node of the row index is empty.") }
        if level.hasObject, !path.isEmpty { path[path.count - 1].hasObject = true }
    }
}
