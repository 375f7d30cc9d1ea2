// The engine that carries a mirror's messages through NATS JetStream.

package import Annals

/// A courier over one connection to a NATS server with JetStream.
///
/// The group's messages are one stream, and its states another (`NATSNames` has their names). Both are created when
/// they are missing, and their settings are checked whenever a connection begins. The identity of a stream is the
/// time of its creation, which each place contains.
package final class NATSCourier: Courier {
    let names: NATSNames
    let connection: NATSConnection
    let jetStream: JetStream
    /// The copies of each stream that the mirror demands; nil accepts what exists.
    private let replicas: Int?
    /// The name of this peer's consumers in the server's monitoring.
    private let description: String

    /// The stream of messages, as it was when this connection began to use it.
    private var opened: OpenedStream?
    /// The reader of `messages`, and the place after the messages that it has returned.
    private var pull: NATSPull?
    private var position: NATSPlace?
    var sent = SentMessages()

    /// Numbers of calls that failed: their messages may be stored, and are sent again.
    private var repeatable: Set<UInt64> = []
    private var repetitions: UInt64 = 0
    private let session = String(UInt64.random(in: .min ... .max), radix: 36)

    struct OpenedStream {
        var created: UInt64
        var maximumMessageBytes: Int
        fileprivate var generation: Int
    }

    /// Does not connect yet.
    ///
    /// - Parameters:
    ///   - address: `nats://host:port`, or several with commas between them.
    ///   - credentials: For addresses that contain none.
    ///   - group: The stores that mirror each other. 1 to 64 bytes, like `peer`.
    ///   - peer: The identity of this store.
    ///   - replicas: The copies of each stream that the server must keep. Nil leaves them, and creates one.
    /// - Throws: `invalidArgument`.
    package init(
        address: String, credentials: NATSCredentials? = nil, group: String, peer: String, replicas: Int? = nil,
        interruption: Interruption, settings: NATSSettings = NATSSettings()
    ) throws(StoreError) {
        if let replicas, !(1...5).contains(replicas) {
            throw StoreError(.invalidArgument, "A stream has 1 to 5 replicas: choose 1, 3 or 5.")
        }
        names = try NATSNames(group: group, peer: peer)
        self.replicas = replicas
        description = "annals mirror \(names.peerToken)"
        connection = NATSConnection(
            addresses: try NATSAddress.list(address), credentials: credentials, name: "annals mirror \(group)/\(peer)",
            settings: settings, interruption: interruption)
        jetStream = JetStream(connection)
    }

    deinit {
        closeReader()
        connection.sendAtOnce()
    }

    package var maximumBodyBytes: Int {
        get throws {
            try translating {
                try open()
                return try largestBody
            }
        }
    }

    /// With an open stream.
    private var largestBody: Int {
        get throws {
            let stream = opened?.maximumMessageBytes ?? 0
            let server = connection.server.maximumPayloadBytes
            // The headers of a message are a part of both maxima.
            let headers = 128 + names.peerToken.utf8.count
            let largest = min(stream > 0 ? min(stream, server) : server, NATSLimits.bodyBytes) - headers
            guard largest >= NATSLimits.smallestPayloadBytes / 2 else {
                throw StoreError(
                    .courierUnsuitable,
                    "The stream \(names.stream) accepts messages of at most \(stream) bytes: raise its max_msg_size to "
                        + "\(NATSLimits.smallestPayloadBytes) or more.")
            }
            return largest
        }
    }
}

// MARK: Appending

extension NATSCourier {
    package func append(_ messages: [OutgoingMessage]) throws {
        guard !messages.isEmpty else { return }
        try translating {
            try open()
            let limit = try largestBody
            if let large = messages.first(where: { $0.body.count > limit }) {
                throw StoreError(
                    .invalidArgument,
                    "Message \(large.number) has \(large.body.count) bytes, the server takes \(limit): divide it, or "
                        + "raise max_payload of nats-server (now \(connection.server.maximumPayloadBytes) bytes).")
            }
            var remaining = try publish(messages)
            guard !remaining.isEmpty else { return }
            // The stream was removed, or its server remembers messages that it may have lost.
            try open()
            remaining = try publish(remaining, again: true)
            if !remaining.isEmpty { throw JetStreamFailure.noResponders }
        }
    }

