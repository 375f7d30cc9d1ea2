// All calls of the mirror into the C library about sockets and waiting, and the one function that repeats an
// interrupted call. MirrorSystem+Files.swift has the calls about files.

internal import Annals

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

/// The calls themselves, with errors thrown. They decide nothing.
///
/// No function has the name of the C function that it calls: inside it, the C function would need the name of its
/// module, which differs between C libraries.
package enum MirrorSystem {
    /// The name and the error number of a failed call.
    package struct Failure: Error, Equatable, Sendable {
        package var call: String
        package var number: Int32

        package init(_ call: String, _ number: Int32) {
            self.call = call
            self.number = number
        }

        /// The system's own words.
        var text: String { strerror(number).map { String(cString: $0) } ?? "unknown error" }
        /// The descriptor does not block, and the call would have to wait.
        var wouldBlock: Bool { number == EAGAIN || number == EWOULDBLOCK }
        /// The connection is being made.
        var isInProgress: Bool { number == EINPROGRESS }
    }

    /// Repeats a call for as long as a signal interrupts it. The only such loop.
    static func calling<Result: FixedWidthInteger>(_ name: String, _ body: () -> Result) throws(Failure) -> Result {
        while true {
            let value = body()
            if value != -1 { return value }
            let number = errno
            if number != EINTR { throw Failure(name, number) }
        }
    }

    static func closeDescriptor(_ descriptor: Int32) {
        // Not repeated after an interruption: Linux has already freed the number, and another thread may own it.
        _ = close(descriptor)
    }
}

// MARK: Sockets

extension MirrorSystem {
    /// The address of a socket in the kernel's form.
    struct SocketAddress: Equatable, Sendable {
        fileprivate var family: Int32
        fileprivate var bytes: [UInt8]
    }

    /// The numeric addresses of a host name. Waits for the name service, and no interruption ends this wait.
    ///
    /// - Throws: The text of the name service's error.
    static func addresses(ofHost host: String, port: UInt16) throws(LookupFailure) -> [SocketAddress] {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = streamSocket
        var first: UnsafeMutablePointer<addrinfo>?
        let status = getaddrinfo(host, String(port), &hints, &first)
        guard status == 0 else {
            throw LookupFailure(text: gai_strerror(status).map { String(cString: $0) } ?? "unknown")
        }
        defer { freeaddrinfo(first) }
        var found: [SocketAddress] = []
        var next = first
        while let entry = next?.pointee {
            if let address = entry.ai_addr {
                // Sound: the list owns `ai_addrlen` bytes there until it is freed.
                let bytes = UnsafeRawBufferPointer(start: address, count: Int(entry.ai_addrlen))
                found.append(SocketAddress(family: entry.ai_family, bytes: Array(bytes)))
            }
            next = entry.ai_next
        }
        return found
    }

    struct LookupFailure: Error { var text: String }

    #if canImport(Glibc)
        private static let streamSocket = Int32(SOCK_STREAM.rawValue)
    #else
        private static let streamSocket = SOCK_STREAM
    #endif
    // Numbers of Linux; the same on x86-64 and arm64.
    private static let nonBlocking: Int32 = 0o4000  // SOCK_NONBLOCK
    private static let closeOnExec: Int32 = 0o2_000_000  // SOCK_CLOEXEC
    private static let noSignal: Int32 = 0x4000  // MSG_NOSIGNAL

    /// A TCP socket that does not block and sends small writes at once.
    static func openSocket(for address: SocketAddress) throws(Failure) -> Int32 {
        let descriptor = try calling("socket") {
            socket(address.family, streamSocket | nonBlocking | closeOnExec, 0)
        }
        var on: Int32 = 1
        _ = setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
        return descriptor
    }

    /// Starts to connect. Throws a failure that `isInProgress` unless the connection exists at once.
    static func startConnecting(_ descriptor: Int32, to address: SocketAddress) throws(Failure) {
        _ = try calling("connect") {
            address.bytes.withUnsafeBytes { bytes in
                guard let start = bytes.baseAddress else { return Int32(0) }
                // Sound: the bytes are those of the name service, which wrote a `sockaddr` of this length.
                return connect(
                    descriptor, start.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
            }
        }
    }

    /// Throws the failure of a connection that was being made.
    static func finishConnecting(_ descriptor: Int32) throws(Failure) {
        var number: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        _ = try calling("getsockopt") { getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &number, &size) }
        if number != 0 { throw Failure("connect", number) }
    }

