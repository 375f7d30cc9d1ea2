// Deltas: changes of a leaf of the row index, kept over the leaf instead of in a copy of it.
//
// Invariants:
// X6  The base of a delta in memory is in the file, and the delta holds every change of the leaf that the base lacks. A
//     reader goes from the highest delta down, and the first entry of the object counts.
// X7  A delta in the file is above its base, by offset, so a chain ends. Its head is checked before its base is
//     followed, and its entries before they are used.

internal import Synchronization

/// The size limits of deltas, in memory and in the file.
package struct DeltaPolicy: Sendable {
    /// A delta in memory with this number of entries becomes a whole leaf when another one comes: 0, or 3 times a power
    /// of two up to 96. With 0 every changed leaf is whole.
    package var mostInMemory = 96
    /// A leaf with more entries over it is written whole.
    package var mostInFile = 128
    /// A new delta takes up those below it that have at most so many times its entries.
    package var absorbs = 2
    package var mostInChain = FormatLimits.maximumDeltas
    package var ordered = OrderedDeltaPolicy()

    package init() {}
}

package enum DeltaField {
    /// The base, and above it the number of entries.
    package static let base = 0
    package static let countShift: UInt64 = 56
    /// With `leastPresent` entries or more: a bit for each object of the leaf that has an entry.
    package static let present = 8
    package static let presentBytes = 64
    package static let leastPresent = 16
    package static let mostEntries = 255
    /// The size of the largest delta.
    package static let mostBytes = 8 + presentBytes + mostEntries * 8
}

/// The word of an object (X1) and the object's place in its leaf.
package struct DeltaEntry: Equatable {
    package let bits: UInt64
    private static let wordBits: UInt64 = 55

    @inline(__always)
    package init(bits: UInt64) { self.bits = bits }

    @inline(__always)
    package init(_ index: UInt64, _ word: UInt64) {
        assert(index < UInt64(IndexNode.words) && Self.fits(word) && word & 6 == 0, "X1: a word fits no entry.")
        bits = index << Self.wordBits | word >> 3 &* 2 | word & 1
    }

    /// Words of offsets so high are in whole leaves only.
    static func fits(_ word: UInt64) -> Bool { word >> 57 == 0 }

    @inline(__always)
    package var index: UInt64 { bits >> Self.wordBits }
    @inline(__always)
    package var word: UInt64 { (bits & (1 << Self.wordBits - 1)) >> 1 &* 8 | bits & 1 }
    /// Whether its word can name a version.
    @inline(__always)
    package var isPossible: Bool { word >= UInt64(FormatLimits.pageBytes) }
}

// MARK: In the file

/// The first word of a delta in the file.
package struct DeltaHead {
    package let base: NodeReference
    package let count: Int

    /// Nil if no delta at this offset begins with the word: X7.
    @inline(__always)
    package init?(_ word: UInt64, at offset: UInt64) {
        base = NodeReference(word: word & (1 << DeltaField.countShift - 1))
        count = Int(truncatingIfNeeded: word >> DeltaField.countShift)
        if count == 0 || base.word & 5 != 0 || base.offset >= offset { return nil }
        if base.offset < UInt64(FormatLimits.pageBytes) { return nil }
    }

    @inline(__always)
    package var hasPresent: Bool { count >= DeltaField.leastPresent }
    @inline(__always)
    package var entries: Int { hasPresent ? DeltaField.present + DeltaField.presentBytes : DeltaField.present }
    package var bytes: Int { entries + count * 8 }
}

/// A delta in the file whose form was checked.
package struct StoredDelta {
    package let head: DeltaHead
    private let bytes: UnsafeRawBufferPointer

    /// Nil if the bytes are no delta at this offset.
    package init?(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) {
        guard bytes.count >= 8, let head = DeltaHead(bytes.integer(at: 0, as: UInt64.self), at: offset),
            bytes.count >= head.bytes
        else { return nil }
        (self.head, self.bytes) = (head, bytes)
        var present = SIMD8<UInt64>()
        var next: UInt64 = 0
        for place in 0..<head.count {
            let entry = entry(place)
            guard entry.index >= next, entry.isPossible else { return nil }
            next = entry.index + 1
            present[Int(entry.index >> 6)] |= 1 << (entry.index & 63)
        }
        guard head.hasPresent else { return }
        for group in 0..<8 {
            let stored = bytes.integer(at: DeltaField.present + group * 8, as: UInt64.self)
            if stored != present[group] { return nil }
        }
    }

    private func entry(_ place: Int) -> DeltaEntry {
        DeltaEntry(bits: bytes.integer(at: head.entries + place * 8, as: UInt64.self))
    }

    /// In ascending order.
    package func forEachEntry(_ body: (DeltaEntry) -> Void) {
        for place in 0..<head.count { body(entry(place)) }
    }
}

