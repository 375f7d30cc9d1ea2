// Writing: transactions and schema changes.

extension Store {
    /// Makes changes, all of them or none, visible to every process when it returns.
    ///
    /// `body` runs without any lock on the state that is newest when it begins. If others were in the way, it runs
    /// again, the third time under the writer lock; so it must do nothing that may not be done twice. It may read with
    /// other snapshots, and must not keep the transaction. An error that it throws abandons everything and comes out as
    /// it is.
    ///
    /// - Parameters:
    ///   - author: Who makes the change, as history says it.
    ///   - contextName: What they were doing, or where.
    ///   - durability: What the call waits for; nil for the store's own choice.
    ///   - body: Makes the changes.
    /// - Returns: What `body` returns, and the token of the transaction; nil if `body` has changed nothing, and
    ///   nothing was written.
    ///
    /// Throws `StoreError`: `busy`, `readOnly`, `noSpace` (nothing has changed), `uniqueViolation`, `requiredMissing`,
    /// `durabilityUnknown` (it may be there or not, and this store commits nothing more), and what the methods of the
    /// transaction throw.
    @discardableResult
    public func commit<Result>(
        author: String? = nil, contextName: String? = nil, durability: Durability? = nil,
        _ body: (Transaction) throws -> Result
    ) throws -> (result: Result, token: HistoryToken?) {
        do {
            let (result, appended) = try generations.commit(
                author: author, context: contextName, durability: (durability ?? options.durability)
            ) { pending in try Transaction.run(pending, self, body) }
            return (result, appended.map(token))
        } catch let error as StoreError {
            throw consumerError(error)
        }
    }

    /// The same, but `body` runs once and under the writer lock, on the newest state: for counters and whatever else
    /// reads and then writes.
    ///
    /// Everybody else who wants to write waits meanwhile, in all processes. Another commit, write or close of this
    /// store from `body` throws `invalidArgument`. Reading works there, and does not see the changes of this
    /// transaction, which the transaction itself reads.
    ///
    /// Throws `StoreError`.
    @discardableResult
    public func write<Result>(
        author: String? = nil, contextName: String? = nil, durability: Durability? = nil,
        _ body: (Transaction) throws -> Result
    ) throws -> (result: Result, token: HistoryToken?) {
        do {
            let (result, appended) = try generations.write(
                author: author, context: contextName, durability: (durability ?? options.durability)
            ) { pending in try Transaction.run(pending, self, body) }
            return (result, appended.map(token))
        } catch let error as StoreError {
            throw consumerError(error)
        }
    }

    /// `write` for code that needs the file layer's transaction and its engine.
    func writePending<Result>(
        _ author: String?, _ context: String?, _ durability: Durability?,
        _ body: (PendingTransaction, Engine) throws -> Result
    ) throws -> (result: Result, token: HistoryToken?) {
        let (result, appended) = try generations.write(
            author: author, context: context, durability: (durability ?? options.durability)
        ) { pending in try body(pending, engine(of: pending.base)) }
        return (result, appended.map(token))
    }

    /// Changes the schema, in a transaction of its own. No object is rewritten; a new index over objects that are there
    /// is built.
    ///
    /// Others read and write while an index is built: they wait only when a piece of it is written, and when what they
    /// have changed meanwhile is taken in at the end. It takes memory for the sorting, at most some 100 MiB, and space
    /// for the keys beside the store until it is done. If it fails nothing has changed, but for space in the file
    /// that compaction frees.
    ///
    /// Throws `StoreError`: `schemaRefused` with what to do instead, `unknownEntity`, `unknownAttribute`,
    /// `uniqueViolation` (a new unique attribute or key has
    /// duplicates; they are listed), and what committing throws. Nil if nothing differs.
    @discardableResult
    public func changeSchema(_ changes: [SchemaChange], author: String? = nil) throws -> HistoryToken? {
        do {
            return try commit(author: author) { transaction in try transaction.changeSchema(changes) }.token
        } catch {
            guard let error = error as? StoreError else { preconditionFailure("Nobody else's error can be met here.") }
            throw error
        }
    }

    /// The engine of a view that is being used, and which so is still there.
    func engine(of view: View) -> Engine { generations.engine(of: view) ?? generations.current }

    private func token(_ appended: AppendedTransaction) -> HistoryToken {
        HistoryToken(storeIdentifier: identifier, number: appended.number, tag: appended.tag)
    }
}
