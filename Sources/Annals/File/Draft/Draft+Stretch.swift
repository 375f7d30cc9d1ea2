// Many consecutive object numbers at once, for objects that refer to each other and are inserted one after the other.

extension Draft {
    /// Draws consecutive object numbers, which no other transaction of this handle has. Returns the first one.
    ///
    /// The transaction must insert an object with each of them (`insert(drawn:_:)`) before it ends. Until then,
    /// references may lead to them. Takes no memory for each number, unlike `reserve(entity:)`.
    package func draw(entity: UInt16, count: UInt64) throws(StoreError) -> UInt64 {
        let known = base.nextNumber(of: entity)
        guard count > 0, count <= FormatLimits.maximumObjectNumber, known <= FormatLimits.maximumObjectNumber - count
        else { throw .tooManyObjects }
        if lastDrawn.entity != entity { goOver(to: entity) }
        let before = lastDrawn
        let first = numbers.draw(entity, count: count, from: known)
        assert(first >= known, "T3: the number of another object is drawn.")
        guard ObjectID(entityNumber: entity, number: first + count - 1) != nil else {
            numbers.returnNumbers(entity, from: first, end: first + count)
            throw .tooManyObjects
        }
        if before.first < before.next { earlier.append((entity, before.first..<before.next)) }
        (lastDrawn.first, lastDrawn.next, lastDrawn.end) = (first, first + count, first + count)
        return first
    }

    /// Inserts an object with a number from `draw(entity:count:)`, once, with one value for each attribute of its
    /// entity's newest layout.
    package func insert(drawn object: ObjectID, _ values: [StoredValue]) throws(StoreError) {
        guard let layout = newestLayout(object.entityNumber) else { throw .tooManyObjects }
        try requireCount(values.count, layout)
        try frames.requireUsable()
        try frames.write(.init(.insert, object, previous: nil), layout, .object) { (row) throws(StoreError) in
            for position in values.indices {
                if case .absent = values[position] { continue }
                try row.set(stored: values[position], at: position)
            }
        }
        didWrite(object)
    }
}
