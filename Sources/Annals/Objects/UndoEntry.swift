// The changes of one object in an undo group, and the way to revert them.
//
// Invariants:
// UE1  An entry has only changes by this context. Changes by other writers between two of its own are in none of its
//      slots.
// UE2  At each slot, `before` is the value before the first of a run of own changes without another writer's change
//      between them, and `after` the value after the last one.

internal import FoundationEssentials

/// One object of a group, of any type.
protocol UndoEntry: AnyObject {
    var live: any LiveObject { get }
    var step: UndoStep { get }
    /// Whether reverting it would change anything.
    var hasEffect: Bool { get }
    /// Whether it refers to objects that have no permanent ID yet.
    var hasTemporaries: Bool { get }
    /// Includes the changes made since the last call.
    func close()
    func replaceReferences(_ permanent: PermanentIDs)
    /// The conflicts with changes that other writers have made since.
    func conflicts(_ core: ContextCore, returning: Set<ObjectID>) -> [MergeConflict]
    /// Reverts the changes that are not in conflict.
    func revert(_ core: ContextCore, returning: Set<ObjectID>)
}

/// The effect of reverting on an object.
enum UndoStep {
    /// It is shown again.
    case restore
    case edit
    /// It is no longer shown.
    case delete
}

final class UndoEntryOf<E: Entity>: UndoEntry {
    private(set) var object: Object<E>
    private var before: E
    private var after: E
    private var wasShown: Bool
    private(set) var isShown: Bool
    /// The slots that were changed.
    private var slots: Set<Int> = []
    /// The object before the changes that are not yet included; nil without any.
    private var open: (value: E, isShown: Bool)?

    /// The object is about to be changed.
    init(_ object: Object<E>) {
        self.object = object
        (before, after) = (object.current, object.current)
        (wasShown, isShown) = (object.isShown, object.isShown)
        open = (before, wasShown)
    }

    var live: any LiveObject { object }

    var step: UndoStep {
        if wasShown { return isShown ? .edit : .restore }
        return .delete
    }

    var hasEffect: Bool {
        wasShown != isShown || wasShown && slots.contains { !E.model.properties[$0].isDerived }
    }

    var hasTemporaries: Bool {
        let model = E.model
        return model.referringSlots.contains { slot in
            model.references(at: slot, in: before).contains(where: \.isTemporary)
                || model.references(at: slot, in: after).contains(where: \.isTemporary)
        }
    }

    // MARK: Recording

    /// The object is about to be changed again.
    func willChange() {
        if open == nil { open = (object.current, object.isShown) }
    }

    func close() {
        guard let (value, wasShown) = open else { return }
        open = nil
        let (now, isShown) = (object.current, object.isShown)
        if isShown, !wasShown, !self.wasShown {
            (after, slots) = (now, [])
        } else {
            extend(E.model.differences(value, now), from: value, to: now)
        }
        self.isShown = isShown
    }

    /// Adds changes of the context (UE1).
    func extend(_ changed: [Int], from value: E, to now: E) {
        let model = E.model
        // UE2: changes by other writers in between are not reverted.
        let restarted = changed.filter { !slots.contains($0) || !model.isAlike($0, after, value) }
        model.copy(restarted, from: value, to: &before)
        model.copy(changed, from: now, to: &after)
        slots.formUnion(changed)
        slots = slots.filter { !model.isUnchanged($0, before, after) }
    }

    /// The insertion has turned out to be an update of an object with these properties.
    func didUpdateExisting(_ value: E) {
        close()
        guard isShown, !wasShown else { return }
        (before, wasShown) = (value, true)
        slots = Set(E.model.differences(before, after))
    }

    /// Another object replaces this one, and was changed after it.
    func move(to object: Object<E>, before later: UndoEntryOf?) {
        close()
        self.object = object
        guard let later else { return }
        later.close()
        extend(Array(later.slots), from: later.before, to: later.after)
        isShown = later.isShown
    }

    func replaceReferences(_ permanent: PermanentIDs) {
        _ = E.model.replaceReferences(permanent, in: &before)
        _ = E.model.replaceReferences(permanent, in: &after)
        if var value = open?.value, E.model.replaceReferences(permanent, in: &value) { open?.value = value }
        // An object that is not shown is in no list of the context's.
        if !object.isShown { object.replaceReferences(permanent) }
    }

    // MARK: Taking back

    func conflicts(_ core: ContextCore, returning: Set<ObjectID>) -> [MergeConflict] {
        let now = object.current
        switch step {
        case .edit:
            guard object.isShown else { return [.whole(.deletedInStore, object.id, E.model.name)] }
            return conflictingSlots(core, returning).filter { !E.model.properties[$0].isDerived }.map {
                .attribute($0, object.id, base: before, mine: after, theirs: now)
            }
        case .restore:
            guard !object.isShown else { return [] }
            let wanted = restored
            return E.model.referringSlots.filter { isMissing($0, in: wanted, beside: nil, core, returning) }.map {
                .attribute($0, object.id, base: before, mine: after, theirs: existing(in: wanted, core, returning))
            }
        case .delete:
            let isChanged = E.model.properties.indices.contains {
                !E.model.properties[$0].isDerived && !E.model.isAlike($0, now, after)
            }
            guard object.isShown, isChanged else { return [] }
            return [.whole(.changedInStore, object.id, E.model.name)]
        }
    }

