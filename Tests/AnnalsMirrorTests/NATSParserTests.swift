// The protocol of NATS as bytes: whole, divided anywhere, broken, over the limits, and random.

import Annals
import AnnalsMirror
import TestSupport
import Testing

@Suite struct NATSParserTests {
    private static func message(
        _ subject: String, _ subscription: UInt64, reply: String? = nil, headers: String = "", _ payload: String
    ) -> NATSFrame {
        .message(
            NATSMessage(
                subject: subject, subscription: subscription, reply: reply, headers: NATSHeaders(Array(headers.utf8)),
                payload: Array(payload.utf8)))
    }

    /// Texts of a server, and the frames that they mean.
    static let valid: [(text: String, frames: [NATSFrame])] = [
        ("", []),
        ("PING\r\n", [.ping]),
        ("ping\r\npong\r\n", [.ping, .pong]),
        ("PONG\r\n+OK\r\nPING\r\n", [.pong, .ok, .ping]),
        ("INFO {\"a\": 1}\r\n", [.information(Array("{\"a\": 1}".utf8))]),
        ("-ERR 'Authorization Violation'\r\n", [.error("Authorization Violation")]),
        ("-ERR Stale Connection\r\n", [.error("Stale Connection")]),
        ("MSG a.b 12 5\r\nhello\r\n", [message("a.b", 12, "hello")]),
        ("MSG a.b 12 re.ply 5\r\nhello\r\n", [message("a.b", 12, reply: "re.ply", "hello")]),
        ("MSG  a\t1   0\r\n\r\n", [message("a", 1, "")]),
        ("MSG a 1 4\r\n\r\n\r\n\r\nPING\r\n", [message("a", 1, "\r\n\r\n"), .ping]),
        (
            "HMSG a 1 r 22 27\r\nNATS/1.0\r\nKey: abc\r\n\r\nhello\r\n",
            [message("a", 1, reply: "r", headers: "NATS/1.0\r\nKey: abc\r\n\r\n", "hello")]
        ),
        (
            "HMSG a 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\nPONG\r\n",
            [message("a", 1, headers: "NATS/1.0 503\r\n\r\n", ""), .pong]
        ),
    ]

    private func frames(_ chunks: [ArraySlice<UInt8>]) throws -> [NATSFrame] {
        var parser = NATSParser()
        var found: [NATSFrame] = []
        for chunk in chunks {
            parser.append(chunk)
            while let frame = try parser.next() { found.append(frame) }
        }
        return found
    }

    @Test(arguments: valid.indices)
    func wholeTextIsRead(index: Int) throws {
        let (text, expected) = Self.valid[index]
        #expect(try frames([Array(text.utf8)[...]]) == expected)
    }

    @Test(arguments: valid.indices)
    func textDividedAtAnyTwoPlacesIsTheSame(index: Int) throws {
        let (text, expected) = Self.valid[index]
        let bytes = Array(text.utf8)
        for first in 0...bytes.count {
            for second in first...bytes.count {
                let found = try frames([bytes[..<first], bytes[first..<second], bytes[second...]])
                #expect(found == expected, "divided at \(first) and \(second)")
            }
        }
        #expect(try frames(bytes.indices.map { bytes[$0...$0] }) == expected)
    }

    @Test(
        arguments: [
            "\r\n", "HELLO\r\n", "PING\n", "PING PONG\r\n", "HTTP/1.1 400 Bad Request\r\n", "MSG\r\n", "MSG a 1\r\n",
            "MSG a b 1\r\n", "MSG a 1 -1\r\n", "MSG a 1 +1\r\n", "MSG a 1 b c 1\r\n", "MSG a 1 99999999999\r\n",
            "MSG a 1 0\r\nxx", "MSG a 1 1\r\nabc", "HMSG a 1 5\r\n", "HMSG a 1 5 4\r\n", "HMSG a 1 0 4\r\n",
            "\u{16}\u{3}\u{1}\u{2}\r\n",
        ])
    func brokenLineIsDamage(text: String) {
        let error = storeError { _ = try frames([Array(text.utf8)[...]]) }
        #expect(error?.code == .courierDamaged)
    }

