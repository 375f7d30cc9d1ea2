// The service of the guide "On a server": a plain client reads its events, comes back after each cut, and misses
// nothing; SIGTERM ends it in order.

import Annals
import Glibc
import TestSupport
import Testing

private struct Item: Entity {
    var title = ""
}

/// A connection to a port of this machine.
private final class Connection {
    private let socket: Int32
    private var received: [UInt8] = []

    init(port: UInt16, _ request: String) throws {
        socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let socket = socket
        let isConnected = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                connect(socket, address, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isConnected else { throw OracleDifference("no connection: \(errno)") }
        let bytes = Array(request.utf8)
        guard Glibc.send(socket, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count else {
            throw OracleDifference("the request was not sent: \(errno)")
        }
    }

    deinit { close(socket) }

    /// The next line; nil at the end of the connection, or when nothing has come for a minute.
    func line() -> String? {
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            if let end = received.firstIndex(of: UInt8(ascii: "\n")) {
                defer { received.removeSubrange(...end) }
                return String(decoding: received[..<end].filter { $0 != UInt8(ascii: "\r") }, as: UTF8.self)
            }
            var list = [pollfd(fd: socket, events: Int16(POLLIN), revents: 0)]
            guard poll(&list, 1, 60_000) > 0 else { return nil }
            let count = recv(socket, &buffer, buffer.count, 0)
            guard count > 0 else { return nil }
            received += buffer[..<count]
        }
    }

    /// Everything up to the end.
    func rest() -> [String] {
        var lines: [String] = []
        while let line = line() { lines.append(line) }
        if !received.isEmpty { lines.append(String(decoding: received, as: UTF8.self)) }
        return lines
    }
}

@Suite struct ServiceSampleTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func start() throws -> (process: RunningTool, port: UInt16) {
        let process = try RunningTool([folder.path], name: "sample-service")
        guard let port = process.line().flatMap(UInt16.init) else {
            throw OracleDifference("the service did not start: \(process.end().errors)")
        }
        return (process, port)
    }

    private func events(_ port: UInt16, after number: UInt64?) throws -> Connection {
        let last = number.map { "Last-Event-ID: \($0)\r\n" } ?? ""
        return try Connection(port: port, "GET /events HTTP/1.1\r\nHost: x\r\n\(last)\r\n")
    }

    @discardableResult
    private func post(_ title: String, _ port: UInt16) throws -> [String] {
        try Connection(
            port: port, "POST /items HTTP/1.1\r\nHost: x\r\nContent-Length: \(title.utf8.count)\r\n\r\n\(title)"
        ).rest()
    }

    /// The next event of a connection.
    private func event(_ connection: Connection) -> (id: UInt64, data: String, name: String)? {
        var (id, data, name) = (0 as UInt64, "", "")
        while let line = connection.line() {
            if line.hasPrefix("id: ") { id = UInt64(line.dropFirst(4)) ?? 0 }
            if line.hasPrefix("data: ") { data = String(line.dropFirst(6)) }
            if line.hasPrefix("event: ") { name = String(line.dropFirst(7)) }
            if line.isEmpty, id > 0 { return (id, data, name) }
        }
        return nil
    }

    @Test func aReconnectingClientMissesNothing() throws {
        var (process, port) = try start()
        let store = try Store(at: folder.path, entities: [Item.self])
        var random = SeededRandom(1)
        var (last, written) = (nil as UInt64?, 0)
        var seen: [UInt64] = []
        for round in 0..<30 {
            // Another process writes, and so does the service.
            for _ in 0..<Int.random(in: 0...8, using: &random) {
                written += 1
                if Bool.random(using: &random) {
                    try store.write(author: "other") { _ = try $0.insert(Item(title: "item \(written)")) }
                } else {
                    #expect(try post("item \(written)", port).first == "HTTP/1.1 201 Created")
                }
            }
            if round % 10 == 5 { try store.compact() }
            if round % 10 == 9 {
                process.signal(SIGKILL)
                _ = process.end()
                (process, port) = try start()
            }
            let connection = try events(port, after: last)
            let newest = try store.currentToken.number
            var wanted = round == 29 ? .max : Int.random(in: 0...10, using: &random)
            while wanted > 0, (last ?? 0) < newest {
                wanted -= 1
                guard let event = event(connection) else {
                    throw OracleDifference("the stream ended in round \(round)")
                }
                #expect(event.name == "", "\(event)")
                seen.append(event.id)
                last = event.id
            }
            // The connection is cut without a word.
        }
        #expect(try seen == Array(1...store.currentToken.number))
        #expect(try store.snapshot().count(Item.self) == written)
        // A client that was away for longer than history is told to read everything again.
        try store.deleteHistory(before: store.currentToken)
        try store.write { _ = try $0.insert(Item(title: "last")) }
        let connection = try events(port, after: 1)
        #expect(event(connection)?.name == "reload")
        let items = try Connection(port: port, "GET /items HTTP/1.1\r\nHost: x\r\n\r\n").rest()
        #expect(items.last?.contains("\"last\"") == true)
        #expect(items.contains("Last-Event-ID: \(try store.currentToken.number)"))
        try store.close()
        // The stream is open and the client reads nothing: the service ends all the same.
        let began = RealEnvironment().monotonicMicroseconds()
        process.signal(SIGTERM)
        let run = process.end()
        print("SIGTERM to the end: \(RealEnvironment().monotonicMicroseconds() - began) microseconds")
        #expect(run.status == 0 && run.errors == "", "\(run)")
        // At most comments have come since, which ask whether the client is there.
        #expect(connection.rest().allSatisfy { $0.isEmpty || $0 == ":" })
        try folder.expectIntact()
    }
}
