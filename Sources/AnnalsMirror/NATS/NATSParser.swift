// Reads the protocol that a NATS server speaks to its clients. Pure: bytes in, frames out.

package import Annals

/// One thing that a server says.
package enum NATSFrame: Equatable, Sendable {
    /// The JSON text that describes the server.
    case information([UInt8])
    case message(NATSMessage)
    case ping
    case pong
    case ok
    /// The text between the quotes.
    case error(String)
}

/// A message as a server delivers it.
package struct NATSMessage: Equatable, Sendable {
    package var subject: String
    /// The number of the client's subscription.
    package var subscription: UInt64
    package var reply: String?
    package var headers = NATSHeaders()
    package var payload: [UInt8] = []

    package init(
        subject: String, subscription: UInt64, reply: String? = nil, headers: NATSHeaders = NATSHeaders(),
        payload: [UInt8] = []
    ) {
        (self.subject, self.subscription, self.reply) = (subject, subscription, reply)
        (self.headers, self.payload) = (headers, payload)
    }
}

/// Divides the bytes of a server into frames, whatever the sizes of the chunks that they come in.
///
/// Invariants:
/// - P1: The buffer has at most one unfinished frame and the last chunk. A frame is at most as large as its limit,
///   which is checked before the frame's bytes are waited for.
/// - P2: After an error every further call throws the same error: the place of the next frame is unknown.
package struct NATSParser: Sendable {
    /// The largest headers and payload of a message, together: as many bytes as the client has asked for.
    package var maximumMessageBytes = NATSLimits.answerBytes

    private var buffer: [UInt8] = []
    /// The first byte that is not part of a finished frame.
    private var start = 0
    /// No line ends before this byte.
    private var searched = 0
    /// The message whose bytes are awaited.
    private var expected: Expected?
    private var failure: StoreError?

    private struct Expected {
        var message: NATSMessage
        var headerBytes: Int
        var totalBytes: Int
    }

    package init() {}

    /// Adds bytes as they came.
    package mutating func append(_ bytes: ArraySlice<UInt8>) {
        if start == buffer.count {
            buffer.removeAll(keepingCapacity: buffer.capacity <= 1 << 20)
            (start, searched) = (0, 0)
        } else if start > 1 << 16, start > buffer.count / 2 {
            buffer.removeSubrange(..<start)
            searched -= start
            start = 0
        }
        buffer.append(contentsOf: bytes)
    }

    /// Returns the next whole frame, or nil if more bytes are needed.
    ///
    /// - Throws: `courierDamaged` if the bytes are not the protocol, or are over a limit.
    package mutating func next() throws(StoreError) -> NATSFrame? {
        if let failure { throw failure }
        do throws(StoreError) {
            if expected == nil {
                guard let line = try nextLine() else { return nil }
                if let frame = try read(line) { return frame }
            }
            return try finishedMessage()
        } catch {
            failure = error
            throw error
        }
    }

    // MARK: Lines

    /// The bytes of the next line without its end; nil if the line is unfinished.
    private mutating func nextLine() throws(StoreError) -> Range<Int>? {
        let limit = isInformation ? NATSLimits.informationBytes : NATSLimits.controlLineBytes
        var index = max(searched, start)
        while index < buffer.count, buffer[index] != UInt8(ascii: "\n") { index += 1 }
        searched = index
        guard index - start <= limit + 1 else { throw Self.broken("a line of the protocol is too long") }
        guard index < buffer.count else { return nil }
        guard index > start, buffer[index - 1] == UInt8(ascii: "\r") else {
            throw Self.broken("a line does not end as the protocol demands")
        }
        defer { start = index + 1 }
        return start..<(index - 1)
    }

    private var isInformation: Bool {
        buffer.count - start >= 5 && buffer[start..<(start + 5)].elementsEqual("INFO ".utf8)
    }

    /// Reads a line. Returns nil if the line begins a message, whose bytes follow.
    private mutating func read(_ line: Range<Int>) throws(StoreError) -> NATSFrame? {
        let words = line.isEmpty ? [] : words(of: line)
        switch words.first.map({ buffer[$0].map { $0 & 0x5f } }) ?? [] {
        case Self.msg: try expectMessage(words, hasHeaders: false)
        case Self.hmsg: try expectMessage(words, hasHeaders: true)
        case Self.ping where words.count == 1: return .ping
        case Self.pong where words.count == 1: return .pong
        case Self.ok where words.count == 1: return .ok
        case Self.info: return .information(Array(buffer[words[0].upperBound..<line.upperBound].dropFirst()))
        case Self.err:
            let text = String(decoding: buffer[words[0].upperBound..<line.upperBound], as: UTF8.self)
            return .error(String(text.drop { " '".contains($0) }.prefix { $0 != "'" }))
        default: throw Self.broken("a line is none of the protocol")
        }
        return nil
    }

    /// The names of lines in capital letters, as `& 0x5f` makes them; a name may come in small letters.
    private static let msg = Array("MSG".utf8)
    private static let hmsg = Array("HMSG".utf8)
    private static let ping = Array("PING".utf8)
    private static let pong = Array("PONG".utf8)
    private static let info = Array("INFO".utf8)
    private static let ok = Array("+OK".utf8).map { $0 & 0x5f }
    private static let err = Array("-ERR".utf8).map { $0 & 0x5f }

    /// The places of the words of a line. A line of a message has at most six.
    private func words(of line: Range<Int>) -> [Range<Int>] {
        var found: [Range<Int>] = []
        var index = line.lowerBound
        while index < line.upperBound, found.count < 7 {
            if Self.isSpace(buffer[index]) {
                index += 1
                continue
            }
            let first = index
            while index < line.upperBound, !Self.isSpace(buffer[index]) { index += 1 }
            found.append(first..<index)
        }
        return found
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }

    // MARK: Messages

    /// `MSG subject subscription [reply] total`, and for `HMSG` the size of the headers before the total.
    private mutating func expectMessage(_ words: [Range<Int>], hasHeaders: Bool) throws(StoreError) {
        let sizes = hasHeaders ? 2 : 1
        let withoutReply = 3 + sizes
        guard words.count == withoutReply || words.count == withoutReply + 1 else {
            throw Self.broken("the line of a message has a wrong number of words")
        }
        guard let subscription = number(words[2]), let total = number(words[words.count - 1]),
            let header = hasHeaders ? number(words[words.count - 2]) : 0
        else { throw Self.broken("the line of a message has a wrong number") }
        guard header <= total, !hasHeaders || header > 0 else {
            throw Self.broken("the headers of a message are larger than the message")
        }
        guard header <= NATSLimits.headerBytes else { throw Self.broken("the headers of a message are too large") }
        guard total <= maximumMessageBytes else {
            throw Self.broken("a message has \(total) bytes, and at most \(maximumMessageBytes) were asked for")
        }
        let reply = words.count > withoutReply ? string(words[3]) : nil
        expected = Expected(
            message: NATSMessage(subject: string(words[1]), subscription: UInt64(subscription), reply: reply),
            headerBytes: header, totalBytes: total)
    }

    private mutating func finishedMessage() throws(StoreError) -> NATSFrame? {
        guard let expected, buffer.count - start >= expected.totalBytes + 2 else { return nil }
        var message = expected.message
        let body = start + expected.headerBytes
        let end = start + expected.totalBytes
        guard buffer[end] == UInt8(ascii: "\r"), buffer[end + 1] == UInt8(ascii: "\n") else {
            throw Self.broken("a message is longer or shorter than its line promises")
        }
        if body > start { message.headers = NATSHeaders(Array(buffer[start..<body])) }
        message.payload = Array(buffer[body..<end])
        start = end + 2
        searched = start
        self.expected = nil
        return .message(message)
    }

    private func string(_ word: Range<Int>) -> String { String(decoding: buffer[word], as: UTF8.self) }

    /// A decimal number of at most 10 digits. Larger ones are over each limit.
    private func number(_ word: Range<Int>) -> Int? {
        guard word.count <= 10 else { return nil }
        var value = 0
        for byte in buffer[word] {
            guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
            value = value * 10 + Int(byte - UInt8(ascii: "0"))
        }
        return value
    }

    private static func broken(_ what: String) -> StoreError {
        StoreError(
            .courierDamaged,
            "The server breaks the NATS protocol: \(what). Check that the address and port belong to a NATS server.")
    }
}
