// Writing from tasks: the same calls, without occupying a thread of the cooperative pool while they wait.

extension Store {
    /// Makes all of the changes or none, and waits without occupying a thread of the cooperative pool.
    ///
    /// This is `write` with `await`: `body`, the wait for the writer lock and the sync run on a thread of the store.
    /// Asynchronous writes of one `Store` run one after the other, in the order of the calls. `lockTimeout` counts from
    /// the moment when this call's turn comes. Task-local values are not set in `body`.
    ///
    /// If the task is cancelled while it waits for its turn or for the writer lock, the call throws `CancellationError`
    /// at once. If it is cancelled while `body` runs, the call throws when `body` has ended. In both cases nothing is
    /// written. Once the transaction is being appended, it cannot be cancelled, and the call returns its token.
    ///
    /// - Parameters:
    ///   - author: The author of the change, for the history.
    ///   - contextName: The author's activity, or the part of the program.
    ///   - durability: The condition to wait for; nil for the store's setting.
    ///   - body: Makes the changes. It runs once, under the writer lock, and must not keep the transaction.
    /// - Returns: The result of `body`, and the transaction's token, which is nil if `body` changed nothing.
    ///
    /// Throws `CancellationError`, errors of `body`, and those of `write` without `await` (`StoreError`). Also throws
    /// `outOfMemory` if the system cannot start a thread.
    @discardableResult
    public func write<Result: Sendable>(
        author: String? = nil, contextName: String? = nil, durability: Durability? = nil,
        _ body: @escaping @Sendable (Transaction) throws -> Result
    ) async throws -> (result: Result, token: HistoryToken?) {
        try await AsyncWrite().run(in: asyncWrites) { write in
            try self.write(author: author, contextName: contextName, durability: durability) { transaction in
                try write.run(transaction, body)
            }
        }
    }

    /// Makes changes as `write` does, but runs `body` without the writer lock. Waits without occupying a thread of the
    /// cooperative pool.
    ///
    /// This is `writeOptimistically` with `await`: `body` may run up to three times. Threads, order, cancellation,
    /// parameters, result and errors are those of `write` with `await`.
    @discardableResult
    public func writeOptimistically<Result: Sendable>(
        author: String? = nil, contextName: String? = nil, durability: Durability? = nil,
        _ body: @escaping @Sendable (Transaction) throws -> Result
    ) async throws -> (result: Result, token: HistoryToken?) {
        try await AsyncWrite().run(in: asyncWrites) { write in
            try self.writeOptimistically(author: author, contextName: contextName, durability: durability) {
                try write.run($0, body)
            }
        }
    }
}

extension AsyncWrite {
    func run<Value>(_ transaction: Transaction, _ body: (Transaction) throws -> Value) throws -> Value {
        transaction.beforeAppending { () throws(StoreError) in
            // The task has resumed already, so this error is not seen.
            do { try self.beginAppending() } catch { throw StoreError(.cancelled, "The task was cancelled.") }
        }
        return try runBody { try body(transaction) }
    }
}