/// Entries of several deltas of one leaf, added from the highest delta to the lowest: the first of an object counts.
package struct MergedEntries {
    package private(set) var count = 0
    private var present = SIMD8<UInt64>()
    private var entries = [UInt64](repeating: 0, count: IndexNode.words)

    package init() {}

    package mutating func removeAll() { (count, present) = (0, SIMD8()) }

    package mutating func add(_ entry: DeltaEntry) {
        let (group, bit) = (Int(entry.index >> 6), UInt64(1) << (entry.index & 63))
        if present[group] & bit != 0 { return }
        present[group] |= bit
        entries[Int(entry.index)] = entry.bits
        count += 1
    }

    /// Writes a delta over `base` into the buffer. Returns its bytes.
    package func write(
        over base: NodeReference, to buffer: UnsafeMutableRawBufferPointer
    ) -> UnsafeRawBufferPointer {
        assert(count > 0 && count <= DeltaField.mostEntries, "X7: a delta has too many entries, or none.")
        assert(base.word & 5 == 0 && base.word >> DeltaField.countShift == 0, "X6: a base is not in the file.")
        buffer.store(base.word | UInt64(count) << DeltaField.countShift, at: DeltaField.base)
        var place = DeltaField.present
        if count >= DeltaField.leastPresent {
            for group in 0..<8 { buffer.store(present[group], at: place + group * 8) }
            place += DeltaField.presentBytes
        }
        forEachEntry { entry in
            buffer.store(entry.bits, at: place)
            place += 8
        }
        return UnsafeRawBufferPointer(buffer.slice(0, place))
    }

    /// In ascending order.
    package func forEachEntry(_ body: (DeltaEntry) -> Void) {
        for group in 0..<8 {
            var bits = present[group]
            while bits != 0 {
                body(DeltaEntry(bits: entries[group * 64 + bits.trailingZeroBitCount]))
                bits &= bits - 1
            }
        }
    }
}

// MARK: In memory

/// A delta in memory: a hash table of entries, with open addressing. One thread adds entries while others read (X2).
///
/// The first word is the base, with the table's size above it. The second counts the entries, for the thread that
/// changes it. Slots follow. They change from 0 to an entry, and from an entry to another one of the same object, by
/// single atomic stores; base and size never change (X3).
package struct LeafChanges {
    private let memory: UnsafeMutableRawPointer
    private static let front = 16
    private static let sizeShift: UInt64 = 60

    /// Wraps one that `init(over:sizeBits:)` made.
    @inline(__always)
    package init(_ memory: UnsafeMutableRawPointer) { self.memory = memory }

    /// An empty one. Readers see it when its reference was stored with releasing order.
    package init(over base: NodeReference, sizeBits: UInt64 = 2) {
        assert(!base.isNone && base.word & 1 == 0, "X6: the base is not in the file.")
        let bytes = Self.front + 8 << sizeBits
        memory = .allocate(byteCount: bytes, alignment: 16)
        memory.initializeMemory(as: UInt8.self, repeating: 0, count: bytes)
        memory.storeBytes(of: base.word | sizeBits << Self.sizeShift, as: UInt64.self)
    }

    package var reference: NodeReference { NodeReference(delta: memory) }
    @inline(__always)
    private var first: UInt64 { memory.load(as: UInt64.self) }
    @inline(__always)
    package var base: NodeReference { NodeReference(word: first & (1 << Self.sizeShift - 1)) }
    private var sizeBits: UInt64 { first >> Self.sizeShift }
    package var bytes: Int { Self.front + 8 << sizeBits }
    package private(set) var count: Int {
        get { memory.load(fromByteOffset: 8, as: Int.self) }
        nonmutating set { memory.storeBytes(of: newValue, toByteOffset: 8, as: Int.self) }
    }

    @inline(__always)
    private func slot(_ index: UInt64) -> UnsafeMutablePointer<Atomic<UInt64>> {
        assert(UInt(bitPattern: memory) % 8 == 0, "not aligned")
        return (memory + Self.front + Int(truncatingIfNeeded: index) &* 8).assumingMemoryBound(to: Atomic<UInt64>.self)
    }

    /// The slot with the object's entry, or the empty one that ends the search, and its content.
    @inline(__always)
    private func search(_ index: UInt64) -> (slot: UnsafeMutablePointer<Atomic<UInt64>>, entry: DeltaEntry) {
        let mask = UInt64(1) << sizeBits &- 1
        var place = index & mask
        while true {
            let slot = slot(place)
            let entry = DeltaEntry(bits: slot.pointee.load(ordering: .acquiring))
            if entry.bits == 0 || entry.index == index { return (slot, entry) }
            place = (place &+ 1) & mask
        }
    }

    /// The word of the object at this index of the leaf; 0 if it has no entry.
    @inline(__always)
    package func word(of index: UInt64) -> UInt64 { search(index).entry.word }

    /// Sets the entry of its object. Returns false if there is no room for it: a quarter of the slots stays empty, so
    /// that each search ends.
    package func set(_ entry: DeltaEntry) -> Bool {
        let found = search(entry.index)
        if found.entry.bits == 0 {
            if count >= 3 << sizeBits / 4 { return false }
            count += 1
        }
        found.slot.pointee.store(entry.bits, ordering: .releasing)
        return true
    }

    /// One of twice the size with the same entries.
    package func grown() -> LeafChanges {
        let larger = LeafChanges(over: base, sizeBits: sizeBits + 1)
        forEachEntry { entry in
            let isSet = larger.set(entry)
            assert(isSet, "X6: a larger delta lacks an entry.")
        }
        return larger
    }

    /// In no order.
    package func forEachEntry(_ body: (DeltaEntry) -> Void) {
        for index in 0..<UInt64(1) << sizeBits {
            let entry = DeltaEntry(bits: slot(index).pointee.load(ordering: .acquiring))
            if entry.bits != 0 { body(entry) }
        }
    }

    package func deallocate() { memory.deallocate() }
}
