// Object numbers drawn before the objects are inserted, so that objects of a transaction may refer to each other in
// circles.

extension Draft {
    /// Returns the ID of an object that this transaction may insert, once. Until then it does not exist.
    package func reserve(entity: UInt16) throws(StoreError) -> ObjectID {
        _ = try layout(entity)
        let object = try drawNumber(entity)
        reserved.insert(object.rawValue)
        return object
    }

    /// Returns the ID with that number, which this transaction may insert. The unused numbers before it are lost.
    /// Throws `invalidArgument` if the number was drawn before.
    package func reserve(entity: UInt16, number: UInt64) throws(StoreError) -> ObjectID {
        _ = try layout(entity)
        if lastDrawn.entity != entity { goOver(to: entity) }
        if number >= lastDrawn.end { drawMore(from: number) }
        guard number >= lastDrawn.next else {
            throw StoreError(
                .invalidArgument,
                "The number \(number) of an object is used already: reserve larger numbers, in ascending order.")
        }
        lastDrawn.next = number
        return try reserve(entity: entity)
    }

    /// Inserts an object under a reserved ID, with a value for each attribute of its entity's newest layout.
    package func insert(reserved object: ObjectID, _ values: [StoredValue]) throws(StoreError) {
        let layout = try layout(object.entityNumber)
        try requireCount(values.count, layout)
        try insert(reserved: object, layout) { (writer) throws(StoreError) in
            for (position, value) in values.enumerated() { try writer.set(stored: value, at: position) }
        }
    }

    /// Inserts an object under a reserved ID; `set` sets its attributes. Throws `invalidArgument` unless the ID was
    /// reserved here and is still free.
    package func insert(
        reserved object: ObjectID, _ layout: RowLayout, _ set: (inout RowWriter) throws(StoreError) -> Void
    ) throws(StoreError) {
        try requireNewest(layout)
        try frames.requireUsable()
        guard object.entityNumber == layout.number, reserved.contains(object.rawValue) else {
            throw StoreError(
                .invalidArgument,
                "\(object) was not reserved for “\(layout.entity.name)” in this transaction, or is already inserted: "
                    + "reserve an ID, and insert one object with it.")
        }
        try frames.write(.init(.insert, object, previous: nil), layout, .object, set)
        reserved.remove(object.rawValue)
        didWrite(object)
    }

    /// Adds an ID that was reserved in the store to this transaction, which may then insert the object. Throws
    /// `invalidArgument` if it was never reserved, or the object exists or existed.
    package func claim(_ object: ObjectID) throws(StoreError) {
        _ = try layout(object.entityNumber)
        let newest = try base.core.reading { () throws(StoreError) in
            try base.core.newestVersion(object, below: base.end)
        }
        let next = base.totals?[object.entityNumber].nextNumber ?? 1
        guard newest == 0, object.number < next, !isChangedHere(object) else {
            throw StoreError(
                .invalidArgument,
                "\(object) is not reserved in the store, or an object already has this ID: reserve an ID.")
        }
        reserved.insert(object.rawValue)
        // Makes the commit fail if another transaction inserts the object first.
        changed.insert(object.rawValue)
    }
}
