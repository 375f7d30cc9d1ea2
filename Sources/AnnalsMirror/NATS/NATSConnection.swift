// A connection to a NATS server: one TCP socket, the introduction, messages in both directions, and signs of life.

package import Annals

/// A client of a NATS server, used by one thread at a time.
///
/// It has no thread of its own: messages are read and the server's pings are answered while a call waits. After an
/// error the connection is closed, and the next call of `prepare` opens it again.
///
/// Invariants:
/// - C1: `socket` is nil or an introduced connection: the server has accepted the credentials.
/// - C2: Handlers belong to the connection on which they were registered. Closing it forgets them, and raises
///   `generation`.
/// - C3: After an interruption the connection goes on. Its unsent output is kept whole, because a part of it may have
///   been sent.
package final class NATSConnection {
    package let settings: NATSSettings
    private let addresses: [NATSAddress]
    /// For addresses without credentials of their own.
    private let credentials: NATSCredentials?
    /// The name that the server's monitoring shows.
    private let name: String
    private let interruption: Interruption

    /// Rises with each connection, so that owners of subscriptions notice that theirs are gone.
    private(set) var generation = 0
    /// The newest description that the server has sent of itself.
    private(set) var server = NATSServerInformation()
    /// The largest headers and payload of one message, together.
    package var maximumMessageBytes = NATSLimits.answerBytes {
        didSet { parser.maximumMessageBytes = maximumMessageBytes }
    }

    private var socket: Int32?
    private var parser = NATSParser()
    private var output: [UInt8] = []
    private var sentOutput = 0
    private var input = [UInt8](repeating: 0, count: 1 << 16)

    private var handlers: [UInt64: (NATSMessage) -> Void] = [:]
    private var replies: [UInt64: (UInt64, NATSMessage) -> Void] = [:]
    private var lastNumber: UInt64 = 0
    private let inbox = NATSConnection.makeInbox()

    private var addressIndex = 0
    private var lastReceived = ContinuousClock.now
    private var pingSent: ContinuousClock.Instant?
    private var pings = 0
    private var pongs = 0
    /// An answer did not come in time, so the next call asks first whether the server is still there.
    private var isDoubtful = false
    /// The error that is thrown does not end the connection.
    private var isOnlyForbidden = false

    private var delaySeconds: Double
    private var notBefore = ContinuousClock.now
    private var lastError: StoreError?

    package init(
        addresses: [NATSAddress], credentials: NATSCredentials?, name: String, settings: NATSSettings,
        interruption: Interruption
    ) {
        precondition(!addresses.isEmpty, "A connection needs the address of a server.")
        self.addresses = addresses
        self.credentials = credentials
        self.name = name
        self.settings = settings
        self.interruption = interruption
        delaySeconds = settings.firstDelaySeconds
    }

    deinit {
        if let socket { MirrorSystem.closeDescriptor(socket) }
    }

    /// The server of this connection, or of the next attempt.
    package var address: NATSAddress { addresses[addressIndex] }

    /// A name that no other client has, so that replies come to this one only.
    private static func makeInbox() -> String {
        var random = SystemRandomNumberGenerator()
        return "_INBOX.\(String(random.next(), radix: 36))\(String(random.next(), radix: 36))"
    }
}

// MARK: Connecting

extension NATSConnection {
    /// Connects if there is no connection, or the one that there was has ended.
    ///
    /// Failed attempts are followed by growing delays. A call before the delay is over waits for its end.
    ///
    /// - Parameter deadline: The end of such a wait; nil waits as long as necessary.
    /// - Throws: `courierUnreachable`, `courierRefused`, `courierUnsuitable`, `courierDamaged`, `cancelled`.
    package func prepare(until deadline: ContinuousClock.Instant? = nil) throws(StoreError) {
        if try isAlive() { return }
        if notBefore > .now {
            let end = min(deadline ?? notBefore, notBefore)
            if interruption.wait(until: end) { throw Interruption.interrupted }
            if notBefore > .now { throw lastError ?? Self.silent(address, seconds: settings.connectSeconds) }
        }
        do throws(StoreError) {
            try connectToAny()
            delaySeconds = settings.firstDelaySeconds
        } catch {
            if error.code != .cancelled { delayNextAttempt(after: error) }
            throw error
        }
    }

