// Tokens and numbers: which place in history they name, or why none.

extension Store {
    /// The place directly after the newest transaction. Contains everything acknowledged before the call, in any
    /// process.
    ///
    /// Throws `StoreError`.
    public var currentToken: HistoryToken {
        get throws { try snapshot().token }
    }

    /// The place up to which everything is known to survive the loss of power: where what was cleaned is not durable
    /// yet, history does not reach back to it. Linear in what stands from the MiB in which that ends to the first
    /// transaction after it. Throws `StoreError`: `closed`, `damaged`.
    public var durableToken: HistoryToken {
        get throws {
            let (engine, newest) = try newest()
            return try token(
                ofNumber: try engine.tracked(newest).lastDurableNumber(), engine,
                newest)
        }
    }

    /// The state directly after that transaction. It has no indexes: ranges sort the objects. Throws `StoreError`:
    /// `tokenUnknown`, `tokenExpired`.
    public func snapshot(asOf number: UInt64) throws -> Snapshot {
        let (engine, newest) = try newest()
        try require(number, engine, newest)
        return Snapshot(try engine.view(asOf: number), engine, identifier)
    }

    /// The state at that place in history. Throws `StoreError`: `tokenForeign`, `tokenUnknown`, `tokenExpired`,
    /// `tokenDiverged`.
    public func snapshot(asOf token: HistoryToken) throws -> Snapshot {
        try validate(token)
        return try snapshot(asOf: token.number)
    }

    /// A state to read everything from, and the place after it, to go on from: for a caller without a token, or with
    /// one that is no place in history any more. The snapshot contains exactly the transactions up to the token.
    ///
    /// Throws `StoreError`.
    public func resync() throws -> (snapshot: Snapshot, token: HistoryToken) {
        let snapshot = try snapshot()
        return (snapshot, snapshot.token)
    }

    /// The place that history begins at: what came before it is not held any more. Number 0 if nothing was ever
    /// cleaned. Throws `StoreError`: `closed`,
    /// `damaged`.
    public var oldestToken: HistoryToken {
        get throws { try oldestToken(newest().engine) }
    }

    func oldestToken(_ engine: Engine) throws(StoreError) -> HistoryToken {
        let oldest = try engine.oldest()
        return HistoryToken(storeIdentifier: identifier, number: oldest.number, tag: oldest.tag)
    }

    /// Throws if the token is no place in this store's history: `tokenForeign`, `tokenUnknown`, `tokenExpired`,
    /// `tokenDiverged`.
    public func validate(_ token: HistoryToken) throws { try require(token, engine) }

    func require(_ token: HistoryToken, _ engine: Engine) throws(StoreError) {
        try requireOwner(token)
        let newest = try engine.viewOfThisFile()
        try require(token.number, engine, newest)
        guard try self.token(ofNumber: token.number, engine, newest).tag == token.tag else {
            throw StoreError(
                .tokenDiverged,
                "The store has another transaction \(token.number) than the token: what it saw was lost with the "
                    + "power, or the store was replaced by an older copy. Read "
                    + "everything anew and go on from the current token.", path: path)
        }
    }

    /// Throws `tokenForeign`.
    func requireOwner(_ token: HistoryToken) throws(StoreError) {
        guard token.storeIdentifier == identifier else {
            throw StoreError(
                .tokenForeign,
                "The token is of the store \(token.storeIdentifier), and this is \(identifier): use each token with "
                    + "its own store.",
                path: path)
        }
    }

    /// Throws if history does not have the place directly after that number.
    func require(_ number: UInt64, _ engine: Engine, _ newest: View) throws(StoreError) {
        guard let code = engine.tracked(newest).coverage.refusal(of: number, newest: newest.number) else { return }
        if code == .tokenExpired { throw expired("History does not reach back to transaction \(number)", engine) }
        throw StoreError(
            code,
            "What is read has no transaction \(number): its newest is \(newest.number). The token may be of another "
                + "copy, or newer than a snapshot.", path: path)
    }

    /// With the token of the oldest place that there is.
    func expired(_ what: String, _ engine: Engine) -> StoreError {
        StoreError(
            .tokenExpired,
            what
                + ": it begins behind transaction \(engine.oldestNumber). Read everything anew and go on from the "
                + "state that was read.",
            path: path, oldestToken: try? oldestToken(engine))
    }

    func token(ofNumber number: UInt64, _ engine: Engine, _ newest: View) throws(StoreError) -> HistoryToken {
        let tag = number == newest.number ? newest.tag : try engine.view(asOf: number).tag
        return HistoryToken(storeIdentifier: identifier, number: number, tag: tag)
    }
}
