// A sorted list of objects that is changed where objects change: found by binary search among sort keys.
//
// Invariants:
// LR1  `order` has the objects of `rows`, each once, ascending by key. Objects with equal keys ascend by their IDs, or
//      descend if `isDescending`: the order of fetching.
// LR2  A key is the one that the list was sorted by, not the object's present one. So an object is found by its old
//      key.

/// The key by which an object is sorted.
struct LiveKey: Equatable, Sendable {
    /// Bytes that order as the sorted properties do.
    var bytes: [UInt8] = []
    /// The number of these bytes that belong to the object's section.
    var sectionBytes = 0

    var section: ArraySlice<UInt8> { bytes.prefix(sectionBytes) }
}

extension LiveKey {
    /// The key of a match with a score: greater scores come first. A score is not negative (RK1), so its bits order as
    /// it does.
    init(rank score: Double) {
        self.init(bytes: withUnsafeBytes(of: (~score.bitPattern).bigEndian) { Array($0) })
    }
}

/// Objects in order, with something kept for each.
struct LiveRows<Content> {
    struct Row {
        var key: LiveKey
        var content: Content
    }

    /// The change of one object in the list.
    struct Change {
        /// Its ID in the list; nil if it is not in it.
        var old: ObjectID?
        /// Its row from now on, with the ID that it has now; nil if it is no longer in the list.
        var new: (id: ObjectID, row: Row)?
        /// Whether its values differ.
        var isUpdated = false
    }

    /// The next list, before it is shown.
    struct Plan {
        fileprivate let order: [ObjectID]
        fileprivate let changes: [Change]
        let diff: ResultsDiff
    }

    private(set) var order: [ObjectID] = []
    private(set) var rows: [ObjectID: Row] = [:]
    let isDescending: Bool

    init(isDescending: Bool) { self.isDescending = isDescending }

    subscript(_ object: ObjectID) -> Row? { rows[object] }

    mutating func keep(_ content: Content, of object: ObjectID) { rows[object]?.content = content }

    // MARK: Order

    private func isBefore(_ left: LiveKey, _ leftID: ObjectID, _ right: LiveKey, _ rightID: ObjectID) -> Bool {
        left.bytes.withUnsafeBytes { left in
            right.bytes.withUnsafeBytes { right in
                if left.isBefore(right) { return true }
                if right.isBefore(left) { return false }
                return isDescending ? rightID < leftID : leftID < rightID
            }
        }
    }