    /// Waits, unless an interruption comes.
    package func pause(seconds: Double) throws(StoreError) {
        if interruption.wait(seconds: seconds) { throw Interruption.interrupted }
    }

    private func delayNextAttempt(after error: StoreError) {
        lastError = error
        // Different for each client, so that all clients of a restarted server do not come at once.
        notBefore = .now + .seconds(delaySeconds * Double.random(in: 0.75...1.25))
        delaySeconds = min(delaySeconds * 2, settings.longestDelaySeconds)
    }

    /// Handles everything that has come, and finds out whether the connection still exists.
    private func isAlive() throws(StoreError) -> Bool {
        guard socket != nil else { return false }
        do throws(StoreError) {
            while try process(until: .now) {}
            let silence = lastReceived.duration(to: .now)
            if isDoubtful || silence > .seconds(2 * settings.pingSeconds) {
                try flush(seconds: settings.connectSeconds)
                isDoubtful = false
            }
            return socket != nil
        } catch {
            // A connection that ended between two calls is replaced without an error.
            if error.code == .cancelled || socket != nil { throw error }
            return false
        }
    }

    /// Tries each address once, beginning with the last good one.
    private func connectToAny() throws(StoreError) {
        var last: StoreError?
        for _ in addresses {
            do throws(StoreError) { return try connect() } catch {
                disconnect()
                if error.code == .cancelled { throw error }
                // A server that refuses explains more than one that does not answer.
                if last?.code != .courierRefused { last = error }
                addressIndex = (addressIndex + 1) % addresses.count
            }
        }
        throw last ?? Self.silent(address, seconds: settings.connectSeconds)
    }

    private func connect() throws(StoreError) {
        let address = address
        let candidates: [MirrorSystem.SocketAddress]
        do throws(MirrorSystem.LookupFailure) {
            candidates = try MirrorSystem.addresses(ofHost: address.host, port: address.port)
        } catch {
            throw StoreError(
                .courierUnreachable,
                "The name service knows no host “\(address.host)” (\(error.text)): check the address of the server.")
        }
        var last: StoreError?
        for candidate in candidates {
            do throws(StoreError) {
                let deadline = ContinuousClock.now + .seconds(settings.connectSeconds)
                try open(candidate, until: deadline)
                return try introduce(until: deadline)
            } catch {
                disconnect()
                if error.code == .cancelled { throw error }
                if last?.code != .courierRefused { last = error }
            }
        }
        throw last ?? Self.silent(address, seconds: settings.connectSeconds)
    }

    private func open(
        _ candidate: MirrorSystem.SocketAddress, until deadline: ContinuousClock.Instant
    ) throws(StoreError) {
        do throws(MirrorSystem.Failure) {
            let descriptor = try MirrorSystem.openSocket(for: candidate)
            socket = descriptor
            do throws(MirrorSystem.Failure) {
                return try MirrorSystem.startConnecting(descriptor, to: candidate)
            } catch  where error.isInProgress {}
        } catch { throw StoreError(error, address: address.description) }
        guard try wait(forWriting: true, until: deadline).isWritable else {
            throw Self.silent(address, seconds: settings.connectSeconds)
        }
        do throws(MirrorSystem.Failure) {
            if let socket { try MirrorSystem.finishConnecting(socket) }
        } catch { throw StoreError(error, address: address.description) }
    }

    /// Reads the server's description, and shows the credentials.
    private func introduce(until deadline: ContinuousClock.Instant) throws(StoreError) {
        generation += 1
        parser = NATSParser()
        parser.maximumMessageBytes = maximumMessageBytes
        server = NATSServerInformation()
        (pings, pongs, pingSent, isDoubtful) = (0, 0, nil, false)
        lastReceived = .now
        while !server.isKnown {
            guard try process(until: deadline) else {
                throw Self.silent(address, seconds: settings.connectSeconds)
            }
        }
        try server.checkSuitability(at: address)
        let introduction = NATSIntroduction(name: name, credentials: address.credentials ?? credentials)
        output.append(contentsOf: "CONNECT ".utf8)
        output.append(contentsOf: try NATSJSON.encode(introduction))
        output.append(contentsOf: "\r\nSUB \(inbox).r.* 1\r\n".utf8)
        lastNumber = 1
        handlers[1] = { [unowned self] message in deliverReply(message) }
        try flush(seconds: settings.connectSeconds)
    }

