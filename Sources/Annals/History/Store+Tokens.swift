// Tokens and numbers: the place in history that they name, or the error for a missing one.

extension Store {
    /// The place directly after the newest transaction. It includes everything that was acknowledged before the call,
    /// in any process.
    ///
    /// Throws `StoreError`.
    public var currentToken: HistoryToken {
        get throws { try snapshot().token }
    }

    /// The place up to which everything is known to survive a power failure. If cleaning itself is not durable yet,
    /// history may not reach back to this place. Linear in the bytes from the beginning of the MiB where the durable
    /// part ends to the next transaction. Throws `StoreError`: `closed`, `damaged`.
    public var durableToken: HistoryToken {
        get throws {
            let (engine, newest) = try newest()
            return try token(
                ofNumber: try engine.tracked(newest).lastDurableNumber(), engine,
                newest)
        }
    }

    /// Returns the state directly after that transaction. It has no indexes, so ranges sort the objects. Throws
    /// `StoreError`: `tokenUnknown`, `tokenExpired`.
    public func snapshot(asOf number: UInt64) throws -> Snapshot {
        let (engine, newest) = try newest()
        try require(number, engine, newest)
        return Snapshot(try engine.view(asOf: number), engine, identifier)
    }

    /// Returns the state at that place in history. Throws `StoreError`: `tokenForeign`, `tokenUnknown`, `tokenExpired`,
    /// `tokenDiverged`.
    public func snapshot(asOf token: HistoryToken) throws -> Snapshot {
        try validate(token)
        return try snapshot(asOf: token.number)
    }

    /// The place after which history has all transactions. Number 0 if nothing was cleaned yet.
    ///
    /// If the transactions of some authors were cleaned, it is the place after the last of these. History still has
    /// earlier transactions of other authors; `HistoryRequest.Place.oldest` selects them. Linear in the transactions
    /// from the beginning of history to this place. Throws `StoreError`: `closed`, `damaged`.
    public var oldestToken: HistoryToken {
        get throws { try oldestToken(newest().engine) }
    }

    func oldestToken(_ engine: Engine) throws(StoreError) -> HistoryToken {
        let oldest = try engine.oldest()
        let view = try engine.viewOfThisFile()
        let history = engine.tracked(view)
        if let cleaned = try history.lastCleaned(history.coverage, after: oldest.number) {
            return try token(ofNumber: cleaned, engine, view)
        }
        return HistoryToken(storeIdentifier: identifier, number: oldest.number, tag: oldest.tag)
    }

    /// Throws if the token is not a place in this store's history: `tokenForeign`, `tokenUnknown`, `tokenExpired`,
    /// `tokenDiverged`.
    public func validate(_ token: HistoryToken) throws { try require(token, engine) }

    func require(_ token: HistoryToken, _ engine: Engine) throws(StoreError) {
        try requireOwner(token)
        let newest = try engine.viewOfThisFile()
        try require(token.number, engine, newest)
        try requireTag(token, engine, newest)
    }

    /// Throws `tokenDiverged` if the file holds another transaction of that number, cleaned or not.
    func requireTag(_ token: HistoryToken, _ engine: Engine, _ newest: View) throws(StoreError) {
        let header = engine.log.header
        let tag =
            token.number <= header.baseNumber
            ? header.tag(ofFolded: token.number) : try self.token(ofNumber: token.number, engine, newest).tag
        guard tag ?? token.tag == token.tag else {
            throw StoreError(
                .tokenDiverged,
                "The token and the store have different transactions \(token.number): the token's transaction was lost "
                    + "in a power failure, or an older copy replaced the store. Read everything again and continue "
                    + "from the current token.", path: path)
        }
    }

    /// Throws `tokenForeign`.
    func requireOwner(_ token: HistoryToken) throws(StoreError) {
        guard token.storeIdentifier == identifier else {
            throw StoreError(
                .tokenForeign,
                "The token belongs to the store \(token.storeIdentifier), but this store is \(identifier): use each "
                    + "token with its own store.",
                path: path)
        }
    }

    /// Throws if history does not contain the place directly after that number.
    func require(_ number: UInt64, _ engine: Engine, _ newest: View) throws(StoreError) {
        guard let code = engine.tracked(newest).coverage.refusal(of: number, newest: newest.number) else { return }
        if code == .tokenExpired { throw expired("History does not reach back to transaction \(number)", engine) }
        throw StoreError(
            code,
            "There is no transaction \(number) here: the newest is \(newest.number). The token may be from another "
                + "copy, or newer than a snapshot.", path: path)
    }

    /// The error, with the token of the oldest place in history.
    func expired(_ what: String, _ engine: Engine) -> StoreError {
        let oldest = try? oldestToken(engine)
        return StoreError(
            .tokenExpired,
            what
                + ": it begins after transaction \(oldest?.number ?? engine.oldestNumber). Read everything again and "
                + "continue from the state that you read.",
            path: path, oldestToken: oldest)
    }

    func token(ofNumber number: UInt64, _ engine: Engine, _ newest: View) throws(StoreError) -> HistoryToken {
        let tag = number == newest.number ? newest.tag : try engine.view(asOf: number).tag
        return HistoryToken(storeIdentifier: identifier, number: number, tag: tag)
    }
}
