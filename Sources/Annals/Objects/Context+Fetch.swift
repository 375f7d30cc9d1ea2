// Finding objects of a context, including its unsaved changes.
//
// Invariants:
// FU1  With unsaved changes, an object is found by its shown values, and never by its saved ones.
// FU2  A search through an index of unsaved changes finds the same as looking at all of them.

public import FoundationEssentials

extension Context {
    /// The objects that satisfy a predicate, as this context shows them. Their values are read at the first use of a
    /// property.
    ///
    /// It takes as long as `Snapshot.fetch`. Unsaved changes are found through the same indexes; if none is used, the
    /// predicate is evaluated on all unsaved objects of the entity. With unsaved changes, a predicate that crosses a
    /// relationship is evaluated on every object that its other parts select.
    ///
    /// - Parameters:
    ///   - type: The entity.
    ///   - predicate: The condition; nil for all objects.
    ///   - sort: Their order; the first key counts most. Without one, that of their insertion, or of the index through
    ///     which they are found.
    ///   - limit: The most objects to return; nil for all.
    ///   - offset: The number of objects to skip first.
    ///   - includingUnsaved: False to find saved objects, by their saved values. The objects still show their edits.
    ///
    /// Throws `StoreError`: `contextClosed`, and as `Snapshot.fetch`.
    public func fetch<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>..., limit: Int? = nil,
        offset: Int = 0, includingUnsaved: Bool = true
    ) throws -> [Object<E>] {
        let search = try ContextSearch(core, predicate, includingUnsaved)
        return try search.objects(SortKey.parts(of: sort), limit: limit, offset: offset)
    }

    /// The first object that satisfies a predicate; nil without one. As `fetch`.
    public func first<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...,
        includingUnsaved: Bool = true
    ) throws -> Object<E>? {
        try ContextSearch(core, predicate, includingUnsaved).objects(SortKey.parts(of: sort), limit: 1, offset: 0).first
    }

    /// The references of the objects that satisfy a predicate. As `fetch`, without making objects for them.
    public func references<E: Entity>(
        to type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...,
        limit: Int? = nil, offset: Int = 0, includingUnsaved: Bool = true
    ) throws -> [Reference<E>] {
        let search = try ContextSearch(core, predicate, includingUnsaved)
        return try search.references(SortKey.parts(of: sort), limit: limit, offset: offset)
    }

    /// The number of objects that satisfy a predicate. As `fetch`.
    public func count<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, includingUnsaved: Bool = true
    ) throws -> Int {
        let search = try ContextSearch(core, predicate, includingUnsaved)
        guard search.includesUnsaved else { return try search.snapshot.count(type, where: predicate) }
        return try search.count()
    }

    // MARK: Aggregates

    /// The sum of a property over the objects that satisfy a predicate; zero without any. As `fetch`, and throws as
    /// `Snapshot.sum`.
    public func sum<E: Entity, V: AttributeValue & AdditiveArithmetic>(
        of path: any KeyPath<E, V> & Sendable, where predicate: Predicate<Object<E>>? = nil,
        includingUnsaved: Bool = true
    ) throws -> V {
        let search = try ContextSearch(core, predicate, includingUnsaved)
        guard search.includesUnsaved else { return try search.snapshot.sum(of: path, where: predicate) }
        let (aggregate, name) = try search.aggregate(path, ofNumbers: true)
        return try aggregate.sum.property(name) ?? V.zero
    }

    /// The average of a property over the objects that satisfy a predicate and have a value; nil without any. As
    /// `fetch`, and throws as `Snapshot.average`.
    public func average<E: Entity>(
        of path: any PartialKeyPath<E> & Sendable, where predicate: Predicate<Object<E>>? = nil,
        includingUnsaved: Bool = true
    ) throws -> Double? {
        let search = try ContextSearch(core, predicate, includingUnsaved)
        guard search.includesUnsaved else { return try search.snapshot.average(of: path, where: predicate) }
        return try search.aggregate(path, ofNumbers: true).aggregate.sum.average
    }

    /// The least value of a property over the objects that satisfy a predicate; nil without any. As `fetch`, in the
    /// order of `Snapshot.minimum`.
    public func minimum<E: Entity, V: AttributeValue & Comparable>(
        of path: any KeyPath<E, V> & Sendable, where predicate: Predicate<Object<E>>? = nil,
        includingUnsaved: Bool = true
    ) throws -> V? {
        let search = try ContextSearch(core, predicate, includingUnsaved)
        guard search.includesUnsaved else { return try search.snapshot.minimum(of: path, where: predicate) }
        let aggregate = try search.aggregate(path).aggregate
        return aggregate.property(aggregate.least)
    }

    /// The greatest value of a property over the objects that satisfy a predicate; nil without any. As `minimum`.
    public func maximum<E: Entity, V: AttributeValue & Comparable>(
        of path: any KeyPath<E, V> & Sendable, where predicate: Predicate<Object<E>>? = nil,
        includingUnsaved: Bool = true
    ) throws -> V? {
        let search = try ContextSearch(core, predicate, includingUnsaved)
        guard search.includesUnsaved else { return try search.snapshot.maximum(of: path, where: predicate) }
        let aggregate = try search.aggregate(path).aggregate
        return aggregate.property(aggregate.greatest)
    }
}

