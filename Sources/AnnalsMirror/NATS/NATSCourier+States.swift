// States: parts in a stream of their own, and a last message that makes them one.

internal import Annals
internal import FoundationEssentials

extension NATSCourier {
    /// The message that finishes a state: without it, its parts are not a state.
    private struct Finish: Codable, Equatable {
        var version = 1
        /// The encoded name of the peer that has stored it.
        var peer: String
        var upload: String
        var count: Int
        var bytes: Int
        /// CRC-32C of all parts, one after the other.
        var checksum: UInt32
    }

    package func storeState(named name: String, next: () throws -> [UInt8]?) throws {
        let finishSubject = try names.finishSubject(state: name)
        try translating {
            try open()
            try namingStream(names.statesStream) {
                _ = try ensureStream(names.statesStream, subjects: names.statesSubjects)
                let former = try finish(of: finishSubject)
                let upload = String(UInt64.random(in: .min ... .max), radix: 36)
                let chunkSubject = try names.chunkSubject(state: name, peerToken: names.peerToken, upload: upload)
                let firstSequence = try publishState(
                    upload: upload, chunkSubject: chunkSubject, finishSubject: finishSubject, next: next)
                try removeFormer(former, state: name, before: firstSequence, finishSubject: finishSubject)
            }
        }
    }

    /// - Returns: The sequence of the first part or, without parts, of the finish.
    private func publishState(
        upload: String, chunkSubject: String, finishSubject: String, next: () throws -> [UInt8]?
    ) throws -> UInt64 {
        var firstSequence = UInt64.max
        let publisher = NATSPublisher(connection, stream: names.statesStream) { _, answer in
            firstSequence = min(firstSequence, answer.seq ?? .max)
        }
        defer { publisher.abandon() }
        var finish = Finish(peer: names.peerToken, upload: upload, count: 0, bytes: 0, checksum: 0)
        var checksum = NATSChecksum()
        while let part = try next() {
            try publisher.send(
                finish.count, subject: chunkSubject, identifier: "\(upload):\(finish.count)", body: part)
            checksum.add(part)
            finish.count += 1
            finish.bytes += part.count
        }
        finish.checksum = checksum.value
        // The parts must be there before the message that says so.
        try publisher.finish()
        try publisher.send(
            finish.count, subject: finishSubject, identifier: "\(upload):finish", body: try NATSJSON.encode(finish))
        try publisher.finish()
        return firstSequence
    }

    /// Frees the parts of the replaced state, and of attempts of this peer that were not finished.
    ///
    /// The new state is complete already, so an error here is no error of the call: the next state frees the same
    /// parts, unless another peer stored them.
    private func removeFormer(
        _ former: Finish?, state: String, before sequence: UInt64, finishSubject: String
    ) throws {
        do {
            try jetStream.purge(names.statesStream, subject: finishSubject, keep: 1)
            try jetStream.purge(
                names.statesStream,
                subject: names.chunkSubject(state: state, peerToken: names.peerToken, upload: nil), before: sequence)
            if let former, former.peer != names.peerToken {
                try jetStream.purge(
                    names.statesStream,
                    subject: names.chunkSubject(state: state, peerToken: former.peer, upload: former.upload))
            }
        } catch {
            if (error as? StoreError)?.code == .cancelled { throw error }
        }
    }

    /// The newest finish of a state; nil if there is none that this version understands.
    private func finish(of subject: String) throws -> Finish? {
        guard let message = try jetStream.lastMessage(names.statesStream, subject: subject),
            let data = message.data.flatMap({ Data(base64Encoded: $0) }),
            let finish = try? NATSJSON.decode(Finish.self, from: Array(data)), finish.version == 1,
            NATSNames.isToken(finish.peer), NATSNames.isToken(finish.upload), finish.count >= 0, finish.bytes >= 0
        else { return nil }
        return finish
    }
}

// MARK: Fetching

extension NATSCourier {
    package func fetchState(named name: String, part: ([UInt8]) throws -> Void) throws -> Bool {
        let finishSubject = try names.finishSubject(state: name)
        return try translating {
            try open()
            return try namingStream(names.statesStream) {
                guard let finish = try finish(of: finishSubject) else { return false }
                return try fetch(finish, state: name, part: part)
            }
        }
    }

    private func fetch(_ finish: Finish, state: String, part: ([UInt8]) throws -> Void) throws -> Bool {
        var config = JetStream.ConsumerConfig(description: "annals state \(names.peerToken)")
        config.filterSubject = try names.chunkSubject(state: state, peerToken: finish.peer, upload: finish.upload)
        let pull = try NATSPull(
            jetStream, stream: names.statesStream, config: config, maximumBytes: 4 * NATSLimits.bodyBytes)
        defer { pull.close() }
        // Parts that are missing already were lost, so this is not a complete state.
        guard pull.pendingAtStart >= UInt64(finish.count) else { return false }
        var received = Received(finish: finish)
        while received.count < finish.count {
            let soon = ContinuousClock.now + .seconds(connection.settings.requestSeconds)
            guard try pull.wait(until: soon) else { throw Self.damagedState(state, "parts are missing") }
            for delivery in pull.take(maximumBytes: 1 << 20) {
                if try received.add(delivery, state: state) { try part(delivery.message.payload) }
            }
        }
        guard received.bytes == finish.bytes, received.checksum.value == finish.checksum else {
            throw Self.damagedState(state, "its checksum differs")
        }
        return true
    }

    /// The parts of a state that have come.
    private struct Received {
        let finish: Finish
        var count = 0
        var bytes = 0
        var checksum = NATSChecksum()

        /// - Returns: False for a part that came before.
        mutating func add(_ delivery: NATSDelivery, state: String) throws -> Bool {
            let words = delivery.message.headers["Nats-Msg-Id"]?.split(separator: ":") ?? []
            guard words.count == 2, words[0] == finish.upload, let index = Int(words[1]) else { return false }
            if index < count { return false }
            let body = delivery.message.payload
            guard index == count, count < finish.count, bytes + body.count <= finish.bytes else {
                throw NATSCourier.damagedState(state, "its parts are not those that it promises")
            }
            count += 1
            bytes += body.count
            checksum.add(body)
            return true
        }
    }

    private static func damagedState(_ name: String, _ reason: String) -> StoreError {
        StoreError(
            .courierDamaged,
            "The state “\(name)” on the server is damaged, or was replaced while it was read (\(reason)): fetch it "
                + "again, or let a peer store it again.")
    }
}