    /// The slots that another writer has changed since, or that would refer to nothing. Derived properties are computed
    /// again on saving.
    private func conflictingSlots(_ core: ContextCore, _ returning: Set<ObjectID>) -> [Int] {
        let model = E.model
        let now = object.current
        return slots.inOrder().filter { slot in
            if model.isAlike(slot, now, before) { return false }
            return !model.isAlike(slot, now, after) || isMissing(slot, in: before, beside: now, core, returning)
        }
    }

    /// Whether a property refers to an object that is not shown, unless another value refers to it, too.
    private func isMissing(
        _ slot: Int, in value: E, beside other: E?, _ core: ContextCore, _ returning: Set<ObjectID>
    ) -> Bool {
        guard E.model.properties[slot].codec.target != nil, E.model.properties[slot].deleteRule != .noAction else {
            return false
        }
        let known = other.map { E.model.references(at: slot, in: $0) } ?? []
        return E.model.references(at: slot, in: value).contains { target in
            !returning.contains(target) && !known.contains(target) && !core.shows(target)
        }
    }

    /// A value without references to objects that are not shown.
    private func existing(in value: E, _ core: ContextCore, _ returning: Set<ObjectID>) -> E {
        var value = value
        for slot in E.model.referringSlots where isMissing(slot, in: value, beside: nil, core, returning) {
            let targets = E.model.references(at: slot, in: value)
            E.model.setReferences(
                targets.filter { returning.contains($0) || core.shows($0) }, at: slot, in: &value)
        }
        return value
    }

    /// The object's last values, without the changes of the group.
    private var restored: E {
        var value = object.current
        E.model.copy(slots, from: before, to: &value)
        return value
    }

    func revert(_ core: ContextCore, returning: Set<ObjectID>) {
        switch step {
        case .edit:
            guard object.isShown else { return }
            let kept = Set(conflictingSlots(core, returning))
            let wanted = slots.subtracting(kept)
            guard !wanted.isEmpty, core.willEdit(object) else { return }
            var value = object.current
            E.model.copy(wanted, from: before, to: &value)
            core.apply(value, to: object, at: nil)
            object.settleIfUnedited()
        case .restore:
            if !object.isShown { core.restore(object, existing(in: restored, core, returning)) }
        case .delete:
            if object.isShown { object.markDeleted() }
        }
    }
}

extension EntityModel {
    /// As `isEqual`, and two values that cannot be stored are the same if they are equal.
    fileprivate func isAlike<E: Entity>(_ slot: Int, _ left: E, _ right: E) -> Bool {
        let isEqual = withUnsafePointer(to: left) { left in
            withUnsafePointer(to: right) { right in self.isEqual(slot, left, right) }
        }
        return isEqual || value(at: slot, in: left) == value(at: slot, in: right)
    }

    /// The same, but a text in another form is a change.
    fileprivate func isUnchanged<E: Entity>(_ slot: Int, _ left: E, _ right: E) -> Bool {
        guard isAlike(slot, left, right) else { return false }
        let stored = try? (value(at: slot, in: left)?.storedValue(), value(at: slot, in: right)?.storedValue())
        return stored.map { $0.0 == $0.1 } ?? true
    }
}

extension ContextCore {
    /// Whether the object exists, and is not deleted here.
    func shows(_ id: ObjectID) -> Bool {
        if let held = registered(id) { return held.phase == .stored || held.phase == .inserted }
        guard !id.isTemporary else { return false }
        do throws(StoreError) { return try snapshot.view.contains(id) } catch { note(error) }
        return false
    }

    /// Shows a deleted object again.
    fileprivate func restore<E: Entity>(_ object: Object<E>, _ value: E) {
        recorder?.willChange(object)
        let isStored = object.phase == .deleted
        var value = value
        if isStored, let saved = object.saved {
            var base = saved.value
            var isContested = saved.isContested
            if saved.isContested {
                if let theirs = valueToShow(object.reference) {
                    // Another writer has changed it since it was deleted here.
                    let merge = ThreeWayMerge(base: saved.value, mine: value, theirs: object.kept(theirs))
                    (value, base, isContested) = (merge.value, merge.base, !merge.conflicts.isEmpty)
                } else {
                    // Another writer has deleted it, and edits have kept it here.
                    isContested = true
                }
            }
            let isEdited = E.model.firstDifference(base, value) != nil
            object.saved = isEdited || isContested ? SavedValue(base, isContested: isContested) : nil
        } else {
            object.saved = nil
        }
        object.phase = isStored ? .stored : .inserted
        object.show(value)
        if isStored, object.saved == nil { removeUnlessNewer(object) } else { addPending(object) }
        noteOtherSides(of: object, from: nil, to: value)
        object.notify(nil)
        noteTouched(object.id)
    }
}
