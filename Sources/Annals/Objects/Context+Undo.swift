// Undo and redo: reverting changes of a context, and making them again.

internal import FoundationEssentials

extension Context {
    /// The number of groups of changes that can be undone; 0, the default, for none.
    ///
    /// A group ends when the context is saved, or where you end it: `undoGroup`. Beyond this number, the oldest groups
    /// are forgotten. Setting it to 0 forgets all. The objects of the groups are held, and merging looks at them.
    ///
    /// Only changes by this context can be undone. Changes by other writers are merged, and form no group.
    public var undoLevels: Int {
        get { undoHistory?.levels ?? 0 }
        set {
            guard newValue > 0, !core.isClosed else {
                core.recorder = nil
                return
            }
            let history = undoHistory ?? UndoHistory(core, levels: newValue)
            history.levels = newValue
            core.recorder = history
        }
    }

    private var undoHistory: UndoHistory? { core.recorder as? UndoHistory }

    /// Whether there are changes to undo. Changes that have cancelled each other count until their group ends.
    public var canUndo: Bool { undoHistory?.canUndo ?? false }

    /// Whether something was undone, and nothing was changed since.
    public var canRedo: Bool { undoHistory?.canRedo ?? false }

    /// The name of the group that `undo()` reverts, for a menu; nil if it has none.
    public var undoActionName: String? { undoHistory?.undoName }

    /// The name of the group that `redo()` does again; nil if it has none.
    public var redoActionName: String? { undoHistory?.redoName }

    /// Undoes the newest group of changes.
    ///
    /// Undo is itself a change, which the next save writes. It works after a save as well as before. Properties get the
    /// values they had before the group. An inserted object is deleted. A deleted object exists again: the same
    /// instance, with the same reference. Open groups are ended first. Without a group, nothing happens. Properties
    /// that are not stored (`Transient`) do not change.
    ///
    /// - Parameter skippingConflicts: Whether to undo the rest if another writer has changed a part of it since. The
    ///   other writer's changes stay.
    ///
    /// Throws `StoreError`: `undoConflict` if another writer has changed a property since; `mergeConflicts` lists each,
    /// with the value before the group as base, the value after it as mine, and the present one as theirs. An inserted
    /// object that another writer has changed or refers to, and an edited object that another writer has deleted, are
    /// conflicts, too. Then nothing has changed. Also throws `contextClosed`, `damaged` and `closed`.
    public func undo(skippingConflicts: Bool = false) throws {
        _ = try core.requireStore()
        try undoHistory?.undo(skippingConflicts: skippingConflicts)
    }

    /// Makes the last undone changes again. Possible until another change is made. Conflicts as with `undo()`.
    ///
    /// Throws `StoreError`: as `undo()`.
    public func redo(skippingConflicts: Bool = false) throws {
        _ = try core.requireStore()
        try undoHistory?.redo(skippingConflicts: skippingConflicts)
    }

    /// Makes one group of the changes by `body`, whether it saves or not. A group within another is part of it. If
    /// `body` throws, its changes stay, and can be undone. Throws the errors of `body`.
    ///
    /// - Parameters:
    ///   - name: Its name in a menu.
    ///   - body: Makes the changes.
    public func undoGroup<Result>(_ name: String? = nil, _ body: () throws -> Result) rethrows -> Result {
        beginUndoGrouping(name)
        defer { endUndoGrouping() }
        return try body()
    }

    /// Begins a group. Earlier changes form a group of their own. Saving does not end it: `endUndoGrouping()` does.
    ///
    /// - Parameter name: Its name in a menu.
    public func beginUndoGrouping(_ name: String? = nil) { undoHistory?.begin(name) }

    /// Ends the group that was begun last. Does nothing if none is open.
    public func endUndoGrouping() { undoHistory?.end() }

    /// Forgets all that could be undone or redone. The objects stay as they are.
    public func removeAllUndoActions() { undoHistory?.removeAll() }
}

extension StoreError {
    static func undoConflict(_ conflicts: [MergeConflict]) -> StoreError {
        let sentences = conflicts.prefix(10).map { conflict in
            let object = "\(conflict.object) of “\(conflict.entity)”"
            return switch conflict.kind {
            case .attribute, .targetDeleted:
                "Another writer has changed “\(conflict.attribute ?? "")” of \(object) since."
            case .deletedInStore: "Another writer has deleted \(object) since."
            case .changedInStore: "\(object) would be deleted, but another writer has changed it or refers to it."
            }
        }
        let more = conflicts.count > 10 ? " And \(conflicts.count - 10) more." : ""
        var error = StoreError(
            .undoConflict,
            sentences.joined(separator: " ") + more
                + " Nothing was undone: call undo(skippingConflicts: true), or redo, to leave these objects as they "
                + "are.")
        error.facts = ConflictFacts(conflicts: conflicts)
        return error
    }
}