    /// The number of objects of the list before one with a key (LR2).
    private func position(_ key: LiveKey, _ id: ObjectID) -> Int {
        var (low, high) = (0, order.count)
        while low < high {
            let middle = (low + high) / 2
            let other = order[middle]
            if let row = rows[other], isBefore(row.key, other, key, id) { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// The position of an object; nil if it is not in the list. Logarithmic.
    func position(of object: ObjectID) -> Int? { rows[object].map { position($0.key, object) } }

    /// The end of the section that begins at a position. Logarithmic.
    func endOfSection(startingAt start: Int) -> Int {
        guard let section = rows[order[start]]?.key.section else { return order.count }
        var (low, high) = (start + 1, order.count)
        while low < high {
            let middle = (low + high) / 2
            if rows[order[middle]]?.key.section == section { low = middle + 1 } else { high = middle }
        }
        return low
    }

    // MARK: Changing

    /// The next list (LR1). Costs a binary search for each change, and one copy of the order.
    func plan(_ changes: [Change]) -> Plan {
        // The objects that leave a position, and those that get one.
        var leaving: [(position: Int, change: Int)] = []
        var coming: [(position: Int, change: Int)] = []
        for (index, change) in changes.enumerated() {
            if let old = change.old, let new = change.new, old == new.id, rows[old]?.key == new.row.key { continue }
            if let old = change.old, let position = position(of: old) { leaving.append((position, index)) }
            if let new = change.new { coming.append((position(new.row.key, new.id), index)) }
        }
        guard !leaving.isEmpty || !coming.isEmpty else {
            return Plan(order: order, changes: changes, diff: ResultsDiff(updated: updated(changes, [:], order)))
        }
        leaving.putInOrder { $0.position < $1.position }
        coming.putInOrder { left, right in
            guard let a = changes[left.change].new, let b = changes[right.change].new else { return false }
            return isBefore(a.row.key, a.id, b.row.key, b.id)
        }
        var next: [ObjectID] = []
        next.reserveCapacity(order.count + coming.count - leaving.count)
        var read = 0
        var left = leaving[...]
        func copy(upTo position: Int) {
            while let leaves = left.first, leaves.position < position {
                next.append(contentsOf: order[read..<leaves.position])
                read = leaves.position + 1
                left.removeFirst()
            }
            next.append(contentsOf: order[read..<position])
            read = position
        }
        /// The new positions of added objects, by their index in `changes`.
        var places: [Int: Int] = [:]
        for come in coming {
            guard let new = changes[come.change].new else { continue }
            if come.position > read { copy(upTo: come.position) }
            places[come.change] = next.count
            next.append(new.id)
        }
        copy(upTo: order.count)
        return Plan(
            order: next, changes: changes, diff: difference(changes, leaving, coming.map(\.change), places, next))
    }

    /// Shows a planned list.
    mutating func show(_ plan: Plan) {
        for change in plan.changes {
            if let old = change.old, old != change.new?.id { rows[old] = nil }
        }
        for change in plan.changes { if let new = change.new { rows[new.id] = new.row } }
        order = plan.order
    }

    // MARK: Difference

    private func difference(
        _ changes: [Change], _ leaving: [(position: Int, change: Int)], _ coming: [Int], _ places: [Int: Int],
        _ next: [ObjectID]
    ) -> ResultsDiff {
        var diff = ResultsDiff()
        /// By change: the old position, and the number of objects before it that do not leave.
        var origins: [Int: (position: Int, kept: Int)] = [:]
        for (index, leaves) in leaving.enumerated() {
            if places[leaves.change] == nil {
                diff.removed.append(leaves.position)
            } else {
                origins[leaves.change] = (leaves.position, leaves.position - index)
            }
        }
        // An object may keep its place among the rest if the same objects precede it. As many of these as possible do.
        var able: [(change: Int, position: Int)] = []
        for (index, change) in coming.enumerated() {
            guard let place = places[change], let origin = origins[change] else { continue }
            let isInSameSection = rows[order[origin.position]]?.key.section == changes[change].new?.row.key.section
            if isInSameSection, origin.kept == place - index { able.append((change, origin.position)) }
        }
        let staying = Set(able.map(\.position).longestAscent.map { able[$0].change })
        for change in coming {
            guard let place = places[change] else { continue }
            guard let origin = origins[change] else {
                diff.inserted.append(place)
                continue
            }
            if !staying.contains(change) { diff.moved.append(ResultsDiff.Move(from: origin.position, to: place)) }
        }
        diff.updated = updated(changes, places, next)
        return diff
    }

    private func updated(_ changes: [Change], _ places: [Int: Int], _ next: [ObjectID]) -> [Int] {
        guard changes.contains(where: { $0.isUpdated }) else { return [] }
        let wanted = Set(changes.compactMap { $0.isUpdated ? $0.new?.id : nil })
        return next.indices.filter { wanted.contains(next[$0]) }
    }
}

extension LiveRows: Sendable where Content: Sendable {}

extension LiveRows.Row: Sendable where Content: Sendable {}

extension [Int] {
    /// The indices of a longest part whose elements ascend. Takes n log n steps.
    fileprivate var longestAscent: [Int] {
        // By length less 1: the last index of the part of that length with the least last element.
        var ends: [Int] = []
        var before = [Int?](repeating: nil, count: count)
        for index in indices {
            var (low, high) = (0, ends.count)
            while low < high {
                let middle = (low + high) / 2
                if self[ends[middle]] < self[index] { low = middle + 1 } else { high = middle }
            }
            if low > 0 { before[index] = ends[low - 1] }
            if low == ends.count { ends.append(index) } else { ends[low] = index }
        }
        var part: [Int] = []
        var next = ends.last
        while let index = next {
            part.append(index)
            next = before[index]
        }
        return part.reversed()
    }
}