/// One search in a context.
struct ContextSearch<E: Entity> {
    let core: ContextCore
    let snapshot: Snapshot
    let predicate: Predicate<Object<E>>?
    /// The unsaved changes; nil if they do not matter.
    private let overlay: Overlay?
    private let reads: ReadRecorder?

    /// - Parameter reads: Records which properties of objects are read to evaluate a part of the predicate.
    init(
        _ core: ContextCore, _ predicate: Predicate<Object<E>>?, _ includesUnsaved: Bool, reads: ReadRecorder? = nil
    ) throws(StoreError) {
        _ = try core.requireStore()
        (self.reads, self.core, self.predicate) = (reads, core, predicate)
        snapshot = try core.snapshot
        guard includesUnsaved, !core.pending.isEmpty, predicate != nil || core.hasUnsaved(of: E.model) else {
            overlay = nil
            return
        }
        let layout = try snapshot.layout(of: E.model)
        let binding = try layout.binding(E.self, snapshot.view.catalog)
        let snapshot = snapshot
        let condition = predicate.map { PredicateTranslator.condition($0, snapshot, binding, reads) }
        let dependsOnOthers = condition.map { $0.dependsOnOthers || Self.mayReferToDeleted(core) } ?? false
        guard dependsOnOthers || core.hasUnsaved(of: E.model) else {
            overlay = nil
            return
        }
        overlay = try Overlay(
            condition ?? .constant(true), snapshot, core, binding, layout, dependsOnOthers: dependsOnOthers)
    }

    /// Whether unsaved changes may matter.
    var includesUnsaved: Bool { overlay != nil }

    /// Whether objects of the entity may refer to objects deleted here, and so show nothing where the store has a
    /// reference.
    private static func mayReferToDeleted(_ core: ContextCore) -> Bool {
        let kept = E.model.properties.filter { $0.codec.target != nil && $0.deleteRule != .cascade }
        return core.hidesAny(of: kept.compactMap { $0.codec.target?.model })
    }

    // MARK: Objects

    func objects(_ sort: [SortPart<E>], limit: Int?, offset: Int) throws -> [Object<E>] {
        guard includesUnsaved else {
            var fetch = try Fetch(snapshot, predicate, sort, limit: limit, offset: offset)
            return core.objects(try fetch.run.objects())
        }
        return try references(sort, limit: limit, offset: offset).map { core.any($0) }
    }

    func references(_ sort: [SortPart<E>], limit: Int?, offset: Int) throws -> [Reference<E>] {
        guard let overlay else {
            var fetch = try Fetch(snapshot, predicate, sort, limit: limit, offset: offset, reads: reads)
            return try fetch.references()
        }
        let page = FetchPage(limit: limit, offset: offset)
        let (own, binding) = (try own(), overlay.binding)
        let columns = sort.isEmpty ? [] : try binding.columns(sort)
        let found = try saved(columns, atMost: page.wanted)
        if own.isEmpty { return page.of(found) }
        if columns.isEmpty { return page.of((found + own.map { $0.reference }).sorted()) }
        var all: [Reference<E>] = []
        var keyed: [(key: [UInt8], id: ObjectID)] = []
        func add(_ reference: Reference<E>, _ value: E) throws(StoreError) {
            all.append(reference)
            keyed.append((try binding.key(of: value, columns), reference.id))
        }
        for object in own { try add(object.reference, object.current) }
        for reference in found {
            if let value = try snapshot.value(reference) { try add(reference, value) }
        }
        return page.of(columns.order(of: keyed).map { all[$0] })
    }

