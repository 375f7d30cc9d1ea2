// A table from resources to what has used them. It keeps hashes only: 8 bytes for each of its slots.
//
// Two resources with one hash are one resource here. That connects transactions that are not connected, which costs
// time and changes no result.

/// The hash of a resource, and whether it is changed or only read.
struct ResourceHash: Equatable {
    private let bits: UInt32

    init(_ resource: MergeResource, isChanged: Bool) {
        bits = UInt32(truncatingIfNeeded: resource.hashValue) & ~1 | (isChanged ? 1 : 0)
    }

    var isChanged: Bool { bits & 1 == 1 }
    /// The same for both; never 0.
    fileprivate var key: UInt32 { bits | 1 }
}

struct ResourceTable {
    enum Use {
        /// One of the entries that have changed it: all that use it are in its group.
        case changed(by: Int32)
        /// The place of the last one in a list of readers.
        case read(last: Int32)
    }

    /// Open addressing with linear probing. A key of 0 is a free slot.
    private var slots: [(key: UInt32, use: Int32)] = []
    private var count = 0

    subscript(_ resource: ResourceHash) -> Use? {
        get {
            guard !slots.isEmpty else { return nil }
            let slot = slots[place(of: resource.key)]
            guard slot.key != 0 else { return nil }
            return slot.use >= 0 ? .changed(by: slot.use) : .read(last: ~slot.use)
        }
        set {
            guard let newValue else { preconditionFailure("The table forgets nothing.") }
            if count >= slots.count / 4 * 3 { grow() }
            let place = place(of: resource.key)
            if slots[place].key == 0 { count += 1 }
            let use =
                switch newValue {
                case .changed(let entry): entry
                case .read(let last): ~last
                }
            slots[place] = (resource.key, use)
        }
    }

    private func place(of key: UInt32) -> Int {
        // The keys are spread over the slots in their order (Lemire, 2019): the number of slots may be any.
        var place = Int((UInt64(key) * UInt64(slots.count)) >> 32)
        while slots[place].key != 0, slots[place].key != key { place = place + 1 == slots.count ? 0 : place + 1 }
        return place
    }

    private mutating func grow() {
        let old = slots
        slots = Array(repeating: (0, 0), count: max(16, old.count / 2 * 3))
        for slot in old where slot.key != 0 { slots[place(of: slot.key)] = slot }
    }
}
