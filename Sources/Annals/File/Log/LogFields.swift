// The fields that the two locks of a handle guard.

/// The fields that `Log.writer` guards.
struct WriterFields {
    var hasAppended = false
    /// On the wall clock; nil for never.
    var lastIdentityCheck: Int64?
    var lastOrigin: TransactionOrigin?
    /// Nil before the first append.
    var appender: Appender?
    var keeping: LockKeeping
    /// The checkpoint that a hint names, as far as this handle knows.
    var hintedCheckpoint: UInt64
    /// The end that the next hint will name as durable.
    var nextHint: (end: UInt64, number: UInt64)?
    /// The time of the last hint: that of a transaction.
    var hintedAt: Int64?

    init(keeping: LockKeeping, hintedCheckpoint: UInt64) {
        (self.keeping, self.hintedCheckpoint) = (keeping, hintedCheckpoint)
    }
}

/// The fields that `Log.follow` guards: this handle's knowledge of the file.
struct KnownFields {
    var state: LogState
    var isAppending = false
    /// Whether a torn tail follows `state.end`, and no recovery frame yet.
    var isTailTorn = false
    /// Whether this handle, holding the lock, has judged everything above `state.end` since it was opened or failed to
    /// write.
    var isTailJudged = false
    /// The file has had at least this size; it never shrinks below one page beyond the end.
    var seenSize: UInt64
    /// The file has at least this size as long as nothing follows `state.end`, because cutting a file leaves bytes
    /// there: G4. 0 if unknown.
    var knownSize: UInt64 = 0
    /// Why the follower could not adopt a frame of another handle. It may have adopted a part; this handle reads and
    /// writes nothing more.
    var adoptionFailure: StoreError?
    /// Whether the mapping may show another file than the descriptor reads (`requireLiveMapping`).
    var mayMapOtherFile: Bool
    /// The second of `coarseSeconds` in which this handle last saw that its file still has the name.
    var lookedAtPlace: Int64

    init(state: LogState, size: UInt64, mayMapOtherFile: Bool, lookedAtPlace: Int64) {
        (self.state, seenSize, self.mayMapOtherFile, self.lookedAtPlace) = (state, size, mayMapOtherFile, lookedAtPlace)
    }
}
