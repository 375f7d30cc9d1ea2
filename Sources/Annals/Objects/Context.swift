// A place where a program works with objects: it reads them in one state, changes them, and saves all of it or nothing.

internal import FoundationEssentials
public import Observation

/// Objects of a store that can be changed, in one state until the context merges.
///
/// ```swift
/// let context = store.makeContext(author: "app")
/// let clip = context.insert(Clip(title: "Swift", url: "https://swift.org"))
/// clip.title = "Swift.org"
/// try context.save()
/// ```
///
/// A context shows one snapshot. Changes by other writers do not reach its objects until it saves or merges. `follow()`
/// merges by itself. A context has one object for each ID: fetching an object again returns the same one, with its
/// edits.
///
/// A context and its objects belong to the isolation in which the context was made: the main actor, another actor, or
/// the thread that uses it. Keep the context for as long as you change its objects.
public final class Context: Observable {
    let core: ContextCore
    /// The author of the changes, for the history.
    public var author: String?
    /// The name of the context, for the history.
    public var name: String?
    /// Settles conflicts between this context and the store when it saves.
    public var mergePolicy = MergePolicy.error
    /// Whether saving an inserted object updates the store's object that has the same unique value, or values that are
    /// unique together, instead of throwing `uniqueViolation`.
    ///
    /// All properties of the store's object then get the inserted object's values. The inserted object has that
    /// object's reference from then on, and references to it follow. If the context already had an object for that
    /// reference, that object is gone.
    ///
    /// `uniqueViolation` is still thrown if the store's object is itself changed in this context, if two inserted
    /// objects have the same unique value, and for an object that already had a permanent reference.
    public var upserts = false
    var follower: Task<Void, Never>?
    private var endOfFollowing: StoreError?
    private let registrar = ObservationRegistrar()

    /// The error that has ended `follow()`; nil while following, and if it was never called. Code that observes it
    /// (`withObservationTracking`, `Observations`) is notified when following ends. If it ends by itself, and not
    /// because the context or the store was closed, standard error gets a line, too.
    public internal(set) var followError: StoreError? {
        get {
            registrar.access(self, keyPath: \.followError)
            return endOfFollowing
        }
        set {
            guard newValue != endOfFollowing else { return }
            registrar.withMutation(of: self, keyPath: \.followError) { endOfFollowing = newValue }
        }
    }

    init(_ store: Store, author: String?, name: String?, isOwned: Bool = false) {
        core = ContextCore(store, isOwned: isOwned)
        self.author = author
        self.name = name
    }

    deinit {
        follower?.cancel()
        core.close()
    }

    /// Ends the context. Unsaved changes are lost. Afterwards every call that can throw throws `contextClosed`. Objects
    /// can still be read, and must not be changed.
    public func close() {
        follower?.cancel()
        follower = nil
        core.close()
    }

    /// The state in which the context reads. Throws `StoreError`: `contextClosed`; and, if the store could not be read
    /// when the context was made, the reason, such as `closed`.
    public var snapshot: Snapshot {
        get throws {
            _ = try core.requireStore()
            return try core.snapshot
        }
    }

    /// The place in history of that state. Throws as `snapshot`.
    public var token: HistoryToken { get throws { try snapshot.token } }

    // MARK: Objects

    /// Inserts an object with the properties of a value. It is in the store when the context is saved.
    @discardableResult
    public func insert<E: Entity>(_ value: E) -> Object<E> { core.insert(value) }

    /// Gives inserted objects the references that they will have in the store, before they are saved. Writes to the
    /// store: each call takes one frame, and waits for the writer lock. The objects stay invisible to other handles.
    ///
    /// Objects that have permanent references keep them, also through a rollback. A reference whose object is never
    /// saved is lost: no other object gets it.
    ///
    /// Linear in the unsaved objects that may refer to such objects, and in undo groups, for any number of given
    /// objects: pass all of them at once.
    ///
    /// - Returns: The references of the objects, in their order.
    ///
    /// Throws `StoreError`: `wrongContext` for an object of another context; `unknownEntity`, `contextClosed`, `busy`,
    /// `readOnly`; and errors of `Store.write`. Then nothing has changed.
    @discardableResult
    public func obtainPermanentReferences<E: Entity>(for objects: [Object<E>]) throws -> [Reference<E>] {
        _ = try core.requireStore()
        for object in objects where object.source !== core { throw StoreError.wrongContext(object) }
        try core.batch { () throws(StoreError) in try core.reserveIDs(of: objects) }
        return objects.map { $0.reference }
    }

