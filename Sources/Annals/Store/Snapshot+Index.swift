// Finding objects through an index: equality and ranges, in both directions.

/// Where a range over an index begins or ends: values for the first attributes of the key.
public enum RangeBound: Sendable, Hashable {
    /// The range has no end on this side.
    case unbounded
    /// The range contains the keys that begin with these values.
    case including([Value])
    /// The range does not contain the keys that begin with these values.
    case excluding([Value])
    /// The range contains the keys that begin with these values, where the last value, a string or data, is only the
    /// beginning of the key's. Used for both ends, it selects by prefix. Bytes are compared, so “e” is also a beginning
    /// of an “é” that is composed of two characters.
    case prefix([Value])

    var values: [Value] {
        switch self {
        case .unbounded: []
        case .including(let values), .excluding(let values), .prefix(let values): values
        }
    }
}

extension Snapshot {
    /// Calls `body` with the objects in a range of an index, in its order or the reverse one, until it returns false.
    ///
    /// The order is: null first; false before true; numbers and dates by size, NaN last, -0 as 0; texts and data by
    /// their bytes, which for texts is the order of Unicode scalars; objects with equal keys by their IDs.
    ///
    /// To read a range in pages, pass the last object of a page as `object` for the next one. This takes logarithmic
    /// time, wherever the page is, while an offset takes time for each index entry that it passes over.
    ///
    /// - Parameters:
    ///   - entity: The entity of the objects.
    ///   - attributes: The name of an attribute that is indexed or unique, or the names of a compound key.
    ///   - lower: Where the range begins: values for some of these attributes, from the first on.
    ///   - upper: Where it ends.
    ///   - object: The range continues after this object, in the direction of reading. The snapshot must contain it.
    ///   - offset: How many objects are passed over first. They are not read, unless their keys are longer than 240
    ///     bytes.
    ///   - reversed: Whether the range is read from its end.
    ///   - body: Called with each row, in place. False ends the reading.
    ///
    /// In a state of the past, which has no indexes, the objects are sorted.
    ///
    /// - Throws: `StoreError`: `unknownEntity`; `unknownAttribute`; `invalidArgument` if there is no such index;
    ///   `typeMismatch`; `objectNotFound` if the snapshot does not contain `object`; `damaged`; `closed`; and what
    ///   `body` throws.
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
        after object: ObjectID? = nil, offset: Int = 0, reversed: Bool = false,
        _ body: (borrowing RowView) throws(StoreError) -> Bool
    ) throws(StoreError) {
        let index = try index(of: entity, attributes)
        let ends = try IndexRange(index, entity.layout, lower, upper)
        let layout = entity.layout
        guard !ends.isExact else {
            return try view.range(
                index, from: ends.lower, to: ends.upper, after: object, offset: offset, reversed: reversed
            ) { (object, row) throws(StoreError) in try lend(object, row, layout, body) }
        }
        // Rows beside an inexact range do not count.
        var passed = max(0, offset)
        try view.range(
            index, from: ends.lower, to: ends.upper, after: object, reversed: reversed
        ) { (object, row) throws(StoreError) in
            guard try ends.contains(row, view) else { return true }
            if passed > 0 {
                passed -= 1
                return true
            }
            return try lend(object, row, layout, body)
        }
    }

    /// How many objects lie in a range of an index. Reads only the index: constant time for the whole index, otherwise
    /// linear in its nodes that lie in the range. Values over 240 bytes among the bounds make it read rows; a state of
    /// the past reads all objects of the entity.
    ///
    /// - Throws: As `rows(of:by:from:to:after:offset:limit:reversed:)`.
    public func count(
        of entity: String, by attributes: [String], from lower: RangeBound = .unbounded,
        to upper: RangeBound = .unbounded
    ) throws -> UInt64 {
        let handle = try self.entity(entity)
        let index = try index(of: handle, attributes)
        let ends = try IndexRange(index, handle.layout, lower, upper)
        if ends.isExact { return try view.count(index, from: ends.lower, to: ends.upper) }
        var count: UInt64 = 0
        try view.range(index, from: ends.lower, to: ends.upper) { (_, row) throws(StoreError) in
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

    /// The IDs of the objects whose attribute has this value. The attribute is indexed or unique.
    ///
    /// - Throws: As `rows(of:by:from:to:after:offset:limit:reversed:)`.
    public func objects(of entity: EntityHandle, where attribute: String, equals value: Value) throws -> [ObjectID] {
        try objects(of: entity, by: [attribute], from: .including([value]), to: .including([value]))
    }

    /// The objects in a range of an index as values. Takes memory for all of them.
    ///
    /// - Parameters:
    ///   - entity: The name of the entity.
    ///   - attributes: The name of an attribute that is indexed or unique, or the names of a compound key.
    ///   - lower: Where the range begins: values for some of these attributes, from the first on.
    ///   - upper: Where it ends.
    ///   - object: The range continues after this object, in the direction of reading. The snapshot must contain it.
    ///   - offset: How many objects are passed over first.
    ///   - limit: How many objects are read at most; nil for all.
    ///   - reversed: Whether the range is read from its end.
    ///
    /// - Throws: `StoreError`: `unknownEntity`; `unknownAttribute`; `invalidArgument` if there is no such index;
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
            of: handle, by: attributes, from: lower, to: upper, after: object, offset: offset, reversed: reversed
        ) { (stored) throws(StoreError) in
            if rows.count < limit { rows.append(try stored.row(entity: handle.name, names: handle.attributes)) }
            return rows.count < limit
        }
        return rows
    }

    /// The objects whose attribute has this value. The attribute is indexed or unique.
    ///
    /// - Throws: As `rows(of:by:from:to:after:offset:limit:reversed:)`.
    public func rows(
        of entity: String, where attribute: String, equals value: Value, limit: Int? = nil
    ) throws -> [Row] {
        try rows(of: entity, by: [attribute], from: .including([value]), to: .including([value]), limit: limit)
    }

    /// The objects whose attribute, a string or data that is indexed or unique, begins with this value.
    ///
    /// - Throws: As `rows(of:by:from:to:after:offset:limit:reversed:)`.
    public func rows(
        of entity: String, where attribute: String, hasPrefix prefix: Value, limit: Int? = nil
    ) throws -> [Row] {
        try rows(of: entity, by: [attribute], from: .prefix([prefix]), to: .prefix([prefix]), limit: limit)
    }

    private func index(of entity: EntityHandle, _ attributes: [String]) throws(StoreError) -> IndexID {
        try require(entity)
        var numbers: [UInt16] = []
        for name in attributes {
            numbers.append(entity.layout.entity.attributes[try entity.requirePosition(of: name)].number)
        }
        guard let index = view.indexes(entity: entity.number).first(where: { $0.attributes == numbers }) else {
            throw StoreError(
                .invalidArgument,
                "There is no index over \(attributes.joined(separator: ", ")) of “\(entity.name)”: make the attribute "
                    + "indexed, add a key, or scan.")
        }
        return index
    }
}
