// Finding objects of a state: which ones, in which order, and how many of them.

public import FoundationEssentials

/// What is to be fetched, planned for one state.
struct Fetch<E: Entity> {
    let snapshot: Snapshot
    let plan: FetchPlan
    let binding: EntityBinding
    let limit: Int
    let offset: Int
    private(set) var touched = 0

    init(
        _ snapshot: Snapshot, _ predicate: Predicate<Object<E>>?, _ sort: [SortKey<E>] = [], limit: Int? = nil,
        offset: Int = 0
    ) throws(StoreError) {
        let layout = try snapshot.layout(of: E.model)
        binding = try layout.binding(E.self, snapshot.view.catalog)
        let condition = try predicate.map { (predicate) throws(StoreError) in
            try PredicateTranslator.condition(predicate, snapshot)
        }
        self.snapshot = snapshot
        self.limit = max(0, limit ?? .max)
        self.offset = max(0, offset)
        plan = try FetchPlan(
            condition ?? .constant(true), try binding.columns(sort, layout), layout, snapshot.view)
    }

    /// How many objects are found before the first that is wanted and after it, at most.
    private var wanted: Int {
        let (sum, overflow) = limit.addingReportingOverflow(offset)
        return overflow ? .max : sum
    }

    // MARK: Rows

    /// Lends the wanted rows in their order, until `body` returns false. Memory grows with the number of objects only
    /// if they must be sorted.
    mutating func forEachRow(_ body: (ObjectID, RowImage) throws(StoreError) -> Bool) throws(StoreError) {
        if limit == 0 { return }
        guard plan.isInOrder else { return try forEachSortedRow(body) }
        var (passed, left) = (offset, limit)
        try forEachMatch { (object, row) throws(StoreError) in
            if passed > 0 {
                passed -= 1
                return true
            }
            left -= 1
            return try body(object, row) && left > 0
        }
    }

    /// Lends all rows that satisfy the condition, in no order, until `body` returns false.
    mutating func forEachMatch(_ body: (ObjectID, RowImage) throws(StoreError) -> Bool) throws(StoreError) {
        let reader = ConditionReader(view: snapshot.view)
        let (plan, condition, layout) = (plan, plan.condition, plan.layout)
        var touched = 0
        defer { self.touched += touched }
        if let tests = condition.tests {
            let view = snapshot.view
            return try tests.withUnsafeBufferPointer { (tests) throws(StoreError) in
                try plan.forEachCandidate(view) { (object, row) throws(StoreError) in
                    touched += 1
                    for test in tests where try !test.matches(row, object, view, layout) { return true }
                    return try body(object, row)
                }
            }
        }
        try plan.forEachCandidate(snapshot.view) { (object, row) throws(StoreError) in
            touched += 1
            guard try reader.matches(condition, row, object, layout) else { return true }
            return try body(object, row)
        }
    }

    private mutating func forEachSortedRow(
        _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
    ) throws(StoreError) {
        for object in try sortedObjects().dropFirst(offset) {
            var goesOn = true
            _ = try snapshot.view.withRow(object) { (row) throws(StoreError) in goesOn = try body(object, row) }
            if !goesOn { return }
        }
    }

    private mutating func sortedObjects() throws(StoreError) -> [ObjectID] {
        let (columns, view, layout) = (plan.sort, snapshot.view, plan.layout)
        var sorted = SortedObjects(limit: wanted, isDescending: columns.allSatisfy(\.isDescending))
        try forEachMatch { (object, row) throws(StoreError) in
            try sorted.add(object) { (key) throws(StoreError) in
                for column in columns {
                    try Self.append(column, row, object, view, layout, to: &key)
                }
            }
            return true
        }
        return sorted.objects()
    }

    private static func append(
        _ column: SortColumn, _ row: RowImage, _ object: ObjectID, _ view: View, _ layout: RowLayout,
        to key: inout ByteWriter
    ) throws(StoreError) {
        let value = try withUnsafePointer(to: row) { (row) throws(StoreError) in
            try RowView(object, row, view: view, layout: layout, isOfState: true).value(at: column.position)
        }
        column.append(try (value.isNull ? column.absent : value).storedValue(), to: &key)
    }

    // MARK: Values

    mutating func values() throws(StoreError) -> [E] {
        var values: [E] = []
        try forEachAddress { (_, address) in
            values.append(address.assumingMemoryBound(to: E.self).move())
            return .taken
        }
        return values
    }

    mutating func forEachValue(_ body: (Reference<E>, E) throws(StoreError) -> Bool) throws(StoreError) {
        try forEachAddress { (object, address) throws(StoreError) in
            try body(Reference(object), address.assumingMemoryBound(to: E.self).pointee) ? .left : .last
        }
    }

    /// What has become of a value that was lent by its address, and whether to go on.
    enum Lent {
        /// It is at its address.
        case left
        /// It was moved away.
        case taken
        /// It is at its address, and is the last one wanted.
        case last
    }

    /// Lends each wanted object by the address of its value.
    private mutating func forEachAddress(
        _ body: (ObjectID, UnsafeMutableRawPointer) throws(StoreError) -> Lent
    ) throws(StoreError) {
        let (binding, view, layout) = (binding, snapshot.view, plan.layout)
        // The program's own code makes new values: once, unless something in them is not kept.
        let initial = UnsafeMutablePointer<E>.allocate(capacity: 2)
        initial.initialize(to: E())
        let value = initial + 1
        defer {
            initial.deinitialize(count: 1)
            initial.deallocate()
        }
        let isFresh = binding.model.hasTransients
        try forEachRow { (object, row) throws(StoreError) in
            if isFresh { value.initialize(to: E()) } else { value.initialize(from: initial, count: 1) }
            let address = UnsafeMutableRawPointer(value)
            var lent = Lent.left
            defer { if lent != .taken { value.deinitialize(count: 1) } }
            try binding.read(row, object, view, layout, into: address)
            lent = try body(object, address)
            return lent != .last
        }
    }

