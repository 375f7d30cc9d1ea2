// Finding objects through an index: by equality, and by ranges in both directions.

/// One end of a range over an index: values for the first attributes of the key.
public enum RangeBound: Sendable, Hashable {
    /// No bound on this side.
    case unbounded
    /// The range includes the keys that begin with these values.
    case including([Value])
    /// The range excludes the keys that begin with these values.
    case excluding([Value])
    /// The range includes the keys that begin with these values. The last value, a string or data, need only be the
    /// beginning of the key's value. Use it for both ends to select by prefix. Bytes are compared, so “e” is also a
    /// prefix of an “é” that consists of two Unicode scalars.
    case prefix([Value])

    var values: [Value] {
        switch self {
        case .unbounded: []
        case .including(let values), .excluding(let values), .prefix(let values): values
        }
    }
}

extension Snapshot {
    /// Calls `body` with each object in a range of an index, in the index's order or in reverse, until `body` returns
    /// false.
    ///
    /// The order is:
    ///
    /// - null first;
    /// - false before true;
    /// - numbers and dates by value, with -0 equal to 0, and NaN last;
    /// - strings as Swift compares them, which is the order of the scalars of their normal form NFC; data by its bytes;
    /// - objects with equal keys by their IDs.
    ///
    /// To read a range in pages, pass the last object of a page as `object` for the next one. This takes logarithmic
    /// time for any page. An offset takes time for each index entry that it skips.
    ///
    /// A state of the past has no indexes: its objects are sorted for this call.
    ///
    /// - Parameters:
    ///   - entity: The entity of the objects.
    ///   - attributes: The name of an indexed or unique attribute, or the names of a compound key.
    ///   - lower: The start of the range: values for the first attributes, or for all of them.
    ///   - upper: The end of the range.
    ///   - object: The range continues after this object, in the direction of reading. The snapshot must contain it.
    ///   - offset: The number of objects to skip first. They are not read, unless their keys are longer than 240 bytes.
    ///   - reversed: Whether to read the range from its end.
    ///   - body: Called with each row, in place. Return false to stop.
    ///
    /// - Throws: `StoreError`: `unknownEntity`; `unknownAttribute`; `invalidArgument` without such an index;
    ///   `typeMismatch`; `objectNotFound` if the snapshot does not contain `object`; `damaged`; `closed`; and errors of
    ///   `body`.
    public func forEachRow(
        of entity: EntityHandle, by attributes: [String], from lower: RangeBound = .unbounded,
        to upper: RangeBound = .unbounded, after object: ObjectID? = nil, offset: Int = 0, reversed: Bool = false,
        _ body: (borrowing RowView) throws(StoreError) -> Bool
    ) throws {
        try lendRows(
            of: entity, by: attributes, from: lower, to: upper, after: object, offset: offset, reversed: reversed, body)
    }

    func lendRows(
        of entity: EntityHandle, by attributes: [String], from lower: RangeBound, to upper: RangeBound,
        after object: ObjectID? = nil, offset: Int = 0, reversed: Bool = false, readsAll: Bool = false,
        _ body: (borrowing RowView) throws(StoreError) -> Bool
    ) throws(StoreError) {
        let (number, ends) = try range(of: entity, attributes, lower, upper)
        let layout = entity.layout
        guard !ends.isExact else {
            return try view.range(
                number, ends.keys, after: object, offset: offset, reversed: reversed, readsAll: readsAll
            ) { (object, row) throws(StoreError) in try lend(object, row, layout, body) }
        }
        // The offset counts only rows inside the range.
        var passed = max(0, offset)
        try view.range(number, ends.keys, after: object, reversed: reversed, readsAll: readsAll) {
            (object, row) throws(StoreError) in
            guard try ends.contains(row, view) else { return true }
            if passed > 0 {
                passed -= 1
                return true
            }
            return try lend(object, row, layout, body)
        }
    }

    /// The number of objects in a range of an index. Reads only the index: constant time for the whole index, otherwise
    /// linear in the index nodes in the range. With a value of over 240 bytes in a bound it also reads rows. A state of
    /// the past reads all objects of the entity.
    ///
    /// - Throws: As `rows(of:by:from:to:after:offset:limit:reversed:)`.
    public func count(
        of entity: String, by attributes: [String], from lower: RangeBound = .unbounded,
        to upper: RangeBound = .unbounded
    ) throws -> UInt64 {
        let handle = try self.entity(entity)
        let (number, ends) = try range(of: handle, attributes, lower, upper)
        if ends.isExact { return try view.count(number, ends.keys) }
        var count: UInt64 = 0
        try view.range(number, ends.keys) { (_, row) throws(StoreError) in
            if try ends.contains(row, view) { count += 1 }
            return true
        }
        return count
    }

