// Validates a consumer's move against the log's state.

extension ConsumerRecord {
    package var place: TransactionPlace { TransactionPlace(number: cursor, tag: tag) }
}

extension LogState {
    /// The new places of the consumers. Throws `consumerUnknown`, `consumerConflict`, `consumerLost`,
    /// `invalidArgument`.
    func records(for advances: [ConsumerAdvance], _ log: Log) throws(StoreError) -> [ConsumerRecord] {
        if advances.isEmpty { return [] }
        let now = log.environment.wallClockMicroseconds()
        var records: [ConsumerRecord] = []
        for advance in advances {
            var record = try tracking.known(advance.name)
            try tracking.requireCursor(advance, of: record)
            guard advance.to.number <= lastNumber else {
                throw StoreError(
                    .invalidArgument,
                    "The consumer “\(advance.name)” cannot have read transaction \(advance.to.number): the last one is "
                        + "\(lastNumber)."
                )
            }
            (record.cursor, record.tag) = (advance.to.number, advance.to.tag)
            (record.lastSeen, record.processID) = (now, log.processID)
            records.append(record)
        }
        return records
    }
}

extension TrackingState {
    /// Throws `consumerUnknown`.
    package func known(_ name: String) throws(StoreError) -> ConsumerRecord {
        guard let record = consumer(name) else {
            throw StoreError(.consumerUnknown, "No consumer “\(name)” is registered: register it first.")
        }
        return record
    }

    /// Throws `consumerConflict`, `consumerLost` or `invalidArgument` if the consumer cannot move like that.
    func requireCursor(_ advance: ConsumerAdvance, of record: ConsumerRecord) throws(StoreError) {
        let place = record.place
        guard advance.from == place else {
            throw StoreError(
                .consumerConflict,
                "The consumer “\(advance.name)” is at transaction \(place.number), not at \(advance.from.number): "
                    + "another process or handle has moved it. Read its cursor again and continue from there.")
        }
        guard advance.to.number >= place.number else {
            throw StoreError(
                .invalidArgument,
                "The consumer “\(advance.name)” is at transaction \(place.number) and cannot go back to "
                    + "\(advance.to.number): reset it to read again.")
        }
        // For any target: transactions between its place and the horizon were never shown to it.
        guard !record.kind.contains(.reads) || place.number >= horizon else {
            throw StoreError(
                .consumerLost,
                "The consumer “\(advance.name)” is at transaction \(place.number), but history now begins after "
                    + "\(horizon). Read everything again, then reset the consumer to the token of the state that you "
                    + "read."
            )
        }
    }
}
