// Sums, averages and extremes of one property, of all objects and by groups.

public import FoundationEssentials

/// The aggregates of one property's values: null does not count.
struct Aggregate {
    /// The mark of the values' store (`UUIDBytes.mark`).
    let storeMark: UInt32
    var sum = NumberSum()
    private(set) var least: Value = .null
    private(set) var greatest: Value = .null

    init(storeMark: UInt32) { self.storeMark = storeMark }

    /// Values compare as they are sorted, so NaN is greater than every number.
    mutating func addExtremes(_ value: Value) {
        if value.isNull { return }
        if least.isNull || Self.isLess(value, least) { least = value }
        if greatest.isNull || Self.isLess(greatest, value) { greatest = value }
    }

    private static func isLess(_ left: Value, _ right: Value) -> Bool {
        switch (left, right) {
        case (.int(let a), .int(let b)): return a < b
        case (.double(let a), .double(let b)): return OrderedKey.orderedBits(of: a) < OrderedKey.orderedBits(of: b)
        case (.date(let a), .date(let b)):
            return OrderedKey.orderedBits(of: a.timeIntervalSinceReferenceDate)
                < OrderedKey.orderedBits(of: b.timeIntervalSinceReferenceDate)
        default:
            guard let a = try? left.storedValue(), let b = try? right.storedValue() else { return false }
            var first = ByteWriter(capacity: 64)
            var second = ByteWriter(capacity: 64)
            IndexKey.append(a, to: &first)
            IndexKey.append(b, to: &second)
            return first.bytes.isBefore(second.bytes)
        }
    }

    /// The extreme as a property; nil without one. Equal extremes give the same property.
    func property<V: AttributeValue>(_ extreme: Value) -> V? {
        if let object = extreme.object, let type = V.self as? any AnyReference.Type {
            return type.init(object, of: storeMark) as? V
        }
        return extreme.isNull ? nil : V(attributeValue: extreme.withOneZero)
    }
}

/// The numbers at one position of rows, added up.
private struct NumberColumn {
    private(set) var sum = NumberSum()
    private let position: Int
    private let type: AttributeType
    /// The value of an object whose row has none.
    private let initial: Value
    private let view: View
    private let layout: RowLayout

    init(_ position: Int, _ property: EntityModel.Property, _ view: View, _ layout: RowLayout) {
        (self.position, self.view, self.layout) = (position, view, layout)
        type = property.codec.attributeType
        initial = property.codec.isOptional ? .null : property.initial
    }

    @inline(__always)
    mutating func add(_ object: ObjectID, _ row: RowImage) throws(StoreError) {
        if row.isLike(layout) {
            if type == .int, let int = row.cells.int(position) { return sum.add(int: int) }
            if type == .double, let double = row.cells.double(position) { return sum.add(double: double) }
        }
        let value = try row.value(position, object, view, layout)
        sum.add(value.isNull ? initial : value)
    }
}

extension NumberSum {
    /// The sum as a property; nil if there were no numbers. Throws `valueOutOfRange`.
    func property<V: AttributeValue>(_ name: String) throws(StoreError) -> V? {
        guard let value else {
            throw StoreError(
                .valueOutOfRange, "The sum of “\(name)” exceeds 64 bits: add it up in smaller groups.")
        }
        if value.isNull { return nil }
        guard let result = V(attributeValue: value) else {
            throw StoreError(.valueOutOfRange, "The sum of “\(name)” exceeds the range of \(V.self): use a wider type.")
        }
        return result
    }
}

extension Snapshot {
    /// The sum of a property over the objects that satisfy a predicate; zero without any.
    ///
    /// Throws `StoreError`: `valueOutOfRange` if the property's type does not hold it; `invalidArgument` if the
    /// property is no number; and as `fetch`.
    public func sum<E: Entity, V: AttributeValue & AdditiveArithmetic>(
        of path: any KeyPath<E, V> & Sendable, where predicate: Predicate<Object<E>>? = nil
    ) throws -> V {
        let (sum, name) = try sum(path, predicate)
        return try sum.property(name) ?? V.zero
    }

