// The largest things that a NATS client accepts, and the times that it waits.

/// Limits of memory: a server's words never make the client allocate more than this.
package enum NATSLimits {
    /// A line of the protocol without its end, as in the protocol's own rule for clients.
    package static let controlLineBytes = 4096
    /// The line that describes a server. It lists all servers of its cluster.
    package static let informationBytes = 65_536
    /// The headers of a message. A stream stores no larger ones.
    package static let headerBytes = 65_536
    /// An answer of the JetStream API.
    package static let answerBytes = 1 << 20
    /// The largest body that a server can be configured to accept.
    package static let payloadBytes = 64 << 20
    /// Bodies of a mirror, whatever the server accepts: more would help nobody, and needs memory at each peer.
    package static let bodyBytes = 1 << 20
    /// A smaller maximum of a server leaves no room for headers and a useful body.
    package static let smallestPayloadBytes = 4096
}

/// Times and sizes of a connection. Tests shorten them.
package struct NATSSettings: Equatable, Sendable {
    /// To connect and to introduce itself, for each address.
    package var connectSeconds = 5.0
    /// For an answer to a request or a publication.
    package var requestSeconds = 10.0
    /// After this long without a byte from the server, the client asks whether it is still there. After twice as long
    /// it gives up.
    package var pingSeconds = 30.0
    /// The first delay before a failed connection is tried again. Each further one is twice as long.
    package var firstDelaySeconds = 0.1
    package var longestDelaySeconds = 10.0
    /// How long the server keeps a request for messages.
    package var pullSeconds = 30.0
    /// How often the server shows that it still has such a request.
    package var heartbeatSeconds = 10.0
    /// How long a reader waits for a message that the stream has.
    package var deliverySeconds = 5.0
    /// Publications without an acknowledgement.
    package var windowMessages = 256
    package var windowBytes = 1 << 20
    /// The domain of a JetStream behind a leaf node; nil is the server's own.
    package var domain: String?

    package init() {}
}