    /// The unsaved objects that are shown and satisfy the predicate (FU1).
    private func own() throws -> [Object<E>] {
        var own: [Object<E>] = []
        for object in try candidates() {
            guard let object = object as? Object<E>, object.isShown, try matches(object) else { continue }
            own.append(object)
        }
        return own
    }

    /// Unsaved objects: all that satisfy the predicate, and perhaps more (FU2).
    private func candidates() throws(StoreError) -> [any LiveObject] {
        switch overlay?.plan.access ?? .scan {
        case .nothing: return []
        case .scan: return core.unsaved(of: E.model)
        case .objects(let objects):
            // Objects that were saved have been given other references.
            return objects.compactMap { core.pending[$0] }
        case .ranges(let index, let ranges):
            let index = snapshot.view.shape.indexes[index]
            return try core.unsaved(of: E.model, index.id, ranges, index.layout)
        }
    }

    /// The objects without unsaved changes that satisfy the predicate: as many as wanted, if there are.
    private func saved(_ columns: [SortColumn], atMost wanted: Int = .max) throws -> [Reference<E>] {
        guard let overlay else { return [] }
        let mark = core.mark
        var found: [Reference<E>] = []
        try overlay.forEachRow(columns, atMost: wanted) { (object, _) in found.append(Reference(object, of: mark)) }
        if !overlay.dependsOnOthers { return found }
        var matching: [Reference<E>] = []
        for reference in found where try matches(core.any(reference)) {
            matching.append(reference)
            if matching.count == wanted { break }
        }
        return matching
    }

    private func matches(_ object: Object<E>) throws -> Bool {
        // The properties decide of most objects, without the predicate's own code.
        if reads == nil, let value = object.loadedWhole, let isMatch = overlay?.decided(object.id, value) {
            return isMatch
        }
        return try core.matches(object, predicate, reads: reads)
    }

    func count() throws -> Int { try own().count + saved([]).count }

    // MARK: Values

    /// Calls `body` with each object that satisfies the predicate, in no order.
    func forEachValue(_ body: (Reference<E>, E) -> Void) throws {
        for object in try own() { body(object.reference, object.current) }
        if overlay?.dependsOnOthers ?? false {
            for reference in try saved([]) { body(reference, core.any(reference).current) }
            return
        }
        var fetch =
            try overlay.map { Fetch<E>(try $0.run(), $0.binding) } ?? Fetch(snapshot, predicate, reads: reads)
        try fetch.forEachValue { (reference, value) in
            if core.pending[reference.id] == nil { body(reference, value) }
            return true
        }
    }

    func aggregate(
        _ path: any PartialKeyPath<E> & Sendable, ofNumbers: Bool = false
    ) throws -> (aggregate: Aggregate, name: String) {
        let layout = try snapshot.layout(of: E.model)
        let binding = try layout.binding(E.self, snapshot.view.catalog)
        let property = binding.properties[try binding.requireProperty(path, for: "computed with")]
        if ofNumbers { try property.requireNumber(of: binding.model.name) }
        var aggregate = Aggregate(storeMark: binding.storeMark)
        var failure: (any Error)?
        try forEachValue { _, value in
            withUnsafePointer(to: value) { value in
                do {
                    let value = try property.codec.value(at: UnsafeRawPointer(value) + property.offset)
                    if ofNumbers { aggregate.sum.add(value) } else { aggregate.addExtremes(value) }
                } catch {
                    failure = error
                }
            }
        }
        if let failure { throw failure }
        return (aggregate, property.name)
    }
}

extension ContextCore: UncommittedChanges {
    func hides(_ object: ObjectID) -> Bool { pending[object] != nil }
    var mostHidden: Int? { pending.count }

    /// The object of a reference, in any phase; made if it does not exist yet.
    func any<E: Entity>(_ reference: Reference<E>) -> Object<E> { registered(reference) ?? made(reference, E.model) }

    /// Whether an object satisfies a predicate, as the context shows it. Its reads are not observed.
    func matches<E: Entity>(
        _ object: Object<E>, _ predicate: Predicate<Object<E>>?, reads: ReadRecorder? = nil
    ) throws -> Bool {
        guard let predicate else { return true }
        let tracking = tracking
        (self.tracking, self.reads) = (nil, reads)
        reads?.subject = object.id
        defer { (self.tracking, self.reads) = (tracking, nil) }
        let isMatch: Bool
        do {
            isMatch = try predicate.evaluate(object)
        } catch {
            throw ConditionReader.undecided(error)
        }
        if let failure = takeFailure() { throw failure }
        return isMatch
    }
}
