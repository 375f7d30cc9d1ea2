// A search in an ordered index: the comparison of its target with the entries.

/// A cut through the sequence of entries: each entry is either before it or after it.
///
/// Sound although it holds a pointer: the bytes belong to the caller's key, which outlives the call.
struct OrderedTarget {
    enum Edge {
        /// In front of the entry with exactly this key and object.
        case beforeEntry
        /// After that entry.
        case afterEntry
        /// After all entries whose keys begin with this key.
        case afterPrefix
    }

    let key: UnsafeRawBufferPointer
    let object: UInt64
    let edge: Edge

    init(_ key: UnsafeRawBufferPointer, object: UInt64 = 0, edge: Edge = .beforeEntry) {
        (self.key, self.object, self.edge) = (key, object, edge)
    }

    /// The head that a slot with this key would have. After a prefix the rest counts as greatest, so that other
    /// continuations have no greater head.
    @inline(__always)
    func head(after prefix: Int) -> UInt32 {
        OrderedBytes.head(key, after: prefix, filler: edge == .afterPrefix ? .max : 0)
    }

    /// Below 0 if the entry with this key and object is before the cut, 0 if it is the target, otherwise above 0. The
    /// first `equal` bytes are known to be equal.
    @inline(__always)
    func order(of entryKey: UnsafeRawBufferPointer, _ entryObject: UInt64, equal: Int) -> Int {
        let shared = min(entryKey.count, key.count)
        let order = OrderedBytes.compare(entryKey, key, from: equal, to: shared)
        if order != 0 { return order }
        if edge == .afterPrefix { return -1 }
        if entryKey.count != key.count { return entryKey.count < key.count ? -1 : 1 }
        return entryObject == object ? 0 : entryObject < object ? -1 : 1
    }
}

/// Compares bytes by words.
///
/// Sound because loads lie between two positions in both buffers; the caller guarantees this, and debug builds check
/// it.
enum OrderedBytes {
    @inline(__always)
    static func head(_ key: UnsafeRawBufferPointer, after prefix: Int, filler: UInt32) -> UInt32 {
        if key.count &- prefix >= 4 {
            return UInt32(bigEndian: key.loadUnaligned(fromByteOffset: prefix, as: UInt32.self))
        }
        return shortHead(key, after: prefix, filler)
    }

    @inline(never)
    private static func shortHead(_ key: UnsafeRawBufferPointer, after prefix: Int, _ filler: UInt32) -> UInt32 {
        var head: UInt32 = 0
        for position in prefix..<(prefix + 4) {
            head = head << 8 | (position < key.count ? UInt32(key[position]) : filler & 0xff)
        }
        return head
    }

    /// The eight bytes at `offset` as a number with the same order; zeros replace bytes beyond the key's end.
    static func word(of key: UnsafeRawBufferPointer, at offset: Int) -> UInt64 {
        if key.count &- offset >= 8 { return word(key, offset) }
        var word: UInt64 = 0
        for position in offset..<(offset + 8) {
            word = word << 8 | (position < key.count ? UInt64(key[position]) : 0)
        }
        return word
    }

    /// Below 0 if the first buffer has the lesser bytes in that range, 0 if they are the same, otherwise above 0. The
    /// bytes before the range must be the same in both.
    @inline(__always)
    static func compare(
        _ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer, from start: Int, to end: Int
    ) -> Int {
        var at = start
        while end &- at >= 8 {
            let (a, b) = (word(left, at), word(right, at))
            if a != b { return a < b ? -1 : 1 }
            at &+= 8
        }
        guard at < end else { return 0 }
        // The last word overlaps bytes that are equal, compared or known to be.
        if end >= 8 {
            let (a, b) = (word(left, end &- 8), word(right, end &- 8))
            return a == b ? 0 : a < b ? -1 : 1
        }
        while at < end {
            let (a, b) = (left[at], right[at])
            if a != b { return a < b ? -1 : 1 }
            at &+= 1
        }
        return 0
    }

    /// The number of equal bytes among the first `limit`, which both must have.
    static func commonBytes(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer, limit: Int) -> Int {
        var at = 0
        while limit &- at >= 8 {
            let difference = word(left, at) ^ word(right, at)
            if difference != 0 { return at &+ difference.leadingZeroBitCount / 8 }
            at &+= 8
        }
        while at < limit, left[at] == right[at] { at &+= 1 }
        return at
    }

    @inline(__always)
    private static func word(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> UInt64 {
        assert(offset >= 0 && bytes.count &- offset >= 8, "A word is loaded from outside of its bytes.")
        return UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }
}