    /// Closes the connection and forgets its subscriptions: C2.
    package func disconnect() {
        if let socket { MirrorSystem.closeDescriptor(socket) }
        socket = nil
        output.removeAll()
        sentOutput = 0
        handlers.removeAll()
        replies.removeAll()
    }

    private static func silent(_ address: NATSAddress, seconds: Double) -> StoreError {
        StoreError(
            .courierUnreachable,
            "The NATS server at \(address) did not answer in \(NATSConnection.text(seconds)): check that it runs, that "
                + "the port is that of its clients, and that no firewall is between.")
    }

    private static func text(_ seconds: Double) -> String {
        seconds == seconds.rounded() ? "\(Int(seconds)) s" : "\(Int(seconds * 1000)) ms"
    }
}

// MARK: Sending

extension NATSConnection {
    /// Queues a message, which later calls that wait will send.
    package func publish(_ subject: String, reply: String? = nil, headers: String = "", payload: some Collection<UInt8>)
    {
        let total = headers.utf8.count + payload.count
        output.append(contentsOf: (headers.isEmpty ? "PUB " : "HPUB ").utf8)
        output.append(contentsOf: subject.utf8)
        if let reply {
            output.append(UInt8(ascii: " "))
            output.append(contentsOf: reply.utf8)
        }
        output.append(contentsOf: (headers.isEmpty ? " \(total)\r\n" : " \(headers.utf8.count) \(total)\r\n").utf8)
        output.append(contentsOf: headers.utf8)
        output.append(contentsOf: payload)
        output.append(contentsOf: "\r\n".utf8)
    }

    /// Registers a handler for one reply, and returns its number and the subject to ask for it. The handler does not
    /// outlive the connection.
    package func expectReply(
        _ handler: @escaping (_ number: UInt64, _ message: NATSMessage) -> Void
    ) -> (number: UInt64, subject: String) {
        lastNumber += 1
        replies[lastNumber] = handler
        return (lastNumber, "\(inbox).r.\(lastNumber)")
    }

    /// A reply that comes later is passed over.
    package func forgetReply(_ number: UInt64) { replies[number] = nil }

    /// Subscribes to an inbox of its own. Its subjects begin with the returned text and have one word more.
    package func subscribeToInbox(_ handler: @escaping (NATSMessage) -> Void) -> (number: UInt64, prefix: String) {
        lastNumber += 1
        let prefix = "\(inbox).p\(lastNumber)."
        handlers[lastNumber] = handler
        output.append(contentsOf: "SUB \(prefix)* \(lastNumber)\r\n".utf8)
        return (lastNumber, prefix)
    }

    package func unsubscribe(_ number: UInt64) {
        guard handlers.removeValue(forKey: number) != nil else { return }
        output.append(contentsOf: "UNSUB \(number)\r\n".utf8)
    }

    /// Sends a request and waits for its reply.
    ///
    /// - Throws: `courierUnreachable` if no reply comes in time.
    package func request(_ subject: String, payload: [UInt8]) throws(StoreError) -> NATSMessage {
        var answer: NATSMessage?
        let reply = expectReply { answer = $1 }
        defer { forgetReply(reply.number) }
        publish(subject, reply: reply.subject, payload: payload)
        try process(seconds: settings.requestSeconds) { answer != nil }
        guard let answer else { throw Self.silent(address, seconds: settings.requestSeconds) }
        return answer
    }

    /// Sends the queued output as far as that needs no waiting: the last words of a client.
    package func sendAtOnce() { try? sendSome() }

    /// Waits until the server has handled everything that was sent before.
    package func flush(seconds: Double) throws(StoreError) {
        sendPing()
        let awaited = pings
        try process(seconds: seconds) { pongs >= awaited }
    }

    /// Handles what comes until a condition is met.
    ///
    /// - Throws: `courierUnreachable` after the time. The connection remains, and is checked before its next use.
    package func process(seconds: Double, until isMet: () -> Bool) throws(StoreError) {
        let deadline = ContinuousClock.now + .seconds(seconds)
        while !isMet() {
            guard try process(until: deadline) else {
                isDoubtful = true
                throw Self.silent(address, seconds: seconds)
            }
        }
    }

    private func sendPing() {
        output.append(contentsOf: "PING\r\n".utf8)
        pings += 1
    }
}

// MARK: Receiving

