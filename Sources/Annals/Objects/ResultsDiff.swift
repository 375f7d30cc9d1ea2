// The difference from one list of results to the next, for tables on a screen and other copies of the list.

/// The difference between two lists, by positions.
///
/// Use it as a table view does. Remove `removed` and the origins of `moved`, positions in the old list. Then insert
/// `inserted` and the targets of `moved`, positions in the new list. All other elements keep their order.
/// `applied(to:_:)` does it with an array.
public struct ResultsDiff: Hashable, Sendable {
    /// One element that has another place.
    public struct Move: Hashable, Sendable {
        /// The position in the old list.
        public var from: Int
        /// The position in the new list.
        public var to: Int

        /// A move from a position in the old list to one in the new list.
        public init(from: Int, to: Int) { (self.from, self.to) = (from, to) }
    }

    /// The positions in the old list of the elements that are gone, ascending.
    public var removed: [Int]
    /// The positions in the new list of the elements that are new, ascending.
    public var inserted: [Int]
    /// The elements whose order among the rest has changed, by ascending position in the new list.
    public var moved: [Move]
    /// The positions in the new list of the elements with other values, ascending. They may have moved, too. Empty for
    /// the results of a context: observe its objects for their values.
    public var updated: [Int]

    /// A difference of these parts.
    public init(removed: [Int] = [], inserted: [Int] = [], moved: [Move] = [], updated: [Int] = []) {
        (self.removed, self.inserted, self.moved, self.updated) = (removed, inserted, moved, updated)
    }

    /// Whether both lists are the same.
    public var isEmpty: Bool { removed.isEmpty && inserted.isEmpty && moved.isEmpty && updated.isEmpty }

    /// The new list, made from the old one. Linear.
    ///
    /// - Parameters:
    ///   - old: The old list.
    ///   - element: The element at a position of the new list. Called for inserted and updated elements.
    public func applied<Element>(to old: [Element], _ element: (Int) throws -> Element) rethrows -> [Element] {
        let gone = Set(removed).union(moved.map(\.from))
        let kept = old.indices.filter { !gone.contains($0) }
        let changed = Set(updated)
        var placed = Dictionary(uniqueKeysWithValues: moved.map { ($0.to, old[$0.from]) })
        for position in inserted { placed[position] = try element(position) }
        var new: [Element] = []
        new.reserveCapacity(kept.count + placed.count)
        var next = kept.startIndex
        for position in 0..<kept.count + placed.count {
            if let come = placed[position] {
                new.append(come)
            } else if next < kept.endIndex {
                new.append(old[kept[next]])
                next += 1
            }
            if changed.contains(position) { new[position] = try element(position) }
        }
        return new
    }
}
