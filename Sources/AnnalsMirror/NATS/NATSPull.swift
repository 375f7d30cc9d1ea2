// Reads a stream from a sequence number on, through a consumer that lives as long as the reader.

internal import Annals

/// A message of a stream, as it was delivered.
struct NATSDelivery: Equatable, Sendable {
    /// In the stream.
    var sequence: UInt64
    /// In the consumer: rises by one with each delivery.
    var consumerSequence: UInt64
    /// Nanoseconds since 1970.
    var stored: UInt64
    /// Messages of the consumer that were not delivered yet.
    var pending: UInt64
    var message: NATSMessage

    /// Nil if the message is not from a consumer: then it is a status, or nonsense.
    init?(_ message: NATSMessage) {
        guard let reply = message.reply, reply.hasPrefix("$JS.ACK.") else { return nil }
        let words = reply.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        // Newer servers put the domain and the account before the stream, and may add words at the end.
        let first = words.count == 9 ? 5 : 7
        guard words.count == 9 || words.count >= 11, let sequence = Self.number(words[first]),
            let consumerSequence = Self.number(words[first + 1]), let stored = Self.number(words[first + 2]),
            let pending = Self.number(words[first + 3])
        else { return nil }
        self.sequence = sequence
        self.consumerSequence = consumerSequence
        self.stored = stored
        self.pending = pending
        self.message = message
    }

    private static func number(_ word: Substring.UTF8View) -> UInt64? { UInt64(Substring(word)) }
}

/// A reader of a stream.
///
/// At most one request for messages is open at a time. It stays open between calls, so that the next messages come
/// without another question, but never more than the requested bytes.
///
/// Invariants:
/// - R1: Buffered deliveries have consecutive consumer sequences. After a gap the reader is lost.
/// - R2: A lost reader requests nothing more. Its owner makes another one at its place.
/// - R3: A message that the stream has acknowledged comes, or the reader is lost. A consumer of nats-server 2.9 can
///   deliver nothing for ever, with signs of life, if its stream was created several times at once and its nodes were
///   restarted.
final class NATSPull {
    private let jetStream: JetStream
    private let stream: String
    private let consumer: String
    private let inbox: (number: UInt64, prefix: String)
    private let generation: Int
    /// The largest sum of messages that the server may send for one request.
    private var maximumBytes: Int
    /// The number of messages that existed when the reader began.
    let pendingAtStart: UInt64

    private(set) var buffered: [NATSDelivery] = []
    private(set) var bufferedBytes = 0
    /// Why the reader goes no further, in the server's words; nil if it does.
    private(set) var lost: String?
    private var lastConsumerSequence: UInt64 = 0
    private var lastSequence: UInt64
    private var lastPending: UInt64 = 0

    private var requests: UInt64 = 0
    /// Messages that the open request may still bring; 0 without one.
    private var expected = 0
    /// The open request has brought a message.
    private var hasBrought = false
    private var quietUntil = ContinuousClock.now
    /// A message that must come (R3), and how long the reader waits for the next one until then; nil if it has come.
    private var owed: (sequence: UInt64, until: ContinuousClock.Instant)?

    /// Messages for each request. Their bytes are limited as well.
    private static let batch = 10_000

    /// - Parameter maximumBytes: The largest sum of messages that the server may send without another request.
    init(
        _ jetStream: JetStream, stream: String, config: JetStream.ConsumerConfig, maximumBytes: Int
    ) throws {
        self.jetStream = jetStream
        self.stream = stream
        // The server counts subjects and headers too.
        self.maximumBytes =
            max(maximumBytes, jetStream.connection.server.maximumPayloadBytes) + NATSLimits.headerBytes
        let information = try jetStream.createConsumer(stream, config)
        guard NATSNames.isToken(information.name) else {
            throw StoreError(
                .courierDamaged, "The server gave a consumer a name that is none: check the version of nats-server.")
        }
        consumer = information.name
        pendingAtStart = information.numPending
        lastSequence = config.optStartSeq.map { $0 - 1 } ?? 0
        generation = jetStream.connection.generation
        let received = Received()
        inbox = jetStream.connection.subscribeToInbox { received.handle?($0) }
        raiseConnectionLimit()
        received.handle = { [weak self] in self?.receive($0) }
    }

    /// Receives messages before the reader is complete, and so cannot be their target.
    private final class Received { var handle: ((NATSMessage) -> Void)? }

    /// Ends the reader at the server, if the connection still exists.
    func close() {
        guard isConnected else { return }
        jetStream.connection.unsubscribe(inbox.number)
        jetStream.deleteConsumer(stream, consumer)
    }

    /// False if the connection was closed since the reader began.
    var isConnected: Bool { generation == jetStream.connection.generation }

    /// Notes that the stream has a message with this number (R3).
    func expect(_ sequence: UInt64) {
        guard sequence > max(lastSequence, owed?.sequence ?? 0) else { return }
        owed = (sequence, owed?.until ?? deliveryDeadline)
    }

    private var deliveryDeadline: ContinuousClock.Instant {
        .now + .seconds(jetStream.connection.settings.deliverySeconds)
    }

