// Who reads a store's history, or writes it: registered in the store, so that cleaning can wait for the readers.

public import FoundationEssentials

/// A registered consumer of history, as it was when it was requested.
public struct Consumer: Hashable, Sendable, Codable {
    /// What a consumer does with the store.
    public struct Kind: OptionSet, Hashable, Sendable, Codable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// It reads history: cleaning waits until it has read it.
        public static let reads = Kind(rawValue: 1)
        /// It writes: for information only, nobody waits for it.
        public static let writes = Kind(rawValue: 2)
    }

    /// Mostly the author that it writes as, so that it can leave out its own transactions.
    public let name: String
    /// What it does with the store.
    public let kind: Kind
    /// The place after what it has read.
    public let cursor: HistoryToken
    /// When it last said so.
    public let lastSeen: Date
    /// When it was registered.
    public let registered: Date
    /// Of the process that said so.
    public let processID: Int
    /// How many transactions there are that it has not read.
    public let lag: UInt64
    /// Cleaning has passed its cursor, because it was too far behind: it has to read everything anew (`resync`,
    /// `resetConsumer`).
    public let isLost: Bool

    init(_ record: ConsumerRecord, _ store: UUID, last: UInt64, _ coverage: HistoryCoverage) {
        let place = record.place
        name = record.name
        kind = Kind(rawValue: Int(record.kind.rawValue))
        cursor = HistoryToken(storeIdentifier: store, number: place.number, tag: place.tag)
        lastSeen = Microseconds.date(record.lastSeen)
        registered = Microseconds.date(record.registered)
        processID = Int(record.processID)
        lag = last > place.number ? last - place.number : 0
        isLost = kind.contains(.reads) && place.number < coverage.horizon
    }
}

extension HistoryToken {
    var place: TransactionPlace { TransactionPlace(number: number, tag: tag) }
}

extension Store {
    /// The consumers that are registered, in the order in which they were. Throws `StoreError`.
    public var consumers: [Consumer] {
        get throws { try registeredConsumers() }
    }

    func registeredConsumers() throws(StoreError) -> [Consumer] {
        let (engine, view) = try newest()
        return engine.tracking.consumers.map { consumer($0, engine, view) }
    }

    /// The consumer of that name; nil if none is registered. Throws `StoreError`.
    public func consumer(_ name: String) throws -> Consumer? {
        let (engine, view) = try newest()
        return engine.tracking.consumer(name).map { consumer($0, engine, view) }
    }

    private func consumer(_ record: ConsumerRecord, _ engine: Engine, _ view: View) -> Consumer {
        Consumer(record, identifier, last: view.number, engine.tracked(view).coverage)
    }

    /// Registers a consumer of history: from now on cleaning waits for it, as far as retention allows. One that is
    /// registered already keeps its cursor, and does from now on what `kind` says.
    ///
    /// - Parameters:
    ///   - name: 1 to 1024 bytes of UTF-8; a store has at most 1000 consumers.
    ///   - kind: What it does with the store.
    ///   - token: What it has seen already; nil for everything up to now.
    /// - Returns: the consumer, with the cursor to go on from.
    ///
    /// Throws `StoreError`: `invalidArgument`, `tooLarge`, what `validate` throws for the token, and what committing
    /// throws.
    @discardableResult
    public func registerConsumer(
        _ name: String, kind: Consumer.Kind = .reads, at token: HistoryToken? = nil
    ) throws -> Consumer {
        if let token { try validate(token) }
        let kinds = ConsumerKind(rawValue: UInt16(truncatingIfNeeded: kind.rawValue & 3))
        let (engine, record) = try generations.onNewest { (engine) throws(StoreError) in
            (engine, try engine.register(name, kinds, at: token?.place, durability: options.durability))
        }
        return consumer(record, engine, try engine.view())
    }

    /// The same at a place in history. `.oldest` is looked up while nobody can clean: a new consumer then misses
    /// nothing that history holds.
    ///
    /// Throws `tokenForeign`, `tokenUnknown`, `tokenExpired`, `tokenDiverged` for the place besides.
    @discardableResult
    public func registerConsumer(
        _ name: String, kind: Consumer.Kind = .reads, at place: HistoryRequest.Place
    ) throws -> Consumer {
        guard place == .oldest else {
            if case .token(let token) = place { return try registerConsumer(name, kind: kind, at: token) }
            let (engine, view) = try newest()
            let number = try number(behind: place, engine, view)
            return try registerConsumer(name, kind: kind, at: try token(ofNumber: number, engine, view))
        }
        let kinds = ConsumerKind(rawValue: UInt16(truncatingIfNeeded: kind.rawValue & 3))
        let (engine, record) = try generations.onNewest { (engine) throws(StoreError) in
            (engine, try engine.register(name, kinds, isAtOldest: true, durability: options.durability))
        }
        return consumer(record, engine, try engine.view())
    }

    /// A consumer has seen everything up to `to`, and had up to `from` before.
    ///
    /// Appends one short frame. When this returns, every process sees the new cursor, and a process that is killed does
    /// not lose it. After a loss of power the cursor may stand where it stood a moment ago, and the consumer reads some
    /// transactions again. To process each transaction exactly once, move the cursor in the same transaction as its
    /// results (`Transaction.advanceConsumer`).
    ///
    /// Throws `consumerUnknown`; `consumerConflict` where the consumer does not stand at `from`, because somebody else
    /// uses its name too;
    /// `consumerLost` if cleaning has passed its cursor, wherever `to` is; `invalidArgument` where `to` is before
    /// `from`; what `validate` throws for `to`.
    public func advanceConsumer(_ name: String, from: HistoryToken, to: HistoryToken) throws {
        try requireOwner(from)
        try requireSeen(to)
        do throws(StoreError) {
            try generations.advance(ConsumerAdvance(name: name, from: from.place, to: to.place))
        } catch {
            var error = consumerError(error)
            error.path = error.path ?? path
            throw error
        }
    }

    /// Moves a consumer wherever it stands: after the token that `resync` gave, if it is lost, or back, to read
    /// again.
    ///
    /// Throws `StoreError`: `consumerUnknown`, and what `validate` throws for the token.
    @discardableResult
    public func resetConsumer(_ name: String, to token: HistoryToken) throws -> Consumer {
        try validate(token)
        let (engine, record) = try generations.onNewest { (engine) throws(StoreError) in
            (engine, try engine.resetConsumer(name, to: token.place, durability: options.durability))
        }
        return consumer(record, engine, try engine.view())
    }

    /// Cleaning does not wait for that consumer any more. False if none of that name is registered.
    ///
    /// Throws `StoreError`.
    @discardableResult
    public func removeConsumer(_ name: String) throws -> Bool {
        return try generations.onNewest { (engine) throws(StoreError) in
            try engine.removeConsumer(name, durability: options.durability)
        }
    }

    /// Throws if nobody can have seen the token's transaction. One that was cleaned is left to the caller, who knows
    /// whose it is.
    func requireSeen(_ token: HistoryToken) throws(StoreError) {
        do throws(StoreError) {
            try require(token, engine)
        } catch  where error.code == .tokenExpired {
        }
    }

    /// The public error of what may have moved a consumer: one that is lost gets the oldest place that there is.
    func consumerError(_ error: StoreError) -> StoreError {
        var error = error
        if error.code == .consumerLost { error.oldestToken = try? oldestToken }
        return error
    }
}
