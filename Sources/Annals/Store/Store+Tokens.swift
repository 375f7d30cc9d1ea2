// Tokens and numbers: which place in history they name, or why none.

internal import AnnalsFile

extension Store {
    /// The place right behind the newest transaction. Contains everything acknowledged before the call, in any process.
    public var currentToken: HistoryToken {
        get throws(StoreError) { try snapshot().token }
    }

    /// The place up to which everything is known to survive the loss of power. Logarithmic in the number of transactions where that is not
    /// the newest.
    public var durableToken: HistoryToken {
        get throws(StoreError) {
            let (engine, newest) = try newest()
            var low = engine.log.header.baseNumber
            var high = newest.number + 1
            // The number `low` is durable, `high` is not.
            while high - low > 1 {
                // The newest is by far the likeliest.
                let middle = high > newest.number ? newest.number : low + (high - low) / 2
                if try isDurable(middle, newest, engine) { low = middle } else { high = middle }
            }
            return try token(ofNumber: low, newest, engine)
        }
    }

    /// Marks of what is durable stand between frames: one above the start of a commit frame is above its end too.
    private func isDurable(_ number: UInt64, _ newest: View, _ engine: Engine) throws(StoreError) -> Bool {
        let durableEnd = engine.durableEnd
        var isDurable = false
        try mapping { () throws(FileError) in
            try engine.forEachTransaction(after: number - 1, in: newest) { (transaction) throws(FileError) in
                isDurable = transaction.commitFrame < durableEnd
                return false
            }
        }
        return isDurable
    }

    /// The state right behind that transaction. It has no indexes: ranges sort the objects. Throws `tokenUnknown`, `tokenExpired`.
    public func snapshot(asOf number: UInt64) throws(StoreError) -> Snapshot {
        let (engine, newest) = try newest()
        try check(number, newest, engine)
        return Snapshot(try mapping { () throws(FileError) in try engine.view(asOf: number) }, engine, identifier)
    }

    /// The state at that place in history. Throws `tokenForeign`, `tokenUnknown`, `tokenExpired`, `tokenDiverged`.
    public func snapshot(asOf token: HistoryToken) throws(StoreError) -> Snapshot {
        try check(token)
        return try snapshot(asOf: token.number)
    }

    /// Throws where the token is no place in this store's history: `tokenForeign`, `tokenUnknown`, `tokenExpired`, `tokenDiverged`.
    public func check(_ token: HistoryToken) throws(StoreError) {
        guard token.storeIdentifier == identifier else {
            throw StoreError(
                .tokenForeign,
                "The token is of the store \(token.storeIdentifier), and this is \(identifier): use each token with its own store.",
                path: path)
        }
        let (engine, newest) = try newest()
        try check(token.number, newest, engine)
        guard try self.token(ofNumber: token.number, newest, engine).tag == token.tag else {
            throw StoreError(
                .tokenDiverged,
                "The store has another transaction \(token.number) than the token: what it saw was lost with the power. Read "
                    + "everything anew and go on from the current token.", path: path)
        }
    }

    /// Throws where history does not have the place right behind that number.
    func check(_ number: UInt64, _ newest: View, _ engine: Engine) throws(StoreError) {
        guard number <= newest.number else {
            throw StoreError(
                .tokenUnknown,
                "The store has no transaction \(number): its newest is \(newest.number). The token may be of another copy.",
                path: path)
        }
        let oldest = engine.tracking.horizon
        guard number >= oldest else {
            throw StoreError(
                .tokenExpired,
                "History begins behind transaction \(oldest), and does not reach back to \(number): read everything anew and "
                    + "go on from the current token.", path: path)
        }
    }

    /// Throws where transactions behind that number are hidden: an answer without them would not be all.
    func checkHidden(after number: UInt64, _ view: View, _ engine: Engine) throws(StoreError) {
        guard let hidden = try mapping({ () throws(FileError) in try engine.lastHidden(after: number, in: view) })
        else {
            return
        }
        throw StoreError(
            .tokenExpired,
            "Transactions up to \(hidden) were cleaned, some of them behind \(number): read everything anew and go on from the current "
                + "token.", path: path)
    }

    private func token(ofNumber number: UInt64, _ newest: View, _ engine: Engine) throws(StoreError) -> HistoryToken {
        let header = engine.log.header
        let tag: UInt64
        if number == newest.number {
            tag = newest.tag
        } else if number == header.baseNumber {
            tag = header.baseTag
        } else {
            tag = try mapping { () throws(FileError) in try engine.view(asOf: number) }.tag
        }
        return HistoryToken(storeIdentifier: identifier, number: number, tag: tag)
    }
}
