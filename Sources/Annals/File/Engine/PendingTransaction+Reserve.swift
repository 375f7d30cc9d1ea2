// Object numbers before there are objects. Objects of a transaction may refer to each other in circles.

extension PendingTransaction {
    /// Returns the ID of an object that this transaction may insert, once. Until then it does not exist.
    package func reserve(entity: UInt16) throws(StoreError) -> ObjectID {
        _ = try layout(entity)
        let object = try drawNumber(entity)
        reserved.insert(object.rawValue)
        return object
    }

    /// Inserts an object under a reserved ID, with a value for each attribute of its entity's newest layout.
    package func insert(reserved object: ObjectID, _ values: [StoredValue]) throws(StoreError) {
        let layout = try layout(object.entityNumber)
        try requireCount(values.count, layout)
        try insert(reserved: object, layout) { (writer) throws(StoreError) in
            for (position, value) in values.enumerated() { try writer.set(stored: value, at: position) }
        }
    }

    /// Inserts an object under a reserved ID, whose attributes `set` sets. Throws `invalidArgument` unless the ID was
    /// reserved here and is still free.
    package func insert(
        reserved object: ObjectID, _ layout: RowLayout, _ set: (inout RowWriter) throws(StoreError) -> Void
    ) throws(StoreError) {
        try requireNewest(layout)
        try builder.requireUsable()
        guard object.entityNumber == layout.number, reserved.contains(object.rawValue) else {
            throw StoreError(
                .invalidArgument,
                "\(object) was not reserved for “\(layout.entity.name)” in this transaction, or is inserted already: "
                    + "reserve an ID, and insert under it once.")
        }
        try builder.insert(object, layout: layout) { (row, bytes) throws(StoreError) in
            _ = try RowWriter.write(layout, &row, &bytes, builder, set)
        }
        reserved.remove(object.rawValue)
        didWrite(object)
    }

    /// Makes an ID that was reserved in the store one of this transaction's, which may insert the object. Throws
    /// `invalidArgument` if it was never reserved, or there is or was such an object.
    package func claim(_ object: ObjectID) throws(StoreError) {
        _ = try layout(object.entityNumber)
        let newest = try base.core.reading { () throws(StoreError) in
            try base.core.newestVersion(object, below: base.end)
        }
        let next = base.totals?[object.entityNumber].nextNumber ?? 1
        guard newest == 0, object.number < next, !isChangedHere(object) else {
            throw StoreError(
                .invalidArgument, "\(object) is not reserved in the store, or is the ID of an object already.")
        }
        reserved.insert(object.rawValue)
        // Others may insert it meanwhile, and must not.
        changed.insert(object.rawValue)
    }
}

extension Engine {
    /// Reserves IDs of an entity, in the file: no process gives them to an object, unless it claims them. IDs that
    /// nobody claims are lost. Returns the first one. Takes one frame.
    package func reserveObjects(
        of entity: UInt16, count: Int, durability: Durability = .relaxed
    ) throws(StoreError) -> ObjectID {
        var first: ObjectID?
        try appendStandalone(durability) { (state) throws(StoreError) in
            guard indexes.shape.newestLayout(entity) != nil, count > 0 else {
                throw StoreError(.invalidArgument, "IDs are reserved of an entity that the store has, at least one.")
            }
            // Above those that transactions in the making have drawn.
            let number = numbers.draw(entity, count: UInt64(count), from: indexes.nextNumber(entity))
            guard let object = ObjectID(entityNumber: entity, number: number),
                ObjectID(entityNumber: entity, number: number + UInt64(count)) != nil
            else {
                throw StoreError(.tooLarge, "An entity has at most \(FormatLimits.maximumObjectNumber) objects, ever.")
            }
            first = object
            var table: [UInt8] = []
            MetadataRecord.objectNumbers(entity: entity, next: number + UInt64(count)).append(to: &table)
            return [(.metadata, table)]
        }
        guard let first else { preconditionFailure("What throws nothing has reserved IDs.") }
        return first
    }
}
