// An object in one state of a store or in a context, with its properties and related objects.
//
// Invariants:
// OJ1  Each access to a stored property of an object reads or replaces a whole value, and runs no other code in
//      between. So accesses cannot overlap, and frequent ones are not checked for it.
// OJ2  While `isLoaded` is false, `content` is a copy of the type's initial value, and is never shown. It is no
//      optional: code that does not know the entity would look up the type of the optional for each object.

internal import FoundationEssentials

/// An object: in a predicate it represents each tested object, in a context it is the object itself.
///
/// Its properties are those of the struct. A property that refers to an object returns that object, one that refers to
/// several returns all of them, and so does the other side of a relationship. All of them are read in the same state.
/// Values are read at the first use of a property.
///
/// A context has one object for each ID. Set its properties to change it; `Context.save()` writes the changes. It
/// belongs to the isolation of its context, as the context does.
///
/// Its own members are `objectReference`, `objectStatus` and `objectUpdate(_:)`. All other names are left to the
/// entity's properties. Objects are `Hashable` and `Identifiable` by identity, and a property `id`, `hash` or
/// `hashValue` wins over these members: `clip.id` is the property, and generic code for `Identifiable` gets the
/// identity. Objects have no `description`, only their properties.
@dynamicMemberLookup
public final class Object<E: Entity> {
    /// See `objectReference`.
    @exclusivity(unchecked) var reference: Reference<E>
    @usableFromInline let source: ObjectSource
    /// The properties as they are shown (OJ1), if `isLoaded` (OJ2).
    @exclusivity(unchecked) @usableFromInline var content: E {
        didSet { if source.logsEdits { source.noteLoaded(self) } }
    }
    /// Whether the properties were read or set.
    @exclusivity(unchecked) @usableFromInline private(set) var isLoaded: Bool
    /// The properties that edits are relative to; nil if nothing is edited.
    @exclusivity(unchecked) var saved: SavedValue<E>?
    @exclusivity(unchecked) var phase = ObjectPhase.stored {
        didSet { if source.logsEdits, isRegistered { source.notePhase(self) } }
    }
    /// Whether the object must notify the source when it is released.
    var isRegistered = false
    /// The ID that it had first: a temporary one if it was inserted here.
    let firstID: ObjectID
    /// Made for the first observer of the object (OO1).
    var registrar: ObjectRegistrar?

    /// An object whose properties are not read yet. Called through `EntityModel.object(_:_:)`.
    @inline(never)
    init(_ reference: Reference<E>, _ source: ObjectSource, like initial: UnsafePointer<E>) {
        self.reference = reference
        firstID = reference.id
        self.source = source
        (content, isLoaded) = (initial.pointee, false)
    }

    /// Called through `EntityModel.object(_:_:_:)`.
    @inline(never)
    init(_ reference: Reference<E>, _ value: E, _ source: ObjectSource) {
        self.reference = reference
        firstID = reference.id
        self.source = source
        (content, isLoaded) = (value, true)
    }

    deinit { if isRegistered { source.released(reference.id, firstID) } }

    /// The properties as they are shown. Initial values if the object cannot be read, which the source notes.
    var current: E { shown(at: nil) }

    /// Shows other properties.
    func setContent(_ value: consuming E) {
        isLoaded = true
        content = value
    }

    /// Reads the properties. Returns false if they cannot be read, which the source notes.
    @inline(never) @usableFromInline @discardableResult
    func load() -> Bool {
        // Not in place: reading a value runs code of its type (OJ1).
        var value = E()
        guard source.read(reference, into: &value) else { return false }
        setContent(value)
        return true
    }

    /// Compiled with the code that reads: there the type and the key path are known, and so the place in memory.
    @inlinable @inline(__always)
    func read<V>(_ path: KeyPath<E, V>) -> V {
        if source.noticesReads { noticeRead(path) }
        if !isLoaded, !load() { return E()[keyPath: path] }
        return content[keyPath: path]
    }

    @inline(never) @usableFromInline
    func noticeRead(_ path: PartialKeyPath<E>) {
        if !source.inUse.isEmpty { requireFree(at: MemoryLayout<E>.offset(of: path)) }
        source.probe?.note(MemoryLayout<E>.offset(of: path))
        source.reads?.note(reference.id, E.model, at: MemoryLayout<E>.offset(of: path))
        if source.isTracked { noteAccess(at: MemoryLayout<E>.offset(of: path)) }
    }

    /// The object's reference. It is temporary until the object is first saved, or
    /// `Context.obtainPermanentReferences(for:)` gives it another.
    public var objectReference: Reference<E> { reference }

    // MARK: Properties

