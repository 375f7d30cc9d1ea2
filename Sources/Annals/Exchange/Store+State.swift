// Exporting and applying states in parts.

internal import FoundationEssentials

extension Store {
    /// Returns the reader of a state in parts.
    ///
    /// `export` begins with a state as one value if history was cleaned. Parts take the memory of one part, whatever
    /// the size of the store. A store without transactions has no state, and so no parts.
    ///
    /// - Parameters:
    ///   - snapshot: The state; nil for the newest.
    ///   - partBytes: The size of the values in a part, about. An object is never divided, so a large value makes a
    ///     part larger.
    ///
    /// Throws `StoreError` as reading a snapshot does.
    public func stateReader(in snapshot: Snapshot? = nil, partBytes: Int = 1 << 18) throws -> ExportedStateReader {
        try stateReader(in: snapshot, partBytes: partBytes, leavingOut: [])
    }

    /// The same without some entities, by their numbers. No attribute of the rest may refer to one of them.
    package func stateReader(
        in snapshot: Snapshot?, partBytes: Int, leavingOut leftOut: Set<UInt16>
    ) throws -> ExportedStateReader {
        let state = if let snapshot { snapshot } else { try self.snapshot() }
        _ = try reading(state, state.engine)
        return try ExportedStateReader(state, partBytes: max(1, partBytes), leavingOut: leftOut)
    }

    /// Applies a state of another store in parts, as one transaction: all of it, or nothing.
    ///
    /// The store may have objects of its own, but nothing from the other store, and nothing from a store whose
    /// transactions the state contains; `apply` has the same condition for a state as one value. Objects get IDs of
    /// this store. Missing entities, attributes, indexes and keys are added. If an object here has a unique value of
    /// the state, this throws `uniqueViolation`.
    ///
    /// The writer lock is held until the last part was applied, so other writers wait. Fetch a state from a slow place
    /// to this machine first.
    ///
    /// Takes the memory of one part, and 56 bytes for each stretch of objects with consecutive names: few, unless many
    /// objects were deleted. The rows are in a file without a name until the commit. The commit itself takes the memory
    /// that any transaction takes for its indexes: 100 bytes for each object with one indexed attribute. A page of
    /// an index is written with the checkpoint after its transaction, and not before.
    ///
    /// - Parameters:
    ///   - author: The author of the transaction; nil for none.
    ///   - durability: The condition to wait for; nil for the store's setting.
    ///   - parts: Calls its argument with each part in order. Called once.
    /// - Returns: The token of the transaction.
    ///
    /// Throws `StoreError`: `applyGap`, `schemaMismatch`, `exportMalformed` for parts that are not a whole state,
    /// `uniqueViolation`, and errors of `write` and of `parts`. Then nothing has changed.
    @discardableResult
    public func applyState(
        author: String? = nil, durability: Durability? = nil,
        _ parts: ((ExportedStatePart) throws -> Void) throws -> Void
    ) throws -> HistoryToken? {
        do {
            return try writeDraft(author, nil, durability, validates: false) { draft, engine in
                let base = Snapshot(draft.base, engine, identifier)
                var application = StateApplication(base, draft, of: identifier)
                try parts { try application.apply($0) }
                guard application.isComplete else { throw StateApplication.malformed("its end is missing") }
            }.token
        } catch var error as StoreError {
            if error.path == nil { error.path = path }
            throw error
        }
    }
}
