// Consumers of history: registering, advancing, removing. Each takes one frame.

extension Engine {
    /// Registers a consumer, or changes the kind of a registered one, which keeps its place. Returns it.
    ///
    /// - Parameters:
    ///   - place: The place up to which it has seen all transactions; nil for everything until now. If cleaning has
    ///     passed the place, the consumer gets an error for its lost history.
    ///   - isAtOldest: Whether it begins at the beginning of history, if that is after `place`. This is read with the
    ///     writer lock, so that no cleaning comes between.
    package func register(
        _ name: String, _ kind: ConsumerKind, at place: TransactionPlace? = nil, isAtOldest: Bool = false,
        durability: Durability = .relaxed
    ) throws(StoreError) -> ConsumerRecord {
        try Self.validate(name: name)
        let kind = kind.intersection(.all)
        guard !kind.isEmpty else {
            throw StoreError(.invalidArgument, "A consumer reads, writes, or does both: give its kinds.")
        }
        return try appendingConsumer(durability) { (state, now) throws(StoreError) in
            if var known = state.tracking.consumer(name) {
                guard known.kind != kind else { return (known, isNew: false) }
                known.kind = kind
                return (known, isNew: true)
            }
            guard state.tracking.consumers.count < FormatLimits.maximumConsumers else {
                throw StoreError(
                    .tooLarge,
                    "A store may have at most \(FormatLimits.maximumConsumers) consumers: remove unused consumers.")
            }
            var place = place
            if isAtOldest {
                let oldest = try oldest()
                if place?.number ?? 0 <= oldest.number {
                    place = TransactionPlace(number: oldest.number, tag: oldest.tag)
                }
            }
            let record = ConsumerRecord(
                name: name, kind: kind, cursor: place?.number ?? state.lastNumber, tag: place?.tag ?? state.lastTag,
                lastSeen: now, registered: now, processID: log.processID)
            return (record, isNew: true)
        }
    }

    /// Moves a consumer to any place. Throws `consumerUnknown`.
    @discardableResult
    package func resetConsumer(
        _ name: String, to place: TransactionPlace, durability: Durability = .relaxed
    ) throws(StoreError) -> ConsumerRecord {
        try appendingConsumer(durability) { (state, now) throws(StoreError) in
            var record = try state.tracking.known(name)
            (record.cursor, record.tag, record.lastSeen, record.processID) = (
                place.number, place.tag, now, log.processID
            )
            return (record, isNew: true)
        }
    }

    /// Advances consumers. Throws `consumerUnknown`, `consumerConflict`, `consumerLost`; then none has moved.
    package func advance(
        _ advances: [ConsumerAdvance], durability: Durability = .relaxed, patience: UInt64? = nil,
        beforeAppending: (() throws(StoreError) -> Void)? = nil
    ) throws(StoreError) {
        if advances.isEmpty { return }
        try appendStandalone(durability, patience: patience) { (state) throws(StoreError) in
            try beforeAppending?()
            return try state.records(for: advances, log).map { (.consumer, $0.encoded()) }
        }
    }

    /// With the writer lock.
    func append(_ advances: [ConsumerAdvance], _ appender: Appender) throws(StoreError) -> UInt64 {
        for record in try appender.state.records(for: advances, log) {
            _ = try append(.consumer, record.encoded(), appender)
        }
        return appender.state.end
    }

    /// Returns false if no consumer has that name.
    package func removeConsumer(_ name: String, durability: Durability = .relaxed) throws(StoreError) -> Bool {
        try appendStandalone(durability) { (state) in
            state.tracking.consumer(name) == nil ? [] : [(.consumer, ConsumerRecord.removal(of: name).encoded())]
        }
    }

    private func appendingConsumer(
        _ durability: Durability,
        _ body: (LogState, Int64) throws(StoreError) -> (record: ConsumerRecord, isNew: Bool)
    ) throws(StoreError) -> ConsumerRecord {
        var found: ConsumerRecord?
        try appendStandalone(durability) { (state) throws(StoreError) in
            let (record, isNew) = try body(state, log.environment.wallClockMicroseconds())
            guard record.cursor <= state.lastNumber else {
                throw StoreError(
                    .invalidArgument,
                    "The consumer cannot have read transaction \(record.cursor): the last one is \(state.lastNumber)."
                )
            }
            found = record
            return isNew ? [(.consumer, record.encoded())] : []
        }
        guard let found else { preconditionFailure("A registration without an error has found a consumer.") }
        return found
    }

    private static func validate(name: String) throws(StoreError) {
        guard !name.isEmpty, name.utf8.count <= FormatLimits.maximumNameBytes else {
            throw StoreError(
                .invalidArgument,
                "A consumer's name must have 1 to \(FormatLimits.maximumNameBytes) bytes: choose another name.")
        }
    }
}

extension Engine {
    /// The beginning of history: transactions up to this number are no longer returned.
    package var oldestNumber: UInt64 { tracking.horizon }

    /// The place of the oldest number. Throws `closed`, `damaged`.
    package func oldest() throws(StoreError) -> (number: UInt64, tag: UInt64, time: Int64) {
        let (number, header) = (oldestNumber, log.header)
        if number == header.baseNumber { return (number, header.baseTag, header.baseTime) }
        let view = try view(asOf: number)
        return (number, view.tag, view.time)
    }
}

extension Draft {
    /// The consumer has seen everything up to `to` once this is committed. Throws `consumerUnknown`, `consumerConflict`
    /// or `consumerLost` if that is known already. The commit decides.
    package func advance(_ name: String, from: TransactionPlace, to: TransactionPlace) throws(StoreError) {
        try frames.requireUsable()
        let prepared = frames.prepared
        if let index = prepared.advances.firstIndex(where: { $0.name.hasSameBytes(as: name) }) {
            guard prepared.advances[index].to == from else {
                throw StoreError(
                    .consumerConflict,
                    "The consumer “\(name)” was already moved to transaction \(prepared.advances[index].to.number) in "
                        + "this transaction, and is not at \(from.number): move it once.")
            }
            prepared.advances[index].to = to
        } else {
            prepared.advances.append(ConsumerAdvance(name: name, from: from, to: to))
        }
    }
}