    /// Deletes an object, and applies the delete rules of relationships to the objects that refer to it: they are
    /// deleted, or no longer refer. Saving does the same with objects that other writers have added since.
    ///
    /// Deleting an object that is deleted does nothing. An object of another context is not deleted; then saving
    /// throws `wrongContext`.
    public func delete<E: Entity>(_ object: Object<E>) {
        guard object.source === core else { return core.note(.wrongContext(object)) }
        precondition(!core.isClosed, "An object was deleted after its context had ended: keep the context.")
        core.batch { core.delete(object) }
    }

    /// The object that a reference names. Its properties are not read yet. Constant time.
    ///
    /// Throws `StoreError`: `objectNotFound` if it does not exist in this state, or is deleted in this context;
    /// `wrongContext` if the reference is a temporary one of another context, or of an object that was released;
    /// `referenceForeign`; `unknownEntity`; `contextClosed`; `damaged`; `closed`.
    public func object<E: Entity>(_ reference: Reference<E>) throws -> Object<E> {
        _ = try core.requireStore()
        try reference.requireStore(core.mark)
        if let object = core.object(reference) { return object }
        if let failure = core.takeFailure() { throw failure }
        if reference.id.isTemporary, core.registered(reference.id) == nil {
            throw StoreError.temporaryReference(reference.id, E.model.name)
        }
        _ = try core.snapshot.layout(of: E.model)
        throw StoreError(
            .objectNotFound,
            "There is no object \(reference) of “\(E.model.name)” in the context: it was deleted, or inserted after "
                + "the context's state. If it was inserted later, "
                + "merge.", ObjectFacts(E.model.name, object: reference.id))
    }

    /// The first error of a property that no call has thrown yet; nil without one.
    ///
    /// Properties cannot throw. An object that cannot be read, for instance because the store was closed, shows initial
    /// values and no objects at its other sides, and cannot be changed. A change that is a mistake changes nothing.
    /// This property has the reason until a call throws it, `save()` at the latest, or `rollback()` forgets it:
    /// `closed`, `damaged`, `inputOutput`, and the other errors of reading; `wrongContext`; `objectGone`.
    public var deferredError: StoreError? { core.failure }

    // MARK: Unsaved changes

    /// Whether anything is unsaved: an object is inserted or deleted, or has a property that differs from the saved
    /// one. Linear in the objects that were changed.
    public var hasChanges: Bool { core.pending.values.contains { $0.hasChanges } }

    /// The objects of an entity that are inserted and not saved, in the order in which they were inserted.
    public func insertedObjects<E: Entity>(_ type: E.Type) -> [Object<E>] { unsaved { $0.phase == .inserted } }

    /// The objects of an entity that have unsaved properties.
    public func changedObjects<E: Entity>(_ type: E.Type) -> [Object<E>] {
        unsaved { $0.phase == .stored && $0.hasChanges }
    }

    /// The objects of an entity that are deleted and not saved.
    public func deletedObjects<E: Entity>(_ type: E.Type) -> [Object<E>] { unsaved { $0.phase == .deleted } }

    private func unsaved<E: Entity>(_ isWanted: (Object<E>) -> Bool) -> [Object<E>] {
        core.pending.values.compactMap { $0 as? Object<E> }.filter(isWanted).inOrder { $0.reference < $1.reference }
    }

    /// Forgets everything that is unsaved. Inserted objects are gone, deleted ones exist again.
    public func rollback() {
        _ = core.takeFailures()
        core.batch { for object in core.pending.values { object.forgetEdits() } }
    }

    /// Forgets the unsaved changes of one object. If it then refers to objects that are deleted and not saved, these
    /// are restored, too. An object of another context loses nothing; then saving throws `wrongContext`.
    public func discard<E: Entity>(_ object: Object<E>) {
        guard object.source === core else { return core.note(.wrongContext(object)) }
        guard core.pending[object.id] != nil else { return }
        core.batch { core.discard(object) }
    }

    /// Reads an object again, as it is in the newest state of the store, without moving the context.
    ///
    /// - Parameters:
    ///   - object: The object.
    ///   - keepingEdits: Whether unsaved properties stay. Afterwards they are relative to the newest state, so saving
    ///     finds no conflict with it: references to objects deleted in the store are removed, unless the property
    ///     must refer to an object.
    ///
    /// Throws `StoreError`: `objectGone` if it was deleted in the store, or another object has taken its place
    /// (`upserts`); `wrongContext`, `contextClosed`, `damaged`, `closed`.
    public func refresh<E: Entity>(_ object: Object<E>, keepingEdits: Bool) throws {
        guard object.source === core else { throw StoreError.wrongContext(object) }
        let store = try core.requireStore()
        guard object.phase != .inserted else {
            if !keepingEdits { core.batch { object.forgetEdits() } }
            return
        }
        let newest = try store.newestSnapshot()
        if let flight = core.inFlight, flight.isContained(in: newest) {
            core.batch { flight.adoptIDs(core) }
            if let sent = flight.objects[object.id] { E.model.cast(sent, to: E.self)?.forgetWritten() }
        }
        guard !object.isReplaced, try core.has(object.reference, in: newest) else {
            throw StoreError.objectGone(object)
        }
        try core.batch { () throws(StoreError) in
            // Undo reverts the loss of edits, but not changes by other writers.
            if !keepingEdits, object.hasChanges, object.phase != .gone { object.forgetEdits() }
            guard let theirs = try core.valueToShow(object.reference, in: newest) else {
                throw StoreError.objectGone(object)
            }
            try core.rebase(object, on: object.kept(theirs), keepingEdits: keepingEdits, newest)
        }
    }
}

