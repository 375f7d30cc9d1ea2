// Writing: transactions and schema changes.

extension Store {
    /// Makes all of the changes or none. When it returns, every process sees them.
    ///
    /// `body` runs once, under the writer lock, on the newest state: nothing can change between its reads and its
    /// writes. All other writers in all processes wait until it ends. Committing to this store, or closing it, from
    /// `body` throws `invalidArgument`. Snapshots taken in `body` do not contain this transaction's changes; the
    /// transaction itself reads them. `body` must not keep the transaction. If `body` throws, nothing is written, and
    /// this call throws the same error.
    ///
    /// If `body` is slow and may run again, use `writeOptimistically`.
    ///
    /// - Parameters:
    ///   - author: The author of the change, for the history.
    ///   - contextName: The author's activity, or the part of the program.
    ///   - durability: The condition to wait for; nil for the store's setting.
    ///   - body: Makes the changes.
    /// - Returns: The result of `body`, and the transaction's token. The token is nil if `body` changed nothing; then
    ///   nothing is written.
    ///
    /// Throws `StoreError`: `busy`, `readOnly`, `noSpace` (nothing has changed), `uniqueViolation`, `requiredMissing`,
    /// `durabilityUnknown` (the transaction may be in the store or not, and this `Store` commits nothing more), and
    /// errors of the transaction's methods.
    @discardableResult
    public func write<Result>(
        author: String? = nil, contextName: String? = nil, durability: Durability? = nil,
        _ body: (Transaction) throws -> Result
    ) throws -> (result: Result, token: HistoryToken?) {
        do {
            let (result, appended) = try handle.write(
                author: author, context: contextName, durability: (durability ?? options.durability)
            ) { draft in try Transaction.run(draft, self, body) }
            if extensions.hasWork { extensions.indexer?.noteCommit() }
            return (result, appended.map(token))
        } catch let error as StoreError {
            throw consumerError(error)
        }
    }

    /// Makes changes as `write` does, but runs `body` without the writer lock: other writers do not wait for it.
    ///
    /// `body` runs on the newest state at its beginning. If another writer's changes conflict with it, `body` runs
    /// again, and the third time under the writer lock. So `body` must do only things that may be repeated. It may read
    /// other snapshots. Parameters, result and errors are those of `write`.
    @discardableResult
    public func writeOptimistically<Result>(
        author: String? = nil, contextName: String? = nil, durability: Durability? = nil,
        _ body: (Transaction) throws -> Result
    ) throws -> (result: Result, token: HistoryToken?) {
        do {
            let (result, appended) = try handle.commit(
                author: author, context: contextName, durability: (durability ?? options.durability)
            ) { draft in try Transaction.run(draft, self, body) }
            if extensions.hasWork { extensions.indexer?.noteCommit() }
            return (result, appended.map(token))
        } catch let error as StoreError {
            throw consumerError(error)
        }
    }

    /// `write` for code that needs the file layer's transaction and its engine. If `validates` is true, the objects
    /// that `body` leaves must pass the validation of their types.
    func writeDraft<Result>(
        _ author: String?, _ context: String?, _ durability: Durability?, validates: Bool,
        _ body: (Draft, Engine) throws -> Result
    ) throws -> (result: Result, token: HistoryToken?) {
        let (result, appended) = try handle.write(
            author: author, context: context, durability: (durability ?? options.durability)
        ) { draft in
            let result = try body(draft, engine(of: draft.base))
            if extensions.hasWork, draft.hasChanges {
                try extensions.upkeep?.bodyHasEnded(draft, nil, validates: validates)
                extensions.indexer?.noteChanges(Int(clamping: draft.frames.countingChanges))
            }
            return result
        }
        if extensions.hasWork { extensions.indexer?.noteCommit() }
        return (result, appended.map(token))
    }

    /// Changes the schema, in a transaction of its own. No object is rewritten. If objects exist already, a new index
    /// over them is built.
    ///
    /// Other processes read and write while an index is built. Writers wait only while a piece of the index is written,
    /// and at the end, while it catches up with their changes. Building takes up to about 100 MiB of memory for
    /// sorting, and temporary space beside the store for the keys. If it fails, nothing has changed, except that some
    /// space in the file stays used until the next compaction.
    ///
    /// - Returns: The transaction's token, or nil if the schema already has these changes.
    ///
    /// Throws `StoreError`: `schemaRefused`, which names an alternative; `unknownEntity`; `unknownAttribute`;
    /// `uniqueViolation`, which lists the duplicates, if a new unique attribute or key has some; and errors of
    /// `write`.
    @discardableResult
    public func changeSchema(_ changes: [SchemaChange], author: String? = nil) throws -> HistoryToken? {
        do {
            return try writeOptimistically(author: author) { try $0.changeSchema(changes) }.token
        } catch {
            guard let error = error as? StoreError else { preconditionFailure("This body throws StoreError only.") }
            throw error
        }
    }

    /// The engine of a view. The view is in use, so its engine still exists.
    func engine(of view: View) -> Engine { handle.engine(of: view) ?? handle.current }

    private func token(_ appended: AppendedTransaction) -> HistoryToken {
        HistoryToken(storeIdentifier: identifier, number: appended.number, tag: appended.tag)
    }
}
