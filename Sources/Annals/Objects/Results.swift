// A list of the objects of a context that stays current: it changes where its objects change.
//
// Invariants:
// LV1  After each change of the context the list has the objects that fetching would find, in the order of fetching;
//      without sort keys, in the order of insertion.
// LV2  It changes before any observer is called, so every observer sees the whole change. Changes by observers are
//      further changes.

internal import FoundationEssentials
public import Observation

/// The objects of a context that satisfy a predicate, in order, always as the context shows them.
///
/// ```swift
/// let best = try context.results(Clip.self, where: #Predicate { $0.rank > 10 }, sortedBy: .descending(\.rank))
/// for clip in best { print(clip.title) }
/// ```
///
/// It changes with each edit in the context before that is saved, and when the context is saved, merged, rolled back or
/// undone. Code that observes it (`withObservationTracking`, `Observations`) is notified when objects are added,
/// removed or moved. For other changes of an object, observe the object. `onChange` passes the difference, for a table
/// on a screen.
///
/// It holds a few bytes for each object, with its sort keys. It holds the objects that it has returned, as long as they
/// are in the list, and reads no others.
///
/// It belongs to the isolation of its context, and does not keep the context. After the context has ended the list does
/// not change any more.
public class Results<E: Entity>: Observable {
    let core: ContextCore
    private var search: LiveSearch<E>
    private var list: LiveRows<Object<E>?>
    private var registrar: ObservationRegistrar?
    private var waiting = ContextChange()
    private var isUpdating = false
    private var lastError: StoreError?
    /// The error that kept the list from following the last change; nil if it followed. It tries again with the next
    /// change. Code that observes it is notified, and standard error gets a line for each reason that differs from the
    /// last one.
    public private(set) var updateError: StoreError? {
        get {
            noteAccess()
            return lastError
        }
        set {
            guard newValue != lastError else { return }
            registrar?.willSet(self, keyPath: \.whole)
            lastError = newValue
            registrar?.didSet(self, keyPath: \.whole)
            if let newValue {
                StandardError.log("A list of “\(E.model.name)” does not show the last change. \(newValue)")
            }
        }
    }
    /// Called after each change of the list with the difference. The list is the new one then. Set it to nil to end.
    public var onChange: ((ResultsDiff) -> Void)?

    init(_ core: ContextCore, _ search: LiveSearch<E>) throws {
        self.core = core
        self.search = search
        list = LiveRows(isDescending: try search.order(core.snapshot).isDescending)
        list.show(list.plan(try refetched([:])))
        core.telling.add(self)
    }

    deinit { core.telling.remove(ObjectIdentifier(self)) }

    // MARK: Observation

    /// The property that represents the list in key paths.
    private var whole: Int { list.order.count }

    @inline(__always)
    private func noteAccess() { if core.isTracked { noteObserved() } }

    @inline(never)
    private func noteObserved() {
        let registrar = self.registrar ?? ObservationRegistrar()
        self.registrar = registrar
        registrar.access(self, keyPath: \.whole)
    }

    // MARK: Elements

    /// The IDs in their order, as they are now.
    var order: [ObjectID] {
        noteAccess()
        return list.order
    }

    /// The references of the objects, in order. Makes no objects.
    public var references: [Reference<E>] {
        let mark = core.mark
        return order.map { Reference($0, of: mark) }
    }

    func endOfSection(startingAt start: Int) -> Int { list.endOfSection(startingAt: start) }

    /// The position of an object; nil if it is not in the list. Logarithmic.
    public func index(of object: Object<E>) -> Int? {
        noteAccess()
        return object.source === core ? list.position(of: object.id) : nil
    }

    /// The object of an ID that is or was in the list.
    func object(_ id: ObjectID) -> Object<E> {
        if let row = list[id] {
            if let held = row.content { return held }
            let object = core.any(Reference<E>(id))
            list.keep(object, of: id)
            return object
        }
        if let held = core.registered(Reference<E>(id)) { return held }
        let object = core.made(Reference<E>(id), E.model)
        if id.isTemporary || core.isMissing(id) { object.phase = .gone }
        return object
    }

    // MARK: Following

    private func follow() {
        if isUpdating { return }
        isUpdating = true
        defer { isUpdating = false }
        while !waiting.isEmpty {
            let change = waiting
            waiting = ContextChange()
            update(change)
        }
    }

    private func update(_ change: ContextChange) {
        // An error that was noted before is for saving to throw.
        let noted = core.takeFailure()
        defer { if let noted { core.note(noted) } }
        do {
            if let older = change.older, try core.snapshot.schemaVersion != older.schemaVersion {
                search = try search.renewed(core.snapshot, core.requireStore().declaredModels)
            }
            let isCurrent = try lastError == nil && search.knows(change, core)
            let changes = isCurrent ? try self.changes(change) : try refetched(change.renamed)
            updateError = nil
            if !changes.isEmpty { show(list.plan(changes)) }
        } catch {
            updateError = error as? StoreError ?? ConditionReader.undecided(error)
        }
    }

