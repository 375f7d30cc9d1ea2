// One object of a save in flight, whose changes lie over the store's value until the save lands.

internal import FoundationEssentials

/// An object that is being saved, of any type.
protocol SentObject: AnyObject {
    var live: any LiveObject { get }
    func replaceReferences(_ permanent: PermanentIDs)
    /// Whether the object shows the value that it has in the state right after the transaction (BS5).
    func isShownAsWritten(in newer: Snapshot) -> Bool
    /// The save was not written: the changes are unsaved again.
    func takeBack(_ core: ContextCore)
}

final class SentObjectOf<E: Entity>: SentObject {
    let object: Object<E>
    private let kind: HistoryChange.Kind
    /// The base of the changes; nil for an inserted object. Follows the state that the object shows.
    private var base: SavedValue<E>?
    /// The shown value without later edits.
    private var sent: SavedValue<E>
    /// The item that the transaction has written, and its value with permanent references. Known when the save lands.
    private var written: SaveItemOf<E>?
    private var writtenValue: SavedValue<E>?

    /// The object has no edits from now on: they are on their way.
    @inline(never)
    init(_ object: Object<E>, _ kind: HistoryChange.Kind, base: SavedValue<E>?, sent: SavedValue<E>) {
        (self.object, self.kind, self.base, self.sent) = (object, kind, base, sent)
        object.phase = kind == .delete ? .gone : .stored
        object.saved = nil
    }

    var live: any LiveObject { object }

    /// A state's value with the changes that are being saved. A deletion by another writer counts when the save lands.
    func overlay(_ stored: E?) -> E? {
        switch kind {
        case .delete: return nil
        case .insert: return sent.value
        case .update:
            guard let stored, let base else { return sent.value }
            return ThreeWayMerge(base: base.value, mine: sent.value, theirs: stored).value
        }
    }

    /// The object shows another state's value under the changes.
    func rebase(on stored: E) {
        guard kind == .update, let base else { return }
        let merge = ThreeWayMerge(base: base.value, mine: sent.value, theirs: stored)
        (self.base, sent) = (SavedValue(merge.base), SavedValue(merge.value))
    }

    func replaceReferences(_ permanent: PermanentIDs) {
        let model = E.model
        if model.referringSlots.isEmpty { return }
        sent = Self.replaced(permanent, sent, model)
        base = base.map { Self.replaced(permanent, $0, model) }
        writtenValue = writtenValue.map { Self.replaced(permanent, $0, model) }
    }

    private static func replaced(
        _ permanent: PermanentIDs, _ saved: SavedValue<E>, _ model: EntityModel
    ) -> SavedValue<E> {
        var value = saved.value
        return model.replaceReferences(permanent, in: &value) ? SavedValue(value) : saved
    }

    // MARK: Landing

    func land(_ item: SaveItemOf<E>) { (written, writtenValue) = (item, item.value) }

    /// The object shows a state that contains the save, before the context moves to one.
    func forgetWritten() { (written, writtenValue) = (nil, nil) }

    func isShownAsWritten(in newer: Snapshot) -> Bool {
        guard let written, written.shownVersion == newer.schemaVersion, let writtenValue, object.phase == .stored,
            object.saved == nil, object.isLoaded
        else { return false }
        let isSame = withUnsafeBytes(of: object.content) { shown in
            withUnsafeBytes(of: writtenValue.value) { shown.hasSameBytes(as: $0) }
        }
        assert(!isSame || isShownAsStored(in: newer), "BS5: an object shows another value than its save has written.")
        return isSame
    }

    /// Whether the object shows the value of a state, as far as that can be read.
    private func isShownAsStored(in newer: Snapshot) -> Bool {
        guard let stored = try? object.core.value(object.reference, in: newer) else { return true }
        return E.model.firstDifference(stored, object.content) == nil
    }

    /// The base of later edits once the save has landed: its written values, in the slots that it has changed.
    func rebased(_ saved: SavedValue<E>) -> SavedValue<E> {
        guard let slots = written?.changedSlots, let writtenValue, !slots.isEmpty else { return saved }
        var value = saved.value
        E.model.copy(slots, from: writtenValue.value, to: &value)
        return SavedValue(value, isContested: saved.isContested)
    }

