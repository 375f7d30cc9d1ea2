// The functions of objects that a context needs for all types.

internal import FoundationEssentials

/// An object of a context whose type is known only while the program runs.
protocol LiveObject: AnyObject {
    var id: ObjectID { get }
    var phase: ObjectPhase { get }
    /// Whether it is shown: related objects and results leave out objects that are not.
    var isShown: Bool { get }
    var core: ContextCore { get }
    /// OP1: stops the program if a property of it is being changed in place.
    func requireUnused()
    /// CX1: whether another object has replaced it.
    var isReplaced: Bool { get }
    var model: EntityModel { get }
    /// Whether it is inserted, deleted, or a stored property differs from the saved one.
    var hasChanges: Bool { get }
    /// CX2: whether its edits may be relative to another version than the one at its context's place.
    var mayBeOffPlace: Bool { get }
    /// The objects that a relationship refers to, as it is shown.
    func references(at slot: Int) -> [ObjectID]
    /// Removes a reference from a relationship.
    func removeReference(to target: ObjectID, at slot: Int)
    /// Deletes it in its context, alone.
    func markDeleted()
    /// Forgets its edits: shows its saved values. An object that was never saved is gone.
    func forgetEdits()
    /// Notifies observers of changes of these slots; nil for all.
    func notify(_ slots: [Int]?)
    /// Its change when its context moves to another state; nil without one. `landing` is the save that the state
    /// contains, and the context's state does not.
    func refreshment(_ newer: Snapshot, landing: SaveInFlight?) throws(StoreError) -> (any ObjectRefreshment)?
    /// Its part of a save; nil without one.
    func saveItem(runsHooks: Bool, _ snapshot: Snapshot) throws(StoreError) -> (any SaveItem)?
    /// Replaces temporary references in its properties.
    func replaceReferences(_ permanent: PermanentIDs)
    /// Its keys under an index; nil if it has none: a property cannot be stored, or is not read yet.
    func ownKeys(_ index: IndexID, _ layout: RowLayout, _ snapshot: Snapshot) throws(StoreError) -> [[UInt8]]?
    /// If its edits were undone while the store has another version, it shows that one.
    func settleIfUnedited()
}

extension Object: LiveObject {
    var id: ObjectID { reference.id }
    var model: EntityModel { E.model }

    var core: ContextCore {
        guard let core = source as? ContextCore else {
            preconditionFailure("The object belongs to no context: only objects of a context have a status.")
        }
        return core
    }

    var isShown: Bool { phase == .stored || phase == .inserted }

    var isReplaced: Bool { !isRegistered }

    var hasChanges: Bool {
        switch phase {
        case .inserted, .deleted: true
        case .gone: false
        case .stored:
            if let saved, let value = loadedWhole { E.model.firstDifference(saved.value, value) != nil } else { false }
        }
    }

    var mayBeOffPlace: Bool { core.pending[id] != nil && saved?.isContested != false }

    func references(at slot: Int) -> [ObjectID] {
        guard isShown else { return [] }
        return E.model.references(at: slot, in: current)
    }

    func removeReference(to target: ObjectID, at slot: Int) {
        guard isShown, core.willEdit(self) else { return }
        var value = current
        E.model.removeReference(to: target, at: slot, in: &value)
        core.apply(value, to: self, at: E.model.properties[slot].offset)
    }

    func markDeleted() {
        core.recorder?.willChange(self)
        switch phase {
        case .inserted:
            if let theirs = insertedAgainByOthers {
                saved = SavedValue(theirs)
                phase = .deleted
            } else {
                // It is not in the store.
                phase = .gone
                core.removeUnlessSent(self)
                core.noteDeletedUnsaved(id)
            }
        case .stored:
            // Its last values stay readable.
            _ = current
            if saved == nil { saved = core.shownValue(of: self) }
            phase = .deleted
            core.addPending(self)
        case .deleted, .gone: return
        }
        core.noteOtherSides(of: self, from: current, to: nil)
        notify(nil)
        core.noteTouched(id)
    }

    func notify(_ slots: [Int]?) {
        guard registrar != nil else { return }
        let slots = slots ?? Array(0..<E.model.wholeSlot)
        willChange(slots)
        didChange(slots)
    }

    func forgetEdits() {
        core.recorder?.willChange(self)
        let before = isShown ? current : nil
        switch phase {
        case .inserted:
            let theirs = insertedAgainByOthers
            phase = theirs == nil ? .gone : .stored
            if let theirs {
                // The values of other writers are no change of this context, and undo leaves them alone.
                core.recorder?.willShow(kept(theirs), of: self, own: [])
                show(kept(theirs))
            }
        case .deleted, .stored:
            if let saved {
                self.saved = nil
                // If the store has another version, edits were relative to a mixture of both.
                let value = saved.isContested ? core.valueToShow(reference).map(kept) : saved.value
                phase = value == nil ? .gone : .stored
                if let value {
                    if saved.isContested { forgetOwnEdits(since: saved.value, before: value) }
                    show(value)
                }
            }
        case .gone: return
        }
        if isShown { core.removeUnlessNewer(self) } else { core.removeUnlessSent(self) }
        core.noteOtherSides(of: self, from: before, to: isShown ? current : nil)
        if !isShown { notify(nil) }
        core.noteTouched(id)
    }

    /// Changes by other writers are no changes of this context, and undo does not revert them.
    private func forgetOwnEdits(since base: E, before theirs: E) {
        guard let recorder = core.recorder else { return }
        var own = current
        E.model.copy(E.model.differences(base, own), from: base, to: &own)
        show(own)
        recorder.willShow(theirs, of: self, own: [])
    }

    /// The stored value, if another writer has also reinserted the object.
    private var insertedAgainByOthers: E? {
        phase == .inserted && !id.isTemporary && !core.isReserved(id) ? core.value(reference) : nil
    }

    func settleIfUnedited() {
        if phase == .stored, let saved, saved.isContested, !hasChanges { core.settle(self) }
    }

    /// Shows other properties, and notifies their observers.
    func show(_ value: E) {
        let slots = registrar == nil ? [] : E.model.differences(current, value)
        willChange(slots)
        setContent(value)
        didChange(slots)
    }

    func replaceReferences(_ permanent: PermanentIDs) {
        let model = E.model
        guard !model.referringSlots.isEmpty, isLoaded else { return }
        var value = content
        if model.replaceReferences(permanent, in: &value) {
            setContent(value)
            core.noteTouched(id, TouchedSlots(slots: model.referringSlots))
        }
        if let saved {
            var base = saved.value
            if model.replaceReferences(permanent, in: &base) {
                self.saved = SavedValue(base, isContested: saved.isContested)
            }
        }
    }
}

extension ObjectID {
    /// Whether it is the ID of an unsaved object in a context. No object of a store has such a number.
    var isTemporary: Bool { number >= ObjectID.firstTemporaryNumber }

    /// Half of all numbers: a store that inserts a million objects each second needs four years to reach them.
    static let firstTemporaryNumber: UInt64 = 1 << 47
}
