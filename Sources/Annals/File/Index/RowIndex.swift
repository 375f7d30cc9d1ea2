// The row index: for each entity a radix array from object numbers to the newest version of the object.
//
// Invariants:
// X1  The word of an object is 0 if it never existed, the offset of its newest row, or the offset of its deletion's
//     change entry plus 1.
// X2  One thread changes the index at a time (the holder of the log's `follow` lock, or the writer while it appends);
//     readers are inside read sections.
// X3  A node or delta in memory is changed by single atomic stores; one in the file never changes. One that becomes
//     unreachable is retired, not freed.
// X4  A node that was read from the file never holds a reference to memory: its words are checked before they are
//     followed. Only a node directly above leaves refers to deltas.
// X5  Nodes and deltas in memory are only below nodes in memory or a root, and each below one; `dirtyBytes` is the sum
//     of their sizes.

internal import Synchronization

/// Sound although it is shared: by X2 and X3.
final class RowIndex: @unchecked Sendable {
    private static let maximumEntities = FormatLimits.maximumEntities + 1
    /// The uppermost four bits of a root's word are its depth.
    static let depthShift: UInt64 = 60
    static let referenceMask: UInt64 = 1 << depthShift - 1
    /// Set in no reference to a node in the file.
    private static let impossibleBits: UInt64 = ~(1 << DeltaField.countShift - 1) | 7
    /// Set in no reference from a node above the leaves.
    private static let impossibleAboveLeaf = impossibleBits & ~2

    private let roots: PrivateMemory
    let sections: ReadSections
    let source: VerifiedFile
    let deltas: DeltaPolicy
    /// The entities with a root.
    var entities: [UInt16] = []
    /// The memory of nodes that are not in the file.
    var dirtyBytes = 0
    /// The leaf that was changed last.
    var lastLeaf: UnsafeMutableRawPointer?
    private var lastLeafKey: UInt64 = 0
    /// The leaf with which the next part of a checkpoint begins.
    var nextLeaf: UInt64 = 0

    init(_ source: VerifiedFile, _ sections: ReadSections, _ deltas: DeltaPolicy) throws(StoreError) {
        guard let memory = PrivateMemory(count: Self.maximumEntities * 8) else {
            throw StoreError(
                .outOfMemory,
                "The process has too little address space left to open the store: raise its limit (ulimit -v).")
        }
        roots = memory
        self.source = source
        self.sections = sections
        self.deltas = deltas
    }

    deinit { for node in nodesInMemory() { node.memory?.deallocate() } }

    func nodesInMemory() -> [NodeReference] {
        var nodes: [NodeReference] = []
        for entity in entities {
            let root = root(entity).pointee.load(ordering: .relaxed)
            collect(NodeReference(word: root & Self.referenceMask), depth: root >> Self.depthShift, &nodes)
        }
        assert(nodes.reduce(0) { $0 + $1.memoryBytes } == dirtyBytes, "X5: the nodes in memory are counted wrongly.")
        return nodes
    }

    /// Collects the nodes in memory at and below a reference.
    private func collect(_ reference: NodeReference, depth: UInt64, _ nodes: inout [NodeReference]) {
        guard let memory = reference.memory else { return }
        nodes.append(reference)
        guard depth > 1 else { return }
        for index in 0..<UInt64(IndexNode.words) {
            let word = Self.word(memory, index).pointee.load(ordering: .relaxed)
            if word & 1 == 1 { collect(NodeReference(word: word), depth: depth - 1, &nodes) }
        }
    }

    // MARK: Words

    @inline(__always)
    static func word(_ node: UnsafeMutableRawPointer, _ index: UInt64) -> UnsafeMutablePointer<Atomic<UInt64>> {
        assert(UInt(bitPattern: node) % 8 == 0, "not aligned")
        return (node + Int(truncatingIfNeeded: index) &* 8).assumingMemoryBound(to: Atomic<UInt64>.self)
    }

    @inline(__always)
    func root(_ entity: UInt16) -> UnsafeMutablePointer<Atomic<UInt64>> {
        Self.word(roots.bytes.baseAddress.unsafelyUnwrapped, UInt64(entity))
    }

    /// A word of a node in memory or in the file.
    @inline(__always)
    func load(_ reference: NodeReference, _ index: UInt64) throws(StoreError) -> UInt64 {
        if let memory = reference.memory { return Self.word(memory, index).pointee.load(ordering: .acquiring) }
        return try source.word(at: reference.word &+ index &* 8)
    }

    /// A reference in a node whose children have this depth. Only a leaf can have deltas over it.
    @inline(__always)
    private func child(
        _ parent: NodeReference, _ index: UInt64, depth: UInt64
    ) throws(StoreError) -> NodeReference {
        let word = try load(parent, index)
        if parent.word & 1 == 0, word & Self.impossibleBits != 0, depth > 1 || word & Self.impossibleAboveLeaf != 0 {
            throw Self.malformed(parent.word)
        }
        return NodeReference(word: word)
    }

