// Cleaning history, and freeing its space.

public import FoundationEssentials

extension Store {
    /// The result of a compaction.
    public typealias CompactionResult = Annals.CompactionResult

    /// The progress of a compaction.
    public typealias CompactionProgress = Annals.CompactionProgress

    /// Removes transactions with a smaller number from history: all of them, or those by some authors.
    ///
    /// The objects keep the state in which these transactions left them. This takes one short frame, for any number of
    /// transactions; `compact` frees their space. Requesting history from before them throws `tokenExpired`. With
    /// authors, only a request that begins before a cleaned transaction throws, if it would show that transaction. A
    /// request from the beginning of history selects the remaining transactions. The values of these transactions stay
    /// in the file until everything before them is cleaned.
    ///
    /// - Parameters:
    ///   - number: The first transaction that stays. A number above the last transaction's cleans everything.
    ///   - authors: Only transactions by these authors; a nil element means no author. Nil for all transactions.
    /// - Returns: Whether the call cleaned anything.
    ///
    /// Throws `StoreError`: `readOnly`, `busy`, `noSpace`, `durabilityUnknown`.
    @discardableResult
    public func deleteHistory(before number: UInt64, authors: [String?]? = nil) throws -> Bool {
        try handle.onNewest { (engine) throws(StoreError) in
            try engine.deleteHistory(before: number, authors: authors, durability: options.durability)
        }
    }

    /// Removes the transactions before a token's transaction, which stays. An expired token cleans nothing. Also throws
    /// `StoreError`: `tokenForeign`, `tokenUnknown`, `tokenDiverged`.
    @discardableResult
    public func deleteHistory(before token: HistoryToken, authors: [String?]? = nil) throws -> Bool {
        do throws(StoreError) {
            try require(token, engine)
        } catch  where error.code == .tokenExpired {
            return false
        }
        return try deleteHistory(before: token.number, authors: authors)
    }

    /// Removes all transactions that were committed before a date. Also throws `StoreError`: `invalidArgument` for an
    /// invalid date.
    @discardableResult
    public func deleteHistory(before date: Date, authors: [String?]? = nil) throws -> Bool {
        try deleteHistory(before: try number(before: date), authors: authors)
    }

    /// The first transaction that was committed at the date or later; the number after the last transaction without
    /// one.
    package func number(before date: Date) throws(StoreError) -> UInt64 {
        let moment = try microseconds(date)
        let (engine, view) = try newest()
        if moment == .min { return 0 }
        return try engine.tracked(view).lastNumber(through: moment - 1) + 1
    }

    /// Writes a copy of the store's present state to a new file. This and other handles may read and write at the same
    /// time. The copy is compacted.
    ///
    /// - Parameters:
    ///   - path: The new file. Nothing may exist there. The file gets this name when it is complete and durable.
    ///   - newIdentity: If false, the copy is the same store: tokens of one are valid in the other for as long as both
    ///     have the same transactions. If true, the copy is a store of its own, without consumers. Its history is
    ///     that of this store.
    ///   - progress: Called every few MiB, on this thread. Return false to cancel.
    /// - Returns: The place in the copy's history at which it was copied.
    ///
    /// Throws `StoreError`: `alreadyExists`, `notFound` if the directory does not exist, `noSpace`, `busy` (another
    /// backup is being written there), `damaged`, `cancelled`. If it throws, there is no copy. Linear in the copied
    /// data.
    @discardableResult
    public func backup(
        to path: String, newIdentity: Bool = false, progress: (@Sendable (CompactionProgress) -> Bool)? = nil
    ) throws -> HistoryToken {
        var chosen = CompactionOptions()
        chosen.progress = progress
        let result = try handle.backUp(
            to: path, in: try Self.files(for: path), newIdentity: newIdentity, chosen)
        return HistoryToken(storeIdentifier: UUID(result.storeID), number: result.number, tag: result.tag)
    }

    /// History begins after the transaction with this number: 0 if nothing was cleaned yet. Throws `StoreError`.
    public var horizon: UInt64 {
        get throws { try newest().engine.tracking.horizon }
    }
}
