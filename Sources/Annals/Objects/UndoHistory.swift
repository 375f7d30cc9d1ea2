// The changes of a context that can be reverted, in groups.
//
// Invariants:
// UH1  The groups follow each other: each starts from the values that the previous one left, unless another writer has
//      changed them in between. Reverting checks this.
// UH2  Reverting is a change, too. Its changes are recorded, and form the group that redo reverts.
// UH3  The history holds its objects. The context's core holds the history, and releases it when the context ends.

internal import FoundationEssentials

/// Changes that are reverted together.
final class UndoGroup {
    var name: String?
    private(set) var entries: [ObjectIdentifier: any UndoEntry] = [:]
    /// The objects in the order of their first change.
    private var order: [ObjectIdentifier] = []
    private var hasTemporaries = true

    init(name: String? = nil) { self.name = name }

    var isEmpty: Bool { entries.isEmpty }

    func entry<E: Entity>(of object: Object<E>) -> UndoEntryOf<E>? {
        entries[ObjectIdentifier(object)] as? UndoEntryOf<E>
    }

    func willChange<E: Entity>(_ object: Object<E>) {
        if let entry = entry(of: object) { return entry.willChange() }
        let key = ObjectIdentifier(object)
        entries[key] = UndoEntryOf(object)
        order.append(key)
    }

    /// The changes of an object become those of the object that replaces it.
    func replace<E: Entity>(_ former: Object<E>, with object: Object<E>) {
        let (old, new) = (ObjectIdentifier(former), ObjectIdentifier(object))
        guard let entry = entry(of: former) else { return }
        entry.move(to: object, before: self.entry(of: object))
        entries[old] = nil
        entries[new] = entry
        order.removeAll { $0 == new }
        if let index = order.firstIndex(of: old) { order[index] = new }
    }

    /// Includes all changes, and drops the objects without any.
    func close() {
        for entry in entries.values { entry.close() }
        entries = entries.filter { $0.value.hasEffect }
        order.removeAll { entries[$0] == nil }
        hasTemporaries = entries.values.contains(where: \.hasTemporaries)
    }

    func replaceReferences(_ permanent: PermanentIDs, to entity: (any Entity.Type)?) {
        guard hasTemporaries else { return }
        for entry in entries.values where entity.map({ entry.live.model.refers(to: $0) }) ?? true {
            entry.replaceReferences(permanent)
        }
    }

    // MARK: Taking back

    /// The conflicts with changes that other writers have made since, by object.
    private func conflicts(_ core: ContextCore, _ returning: Set<ObjectID>) throws(StoreError)
        -> [ObjectIdentifier: [MergeConflict]]
    {
        var conflicts: [ObjectIdentifier: [MergeConflict]] = [:]
        for (key, entry) in entries {
            let found = entry.conflicts(core, returning: returning)
            if !found.isEmpty { conflicts[key] = found }
        }
        // An object stays if another one, outside this group or itself unchanged, refers to it.
        let models = try core.requireStore().declaredModels
        var isComplete = false
        let deletesUnsaved = entries.values.contains { $0.step == .delete && $0.live.phase == .inserted }
        while !isComplete {
            isComplete = true
            // The store has no references to unsaved objects.
            let referredHere = deletesUnsaved ? referredByUnsaved(core, conflicts) : []
            for (key, entry) in entries where entry.step == .delete && conflicts[key] == nil {
                let object = entry.live
                let isReferred =
                    switch object.phase {
                    case .stored: try isReferred(object, models, core, conflicts)
                    case .inserted: referredHere.contains(object.id)
                    case .deleted, .gone: false
                    }
                if isReferred {
                    conflicts[key] = [.whole(.changedInStore, object.id, object.model.name)]
                    isComplete = false
                }
            }
        }
        return conflicts
    }

    /// The targets of references in unsaved objects that are outside this group, or that stay unchanged.
    private func referredByUnsaved(
        _ core: ContextCore, _ conflicts: [ObjectIdentifier: [MergeConflict]]
    ) -> Set<ObjectID> {
        var referred: Set<ObjectID> = []
        for object in core.pending.values where object.phase == .stored || object.phase == .inserted {
            let key = ObjectIdentifier(object)
            guard entries[key] == nil || conflicts[key] != nil else { continue }
            for slot in object.model.referringSlots
            where [.cascade, .nullify].contains(object.model.properties[slot].deleteRule) {
                for target in object.references(at: slot) where target != object.id { referred.insert(target) }
            }
        }
        return referred
    }

    private func isReferred(
        _ object: any LiveObject, _ models: [EntityModel], _ core: ContextCore,
        _ conflicts: [ObjectIdentifier: [MergeConflict]]
    ) throws(StoreError) -> Bool {
        for model in models {
            for slot in model.referringSlots
            where model.properties[slot].codec.target == object.model.type
                && [.cascade, .nullify].contains(model.properties[slot].deleteRule)
            {
                for id in try core.referring(to: object.id, model, model.properties[slot].name) where id != object.id {
                    guard let referrer = core.registered(id) else { return true }
                    let key = ObjectIdentifier(referrer)
                    if entries[key] == nil || conflicts[key] != nil { return true }
                }
            }
        }
        return false
    }