    /// The sum of an optional property; objects without a value do not count.
    public func sum<E: Entity, V: AttributeValue & AdditiveArithmetic>(
        of path: any KeyPath<E, V?> & Sendable, where predicate: Predicate<Object<E>>? = nil
    ) throws -> V {
        let (sum, name) = try sum(path, predicate)
        return try sum.property(name) ?? V.zero
    }

    /// The average of a property over the objects that satisfy a predicate and have a value; nil without any. Throws as
    /// `fetch`, and `invalidArgument` if the property is no number.
    public func average<E: Entity>(
        of path: any PartialKeyPath<E> & Sendable, where predicate: Predicate<Object<E>>? = nil
    ) throws -> Double? {
        try sum(path, predicate).sum.average
    }

    /// The least value of a property over the objects that satisfy a predicate and have a value; nil without any.
    /// Constant time with an index and without a predicate. Throws as `fetch`.
    ///
    /// Values are in the order in which they are sorted (``SortKey``): texts by their bytes, and NaN after all other
    /// numbers. So the least value is NaN only if all values are NaN, and the greatest if any value is NaN.
    public func minimum<E: Entity, V: AttributeValue>(
        of path: any KeyPath<E, V> & Sendable, where predicate: Predicate<Object<E>>? = nil
    ) throws -> V? {
        try extreme(path, predicate, isGreatest: false)
    }

    /// The least value of an optional property.
    public func minimum<E: Entity, V: AttributeValue>(
        of path: any KeyPath<E, V?> & Sendable, where predicate: Predicate<Object<E>>? = nil
    ) throws -> V? {
        try extreme(path, predicate, isGreatest: false)
    }

    /// The greatest value of a property. As `minimum`.
    public func maximum<E: Entity, V: AttributeValue>(
        of path: any KeyPath<E, V> & Sendable, where predicate: Predicate<Object<E>>? = nil
    ) throws -> V? {
        try extreme(path, predicate, isGreatest: true)
    }

    /// The greatest value of an optional property. As `minimum`.
    public func maximum<E: Entity, V: AttributeValue>(
        of path: any KeyPath<E, V?> & Sendable, where predicate: Predicate<Object<E>>? = nil
    ) throws -> V? {
        try extreme(path, predicate, isGreatest: true)
    }

    /// Adds up a property.
    private func sum<E: Entity>(
        _ path: any PartialKeyPath<E> & Sendable, _ predicate: Predicate<Object<E>>?
    ) throws(StoreError) -> (sum: NumberSum, name: String) {
        var fetch = try Fetch(self, predicate)
        let (binding, view, layout) = (fetch.binding, view, fetch.run.plan.layout)
        let index = try binding.requireProperty(path, for: "added up by")
        let (position, property) = (binding.position(of: index), binding.properties[index])
        try property.requireNumber(of: binding.model.name)
        var column = NumberColumn(position, property, view, layout)
        // A loop of its own, because calling through the plan would take as long as reading a number.
        if fetch.run.plan.isOfAllRows {
            try view.scan(entity: layout.number) { (object, row) throws(StoreError) in
                try column.add(object, row)
                return true
            }
        } else {
            try fetch.run.forEachMatch { (object, row) throws(StoreError) in
                try column.add(object, row)
                return true
            }
        }
        return (column.sum, property.name)
    }

