// The retention of history, the effect of cleaning now, and the readers that keep it from removing more.

extension Store {
    /// The time and space for which history is kept, even if consumers have not read it. Older or larger history is
    /// removed automatically.
    ///
    /// It is a setting of the store, for all its users. Commits apply it, at most once a minute or every 16 MiB.
    public struct Retention: Hashable, Sendable {
        /// Older transactions are removed; nil for no limit.
        public var age: Duration?
        /// The most space that history may take: about the space that compaction would free if all history were
        /// cleaned. Rows of existing objects do not count. Nil for no limit.
        public var bytes: UInt64?

        /// Keeps history up to this age and size; nil for no limit.
        public init(age: Duration?, bytes: UInt64?) { (self.age, self.bytes) = (age, bytes) }

        /// 7 days or 1 GiB: the retention of a store without a setting.
        public static let standard = Retention(.standard)
        /// Nothing is removed automatically.
        public static let forever = Retention(age: nil, bytes: nil)
        /// No history: transactions are removed at the next look.
        public static let none = Retention(age: .zero, bytes: nil)

        init(_ limits: RetentionLimits) {
            age = limits.microseconds == .max ? nil : .microseconds(Int64(clamping: limits.microseconds))
            bytes = limits.bytes == .max ? nil : limits.bytes
        }

        var file: RetentionLimits {
            RetentionLimits(microseconds: age?.wholeMicroseconds ?? .max, bytes: bytes ?? .max)
        }
    }

    /// The effect of cleaning now, and the readers that keep it from removing more.
    public struct CleaningPlan: Hashable, Sendable {
        /// The number of the first transaction that would stay.
        public let before: UInt64
        /// The number of transactions that would be removed.
        public let transactions: UInt64
        /// An estimate of the bytes that compaction would then free.
        public let regainedBytes: UInt64
        /// The readers that have not read everything, the slowest first. Their `lastSeen` shows since when.
        public let waitingFor: [Consumer]
        /// The readers for which retention does not wait: they would be lost.
        public let overtaken: [Consumer]
    }

    /// The retention of history in this store: 7 days or 1 GiB, unless set otherwise.
    ///
    /// Throws `StoreError`.
    public var retention: Retention {
        get throws { Retention(try newest().engine.tracking.retention) }
    }

    /// Sets the retention of history, from now on, for all users of the store.
    ///
    /// Ages are measured with the machine's clock and the commit times of transactions. A jump of the clock by more
    /// than an hour is not believed at once: because of the jump alone, nothing is removed until the new time has
    /// lasted an hour. Then the next commit removes it. If the clock is set back before then, the jump has no effect. A
    /// clock that stays wrong for more than an hour is believed. `clean` always believes the clock.
    ///
    /// Throws `StoreError`: `invalidArgument` for an age below zero; and as `write`.
    public func setRetention(_ retention: Retention) throws {
        guard retention.age.map({ $0 >= .zero }) ?? true else {
            throw StoreError(
                .invalidArgument,
                "The age of history to keep is negative: pass zero or more, or nil for no limit.")
        }
        try handle.onNewest { (engine) throws(StoreError) in
            try engine.setRetention(retention.file, durability: options.durability)
        }
    }

    /// The effect of `clean` now: it removes everything that all registered readers have read, and everything beyond
    /// the retention. Without a registered reader, only the latter; that of the search indexes alone does not count.
    /// Logarithmic in the number of transactions.
    ///
    /// - Parameter number: If given, the plan describes `deleteHistory(before:)` instead.
    ///
    /// Throws `StoreError`.
    public func cleaningPlan(before number: UInt64? = nil) throws -> CleaningPlan {
        let (engine, view) = try newest()
        let readers = try registeredConsumers().filter { $0.kind.contains(.reads) && !$0.isLost }
            .inOrder { ($0.cursor.number, $0.name) < ($1.cursor.number, $1.name) }
        let isRead = readers.contains { !$0.isOwn }
        let read = isRead ? readers.first.map { $0.cursor.number + 1 } ?? 0 : 0
        let estimate = try engine.estimate(before: try number ?? max(read, engine.firstRetained(in: view)), in: view)
        return CleaningPlan(
            before: estimate.before, transactions: estimate.transactions, regainedBytes: estimate.regainedBytes,
            waitingFor: readers.filter { $0.lag > 0 },
            overtaken: readers.filter { $0.cursor.number + 1 < estimate.before })
    }

    /// Removes the history that all registered readers have read, and the history beyond the retention. `compact` frees
    /// its space.
    ///
    /// Believes the machine's clock, even directly after a jump. `cleaningPlan` shows the effect in advance.
    ///
    /// - Returns: The plan that was carried out.
    ///
    /// Throws as `deleteHistory`.
    @discardableResult
    public func clean() throws -> CleaningPlan {
        let plan = try cleaningPlan()
        if plan.transactions > 0 { try deleteHistory(before: plan.before) }
        return plan
    }
}
