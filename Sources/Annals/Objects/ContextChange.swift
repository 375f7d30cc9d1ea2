// The changes of a context and their listeners: changes are collected during a piece of work, and reported once at its
// end.
//
// Invariants:
// CL1  Listeners are called when objects show the changes, once for each piece of work.

/// Called after objects were changed, inserted or deleted, here or in the store.
protocol ContextListener: AnyObject {
    func contextDidChange(_ change: ContextChange)
}

/// The changes of a context.
struct ContextChange {
    /// The changed slots of objects, whether the context has them or not; nil if they are unknown.
    private(set) var objects: [ObjectID: TouchedSlots]? = [:]
    /// Objects that were saved for the first time: their permanent IDs by their temporary ones.
    private(set) var renamed: [ObjectID: ObjectID] = [:]
    /// The state of the context before; nil if it was not moved.
    private(set) var older: Snapshot?

    var isEmpty: Bool { older == nil && renamed.isEmpty && objects?.isEmpty ?? false }

    mutating func note(_ object: ObjectID, _ slots: TouchedSlots) { objects?[object, default: []].formUnion(slots) }

    mutating func noteRenamed(_ object: ObjectID, to permanent: ObjectID) { renamed[object] = permanent }

    /// The context was moved. Nil if it is not known which objects have changed.
    mutating func noteMoved(from older: Snapshot, _ changed: Set<ObjectID>?) {
        self.older = self.older ?? older
        guard let changed else {
            objects = nil
            return
        }
        for object in changed { note(object, .inStore) }
    }

    /// Adds later changes.
    mutating func add(_ later: ContextChange) {
        older = older ?? later.older
        renamed.merge(later.renamed) { _, new in new }
        guard let more = later.objects else {
            objects = nil
            return
        }
        for (object, slots) in more { note(object, slots) }
    }
}

/// The properties of an object that have changed.
struct TouchedSlots: OptionSet, Sendable {
    let rawValue: UInt64

    /// The store has another version: comparing the two shows which properties have changed.
    static let inStore = TouchedSlots(rawValue: 1 << 63)
    /// The object is shown and was not before, or the other way round.
    static let existence = TouchedSlots(rawValue: 1 << 62)
    /// All properties.
    static let properties = TouchedSlots(rawValue: 1 << 62 - 1)
    /// An object that may be the target of references was added or removed.
    static let whole: TouchedSlots = [.existence, .properties]

    init(rawValue: UInt64) { self.rawValue = rawValue }

    /// A slot of the entity's model. Those after the sixtieth are one.
    init(slot: Int) { rawValue = 1 << UInt64(min(slot, 61)) }

    init(slots: some Sequence<Int>) { self = slots.reduce(into: []) { $0.formUnion(TouchedSlots(slot: $1)) } }
}

/// The listeners of a context, and the change still to be reported.
struct ContextTelling {
    private struct Listening {
        weak var listener: (any ContextListener)?
    }

    private var listeners: [ObjectIdentifier: Listening] = [:]
    fileprivate var change = ContextChange()
    fileprivate var depth = 0

    var hasListeners: Bool { !listeners.isEmpty }

    mutating func add(_ listener: any ContextListener) {
        listeners = listeners.filter { $0.value.listener != nil }
        listeners[ObjectIdentifier(listener)] = Listening(listener: listener)
    }

    mutating func remove(_ listener: ObjectIdentifier) { listeners[listener] = nil }

    mutating func removeAll() { listeners = [:] }

    fileprivate var all: [any ContextListener] { listeners.values.compactMap(\.listener) }
}

extension ContextCore {
    var hasListeners: Bool { telling.hasListeners }

    func noteTouched(_ object: ObjectID, _ slots: @autoclosure () -> TouchedSlots = .whole) {
        if hasListeners { note { $0.note(object, slots()) } }
    }

    func noteRenamed(_ object: ObjectID, to permanent: ObjectID) {
        if hasListeners { note { $0.noteRenamed(object, to: permanent) } }
    }

    func noteMoved(from older: Snapshot, _ changed: Set<ObjectID>?) {
        if hasListeners { note { $0.noteMoved(from: older, changed) } }
    }

    private func note(_ add: (inout ContextChange) -> Void) {
        add(&telling.change)
        if telling.depth == 0 { tell() }
    }

    /// Calls the listeners once, when `body` has ended (CL1).
    func batch<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        telling.depth += 1
        defer {
            telling.depth -= 1
            if telling.depth == 0 { tell() }
        }
        return try body()
    }

    private func tell() {
        let change = telling.change
        guard !change.isEmpty else { return }
        telling.change = ContextChange()
        for listener in telling.all { listener.contextDidChange(change) }
    }
}
