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
            let newest = try mapping { () throws(FileError) in try engine.view() }
            var low = engine.log.header.baseNumber
            var high = newest.number + 1
            // The number `low` is durable, `high` is not.
            while high - low > 1 {
                // The newest is by far the likeliest.
                let middle = high > newest.number ? newest.number : low + (high - low) / 2
                if try isDurable(middle, newest) { low = middle } else { high = middle }
            }
            return try token(ofNumber: low, newest)
        }
    }

    /// Marks of what is durable stand between frames: one above the start of a commit frame is above its end too.
    private func isDurable(_ number: UInt64, _ newest: View) throws(StoreError) -> Bool {
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
        let newest = try mapping { () throws(FileError) in try engine.view() }
        try check(number, newest)
        return Snapshot(try mapping { () throws(FileError) in try engine.view(asOf: number) }, engine, identifier)
    }

    /// The state at that place in history. Throws `tokenForeign`, `tokenUnknown`, `tokenExpired`, `tokenDiverged`.
    public func snapshot(asOf token: HistoryToken) throws(StoreError) -> Snapshot {
        try check(token)
        return try snapshot(asOf: token.number)
    }

    /// Throws where the token is no place in this store's history: `tokenForeign`, `tokenUnknown`, `tokenExpired`, `tokenDiverged`.
    public func check(_ token: HistoryToken) throws(StoreError) {
        try checkOwner(token)
        let newest = try mapping { () throws(FileError) in try engine.view() }
        try check(token.number, newest)
        guard try self.token(ofNumber: token.number, newest).tag == token.tag else {
            throw StoreError(
                .tokenDiverged,
                "The store has another transaction \(token.number) than the token: what it saw was lost with the power. Read "
                    + "everything anew and go on from the current token.", path: path)
        }
    }

    /// Throws `tokenForeign`.
    func checkOwner(_ token: HistoryToken) throws(StoreError) {
        guard token.storeIdentifier == identifier else {
            throw StoreError(
                .tokenForeign,
                "The token is of the store \(token.storeIdentifier), and this is \(identifier): use each token with its own store.",
                path: path)
        }
    }

    /// Throws where history does not have the place right behind that number.
    func check(_ number: UInt64, _ newest: View) throws(StoreError) {
        guard number <= newest.number else {
            throw StoreError(
                .tokenUnknown,
                "The store has no transaction \(number): its newest is \(newest.number). The token may be of another copy.",
                path: path)
        }
        let oldest = engine.log.header.baseNumber
        guard number >= oldest else {
            throw StoreError(
                .tokenExpired,
                "History begins behind transaction \(oldest), and does not reach back to \(number): read everything anew and "
                    + "go on from the current token.", path: path)
        }
    }

    private func token(ofNumber number: UInt64, _ newest: View) throws(StoreError) -> HistoryToken {
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