    /// Publishes messages and waits for all acknowledgements.
    ///
    /// - Parameter again: With new identifiers, so that the server stores them although it knows their numbers.
    /// - Returns: Messages that the stream did not take: it was removed, or regards them as duplicates of messages of
    ///   an earlier call. Such a call repeats them on purpose.
    private func publish(_ messages: [OutgoingMessage], again: Bool = false) throws -> [OutgoingMessage] {
        var isStored = [Bool](repeating: false, count: messages.count)
        var isDuplicate = isStored
        let suffix = again ? ":\(session)\(nextRepetition())" : ""
        let publisher = NATSPublisher(connection, stream: names.stream) { [self] index, answer in
            let number = messages[index].number
            if answer.duplicate == true, !repeatable.contains(number), !again {
                isDuplicate[index] = true
                return
            }
            isStored[index] = true
            sent.numbers.add(number: number, sequence: answer.seq ?? 0)
            pull?.expect(answer.seq ?? 0)
        }
        var attempted = 0
        defer { publisher.abandon() }
        do {
            for (index, message) in messages.enumerated() {
                try publisher.send(
                    index, subject: names.ownSubject, identifier: "\(names.peerToken):\(message.number)\(suffix)",
                    body: message.body)
                attempted = index + 1
            }
            try publisher.finish()
        } catch let failure as JetStreamFailure where failure.isNoResponders && !again {
            forgetStream()
        } catch {
            // The caller repeats the call, also with the messages that are stored: then a duplicate is as good as an
            // acknowledgement.
            if !again {
                repeatable.formUnion((0..<attempted).lazy.filter { !isDuplicate[$0] }.map { messages[$0].number })
            }
            throw error
        }
        repeatable.subtract(messages.map(\.number))
        return messages.indices.filter { !isStored[$0] }.map { messages[$0] }
    }

    private func nextRepetition() -> UInt64 {
        repetitions += 1
        return repetitions
    }
}

// MARK: Reading

extension NATSCourier {
    package func messages(
        after place: CourierPlace?, maximumBytes: Int, waitSeconds seconds: Double
    ) throws -> IncomingBatch {
        let deadline = ContinuousClock.now + .seconds(max(0, min(seconds, 1_000_000)))
        // Nobody's memory holds more at once.
        let maximumBytes = max(1, min(maximumBytes, NATSLimits.payloadBytes))
        // An empty place is the answer to a call without a place that could not begin.
        let place = place?.text == "" ? nil : place
        var reading = Reading(place: place.flatMap { NATSPlace($0) }, beganAgain: false)
        // The place of another engine.
        if place != nil, reading.place == nil { reading.beganAgain = true }
        do {
            return try translating { try read(&reading, maximumBytes: maximumBytes, until: deadline) }
        } catch let error as StoreError where error.code == .cancelled {
            // The place is the caller's: what it was not told, it is told next time.
            return IncomingBatch(messages: [], place: place ?? CourierPlace(""))
        }
    }

    /// The place from which a call reads. It may change if the stream has changed.
    private struct Reading {
        var place: NATSPlace?
        var beganAgain: Bool
    }

    private func read(
        _ reading: inout Reading, maximumBytes: Int, until deadline: ContinuousClock.Instant
    ) throws -> IncomingBatch {
        var reasons: [String] = []
        while reasons.count < 4 {
            try open(until: deadline)
            let pull = try reader(for: &reading, maximumBytes: maximumBytes)
            // After a new beginning the caller has something to do at once.
            let mustNotWait = reading.beganAgain || deadline <= .now
            if try !pull.wait(until: mustNotWait ? .now : deadline), mustNotWait { try pull.receivePresent() }
            if let reason = pull.lost, pull.buffered.isEmpty {
                reasons.append(reason)
                forgetStream()
                continue
            }
            try pull.fill(bytes: maximumBytes)
            if let batch = try batch(from: pull, &reading, maximumBytes: maximumBytes) { return batch }
        }
        throw StoreError(
            .courierUnreachable,
            "The stream \(names.stream) does not deliver (\(reasons.last ?? "")): check its consumers with "
                + "nats consumer report \(names.stream).")
    }