    private func extreme<E: Entity, V: AttributeValue>(
        _ path: any PartialKeyPath<E> & Sendable, _ predicate: Predicate<Object<E>>?, isGreatest: Bool
    ) throws(StoreError) -> V? {
        let key = SortPart<E>(path: path, isDescending: isGreatest)
        var fetch = try Fetch(self, predicate, [key], limit: 1)
        let (binding, view, layout) = (fetch.binding, view, fetch.run.plan.layout)
        let index = try binding.requireProperty(path, for: "compared by")
        let (position, property) = (binding.position(of: index), binding.properties[index])
        let initial = property.codec.isOptional ? Value.null : property.initial
        var aggregate = Aggregate(storeMark: binding.storeMark)
        // In descending order, objects without a value come last, so the first object decides.
        if fetch.run.plan.isInOrder, isGreatest || !layout.slots[position].isOptional {
            try fetch.run.forEachRow { (object, row) throws(StoreError) in
                aggregate.addExtremes(try row.value(position, object, view, layout))
                return true
            }
        } else {
            try fetch.run.forEachMatch { (object, row) throws(StoreError) in
                let value = try row.value(position, object, view, layout)
                aggregate.addExtremes(value.isNull ? initial : value)
                return true
            }
        }
        return aggregate.property(isGreatest ? aggregate.greatest : aggregate.least)
    }
}

extension RowImage {
    /// The value at a position of the newest layout.
    @inline(__always)
    func value(
        _ position: Int, _ object: ObjectID, _ view: View, _ layout: RowLayout
    ) throws(StoreError) -> Value {
        try withUnsafePointer(to: self) { (row) throws(StoreError) in
            try RowView(object, row, view: view, layout: layout, as: .state).value(at: position)
        }
    }
}

extension EntityModel.Property {
    /// Throws `invalidArgument` if its values cannot be added up.
    func requireNumber(of entity: String) throws(StoreError) {
        switch codec.attributeType {
        case .int, .double, .decimal: return
        default:
            throw StoreError(
                .invalidArgument, "“\(name)” of “\(entity)” is not a number and cannot be added up: count it instead.",
                ObjectFacts(entity, [name]))
        }
    }
}

// MARK: Groups

/// The objects with the same value of a property.
public struct FetchGroup<E: Entity, Key> {
    /// The value that they have in common.
    public let key: Key
    /// The number of objects.
    public let count: Int
    fileprivate let aggregates: [Int: Aggregate]

    /// The sum of a property of these objects; nil if none of them has a value, or if the sum was not requested. Throws
    /// `StoreError.valueOutOfRange`.
    public func sum<V: AttributeValue>(_ path: any KeyPath<E, V> & Sendable) throws -> V? {
        try aggregate(path).flatMap { try $0.sum.property("\(path)") }
    }

    /// The average of a property of these objects; nil if none of them has a value, or if the average was not
    /// requested.
    public func average(_ path: any PartialKeyPath<E> & Sendable) -> Double? { aggregate(path)?.sum.average }

    /// The least value of a property of these objects; nil if none of them has one, or if the least value was not
    /// requested.
    public func minimum<V: AttributeValue>(_ path: any KeyPath<E, V> & Sendable) -> V? {
        aggregate(path).flatMap { $0.property($0.least) }
    }

    /// The greatest value of a property of these objects; nil if none of them has one, or if the greatest value was not
    /// requested.
    public func maximum<V: AttributeValue>(_ path: any KeyPath<E, V> & Sendable) -> V? {
        aggregate(path).flatMap { $0.property($0.greatest) }
    }

    /// The sum of an optional property.
    public func sum<V: AttributeValue>(_ path: any KeyPath<E, V?> & Sendable) throws -> V? {
        try aggregate(path).flatMap { try $0.sum.property("\(path)") }
    }

    /// The least value of an optional property.
    public func minimum<V: AttributeValue>(_ path: any KeyPath<E, V?> & Sendable) -> V? {
        aggregate(path).flatMap { $0.property($0.least) }
    }

    /// The greatest value of an optional property.
    public func maximum<V: AttributeValue>(_ path: any KeyPath<E, V?> & Sendable) -> V? {
        aggregate(path).flatMap { $0.property($0.greatest) }
    }

