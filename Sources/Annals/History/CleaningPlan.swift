// How long history stays, what would go now, and who keeps it.

extension Store {
    /// How long history stays, whether its consumers have read it or not: what is older, or more, goes by itself.
    ///
    /// Said in the store, for all who use it. Applied by commits, at most once a minute or every 16 MiB.
    public struct Retention: Hashable, Sendable {
        /// Nil for any age.
        public var age: Duration?
        /// What compaction would free if all history were cleaned, about; rows of objects that there are do not
        /// count. Nil for any size.
        public var bytes: UInt64?

        /// What is older, or more, goes.
        public init(age: Duration?, bytes: UInt64?) { (self.age, self.bytes) = (age, bytes) }

        /// 7 days or 1 GiB: what counts for a store of which nothing was said.
        public static let standard = Retention(.standard)
        /// Nothing goes by itself.
        public static let forever = Retention(age: nil, bytes: nil)
        /// History is off: what is committed goes at the next look.
        public static let none = Retention(age: .zero, bytes: nil)

        init(_ limits: RetentionLimits) {
            age = limits.microseconds == .max ? nil : .microseconds(Int64(clamping: limits.microseconds))
            bytes = limits.bytes == .max ? nil : limits.bytes
        }

        var file: RetentionLimits {
            RetentionLimits(microseconds: age?.wholeMicroseconds ?? .max, bytes: bytes ?? .max)
        }
    }

    /// What cleaning would do now, and who keeps it from doing more.
    public struct CleaningPlan: Hashable, Sendable {
        /// The first transaction that would stay.
        public let before: UInt64
        /// How many transactions would go.
        public let transactions: UInt64
        /// What compaction would free then, about.
        public let regainedBytes: UInt64
        /// The readers that have not read everything, the one that is furthest behind first; since when: its
        /// `lastSeen`.
        public let waitingFor: [Consumer]
        /// Those among them that retention does not wait for: they would be lost.
        public let overtaken: [Consumer]
    }

    /// How long history stays in this store. 7 days or 1 GiB unless somebody has said otherwise.
    ///
    /// Throws `StoreError`.
    public var retention: Retention {
        get throws { Retention(try newest().engine.tracking.retention) }
    }

    /// Says how long history stays, for everybody who uses the store, from now on. Throws as committing does.
    ///
    /// Ages are measured with the machine's clock and the times that transactions were committed at. A jump of more
    /// than an hour is not believed at once: until the new time has lasted for an hour, nothing goes by itself because
    /// of the jump. It goes with the first commit after that. If the clock is set back, the age that the jump added is
    /// gone. A clock that stays wrong for longer than an hour is believed. `clean` believes the clock as it is.
    public func setRetention(_ retention: Retention) throws {
        try generations.onNewest { (engine) throws(StoreError) in
            try engine.setRetention(retention.file, durability: options.durability)
        }
    }

    /// What `clean` would do now: everything goes that all registered readers have read, and what retention does not
    /// keep. Where no reader is registered, only the latter. Logarithmic in the number of transactions.
    ///
    /// - Parameter number: Instead of that, what `deleteHistory(before:)` would do.
    ///
    /// Throws `StoreError`.
    public func cleaningPlan(before number: UInt64? = nil) throws -> CleaningPlan {
        let (engine, view) = try newest()
        let readers = try registeredConsumers().filter { $0.kind.contains(.reads) && !$0.isLost }
            .sorted { ($0.cursor.number, $0.name) < ($1.cursor.number, $1.name) }
        let read = readers.first.map { $0.cursor.number + 1 } ?? 0
        let estimate = try engine.estimate(before: try number ?? max(read, engine.firstRetained(in: view)), in: view)
        return CleaningPlan(
            before: estimate.before, transactions: estimate.transactions, regainedBytes: estimate.regainedBytes,
            waitingFor: readers.filter { $0.lag > 0 },
            overtaken: readers.filter { $0.cursor.number + 1 < estimate.before })
    }

    /// Cleans what all registered readers have read, and what retention does not keep. `compact` gives its space back.
    ///
    /// Believes the machine's clock, also directly after a jump: `cleaningPlan` tells before what would go.
    ///
    /// - Returns: what was done.
    ///
    /// Throws as `deleteHistory`.
    @discardableResult
    public func clean() throws -> CleaningPlan {
        let plan = try cleaningPlan()
        if plan.transactions > 0 { try deleteHistory(before: plan.before) }
        return plan
    }
}