    @inline(never)
    static func malformed(_ offset: UInt64) -> StoreError {
        StoreError(
            .damaged, "F30: a node of the row index is malformed. Restore the store from a backup.", offset: offset)
    }

    // MARK: Reading

    /// The word of an object. Inside a read section.
    @inline(__always)
    func newest(_ object: ObjectID) throws(StoreError) -> UInt64 {
        let root = root(object.entityNumber).pointee.load(ordering: .acquiring)
        var depth = root >> Self.depthShift
        let number = object.number
        guard depth > 0, number &>> (depth &* IndexNode.bits) == 0 else { return 0 }
        var reference = NodeReference(word: root & Self.referenceMask)
        while depth > 1 {
            depth &-= 1
            reference = try child(reference, number &>> (depth &* IndexNode.bits) & 511, depth: depth)
            if reference.isNone { return 0 }
        }
        if reference.isDelta { return try word(over: reference, number & 511) }
        let word = try load(reference, number & 511)
        if word & 6 != 0 { throw Self.malformed(reference.word) }
        return word
    }

    /// One above the highest number that the entity's array reaches now; 0 if it has none.
    func numberLimit(_ entity: UInt16) -> UInt64 {
        let depth = root(entity).pointee.load(ordering: .acquiring) >> Self.depthShift
        return depth == 0 ? 0 : min(1 << (depth &* IndexNode.bits), FormatLimits.maximumObjectNumber + 1)
    }

    /// Copies the words of the leaf that holds `number`, or, without copying, returns the number of objects from the
    /// leaf's first on that have none: then the next number to read is after them. Inside a read section.
    func leaf(
        _ entity: UInt16, _ number: UInt64, into words: UnsafeMutablePointer<UInt64>
    ) throws(StoreError) -> LeafContent {
        let root = root(entity).pointee.load(ordering: .acquiring)
        var depth = root >> Self.depthShift
        guard depth > 0 else { return .absent(objects: FormatLimits.maximumObjectNumber + 1) }
        guard number >> (depth &* IndexNode.bits) == 0 else {
            return .absent(objects: FormatLimits.maximumObjectNumber + 1)
        }
        var reference = NodeReference(word: root & Self.referenceMask)
        while depth > 1 {
            depth &-= 1
            reference = try child(reference, number >> (depth &* IndexNode.bits) & 511, depth: depth)
            if reference.isNone { return .absent(objects: 1 << (depth &* IndexNode.bits)) }
        }
        let (leaf, bits) = try reference.isDelta ? fill(reference, words) : (reference, copy(reference, words))
        if bits & 6 != 0 { throw Self.malformed(leaf.memory == nil ? leaf.offset : 0) }
        return .present
    }

    /// Copies a leaf that is a node. Returns the bits that any of its words has.
    @inline(__always)
    func copy(
        _ leaf: NodeReference, _ words: UnsafeMutablePointer<UInt64>
    ) throws(StoreError) -> UInt64 {
        var all: UInt64 = 0
        if let memory = leaf.memory {
            for index in 0..<IndexNode.words {
                words[index] = Self.word(memory, UInt64(index)).pointee.load(ordering: .acquiring)
                all |= words[index]
            }
        } else {
            // Verified once for all of its words.
            let node = try source.node(at: leaf.word)
            for index in 0..<IndexNode.words {
                words[index] = UInt64(littleEndian: node.load(fromByteOffset: index &* 8, as: UInt64.self))
                all |= words[index]
            }
        }
        return all
    }

    enum LeafContent {
        case present
        /// The aligned range of this number of object numbers, which contains the requested one, has no object.
        case absent(objects: UInt64)
    }

    // MARK: Changing

    /// Stores the word of an object.
    func set(_ object: ObjectID, to word: UInt64) throws(StoreError) {
        assert(word & 6 == 0, "X1: a word names neither a row nor a deletion.")
        let key = object.rawValue >> IndexNode.bits
        if lastLeaf == nil || key != lastLeafKey {
            lastLeaf = try leafToChange(object, word)
            lastLeafKey = key
        }
        // Without a leaf the word is in a delta.
        guard let lastLeaf else { return }
        Self.word(lastLeaf, object.number & 511).pointee.store(word, ordering: .releasing)
    }

    /// Ensures that the entity has a root, because it had objects once.
    func makeRoot(_ entity: UInt16) {
        guard root(entity).pointee.load(ordering: .relaxed) == 0 else { return }
        entities.append(entity)
        publish(root(entity), makeNode(), 1)
    }

