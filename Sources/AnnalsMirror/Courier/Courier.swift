// The seam between a mirror and the engine that carries its messages: NATS JetStream, or a folder of segments.

public import Annals

/// Carries the messages of a group from each peer to all peers.
///
/// A courier is not an archive. It may lose, double, delay and reorder messages, also acknowledged ones, and it may
/// begin again from nothing. The mirror numbers its messages, finds what is missing by their numbers, and sends it
/// again. So an engine needs to be right most of the time, and honest about its limits.
///
/// One thread at a time calls a courier. Each call may wait; `Interruption` ends the wait from another thread. After
/// an error the same call may be made again: the courier connects again if it must.
package protocol Courier: AnyObject {
    /// The largest body of one message, in bytes. The mirror divides what is larger.
    var maximumBodyBytes: Int { get throws }

    /// Appends messages of this peer in their order. Returns when the engine has acknowledged all of them.
    ///
    /// If it throws, some of them may have been appended. Appending the same numbers again does no harm.
    func append(_ messages: [OutgoingMessage]) throws

    /// Reads messages after a place, of all peers, this one included, in the engine's order.
    ///
    /// - Parameters:
    ///   - place: The place of the last batch; nil reads from the oldest message that the engine still has.
    ///   - maximumBytes: Of bodies. A batch has at least one message if there is one.
    ///   - seconds: How long to wait for the first message. 0 returns at once.
    /// - Returns: An empty batch if the time is over or an interruption came.
    func messages(after place: CourierPlace?, maximumBytes: Int, waitSeconds seconds: Double) throws -> IncomingBatch

    /// The place after the newest message, for a peer that has fetched a state and needs nothing older.
    func newestPlace() throws -> CourierPlace

    /// Stores a state of any size under a name, and replaces an older one when it is complete.
    ///
    /// - Parameter next: Returns the next part, at most `maximumBodyBytes`, or nil at the end.
    func storeState(named name: String, next: () throws -> [UInt8]?) throws

    /// Fetches a state in parts, each as soon as it was read, in order.
    ///
    /// - Returns: False if no complete state has this name. A state that turns out to be damaged after its first parts
    ///   throws `courierDamaged`.
    func fetchState(named name: String, part: ([UInt8]) throws -> Void) throws -> Bool

    /// Frees the messages of this peer up to a number: each peer has applied them. The engine may keep them longer.
    func discard(through number: UInt64) throws

    /// The weak points of the engine, a sentence each, for people: one copy, memory only, a limit.
    func weaknesses() throws -> [String]
}

/// A message of this peer.
package struct OutgoingMessage: Equatable, Sendable {
    /// Numbers of a peer's messages rise by one. A message that is sent again has its number again.
    package var number: UInt64
    package var body: [UInt8]

    package init(number: UInt64, body: [UInt8]) {
        self.number = number
        self.body = body
    }
}

/// A message of any peer, as the engine delivered it. Nothing of it is trusted.
package struct IncomingMessage: Equatable, Sendable {
    /// The identity of the peer that sent it.
    package var sender: String
    package var number: UInt64
    package var body: [UInt8]

    package init(sender: String, number: UInt64, body: [UInt8]) {
        self.sender = sender
        self.number = number
        self.body = body
    }
}

/// Messages, and the place to read on from.
package struct IncomingBatch: Equatable, Sendable {
    package var messages: [IncomingMessage]
    package var place: CourierPlace
    /// The engine lost its place: it began again, or has discarded messages that this reader did not have yet. The
    /// batch goes on with the oldest message that it has. Numbers show what is missing.
    package var beganAgain: Bool

    package init(messages: [IncomingMessage], place: CourierPlace, beganAgain: Bool = false) {
        self.messages = messages
        self.place = place
        self.beganAgain = beganAgain
    }
}

/// A place in the engine's order. Only the engine that made it reads it; the mirror stores it with its cursor.
package struct CourierPlace: Hashable, Sendable {
    package var text: String
    package init(_ text: String) { self.text = text }
}

extension StoreError.Code {
    /// The server or folder of a mirror cannot be reached. The mirror tries again by itself.
    public static let courierUnreachable = Self(rawValue: "courierUnreachable")
    /// The server refuses the mirror's name, password or token, or does not allow what the mirror must do.
    public static let courierRefused = Self(rawValue: "courierRefused")
    /// The server has no JetStream, or has it switched off for this account.
    public static let courierUnsuitable = Self(rawValue: "courierUnsuitable")
    /// A stream or folder has this name already, with settings that a mirror cannot work with.
    public static let courierSettings = Self(rawValue: "courierSettings")
    /// The server or file system has no room for more messages.
    public static let courierFull = Self(rawValue: "courierFull")
    /// The server or folder returned other bytes than were written there, or breaks the protocol.
    public static let courierDamaged = Self(rawValue: "courierDamaged")
}