    /// An edited value with the saved values of properties that were not edited since: these are no edits. Saving
    /// computes properties, and inserts an object that another writer has deleted as it was when the save began.
    func rebased(_ mine: E, since saved: SavedValue<E>) -> E {
        guard let slots = written?.changedSlots, let writtenValue, !slots.isEmpty else { return mine }
        let later = Set(E.model.differences(saved.value, mine))
        var value = mine
        E.model.copy(slots.filter { !later.contains($0) }, from: writtenValue.value, to: &value)
        return value
    }

    /// The slots that saving has computed, where the object shows that.
    func own(in shown: E) -> [Int] {
        guard let computed = written?.computedSlots, let writtenValue, !computed.isEmpty else { return [] }
        let others = Set(E.model.differences(writtenValue.value, shown))
        return computed.filter { !others.contains($0) }
    }

    // MARK: Failing

    func takeBack(_ core: ContextCore) {
        switch kind {
        case .insert: takeBackInsertion(core)
        case .update: takeBackUpdate(core)
        case .delete: takeBackDeletion(core)
        }
    }

    private func takeBackInsertion(_ core: ContextCore) {
        switch object.phase {
        case .stored, .inserted: object.phase = .inserted
        case .deleted, .gone:
            // Another writer may have inserted it again, too.
            let theirs = object.id.isTemporary || core.isReserved(object.id) ? nil : core.storedValue(of: object)
            object.phase = theirs == nil ? .gone : .deleted
            object.saved = theirs.map { SavedValue($0, isContested: true) }
            return object.phase == .gone ? core.removePending(object) : core.addPending(object)
        }
        object.saved = nil
        core.addPending(object)
    }

    private func takeBackUpdate(_ core: ContextCore) {
        guard let base = base?.value else { return }
        let model = E.model
        let sent = sent.value
        var before = base
        if let saved = object.saved {
            // Later edits of properties that were not being saved keep their base.
            let being = Set(model.differences(base, sent))
            let later = model.differences(saved.value, object.current).filter { !being.contains($0) }
            model.copy(later, from: saved.value, to: &before)
        }
        object.saved = SavedValue(before, isContested: true)
        guard object.isShown, model.firstDifference(before, object.current) == nil else {
            return core.addPending(object)
        }
        object.saved = nil
        core.removeUnlessNewer(object)
        core.dropIfGone(object)
    }

    private func takeBackDeletion(_ core: ContextCore) {
        guard let base = base?.value else { return }
        guard let theirs = core.storedValue(of: object) else {
            // Another writer has deleted it. If it was restored here, saving inserts it again.
            return object.phase == .inserted ? core.addPending(object) : core.removePending(object)
        }
        guard object.isShown else {
            object.saved = SavedValue(base, isContested: true)
            object.phase = .deleted
            return core.addPending(object)
        }
        // It was restored here, as it was when it was deleted.
        let merge = ThreeWayMerge(base: base, mine: object.current, theirs: theirs)
        let isEdited = E.model.firstDifference(merge.base, merge.value) != nil
        core.recorder?.willShow(merge.value, of: object, own: [])
        core.noteOtherSides(of: object, from: object.current, to: merge.value)
        object.phase = .stored
        object.saved = isEdited ? SavedValue(merge.base, isContested: true) : nil
        object.show(merge.value)
        core.noteTouched(object.id)
        if isEdited { core.addPending(object) } else { core.removePending(object) }
    }
}

extension EntityModel {
    /// An object that is being saved as one of this type, if it is one.
    @inline(__always)
    func cast<E: Entity>(_ sent: any SentObject, to entity: E.Type) -> SentObjectOf<E>? {
        guard Swift.type(of: sent) == classes.find(.sentObject, SentObjectOf<E>.self) as AnyClass else { return nil }
        return unsafeDowncast(sent, to: SentObjectOf<E>.self)
    }
}