    /// The value of a property.
    @inlinable public subscript<V>(dynamicMember path: KeyPath<E, V>) -> V { read(path) }

    /// The value of a property. Only an object of a context can be changed.
    public subscript<V>(dynamicMember path: WritableKeyPath<E, V>) -> V {
        @inlinable get { read(path) }
        set { edit(at: MemoryLayout<E>.offset(of: path)) { $0[keyPath: path] = newValue } }
        // Without it, each change of a list in an object would copy the list.
        _modify {
            var change = beginChange(path)
            defer { endChange(change, path) }
            yield &change.value
        }
    }

    /// The object that a property refers to; nil if it refers to none.
    public subscript<T: Entity>(dynamicMember path: WritableKeyPath<E, Reference<T>?>) -> Object<T>? {
        get { read(path).flatMap { source.object($0) } }
        set {
            guard let target = newValue else {
                return edit(at: MemoryLayout<E>.offset(of: path)) { $0[keyPath: path] = nil }
            }
            guard let reference = source.reference(to: target) else { return }
            edit(at: MemoryLayout<E>.offset(of: path)) { $0[keyPath: path] = reference }
        }
    }

    /// The objects that a property refers to, in their order.
    public subscript<T: Entity>(dynamicMember path: WritableKeyPath<E, [Reference<T>]>) -> [Object<T>] {
        get { read(path).compactMap { source.object($0) } }
        set {
            let references = newValue.compactMap { source.reference(to: $0) }
            guard references.count == newValue.count else { return }
            edit(at: MemoryLayout<E>.offset(of: path)) { $0[keyPath: path] = references }
        }
    }

    /// The objects that a property refers to, in the order in which they were inserted.
    public subscript<T: Entity>(
        dynamicMember path: WritableKeyPath<E, Set<Reference<T>>>
    ) -> [Object<T>] {
        get { read(path).sorted().compactMap { source.object($0) } }
        set {
            let references = newValue.compactMap { source.reference(to: $0) }
            guard references.count == newValue.count else { return }
            edit(at: MemoryLayout<E>.offset(of: path)) { $0[keyPath: path] = Set(references) }
        }
    }

    // A key path that need not be sendable: ON3.
    /// The objects that refer to this one, in the order in which they were inserted.
    public subscript<T: Entity>(dynamicMember path: KeyPath<E, ToMany<T>>) -> [Object<T>] {
        get {
            let offset = MemoryLayout<E>.offset(of: path)
            if source.noticesReads { noticeRead(path) }
            return source.referring(to: reference, E.self, offset).compactMap { source.object(Reference<T>($0)) }
        }
        @available(
            *, unavailable,
            message: "the other side of a relationship is read only: set the property of the object that refers"
        )
        set { preconditionFailure("The other side of a relationship is read only.") }
    }

    /// The one object that refers to this one; nil if none does.
    public subscript<T: Entity>(dynamicMember path: KeyPath<E, ToOne<T>>) -> Object<T>? {
        let offset = MemoryLayout<E>.offset(of: path)
        if source.noticesReads { noticeRead(path) }
        return source.referring(to: reference, E.self, offset).first.flatMap { source.object(Reference<T>($0)) }
    }

    // MARK: Changes

    /// Changes several properties at once, or calls a mutating method of the struct. If `change` throws, nothing has
    /// changed. Observers and live results get one notification.
    public func objectUpdate(_ change: (inout E) throws -> Void) rethrows {
        var value = current
        try change(&value)
        edit(at: nil) { $0 = value }
    }

    /// Changes the part at an offset of the value; nil means any part.
    func edit(at offset: Int?, _ change: (inout E) -> Void) {
        guard source.willEdit(self) else { return }
        var value = shown(at: offset)
        change(&value)
        source.apply(value, to: self, at: offset)
    }
}

/// The state of an object in its context.
enum ObjectPhase: UInt8 {
    /// In the store, perhaps with edits.
    case stored
    /// Inserted in the context and not saved yet.
    case inserted
    /// Deleted in the context and not saved yet.
    case deleted
    /// Deleted in the store, or inserted and never saved. It keeps its last values.
    case gone
}

/// A value after one reference: an object without edits has no room for it.
final class SavedValue<E: Entity>: Sendable {
    let value: E
    /// Whether the store has been seen to have another version.
    let isContested: Bool

    init(_ value: E, isContested: Bool = false) { (self.value, self.isContested) = (value, isContested) }

    /// Called through `EntityModel.saved(_:)`.
    @inline(never)
    init(keeping value: E) { (self.value, isContested) = (value, false) }
}

