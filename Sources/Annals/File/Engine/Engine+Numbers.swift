// Object numbers that a program reserves in the file, before the objects exist.

extension Engine {
    /// Reserves IDs of an entity, in the file: no process assigns them to an object, unless it claims them. Unclaimed
    /// IDs are lost. Returns the first one. Takes one frame.
    package func reserveObjects(
        of entity: UInt16, count: Int, durability: Durability = .relaxed
    ) throws(StoreError) -> ObjectID {
        var first: ObjectID?
        try appendStandalone(durability) { (state) throws(StoreError) in
            guard indexes.shape.newestLayout(entity) != nil, count > 0 else {
                throw StoreError(
                    .invalidArgument,
                    "The store lacks the entity, or no ID was requested: reserve at least one ID of an existing "
                        + "entity.")
            }
            // Above the numbers that drafts have drawn.
            let number = numbers.draw(entity, count: UInt64(count), from: indexes.nextNumber(entity))
            guard let object = ObjectID(entityNumber: entity, number: number),
                ObjectID(entityNumber: entity, number: number + UInt64(count)) != nil
            else {
                throw StoreError(
                    .tooLarge,
                    "An entity may have at most \(FormatLimits.maximumObjectNumber) objects, including deleted ones.")
            }
            first = object
            var table: [UInt8] = []
            MetadataRecord.objectNumbers(entity: entity, next: number + UInt64(count)).append(to: &table)
            return [(.metadata, table)]
        }
        guard let first else { preconditionFailure("A reservation without an error has reserved IDs.") }
        return first
    }
}