    /// The reader that continues at the place, or a new one.
    private func reader(for reading: inout Reading, maximumBytes: Int) throws -> NATSPull {
        if let pull, pull.isConnected, pull.lost == nil || !pull.buffered.isEmpty, let position,
            position == reading.place
        {
            return pull
        }
        closeReader()
        let information = try currentStream()
        let oldest = try self.oldest(of: information)
        var place = reading.place ?? oldest
        if place.created != oldest.created || place.sequence > information.state.lastSeq
            || place.sequence < oldest.sequence
        {
            reading.beganAgain = true
            place = oldest
        }
        // Begins with the message before the place, if its time is known, to compare the times.
        let first = place.stored > 0 ? place.sequence : place.sequence + 1
        let pull = try NATSPull(
            jetStream, stream: names.stream,
            config: JetStream.ConsumerConfig(description: description, from: first), maximumBytes: maximumBytes)
        self.pull = pull
        if sent.created == place.created { pull.expect(sent.numbers.newestSequence) }
        reading.place = place
        position = place
        return pull
    }

    /// The messages that the reader has; nil if the stream has others at its place, so that it must begin again.
    private func batch(
        from pull: NATSPull, _ reading: inout Reading, maximumBytes: Int
    ) throws -> IncomingBatch? {
        var place = reading.place ?? NATSPlace(created: opened?.created ?? 0, sequence: 0)
        var deliveries = pull.take(maximumBytes: maximumBytes)[...]
        if let first = deliveries.first, first.sequence == place.sequence {
            if first.stored != place.stored {
                closeReader()
                reading = Reading(place: nil, beganAgain: true)
                return nil
            }
            deliveries.removeFirst()
        }
        if let first = deliveries.first, first.sequence > place.sequence + 1, !reading.beganAgain {
            // Most holes are messages that were discarded because each peer has them. A hole that reaches the beginning
            // may be more.
            let oldest = try self.oldest(of: currentStream())
            reading.beganAgain = place.created == oldest.created && oldest.sequence > place.sequence
        }
        if let last = deliveries.last {
            place = NATSPlace(created: place.created, sequence: last.sequence, stored: last.stored)
        }
        position = place
        return IncomingBatch(
            messages: deliveries.compactMap(incoming), place: place.courierPlace, beganAgain: reading.beganAgain)
    }

    /// The message of a peer; nil if anything else has been published there.
    private func incoming(_ delivery: NATSDelivery) -> IncomingMessage? {
        guard let sender = names.peer(ofSubject: delivery.message.subject), let number = Self.number(of: delivery)
        else {
            return nil
        }
        return IncomingMessage(sender: sender, number: number, body: delivery.message.payload)
    }

    /// The number in the identifier `peer:number` or `peer:number:repetition`; nil without one.
    static func number(of delivery: NATSDelivery) -> UInt64? {
        guard let identifier = delivery.message.headers["Nats-Msg-Id"],
            let token = delivery.message.subject.split(separator: ".").last
        else { return nil }
        let words = identifier.split(separator: ":", omittingEmptySubsequences: false)
        guard words.count == 2 || words.count == 3, words[0] == token, words[1].first != "+" else { return nil }
        return UInt64(words[1])
    }

    package func newestPlace() throws -> CourierPlace {
        try translating {
            try open()
            let information = try currentStream()
            let stored = information.state.lastTs.flatMap { NATSTime.nanoseconds($0) }
            return NATSPlace(
                created: try created(information), sequence: information.state.lastSeq, stored: stored ?? 0
            ).courierPlace
        }
    }

    private func closeReader() {
        pull?.close()
        pull = nil
        position = nil
    }

    /// The sequence of the place that `messages` has reached in the stream; nil if nothing was read.
    var readSequence: UInt64? { position?.created == opened?.created ? position?.sequence : nil }
}

// MARK: Streams

extension NATSCourier {
    /// Connects, and finds or creates the stream of messages.
    func open(until deadline: ContinuousClock.Instant? = nil) throws {
        try connection.prepare(until: deadline)
        if let opened, opened.generation == connection.generation { return }
        let information = try ensureStream(names.stream, subjects: names.subjects)
        let created = try created(information)
        if sent.created != created { sent = SentMessages(created: created) }
        opened = OpenedStream(
            created: created,
            maximumMessageBytes: Int(clamping: information.config["max_msg_size"]?.integer ?? -1),
            generation: connection.generation)
    }

