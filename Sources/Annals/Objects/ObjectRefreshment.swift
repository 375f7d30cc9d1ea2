// What becomes of an object when its context moves to another state: worked out first, shown later.

internal import FoundationEssentials

/// New values for an object. Nothing is shown before `apply`.
protocol ObjectRefreshment {
    func willChange()
    func apply()
    func didChange()
}

extension Object {
    func refreshment(_ newer: Snapshot) throws(StoreError) -> (any ObjectRefreshment)? {
        switch phase {
        case .inserted: return nil
        case .gone:
            // Only an object that was deleted in the store can be there again.
            guard !id.isTemporary, let theirs = try newer.value(reference) else { return nil }
            return Refreshment(object: self, value: kept(theirs), saved: nil, phase: .stored)
        case .deleted:
            guard try newer.has(reference) else {
                return Refreshment(object: self, value: current, saved: nil, phase: .gone)
            }
            // Saving finds out whether anything in it has changed.
            return Refreshment(
                object: self, value: current, saved: saved.map { SavedValue($0.value, isContested: true) },
                phase: .deleted)
        case .stored: break
        }
        guard let saved, let mine = loaded, hasChanges else {
            guard loaded != nil || registrar != nil else {
                // Read when it is asked for, unless there will be nothing to read.
                if try newer.has(reference) { return nil }
                return Refreshment(object: self, value: current, saved: nil, phase: .gone)
            }
            guard let theirs = try newer.value(reference) else {
                return Refreshment(object: self, value: current, saved: nil, phase: .gone)
            }
            return Refreshment(object: self, value: kept(theirs), saved: nil, phase: .stored)
        }
        // Saving finds that the object is gone: until then the edits stay.
        guard let theirs = try newer.value(reference) else {
            return Refreshment(
                object: self, value: mine, saved: SavedValue(saved.value, isContested: true), phase: .stored)
        }
        let merge = ThreeWayMerge(base: saved.value, mine: mine, theirs: theirs)
        let isEdited = E.model.firstDifference(merge.base, merge.value) != nil
        return Refreshment(
            object: self, value: merge.value,
            saved: isEdited ? SavedValue(merge.base, isContested: !merge.conflicts.isEmpty) : nil,
            phase: .stored)
    }

    /// A value from the store, with what the object has of properties that are not kept.
    func kept(_ stored: E) -> E {
        guard E.model.hasTransients, var value = loaded else { return stored }
        E.model.copy(E.model.properties.indices, from: stored, to: &value)
        return value
    }
}

private struct Refreshment<E: Entity>: ObjectRefreshment {
    let object: Object<E>
    let value: E
    let saved: SavedValue<E>?
    let phase: ObjectPhase
    private let slots: [Int]

    init(object: Object<E>, value: E, saved: SavedValue<E>?, phase: ObjectPhase) {
        (self.object, self.value, self.saved, self.phase) = (object, value, saved, phase)
        if object.registrar == nil {
            slots = []
        } else if object.phase == phase {
            slots = E.model.differences(object.current, value)
        } else {
            slots = Array(0..<E.model.wholeSlot)
        }
    }

    func willChange() {
        object.core.recorder?.willShow(value, of: object, own: [])
        if !slots.isEmpty { object.willChange(slots) }
    }

    func apply() {
        object.loaded = value
        object.saved = saved
        object.phase = phase
        if saved == nil, phase != .deleted { object.core.removePending(object) }
    }

    func didChange() { if !slots.isEmpty { object.didChange(slots) } }
}
