// The state of a context: its objects, and those with unsaved changes.
//
// Invariants:
// CX1  There is one object for each ID. `registry` has every living object, without retaining it. It also has a saved
//      object by the temporary ID that the object had before. An object whose place another one has taken (`upserts`)
//      is not in it, is gone, and is never shown again.
// CX2  `pending` retains every object that has unsaved changes, is being saved, or has a newer version than the
//      snapshot. Without its context it is emptied, so that objects and their context do not keep each other alive.
// CX3  `observed` retains observed objects, so that observers get notified (OO2). It is emptied as `pending` is.
// CX4  Both sides of a relationship come from the same place: the stored side. The other side is the index of the
//      snapshot, without the objects in `pending`, and those of them that refer.
// CX5  A context never moves to an earlier state than one that it has shown, of itself or of one of its objects.
// CX6  A move to another schema version reads all objects again: without a change of theirs, they may show another
//      attribute or default.

internal import FoundationEssentials
internal import Synchronization

/// Called before each change, to revert it later.
protocol ChangeRecorder: AnyObject {
    func willChange<E: Entity>(_ object: Object<E>)
    /// An object is about to show changes by other writers, or, at the slots in `own`, values computed by saving.
    func willShow<E: Entity>(_ value: E, of object: Object<E>, own: [Int])
    /// An inserted object has become one of the store, which had these properties. It replaces another object of the
    /// context, if one existed, which still shows its old values.
    func didUpdateExisting<E: Entity>(_ value: E, with object: Object<E>, insteadOf former: Object<E>?)
    /// Objects have got permanent IDs, by their temporary ones: those of an entity, or of all if it is nil.
    func replaceReferences(_ permanent: PermanentIDs, to entity: (any Entity.Type)?)
    /// All changes up to now are saved. Returns whether they are a group of their own, which ends here.
    @discardableResult func endSavedGroup() -> Bool
    /// Whether the shown values come from saving a group that has ended.
    var isShowingEndedGroup: Bool { get set }
}

/// The shared state of a context and its objects. It is released with the last of them.
final class ContextCore: ObjectSource {
    private struct Registered {
        // Sound because an object removes itself before it is released.
        unowned(unsafe) let object: any LiveObject
    }

    private let heldStore: Store?
    private weak var owningStore: Store?
    /// The context's snapshot, or the error from reading it.
    private var place: Result<Snapshot, StoreError>
    /// The last transaction of the newest state in which `refresh` has read an object. CX5
    private(set) var newestShown: UInt64 = 0
    /// The entity of which an object was inserted last.
    @exclusivity(unchecked) private var lastEntity: (model: EntityModel, number: UInt16)?
    // These are not checked for overlapping accesses: no other code runs within one. The caller retains objects removed
    // from `pending`, so none is released during an access.
    @exclusivity(unchecked) private var registry = ObjectIDTable<Registered>()
    @exclusivity(unchecked) private(set) var pending = ObjectIDTable<any LiveObject>()
    /// Indexes for finding objects of `pending`; nil before the first search.
    var indexes: UnsavedIndexes?
    /// The objects that could not be read since the last save, with the reasons. They showed initial values, from which
    /// the program may compute a change. So they cannot be changed until saving has thrown.
    private var unreadable: [ObjectID: StoreError] = [:]
    /// IDs that are reserved for objects that are not saved yet.
    @exclusivity(unchecked) private(set) var reservedIDs: Set<ObjectID> = []
    /// Objects that were deleted before they were saved, and that unsaved objects may still refer to.
    @exclusivity(unchecked) var deletedUnsaved: Set<ObjectID> = []
    /// The attributes of deleted objects that their types do not know. See `keepUnknownValues`.
    @exclusivity(unchecked) var unknownValues: [ObjectID: UnknownValues] = [:]
    private(set) var isClosed = false
    /// The save whose changes lie over the store's values (BS2).
    var inFlight: SaveInFlight?
    private var isSaving = false
    /// The background saves that wait for their turn.
    private var waitingSaves: [CheckedContinuation<Void, Never>] = []
    var recorder: (any ChangeRecorder)?
    /// Objects whose other sides are observed.
    @exclusivity(unchecked) private(set) var observedSides: Set<ObjectID> = []
    /// Observed objects (CX3), and some that are no longer observed: these are removed when the table has grown.
    private var observed: [ObjectIdentifier: ObservedObject] = [:]
    private var observedLimit = 64
    var telling = ContextTelling()
    /// The mark of the store (`UUIDBytes.mark`).
    let mark: UInt32

