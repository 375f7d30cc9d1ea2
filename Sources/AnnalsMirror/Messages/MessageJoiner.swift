// Joins the parts of messages, in bounded memory.
//
// Invariants:
// MJ1  `heldBytes` is the sum of the charges of all unfinished messages, and never above the limit.
// MJ2  Each unfinished message has one entry in `order` with its serial number. Other entries there are of messages
//      that are finished or dropped.

package import Annals

/// Joins parts in any order, doubled, of several senders. For one thread.
///
/// It forgets a message when it returns it. If all parts of a message come twice, it returns the message twice.
package struct MessageJoiner {
    /// A message all of whose parts have arrived.
    package struct Joined {
        package let sender: String
        /// The courier's numbers of its parts.
        package let numbers: ClosedRange<UInt64>
        package let message: MirrorMessage
    }

    /// One sender may use a number for different messages: after it was restored from a backup, or if it divides a
    /// message again for another courier. Their parts do not mix.
    private struct Key: Hashable {
        var sender: String
        var first: UInt64
        var count: Int
        var messageBytes: Int
        var checksum: UInt64
    }

    private struct Unfinished {
        var serial: UInt64
        var parts: [Int: [UInt8]] = [:]
        var bytes = 0
        var charge: Int
    }

    private let maximumBytes: Int
    private var unfinished: [Key: Unfinished] = [:]
    private var order: [(key: Key, serial: UInt64)] = []
    /// The entries of `order` before this one are not needed any more.
    private var oldest = 0
    private var serial: UInt64 = 0
    /// The memory of all unfinished messages.
    package private(set) var heldBytes = 0
    /// How many unfinished messages were dropped for want of room.
    package private(set) var droppedCount = 0

    /// The memory of a message and of a part besides their data.
    private static let messageCharge = 512
    private static let partCharge = 64

    /// - Parameter maximumBytes: The limit over all unfinished messages. A message that needs more is refused.
    package init(maximumBytes: Int) { self.maximumBytes = maximumBytes }

    package var unfinishedCount: Int { unfinished.count }

    /// Adds a part. Returns the message if it was the last missing part.
    ///
    /// Throws `tooLarge` for a message that alone is over the limit, and as `MirrorMessage.init` for one that is
    /// malformed. After an error it goes on with the other messages.
    package mutating func add(
        _ part: MessagePart, sender: String, number: UInt64
    ) throws(StoreError) -> Joined? {
        guard number >= UInt64(part.index), UInt64.max - number >= UInt64(part.count - 1 - part.index) else {
            throw StoreError.malformedMessage("a part has an impossible number")
        }
        let key = Key(
            sender: sender, first: number - UInt64(part.index), count: part.count, messageBytes: part.messageBytes,
            checksum: part.messageChecksum)
        let most = part.messageBytes + Self.messageCharge + sender.utf8.count + part.count * Self.partCharge
        guard most <= maximumBytes else {
            throw StoreError(
                .tooLarge,
                "A message of \(part.messageBytes) bytes from “\(sender)” needs \(most) bytes of memory, and this "
                    + "mirror has \(maximumBytes) for it: allow it more.")
        }
        var message = unfinished[key] ?? begin(key)
        guard message.parts[part.index] == nil else { return nil }
        let charge = part.data.count + Self.partCharge
        guard message.bytes + part.data.count <= part.messageBytes - (part.count - message.parts.count - 1) else {
            remove(key)
            throw StoreError.malformedMessage("its parts have more bytes than it")
        }
        // Its own entry is not in the way: the message alone fits.
        unfinished[key] = nil
        message.parts[part.index] = part.data
        message.bytes += part.data.count
        message.charge += charge
        heldBytes += charge
        unfinished[key] = message
        dropOldest(except: key)
        assert(heldBytes <= maximumBytes, "MJ1: unfinished messages take too much memory.")
        guard message.parts.count == part.count else { return nil }
        remove(key)
        return try join(message, key)
    }

    /// Forgets all parts of a sender that has left or begun again.
    package mutating func forget(sender: String) {
        for key in unfinished.keys where key.sender == sender { remove(key) }
    }

    private func join(_ message: Unfinished, _ key: Key) throws(StoreError) -> Joined {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(message.bytes)
        for index in 0..<key.count { bytes += message.parts[index] ?? [] }
        guard bytes.count == key.messageBytes,
            bytes.withUnsafeBytes({ Checksum.hash($0, seed: MessageFormat.Seed.message) }) == key.checksum
        else { throw StoreError.malformedMessage("its parts do not belong together") }
        return Joined(
            sender: key.sender, numbers: key.first...(key.first + UInt64(key.count - 1)),
            message: try MirrorMessage(bytes))
    }

    // MARK: Bounds

    private mutating func begin(_ key: Key) -> Unfinished {
        serial += 1
        order.append((key, serial))
        let charge = Self.messageCharge + key.sender.utf8.count
        heldBytes += charge
        let message = Unfinished(serial: serial, charge: charge)
        unfinished[key] = message
        return message
    }

    private mutating func remove(_ key: Key) {
        guard let message = unfinished.removeValue(forKey: key) else { return }
        heldBytes -= message.charge
        trimOrder()
    }

    private mutating func dropOldest(except kept: Key) {
        var place = oldest
        while heldBytes > maximumBytes, place < order.count {
            let (key, serial) = order[place]
            place += 1
            guard key != kept, unfinished[key]?.serial == serial else { continue }
            droppedCount += 1
            heldBytes -= unfinished.removeValue(forKey: key)?.charge ?? 0
        }
        trimOrder()
    }

    /// Removes the entries of finished and dropped messages: from the front at once, and all when most are (MJ2).
    private mutating func trimOrder() {
        while oldest < order.count, unfinished[order[oldest].key]?.serial != order[oldest].serial { oldest += 1 }
        guard order.count > 16, order.count > 2 * unfinished.count else { return }
        order = order[oldest...].filter { unfinished[$0.key]?.serial == $0.serial }
        oldest = 0
        assert(order.count == unfinished.count, "MJ2: an unfinished message is not in the order.")
    }
}