extension NATSConnection {
    /// Sends the queued output and handles what comes, until at least one frame was handled.
    ///
    /// - Returns: False after the deadline.
    /// - Throws: `cancelled` after an interruption: C3. Every other error but a missing permission closes the
    ///   connection.
    package func process(until deadline: ContinuousClock.Instant) throws(StoreError) -> Bool {
        do throws(StoreError) {
            while true {
                var isHandled = false
                while let frame = try parser.next() {
                    try handle(frame)
                    isHandled = true
                }
                try sendSome()
                if isHandled { return true }
                let wake = min(deadline, lifeSign)
                let state = try wait(forWriting: !output.isEmpty, until: wake)
                if state.isReadable {
                    try receiveSome()
                } else if !state.isWritable {
                    if deadline <= .now { return false }
                    try askForLife()
                }
            }
        } catch {
            if error.code != .cancelled, !isOnlyForbidden { disconnect() }
            isOnlyForbidden = false
            throw error
        }
    }

    /// When to ask whether the server is there, or to give it up.
    private var lifeSign: ContinuousClock.Instant { (pingSent ?? lastReceived) + .seconds(settings.pingSeconds) }

    private func askForLife() throws(StoreError) {
        guard lifeSign <= .now else { return }
        if pingSent != nil { throw Self.silent(address, seconds: 2 * settings.pingSeconds) }
        pingSent = .now
        sendPing()
    }

    private func wait(
        forWriting: Bool, until deadline: ContinuousClock.Instant
    ) throws(StoreError) -> MirrorSystem.Waiting {
        guard let socket else { throw Self.ended(address) }
        var list = [
            MirrorSystem.Waiting(descriptor: socket, forWriting: forWriting), interruption.waiting,
        ]
        do throws(MirrorSystem.Failure) {
            _ = try MirrorSystem.wait(for: &list, until: deadline)
        } catch { throw StoreError(error, address: address.description) }
        if list[1].isReadable { throw Interruption.interrupted }
        return list[0]
    }

    private func sendSome() throws(StoreError) {
        guard let socket, !output.isEmpty else { return }
        do throws(MirrorSystem.Failure) {
            while sentOutput < output.count {
                sentOutput += try MirrorSystem.sendSome(socket, output[sentOutput...])
            }
            output.removeAll(keepingCapacity: output.capacity <= 4 << 20)
            sentOutput = 0
        } catch {
            if error.wouldBlock {
                if sentOutput > 1 << 20 {
                    output.removeSubrange(..<sentOutput)
                    sentOutput = 0
                }
                return
            }
            try readReason()
            throw StoreError(error, address: address.description)
        }
    }

    /// Before a server closes a connection it says why. Throws that.
    private func readReason() throws(StoreError) {
        for _ in 0..<16 {
            try receiveSome()
            while let frame = try parser.next() {
                if case .error = frame { try handle(frame) }
            }
        }
    }

    private func receiveSome() throws(StoreError) {
        guard let socket else { throw Self.ended(address) }
        let count: Int
        do throws(MirrorSystem.Failure) {
            count = try MirrorSystem.receiveSome(socket, into: &input)
        } catch {
            if error.wouldBlock { return }
            throw StoreError(error, address: address.description)
        }
        guard count > 0 else { throw Self.ended(address) }
        lastReceived = .now
        pingSent = nil
        parser.append(input[..<count])
    }

    private static func ended(_ address: NATSAddress) -> StoreError {
        StoreError(
            .courierUnreachable,
            "The NATS server at \(address) has closed the connection: check that it runs; the server's log has the "
                + "reason.")
    }

    private func handle(_ frame: NATSFrame) throws(StoreError) {
        switch frame {
        case .message(let message): handlers[message.subscription]?(message)
        case .ping: output.append(contentsOf: "PONG\r\n".utf8)
        case .pong: pongs += 1
        case .ok: break
        case .information(let bytes): server = try NATSServerInformation(bytes)
        case .error(let text):
            isOnlyForbidden = NATSServerInformation.keepsConnection(afterError: text)
            throw NATSServerInformation.error(text, at: address, server: server)
        }
    }

    private func deliverReply(_ message: NATSMessage) {
        guard let separator = message.subject.lastIndex(of: "."),
            let number = UInt64(message.subject[message.subject.index(after: separator)...])
        else { return }
        replies.removeValue(forKey: number)?(number, message)
    }
}
