// Publishes to a stream without waiting for each acknowledgement.

internal import Annals

/// The acknowledgement of one stored message.
struct NATSAcknowledgement: Decodable, Equatable {
    var stream: String?
    var seq: UInt64?
    /// The stream had a message with this identifier already, and has not stored it again.
    var duplicate: Bool?
    var error: JetStreamFailure?
}

/// A window of publications: some are on their way while the next ones are sent.
///
/// Owners call `send` for each message, then `finish`, and in any case `abandon`.
final class NATSPublisher {
    private let connection: NATSConnection
    private let stream: String
    private let acknowledged: (Int, NATSAcknowledgement) throws -> Void
    /// The bytes of each publication without an acknowledgement, by the number of its reply.
    private var outstanding: [UInt64: Int] = [:]
    private var outstandingBytes = 0
    private var failure: (any Error)?

    /// - Parameter acknowledged: Is called with the owner's index of a message that the stream has.
    init(
        _ connection: NATSConnection, stream: String,
        acknowledged: @escaping (Int, NATSAcknowledgement) throws -> Void
    ) {
        self.connection = connection
        self.stream = stream
        self.acknowledged = acknowledged
    }

    /// Sends a message as soon as the window has room.
    ///
    /// - Parameter identifier: By it the server recognizes a message that is sent twice within some time.
    /// - Throws: The error of an earlier message, too.
    func send(_ index: Int, subject: String, identifier: String, body: [UInt8]) throws {
        try wait { isFull(adding: body.count) }
        let bytes = body.count
        let reply = connection.expectReply { [weak self] reply, message in
            self?.receive(message, index: index, reply: reply)
        }
        outstanding[reply.number] = bytes
        outstandingBytes += bytes
        connection.publish(
            subject, reply: reply.subject, headers: "NATS/1.0\r\nNats-Msg-Id: \(identifier)\r\n\r\n", payload: body)
    }

    /// Waits for all acknowledgements.
    func finish() throws { try wait { !outstanding.isEmpty } }

    /// Passes over acknowledgements that come later.
    func abandon() {
        for reply in outstanding.keys { connection.forgetReply(reply) }
        outstanding.removeAll()
    }

    private func isFull(adding bytes: Int) -> Bool {
        guard !outstanding.isEmpty else { return false }
        return outstanding.count >= connection.settings.windowMessages
            || outstandingBytes + bytes > connection.settings.windowBytes
    }

    private func wait(while isNecessary: () -> Bool) throws {
        while true {
            if let failure { throw failure }
            guard isNecessary() else { return }
            let before = outstanding.count
            try connection.process(seconds: connection.settings.requestSeconds) {
                outstanding.count < before || failure != nil
            }
        }
    }

    private func receive(_ message: NATSMessage, index: Int, reply: UInt64) {
        guard let bytes = outstanding.removeValue(forKey: reply) else { return }
        outstandingBytes -= bytes
        guard failure == nil else { return }
        do {
            if message.headers.status == 503 { throw JetStreamFailure.noResponders }
            let answer = try NATSJSON.decode(NATSAcknowledgement.self, from: message.payload)
            if let error = answer.error { throw error }
            guard answer.stream == stream, answer.seq != nil else { throw wrongStream(answer.stream ?? "") }
            try acknowledged(index, answer)
        } catch { failure = error }
    }

    private func wrongStream(_ name: String) -> StoreError {
        StoreError(
            .courierSettings,
            "The stream “\(NATSServerInformation.quoted(name))” takes the messages of the stream \(stream): change its "
                + "subjects, or choose another group.")
    }
}
