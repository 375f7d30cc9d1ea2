// Single properties of many objects, without making whole values.

public import FoundationEssentials

extension Snapshot {
    /// Chosen properties of the objects that satisfy a predicate, as tuples.
    ///
    /// ```swift
    /// for (title, rank) in try snapshot.select(Clip.self, \.title, \.rank, where: #Predicate { $0.rank > 10 }) { … }
    /// ```
    ///
    /// - Parameters:
    ///   - type: The entity.
    ///   - paths: The properties.
    ///   - predicate: Which objects; nil for all.
    ///   - sort: Their order. See `fetch`.
    ///   - distinct: Whether equal tuples are returned once.
    ///   - limit: The greatest number of tuples to return; nil for all.
    ///
    /// Throws `StoreError`: `invalidArgument` if a path is no stored property, and as `fetch`.
    public func select<E: Entity, each V>(
        _ type: E.Type, _ paths: repeat any KeyPath<E, each V> & Sendable, where predicate: Predicate<Object<E>>? = nil,
        sortedBy sort: [SortKey<E>] = [], distinct: Bool = false, limit: Int? = nil
    ) throws -> [(repeat each V)] {
        var fetch = try Fetch(self, predicate, SortKey.parts(of: sort), limit: distinct ? nil : limit)
        let (binding, view, layout) = (fetch.binding, view, fetch.run.plan.layout)
        let columns = (repeat try Column<each V>(binding, each paths))
        var known: Set<[Value]> = []
        var tuples: [(repeat each V)] = []
        try fetch.run.forEachRow { (object, row) throws(StoreError) in
            try withUnsafePointer(to: row) { (row) throws(StoreError) in
                let row = RowView(object, row, view: view, layout: layout, as: .state)
                if distinct {
                    var values: [Value] = []
                    for column in repeat each columns {
                        values.append(column.compared(try row.value(at: column.position)))
                    }
                    guard known.insert(values).inserted else { return }
                }
                var failure: StoreError?
                func property<P>(_ column: Column<P>) -> P? {
                    do throws(StoreError) { return try column.property(row.value(at: column.position)) } catch {
                        failure = error
                        return nil
                    }
                }
                let found = (repeat property(each columns))
                if let failure { throw failure }
                tuples.append((repeat (each found)!))
            }
            return !distinct || limit.map { tuples.count < $0 } ?? true
        }
        return limit.map { $0 < 1 } ?? false ? [] : tuples
    }

    /// One property of the objects that satisfy a predicate. See `select`.
    public func values<E: Entity, V>(
        of path: any KeyPath<E, V> & Sendable, where predicate: Predicate<Object<E>>? = nil,
        sortedBy sort: SortKey<E>..., distinct: Bool = false, limit: Int? = nil
    ) throws -> [V] {
        try select(E.self, path, where: predicate, sortedBy: sort, distinct: distinct, limit: limit)
    }

    // MARK: Asynchronously

    /// The objects that satisfy a predicate, as an asynchronous sequence. All of them are of this state; only their
    /// references are in memory. Throws as `fetch`.
    public func stream<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...,
        limit: Int? = nil, offset: Int = 0
    ) throws -> FetchedObjects<E> {
        var fetch = try Fetch(self, predicate, SortKey.parts(of: sort), limit: limit, offset: offset)
        return FetchedObjects(snapshot: self, references: try fetch.references())
    }
}

/// Objects that are read one after the other.
public struct FetchedObjects<E: Entity>: AsyncSequence, Sendable {
    let snapshot: Snapshot
    let references: [Reference<E>]

    /// The number of objects.
    public var count: Int { references.count }

    public func makeAsyncIterator() -> Iterator { Iterator(snapshot: snapshot, references: references) }

    /// Reads one object after the other.
    public struct Iterator: AsyncIteratorProtocol {
        let snapshot: Snapshot
        let references: [Reference<E>]
        private var next = 0

        init(snapshot: Snapshot, references: [Reference<E>]) {
            (self.snapshot, self.references) = (snapshot, references)
        }

        public mutating func next() async throws -> (reference: Reference<E>, value: E)? {
            while next < references.count {
                let reference = references[next]
                next += 1
                if let value = try snapshot[reference] { return (reference, value) }
            }
            return nil
        }
    }
}

/// A property of type `P` in rows.
private struct Column<P> {
    let position: Int
    private let name: String
    private let property: EntityModel.Property
    private let storeMark: UInt32

    /// Throws `invalidArgument`.
    init<E: Entity>(_ binding: EntityBinding, _ path: any KeyPath<E, P> & Sendable) throws(StoreError) {
        let index = try binding.requireProperty(path, for: "read by")
        position = binding.position(of: index)
        property = binding.properties[index]
        name = binding.model.name
        storeMark = binding.storeMark
    }

    /// A missing value of a property that always has one reads as its initial value.
    func asRead(_ value: Value) -> Value { value.isNull && !property.codec.isOptional ? property.initial : value }

    /// The same for all values that are equal.
    func compared(_ value: Value) -> Value { property.codec.canonical(asRead(value)).withOneZero }

    /// Throws `valueOutOfRange`.
    func property(_ value: Value) throws(StoreError) -> P {
        let value = asRead(value)
        guard let property = property.codec.property(of: value, in: storeMark) as? P else {
            throw StoreError(
                .valueOutOfRange,
                "“\(self.property.name)” of “\(name)” has a value in the store that is not a value of its type in the "
                    + "program: use a wider type, or a newer version of the program.",
                ObjectFacts(name, [self.property.name]))
        }
        return property
    }
}