    /// The leaf in memory in which the object's word is to be stored. Nil if the leaf has a delta in memory instead,
    /// which has the word now.
    @inline(never)
    private func leafToChange(_ object: ObjectID, _ word: UInt64) throws(StoreError) -> UnsafeMutableRawPointer? {
        let slot = root(object.entityNumber)
        let number = object.number
        var depth = slot.pointee.load(ordering: .relaxed) >> Self.depthShift
        if depth == 0 {
            makeRoot(object.entityNumber)
            depth = 1
        }
        while number >> (depth &* IndexNode.bits) != 0 {
            let above = makeNode()
            let below = slot.pointee.load(ordering: .relaxed) & Self.referenceMask
            Self.word(above, 0).pointee.store(below, ordering: .relaxed)
            depth += 1
            publish(slot, above, depth)
        }
        let reference = NodeReference(word: slot.pointee.load(ordering: .relaxed) & Self.referenceMask)
        var node = try inMemory(reference, depth: depth)
        if reference.memory == nil { publish(slot, node, depth) }
        while depth > 2 {
            depth -= 1
            let slot = Self.word(node, number >> (depth &* IndexNode.bits) & 511)
            let below = NodeReference(word: slot.pointee.load(ordering: .relaxed))
            node = try inMemory(below, depth: depth)
            if below.memory == nil { slot.pointee.store(NodeReference(memory: node).word, ordering: .releasing) }
        }
        if depth == 1 { return node }
        return try change(Self.word(node, number >> IndexNode.bits & 511), number & 511, word)
    }

    /// Stores the word in a delta over the leaf to which the slot refers. Returns the leaf instead if it is whole in
    /// memory.
    private func change(
        _ slot: UnsafeMutablePointer<Atomic<UInt64>>, _ index: UInt64, _ word: UInt64
    ) throws(StoreError) -> UnsafeMutableRawPointer? {
        let reference = NodeReference(word: slot.pointee.load(ordering: .relaxed))
        if reference.memory != nil, !reference.isDelta { return reference.memory }
        guard !reference.isNone, deltas.mostInMemory > 0, DeltaEntry.fits(word) else { return try makeWhole(slot) }
        var changes: LeafChanges
        if let memory = reference.memory {
            changes = LeafChanges(memory)
            if changes.set(DeltaEntry(index, word)) { return nil }
            if changes.count >= deltas.mostInMemory { return try makeWhole(slot) }
            changes = changes.grown()
        } else {
            changes = LeafChanges(over: reference)
        }
        let isSet = changes.set(DeltaEntry(index, word))
        assert(isSet, "X6: a new delta has no room.")
        replace(slot, by: changes.reference)
        return nil
    }

    /// Makes a whole leaf in memory of the one to which the slot refers.
    private func makeWhole(_ slot: UnsafeMutablePointer<Atomic<UInt64>>) throws(StoreError) -> UnsafeMutableRawPointer {
        let reference = NodeReference(word: slot.pointee.load(ordering: .relaxed))
        if reference.isNone {
            let node = makeNode()
            slot.pointee.store(NodeReference(memory: node).word, ordering: .releasing)
            return node
        }
        let node = sections.makeNode()
        do throws(StoreError) {
            _ = try fill(reference, node.bindMemory(to: UInt64.self, capacity: IndexNode.words))
        } catch {
            node.deallocate()
            throw error
        }
        replace(slot, by: NodeReference(memory: node))
        return node
    }

    /// Makes a slot refer to something else in memory, which is complete.
    private func replace(_ slot: UnsafeMutablePointer<Atomic<UInt64>>, by new: NodeReference) {
        let old = NodeReference(word: slot.pointee.load(ordering: .relaxed))
        slot.pointee.store(new.word, ordering: .releasing)
        dirtyBytes += new.memoryBytes - old.memoryBytes
        if old.memory != nil { sections.retire(old) }
    }

    private func publish(
        _ slot: UnsafeMutablePointer<Atomic<UInt64>>, _ node: UnsafeMutableRawPointer, _ depth: UInt64
    ) {
        assert(depth >= 1 && depth <= IndexNode.maximumDepth, "A root has an impossible depth.")
        slot.pointee.store(NodeReference(memory: node).word | depth << Self.depthShift, ordering: .releasing)
    }

    private func makeNode() -> UnsafeMutableRawPointer {
        let node = sections.makeNode()
        node.initializeMemory(as: UInt8.self, repeating: 0, count: IndexNode.bytes)
        dirtyBytes += IndexNode.bytes
        return node
    }

    /// The node in memory, or a copy of it there.
    private func inMemory(_ reference: NodeReference, depth: UInt64) throws(StoreError) -> UnsafeMutableRawPointer {
        assert(!reference.isDelta, "X4: a delta is not at a leaf's place.")
        if let memory = reference.memory { return memory }
        if reference.isNone { return makeNode() }
        let content = try source.node(at: reference.word)
        let impossible = depth == 2 ? Self.impossibleAboveLeaf : Self.impossibleBits
        for index in 0..<IndexNode.words where depth > 1 {
            let word = content.integer(at: index * 8, as: UInt64.self)
            if word & impossible != 0 { throw Self.malformed(reference.word) }
        }
        let node = sections.makeNode()
        node.copyMemory(from: content.baseAddress.unsafelyUnwrapped, byteCount: IndexNode.bytes)
        dirtyBytes += IndexNode.bytes
        return node
    }
}