    /// Removes the first buffered messages, as long as their bodies are at most `bytes`; at least one if there is one.
    func take(maximumBytes bytes: Int) -> [NATSDelivery] {
        var sum = 0
        var count = 0
        for delivery in buffered {
            sum += delivery.message.payload.count
            if count > 0, sum > bytes { break }
            count += 1
        }
        let taken = Array(buffered.prefix(count))
        buffered.removeFirst(count)
        bufferedBytes -= taken.reduce(0) { $0 + $1.message.payload.count }
        return taken
    }
}

// MARK: Waiting

extension NATSPull {
    /// Waits until a message is buffered.
    ///
    /// - Returns: False after the deadline, or if the reader is lost.
    func wait(until deadline: ContinuousClock.Instant) throws -> Bool {
        if buffered.isEmpty { try request() }
        return try wait(until: deadline) { !buffered.isEmpty }
    }

    /// Waits until so many bytes are buffered, or all messages that the stream has now.
    func fill(bytes: Int) throws {
        while lost == nil, bufferedBytes < bytes, lastPending > 0 {
            let before = buffered.count
            let soon = ContinuousClock.now + .milliseconds(200)
            try request()
            guard try wait(until: soon, until: { buffered.count > before }) else { return }
        }
    }

    /// Waits for messages that the stream has already, even if the caller does not want to wait for new ones.
    func receivePresent() throws {
        guard lost == nil, isConnected else { return }
        let soon = ContinuousClock.now + .seconds(jetStream.connection.settings.requestSeconds)
        try request()
        do {
            let information = try jetStream.consumer(stream, consumer)
            guard information.numPending > 0 || information.delivered.streamSeq > lastSequence else { return }
            _ = try wait(until: soon)
        } catch let failure as JetStreamFailure where failure.isNotFound { lost = failure.text }
    }

    private func wait(until deadline: ContinuousClock.Instant, until isMet: () -> Bool) throws -> Bool {
        let connection = jetStream.connection
        while !isMet() {
            guard lost == nil, isConnected else { return false }
            if try connection.process(until: min(deadline, quietUntil, owed?.until ?? deadline)) {
                if lost == nil, expected == 0, !isMet() { try request() }
                continue
            }
            if let owed, owed.until <= .now { lost = "the consumer does not deliver message \(owed.sequence)" }
            if deadline <= .now { return false }
            if quietUntil <= .now { lost = "no sign of the consumer" }
        }
        return true
    }

    /// Opens a request unless one is open.
    private func request() throws {
        guard lost == nil, expected == 0 else { return }
        let settings = jetStream.connection.settings
        // The server sends signs of life only to requests that are at least twice as long.
        let hasHeartbeat = settings.pullSeconds >= 2 * settings.heartbeatSeconds
        requests += 1
        expected = Self.batch
        hasBrought = false
        hearSomething()
        try jetStream.pull(
            stream, consumer,
            JetStream.PullRequest(
                batch: Self.batch, maxBytes: maximumBytes, expires: Int64(settings.pullSeconds * 1e9),
                idleHeartbeat: hasHeartbeat ? Int64(settings.heartbeatSeconds * 1e9) : nil),
            inbox: "\(inbox.prefix)\(requests)")
    }

    private func hearSomething() {
        let settings = jetStream.connection.settings
        let hasHeartbeat = settings.pullSeconds >= 2 * settings.heartbeatSeconds
        quietUntil =
            .now + .seconds(hasHeartbeat ? 2.5 * settings.heartbeatSeconds : settings.pullSeconds * 1.25 + 1)
    }
}

// MARK: Receiving

extension NATSPull {
    private func receive(_ message: NATSMessage) {
        hearSomething()
        guard let delivery = NATSDelivery(message) else { return receiveStatus(message) }
        guard lost == nil else { return }
        guard delivery.consumerSequence == lastConsumerSequence + 1, delivery.sequence > lastSequence else {
            lost = "a message is missing"
            return
        }
        lastConsumerSequence = delivery.consumerSequence
        lastSequence = delivery.sequence
        if let owed { self.owed = lastSequence >= owed.sequence ? nil : (owed.sequence, deliveryDeadline) }
        lastPending = delivery.pending
        expected = max(0, expected - 1)
        hasBrought = true
        buffered.append(delivery)
        bufferedBytes += message.payload.count
    }

    /// A status ends the open request, except for the sign of life. Statuses of earlier requests are passed over.
    private func receiveStatus(_ message: NATSMessage) {
        guard message.subject == "\(inbox.prefix)\(requests)", let status = message.headers.status else { return }
        let text = message.headers.statusText
        switch status {
        case 100: break
        case 404, 408: expected = 0
        case 409 where text.lowercased().contains("maxbytes") || text.lowercased().contains("batch completed"):
            expected = 0
            if !hasBrought { askForMore() }
        default: lost = "\(status) \(NATSServerInformation.quoted(text))"
        }
    }

    /// The next message alone is larger than a request: the server took larger ones when it was stored.
    private func askForMore() {
        guard maximumBytes < Self.largestRequest else {
            lost = "a message is larger than \(Self.largestRequest) bytes"
            return
        }
        maximumBytes = min(4 * maximumBytes, Self.largestRequest)
        raiseConnectionLimit()
    }

    private static let largestRequest = NATSLimits.payloadBytes + NATSLimits.headerBytes

    private func raiseConnectionLimit() {
        let connection = jetStream.connection
        connection.maximumMessageBytes = max(connection.maximumMessageBytes, maximumBytes)
    }
}
