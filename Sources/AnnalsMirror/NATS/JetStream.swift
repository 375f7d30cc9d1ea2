// Requests to the JetStream API of a server, and its answers.

internal import Annals

/// The API of a JetStream, over a connection.
///
/// Its methods throw `StoreError`, or a `JetStreamFailure` that the server has answered, which callers handle or turn
/// into a `StoreError`.
struct JetStream {
    let connection: NATSConnection
    private let prefix: String

    init(_ connection: NATSConnection) {
        self.connection = connection
        prefix = connection.settings.domain.map { "$JS.\($0).API." } ?? "$JS.API."
    }

    /// Sends a request without a body.
    private func call<Answer: Decodable>(_ subject: String, as type: Answer.Type) throws -> Answer {
        try call(subject, payload: [], as: type)
    }

    private func call<Answer: Decodable>(
        _ subject: String, _ request: some Encodable, as type: Answer.Type
    ) throws -> Answer {
        try call(subject, payload: try NATSJSON.encode(request), as: type)
    }

    private func call<Answer: Decodable>(
        _ subject: String, payload: [UInt8], as type: Answer.Type
    ) throws -> Answer {
        let reply = try connection.request(prefix + subject, payload: payload)
        if reply.headers.status == 503 { throw JetStreamFailure.noResponders }
        if let failure = try NATSJSON.decode(Failing.self, from: reply.payload).error { throw failure }
        return try NATSJSON.decode(type, from: reply.payload)
    }

    private struct Failing: Decodable { var error: JetStreamFailure? }
    private struct Nothing: Decodable {}
}

// MARK: Streams

extension JetStream {
    /// A stream as the server describes it.
    struct StreamInformation: Decodable {
        var config: NATSJSONValue
        var created: String
        var state: State
        var cluster: Cluster?

        /// A server that is alone has none, or one without a name.
        struct Cluster: Decodable {
            var name: String?
            var replicas: [Replica]?
        }

        /// A copy besides the leader's.
        struct Replica: Decodable { var name: String? }

        struct State: Decodable {
            var messages: UInt64
            var firstSeq: UInt64
            var lastSeq: UInt64
            var lastTs: String?
        }

        /// The servers that hold the stream.
        var copies: Int { 1 + (cluster?.replicas?.count ?? 0) }
    }

    func stream(_ name: String) throws -> StreamInformation {
        try call("STREAM.INFO.\(name)", as: StreamInformation.self)
    }

    func createStream(_ name: String, _ config: NATSJSONValue) throws -> StreamInformation {
        try call("STREAM.CREATE.\(name)", config, as: StreamInformation.self)
    }

    func updateStream(_ name: String, _ config: NATSJSONValue) throws -> StreamInformation {
        try call("STREAM.UPDATE.\(name)", config, as: StreamInformation.self)
    }

    /// Removes the messages of a subject.
    ///
    /// - Parameters:
    ///   - sequence: Only messages before it.
    ///   - keep: How many of the newest messages remain; not together with `sequence`.
    func purge(_ name: String, subject: String, before sequence: UInt64? = nil, keep: UInt64? = nil) throws {
        struct Request: Encodable {
            var filter: String
            var seq: UInt64?
            var keep: UInt64?
        }
        // Nothing is before it, and the server would read 1 as no condition and remove everything.
        if let sequence, sequence <= 1 { return }
        _ = try call(
            "STREAM.PURGE.\(name)", Request(filter: subject, seq: sequence, keep: keep), as: Nothing.self)
    }

    /// A stored message.
    struct StoredMessage: Decodable {
        var seq: UInt64
        /// In Base64.
        var data: String?
    }

    /// The newest message of a subject; nil if the subject or the stream has none.
    func lastMessage(_ name: String, subject: String) throws -> StoredMessage? {
        struct Request: Encodable { var lastBySubj: String }
        struct Answer: Decodable { var message: StoredMessage }
        do {
            return try call("STREAM.MSG.GET.\(name)", Request(lastBySubj: subject), as: Answer.self).message
        } catch let failure as JetStreamFailure where failure.isNotFound { return nil }
    }
}

// MARK: Consumers

extension JetStream {
    /// A consumer that the server forgets some time after its last request. It needs no acknowledgements: the reader
    /// knows its place, and begins a new consumer there if a message is missing.
    struct ConsumerConfig: Encodable {
        var description: String
        var deliverPolicy = "all"
        var optStartSeq: UInt64?
        var filterSubject: String?
        var headersOnly: Bool?
        var ackPolicy = "none"
        var replayPolicy = "instant"
        var inactiveThreshold: Int64 = 300_000_000_000
        var numReplicas = 1
        var memStorage = true

        init(description: String, from sequence: UInt64? = nil) {
            self.description = description
            if let sequence, sequence > 1 { (deliverPolicy, optStartSeq) = ("by_start_sequence", sequence) }
        }
    }

    struct ConsumerInformation: Decodable {
        var name: String
        var numPending: UInt64
        var delivered: Delivered

        struct Delivered: Decodable { var streamSeq: UInt64 }
    }

    func createConsumer(_ stream: String, _ config: ConsumerConfig) throws -> ConsumerInformation {
        struct Request: Encodable {
            var streamName: String
            var config: ConsumerConfig
        }
        return try call(
            "CONSUMER.CREATE.\(stream)", Request(streamName: stream, config: config), as: ConsumerInformation.self)
    }

    func consumer(_ stream: String, _ name: String) throws -> ConsumerInformation {
        try call("CONSUMER.INFO.\(stream).\(name)", as: ConsumerInformation.self)
    }

    /// Does not wait for the answer: the server would forget the consumer anyway.
    func deleteConsumer(_ stream: String, _ name: String) {
        connection.publish("\(prefix)CONSUMER.DELETE.\(stream).\(name)", payload: [])
    }

    /// Asks for messages. They come to the inbox, and a message with a status ends them.
    func pull(_ stream: String, _ name: String, _ request: PullRequest, inbox: String) throws {
        connection.publish(
            "\(prefix)CONSUMER.MSG.NEXT.\(stream).\(name)", reply: inbox, payload: try NATSJSON.encode(request))
    }

    struct PullRequest: Encodable {
        var batch: Int
        var maxBytes: Int
        /// In nanoseconds, like `idle_heartbeat`.
        var expires: Int64
        var idleHeartbeat: Int64?
    }
}