    /// Reverts the changes. Throws `undoConflict`; then nothing has changed.
    func revert(in core: ContextCore, skippingConflicts: Bool) throws(StoreError) {
        let returning = Set(entries.values.filter { $0.step == .restore }.map(\.live.id))
        let conflicts = try conflicts(core, returning)
        guard skippingConflicts || conflicts.isEmpty else {
            throw .undoConflict(order.flatMap { conflicts[$0] ?? [] })
        }
        // Objects are restored before references to them, and deleted when no reference is left.
        for step in [UndoStep.restore, .edit, .delete] {
            for key in order {
                guard let entry = entries[key], entry.step == step else { continue }
                if step == .delete, conflicts[key] != nil { continue }
                entry.revert(core, returning: returning)
            }
        }
    }
}

final class UndoHistory: ChangeRecorder {
    /// The number of groups that are kept.
    var levels: Int { didSet { trim() } }
    private unowned let core: ContextCore
    private var undoable: [UndoGroup] = []
    private var redoable: [UndoGroup] = []
    /// The group that changes belong to now; nil if nothing has changed since the last one.
    private var open: UndoGroup?
    /// The number of groups that were begun by hand and not ended.
    private var depth = 0
    private var isReverting = false
    var isShowingEndedGroup = false

    init(_ core: ContextCore, levels: Int) { (self.core, self.levels) = (core, levels) }

    private func trim() {
        if undoable.count > levels { undoable.removeFirst(undoable.count - levels) }
        if redoable.count > levels { redoable.removeFirst(redoable.count - levels) }
    }

    // MARK: Recording

    func willChange<E: Entity>(_ object: Object<E>) {
        if !isReverting, !redoable.isEmpty { redoable = [] }
        let group = open ?? UndoGroup()
        open = group
        group.willChange(object)
    }

    func willShow<E: Entity>(_ value: E, of object: Object<E>, own: [Int]) {
        let opened = open?.entry(of: object)
        opened?.close()
        guard !own.isEmpty else { return }
        let now = object.current
        if !isShowingEndedGroup, let opened, opened.isShown { return opened.extend(own, from: now, to: value) }
        // UH1: saving has changed the values that the newest group of either list has left.
        for groups in [undoable, redoable] {
            guard let entry = groups.lazy.reversed().compactMap({ $0.entry(of: object) }).first else { continue }
            if entry.isShown { entry.extend(own, from: now, to: value) }
        }
    }

    func didUpdateExisting<E: Entity>(_ value: E, with object: Object<E>, insteadOf former: Object<E>?) {
        let open = [open].compactMap { $0 }
        for group in undoable + open { group.entry(of: object)?.didUpdateExisting(value) }
        guard let former else { return }
        for group in undoable + redoable + open { group.replace(former, with: object) }
    }

    func replaceReferences(_ permanent: PermanentIDs, to entity: (any Entity.Type)?) {
        for group in undoable + redoable { group.replaceReferences(permanent, to: entity) }
        open?.replaceReferences(permanent, to: entity)
    }

    func endSavedGroup() -> Bool {
        if depth > 0 { return false }
        closeOpen()
        return true
    }

    private func takeOpen() -> UndoGroup? {
        guard let group = open else { return nil }
        open = nil
        group.close()
        return group.isEmpty ? nil : group
    }

    private func closeOpen() {
        guard let group = takeOpen() else { return }
        undoable.append(group)
        trim()
    }

    // MARK: Groups

    func begin(_ name: String?) {
        if depth == 0 {
            closeOpen()
            open = UndoGroup(name: name)
        }
        depth += 1
    }

    func end() {
        guard depth > 0 else { return }
        depth -= 1
        if depth == 0 { closeOpen() }
    }

    // MARK: Undo and redo

    var canUndo: Bool {
        // Whether the open group has an effect is known when it ends.
        !undoable.isEmpty || (open.map { !$0.isEmpty } ?? false)
    }

    var canRedo: Bool { !redoable.isEmpty }

    var undoName: String? { open.map { $0.isEmpty ? undoable.last?.name : $0.name } ?? undoable.last?.name }

    var redoName: String? { redoable.last?.name }

    func undo(skippingConflicts: Bool) throws(StoreError) {
        depth = 0
        closeOpen()
        guard let group = undoable.last else { return }
        if let inverse = try revert(group, skippingConflicts) { redoable.append(inverse) }
        undoable.removeLast()
    }

    func redo(skippingConflicts: Bool) throws(StoreError) {
        depth = 0
        closeOpen()
        guard let group = redoable.last else { return }
        if let inverse = try revert(group, skippingConflicts) { undoable.append(inverse) }
        redoable.removeLast()
    }

    /// Reverts a group. Returns the group that reverts this (UH2).
    private func revert(_ group: UndoGroup, _ skippingConflicts: Bool) throws(StoreError) -> UndoGroup? {
        isReverting = true
        defer { isReverting = false }
        try core.batch { () throws(StoreError) in try group.revert(in: core, skippingConflicts: skippingConflicts) }
        let inverse = takeOpen()
        inverse?.name = group.name
        return inverse
    }

    /// Releases its objects: UH3.
    func removeAll() {
        (undoable, redoable, open, depth) = ([], [], nil, 0)
    }
}
