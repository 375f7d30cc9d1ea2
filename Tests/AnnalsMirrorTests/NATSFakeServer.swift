// A NATS server of one test: it answers what the test's script says, also what no real server would.

import AnnalsMirror
import Foundation
import Glibc

/// Listens on a port of 127.0.0.1, and gives each connection to a script, on a thread of its own.
///
/// Sound although it is shared: fields that change are used with the lock held.
final class FakeNATSServer: @unchecked Sendable {
    typealias Script = @Sendable (FakeNATSConnection) throws -> Void

    let port: UInt16
    private let listener: Int32
    private let lock = NSLock()
    private var connections = 0
    private var ends = 0
    private var lines: [String] = []

    init(_ script: @escaping Script) throws {
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let listener = listener
        let isListening = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, size) == 0 && listen(listener, 16) == 0 && getsockname(listener, $0, &size) == 0
            }
        }
        guard isListening else { throw FakeNATSConnection.Ended() }
        port = UInt16(bigEndian: address.sin_port)
        Thread.detachNewThread { [weak self] in
            while true {
                let descriptor = accept(listener, nil, nil)
                guard descriptor >= 0, let index = self?.nextIndex() else { return }
                let connection = FakeNATSConnection(descriptor, index: index) { [weak self] line in self?.record(line) }
                Thread.detachNewThread { [weak self] in
                    try? script(connection)
                    connection.end()
                    self?.countEnd()
                }
            }
        }
    }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
    }

    var url: String { "nats://127.0.0.1:\(port)" }

    /// How many connections have come.
    var connectionCount: Int { lock.withLock { connections } }

    /// How many connections this side has closed.
    var endedCount: Int { lock.withLock { ends } }

    /// All lines of the protocol that clients have sent.
    var received: [String] { lock.withLock { lines } }

    private func nextIndex() -> Int {
        lock.withLock {
            connections += 1
            return connections - 1
        }
    }

    private func countEnd() { lock.withLock { ends += 1 } }

    private func record(_ line: String) { lock.withLock { lines.append(line) } }

    /// A port at which nothing listens.
    static func unusedPort() throws -> UInt16 { try FakeNATSServer { _ in }.port }
}

/// A client's connection, as the script sees it.
final class FakeNATSConnection: @unchecked Sendable {
    // Sound: only the thread of the script uses it.
    struct Ended: Error {}

    /// A message that a client has published.
    struct Request {
        var subject: String
        var reply: String?
        var headers = ""
        var payload: [UInt8] = []
        var text: String { String(decoding: payload, as: UTF8.self) }
    }

    enum Answer {
        case json(String)
        case noResponders
        case nothing
        /// Bytes of the protocol instead of a reply.
        case bytes(String)
        case end
    }

    /// 0 for the first connection.
    let index: Int
    private let descriptor: Int32
    private let record: (String) -> Void
    private var buffer: [UInt8] = []
    /// The subscription of each subject or pattern.
    private var subscriptions: [(prefix: String, number: String)] = []

    init(_ descriptor: Int32, index: Int, record: @escaping (String) -> Void) {
        self.descriptor = descriptor
        self.index = index
        self.record = record
    }

    func end() {
        shutdown(descriptor, Int32(SHUT_RDWR))
        close(descriptor)
    }

    func send(_ text: String) throws { try send(Array(text.utf8)[...]) }

