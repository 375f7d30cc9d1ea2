// Connections, each with a thread: requests, answers, and the stream of events.

import Annals
import Foundation
import Synchronization

struct Item: Entity {
    var title = ""
}

final class Service: Sendable {
    private struct Open {
        var connections: Set<Int32> = []
        var watchers: [ObjectIdentifier: ChangeWatcher] = [:]
        var isEnding = false
    }

    private let store: Store
    private let listener: Int32
    let port: UInt16
    private let open = Mutex(Open())
    private let threads = DispatchGroup()

    init(path: String) throws {
        store = try Store(at: path, entities: [Item.self])
        (listener, port) = try listen()
    }

    func start() {
        run {
            while true {
                let connection = accept(self.listener, nil, nil)
                if connection < 0 { return }
                self.run { self.serve(connection) }
            }
        }
    }

    private func run(_ body: @escaping @Sendable () -> Void) {
        threads.enter()
        let threads = threads
        Thread {
            body()
            threads.leave()
        }.start()
    }

    /// What was committed stays, and what is being sent is cut off: clients come back to the next process. History that
    /// every reader has read goes, so that the next start is fast.
    func end() throws {
        open.withLock { open in
            open.isEnding = true
            for watcher in open.watchers.values { watcher.stop() }
            for connection in open.connections { shutdown(connection, Int32(SHUT_RDWR)) }
        }
        shutdown(listener, Int32(SHUT_RDWR))
        threads.wait()
        try store.clean()
        try store.close()
    }

    // MARK: One connection

    private func serve(_ connection: Int32) {
        let isEnding = open.withLock { open in
            if !open.isEnding { open.connections.insert(connection) }
            return open.isEnding
        }
        defer {
            open.withLock { _ = $0.connections.remove(connection) }
            close(connection)
        }
        guard !isEnding, let request = Request(from: connection) else { return }
        do {
            switch (request.method, request.path) {
            case ("POST", "/items"):
                let token = try store.write(author: "service") { transaction in
                    _ = try transaction.insert(Item(title: request.body))
                }.token
                send("201 Created", token.map { ["Last-Event-ID: \($0.number)"] } ?? [], "", connection)
            case ("GET", "/items"):
                let snapshot = try store.snapshot()
                let titles = try snapshot.fetch(Item.self).map(\.title)
                let body = String(decoding: try JSONEncoder().encode(titles), as: UTF8.self)
                send("200 OK", ["Last-Event-ID: \(snapshot.token.number)"], body, connection)
            case ("GET", "/events"): try stream(after: request.lastEventID ?? 0, connection)
            default: send("404 Not Found", [], "", connection)
            }
        } catch {
            FileHandle.standardError.write(Data("\(error)\n".utf8))
        }
    }

    /// Sends an event for each transaction after a number, until the client or the service ends.
    private func stream(after number: UInt64, _ connection: Int32) throws {
        guard send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", connection) else { return }
        var last = number
        var begin: ChangeWatcher?
        do {
            begin = try store.changeWatcher(after: .number(last))
        } catch let error as StoreError where [.tokenExpired, .tokenUnknown].contains(error.code) {
            // History does not reach back so far: the client reads the items again.
            last = try store.currentToken.number
            guard send("event: reload\nid: \(last)\ndata:\n\n", connection) else { return }
            begin = try store.changeWatcher(after: .number(last))
        }
        guard let watcher = begin, hold(watcher) else { return }
        defer { open.withLock { _ = $0.watchers.removeValue(forKey: ObjectIdentifier(watcher)) } }
        let encoder = JSONEncoder()
        while !open.withLock({ $0.isEnding }) {
            guard let signal = try watcher.next(timeout: .seconds(15)) else {
                // A comment finds out whether the client is still there.
                guard send(":\n\n", connection) else { return }
                continue
            }
            var isSent = true
            let request = HistoryRequest(after: .number(last), before: .number(signal.numbers.upperBound + 1))
            for transaction in try store.history(request, includingValues: true) where isSent {
                let json = String(decoding: try encoder.encode(transaction), as: UTF8.self)
                isSent = send("id: \(transaction.number)\ndata: \(json)\n\n", connection)
            }
            guard isSent else { return }
            last = signal.numbers.upperBound
        }
    }

    private func hold(_ watcher: ChangeWatcher) -> Bool {
        open.withLock { open in
            if !open.isEnding { open.watchers[ObjectIdentifier(watcher)] = watcher }
            return !open.isEnding
        }
    }
}

// MARK: HTTP, as far as this needs it

private struct Request {
    var method = ""
    var path = ""
    var body = ""
    var lastEventID: UInt64?

    init?(from connection: Int32) {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 4096)
        while true {
            if let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) {
                let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
                let words = lines[0].split(separator: " ")
                guard words.count == 3 else { return nil }
                (method, path) = (String(words[0]), String(words[1]))
                var length = 0
                for line in lines.dropFirst() {
                    let parts = line.split(separator: ":", maxSplits: 1)
                    guard parts.count == 2 else { continue }
                    let value = parts[1].trimmingCharacters(in: .whitespaces)
                    switch parts[0].lowercased() {
                    case "content-length": length = Int(value) ?? 0
                    case "last-event-id": lastEventID = UInt64(value)
                    default: continue
                    }
                }
                guard length <= 65_536 else { return nil }
                if bytes.count >= end.upperBound + length {
                    body = String(decoding: bytes[end.upperBound..<end.upperBound + length], as: UTF8.self)
                    return
                }
            }
            let count = recv(connection, &piece, piece.count, 0)
            guard count > 0, bytes.count < 131_072 else { return nil }
            bytes += piece.prefix(count)
        }
    }
}

/// A socket of this machine that listens, and its port.
private func listen() throws -> (Int32, UInt16) {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let isListening = withUnsafeMutablePointer(to: &address) { address in
        address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
            bind(listener, address, length) == 0 && Glibc.listen(listener, 16) == 0
                && getsockname(listener, address, &length) == 0
        }
    }
    guard isListening else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
    return (listener, UInt16(bigEndian: address.sin_port))
}

private func send(_ status: String, _ headers: [String], _ body: String, _ connection: Int32) {
    let lines =
        ["HTTP/1.1 \(status)", "Content-Length: \(body.utf8.count)", "Connection: close"] + headers + ["", body]
    _ = send(lines.joined(separator: "\r\n"), connection)
}

/// Returns whether all was sent.
private func send(_ text: String, _ connection: Int32) -> Bool {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
        let count = rest.withUnsafeBytes { Glibc.send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
        guard count > 0 else { return false }
        rest = rest.dropFirst(count)
    }
    return true
}
