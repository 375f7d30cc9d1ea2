// Cleaning history, and giving its space back.

public import FoundationEssentials

extension Store {
    /// What a compaction has done.
    public struct CompactionResult: Hashable, Sendable {
        /// The size of the file before, in bytes.
        public let bytesBefore: UInt64
        /// The size of the file after, in bytes.
        public let bytesAfter: UInt64
        /// History now begins after this transaction.
        public let horizon: UInt64
    }

    /// From now on transactions with a smaller number are no longer returned as history: all of them, or those of some
    /// authors.
    ///
    /// Takes one short frame, whatever their number; `compact` gives their space back. What they changed stays changed.
    /// Requesting history from before them throws `tokenExpired`. With authors, that is so for a request that starts
    /// before a transaction that is cleaned and would show it; the values of these transactions stay in the file until
    /// everything before them is cleaned.
    ///
    /// - Parameters:
    ///   - number: The first transaction that stays; one above the last one's cleans everything.
    ///   - authors: Whose transactions; nil as an element for those without an author. Nil for everybody's.
    /// - Returns: Whether anything was cleaned that was not before.
    ///
    /// Throws `StoreError`: `readOnly`, `busy`, `noSpace`, `durabilityUnknown`.
    @discardableResult
    public func deleteHistory(before number: UInt64, authors: [String?]? = nil) throws -> Bool {
        try generations.onNewest { (engine) throws(StoreError) in
            try engine.deleteHistory(before: number, authors: authors, durability: options.durability)
        }
    }

    /// The same up to a token, whose own transaction stays. Throws `StoreError`: `tokenForeign`, `tokenUnknown`,
    /// `tokenDiverged` besides; a token that has
    /// expired cleans nothing.
    @discardableResult
    public func deleteHistory(before token: HistoryToken, authors: [String?]? = nil) throws -> Bool {
        do throws(StoreError) {
            try require(token, engine)
        } catch  where error.code == .tokenExpired {
            return false
        }
        return try deleteHistory(before: token.number, authors: authors)
    }

    /// The same for all transactions that were committed before a date. Throws `StoreError`: `invalidArgument` for one
    /// that is none.
    @discardableResult
    public func deleteHistory(before date: Date, authors: [String?]? = nil) throws -> Bool {
        try deleteHistory(before: try number(before: date), authors: authors)
    }

    /// The first transaction that was not committed before a date; one above the last one's where all were.
    package func number(before date: Date) throws(StoreError) -> UInt64 {
        guard !date.timeIntervalSinceReferenceDate.isNaN else {
            throw StoreError(.invalidArgument, "A date is no number: give another.")
        }
        let (engine, view) = try newest()
        let moment = Microseconds.from(date) ?? (date.timeIntervalSinceReferenceDate < 0 ? .min : .max)
        if moment == .min { return 0 }
        return try engine.tracked(view).lastNumber(through: moment - 1) + 1
    }

    /// Writes the store anew, without what nobody can read any more: history that was cleaned, that of entities whose
    /// history is off or was, rows that it alone kept, old indexes.
    ///
    /// Others read and write meanwhile. Writers wait for the last piece, and if it is written about as fast as
    /// this copies, for 10 of every 12 milliseconds until this has caught up; for longer where single transactions are
    /// as large as what is copied meanwhile. Snapshots and histories that are being read stay valid, and keep the old
    /// file's space until they end. It takes space for the new file beside the old one, named like the store with
    /// `.compacting` behind. Killed, out of space or cancelled, it leaves the store as it was.
    ///
    /// - Parameter progress: Called every few MiB, on this thread; false cancels.
    ///
    /// Throws `StoreError`: `readOnly`, `busy` (another process compacts, or writes and does not end), `noSpace`,
    /// `permissionDenied` where the owner cannot be kept,
    /// `damaged`, `cancelled`. Linear in what stays.
    @discardableResult
    public func compact(
        progress: (@Sendable (CompactionProgress) -> Bool)? = nil
    ) throws -> CompactionResult {
        var chosen = CompactionOptions()
        if let progress {
            chosen.progress = { progress(CompactionProgress(doneBytes: $0, totalBytes: $1)) }
        }
        let result = try generations.compact(chosen)
        return CompactionResult(
            bytesBefore: result.bytesBefore, bytesAfter: result.bytesAfter, horizon: result.baseNumber)
    }

    /// Writes a copy of the store, as it is when this is called, to a new file. Others read and write meanwhile, and so
    /// may this store. The copy is compacted.
    ///
    /// - Parameters:
    ///   - path: The new file: nothing of that name may be there. It gets its name when it is complete and durable.
    ///   - newIdentity: Without it the copy is the same store: tokens of the one are good for the other as long as it
    ///     has the same transactions. With it the copy is a store of its own, with no consumers; its history tells what
    ///     had happened in this one.
    ///   - progress: Called every few MiB, on this thread; false cancels.
    /// - Returns: the place in the copy's history that it is of.
    ///
    /// Throws `StoreError`: `alreadyExists`, `notFound` where the directory is not there, `noSpace`, `busy` (another
    /// backup is being written there), `damaged`, `cancelled`: then
    /// there is no copy. Linear in what is copied.
    @discardableResult
    public func backup(
        to path: String, newIdentity: Bool = false, progress: (@Sendable (CompactionProgress) -> Bool)? = nil
    ) throws -> HistoryToken {
        var chosen = CompactionOptions()
        if let progress {
            chosen.progress = { progress(CompactionProgress(doneBytes: $0, totalBytes: $1)) }
        }
        let result = try generations.backUp(to: path, newIdentity: newIdentity, chosen)
        return HistoryToken(storeIdentifier: UUID(result.storeID), number: result.number, tag: result.tag)
    }

    /// History begins after this transaction: 0 if nothing was cleaned yet. Throws `StoreError`.
    public var horizon: UInt64 {
        get throws { try newest().engine.tracking.horizon }
    }
}
