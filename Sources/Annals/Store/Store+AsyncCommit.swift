// Writing from tasks: the same calls, which occupy no thread of the cooperative pool while they wait.

extension Store {
    /// Makes changes, all of them or none, and waits without occupying a thread of the cooperative pool.
    ///
    /// The same as `commit` without `await`, but `body`, the wait for the writer lock and the sync run on a thread that
    /// belongs to the store. Asynchronous commits and writes of one `Store` run one after the other, in the order in
    /// which they were called.
    /// `lockTimeout` counts from the moment in which the turn has come. Task-local values are not set in `body`.
    ///
    /// If the task is cancelled while it waits for its turn or for the writer lock, the call throws `CancellationError`
    /// at once. If it is cancelled while `body` runs, it throws when `body` has ended. In both cases nothing is
    /// written. A transaction that is being appended is not cancelled: the call returns its token.
    ///
    /// - Parameters:
    ///   - author: Who makes the change, as history says it.
    ///   - contextName: What they were doing, or where.
    ///   - durability: What the call waits for; nil for the store's own choice.
    ///   - body: Makes the changes. It may run up to three times, and must not keep the transaction.
    /// - Returns: What `body` returns, and the token of the transaction: nil if `body` has changed nothing.
    ///
    /// Throws `CancellationError`, what `body` throws, and what `commit` without `await` throws (`StoreError`);
    /// `outOfMemory` if the system has no thread left.
    @discardableResult
    public func commit<Result: Sendable>(
        author: String? = nil, contextName: String? = nil, durability: Durability? = nil,
        _ body: @escaping @Sendable (Transaction) throws -> Result
    ) async throws -> (result: Result, token: HistoryToken?) {
        try await AsyncWrite().run(in: asyncWrites) { write in
            try self.commit(author: author, contextName: contextName, durability: durability) { transaction in
                try write.run(transaction, body)
            }
        }
    }

    /// Runs `body` once and under the writer lock, and waits without occupying a thread of the cooperative pool.
    ///
    /// To `write` without `await` as the asynchronous `commit` is to the other one: its rules for threads, order and
    /// cancellation hold here too. If the task is cancelled while `body` runs, `body` ends, and nothing is written.
    ///
    /// Throws `CancellationError`, what `body` throws, and what `write` without `await` throws (`StoreError`);
    /// `outOfMemory` if the system has no thread left.
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
}

extension AsyncWrite {
    fileprivate func run<Value>(_ transaction: Transaction, _ body: (Transaction) throws -> Value) throws -> Value {
        transaction.beforeAppending { () throws(StoreError) in
            // The task was resumed before: nobody sees this error.
            do { try self.beginAppending() } catch { throw StoreError(.cancelled, "The task was cancelled.") }
        }
        return try runBody { try body(transaction) }
    }
}
