// The change of an object when its context moves to another state: computed first, shown later.

internal import FoundationEssentials

/// New values for an object. Nothing is shown before `apply`.
protocol ObjectRefreshment {
    func willChange()
    func apply()
    func didChange()
}

extension Object {
    func refreshment(
        _ newer: Snapshot, landing: SaveInFlight?
    ) throws(StoreError) -> (any ObjectRefreshment)? {
        var sent: SentObjectOf<E>?
        if let part = landing?.objects[id] { sent = E.model.cast(part, to: E.self) }
        switch phase {
        case .inserted: return nil
        case .gone:
            // It can be there again if another writer has inserted it again after its deletion, or if a save did not
            // delete it, because the store's side has won a conflict. An object that was never saved cannot.
            guard !id.isTemporary, let theirs = try core.value(reference, in: newer) else {
                return sent == nil ? nil : Refreshment(object: self, value: current, saved: nil, phase: .gone, sent)
            }
            return Refreshment(object: self, value: kept(theirs), saved: nil, phase: .stored, sent)
        case .deleted:
            guard try core.has(reference, in: newer) else {
                return Refreshment(object: self, value: current, saved: nil, phase: .gone, sent)
            }
            // Saving finds out whether anything in it has changed.
            return Refreshment(
                object: self, value: current,
                saved: saved.map { SavedValue((sent?.rebased($0) ?? $0).value, isContested: true) }, phase: .deleted,
                sent)
        case .stored: break
        }
        guard let saved, isLoaded, hasChanges else {
            guard isLoaded || registrar != nil else {
                // Read at the first use, unless the newer state no longer has it.
                if try core.has(reference, in: newer) { return nil }
                return Refreshment(object: self, value: current, saved: nil, phase: .gone, sent)
            }
            guard let theirs = try core.value(reference, in: newer) else {
                return Refreshment(object: self, value: current, saved: nil, phase: .gone, sent)
            }
            return Refreshment(
                object: self, value: kept(theirs), saved: nil, phase: .stored, sent,
                stored: try core.valueUnderSave(reference, in: newer))
        }
        let (base, mine) = (sent?.rebased(saved) ?? saved, content)
        // Saving finds that the object is gone: until then the edits stay.
        guard let theirs = try core.value(reference, in: newer) else {
            return Refreshment(
                object: self, value: mine, saved: SavedValue(base.value, isContested: true), phase: .stored, sent)
        }
        let edited = sent?.rebased(mine, since: saved) ?? mine
        let merge = ThreeWayMerge(base: base.value, mine: edited, theirs: theirs)
        let isEdited = E.model.firstDifference(merge.base, merge.value) != nil
        return Refreshment(
            object: self, value: merge.value,
            saved: isEdited ? SavedValue(merge.base, isContested: !merge.conflicts.isEmpty) : nil,
            phase: .stored, sent, stored: try core.valueUnderSave(reference, in: newer))
    }

    /// A value from the store, with the object's own values of properties that are not stored.
    func kept(_ stored: E) -> E {
        guard E.model.hasTransients, isLoaded else { return stored }
        var value = content
        E.model.copy(E.model.properties.indices, from: stored, to: &value)
        return value
    }
}

private struct Refreshment<E: Entity>: ObjectRefreshment {
    let object: Object<E>
    let value: E
    let saved: SavedValue<E>?
    let phase: ObjectPhase
    /// The store's value, if the object is shown under the overlay of a save.
    private let stored: E?
    /// The object's part of the save that lands; nil without one.
    private let sent: SentObjectOf<E>?
    private let slots: [Int]

    init(
        object: Object<E>, value: E, saved: SavedValue<E>?, phase: ObjectPhase, _ sent: SentObjectOf<E>?,
        stored: E? = nil
    ) {
        self.stored = stored
        (self.object, self.value, self.saved, self.phase, self.sent) = (object, value, saved, phase, sent)
        if object.registrar == nil {
            slots = []
        } else if object.phase == phase {
            slots = E.model.differences(object.current, value)
        } else {
            slots = Array(0..<E.model.wholeSlot)
        }
    }

    func willChange() {
        object.requireUnused()
        object.core.recorder?.willShow(value, of: object, own: sent?.own(in: value) ?? [])
        if !slots.isEmpty { object.willChange(slots) }
    }

    func apply() {
        let core = object.core
        if sent != nil, core.hasListeners {
            // A conflict settled in the store's favour writes nothing, so history does not contain it.
            if object.phase != phase {
                core.noteTouched(object.id)
            } else {
                let settled = E.model.differences(object.current, value)
                if !settled.isEmpty { core.noteTouched(object.id, TouchedSlots(slots: settled)) }
            }
        }
        object.setContent(value)
        object.saved = saved
        object.phase = phase
        if let sent = core.inFlight?.objects[object.id] {
            if let stored { E.model.cast(sent, to: E.self)?.rebase(on: stored) }
        } else if saved == nil, phase != .deleted {
            core.removePending(object)
        }
    }

    func didChange() { if !slots.isEmpty { object.didChange(slots) } }
}