    /// - Parameter isOwned: Whether the store keeps the context, and so the context must not keep the store.
    init(_ store: Store, isOwned: Bool) {
        heldStore = isOwned ? nil : store
        owningStore = store
        mark = store.mark
        do throws(StoreError) { place = .success(try store.newestSnapshot()) } catch { place = .failure(error) }
        super.init()
        tracking = TrackingProbe()
    }

    /// Throws `contextClosed`.
    func requireStore() throws(StoreError) -> Store {
        guard !isClosed, let store = heldStore ?? owningStore else {
            throw StoreError(
                .contextClosed,
                "The context was closed, or its store no longer exists: create another context, "
                    + "store.makeContext().")
        }
        _ = try snapshot
        return store
    }

    /// The context's snapshot. Throws the error from reading the store when the context was made.
    var snapshot: Snapshot { get throws(StoreError) { try place.get() } }

    func noteShown(_ snapshot: Snapshot) { newestShown = max(newestShown, snapshot.view.number) }

    func stand(at snapshot: Snapshot) {
        place = .success(snapshot)
        lastEntity = nil
    }

    /// The number of an entity in the context's snapshot. Saving reports an entity that the store does not know.
    private func number(of model: EntityModel) -> UInt16 {
        if let lastEntity, lastEntity.model === model { return lastEntity.number }
        let number = (try? snapshot)?.numberIfAny(of: model) ?? .max
        lastEntity = (model, number)
        return number
    }

    func close() {
        isClosed = true
        let kept = (pending, observed)
        defer { withExtendedLifetime(kept) {} }
        pending = ObjectIDTable()
        observed = [:]
        forgetIndexes()
        inFlight?.ending = .closed
        inFlight = nil
        recorder = nil
        telling.removeAll()
    }

    // MARK: The turns of background saves

    /// Waits until no other background save is under way.
    func beginSaving(isolation: isolated any Actor = #isolation) async {
        guard isSaving else {
            isSaving = true
            return
        }
        await withCheckedContinuation(isolation: isolation) { waitingSaves.append($0) }
    }

    /// Gives the turn to the next one.
    func endSaving() {
        if waitingSaves.isEmpty { isSaving = false } else { waitingSaves.removeFirst().resume() }
    }

    // MARK: Objects

    /// CX1
    override var makesObjectsAgain: Bool { false }

    var registeredCount: Int { registry.count }

    /// All living objects that are in the store.
    var storedObjects: [any LiveObject] {
        registry.pairs.compactMap { id, registered in id.isTemporary ? nil : registered.object }
    }

    func registered(_ id: ObjectID) -> (any LiveObject)? { registry[id]?.object }

    func registered<E: Entity>(_ reference: Reference<E>) -> Object<E>? {
        guard let found = registry[reference.id] else { return nil }
        return E.model.cast(found.object, to: E.self)
    }

    private func register<E: Entity>(_ object: Object<E>) {
        object.isRegistered = true
        registry[object.id] = Registered(object: object)
    }

    override func released(_ object: ObjectID, _ first: ObjectID) {
        registry.remove(object)
        if first != object { registry.remove(first) }
        if !observedSides.isEmpty { observedSides.remove(object) }
        if !unknownValues.isEmpty { unknownValues[object] = nil }
    }

    /// The object of a reference that leads to one in the snapshot, made if it does not exist yet; nil if it is deleted
    /// here.
    func known<E: Entity>(_ reference: Reference<E>) -> Object<E>? {
        if let held = registered(reference) { return held.isShown ? held : nil }
        return made(reference, E.model)
    }

    /// The objects with these IDs, in their order. Missing ones are made.
    func objects<E: Entity>(_ ids: [ObjectID]) -> [Object<E>] {
        // Usually all are new, or none is.
        if let first = ids.first, registry[first] == nil { registry.reserveCapacity(registry.count + ids.count) }
        var objects: [Object<E>] = []
        objects.reserveCapacity(ids.count)
        let model = E.model
        for id in ids {
            if let found = registry[id], let object = model.cast(found.object, to: E.self) {
                objects.append(object)
            } else {
                objects.append(made(Reference<E>(id), model))
            }
        }
        return objects
    }

    /// Makes the object of a reference that has none yet.
    func made<E: Entity>(_ reference: Reference<E>, _ model: EntityModel) -> Object<E> {
        let object = model.object(Reference<E>(reference.id, of: mark), self)
        register(object)
        return object
    }

    /// Whether the store has no such object in the state of the context, as far as that can be read.
    func isMissing(_ object: ObjectID) -> Bool { (try? snapshot.view.contains(object)) == false }