    @Test func errorIsRepeated() {
        var parser = NATSParser()
        parser.append(Array("NONSENSE\r\nPING\r\n".utf8)[...])
        for _ in 0..<3 { #expect(code { _ = try parser.next() } == .courierDamaged) }
    }

    @Test func longLineIsRefusedBeforeItsEnd() {
        var parser = NATSParser()
        parser.append([UInt8](repeating: UInt8(ascii: "A"), count: NATSLimits.controlLineBytes + 2)[...])
        #expect(code { _ = try parser.next() } == .courierDamaged)
    }

    @Test func descriptionOfALargeClusterMayBeLong() throws {
        let text = "INFO {\"a\": \"" + String(repeating: "x", count: 20_000) + "\"}\r\n"
        #expect(try frames([Array(text.utf8)[...]]).count == 1)
        let tooLong = "INFO " + String(repeating: "x", count: NATSLimits.informationBytes + 1)
        #expect(code { _ = try frames([Array(tooLong.utf8)[...]]) } == .courierDamaged)
    }

    @Test func messageOverTheLimitIsRefusedAtItsLine() throws {
        var parser = NATSParser()
        parser.maximumMessageBytes = 100
        parser.append(Array("MSG a 1 100\r\n".utf8)[...])
        #expect(try parser.next() == nil)
        parser = NATSParser()
        parser.maximumMessageBytes = 100
        parser.append(Array("MSG a 1 101\r\n".utf8)[...])
        #expect(code { _ = try parser.next() } == .courierDamaged)
    }

    @Test func headersOverTheLimitAreRefusedAtTheirLine() {
        let text = "HMSG a 1 \(NATSLimits.headerBytes + 1) \(NATSLimits.headerBytes + 9)\r\n"
        #expect(code { _ = try frames([Array(text.utf8)[...]]) } == .courierDamaged)
    }

    @Test(arguments: 1...200 as ClosedRange<UInt64>)
    func randomChunksOfRandomMessagesAreRead(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var expected: [NATSFrame] = []
        var bytes: [UInt8] = []
        for _ in 0..<30 {
            let (text, frames) = random.one(of: Self.valid)
            bytes += text.utf8
            expected += frames
        }
        var chunks: [ArraySlice<UInt8>] = []
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, start + 1 + random.next(below: 40))
            chunks.append(bytes[start..<end])
            start = end
        }
        #expect(try frames(chunks) == expected)
    }

    @Test(arguments: 1...300 as ClosedRange<UInt64>)
    func randomBytesAreReadOrRefused(seed: UInt64) {
        var random = SeededRandom(seed)
        var bytes = random.happens(0.5) ? Array(random.one(of: Self.valid).text.utf8) : []
        bytes += (0..<random.next(below: 400)).map { _ in
            random.happens(0.3)
                ? random.one(of: Array("MSGH PINGOK+-\r\n0123456789".utf8)) : UInt8(random.next(below: 256))
        }
        if !bytes.isEmpty { bytes[random.next(below: bytes.count)] ^= UInt8(1 + random.next(below: 255)) }
        let error = storeError { _ = try frames([bytes[...]]) }
        #expect(error == nil || error?.code == .courierDamaged)
    }
}

@Suite struct NATSHeadersTests {
    @Test(
        arguments: [
            ("NATS/1.0\r\n\r\n", nil, ""), ("NATS/1.0 503\r\n\r\n", 503, ""),
            ("NATS/1.0 408 Request Timeout\r\nA: b\r\n\r\n", 408, "Request Timeout"), ("", nil, ""),
            ("NATS/1.0 5\r\n\r\n", nil, ""), ("HTTP/1.1 200 OK\r\n\r\n", nil, ""), ("NATS/1.0 abc\r\n\r\n", nil, ""),
        ] as [(String, Int?, String)])
    func statusIsInTheFirstLine(text: String, status: Int?, words: String) {
        let headers = NATSHeaders(Array(text.utf8))
        #expect(headers.status == status)
        if status != nil { #expect(headers.statusText == words) }
    }

    @Test func fieldsAreFoundWhateverTheirLetters() {
        let headers = NATSHeaders(Array("NATS/1.0\r\nNats-Msg-Id: a:1\r\nEmpty:\r\nbroken\r\nTwo: a: b\r\n\r\n".utf8))
        #expect(headers["nats-msg-id"] == "a:1")
        #expect(headers["Empty"] == "")
        #expect(headers["Two"] == "a: b")
        #expect(headers["broken"] == nil)
        #expect(headers["NATS/1.0"] == nil)
    }
}
