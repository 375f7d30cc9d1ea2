// Reading an ordered index: ranges, batches of objects, single keys, and all entries for the checker.

extension OrderedIndex {
    /// Passes the entries between two bounds to `body`, ascending or descending, until it returns false.
    ///
    /// A key lives until `body` returns. Logarithmic, then linear in the entries handed out; allocates nothing. Throws
    /// errors of the source and of `body`, and `damaged`.
    package func forEach(
        from: IndexBound = .unbounded, to: IndexBound = .unbounded, reversed: Bool = false, _ source: any NodeSource,
        _ body: (UnsafeRawBufferPointer, ObjectID) throws(StoreError) -> Bool
    ) throws(StoreError) {
        try from.withLowerCut { (from) throws(StoreError) in
            try to.withUpperCut { (to) throws(StoreError) in
                try forEach(from: from, to: to, reversed, source, body)
            }
        }
    }

    private func forEach(
        from: OrderedTarget?, to: OrderedTarget?, _ isReversed: Bool, _ source: any NodeSource,
        _ body: (UnsafeRawBufferPointer, ObjectID) throws(StoreError) -> Bool
    ) throws(StoreError) {
        guard let top = try top(source) else { return }
        defer { withExtendedLifetime(self) {} }
        var walk = try OrderedWalk(top, at: isReversed ? to : from, isReversed: isReversed, source)
        repeat {
            let leaf = walk.leaf
            let start = if let from { try leaf.cut(from) } else { 0 }
            let end = if let to { try leaf.cut(to) } else { leaf.count }
            if walk.deltas != 0 {
                let deltas = try OrderedDeltas(walk.deltas, source)
                var merged = try MergedLeaf(leaf, deltas, from: from, to: to, isReversed: isReversed)
                guard try OrderedIndex.visit(&merged, leaf, body) else { return }
            } else if start < end, !(try OrderedIndex.visit(leaf, start, end, isReversed, body)) {
                return
            }
            // The range ends in this leaf.
            if isReversed ? start > 0 : end < leaf.count { return }
        } while try walk.advance()
    }

    /// The number of entries between two bounds. Linear in the leaves between them; constant without bounds.
    package func count(
        from: IndexBound = .unbounded, to: IndexBound = .unbounded, _ source: any NodeSource
    ) throws(StoreError) -> UInt64 {
        if from == .unbounded, to == .unbounded { return entries }
        return try from.withLowerCut { (from) throws(StoreError) in
            try to.withUpperCut { (to) throws(StoreError) in try count(from: from, to: to, source) }
        }
    }

    private func count(
        from: OrderedTarget?, to: OrderedTarget?, _ source: any NodeSource
    ) throws(StoreError) -> UInt64 {
        guard let top = try top(source) else { return 0 }
        defer { withExtendedLifetime(self) {} }
        var walk = try OrderedWalk(top, at: from, isReversed: false, source)
        var count: UInt64 = 0
        repeat {
            let leaf = walk.leaf
            // Only the first leaf has entries before the range.
            let start = if count == 0, let from { try leaf.cut(from) } else { 0 }
            let end = if let to { try leaf.cut(to) } else { leaf.count }
            if walk.deltas != 0 {
                var merged = try MergedLeaf(leaf, try OrderedDeltas(walk.deltas, source), from: from, to: to)
                count += UInt64(try merged.count())
            } else {
                count += UInt64(max(0, end - start))
            }
            if end < leaf.count { break }
        } while try walk.advance()
        return count
    }

    @inline(__always)
    private static func visit(
        _ leaf: OrderedNodeView, _ start: Int, _ end: Int, _ isReversed: Bool,
        _ body: (UnsafeRawBufferPointer, ObjectID) throws(StoreError) -> Bool
    ) throws(StoreError) -> Bool {
        var index = isReversed ? end &- 1 : start
        let step = isReversed ? -1 : 1
        for _ in start..<end {
            let (key, number) = try leaf.keyAndObject(at: index)
            guard let object = ObjectID(rawValue: number) else { throw leaf.damaged("an entry has no object ID.") }
            guard try body(key, object) else { return false }
            index &+= step
        }
        return true
    }

    @inline(never)
    private static func visit(
        _ merged: inout MergedLeaf, _ leaf: OrderedNodeView,
        _ body: (UnsafeRawBufferPointer, ObjectID) throws(StoreError) -> Bool
    ) throws(StoreError) -> Bool {
        while let (key, number) = try merged.next() {
            guard let object = ObjectID(rawValue: number) else { throw leaf.damaged("an entry has no object ID.") }
            guard try body(key, object) else { return false }
        }
        return true
    }

    /// The highest node; nil for an empty index.
    private func top(_ source: any NodeSource) throws(StoreError) -> OrderedNodeView? {
        if let root { return root.view }
        return rootOffset == 0 ? nil : try OrderedNodeView(stored: rootOffset, source)
    }

    /// Appends the objects of at most `limit` entries, for a reader that first collects and then touches rows.
    ///
    /// Returns the bound at which to continue (as the upper one, if reversed); nil if the range is exhausted.
    package func collect(
        from: IndexBound = .unbounded, to: IndexBound = .unbounded, reversed: Bool = false, limit: Int,
        into objects: inout [ObjectID], _ source: any NodeSource
    ) throws(StoreError) -> IndexBound? {
        precondition(limit > 0, "At least one object must be requested.")
        var left = limit
        var next: IndexBound?
        try forEach(from: from, to: to, reversed: reversed, source) { (key, object) throws(StoreError) in
            objects.append(object)
            left &-= 1
            if left == 0 { next = .beside(key: Array(key), object) }
            return left > 0
        }
        return next
    }

    /// The first object with exactly this key; nil without one.
    package func first(
        _ key: UnsafeRawBufferPointer, _ source: any NodeSource
    ) throws(StoreError) -> ObjectID? {
        var found: ObjectID?
        try forEach(from: OrderedTarget(key), to: nil, false, source) { (next, object) throws(StoreError) in
            if next.count == key.count, OrderedBytes.compare(next, key, from: 0, to: key.count) == 0 { found = object }
            return false
        }
        return found
    }

    /// Passes all entries to `body` in ascending order, and throws `damaged` if a node is malformed, out of order or at
    /// a wrong level, or if the number of entries is wrong. For the checker.
    package func validate(
        _ source: any NodeSource, _ body: (UnsafeRawBufferPointer, ObjectID) throws(StoreError) -> Void
    ) throws(StoreError) {
        var found: UInt64 = 0
        defer { withExtendedLifetime(self) {} }
        if let top = try top(source) {
            var walk = try OrderedWalk(top, at: nil, isReversed: false, isValidating: true, source)
            repeat {
                var merged = try MergedLeaf(walk.leaf, walk.validated?.deltas ?? OrderedDeltas())
                _ = try OrderedIndex.visit(&merged, walk.leaf) { (key, object) throws(StoreError) in
                    found &+= 1
                    try body(key, object)
                    return true
                }
            } while try walk.advance()
        }
        guard found == entries else {
            throw StoreError(
                .damaged, "F31: an index's count of entries is wrong.",
                offset: rootOffset == 0 ? nil : rootOffset)
        }
    }
}