    /// The IDs of the objects in a range of an index.
    ///
    /// - Throws: As `rows(of:by:from:to:after:offset:limit:reversed:)`.
    public func objects(
        of entity: EntityHandle, by attributes: [String], from lower: RangeBound = .unbounded,
        to upper: RangeBound = .unbounded, after object: ObjectID? = nil, offset: Int = 0, limit: Int? = nil,
        reversed: Bool = false
    ) throws -> [ObjectID] {
        var objects: [ObjectID] = []
        let limit = limit ?? .max
        try lendRows(
            of: entity, by: attributes, from: lower, to: upper, after: object, offset: offset, reversed: reversed
        ) { (row) throws(StoreError) in
            if objects.count < limit { objects.append(row.id) }
            return objects.count < limit
        }
        return objects
    }

    /// The IDs of the objects whose attribute has this value. The attribute must be indexed or unique.
    ///
    /// - Throws: As `rows(of:by:from:to:after:offset:limit:reversed:)`.
    public func objects(of entity: EntityHandle, where attribute: String, equals value: Value) throws -> [ObjectID] {
        try objects(of: entity, by: [attribute], from: .including([value]), to: .including([value]))
    }

    /// The objects in a range of an index, as values. All of them are in memory at once.
    ///
    /// - Parameters:
    ///   - entity: The name of the entity.
    ///   - attributes: The name of an indexed or unique attribute, or the names of a compound key.
    ///   - lower: The start of the range: values for the first attributes, or for all of them.
    ///   - upper: The end of the range.
    ///   - object: The range continues after this object, in the direction of reading. The snapshot must contain it.
    ///   - offset: The number of objects to skip first.
    ///   - limit: The most objects to return; nil for all.
    ///   - reversed: Whether to read the range from its end.
    ///
    /// - Throws: `StoreError`: `unknownEntity`; `unknownAttribute`; `invalidArgument` without such an index;
    ///   `typeMismatch`; `objectNotFound` if the snapshot does not contain `object`; `damaged`; `closed`.
    public func rows(
        of entity: String, by attributes: [String], from lower: RangeBound = .unbounded,
        to upper: RangeBound = .unbounded, after object: ObjectID? = nil, offset: Int = 0, limit: Int? = nil,
        reversed: Bool = false
    ) throws -> [Row] {
        let handle = try self.entity(entity)
        var rows: [Row] = []
        let limit = limit ?? .max
        try lendRows(
            of: handle, by: attributes, from: lower, to: upper, after: object, offset: offset, reversed: reversed,
            readsAll: true
        ) { (stored) throws(StoreError) in
            if rows.count < limit { rows.append(try stored.row(entity: handle.name, names: handle.attributes)) }
            return rows.count < limit
        }
        return rows
    }

    /// The objects whose attribute has this value. The attribute must be indexed or unique.
    ///
    /// - Throws: As `rows(of:by:from:to:after:offset:limit:reversed:)`.
    public func rows(
        of entity: String, where attribute: String, equals value: Value, limit: Int? = nil
    ) throws -> [Row] {
        try rows(of: entity, by: [attribute], from: .including([value]), to: .including([value]), limit: limit)
    }

    /// The objects whose attribute begins with this value. The attribute must be a string or data, and indexed or
    /// unique.
    ///
    /// - Throws: As `rows(of:by:from:to:after:offset:limit:reversed:)`.
    public func rows(
        of entity: String, where attribute: String, hasPrefix prefix: Value, limit: Int? = nil
    ) throws -> [Row] {
        try rows(of: entity, by: [attribute], from: .prefix([prefix]), to: .prefix([prefix]), limit: limit)
    }

    /// The number of the index over these attributes, and a range of it.
    private func range(
        of entity: EntityHandle, _ attributes: [String], _ lower: RangeBound, _ upper: RangeBound
    ) throws(StoreError) -> (index: Int, range: IndexRange) {
        try require(entity)
        // The usual caller names an index of the newest schema: nothing is made to find it.
        for number in view.shape.indexes(of: entity.number) {
            let index = view.shape.indexes[number]
            if index.isOver(attributes, entity.layout) {
                return (number, try IndexRange(index, entity.layout, lower, upper))
            }
        }
        var numbers: [UInt16] = []
        for name in attributes {
            numbers.append(entity.layout.entity.attributes[try entity.requirePosition(of: name)].number)
        }
        guard let number = view.shape.index(of: entity.number, over: numbers) else {
            throw StoreError(
                .invalidArgument,
                "There is no index on \(attributes.joined(separator: ", ")) of “\(entity.name)”: make the attribute "
                    + "indexed, add a key, or scan.")
        }
        return (number, try IndexRange(view.shape.indexes[number], entity.layout, lower, upper))
    }
}
