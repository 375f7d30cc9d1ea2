// Undo and redo: taking back what was changed in a context, and doing it again.

internal import FoundationEssentials

extension Context {
    /// How many groups of changes can be undone; 0, the default, for none.
    ///
    /// A group ends when the context is saved, or where you say: `undoGroup`. When there are more groups than this,
    /// the oldest are forgotten. Setting it to 0 forgets all. The objects of the groups are held, and merging looks at
    /// them.
    ///
    /// Only what this context changes can be undone. What others do is merged, and is no group.
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

    /// The name of the group that `undo()` takes back, for a menu; nil if it has none.
    public var undoActionName: String? { undoHistory?.undoName }

    /// The name of the group that `redo()` does again; nil if it has none.
    public var redoActionName: String? { undoHistory?.redoName }

    /// Takes back the newest group of changes.
    ///
    /// Undo is itself a change, which the next save writes. It works after a save as well as before. Properties get
    /// the values they had before the group. An inserted object is deleted. A deleted object is there again: the same
    /// instance, with the same reference. Groups that were begun and not ended are ended first. If there is nothing to
    /// undo, nothing happens. Properties that are not stored (`Transient`) stay as they are.
    ///
    /// - Parameter skippingConflicts: Whether to undo the rest if others have changed something of it since. What they
    ///   have changed stays.
    ///
    /// Throws `StoreError`: `undoConflict` if a property was changed by others since; `mergeConflicts` lists each, with
    /// the value before the group as base, the value after it as mine, and the present one as theirs. An inserted
    /// object that others have changed or refer to, and an edited object that they have deleted, are conflicts, too.
    /// Then nothing has changed. Also throws `contextClosed`, `damaged` and `closed`.
    public func undo(skippingConflicts: Bool = false) throws {
        _ = try core.requireStore()
        try undoHistory?.undo(skippingConflicts: skippingConflicts)
    }

    /// Does again what was undone last. Possible until something else is changed. Conflicts as with `undo()`.
    ///
    /// Throws `StoreError`: as `undo()`.
    public func redo(skippingConflicts: Bool = false) throws {
        _ = try core.requireStore()
        try undoHistory?.redo(skippingConflicts: skippingConflicts)
    }

    /// Makes one group of what `body` changes, whether it saves or not. A group within another is part of it. If `body`
    /// throws, its changes stay, and can be undone. Throws what `body` throws.
    ///
    /// - Parameters:
    ///   - name: What to call it in a menu.
    ///   - body: Makes the changes.
    public func undoGroup<Result>(_ name: String? = nil, _ body: () throws -> Result) rethrows -> Result {
        beginUndoGrouping(name)
        defer { endUndoGrouping() }
        return try body()
    }

    /// Begins a group. What was changed before is a group of its own. Saving does not end it: `endUndoGrouping()` does.
    ///
    /// - Parameter name: What to call it in a menu.
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
                "“\(conflict.attribute ?? "")” of \(object) was changed by others since."
            case .deletedInStore: "\(object) was deleted by others since."
            case .changedInStore: "\(object) would be deleted, but others have changed it or refer to it."
            }
        }
        let more = conflicts.count > 10 ? " And \(conflicts.count - 10) more." : ""
        var error = StoreError(
            .undoConflict,
            sentences.joined(separator: " ") + more
                + " Nothing was undone: call undo(skippingConflicts: true), or redo, to leave these as they are.")
        error.facts = ConflictFacts(conflicts: conflicts)
        return error
    }
}