/// The source from which objects are read. Notes the first error, because properties cannot throw.
@usableFromInline
class ObjectSource {
    private(set) var failure: StoreError?
    /// Set while key paths are followed instead of objects read.
    fileprivate(set) var probe: PathProbe? { didSet { noticeReads() } }
    /// Finds out whether a read is observed; nil if reads cannot be observed.
    var tracking: TrackingProbe? { didSet { noticeReads() } }
    /// Records the reads; nil to record none.
    var reads: ReadRecorder? { didSet { noticeReads() } }
    /// OP1: the properties that are being changed in place.
    final var inUse: [PropertyInUse] = [] { didSet { noticeReads() } }
    /// OP3: the tasks that wait until no property is being changed in place.
    final var waitingUntilFree: [CheckedContinuation<Void, Never>] = []
    @usableFromInline private(set) final var noticesReads = false
    /// Whether `noteLoaded` and `notePhase` want to be called.
    final var logsEdits = false

    /// Whether each access makes an object, so that several represent the same one.
    var makesObjectsAgain: Bool { true }

    private func noticeReads() { noticesReads = probe != nil || tracking != nil || reads != nil || !inUse.isEmpty }

    var isTracked: Bool { tracking?.isTracking ?? false }

    func note(_ error: StoreError) { if failure == nil { failure = error } }

    func takeFailure() -> StoreError? {
        defer { failure = nil }
        return failure
    }

    /// Reads the properties of an object into a new value. Returns false if it cannot be read.
    func read<E: Entity>(_ reference: Reference<E>, into value: inout E) -> Bool { false }

    func referring<E: Entity>(to reference: Reference<E>, _ type: E.Type, _ offset: Int?) -> [ObjectID] { [] }

    /// The object that a reference names; nil if it does not exist any more.
    func object<E: Entity>(_ reference: Reference<E>) -> Object<E>? { E.model.object(reference, self) }

    /// How an object is referred to here; nil if it is of another source, which is then noted.
    func reference<E: Entity>(to object: Object<E>) -> Reference<E>? { object.reference }

    /// Called before each change. False if the object cannot be changed.
    func willEdit<E: Entity>(_ object: Object<E>) -> Bool {
        preconditionFailure("An object of a snapshot was changed: change objects of a context instead.")
    }

    /// Gives an object new properties, of which those at an offset may differ; nil if any may.
    func apply<E: Entity>(_ value: E, to object: Object<E>, at offset: Int?) {}

    /// The property at a slot of an object was changed in place.
    func noteEdited<E: Entity>(_ object: Object<E>, _ slot: Int) {}

    /// An object has other properties, or was read.
    func noteLoaded<E: Entity>(_ object: Object<E>) {}

    /// An object is shown now, or no longer.
    func notePhase<E: Entity>(_ object: Object<E>) {}

    /// Called when references to an object are observed.
    func noteObservedSide(_ object: ObjectID) {}

    /// Called when the observation of an object begins.
    func noteObserved(_ observed: ObservedObject) {}

    /// A registered object is released. `first` is the ID that it had first.
    func released(_ object: ObjectID, _ first: ObjectID) {}
}

/// Finds out which property a key path of objects leads to, by following it.
final class PathProbe: ObjectSource {
    private(set) var offset: Int?
    private(set) var isFollowed = false

    override init() {
        super.init()
        probe = self
    }

    fileprivate func note(_ offset: Int?) {
        self.offset = offset
        isFollowed = true
    }

    /// The offset in a value of the property that a key path of objects leads to; nil for other key paths.
    static func offset<E: Entity>(_ path: AnyKeyPath, _ type: E.Type) -> Int? {
        guard let path = path as? PartialKeyPath<Object<E>> else { return nil }
        let probe = PathProbe()
        defer { probe.probe = nil }
        guard let nobody = ObjectID(rawValue: 1 << 48 | 1) else { return nil }
        _ = Object<E>(Reference<E>(nobody), E(), probe)[keyPath: path]
        return probe.isFollowed ? probe.offset : nil
    }
}

/// Reads objects of a snapshot.
final class SnapshotSource: ObjectSource {
    private let snapshot: Snapshot

    init(_ snapshot: Snapshot) { self.snapshot = snapshot }

    override func object<E: Entity>(_ reference: Reference<E>) -> Object<E>? {
        E.model.object(Reference(reference.id, of: snapshot.mark), self)
    }

    override func read<E: Entity>(_ reference: Reference<E>, into value: inout E) -> Bool {
        do throws(StoreError) { return try snapshot.read(reference, into: &value) } catch { note(error) }
        return false
    }

    override func referring<E: Entity>(to reference: Reference<E>, _ type: E.Type, _ offset: Int?) -> [ObjectID] {
        do throws(StoreError) { return try snapshot.referring(to: reference, offset) } catch { note(error) }
        return []
    }
}