    private func aggregate(_ path: any PartialKeyPath<E> & Sendable) -> Aggregate? {
        E.model.index(of: path).flatMap { aggregates[E.model.properties[$0].offset] }
    }
}

extension FetchGroup: Sendable where Key: Sendable {}

extension Snapshot {
    /// The objects that satisfy a predicate, grouped by a property, in the order of that property.
    ///
    /// ```swift
    /// let groups = try snapshot.groups(by: \Clip.folder, aggregating: \.rank, having: { $0.count > 3 })
    /// for group in groups { print(group.count, try group.sum(\.rank) ?? 0) }
    /// ```
    ///
    /// - Parameters:
    ///   - path: The property.
    ///   - aggregated: The properties whose sums, averages and extremes are wanted.
    ///   - predicate: The condition for objects; nil for all.
    ///   - isWanted: The condition for groups.
    ///
    /// Memory grows with the number of groups. Throws as `fetch`; and errors of `isWanted`.
    public func groups<E: Entity, Key>(
        by path: any KeyPath<E, Key> & Sendable, aggregating aggregated: any PartialKeyPath<E> & Sendable...,
        where predicate: Predicate<Object<E>>? = nil,
        having isWanted: (FetchGroup<E, Key>) throws -> Bool = { _ in true }
    ) throws -> [FetchGroup<E, Key>] {
        var fetch = try Fetch(self, predicate)
        let (binding, view, layout) = (fetch.binding, view, fetch.run.plan.layout)
        let keyIndex = try binding.requireProperty(path, for: "grouped by")
        let keyPosition = binding.position(of: keyIndex)
        let property = binding.properties[keyIndex]
        let initial = property.codec.isOptional ? Value.null : property.initial.withOneZero
        var columns: [(offset: Int, position: Int, initial: Value)] = []
        for path in aggregated {
            let index = try binding.requireProperty(path, for: "aggregated by")
            let column = binding.properties[index]
            let initial = column.codec.isOptional ? Value.null : column.initial
            columns.append((column.offset, binding.position(of: index), initial))
        }
        var found: [Value: (count: Int, aggregates: [Aggregate])] = [:]
        try fetch.run.forEachMatch { (object, row) throws(StoreError) in
            var key = property.codec.canonical(try row.value(keyPosition, object, view, layout)).withOneZero
            // As it is read.
            if key.isNull { key = initial }
            var values: [Value] = []
            for column in columns {
                let value = try row.value(column.position, object, view, layout)
                values.append(value.isNull ? column.initial : value)
            }
            let none = Aggregate(storeMark: binding.storeMark)
            let empty = (count: 0, aggregates: [Aggregate](repeating: none, count: columns.count))
            found[key, default: empty].count += 1
            for (index, value) in values.enumerated() {
                found[key]?.aggregates[index].sum.add(value)
                found[key]?.aggregates[index].addExtremes(value)
            }
            return true
        }
        var keyed: [(bytes: [UInt8], group: FetchGroup<E, Key>)] = []
        for (value, group) in found {
            guard let key = property.codec.property(of: value, in: binding.storeMark) as? Key else {
                throw StoreError(
                    .valueOutOfRange,
                    "“\(property.name)” of “\(binding.model.name)” has a value in the store that is not a value of its "
                        + "type in the program: use a wider type, or a newer version of the "
                        + "program.", ObjectFacts(binding.model.name, [property.name]))
            }
            var bytes = ByteWriter()
            IndexKey.append(try value.storedValue(), to: &bytes)
            let aggregates = zip(columns.map(\.offset), group.aggregates)
            keyed.append(
                (
                    Array(bytes.bytes),
                    FetchGroup(
                        key: key, count: group.count,
                        aggregates: Dictionary(aggregates, uniquingKeysWith: { first, _ in first }))
                ))
        }
        keyed.putInOrder { $0.bytes.lexicographicallyPrecedes($1.bytes) }
        return try keyed.map(\.group).filter(isWanted)
    }
}
