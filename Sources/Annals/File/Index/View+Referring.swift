// References in one state: which objects refer to an object, and which objects exist.

extension View {
    /// Whether such an object exists, or this is unknown. Constant time, without reading its row.
    func has(_ object: ObjectID) throws(StoreError) -> Bool {
        if unknownEntities.contains(object.entityNumber) { return true }
        guard shape.has(object.entityNumber) else { return false }
        return try core.reading { () throws(StoreError) in try core.visibleRow(object, below: end) != nil }
    }

    /// The value without references to objects that do not exist.
    @inline(__always)
    func withoutMissing(_ value: StoredValue) throws(StoreError) -> StoredValue {
        switch value {
        case .object, .orderedObjects, .objects:
            try value.keepingReferences { (object) throws(StoreError) in try has(object) }
        default: value
        }
    }

    /// Passes the objects whose attribute refers to an object to `body`, each once, until it returns false. `id` is the
    /// index over that attribute, perhaps unique in one schema and not in another; without it in this state's schema,
    /// passes none.
    ///
    /// Reads only the index. For a state without it: linear in the entity's objects.
    package func forEachReferring(
        to target: ObjectID, _ id: IndexID, _ body: (ObjectID) throws(StoreError) -> Bool
    ) throws(StoreError) {
        guard let number = shape.index(of: id.entity, over: id.attributes) else { return }
        try forEachReferring(to: target, index: number, body)
    }

    /// The same by the number of the index.
    func forEachReferring(
        to target: ObjectID, index number: Int, _ body: (ObjectID) throws(StoreError) -> Bool
    ) throws(StoreError) {
        try withoutActuallyEscaping(body) { (body) throws(StoreError) in
            try forEachReferring(to: target, index: number, ObjectVisitor(body))
        }
    }

    private func forEachReferring(
        to target: ObjectID, index number: Int, _ visitor: ObjectVisitor
    ) throws(StoreError) {
        guard number < ordered.count, let index = ordered[number] else {
            return try scan(entity: shape.indexes[number].id.entity) { (object, row) throws(StoreError) in
                let elements = try shape.indexes[number].elements(of: row, large: IndexShape.noLargeKeys)
                return elements.contains(target) ? try visitor.visit(object) : true
            }
        }
        let bound = KeyRange(element: target).lower
        try core.reading { () throws(StoreError) in
            try index.forEach(from: bound, to: bound, core.file) { (_, object) throws(StoreError) in
                try visitor.visit(object)
            }
        }
    }
}

/// A closure in an object: see `RowVisitor`.
private final class ObjectVisitor {
    let visit: (ObjectID) throws(StoreError) -> Bool

    init(_ visit: @escaping (ObjectID) throws(StoreError) -> Bool) { self.visit = visit }
}
