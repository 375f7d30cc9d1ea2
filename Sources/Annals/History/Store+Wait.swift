// Waiting until a transaction that somebody speaks of has arrived here, and survives.

extension Store {
    /// How far a transaction has come.
    private enum Arrival: Sendable {
        case missing
        /// There, and it may be lost with the power.
        case visible
        case durable
    }

    /// Waits until the store contains a token's transaction, whichever process commits it: afterwards every snapshot
    /// has it.
    ///
    /// - Parameters:
    ///   - token: As another process or thread was given it.
    ///   - isDurable: Whether to wait until it survives the loss of power. A store open for writing sees to that
    ///     itself; one that is open for reading waits until the file says so, which may be only when somebody commits
    ///     again.
    ///   - timeout: How long to wait at most; nil for as long as it takes.
    ///
    /// Throws `StoreError`: `timeout`; `durabilityUnknown` where it is there but not known to be durable, in time or at
    /// all; `tokenForeign`, `tokenDiverged`, `tokenExpired`
    /// (it is older than history); `closed`, `storeRemoved`, `storeReplaced`, `damaged`; `invalidArgument` in the body
    /// of a write.
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

    /// The same without occupying a thread. Throws `StoreError`: `cancelled` besides, where the task is.
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
                throw StoreError(.cancelled, "The task that waited for a transaction was cancelled.", path: path)
            }
            guard case .found = outcome else { throw try notInTime(token) }
        }
        // A sync takes its time: not on a thread of the task's.
        if isDurable { try await offThread { () throws(StoreError) in try self.makeDurable(token) } }
    }

    private func isHereAlready(_ token: HistoryToken, durable isDurable: Bool) throws(StoreError) -> Bool {
        try requireOwner(token)
        return try hasArrived(token, durable: isDurable, engine)
    }

    /// Whether there is nothing more to wait for.
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
        try generations.onNewest { (engine) throws(StoreError) in
            let end = try engine.view(asOf: token.number).end
            if engine.durableEnd < end { try engine.makeDurable(through: end) }
        }
    }

    private func notInTime(_ token: HistoryToken) throws(StoreError) -> StoreError {
        if case .visible = try arrival(of: token, engine) {
            return StoreError(
                .durabilityUnknown,
                "Transaction \(token.number) is there, and the file does not say yet that it survives the loss of "
                    + "power: wait longer, or "
                    + "open the store for writing, which can see to that.", path: path)
        }
        return StoreError(
            .timeout,
            "Transaction \(token.number) has not come in time: wait longer, or ask whoever gave the token whether it "
                + "was committed.",
            path: path)
    }

    /// Runs what waits in system calls on a thread of its own.
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