    override func object<E: Entity>(_ reference: Reference<E>) -> Object<E>? {
        if let held = registered(reference) { return held.isShown ? held : nil }
        guard !reference.id.isTemporary, registry[reference.id] == nil else { return nil }
        do throws(StoreError) {
            guard try snapshot.has(reference) else { return nil }
        } catch {
            note(error)
            return nil
        }
        return known(reference)
    }

    override func reference<E: Entity>(to object: Object<E>) -> Reference<E>? {
        // An object of another context represents the same object here, unless only that context has it.
        if object.source === self { return object.reference }
        if object.reference.id.isTemporary {
            note(.wrongContext(object))
            return nil
        }
        do throws(StoreError) { try object.reference.requireStore(mark) } catch {
            note(error)
            return nil
        }
        return object.reference
    }

    override func read<E: Entity>(_ reference: Reference<E>, into value: inout E) -> Bool {
        do throws(StoreError) {
            if inFlight == nil { return try snapshot.read(reference, into: &value) }
            return try readUnderSave(reference, into: &value)
        } catch {
            note(error)
            unreadable[reference.id] = error
            return false
        }
    }

    /// By itself, because the type of its optional would be looked up for every object.
    @inline(never)
    private func readUnderSave<E: Entity>(
        _ reference: Reference<E>, into value: inout E
    ) throws(StoreError) -> Bool {
        guard let found = try self.value(reference, in: snapshot) else { return false }
        value = found
        return true
    }

    /// Returns and forgets the noted error, for a save to throw or a rollback to drop, and lets unreadable objects be
    /// changed again.
    func takeFailures() -> StoreError? {
        unreadable.removeAll()
        return takeFailure()
    }

    /// Gives an object that was saved its permanent ID.
    func rename<E: Entity>(_ object: Object<E>, to reference: Reference<E>) {
        let temporary = object.id
        guard temporary != reference.id else { return }
        // When it is released, it is taken out by its first ID and its last one.
        if temporary != object.firstID { registry.remove(temporary) }
        if !observedSides.isEmpty, observedSides.remove(temporary) != nil { observedSides.insert(reference.id) }
        let isPending = pending[temporary] != nil
        pending[temporary] = nil
        object.reference = Reference(reference.id, of: mark)
        register(object)
        if isPending { addPending(object) }
        noteRenamed(temporary, to: reference.id)
    }

    /// Gives inserted objects permanent IDs, which no other handle assigns. Constant time for each object that refers.
    func reserveIDs<E: Entity>(of objects: [Object<E>]) throws(StoreError) {
        let waiting = objects.filter { $0.phase == .inserted && $0.id.isTemporary }
        guard !waiting.isEmpty else { return }
        let entity = try snapshot.layout(of: E.model).number
        var next = try requireStore().reserveObjects(of: entity, count: waiting.count)
        var permanent: PermanentIDs = [:]
        // The same object may be given twice.
        for object in waiting where object.id.isTemporary {
            permanent[object.id] = next
            rename(object, to: Reference(next))
            addPending(object)
            reservedIDs.insert(next)
            noteTouched(next)
            next = ObjectID(checked: next.rawValue + 1)
        }
        for object in pending.values where object.model.refers(to: E.self) { object.replaceReferences(permanent) }
        recorder?.replaceReferences(permanent, to: E.self)
    }

    func isReserved(_ object: ObjectID) -> Bool { !reservedIDs.isEmpty && reservedIDs.contains(object) }

    func didInsert(_ object: ObjectID) {
        if !reservedIDs.isEmpty { reservedIDs.remove(object) }
        if !deletedUnsaved.isEmpty { deletedUnsaved.remove(object) }
    }

    /// Another object has its ID from now on.
    func replace<E: Entity>(_ former: Object<E>) {
        if former.isShown { noteOtherSides(of: former, from: former.current, to: nil) }
        removePending(former)
        registry.remove(former.id)
        registry.remove(former.firstID)
        former.isRegistered = false
        former.saved = nil
        former.phase = .gone
        former.notify(nil)
        noteTouched(former.id)
    }

    /// Process-wide, so that a temporary reference of one context names nothing in another.
    private static let nextTemporary = Atomic<UInt64>(ObjectID.firstTemporaryNumber)

    // MARK: Changes

    func addPending(_ object: any LiveObject) {
        pending[object.id] = object
        if let indexes { note(object, indexes) }
    }

