// The records that checking indexes sorts: nodes and references to them, live rows, and index entries.

/// Nodes that lie together in a frame, or a reference to one, or to a delta in one.
struct NodeRecord: SortRecord {
    /// Offset of a node or delta, with an `IndexRule` for a reference.
    private var place: UInt64
    /// The number of consecutive nodes, or the checkpoint of the reference, with the size of a delta in its free bits.
    private var value: UInt64
    private static let sizeShift: UInt64 = 56

    init(nodes: Int, from first: UInt64) {
        assert(first & 7 == 0, "The offset of a node has no room for a rule.")
        place = first
        value = UInt64(nodes)
    }

    init(use offset: UInt64, rule: IndexRule, checkpoint: UInt64) {
        place = offset & ~7 | rule.rawValue
        value = checkpoint
    }

    /// A reference to a delta. A row index has offsets below 2^56 only, so its checkpoint has one, or is far away.
    init(delta offset: UInt64, bytes: Int, _ rule: IndexRule, checkpoint: UInt64) {
        assert(bytes > 0 && bytes % 8 == 0 && bytes < IndexNode.bytes, "A delta has another size.")
        place = offset & ~7 | rule.rawValue
        let words = UInt64(bytes / 8)
        value = (words >> 3) << Self.sizeShift | min(checkpoint, 1 << Self.sizeShift - 8) | words & 7
    }

    static func < (left: NodeRecord, right: NodeRecord) -> Bool {
        left.place != right.place ? left.place < right.place : left.value < right.value
    }

    /// Checks references, sorted together with the nodes.
    static func check(_ nodes: ExternalSorter<NodeRecord>, into findings: inout FindingList) throws(StoreError) {
        var first: UInt64 = 0
        var bytes: UInt64 = 0
        try nodes.drain { record throws(StoreError) in
            guard let rule = IndexRule(rawValue: record.place & 7) else {
                (first, bytes) = (record.place, record.value * UInt64(IndexNode.bytes))
                return
            }
            let distance = (record.place & ~7) - first
            let inNode = distance % UInt64(IndexNode.bytes)
            guard rule == .delta || rule == .orderedDelta else {
                guard distance < bytes, inNode == 0 else {
                    return findings.add(rule.name, at: record.value, "An index refers to a missing node.")
                }
                return
            }
            let size = ((record.value >> sizeShift) << 3 | record.value & 7) * 8
            guard distance < bytes, inNode + size <= UInt64(IndexNode.bytes) else {
                return findings.add(
                    rule.name, at: record.value & (1 << sizeShift - 8), "An index refers to a missing delta.")
            }
        }
    }
}

/// The rule for a kind of index.
enum IndexRule: UInt64 {
    case rowIndex = 1
    case orderedIndex = 2
    case delta = 3
    case orderedDelta = 4

    var name: String { self == .orderedIndex || self == .orderedDelta ? "F31" : "F30" }
}

/// A row that is the newest version of its object as of a checkpoint, of an entity with ordered indexes.
struct LiveRowRecord: SortRecord {
    var offset: UInt64
    var object: UInt64
    /// The index of the checked checkpoint, or `theEnd`.
    var checkpoint: UInt64
    /// The state at the end of the file.
    static let theEnd = UInt64.max

    static func < (left: LiveRowRecord, right: LiveRowRecord) -> Bool {
        left.offset != right.offset ? left.offset < right.offset : left.checkpoint < right.checkpoint
    }
}

/// The key of an object in a unique index, as two hashes. No two keys have both equal by chance.
struct UniqueKeyRecord: SortRecord {
    /// The number of the index.
    private let index: UInt64
    private let low: UInt64
    private let high: UInt64
    let object: UInt64
    /// Offset of the row.
    let row: UInt64

    init(index: Int, object: UInt64, row: UInt64, key: UnsafeRawBufferPointer) {
        self.index = UInt64(index)
        low = Checksum.hash(key, seed: 0)
        high = Checksum.hash(key, seed: 1)
        self.object = object
        self.row = row
    }

    static func < (left: UniqueKeyRecord, right: UniqueKeyRecord) -> Bool {
        if left.index != right.index { return left.index < right.index }
        if left.low != right.low { return left.low < right.low }
        return left.high != right.high ? left.high < right.high : left.object < right.object
    }

    func hasSameKey(as other: UniqueKeyRecord) -> Bool {
        index == other.index && low == other.low && high == other.high
    }
}

/// An entry of an ordered index, from the index or from a row that requires it: each object has one in each index.
struct IndexEntryRecord: SortRecord {
    /// The numbers of the checkpoint and of its index.
    let checkpoint: UInt32
    let index: UInt32
    let object: UInt64
    /// A hash of the key, and in the lowest bit whether a row requires it.
    private let mark: UInt64

    init(checkpoint: Int, index: Int, object: ObjectID, key: UnsafeRawBufferPointer, isOfRow: Bool) {
        self.checkpoint = UInt32(checkpoint)
        self.index = UInt32(index)
        self.object = object.rawValue
        mark = Checksum.hash(key, seed: 0) & ~1 | (isOfRow ? 1 : 0)
    }

    static func < (left: IndexEntryRecord, right: IndexEntryRecord) -> Bool {
        if left.checkpoint != right.checkpoint { return left.checkpoint < right.checkpoint }
        if left.index != right.index { return left.index < right.index }
        return left.object != right.object ? left.object < right.object : left.mark < right.mark
    }

    /// Whether one of the two is from the index, the other from a row, and both have the same key.
    func isCounterpart(of other: IndexEntryRecord) -> Bool {
        checkpoint == other.checkpoint && index == other.index && object == other.object && mark ^ other.mark == 1
    }
}

/// A live object, or a reference to one.
struct ReferenceRecord: SortRecord {
    private let object: UInt64
    /// The offset of the row that refers to it; 0 for the object itself.
    private let row: UInt64
    private let index: UInt64

    init(object: ObjectID) { (self.object, row, index) = (object.rawValue, 0, 0) }

    init(to target: ObjectID, from row: UInt64, index: Int) {
        (object, self.row, self.index) = (target.rawValue, row, UInt64(index))
    }

    static func < (left: ReferenceRecord, right: ReferenceRecord) -> Bool {
        if left.object != right.object { return left.object < right.object }
        return left.row != right.row ? left.row < right.row : left.index < right.index
    }

    /// Reports references to missing objects, and to objects of a wrong entity: they damage nothing.
    static func check(
        _ references: ExternalSorter<ReferenceRecord>, _ shape: StoreShape, into findings: inout FindingList
    ) throws(StoreError) {
        var live: UInt64 = 0
        try references.drain { record throws(StoreError) in
            if record.row == 0 {
                live = record.object
                return
            }
            let index = shape.indexes[Int(record.index)]
            guard let object = ObjectID(rawValue: record.object), let reference = index.reference else { return }
            let isOfEntity = reference.mayRefer(to: object)
            guard !isOfEntity || record.object != live else { return }
            findings.add(
                "F35", at: record.row,
                "“\(reference.name)” of “\(index.layout.entity.name)” refers to \(object), which "
                    + (isOfEntity
                        ? "does not exist: " + (index.isOfList ? "the list reads without it." : "it reads as null.")
                        : "is not an object of its target's entity."),
                isDamage: false)
        }
    }
}