@available(*, unavailable)
extension Context: Sendable {}

extension ContextCore {
    func rebase<E: Entity>(
        _ object: Object<E>, on theirs: E, keepingEdits: Bool, _ newest: Snapshot
    ) throws(StoreError) {
        var mine: E?
        if keepingEdits, let saved = object.saved {
            mine = try withoutDeletedTargets(
                ThreeWayMerge(base: saved.value, mine: object.current, theirs: theirs).value, since: theirs, newest)
        }
        recorder?.willShow(theirs, of: object, own: [])
        noteShown(newest)
        let value = mine ?? theirs
        let before = object.current
        let wasShown = object.isShown
        let slots = E.model.differences(before, value)
        object.willChange(slots)
        object.setContent(value)
        let isEdited = E.model.firstDifference(theirs, value) != nil
        // Saving compares with the store: the context's own state is an older one.
        object.saved = isEdited ? SavedValue(theirs, isContested: true) : nil
        if object.phase == .deleted || object.phase == .gone { object.phase = .stored }
        if isEdited { addPending(object) } else { removeUnlessNewer(object) }
        object.didChange(slots)
        noteOtherSides(of: object, from: wasShown ? before : nil, to: value)
        noteTouched(object.id)
    }

    /// A value without edited references to objects that other writers have deleted, unless the property needs them.
    private func withoutDeletedTargets<E: Entity>(
        _ value: E, since theirs: E, _ newest: Snapshot
    ) throws(StoreError) -> E {
        let model = E.model
        var settled = value
        for slot in model.differences(theirs, value) where model.properties[slot].codec.target != nil {
            let targets = model.references(at: slot, in: value)
            let left = try newest.withoutDeleted(targets, except: reservedIDs)
            if left.count < targets.count, !model.properties[slot].isRequired {
                model.setReferences(left, at: slot, in: &settled)
            }
        }
        return settled
    }

    // MARK: Deleting

    func delete<E: Entity>(_ object: Object<E>) {
        guard object.isShown, canRead(object) else { return }
        delete([object])
    }

    private func delete(_ objects: [any LiveObject]) {
        var waiting = objects
        while let next = waiting.popLast() {
            guard next.phase == .stored || next.phase == .inserted else { continue }
            next.markDeleted()
            followRules(of: next, &waiting)
        }
    }

    /// Applies the delete rules to the objects that refer to a deleted object.
    private func followRules(of object: any LiveObject, _ waiting: inout [any LiveObject]) {
        for model in (try? requireStore())?.declaredModels ?? [] {
            for slot in model.referringSlots where model.properties[slot].codec.target == object.model.type {
                follow(model.properties[slot].deleteRule, of: object.id, model, slot, &waiting)
            }
        }
    }

    /// After a merge, new objects may refer to objects deleted here.
    func deleteNewReferrers() {
        var waiting: [any LiveObject] = []
        for object in pending.values where object.phase == .deleted { followRules(of: object, &waiting) }
        delete(waiting)
    }

    func discard(_ object: any LiveObject) {
        object.forgetEdits()
        for slot in object.model.referringSlots {
            for target in object.references(at: slot) {
                if let deleted = pending[target], deleted.phase == .deleted { discard(deleted) }
            }
        }
    }

    /// Applies a rule to the objects that refer to a deleted object. `deny` is left to saving: until then these objects
    /// may be deleted, too.
    private func follow(
        _ rule: DeleteRule, of target: ObjectID, _ model: EntityModel, _ slot: Int, _ waiting: inout [any LiveObject]
    ) {
        guard rule == .cascade || rule == .nullify else { return }
        do throws(StoreError) {
            for id in try referring(to: target, model, model.properties[slot].name) {
                guard let referrer = live(id, model.type) else { continue }
                if rule == .cascade { waiting.append(referrer) } else { referrer.removeReference(to: target, at: slot) }
            }
        } catch {
            note(error)
        }
    }

    private func live<E: Entity>(_ id: ObjectID, _ type: E.Type) -> (any LiveObject)? { object(Reference<E>(id)) }
}