    func removePending(_ object: any LiveObject) {
        pending[object.id] = nil
        if indexes != nil, pending.isEmpty { forgetIndexes() }
    }

    private func forgetIndexes() { (indexes, logsEdits) = (nil, false) }

    private func note(_ object: any LiveObject, _ indexes: UnsavedIndexes) {
        indexes.note(object.id)
        if !object.isShown { indexes.noteHidden(object.id, object.model) }
    }

    override func noteLoaded<E: Entity>(_ object: Object<E>) {
        if let indexes, pending[object.id] != nil { note(object, indexes) }
    }

    override func notePhase<E: Entity>(_ object: Object<E>) {
        if let indexes, pending[object.id] != nil { note(object, indexes) }
    }

    func insert<E: Entity>(_ value: E) -> Object<E> {
        precondition(!isClosed, "An object was inserted after its context had ended: keep the context.")
        let number = Self.nextTemporary.add(1, ordering: .relaxed).oldValue
        let model = E.model
        let reference = Reference<E>(ObjectID(checked: UInt64(self.number(of: model)) << 48 | number), of: mark)
        let object = model.object(reference, value, self)
        object.phase = .gone
        register(object)
        recorder?.willChange(object)
        object.phase = .inserted
        addPending(object)
        if !observedSides.isEmpty { noteInserted(object, value) }
        noteTouched(object.id, .properties)
        return object
    }

    @inline(never)
    private func noteInserted<E: Entity>(_ object: Object<E>, _ value: E) {
        noteOtherSides(of: object, from: nil, to: value)
    }

    /// Whether the properties of an object that is shown are known. If not, or if reading them has failed since the
    /// last save, the reason is noted.
    func canRead<E: Entity>(_ object: Object<E>) -> Bool {
        if let error = unreadable.isEmpty ? nil : unreadable[object.id] {
            note(error)
            return false
        }
        if object.isLoaded || object.load() { return true }
        note(.objectGone(object))
        return false
    }

    override func willEdit<E: Entity>(_ object: Object<E>) -> Bool {
        precondition(!isClosed, "An object was changed after its context had ended: keep the context.")
        guard object.isShown else {
            note(.objectGone(object))
            return false
        }
        guard canRead(object) else { return false }
        recorder?.willChange(object)
        if object.phase == .stored, object.saved == nil {
            object.saved = shownValue(of: object)
            addPending(object)
        }
        return true
    }

    override func apply<E: Entity>(_ value: E, to object: Object<E>, at offset: Int?) {
        let model = E.model
        let before = object.shown(at: offset)
        let slot = model.slot(at: offset)
        let slots = slot < model.properties.count ? [slot] : model.differences(before, value)
        object.willChange(slots)
        object.setContent(value)
        object.didChange(slots)
        if slots.contains(where: { model.properties[$0].codec.target != nil }) {
            noteOtherSides(of: object, from: before, to: value)
        }
        if !slots.isEmpty { noteTouched(object.id, TouchedSlots(slots: slots)) }
    }

    override func noteEdited<E: Entity>(_ object: Object<E>, _ slot: Int) {
        noteTouched(object.id, TouchedSlots(slots: [slot]))
    }

    // MARK: Relationships

    override func referring<E: Entity>(to reference: Reference<E>, _ type: E.Type, _ offset: Int?) -> [ObjectID] {
        do throws(StoreError) {
            let (target, name) = try E.model.relationship(otherSideAt: offset)
            return try referring(to: registered(reference.id)?.id ?? reference.id, target, name)
        } catch {
            note(error)
            return []
        }
    }

    override func noteObserved(_ new: ObservedObject) {
        guard !isClosed else { return }
        observed[ObjectIdentifier(new.object)] = new
        guard observed.count > observedLimit else { return }
        let former = observed
        observed = former.filter { $0.value.registrar.isObserved }
        observedLimit = max(64, 2 * observed.count)
        withExtendedLifetime(former) {}
    }

    /// Called when references to an object are observed.
    override func noteObservedSide(_ object: ObjectID) { observedSides.insert(object) }

    /// The references to the objects whose other sides are observed.
    func observedSideLists() throws(StoreError) -> [ObjectID: [[ObjectID]]] {
        var lists: [ObjectID: [[ObjectID]]] = [:]
        for id in observedSides {
            guard let object = registry[id]?.object else { continue }
            var sides: [[ObjectID]] = []
            for side in object.model.otherSides {
                let (target, name) = try object.model.relationship(otherSideAt: side.offset)
                sides.append(try referring(to: id, target, name))
            }
            lists[id] = sides
        }
        return lists
    }
}