    /// Changes the list, then calls observers: LV2.
    private func show(_ plan: LiveRows<Object<E>?>.Plan) {
        guard !plan.diff.isEmpty else {
            list.show(plan)
            return didShow()
        }
        let registrar = registrar
        registrar?.willSet(self, keyPath: \.whole)
        list.show(plan)
        didShow()
        registrar?.didSet(self, keyPath: \.whole)
        onChange?(plan.diff)
    }

    /// The list is another one.
    func didShow() {}

    /// The changes of the list after a change of the context (LV1).
    private func changes(_ change: ContextChange) throws -> [LiveRows<Object<E>?>.Change] {
        // The search knows that none of the changes decides about its list.
        if search.isSearch { return [] }
        let order = try search.order(core.snapshot)
        var changes: [LiveRows<Object<E>?>.Change] = []
        for (temporary, id) in change.renamed where id.entityNumber == order.entity {
            // An object has replaced another one with its unique value.
            if list[id] != nil { changes.append(LiveRows.Change(old: id, new: nil)) }
            add(try search.key(of: id, core, order), temporary, id, &changes)
        }
        let renamed = change.renamed.isEmpty ? [] : Set(change.renamed.values)
        for (id, _) in change.objects ?? [:] where id.entityNumber == order.entity {
            if renamed.contains(id) || change.renamed[id] != nil { continue }
            add(try search.key(of: id, core, order), id, id, &changes)
        }
        return changes
    }

    /// The difference to a new fetch.
    private func refetched(_ renamed: [ObjectID: ObjectID]) throws -> [LiveRows<Object<E>?>.Change] {
        var left = Set(list.order)
        var old: [ObjectID: ObjectID] = [:]
        for (temporary, id) in renamed { old[id] = temporary }
        var changes: [LiveRows<Object<E>?>.Change] = []
        let found = try search.rows(core)
        for (id, key) in found {
            let before = old[id] ?? id
            left.remove(before)
            add(key, before, id, &changes)
        }
        for id in left { changes.append(LiveRows.Change(old: id, new: nil)) }
        return changes
    }

    /// Adds the change of an object that has a key now, or is not to be in the list.
    private func add(
        _ key: LiveKey?, _ old: ObjectID, _ id: ObjectID, _ changes: inout [LiveRows<Object<E>?>.Change]
    ) {
        let row = list[old]
        guard let key else {
            if row != nil { changes.append(LiveRows.Change(old: old, new: nil)) }
            return
        }
        if let row, row.key == key, old == id { return }
        let kept = row?.content ?? (id.isTemporary ? core.registered(Reference<E>(id)) : nil)
        changes.append(
            LiveRows.Change(old: row == nil ? nil : old, new: (id, LiveRows.Row(key: key, content: kept))))
    }
}

extension Results: ContextListener {
    func contextDidChange(_ change: ContextChange) {
        waiting.add(change)
        follow()
    }
}

@available(*, unavailable)
extension Results: Sendable {}

extension Results: RandomAccessCollection {
    public typealias Element = Object<E>
    public typealias Index = Int
    public typealias Indices = Range<Int>
    public typealias SubSequence = ResultsSlice<E>

    /// 0.
    public var startIndex: Int { 0 }
    /// The number of objects.
    public var endIndex: Int { order.count }

    /// The object at a position. Made at the first access, and the same one from then on.
    public subscript(position: Int) -> Object<E> { object(order[position]) }

    /// A part of the list as it is now. It does not change with the list.
    public subscript(bounds: Range<Int>) -> ResultsSlice<E> { ResultsSlice(self, order[bounds]) }

    /// Iterates over the objects that are in the list now. You can change them during the iteration.
    public func makeIterator() -> ResultsSlice<E>.Iterator { self[0..<endIndex].makeIterator() }
}

/// A part of a list of results as it was when it was taken. Its indices are those of the list.
public struct ResultsSlice<E: Entity>: RandomAccessCollection {
    private let results: Results<E>
    private let order: ArraySlice<ObjectID>

    init(_ results: Results<E>, _ order: ArraySlice<ObjectID>) { (self.results, self.order) = (results, order) }

    /// The position of its first object in the list.
    public var startIndex: Int { order.startIndex }
    /// The position after its last object.
    public var endIndex: Int { order.endIndex }

    /// The object at a position.
    public subscript(position: Int) -> Object<E> { results.object(order[position]) }

    /// A part of it.
    public subscript(bounds: Range<Int>) -> ResultsSlice<E> { ResultsSlice(results, order[bounds]) }
}
