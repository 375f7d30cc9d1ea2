// The address of a NATS server and the credentials for it, as a person writes them.

package import Annals

/// The address of one NATS server.
package struct NATSAddress: Equatable, Sendable, CustomStringConvertible {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    package var host: String
    package var port: UInt16
    /// Credentials in the text of the address.
    package var credentials: NATSCredentials?

    package static let defaultPort: UInt16 = 4222
    /// A longer text is not an address.
    package static let maximumTextBytes = 4096

    /// Reads `nats://user:password@host:port`. Everything but the host can be omitted. A single name before the `@` is
    /// a token. Write `%XX` for characters of a password that an address gives a meaning.
    ///
    /// - Throws: `invalidArgument` with the mistake, without quoting credentials.
    package init(_ text: String) throws(StoreError) {
        guard text.utf8.count <= Self.maximumTextBytes else { throw Self.mistake("The address is too long") }
        let rest = try Self.withoutScheme(text)
        let authority = rest.hasSuffix("/") ? rest.dropLast() : rest
        var location = authority
        if let separator = authority.lastIndex(of: "@") {
            credentials = try Self.credentials(authority[..<separator])
            location = authority[authority.index(after: separator)...]
        }
        (host, port) = try Self.location(location)
    }

    /// Reads addresses with commas between them: the servers of a cluster. Credentials of one serve for all that have
    /// none.
    package static func list(_ text: String) throws(StoreError) -> [NATSAddress] {
        var found: [NATSAddress] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            found.append(try NATSAddress(String(part.drop { $0 == " " })))
        }
        let shared = found.lazy.compactMap(\.credentials).first
        for index in found.indices where found[index].credentials == nil { found[index].credentials = shared }
        return found
    }

    /// The address without credentials, for messages.
    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

/// The credentials of a client. No message or description contains them.
package enum NATSCredentials: Equatable, Sendable {
    case token(String)
    case user(String, password: String)
}

extension NATSCredentials: CustomStringConvertible, CustomReflectable {
    package var description: String { "credentials" }
    package var customMirror: Swift.Mirror { Swift.Mirror(self, children: []) }
}

// MARK: Reading

extension NATSAddress {
    private static func mistake(_ what: String) -> StoreError {
        StoreError(.invalidArgument, "\(what): write it as nats://host:port or nats://user:password@host:port.")
    }

    private static func withoutScheme(_ text: String) throws(StoreError) -> Substring {
        guard let range = text.firstRange(of: "://") else { return text[...] }
        switch text[..<range.lowerBound].lowercased() {
        case "nats", "tcp": return text[range.upperBound...]
        case "tls", "wss":
            throw StoreError(
                .invalidArgument,
                "A mirror does not encrypt its connection: run a nats-server on this machine as a leaf node, which "
                    + "connects to the remote server with TLS, and use nats://127.0.0.1:4222 here.")
        default:
            throw mistake("A mirror knows only addresses that begin with nats://")
        }
    }

    private static func credentials(_ text: Substring) throws(StoreError) -> NATSCredentials {
        guard let separator = text.firstIndex(of: ":") else {
            let token = try decoded(text)
            guard !token.isEmpty else { throw mistake("Nothing precedes the @ of the address") }
            return .token(token)
        }
        let user = try decoded(text[..<separator])
        guard !user.isEmpty else { throw mistake("The address has a password and no user") }
        return .user(user, password: try decoded(text[text.index(after: separator)...]))
    }

    /// Replaces `%XX`.
    private static func decoded(_ text: Substring) throws(StoreError) -> String {
        guard text.utf8.contains(UInt8(ascii: "%")) else { return String(text) }
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            if byte != UInt8(ascii: "%") {
                bytes.append(byte)
                continue
            }
            guard let digits = String(rest.prefix(2)), digits.utf8.count == 2, digits.first != "+",
                let value = UInt8(digits, radix: 16)
            else { throw mistake("A % in the user, password or token is not followed by two hexadecimal digits") }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        guard let decoded = String(validating: bytes, as: UTF8.self) else {
            throw mistake("The user, password or token is not UTF-8")
        }
        return decoded
    }

    private static func location(_ text: Substring) throws(StoreError) -> (String, UInt16) {
        var host = text
        var port: Substring?
        if text.first == "[" {
            guard let end = text.firstIndex(of: "]") else { throw mistake("The ] of the IPv6 address is missing") }
            host = text[text.index(after: text.startIndex)..<end]
            let rest = text[text.index(after: end)...]
            guard rest.isEmpty || rest.first == ":" else { throw mistake("A colon must follow the ] of the address") }
            port = rest.isEmpty ? nil : rest.dropFirst()
            guard host.contains(":") else { throw mistake("Brackets are for IPv6 addresses only") }
        } else if let separator = text.firstIndex(of: ":") {
            host = text[..<separator]
            port = text[text.index(after: separator)...]
            if let port, port.contains(":") { throw mistake("An IPv6 address needs brackets, like nats://[::1]:4222") }
        }
        guard !host.isEmpty, host.utf8.count <= 253 else { throw mistake("The address has no host, or a too long one") }
        guard host.unicodeScalars.allSatisfy({ isPartOfHost($0) }) else {
            throw mistake("The host of the address has a character that no host has")
        }
        guard let port else { return (String(host), defaultPort) }
        guard port.first?.isNumber == true, let number = UInt16(port), number > 0 else {
            throw mistake("The port of the address is not a number from 1 to 65535")
        }
        return (String(host), number)
    }

    private static func isPartOfHost(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value > 0x20 && scalar.value != 0x7f && !"/?#@\\\"'[]".unicodeScalars.contains(scalar)
    }
}
