// A leaf of an ordered index with the deltas over it, as readers see it: their edits and its entries, merged.

/// The deltas over a leaf, the highest first: one in memory at most, and `FormatLimits.maximumDeltas` in the file.
struct OrderedDeltas {
    private var views = InlineArray<17, OrderedDeltaView?>(repeating: nil)
    private(set) var count = 0

    init() { assert(views.count > FormatLimits.maximumDeltas, "There is not a place for each delta.") }

    /// Those to which a reference leads that `OrderedNodeView.child` has found.
    init(_ reference: UInt64, _ source: any NodeSource) throws(StoreError) {
        self.init()
        var next = reference
        if let view = OrderedDeltaView(inMemory: reference) {
            views[0] = view
            (count, next) = (1, view.base)
        }
        let most = FormatLimits.maximumDeltas + count
        while next & 7 == 2 {
            let view = try OrderedDeltaView(stored: next & ~7, source)
            guard count < most else { throw view.damaged("a leaf has too many deltas.") }
            views[count] = view
            count &+= 1
            next = view.base
        }
    }

    /// The reference to the leaf below them, which may be wrong.
    @inline(never)
    static func leaf(
        below reference: UInt64, isStored: Bool, _ source: any NodeSource
    ) throws(StoreError) -> UInt64 {
        var next = reference
        if !isStored, let view = OrderedDeltaView(inMemory: reference) { next = view.base }
        var left = FormatLimits.maximumDeltas
        while next & 7 == 2 {
            let view = try OrderedDeltaView(stored: next & ~7, source)
            left &-= 1
            guard left >= 0 else { throw view.damaged("a leaf has too many deltas.") }
            next = view.base
        }
        return next
    }

    /// One alone.
    init(_ view: OrderedDeltaView) {
        self.init()
        views[0] = view
        count = 1
    }

    subscript(_ number: Int) -> OrderedDeltaView {
        guard let view = views[number] else { preconditionFailure("The requested delta does not exist.") }
        return view
    }
}

/// The edits of several deltas of a leaf in order, each entry once.
struct MergedEdits {
    private let deltas: OrderedDeltas
    private let count: Int
    private let isReversed: Bool
    private var places = InlineArray<17, Range<Int>>(repeating: 0..<0)

    /// Those of the highest `count` deltas, between two cuts.
    init(
        _ deltas: OrderedDeltas, count: Int, from: OrderedTarget? = nil, to: OrderedTarget? = nil,
        isReversed: Bool = false
    ) throws(StoreError) {
        (self.deltas, self.count, self.isReversed) = (deltas, count, isReversed)
        for number in 0..<count {
            let start = if let from { try deltas[number].cut(from) } else { 0 }
            let end = if let to { try deltas[number].cut(to) } else { deltas[number].count }
            places[number] = start..<max(start, end)
        }
    }

    mutating func next() throws(StoreError) -> OrderedEdit? {
        var best: (edit: OrderedEdit, number: Int)?
        for number in 0..<count where !places[number].isEmpty {
            let edit = try deltas[number].edit(
                at: isReversed ? places[number].upperBound &- 1 : places[number].lowerBound)
            guard let other = best?.edit else {
                best = (edit, number)
                continue
            }
            let order = OrderedTarget(other.key, object: other.object).order(of: edit.key, edit.object, equal: 0)
            if order == 0 {
                // DL1: the edit of the higher delta counts.
                consume(number)
            } else if (order < 0) != isReversed {
                best = (edit, number)
            }
        }
        if let best { consume(best.number) }
        return best?.edit
    }

    private mutating func consume(_ number: Int) {
        let place = places[number]
        places[number] =
            isReversed ? place.lowerBound..<place.upperBound &- 1 : place.lowerBound &+ 1..<place.upperBound
    }
}

/// The entries of a leaf with deltas, in order.
struct MergedLeaf {
    private let leaf: OrderedNodeView
    private let isReversed: Bool
    private var place: Range<Int>
    private var edits: MergedEdits
    /// The next edit, if it was read already.
    private var edit: OrderedEdit?

    /// Those between two cuts.
    init(
        _ leaf: OrderedNodeView, _ deltas: OrderedDeltas, from: OrderedTarget? = nil, to: OrderedTarget? = nil,
        isReversed: Bool = false
    ) throws(StoreError) {
        (self.leaf, self.isReversed) = (leaf, isReversed)
        let start = if let from { try leaf.cut(from) } else { 0 }
        let end = if let to { try leaf.cut(to) } else { leaf.count }
        place = start..<max(start, end)
        edits = try MergedEdits(deltas, count: deltas.count, from: from, to: to, isReversed: isReversed)
        edit = try edits.next()
    }

    mutating func next() throws(StoreError) -> (key: UnsafeRawBufferPointer, object: UInt64)? {
        while let edit {
            guard !place.isEmpty else {
                self.edit = try edits.next()
                if edit.isThere { return (edit.key, edit.object) }
                continue
            }
            let entry = try entry()
            var order = OrderedTarget(entry.key, object: entry.object).order(of: edit.key, edit.object, equal: 0)
            if isReversed { order = -order }
            if order >= 0 { consume() }
            if order > 0 { return entry }
            self.edit = try edits.next()
            if edit.isThere { return (edit.key, edit.object) }
        }
        if place.isEmpty { return nil }
        defer { consume() }
        return try entry()
    }

    private func entry() throws(StoreError) -> (key: UnsafeRawBufferPointer, object: UInt64) {
        try leaf.keyAndObject(at: isReversed ? place.upperBound &- 1 : place.lowerBound)
    }

    private mutating func consume() {
        place = isReversed ? place.lowerBound..<place.upperBound &- 1 : place.lowerBound &+ 1..<place.upperBound
    }

    /// The number of entries that are left.
    mutating func count() throws(StoreError) -> Int {
        var count = 0
        while try next() != nil { count &+= 1 }
        return count
    }
}

extension OrderedNode {
    /// A copy of a leaf in memory, with the edits of the deltas over it.
    convenience init(copyOf leaf: OrderedNodeView, _ deltas: OrderedDeltas) throws(StoreError) {
        try self.init(copyOf: leaf)
        // First the entries that go, because the others may need their room.
        for isThere in [false, true] {
            var edits = try MergedEdits(deltas, count: deltas.count)
            while let edit = try edits.next() {
                if edit.isThere != isThere { continue }
                let (index, isFound) = try view.position(of: OrderedTarget(edit.key, object: edit.object))
                if isFound == isThere { continue }
                guard isThere else {
                    remove(at: index)
                    continue
                }
                guard edit.key.count <= OrderedLimits.maximumKeyBytes, hasRoom(forKeyOf: edit.key.count) else {
                    throw leaf.damaged("a leaf and its deltas do not fit a node.")
                }
                insert(edit.key, edit.object, at: index)
            }
        }
        guard count > 0 else { throw leaf.damaged("a leaf with deltas is empty.") }
    }
}
