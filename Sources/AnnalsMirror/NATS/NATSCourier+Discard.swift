// Removing messages that each peer has, and the weaknesses of the streams.

internal import Annals

extension NATSCourier {
    /// The known places of this peer's messages in the stream.
    struct SentMessages {
        /// The stream that the numbers belong to.
        var created: UInt64 = 0
        var numbers = NATSSentNumbers()
        /// The messages of earlier sessions were looked for.
        var isComplete = false
    }

    package func discard(through number: UInt64) throws {
        try translating {
            try open()
            // Another stream may have the name now, in which the sequence numbers mean nothing.
            _ = try currentStream()
            if !sent.isComplete { try findEarlierMessages() }
            var sequence = sent.numbers.firstSequence(after: number)
            // A hole before the place of this peer's own reader would look as if the stream had lost messages.
            if let read = readSequence { sequence = min(sequence, read + 1) }
            guard sequence > 1 else { return }
            try jetStream.purge(names.stream, subject: names.ownSubject, before: sequence)
            sent.numbers.forget(through: number)
        }
    }

    /// Reads the headers of this peer's messages that the stream has.
    private func findEarlierMessages() throws {
        var config = JetStream.ConsumerConfig(description: "annals discard \(names.peerToken)")
        config.filterSubject = names.ownSubject
        config.headersOnly = true
        let pull = try NATSPull(jetStream, stream: names.stream, config: config, maximumBytes: 1 << 20)
        defer { pull.close() }
        var remaining = pull.pendingAtStart
        while remaining > 0 {
            let soon = ContinuousClock.now + .seconds(connection.settings.requestSeconds)
            guard try pull.wait(until: soon) else {
                throw StoreError(
                    .courierUnreachable,
                    "The stream \(names.stream) does not list the messages of this peer: the mirror tries again.")
            }
            for delivery in pull.take(maximumBytes: .max) {
                if let number = Self.number(of: delivery) {
                    sent.numbers.add(number: number, sequence: delivery.sequence)
                }
                remaining = delivery.pending
            }
        }
        sent.isComplete = true
    }

    package func weaknesses() throws -> [String] {
        try translating {
            try open()
            var found: [String] = []
            for name in [names.stream, names.statesStream] {
                do {
                    found += NATSStreamSettings.weaknesses(try jetStream.stream(name).config, name: name)
                } catch let failure as JetStreamFailure where failure.isNotFound {
                    // The stream of states is created with the first state.
                }
            }
            return found
        }
    }
}