    /// The stream is looked for again before the next use.
    private func forgetStream() {
        opened = nil
        closeReader()
    }

    /// The stream of messages as it is now. If it was removed it is created again, and `opened` changes.
    func currentStream() throws -> JetStream.StreamInformation {
        do {
            let information = try jetStream.stream(names.stream)
            if try created(information) == opened?.created { return information }
        } catch let failure as JetStreamFailure where failure.isNotFound {}
        opened = nil
        try open()
        return try jetStream.stream(names.stream)
    }

    /// The place before the oldest message of a stream.
    private func oldest(of information: JetStream.StreamInformation) throws -> NATSPlace {
        let first = information.state.firstSeq
        return NATSPlace(created: try created(information), sequence: first > 0 ? first - 1 : 0)
    }

    private func created(_ information: JetStream.StreamInformation) throws -> UInt64 {
        guard let created = NATSTime.nanoseconds(information.created) else {
            throw StoreError(
                .courierDamaged, "The server gave a stream no time of creation: check the version of nats-server.")
        }
        return created
    }

    /// A stream with checked settings, created if it is missing.
    func ensureStream(_ name: String, subjects: String) throws -> JetStream.StreamInformation {
        var information: JetStream.StreamInformation
        do {
            information = try jetStream.stream(name)
        } catch let failure as JetStreamFailure where failure.isNotFound {
            information = try createStream(name, subjects: subjects)
        }
        try NATSStreamSettings.check(information.config, name: name, subjects: subjects)
        if let replicas, information.copies < replicas {
            information = try raiseReplicas(of: information, name: name, to: replicas)
        }
        return information
    }

    /// Some servers accept a number of copies that they cannot keep, so the copies are counted.
    private func raiseReplicas(
        of information: JetStream.StreamInformation, name: String, to replicas: Int
    ) throws -> JetStream.StreamInformation {
        var information = information
        if NATSStreamSettings.replicas(of: information.config) < replicas, information.cluster?.name ?? "" != "" {
            var config = information.config
            config["num_replicas"] = .integer(Int64(replicas))
            information = try namingStream(name) { try jetStream.updateStream(name, config) }
        }
        // The copies of a new stream do not all exist at once.
        let deadline = ContinuousClock.now + .seconds(min(3, connection.settings.requestSeconds))
        while information.copies < replicas, information.cluster?.name ?? "" != "", .now < deadline {
            try connection.pause(seconds: 0.1)
            information = try jetStream.stream(name)
        }
        guard information.copies >= replicas else {
            throw StoreError(
                .courierUnsuitable,
                "The stream \(name) has \(information.copies) of \(replicas) wanted replicas: start more servers of "
                    + "the cluster, or ask for fewer replicas.")
        }
        return information
    }

    private func createStream(_ name: String, subjects: String) throws -> JetStream.StreamInformation {
        let config = NATSStreamSettings.new(name: name, subjects: subjects, replicas: replicas ?? 1)
        // A stream that was removed during this session: nats-server 2.9 may still be deleting its files, and would
        // delete those of a new stream with them. All peers notice it at once, and some servers create it for each of
        // them: so each waits for another time, and looks again.
        let wait = sent.created == 0 ? 0 : Self.recreationSeconds
        try connection.pause(seconds: wait + Double.random(in: 0...Self.recreationSeconds))
        do {
            return try jetStream.stream(name)
        } catch let failure as JetStreamFailure where failure.isNotFound {}
        return try namingStream(name) {
            do {
                return try jetStream.createStream(name, config)
            } catch let failure as JetStreamFailure where failure.number == 10058 {
                // Another peer has created it in this moment.
                return try jetStream.stream(name)
            }
        }
    }

    private static let recreationSeconds = 0.5

    /// Turns what the server refuses into this library's error.
    func translating<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            return try namingStream(names.stream, body)
        } catch {
            // A stream that was just removed is created at the next call.
            if (error as? StoreError)?.code != .cancelled { opened = nil }
            throw error
        }
    }

    func namingStream<Result>(_ name: String, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let failure as JetStreamFailure {
            throw StoreError(
                failure, stream: name, address: connection.address,
                maximumBytes: connection.server.maximumPayloadBytes)
        }
    }
}
