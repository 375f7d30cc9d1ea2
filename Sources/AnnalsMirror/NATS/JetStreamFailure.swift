// An error that the JetStream API answers, and its sentence for people.

internal import Annals

/// The error in an answer of the API.
package struct JetStreamFailure: Error, Decodable, Equatable {
    /// Like a status of HTTP.
    package var code: Int
    /// The exact error; 0 from a server that does not number them.
    package var number: Int
    package var text: String

    private enum CodingKeys: String, CodingKey {
        case code
        case number = "errCode"
        case text = "description"
    }

    package init(code: Int, number: Int, text: String) {
        self.code = code
        self.number = number
        self.text = text
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        code = try container.decode(Int.self, forKey: .code)
        number = try container.decodeIfPresent(Int.self, forKey: .number) ?? 0
        text = try container.decodeIfPresent(String.self, forKey: .text) ?? ""
    }

    /// Nobody receives the subject of the request: JetStream is off, or the stream or consumer is gone.
    package static let noResponders = JetStreamFailure(code: 503, number: noRespondersNumber, text: "no responders")
    /// No number of the server.
    fileprivate static let noRespondersNumber = -503

    package var isNoResponders: Bool { self == .noResponders }
    /// A limit or the disk is reached. The server has one number for all failures to store a message.
    fileprivate var isAboutRoom: Bool {
        let words = text.lowercased()
        return ["exceeded", "no space", "resources", "quota"].contains { words.contains($0) }
    }
    /// The stream, consumer or message does not exist.
    package var isNotFound: Bool { code == 404 }
}

extension StoreError {
    /// - Parameters:
    ///   - stream: The stream that the request was about.
    ///   - maximumBytes: The server's largest payload, for the message.
    package init(_ failure: JetStreamFailure, stream: String, address: NATSAddress, maximumBytes: Int) {
        let (code, cure) = Self.meaning(of: failure, stream: stream, maximumBytes: maximumBytes)
        let words = failure.text.isEmpty ? "" : " (\(NATSServerInformation.quoted(failure.text)))"
        self.init(code, "The NATS server at \(address)\(words): \(cure)")
    }

    private static func meaning(
        of failure: JetStreamFailure, stream: String, maximumBytes: Int
    ) -> (code: Code, cure: String) {
        switch failure.number {
        case 10076, JetStreamFailure.noRespondersNumber:
            (
                .courierUnsuitable,
                "It has no JetStream, or JetStream or the stream \(stream) has no leader at the moment. Wait, or start "
                    + "nats-server with -js, or with jetstream in its configuration."
            )
        case 10039, 10035:
            (.courierUnsuitable, "JetStream is off for this account. Switch it on, or use another user.")
        case 10077 where !failure.isAboutRoom:
            (
                .courierUnreachable,
                "The server cannot write the stream \(stream). Check its log and its disk; the mirror tries again."
            )
        case 10023, 10047, 10028, 10002, 10077, 10120, 10122:
            (
                .courierFull,
                "The stream \(stream) has no room for more. Raise max_file_store or the limits of the account and the "
                    + "stream, or free space on the server's disk."
            )
        case 10058, 10065:
            (
                .courierSettings,
                "Another stream has the name or the subjects of \(stream). Choose another group, or remove that "
                    + "stream with: nats stream rm."
            )
        case 10054, 10097:
            (
                .courierUnsuitable,
                "A message is too large for the stream \(stream). Raise its max_msg_size; the server's max_payload is "
                    + "\(maximumBytes) bytes."
            )
        case 10109, 10110:
            (.courierSettings, "The stream \(stream) cannot be changed. Remove it, or choose another group.")
        case 10074, 10005:
            (
                .courierUnsuitable,
                "The server or its cluster has too few nodes with JetStream for the wanted replicas of \(stream). "
                    + "Start more nodes, or ask for fewer replicas."
            )
        case 10113:
            (
                .courierUnsuitable,
                "The account demands a limit for each stream. Create the stream \(stream) with max_bytes first."
            )
        case 10026, 10027:
            (.courierFull, "The account has too many streams or consumers. Remove some, or raise its limits.")
        case 10004, 10008, 10009, 10118, 10119, 10194, 10195, 10007:
            (
                .courierUnreachable,
                "JetStream is not available now, because a node or its leader is missing. The mirror tries again."
            )
        case 10059, 10014:
            (
                .courierUnreachable,
                "The stream \(stream) or its consumer was just removed. The mirror tries again."
            )
        default:
            (
                failure.code == 503 ? .courierUnreachable : .courierUnsuitable,
                "JetStream refused a request about the stream \(stream) (error \(failure.number)). The server's log "
                    + "has the reason."
            )
        }
    }
}
