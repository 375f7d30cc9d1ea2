// Consumers read a store's history, or write it. They are registered in the store, so cleaning can wait for readers.

public import FoundationEssentials

/// A registered consumer of history, at the time of the call.
public struct Consumer: Hashable, Sendable, Codable {
    /// The way in which a consumer uses the store.
    public typealias Kind = ConsumerKind

    /// Usually the author of its own transactions, so that it can exclude them.
    public let name: String
    /// The way in which it uses the store.
    public let kind: Kind
    /// The place after the last transaction that it has read.
    public let cursor: HistoryToken
    /// The time at which it last set its cursor or registered.
    public let lastSeen: Date
    /// The time of its registration.
    public let registered: Date
    /// The ID of the process that registered it.
    public let processID: Int
    /// The number of transactions that it has not read; 0 if these only keep search indexes up to date.
    public let lag: UInt64
    /// Whether cleaning has passed its cursor, because it lagged too far. Then it must read everything again
    /// (`resetConsumer`).
    public let isLost: Bool

    /// Whether it is the store's own, which reads history for the search indexes.
    package var isOwn: Bool { IdentifierName(name).isReserved }

    /// - Parameter last: The last transaction that it should read.
    init(_ record: ConsumerRecord, _ store: UUID, last: UInt64, _ coverage: HistoryCoverage) {
        let place = record.place
        name = record.name
        kind = record.kind
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
    /// The registered consumers, in the order of registration. Throws `StoreError`.
    public var consumers: [Consumer] {
        get throws { try registeredConsumers() }
    }

    func registeredConsumers() throws(StoreError) -> [Consumer] {
        let (engine, view) = try newest()
        return try engine.tracking.consumers.map { (record) throws(StoreError) in try consumer(record, engine, view) }
    }

    /// Returns the consumer of that name, or nil if none is registered. Throws `StoreError`.
    public func consumer(_ name: String) throws -> Consumer? {
        let (engine, view) = try newest()
        return try engine.tracking.consumer(name).map { try consumer($0, engine, view) }
    }

    private func consumer(
        _ record: ConsumerRecord, _ engine: Engine, _ view: View
    ) throws(StoreError) -> Consumer {
        let hasRead = try hasOnlyIndexSteps(after: record.place.number, engine, view)
        return Consumer(
            record, identifier, last: hasRead ? record.place.number : view.number, engine.tracked(view).coverage)
    }

    /// Writes a consumer's record.
    private func consumer(_ write: (Engine) throws(StoreError) -> ConsumerRecord) throws(StoreError) -> Consumer {
        let (engine, record) = try handle.onNewest { (engine) throws(StoreError) in (engine, try write(engine)) }
        return try consumer(record, engine, try engine.view())
    }

    /// Registers a consumer of history. From now on cleaning waits for it, as long as retention allows. A consumer that
    /// is registered already keeps its cursor, and `kind` replaces its kind.
    ///
    /// - Parameters:
    ///   - name: 1 to 1024 bytes of UTF-8. A store has at most 1000 consumers.
    ///   - kind: The way in which it uses the store.
    ///   - token: The place up to which it has read history; nil for everything until now.
    /// - Returns: The consumer, with the cursor to continue from.
    ///
    /// Throws `StoreError`: `invalidArgument`, `tooLarge`, errors of `validate` for the token, and errors of `write`.
    @discardableResult
    public func registerConsumer(
        _ name: String, kind: Consumer.Kind = .reads, at token: HistoryToken? = nil
    ) throws -> Consumer {
        if let token { try validate(token) }
        return try consumer { (engine) throws(StoreError) in
            try engine.register(name, kind, at: token?.place, durability: options.durability)
        }
    }

    /// Registers a consumer at a place in history. `.oldest` is the place after which history has all transactions
    /// (`oldestToken`).
    ///
    /// Also throws `tokenForeign`, `tokenUnknown`, `tokenExpired`, `tokenDiverged` for the place.
    @discardableResult
    public func registerConsumer(
        _ name: String, kind: Consumer.Kind = .reads, at place: HistoryRequest.Place
    ) throws -> Consumer {
        guard place == .oldest else {
            if case .token(let token) = place { return try registerConsumer(name, kind: kind, at: token) }
            let (engine, view) = try newest()
            let number = try number(directlyAfter: place, engine, view)
            return try registerConsumer(name, kind: kind, at: try token(ofNumber: number, engine, view))
        }
        return try consumer { (engine) throws(StoreError) in
            let whole = try oldestToken(engine).place
            return try engine.register(name, kind, at: whole, isAtOldest: true, durability: options.durability)
        }
    }

    /// Advances a consumer's cursor: it has read everything up to `to`.
    ///
    /// Appends one short frame. When this returns, every process sees the new cursor, and killing the process does not
    /// lose it. After a power failure, the cursor may be at its place of a moment earlier, and the consumer reads some
    /// transactions again. To process each transaction exactly once, advance the cursor in the transaction that writes
    /// the results (`Transaction.advanceConsumer`).
    ///
    /// Throws `StoreError`: `consumerUnknown`; `consumerConflict` if the cursor is not at `from`, because another
    /// program uses the same name; `consumerLost` if cleaning has passed the cursor, for any `to`; `invalidArgument` if
    /// `to` is before `from`; and errors of `validate` for `to`.
    public func advanceConsumer(_ name: String, from: HistoryToken, to: HistoryToken) throws {
        try advanceConsumers([name: (from, to)])
    }

    /// Advances the cursors of several consumers, by names: all of them, or none. Otherwise like `advanceConsumer`.
    ///
    /// - Parameters:
    ///   - moves: The place of each cursor, and the place it moves to.
    ///   - timeout: The longest wait for programs that write; nil for that of the store's options. With zero, it takes
    ///     a few milliseconds at most.
    ///
    /// Also throws `StoreError`: `busy` if the time has passed.
    public func advanceConsumers(
        _ moves: [String: (from: HistoryToken, to: HistoryToken)], timeout: Duration? = nil
    ) throws {
        for move in moves.values {
            try requireOwner(move.from)
            try requireSeen(move.to)
        }
        let advances = moves.map { ConsumerAdvance(name: $0.key, from: $0.value.from.place, to: $0.value.to.place) }
        let patience = timeout?.wholeMicroseconds
        do throws(StoreError) {
            try handle.onNewest { (engine) throws(StoreError) in try engine.advance(advances, patience: patience) }
        } catch {
            var error = consumerError(error)
            error.path = error.path ?? path
            throw error
        }
    }

    /// Moves a consumer to any place: to the token of a snapshot if it is lost, or back to read again.
    ///
    /// Throws `StoreError`: `consumerUnknown`, and errors of `validate` for the token.
    @discardableResult
    public func resetConsumer(_ name: String, to token: HistoryToken) throws -> Consumer {
        try validate(token)
        return try consumer { (engine) throws(StoreError) in
            try engine.resetConsumer(name, to: token.place, durability: options.durability)
        }
    }

    /// Removes a consumer: cleaning no longer waits for it. Returns false if none of that name is registered.
    ///
    /// Throws `StoreError`.
    @discardableResult
    public func removeConsumer(_ name: String) throws -> Bool {
        return try handle.onNewest { (engine) throws(StoreError) in
            try engine.removeConsumer(name, durability: options.durability)
        }
    }

    /// Throws if no program can have seen the token's transaction. It does not throw for a cleaned one: the caller
    /// decides.
    package func requireSeen(_ token: HistoryToken) throws(StoreError) {
        let engine = engine
        do throws(StoreError) {
            try require(token, engine)
        } catch  where error.code == .tokenExpired {
            try requireTag(token, engine, try engine.viewOfThisFile())
        }
    }

    /// The public form of an error from moving a consumer. A lost consumer gets the oldest place that history has.
    func consumerError(_ error: StoreError) -> StoreError {
        var error = error
        if error.code == .consumerLost { error.oldestToken = try? oldestToken }
        return error
    }
}