    private func send(_ bytes: ArraySlice<UInt8>) throws {
        var rest = bytes
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, 0x4000) }
            guard count > 0 else { throw Ended() }
            rest = rest.dropFirst(count)
        }
    }

    func readLine() throws -> String {
        while true {
            if let end = buffer.firstIndex(of: UInt8(ascii: "\n")) {
                let line = String(decoding: buffer[..<end], as: UTF8.self)
                buffer.removeSubrange(...end)
                let text = line.hasSuffix("\r") ? String(line.dropLast()) : line
                record(text)
                return text
            }
            try receive()
        }
    }

    private func read(_ count: Int) throws -> [UInt8] {
        while buffer.count < count { try receive() }
        let bytes = Array(buffer[..<count])
        buffer.removeSubrange(..<count)
        return bytes
    }

    private func receive() throws { buffer += try receiveChunk() }

    private func receiveChunk() throws -> [UInt8] {
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        let count = recv(descriptor, &chunk, chunk.count, 0)
        guard count > 0 else { throw Ended() }
        return Array(chunk[..<count])
    }

    /// Forwards everything to a real server and back, and breaks both connections after some bytes.
    func forward(to port: UInt16, breakAfter bytes: Int) throws {
        let server = FakeNATSConnection(try Self.connect(to: port), index: index) { _ in }
        let budget = Budget(bytes)
        Thread.detachNewThread { [self] in
            try? pump(from: server, to: self, budget)
            shutdown(descriptor, Int32(SHUT_RDWR))
        }
        try? pump(from: self, to: server, budget)
        server.end()
    }

    private func pump(
        from source: FakeNATSConnection, to target: FakeNATSConnection, _ budget: Budget
    ) throws {
        while true {
            let chunk = try source.receiveChunk()
            let allowed = budget.take(chunk.count)
            try target.send(chunk[..<allowed])
            if allowed < chunk.count { throw Ended() }
        }
    }

    /// Bytes until a connection breaks. Sound: used with the lock held.
    private final class Budget: @unchecked Sendable {
        private let lock = NSLock()
        private var left: Int
        init(_ left: Int) { self.left = left }

        func take(_ count: Int) -> Int {
            lock.withLock {
                let taken = min(left, count)
                left -= taken
                return taken
            }
        }
    }

    private static func connect(to port: UInt16) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        address.sin_port = port.bigEndian
        let status = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard status == 0 else { throw Ended() }
        return descriptor
    }

    static let information = #"{"version":"2.9.0","headers":true,"max_payload":1048576}"#

    /// Introduces itself and answers like a server, until the client or an answer ends the connection.
    func serve(_ information: String = information, _ answer: (Request) throws -> Answer) throws {
        try send("INFO \(information)\r\n")
        while true {
            let line = try readLine()
            let words = line.split(separator: " ").map(String.init)
            switch words.first {
            case "PING": try send("PONG\r\n")
            case "SUB": subscriptions.append((words[1].replacing("*", with: ""), words[words.count - 1]))
            case "PUB", "HPUB":
                if try !reply(to: try request(words), answer) { return }
            default: break
            }
        }
    }

    private func request(_ words: [String]) throws -> Request {
        let sizes = words[0] == "HPUB" ? 2 : 1
        var request = Request(subject: words[1], reply: words.count > 2 + sizes ? words[2] : nil)
        let total = Int(words[words.count - 1]) ?? 0
        let headers = sizes == 2 ? Int(words[words.count - 2]) ?? 0 : 0
        let bytes = try read(total + 2)
        request.headers = String(decoding: bytes[..<headers], as: UTF8.self)
        request.payload = Array(bytes[headers..<total])
        return request
    }

    /// - Returns: False if the answer ends the connection.
    private func reply(to request: Request, _ answer: (Request) throws -> Answer) throws -> Bool {
        switch try answer(request) {
        case .json(let text): try deliver(text, to: request)
        case .noResponders: try deliver("", headers: "NATS/1.0 503\r\n\r\n", to: request)
        case .nothing: break
        case .bytes(let text): try send(text)
        case .end: return false
        }
        return true
    }

    /// Sends a reply to the subscription that takes it.
    func deliver(_ text: String, headers: String = "", to request: Request) throws {
        guard let reply = request.reply,
            let subscription = subscriptions.first(where: { reply.hasPrefix($0.prefix) })
        else { return }
        let total = headers.utf8.count + text.utf8.count
        let line =
            headers.isEmpty
            ? "MSG \(reply) \(subscription.number) \(total)"
            : "HMSG \(reply) \(subscription.number) \(headers.utf8.count) \(total)"
        try send("\(line)\r\n\(headers)\(text)\r\n")
    }
}

// MARK: JetStream

/// A stream that stores nothing, and acknowledges everything.
struct FakeJetStream {
    var config =
        #"{"name":"ANNALS_g","subjects":["annals.g.*"],"retention":"limits","storage":"file","num_replicas":1}"#
    var created = "2026-01-01T00:00:00Z"
    var cluster = ""
    private var sequence = 0

    mutating func answer(_ request: FakeNATSConnection.Request) -> FakeNATSConnection.Answer {
        if request.subject.hasPrefix("$JS.API.STREAM.INFO.") {
            return .json(
                #"{\#(cluster)"config":\#(config),"created":"\#(created)","state":{"messages":\#(sequence),"#
                    + #""first_seq":1,"#
                    + #""last_seq":\#(sequence),"last_ts":"2026-01-01T00:00:00Z"}}"#)
        }
        if request.subject.hasPrefix("annals.") {
            sequence += 1
            return .json(#"{"stream":"ANNALS_g","seq":\#(sequence)}"#)
        }
        return .json(Self.failure(404, 10059, "stream not found"))
    }

    static func failure(_ code: Int, _ number: Int, _ text: String) -> String {
        #"{"error":{"code":\#(code),"err_code":\#(number),"description":"\#(text)"}}"#
    }
}
