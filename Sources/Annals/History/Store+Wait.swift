// Waiting until a known transaction has arrived in this store, and is durable if wanted.

extension Store {
    /// The progress of a transaction.
    private enum Arrival: Sendable {
        case missing
        /// In the store, but a power failure may lose it.
        case visible
        case durable
    }

    /// Waits until the store contains a token's transaction, committed by any process. Afterwards every snapshot has
    /// it.
    ///
    /// - Parameters:
    ///   - token: A token from another process or thread.
    ///   - isDurable: Whether to wait until the transaction survives a power failure. A store that is open for writing
    ///     makes it durable itself. A store that is open for reading waits until the file records this, perhaps only
    ///     after another commit.
    ///   - timeout: The longest wait; nil for no limit.
    ///
    /// Throws `StoreError`: `timeout`; `durabilityUnknown` if the transaction has arrived, but is not durable in time,
    /// or a sync fails; `tokenForeign`; `tokenDiverged`; `tokenExpired` if it is older than history; `closed`,
    /// `storeRemoved`, `storeReplaced`, `damaged`; `invalidArgument` in the body of a write.
    public func waitUntil(
        _ token: HistoryToken, durable isDurable: Bool = false, timeout: Duration? = nil
    ) throws {
        let isHere = try isHereAlready(token, durable: isDurable)
        if !isHere {
            let deadline = Duration.deadline(after: timeout)
            let wait = try ChangeWait(self, asynchronously: false)
            let outcome = try wait.find(until: deadline) { (engine) throws(StoreError) in
                try hasArrived(token, durable: isDurable, engine) ? true : nil
            }
            guard case .found = outcome else { throw try notInTime(token) }
        }
        if isDurable { try makeDurable(token) }
    }

    /// Waits without occupying a thread. Also throws `StoreError`: `cancelled` if the task is cancelled.
    public func waitUntil(
        _ token: HistoryToken, durable isDurable: Bool = false, timeout: Duration? = nil,
        isolation: isolated (any Actor)? = #isolation
    ) async throws {
        let isHere = try isHereAlready(token, durable: isDurable)
        if !isHere {
            let deadline = Duration.deadline(after: timeout)
            let wait = try ChangeWait(self, asynchronously: true)
            let outcome = try await wait.find(until: deadline, isolation: isolation) { (engine) throws(StoreError) in
                try hasArrived(token, durable: isDurable, engine) ? true : nil
            }
            if case .stopped = outcome {
                throw StoreError(.cancelled, "The task was cancelled while it waited for a transaction.", path: path)
            }
            guard case .found = outcome else { throw try notInTime(token) }
        }
        // A sync takes long, so it must not run on a thread of the task's pool.
        if isDurable { try await offThread { () throws(StoreError) in try self.makeDurable(token) } }
    }

    private func isHereAlready(_ token: HistoryToken, durable isDurable: Bool) throws(StoreError) -> Bool {
        try requireOwner(token)
        return try hasArrived(token, durable: isDurable, engine)
    }

    /// Whether the wait is over.
    private func hasArrived(
        _ token: HistoryToken, durable isDurable: Bool, _ engine: Engine
    ) throws(StoreError) -> Bool {
        switch try arrival(of: token, engine) {
        case .missing: false
        case .durable: true
        case .visible: !isDurable || options.access == .readWrite
        }
    }

    private func arrival(of token: HistoryToken, _ engine: Engine) throws(StoreError) -> Arrival {
        let view = try engine.viewOfThisFile()
        if token.number > view.number { return .missing }
        try require(token, self.engine)
        let end = try engine.view(asOf: token.number).end
        return engine.durableEnd >= end ? .durable : .visible
    }

    private func makeDurable(_ token: HistoryToken) throws(StoreError) {
        try handle.onNewest { (engine) throws(StoreError) in
            let end = try engine.view(asOf: token.number).end
            if engine.durableEnd < end { try engine.makeDurable(through: end) }
        }
    }

    private func notInTime(_ token: HistoryToken) throws(StoreError) -> StoreError {
        if case .visible = try arrival(of: token, engine) {
            return StoreError(
                .durabilityUnknown,
                "Transaction \(token.number) has arrived, but may not survive a power failure yet: wait longer, or "
                    + "open the store for writing, which makes it durable.", path: path)
        }
        return StoreError(
            .timeout,
            "Transaction \(token.number) has not arrived in time: wait longer, or ask the sender of the token whether "
                + "it was committed.",
            path: path)
    }

    /// Runs a function that waits in system calls on a thread of its own.
    private func offThread(_ body: @escaping @Sendable () throws(StoreError) -> Void) async throws(StoreError) {
        let failure: StoreError? = await withCheckedContinuation { continuation in
            do throws(StoreError) {
                _ = try BackgroundThread(name: "annals-wait") {
                    do throws(StoreError) {
                        try body()
                        continuation.resume(returning: nil)
                    } catch {
                        continuation.resume(returning: error)
                    }
                }
            } catch {
                continuation.resume(returning: error)
            }
        }
        if let failure { throw failure }
    }
}
