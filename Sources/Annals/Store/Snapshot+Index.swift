// Finding objects through an index: equality and ranges, in both directions.

internal import AnnalsFile

/// Where a range over an index begins or ends: values for the first attributes of the key.
public enum RangeBound: Sendable, Hashable {
    /// As far as there is anything.
    case unbounded
    /// What begins with these values belongs to the range.
    case including([Value])
    /// What begins with these values does not.
    case excluding([Value])

    var values: [Value] {
        switch self {
        case .unbounded: []
        case .including(let values), .excluding(let values): values
        }
    }
}

extension Snapshot {
    /// Gives `body` the objects in a range of an index, in its order or against it, until it returns false.
    ///
    /// The order: absent first; false before true; numbers and dates by size, NaN last, -0 as 0; texts and data by their bytes, which for
    /// texts is the order of Unicode scalars; objects that are equal by their IDs.
    ///
    /// - Parameters:
    ///   - attributes: The name of an attribute that is indexed or unique, or the names of a compound key.
    ///   - lower, upper: Values for some of these attributes, from the first on.
    ///
    /// Throws `StoreError`: `unknownAttribute`; `invalidArgument` where there is no such index;
    /// `typeMismatch`, `damaged`, `closed`, and what `body` throws. In a state of the past, which has no indexes, the objects are sorted.
    public func forEachRow(
        of entity: EntityHandle, by attributes: [String], from lower: RangeBound = .unbounded,
        to upper: RangeBound = .unbounded, reversed: Bool = false,
        _ body: (borrowing StoredRow) throws(StoreError) -> Bool
    ) throws { try lendRows(of: entity, by: attributes, from: lower, to: upper, reversed: reversed, body) }

    func lendRows(
        of entity: EntityHandle, by attributes: [String], from lower: RangeBound, to upper: RangeBound,
        reversed: Bool = false, _ body: (borrowing StoredRow) throws(StoreError) -> Bool
    ) throws(StoreError) {
        try checkKnown(entity.number)
        let index = try index(of: entity, attributes)
        let ends = try IndexRange(index, entity.layout, lower, upper)
        let layout = entity.layout
        var failure: StoreError?
        try mapping { () throws(FileError) in
            try view.range(index, from: ends.lower, to: ends.upper, reversed: reversed) {
                (object, row) throws(FileError) in
                if !ends.isExact, !(try ends.contains(row, view)) { return true }
                do throws(StoreError) {
                    return try lend(object, row, layout, body)
                } catch {
                    failure = error
                    return false
                }
            }
        }
        if let failure { throw failure }
    }

    /// The IDs of the objects whose attribute has this value. The attribute is indexed or unique. Throws as `forEachRow`.
    public func objects(of entity: EntityHandle, where attribute: String, equals value: Value) throws
        -> [ObjectID]
    {
        var objects: [ObjectID] = []
        try lendRows(of: entity, by: [attribute], from: .including([value]), to: .including([value])) {
            (row) throws(StoreError) in
            objects.append(row.id)
            return true
        }
        return objects
    }

    /// The objects in a range of an index as values, in its order or against it, at most so many. Takes memory for all of them; throws as
    /// `forEachRow`, and `unknownEntity`.
    ///
    /// Throws `StoreError`.
    public func rows(
        of entity: String, by attributes: [String], from lower: RangeBound = .unbounded,
        to upper: RangeBound = .unbounded, reversed: Bool = false, limit: Int? = nil
    ) throws -> [Row] {
        let handle = try self.entity(entity)
        var rows: [Row] = []
        if let limit, limit <= 0 { return [] }
        try lendRows(of: handle, by: attributes, from: lower, to: upper, reversed: reversed) {
            (stored) throws(StoreError) in
            rows.append(try stored.row(entity: handle.name, names: handle.attributes))
            return limit.map { rows.count < $0 } ?? true
        }
        return rows
    }

    /// The objects whose attribute has this value. The attribute is indexed or unique. Throws `StoreError`.
    public func rows(
        of entity: String, where attribute: String, equals value: Value, limit: Int? = nil
    ) throws -> [Row] {
        try rows(of: entity, by: [attribute], from: .including([value]), to: .including([value]), limit: limit)
    }

    private func index(of entity: EntityHandle, _ attributes: [String]) throws(StoreError) -> IndexID {
        var numbers: [UInt16] = []
        for name in attributes {
            numbers.append(entity.layout.entity.attributes[try entity.requirePosition(of: name)].number)
        }
        guard let index = view.indexes(entity: entity.number).first(where: { $0.attributes == numbers }) else {
            throw StoreError(
                .invalidArgument,
                "There is no index over \(attributes.joined(separator: ", ")) of “\(entity.name)”: make the attribute indexed, "
                    + "add a key, or scan.")
        }
        return index
    }
}
