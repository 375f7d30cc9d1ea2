// An ordered index in memory over changes that are not committed yet: those of a transaction, or of a context.
//
// Invariants:
// OI1  Entries ascend by key, then by object. No entry is in it twice, and no leaf is empty unless it is the only one.
// OI2  An entry is only a hint: an object may have another key since, or be gone. So an object may be found under
//      several keys, and the searcher checks the object itself.

/// Keys of objects, in the form and the order of the store's index over the same attributes.
///
/// Adding and finding take logarithmic time, and moving a leaf's entries.
struct OwnIndex {
    private struct Entry {
        var key: [UInt8]
        var object: ObjectID
    }

    private var leaves: [[Entry]] = [[]]
    private(set) var count = 0
    private static let leafEntries = 256

    /// Adds an entry, unless the index has it.
    mutating func add(_ object: ObjectID, _ key: [UInt8]) {
        let after = Self.first(leaves) { leaf in leaf.first.map { Self.isAfter($0, key, object) } ?? true }
        let leaf = max(0, after - 1)
        let place = Self.first(leaves[leaf]) { !Self.isBefore($0, key, object) }
        if place < leaves[leaf].count {
            let found = leaves[leaf][place]
            if found.object == object, found.key == key { return }
        }
        assert(
            place == 0 || Self.isBefore(leaves[leaf][place - 1], key, object),
            "OI1: the entries of a leaf do not ascend.")
        leaves[leaf].insert(Entry(key: key, object: object), at: place)
        count += 1
        guard leaves[leaf].count > Self.leafEntries else { return }
        let half = Self.leafEntries / 2
        leaves.insert(Array(leaves[leaf][half...]), at: leaf + 1)
        leaves[leaf].removeSubrange(half...)
    }

    /// Passes on the objects of a range, in the order of the index. See OI2.
    func forEach<Failure>(_ range: KeyRange, _ body: (ObjectID) throws(Failure) -> Void) throws(Failure) {
        if count == 0 { return }
        // The last leaf that begins before the range, which may reach into it.
        var leaf = max(0, Self.first(leaves) { range.lower.isBelow($0[0].key, $0[0].object) } - 1)
        var place = Self.first(leaves[leaf]) { range.lower.isBelow($0.key, $0.object) }
        while leaf < leaves.count {
            while place < leaves[leaf].count {
                let entry = leaves[leaf][place]
                guard range.upper.isAbove(entry.key, entry.object) else { return }
                try body(entry.object)
                place += 1
            }
            (leaf, place) = (leaf + 1, 0)
        }
    }

    // MARK: Order

    /// The index of the first element that satisfies a condition which all later ones satisfy; the count if none does.
    private static func first<Element>(_ elements: [Element], _ isFound: (Element) -> Bool) -> Int {
        var (low, high) = (0, elements.count)
        while low < high {
            let middle = (low + high) / 2
            if isFound(elements[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    private static func isBefore(_ entry: Entry, _ key: [UInt8], _ object: ObjectID) -> Bool {
        IndexBound.isBefore(entry.key, key) || entry.key == key && entry.object < object
    }

    private static func isAfter(_ entry: Entry, _ key: [UInt8], _ object: ObjectID) -> Bool {
        IndexBound.isBefore(key, entry.key) || entry.key == key && object < entry.object
    }
}

extension OwnIndex {
    /// The objects under ranges, each once. See OI2.
    func objects(_ ranges: [KeyRange]) -> Set<ObjectID> {
        var objects: Set<ObjectID> = []
        for range in ranges { forEach(range) { objects.insert($0) } }
        return objects
    }
}

extension IndexID {
    /// The keys under which an index has an object with these values, in the order of its attributes: one, or one for
    /// each element of a list. A null value has a key, too.
    func ownKeys(_ values: [StoredValue], _ layout: RowLayout) throws(StoreError) -> [[UInt8]] {
        var types: [AttributeType] = []
        for number in attributes {
            guard let attribute = layout.attribute(number) else { return [] }
            types.append(attribute.type.keyType)
        }
        if values.count == 1 {
            switch values[0] {
            case .orderedObjects(let objects), .objects(let objects):
                var keys: [[UInt8]] = []
                for object in objects { keys.append(try Self.key([.object(object)], types)) }
                return keys
            default: break
            }
        }
        return [try Self.key(values, types)]
    }

    private static func key(_ values: [StoredValue], _ types: [AttributeType]) throws(StoreError) -> [UInt8] {
        var writer = ByteWriter(capacity: 64)
        try IndexKey.append(values: values, types: types, to: &writer)
        return Array(writer.bytes)
    }
}