    mutating func references() throws(StoreError) -> [Reference<E>] {
        var references: [Reference<E>] = []
        try forEachRow { (object, _) in
            references.append(Reference(object))
            return true
        }
        return references
    }

    /// How many objects satisfy the condition, as far as they are wanted.
    mutating func count() throws(StoreError) -> Int {
        if case .constant(true) = plan.condition, limit == .max {
            return max(0, Int(clamping: try snapshot.view.count(entity: plan.layout.number)) - offset)
        }
        var count = 0
        let wanted = wanted
        try forEachMatch { (_, _) in
            count += 1
            return count < wanted
        }
        return max(0, count - offset)
    }
}

extension SortColumn {
    /// Appends bytes that order as the values do, or in the opposite order.
    func append(_ value: StoredValue, to key: inout ByteWriter) {
        let start = key.count
        IndexRange.append(value, to: &key)
        guard isDescending else { return }
        let bytes = key.mutableBytes(start..<key.count)
        for index in bytes.indices { bytes[index] = ~bytes[index] }
    }
}

/// How a fetch finds its objects.
public struct FetchExplanation: Sendable, CustomStringConvertible {
    /// Through what objects are found: an index, references, or a scan.
    public let access: String
    /// The part of the predicate that is decided by the bytes of rows, without values of objects.
    public let translated: String
    /// Whether a part of the predicate is evaluated on objects, which takes about 70 times as long for each.
    public let isPartlyEvaluated: Bool
    /// Whether objects are sorted in memory, because no index has their order.
    public let isSorted: Bool
    /// How many rows were read to decide about them.
    public let rowsTouched: Int
    /// How many objects were found.
    public let results: Int

    public var description: String {
        """
        access: \(access)
        predicate: \(translated)\(isPartlyEvaluated ? " (a part is evaluated on objects)" : "")
        order: \(isSorted ? "sorted in memory" : "as read")
        rows touched: \(rowsTouched), results: \(results)
        """
    }
}

extension Snapshot {
    /// The objects that satisfy a predicate, as values.
    ///
    /// ```swift
    /// try snapshot.fetch(Clip.self, where: #Predicate { $0.rank > 10 }, sortedBy: .descending(\.rank), limit: 20)
    /// ```
    ///
    /// Comparisons with constants, `nil`, ranges and collections, `starts(with:)`, `contains`, `caseFolded` and one
    /// step to other objects are decided by the bytes of rows and through indexes. Everything else is evaluated on the
    /// object. `explain` says what happens. An index finds text by its bytes: text that is not normalised is found only
    /// where it is written the same.
    ///
    /// - Parameters:
    ///   - type: The entity.
    ///   - predicate: Which objects; nil for all. Import FoundationEssentials to write one.
    ///   - sort: Their order; if there is none, that of their insertion, or of the index through which they are found.
    ///   - limit: How many objects to return at most; nil for all.
    ///   - offset: How many objects to skip first.
    ///
    /// Throws `StoreError`: `unknownEntity`, `schemaMismatch`, `invalidArgument` (a key without an order),
    /// `valueOutOfRange`, `damaged`, `closed`; and what evaluating the predicate throws, as `invalidArgument`.
    public func fetch<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>..., limit: Int? = nil,
        offset: Int = 0
    ) throws -> [E] {
        var fetch = try Fetch(self, predicate, sort, limit: limit, offset: offset)
        return try fetch.values()
    }

    /// The references of the objects that satisfy a predicate. As `fetch`, without reading more of a row than decides.
    public func references<E: Entity>(
        to type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...,
        limit: Int? = nil, offset: Int = 0
    ) throws -> [Reference<E>] {
        var fetch = try Fetch(self, predicate, sort, limit: limit, offset: offset)
        return try fetch.references()
    }

    /// The first object that satisfies a predicate; nil if there is none. As `fetch`.
    public func first<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...
    ) throws -> E? {
        var fetch = try Fetch(self, predicate, sort, limit: 1)
        return try fetch.values().first
    }

    /// The number of objects that satisfy a predicate. Constant time without one. As `fetch`.
    public func count<E: Entity>(_ type: E.Type, where predicate: Predicate<Object<E>>? = nil) throws -> Int {
        var fetch = try Fetch(self, predicate)
        return try fetch.count()
    }

    /// Calls `body` with each object that satisfies a predicate and its reference, until `body` returns false.
    ///
    /// Memory does not grow with the number of objects, unless they must be sorted and no index has their order. As
    /// `fetch`; also throws what `body` throws.
    public func forEach<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...,
        limit: Int? = nil, offset: Int = 0, _ body: (Reference<E>, E) throws -> Bool
    ) throws {
        var fetch = try Fetch(self, predicate, sort, limit: limit, offset: offset)
        var failure: (any Error)?
        try fetch.forEachValue { (reference, value) in
            do { return try body(reference, value) } catch { failure = error }
            return false
        }
        if let failure { throw failure }
    }

    /// Fetches, and says how: through which index, which part of the predicate is translated, and how many rows were
    /// touched. Throws as `fetch`.
    public func explain<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...,
        limit: Int? = nil, offset: Int = 0
    ) throws -> FetchExplanation {
        var fetch = try Fetch(self, predicate, sort, limit: limit, offset: offset)
        let results = try fetch.references().count
        return FetchExplanation(
            access: fetch.plan.title, translated: "\(fetch.plan.condition)",
            isPartlyEvaluated: !fetch.plan.condition.isTranslated, isSorted: !fetch.plan.isInOrder,
            rowsTouched: fetch.touched, results: results)
    }
}
