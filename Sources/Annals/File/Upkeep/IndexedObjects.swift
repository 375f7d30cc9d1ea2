// Reads the objects of a checkpoint's row index, in ascending order, from nodes that check.
//
// Invariants:
// SI1  A node or delta is read only from a frame that salvage found good, and at most as many bytes as the file has in
//     nodes. So nodes that refer to each other in impossible ways cost no more than one reading of the file.

struct IndexedObjects {
    enum Item {
        /// The newest version of an object: the offset of its row, or of the entry of its deletion.
        case version(object: UInt64, place: UInt64, isDeletion: Bool)
        /// Objects from `first` to before `end`, whose node is unreadable.
        case unreadable(first: UInt64, end: UInt64)
    }

    /// The checkpoint's offset.
    let offset: UInt64
    let content: CheckpointContent
    private let window: ByteWindow
    private let salvagedNodes: SalvagedNodes
    private var bytesLeft: Int
    private var entity = 0
    /// The number to read next.
    private var number: UInt64 = 1
    /// The path from the root to the current leaf, by depth: each node's offset and words.
    private var path: [(offset: UInt64, words: [UInt64])]

    init(_ content: CheckpointContent, at offset: UInt64, _ nodes: SalvagedNodes, _ window: ByteWindow) {
        (self.content, self.offset, self.window, salvagedNodes) = (content, offset, window, nodes)
        bytesLeft = nodes.bytes
        path = Array(repeating: (0, []), count: Int(IndexNode.maximumDepth))
    }

    /// The next object or unreadable range; nil after the last.
    mutating func next() throws(StoreError) -> Item? {
        while entity < content.entities.count {
            let root = content.entities[entity]
            let limit = min(root.nextNumber, 1 << (UInt64(root.depth) * IndexNode.bits))
            guard root.root != 0, number < limit else {
                (entity, number) = (entity + 1, 1)
                continue
            }
            if let item = try next(below: root, limit) { return item }
        }
        return nil
    }

    /// Nil if `number` has no object; then `number` was advanced.
    private mutating func next(below root: EntityRoot, _ limit: UInt64) throws(StoreError) -> Item? {
        var reference = root.root
        var depth = UInt64(root.depth)
        while true {
            let span = UInt64(1) << (depth * IndexNode.bits)
            let end = min(limit, (number / span + 1) * span)
            guard try load(reference, depth) else {
                let first = number
                number = end
                return .unreadable(first: id(root, first), end: id(root, end))
            }
            depth -= 1
            let index = Int(number >> (depth * IndexNode.bits) & UInt64(IndexNode.words - 1))
            if depth == 0 { return nextInLeaf(root, from: index, end) }
            reference = path[Int(depth)].words[index]
            if reference == 0 {
                let below = UInt64(1) << (depth * IndexNode.bits)
                number = min(limit, (number / below + 1) * below)
                return nil
            }
        }
    }

    private mutating func nextInLeaf(_ root: EntityRoot, from index: Int, _ end: UInt64) -> Item? {
        var index = index
        while number < end {
            let word = path[0].words[index]
            (number, index) = (number + 1, index + 1)
            if word != 0 {
                return .version(object: id(root, number - 1), place: word & ~1, isDeletion: word & 1 == 1)
            }
        }
        return nil
    }

    private func id(_ root: EntityRoot, _ number: UInt64) -> UInt64 { UInt64(root.entity) << 48 + number }

    /// Puts a node into the path. Returns false if it is unreadable or cannot be a node of this depth.
    private mutating func load(_ offset: UInt64, _ depth: UInt64) throws(StoreError) -> Bool {
        let place = Int(depth - 1)
        if path[place].offset == offset { return true }
        if depth == 1, offset & 5 == 0, NodeReference(word: offset).isDelta { return try loadDeltas(offset) }
        guard bytesLeft >= IndexNode.bytes, salvagedNodes.contains(offset) else { return false }
        bytesLeft -= IndexNode.bytes
        assert(bytesLeft >= 0, "SI1: more is read than the file has.")
        let bytes = try window.bytes(at: offset, count: IndexNode.bytes)
        guard bytes.count == IndexNode.bytes else { return false }
        let words = (0..<IndexNode.words).map { bytes.integer(at: $0 * 8, as: UInt64.self) }
        let unused: UInt64 = depth == 1 ? 6 : depth == 2 ? 5 : 7
        guard words.allSatisfy({ $0 & unused == 0 && $0 < self.offset }) else { return false }
        path[place] = (offset, words)
        return true
    }

    /// Puts a leaf into the path, with the deltas over it. Returns false if any of them is unreadable: the words below
    /// it are old.
    private mutating func loadDeltas(_ word: UInt64) throws(StoreError) -> Bool {
        var merged = MergedEntries()
        var next = NodeReference(word: word)
        for _ in 0..<FormatLimits.maximumDeltas where next.isDelta {
            guard let delta = try delta(at: next.offset) else { return false }
            delta.forEachEntry { merged.add($0) }
            next = delta.head.base
        }
        guard !next.isDelta, try load(next.word, 1) else { return false }
        var isBelow = true
        merged.forEachEntry {
            path[0].words[Int($0.index)] = $0.word
            isBelow = isBelow && $0.word < self.offset
        }
        path[0].offset = isBelow ? word : 0
        return isBelow
    }

    private mutating func delta(at offset: UInt64) throws(StoreError) -> StoredDelta? {
        guard let room = salvagedNodes.roomForDelta(at: offset),
            let head = DeltaHead(try window.bytes(at: offset, count: 8).integerIfThere, at: offset),
            head.bytes <= min(room, bytesLeft)
        else { return nil }
        bytesLeft -= head.bytes
        return StoredDelta(try window.bytes(at: offset, count: head.bytes), at: offset)
    }
}

extension UnsafeRawBufferPointer {
    /// A u64 at the beginning; 0 if the bytes are cut off.
    var integerIfThere: UInt64 { count < 8 ? 0 : integer(at: 0, as: UInt64.self) }
}

/// The locations of good nodes.
struct SalvagedNodes {
    /// The range of each frame's nodes; ascending.
    private var stretches: [SalvageTransactions.Stretch] = []
    private(set) var bytes = 0

    mutating func note(_ frame: FrameView) {
        guard NodesField.fits(frame) else { return }
        stretches.append(.init(start: frame.end - UInt64(frame.body.count), end: frame.end))
        bytes += frame.body.count
    }

    func contains(_ offset: UInt64) -> Bool {
        guard let stretch = stretches.stretch(with: offset) else { return false }
        return (offset - stretch.start) % UInt64(IndexNode.bytes) == 0
    }

    /// The bytes from there to the end of the node; nil outside of good nodes.
    func roomForDelta(at offset: UInt64) -> Int? {
        guard let stretch = stretches.stretch(with: offset) else { return nil }
        return IndexNode.bytes - Int((offset - stretch.start) % UInt64(IndexNode.bytes))
    }
}
