// The introductions of a server and its client, and the errors that the server sends.

package import Annals

/// A server's description of itself. The mirror uses it within its own limits only.
package struct NATSServerInformation: Equatable, Sendable {
    private(set) var isKnown = false
    private(set) var version = ""
    /// The largest headers and payload that it accepts, together.
    private(set) var maximumPayloadBytes = 1 << 20
    private var hasHeaders = false
    private var needsTLS = false

    /// Before the server has sent one.
    package init() {}

    /// - Throws: `courierDamaged` if the text is not JSON.
    package init(_ json: [UInt8]) throws(StoreError) {
        let fields = try NATSJSON.decode(Fields.self, from: json)
        isKnown = true
        version = String((fields.version ?? "").prefix(64))
        maximumPayloadBytes = max(0, min(fields.maxPayload ?? 1 << 20, NATSLimits.payloadBytes))
        hasHeaders = fields.headers ?? false
        needsTLS = fields.tlsRequired ?? false
    }

    private struct Fields: Decodable {
        var version: String?
        var maxPayload: Int?
        var headers: Bool?
        var tlsRequired: Bool?
    }

    /// - Throws: `courierUnsuitable`.
    package func checkSuitability(at address: NATSAddress) throws(StoreError) {
        if needsTLS {
            throw StoreError(
                .courierUnsuitable,
                "The NATS server at \(address) demands TLS, which a mirror does not speak: run a nats-server on this "
                    + "machine as a leaf node of that server, and connect to it.")
        }
        if !hasHeaders {
            throw StoreError(
                .courierUnsuitable,
                "The NATS server at \(address) does not support headers: update it to version 2.9 or later.")
        }
        if maximumPayloadBytes < NATSLimits.smallestPayloadBytes {
            throw StoreError(
                .courierUnsuitable,
                "The NATS server at \(address) accepts messages of at most \(maximumPayloadBytes) bytes: raise "
                    + "max_payload in its configuration to \(NATSLimits.smallestPayloadBytes) or more.")
        }
    }
}

// MARK: Errors of the server

extension NATSServerInformation {
    /// After any other error the server closes the connection.
    package static func keepsConnection(afterError text: String) -> Bool {
        text.lowercased().hasPrefix("permissions violation")
    }

    /// The error for the text of an `-ERR` line.
    static func error(_ text: String, at address: NATSAddress, server: NATSServerInformation) -> StoreError {
        let shown = quoted(text)
        let lowercased = text.lowercased()
        if lowercased.hasPrefix("permissions violation") {
            return StoreError(
                .courierRefused,
                "The NATS server at \(address) does not allow what a mirror must do (\(shown)): give its user "
                    + "permissions for annals.>, annals-states.>, $JS.API.> and _INBOX.>.")
        }
        if lowercased.contains("authorization") || lowercased.contains("authentication") {
            return StoreError(
                .courierRefused,
                "The NATS server at \(address) refuses the credentials (\(shown)): check the token, or the user and "
                    + "the password.")
        }
        if lowercased.hasPrefix("maximum payload") {
            return StoreError(
                .courierUnsuitable,
                "The NATS server at \(address) refuses a message because it is too large: its max_payload is "
                    + "\(server.maximumPayloadBytes) bytes. Raise it, or restart the mirror to read it again.")
        }
        if lowercased.hasPrefix("maximum connections") {
            return StoreError(
                .courierUnreachable,
                "The NATS server at \(address) has too many connections: raise its max_connections, or end some.")
        }
        return StoreError(
            .courierUnreachable,
            "The NATS server at \(address) ended the connection with the words “\(shown)”: the server's log has the "
                + "reason.")
    }

    /// A server's words, shortened and without control characters.
    package static func quoted(_ text: String) -> String {
        let shown = text.unicodeScalars.prefix(200).map { $0.value < 0x20 || $0.value == 0x7f ? " " : $0 }
        return String(String.UnicodeScalarView(shown))
    }
}

// MARK: The client's introduction

/// The content of `CONNECT`. The names of its fields are those of the protocol.
package struct NATSIntroduction: Encodable {
    private var verbose = false
    private var pedantic = false
    private var tlsRequired = false
    private var lang = "swift"
    private var version = "1"
    private var `protocol` = 1
    private var headers = true
    private var noResponders = true
    private var name: String
    private var authToken: String?
    private var user: String?
    private var pass: String?

    package init(name: String, credentials: NATSCredentials?) {
        self.name = name
        switch credentials {
        case .token(let token): authToken = token
        case .user(let user, let password): (self.user, pass) = (user, password)
        case nil: break
        }
    }
}
