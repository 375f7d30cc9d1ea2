// Finding objects of a state: which ones, in which order, and how many of them.

public import FoundationEssentials

/// The wanted part of the objects that are found.
struct FetchPage {
    let limit: Int
    let offset: Int

    init(limit: Int? = nil, offset: Int = 0) { (self.limit, self.offset) = (max(0, limit ?? .max), max(0, offset)) }

    /// Whether there is no limit.
    var isOpen: Bool { limit == .max }

    /// The greatest number of objects to find, up to the last wanted one.
    var wanted: Int {
        let (sum, overflow) = limit.addingReportingOverflow(offset)
        return overflow ? .max : sum
    }

    func of<Found>(_ found: [Found]) -> [Found] { Array(found.dropFirst(offset).prefix(limit)) }
}

/// A fetch, planned for one state. Not generic: its loops look up no types at run time.
package struct FetchRun {
    let snapshot: Snapshot
    let plan: FetchPlan
    let page: FetchPage
    private var touched = 0

    /// The plan was made for this state.
    init(_ snapshot: Snapshot, _ plan: FetchPlan, _ page: FetchPage = FetchPage()) {
        (self.snapshot, self.plan, self.page) = (snapshot, plan, page)
    }

    /// - Parameter entity: An entity of this state.
    package init(
        _ snapshot: Snapshot, _ condition: Condition, _ sort: [SortColumn], of entity: EntityHandle, limit: Int?,
        offset: Int
    ) throws(StoreError) {
        self.init(
            snapshot, try FetchPlan(condition, sort, entity.layout, snapshot.view),
            FetchPage(limit: limit, offset: offset))
    }

    // MARK: Rows

    /// Lends the wanted rows in their order, until `body` returns false. Memory grows with the number of objects only
    /// if they must be sorted. One loop for all callers that do not need one of their own.
    mutating func forEachRow(_ body: (ObjectID, RowImage) throws(StoreError) -> Bool) throws(StoreError) {
        try lendRows(body)
    }

    /// The same for readers by name. Throws `StoreError`: `damaged`, `closed`, and errors of `body`.
    package mutating func forEachRowView(
        _ body: (borrowing RowView) throws(StoreError) -> Bool
    ) throws(StoreError) {
        let (snapshot, layout) = (snapshot, plan.layout)
        try forEachRow { (object, row) throws(StoreError) in try snapshot.lend(object, row, layout, body) }
    }

    /// Lends all rows that satisfy the condition, in no order, until `body` returns false.
    mutating func forEachMatch(_ body: (ObjectID, RowImage) throws(StoreError) -> Bool) throws(StoreError) {
        try lendMatches(body)
    }

    /// - Parameter readsAll: Whether `body` reads all of each row.
    @inline(__always)
    private mutating func lendRows(
        readsAll: Bool = false, _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
    ) throws(StoreError) {
        if page.limit == 0 { return }
        guard plan.isInOrder else { return try forEachSortedRow(body) }
        if page.isOpen, page.offset == 0 { return try lendMatches(readsAll: readsAll, body) }
        try forEachRowInPlace(body)
    }

    /// Those between `offset` and `limit`, in the order in which they are found.
    private mutating func forEachRowInPlace(
        _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
    ) throws(StoreError) {
        var (passed, left) = (page.offset, page.limit)
        try lendMatches { (object, row) throws(StoreError) in
            if passed > 0 {
                passed -= 1
                return true
            }
            left -= 1
            return try body(object, row) && left > 0
        }
    }

    @inline(__always)
    private mutating func lendMatches(
        readsAll: Bool = false, _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
    ) throws(StoreError) {
        let (view, plan) = (snapshot.view, plan)
        guard let tests = plan.tests else { return try forEachEvaluatedMatch(body) }
        var touched = 0
        defer { self.touched += touched }
        if tests.isEmpty {
            return try plan.forEachCandidate(view, isWhole: page.isOpen, readsAll: readsAll) {
                (object, row) throws(StoreError) in
                touched &+= 1
                return try body(object, row)
            }
        }
        let layout = plan.layout
        if tests.count == 1 {
            // A reference outside of a list is not counted for each row, which took a fifth of the time of a scan.
            let (test, isNegated) = (tests[0].test, tests[0].isNegated)
            return try plan.forEachCandidate(view, isWhole: page.isOpen) { (object, row) throws(StoreError) in
                touched &+= 1
                return try test.matches(row, object, view, layout) == isNegated ? true : body(object, row)
            }
        }
        try tests.withUnsafeBufferPointer { (tests) throws(StoreError) in
            try plan.forEachCandidate(view, isWhole: page.isOpen) { (object, row) throws(StoreError) in
                touched &+= 1
                for asked in tests where try asked.test.matches(row, object, view, layout) == asked.isNegated {
                    return true
                }
                return try body(object, row)
            }
        }
    }

    private mutating func forEachEvaluatedMatch(
        _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
    ) throws(StoreError) {
        let reader = ConditionReader(view: snapshot.view)
        let (plan, condition, layout) = (plan, plan.condition, plan.layout)
        var touched = 0
        defer { self.touched += touched }
        try plan.forEachCandidate(snapshot.view) { (object, row) throws(StoreError) in
            touched += 1
            guard try reader.matches(condition, row, object, layout) else { return true }
            return try body(object, row)
        }
    }

    private mutating func forEachSortedRow(
        _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
    ) throws(StoreError) {
        for object in try sortedObjects().dropFirst(page.offset) {
            var goesOn = true
            _ = try snapshot.view.withRow(object) { (row) throws(StoreError) in goesOn = try body(object, row) }
            if !goesOn { return }
        }
    }

    private mutating func sortedObjects() throws(StoreError) -> [ObjectID] {
        let (columns, view, layout) = (plan.sort, snapshot.view, plan.layout)
        var sorted = SortedObjects(limit: page.wanted, isDescending: columns.areDescending)
        try lendMatches { (object, row) throws(StoreError) in
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
        let value = try row.value(column.position, object, view, layout)
        column.append(try (value.isNull ? column.absent : value).storedValue(), to: &key)
    }

    // MARK: Values

    /// Makes the value of each wanted object at the end of the memory, from which `body` must take it. See
    /// `EntityBinding.make`.
    mutating func forEachValue(
        _ binding: EntityBinding, at memory: ValueMemory, _ body: (ObjectID) throws(StoreError) -> Bool
    ) throws(StoreError) {
        let (view, layout) = (snapshot.view, plan.layout)
        let (initial, bytes, address) = (UnsafeRawPointer(memory.initial), memory.bytes, memory.end)
        try lendRows(readsAll: true) { (object, row) throws(StoreError) in
            try binding.make(row, object, view, layout, like: initial, bytes, in: address)
            return try body(object)
        }
    }

    /// Makes the values of all wanted objects one after the other in memory. `grow` makes room for more.
    ///
    /// If this throws, the values that were made are in the memory.
    mutating func makeValues(
        _ binding: EntityBinding, in memory: inout ValueMemory, _ grow: (inout ValueMemory) -> Void
    ) throws(StoreError) {
        let (view, layout) = (snapshot.view, plan.layout)
        let (initial, bytes) = (UnsafeRawPointer(memory.initial), memory.bytes)
        try lendRows(readsAll: true) { (object, row) throws(StoreError) in
            if memory.count == memory.capacity { grow(&memory) }
            try binding.make(row, object, view, layout, like: initial, bytes, in: memory.end)
            memory.count &+= 1
            return true
        }
    }

    /// The objects in their order.
    mutating func objects() throws(StoreError) -> [ObjectID] {
        var objects: [ObjectID] = []
        try lendRows { (object, _) in
            objects.append(object)
            return true
        }
        return objects
    }

    /// The number of wanted objects that satisfy the condition. Constant time if every object does.
    package mutating func count() throws(StoreError) -> Int {
        if case .constant(true) = plan.condition {
            let count = Int(clamping: try snapshot.view.count(entity: plan.layout.number))
            return max(0, min(page.limit, count - page.offset))
        }
        if page.limit == 0 { return 0 }
        var count = 0
        let wanted = page.wanted
        try lendMatches { (_, _) in
            count += 1
            return count < wanted
        }
        return max(0, count - page.offset)
    }

    /// Finds the objects, and describes the way.
    package mutating func explain() throws(StoreError) -> FetchExplanation {
        let results = try objects().count
        return FetchExplanation(
            access: plan.title, translated: "\(plan.condition)", isPartlyEvaluated: !plan.condition.isTranslated,
            unindexed: plan.unindexed(snapshot.view), isSorted: !plan.isInOrder, rowsTouched: touched,
            results: results)
    }
}

/// The same for values of a type.
struct Fetch<E: Entity> {
    var run: FetchRun
    let binding: EntityBinding

    init(_ run: FetchRun, _ binding: EntityBinding) { (self.run, self.binding) = (run, binding) }

    /// - Parameter reads: Records which properties of objects are read to evaluate a part of the predicate.
    init(
        _ snapshot: Snapshot, _ predicate: Predicate<Object<E>>?, _ sort: [SortPart<E>] = [], limit: Int? = nil,
        offset: Int = 0, reads: ReadRecorder? = nil
    ) throws(StoreError) {
        let snapshot = snapshot.inPresentTerms
        let layout = try snapshot.layout(of: E.model)
        let binding = try layout.binding(E.self, snapshot.view.catalog)
        self.binding = binding
        let condition = predicate.map { PredicateTranslator.condition($0, snapshot, binding, reads) }
        let columns = sort.isEmpty ? [] : try binding.columns(sort)
        let plan = try FetchPlan(condition ?? .constant(true), columns, layout, snapshot.view)
        run = FetchRun(snapshot, plan, FetchPage(limit: limit, offset: offset))
    }

    /// The initial capacity for values: that of the first step of a range.
    private static var fewValues: Int { 128 }

    mutating func references() throws(StoreError) -> [Reference<E>] {
        [Reference<E>](try run.objects(), of: binding.storeMark)
    }

    mutating func values() throws(StoreError) -> [E] {
        guard !binding.model.hasTransients else {
            var values: [E] = []
            try forEachMade { (_, value) in
                values.append(value.move())
                return true
            }
            return values
        }
        var memory = ValueMemory(of: E.self, capacity: min(max(1, run.page.limit), Self.fewValues))
        defer { memory.deallocate(of: E.self) }
        try run.makeValues(binding, in: &memory) { $0.grow(of: E.self) }
        return memory.values(of: E.self)
    }

    mutating func forEachValue(_ body: (Reference<E>, E) throws(StoreError) -> Bool) throws(StoreError) {
        let mark = binding.storeMark
        try forEachMade { (object, value) throws(StoreError) in
            let value = value.move()
            return try body(Reference(object, of: mark), value)
        }
    }

    /// Makes the value of each wanted object. `body` must move it away.
    private mutating func forEachMade(
        _ body: (ObjectID, UnsafeMutablePointer<E>) throws(StoreError) -> Bool
    ) throws(StoreError) {
        let memory = ValueMemory(of: E.self, capacity: 1)
        defer { memory.deallocate(of: E.self) }
        let value = memory.end.assumingMemoryBound(to: E.self)
        guard binding.model.hasTransients else {
            return try run.forEachValue(binding, at: memory) { (object) throws(StoreError) in try body(object, value) }
        }
        // The program's own code makes each value, because something in it is not kept.
        let (binding, view, layout) = (binding, run.snapshot.view, run.plan.layout)
        try run.forEachRow { (object, row) throws(StoreError) in
            value.initialize(to: E())
            do throws(StoreError) {
                try binding.read(row, object, view, layout, into: UnsafeMutableRawPointer(value))
            } catch {
                value.deinitialize(count: 1)
                throw error
            }
            return try body(object, value)
        }
    }
}

/// Values of a type that only its user knows, one after the other in memory that grows.
///
/// The user deallocates the memory, which also deinitializes the values that it has not taken.
struct ValueMemory {
    /// A new value, for properties that rows lack, and the size of one.
    let initial: UnsafeMutableRawPointer
    let bytes: Int
    private var start: UnsafeMutableRawPointer
    private let stride: Int
    private(set) var capacity: Int
    /// The number of values.
    var count = 0

    init<E: Entity>(of type: E.Type, capacity: Int) {
        let initial = UnsafeMutablePointer<E>.allocate(capacity: 1)
        initial.initialize(to: E())
        self.initial = UnsafeMutableRawPointer(initial)
        bytes = MemoryLayout<E>.size
        start = UnsafeMutableRawPointer(UnsafeMutablePointer<E>.allocate(capacity: capacity))
        stride = MemoryLayout<E>.stride
        self.capacity = capacity
    }

    /// The address for the next value.
    var end: UnsafeMutableRawPointer { start + count &* stride }

    mutating func grow<E>(of type: E.Type) {
        let wider = UnsafeMutablePointer<E>.allocate(capacity: capacity * 2)
        wider.moveInitialize(from: start.assumingMemoryBound(to: type), count: count)
        start.deallocate()
        (start, capacity) = (UnsafeMutableRawPointer(wider), capacity * 2)
    }

    /// Takes the values.
    mutating func values<E>(of type: E.Type) -> [E] {
        defer { count = 0 }
        return [E](unsafeUninitializedCapacity: count) { buffer, initialized in
            if count > 0 {
                buffer.baseAddress?.moveInitialize(from: start.assumingMemoryBound(to: type), count: count)
            }
            initialized = count
        }
    }

    func deallocate<E>(of type: E.Type) {
        start.assumingMemoryBound(to: type).deinitialize(count: count)
        start.deallocate()
        initial.assumingMemoryBound(to: type).deinitialize(count: 1)
        initial.deallocate()
    }
}

extension SortColumn {
    /// Appends bytes that order as the values do, or in the opposite order.
    func append(_ value: StoredValue, to key: inout ByteWriter) {
        let start = key.count
        IndexKey.append(value, to: &key)
        guard isDescending else { return }
        let bytes = key.mutableBytes(start..<key.count)
        for index in bytes.indices { bytes[index] = ~bytes[index] }
    }
}

/// How a fetch finds its objects.
public struct FetchExplanation: Sendable, CustomStringConvertible {
    /// The way to the objects: an index, references, or a scan.
    public let access: String
    /// The part of the predicate that is decided by the bytes of rows, without values of objects.
    public let translated: String
    /// Whether a part of the predicate is evaluated on objects, which takes about 70 times as long for each.
    public let isPartlyEvaluated: Bool
    /// The parts of the predicate that the access does not decide, each with the reason: they are evaluated on every
    /// object that it finds. Constants are written as …: they are values of objects.
    public let unindexed: [String]
    /// Whether objects are sorted in memory, because no index has their order.
    public let isSorted: Bool
    /// The number of rows that were read to decide.
    public let rowsTouched: Int
    /// The number of objects that were found.
    public let results: Int

    public var description: String {
        """
        access: \(access)
        predicate: \(translated)\(isPartlyEvaluated ? " (a part is evaluated on objects)" : "")
        without an index: \(unindexed.isEmpty ? "nothing" : unindexed.joined(separator: "; "))
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
    /// Comparisons with constants, `nil`, ranges and collections, `starts(with:)`, `contains`, `caseFolded`,
    /// `caseAndDiacriticFolded` and one step to other objects are decided by the bytes of rows and through indexes. A
    /// constant is every part without the object, such as `limits[1] * 2`: it is computed once, before objects are
    /// read. Other parts are evaluated on the object. `explain` describes this, and the part that keeps the predicate
    /// from an index. Text is compared as Swift compares it, with an index and without one.
    ///
    /// - Parameters:
    ///   - type: The entity.
    ///   - predicate: The condition; nil for all objects. Import FoundationEssentials to write one.
    ///   - sort: Their order; without one, that of their insertion, or of the index through which they are found.
    ///   - limit: The most objects to return; nil for all. A number below zero counts as zero.
    ///   - offset: The number of objects to skip first. A number below zero counts as zero.
    ///
    /// Throws `StoreError`: `unknownEntity`, `schemaMismatch`, `invalidArgument` (a key without an order),
    /// `valueOutOfRange`, `damaged`, `closed`; and errors of evaluating the predicate, as `invalidArgument`.
    public func fetch<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>..., limit: Int? = nil,
        offset: Int = 0
    ) throws -> [E] {
        var fetch = try Fetch(self, predicate, SortKey.parts(of: sort), limit: limit, offset: offset)
        return try fetch.values()
    }

    /// The references of the objects that satisfy a predicate. As `fetch`, but reads only the parts of a row that
    /// decide.
    public func references<E: Entity>(
        to type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...,
        limit: Int? = nil, offset: Int = 0
    ) throws -> [Reference<E>] {
        var fetch = try Fetch(self, predicate, SortKey.parts(of: sort), limit: limit, offset: offset)
        return try fetch.references()
    }

    /// The first object that satisfies a predicate; nil without one. As `fetch`.
    public func first<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...
    ) throws -> E? {
        var fetch = try Fetch(self, predicate, SortKey.parts(of: sort), limit: 1)
        return try fetch.values().first
    }

    /// The number of objects that satisfy a predicate. Constant time without one. As `fetch`.
    public func count<E: Entity>(_ type: E.Type, where predicate: Predicate<Object<E>>? = nil) throws -> Int {
        var fetch = try Fetch(self, predicate)
        return try fetch.run.count()
    }

    /// Calls `body` with each object that satisfies a predicate and its reference, until `body` returns false.
    ///
    /// Memory does not grow with the number of objects, unless they must be sorted and no index has their order. As
    /// `fetch`; also throws errors of `body`.
    public func forEach<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...,
        limit: Int? = nil, offset: Int = 0, _ body: (Reference<E>, E) throws -> Bool
    ) throws {
        var fetch = try Fetch(self, predicate, SortKey.parts(of: sort), limit: limit, offset: offset)
        var failure: (any Error)?
        try fetch.forEachValue { (reference, value) in
            do { return try body(reference, value) } catch { failure = error }
            return false
        }
        if let failure { throw failure }
    }

    /// Fetches, and describes the way: the index, the translated part of the predicate, and the number of rows touched.
    /// Throws as `fetch`.
    public func explain<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...,
        limit: Int? = nil, offset: Int = 0
    ) throws -> FetchExplanation {
        var fetch = try Fetch(self, predicate, SortKey.parts(of: sort), limit: limit, offset: offset)
        return try fetch.run.explain()
    }
}