    /// Two connected sockets that do not block.
    static func openPair() throws(Failure) -> (Int32, Int32) {
        var pair: [Int32] = [-1, -1]
        _ = try calling("socketpair") { socketpair(AF_UNIX, streamSocket | nonBlocking | closeOnExec, 0, &pair) }
        return (pair[0], pair[1])
    }

    /// The number of bytes sent. A partner that has gone is a failure and not a signal.
    static func sendSome(_ descriptor: Int32, _ bytes: ArraySlice<UInt8>) throws(Failure) -> Int {
        try calling("send") { bytes.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, noSignal) } }
    }

    /// The number of bytes received; 0 at the end of the connection.
    static func receiveSome(_ descriptor: Int32, into buffer: inout [UInt8]) throws(Failure) -> Int {
        try calling("recv") { buffer.withUnsafeMutableBytes { recv(descriptor, $0.baseAddress, $0.count, 0) } }
    }
}

// MARK: Waiting

extension MirrorSystem {
    /// A descriptor to wait for, and afterwards its state.
    struct Waiting {
        var descriptor: Int32
        var forReading = true
        var forWriting = false
        /// Can be read without waiting; also at the end of a connection and after a failure.
        var isReadable = false
        /// Can be written without waiting; also after a failure.
        var isWritable = false
    }

    /// Waits until one of the descriptors is ready.
    ///
    /// - Parameter deadline: Nil waits without end.
    /// - Returns: False if the deadline has passed.
    static func wait(
        for list: inout [Waiting], until deadline: ContinuousClock.Instant?
    ) throws(Failure) -> Bool {
        var requests = list.map { waiting in
            let events = (waiting.forReading ? POLLIN : 0) | (waiting.forWriting ? POLLOUT : 0)
            return pollfd(fd: waiting.descriptor, events: Int16(events), revents: 0)
        }
        let count = try calling("poll") {
            // Computed again after an interruption.
            poll(&requests, nfds_t(requests.count), milliseconds(until: deadline))
        }
        for index in list.indices {
            let events = Int32(requests[index].revents)
            let failed = events & Int32(POLLERR | POLLHUP | POLLNVAL) != 0
            list[index].isReadable = failed || events & Int32(POLLIN) != 0
            list[index].isWritable = failed || events & Int32(POLLOUT) != 0
        }
        return count > 0
    }

    /// Rounded up, so that a wait does not end before its deadline.
    private static func milliseconds(until deadline: ContinuousClock.Instant?) -> Int32 {
        guard let deadline else { return -1 }
        let left = ContinuousClock.now.duration(to: deadline)
        if left <= .zero { return 0 }
        let (seconds, attoseconds) = left.components
        if seconds >= 1_000_000 { return 1_000_000_000 }
        return Int32(seconds) * 1000 + Int32((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }
}

// MARK: Sentences

extension StoreError {
    /// The error for a failed call about a server.
    ///
    /// - Parameter address: The server's host and port, for the message.
    init(_ failure: MirrorSystem.Failure, address: String) {
        let (code, sentence) = Self.networkMeaning(of: failure)
        self.init(
            code, "The NATS server at \(address): \(sentence)", call: failure.call, systemError: failure.number)
    }

    private static func networkMeaning(of failure: MirrorSystem.Failure) -> (code: Code, sentence: String) {
        switch failure.number {
        case ECONNREFUSED:
            (.courierUnreachable, "Nothing listens there: start the server, or check the host and the port.")
        case ETIMEDOUT:
            (.courierUnreachable, "It does not answer: check that it runs and that no firewall is between.")
        case EHOSTUNREACH, ENETUNREACH, ENETDOWN, EADDRNOTAVAIL:
            (.courierUnreachable, "No route leads there: check the network and the address.")
        case ECONNRESET, EPIPE, ECONNABORTED, ENOTCONN:
            (.courierUnreachable, "The connection was closed by the other side: check that the server runs.")
        case EACCES, EPERM:
            (.courierUnreachable, "This system does not allow the connection: check its firewall and its rules.")
        case EMFILE:
            (.tooManyFiles, "This process has too many files open: close some or raise its limit (ulimit -n).")
        case ENFILE:
            (.tooManyFiles, "The system has too many files open: close some or raise its limit (fs.file-max).")
        case ENOMEM, ENOBUFS:
            (.outOfMemory, "The system has no memory for this connection: free some and try again.")
        default:
            (
                .courierUnreachable,
                "The system refused \(failure.call): \(failure.text) "
                    + "(error \(failure.number)). Check the network and try again."
            )
        }
    }
}
