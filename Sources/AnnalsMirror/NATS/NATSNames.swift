// The names of a group's streams and subjects.

package import Annals

/// The names that a group and a peer have on the server.
///
/// | name | for |
/// |---|---|
/// | `ANNALS_<group>` | the stream of messages |
/// | `annals.<group>.<peer>` | messages of a peer |
/// | `ANNALS_<group>_STATES` | the stream of states |
/// | `annals-states.<group>.<state>.chunk.<peer>.<upload>` | the parts of a state |
/// | `annals-states.<group>.<state>.done` | the description of the complete state, which finishes it |
package struct NATSNames: Equatable, Sendable {
    package let stream: String
    package let subjects: String
    package let ownSubject: String
    /// The encoded name of the peer.
    package let peerToken: String
    package let statesStream: String
    package let statesSubjects: String
    private let subjectPrefix: String
    private let statesPrefix: String

    package static let maximumNameBytes = 64

    /// - Throws: `invalidArgument`.
    package init(group: String, peer: String) throws(StoreError) {
        var groupToken = try Self.token(group, kind: "group")
        // Otherwise its stream of messages would have the name of another group's stream of states.
        if groupToken.hasSuffix("_STATES") { groupToken = groupToken.dropLast(7) + "=5FSTATES" }
        peerToken = try Self.token(peer, kind: "peer")
        stream = "ANNALS_\(groupToken)"
        subjectPrefix = "annals.\(groupToken)."
        subjects = subjectPrefix + "*"
        ownSubject = subjectPrefix + peerToken
        statesStream = "ANNALS_\(groupToken)_STATES"
        statesPrefix = "annals-states.\(groupToken)."
        statesSubjects = statesPrefix + ">"
    }

    /// The peer that a message came from; nil if the subject is none of the group's.
    package func peer(ofSubject subject: String) -> String? {
        guard subject.hasPrefix(subjectPrefix) else { return nil }
        return Self.name(ofToken: subject.dropFirst(subjectPrefix.count))
    }

    package func finishSubject(state: String) throws(StoreError) -> String {
        "\(statesPrefix)\(try Self.token(state, kind: "state")).done"
    }

    /// - Parameter upload: Nil is the pattern for all uploads of the peer.
    package func chunkSubject(state: String, peerToken: String, upload: String?) throws(StoreError) -> String {
        "\(statesPrefix)\(try Self.token(state, kind: "state")).chunk.\(peerToken).\(upload ?? "*")"
    }
}

// MARK: Encoding

extension NATSNames {
    /// A name as one word of a subject. Letters, digits, `-` and `_` remain; `=XX` is any other byte of its UTF-8.
    package static func token(_ name: String, kind: String) throws(StoreError) -> String {
        guard !name.isEmpty, name.utf8.count <= maximumNameBytes else {
            throw StoreError(
                .invalidArgument,
                "The name of a \(kind) has 1 to \(maximumNameBytes) bytes of UTF-8: choose a shorter name, or one that "
                    + "is not empty.")
        }
        var token: [UInt8] = []
        for byte in name.utf8 {
            if isPlain(byte) {
                token.append(byte)
            } else {
                token.append(contentsOf: [UInt8(ascii: "="), digit(byte >> 4), digit(byte & 15)])
            }
        }
        return String(decoding: token, as: UTF8.self)
    }

    /// The name that has this token; nil if none has.
    package static func name(ofToken token: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = token.utf8[...]
        while let byte = rest.popFirst() {
            if isPlain(byte) {
                bytes.append(byte)
                continue
            }
            guard byte == UInt8(ascii: "="), let high = rest.popFirst().flatMap(value),
                let low = rest.popFirst().flatMap(value), !isPlain(high << 4 | low)
            else { return nil }
            bytes.append(high << 4 | low)
        }
        guard !bytes.isEmpty, bytes.count <= maximumNameBytes else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }

    /// Whether the text is one word without a meaning of its own in subjects.
    package static func isToken(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= 3 * maximumNameBytes
            && text.utf8.allSatisfy { isPlain($0) || $0 == UInt8(ascii: "=") }
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    private static func digit(_ value: UInt8) -> UInt8 { Array("0123456789ABCDEF".utf8)[Int(value)] }

    private static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
