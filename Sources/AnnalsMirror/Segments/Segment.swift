// A segment: messages of one peer in a file that is never changed. The encoder is here.

/// A file of messages.
package struct Segment: Equatable, Sendable {
    package var group: String
    package var sender: String
    /// The count of segments that `serial` belongs to. Random, so that a copied store counts for itself.
    package var run: UInt64
    /// The segment's place in its run, from 1.
    package var serial: UInt64
    /// All earlier segments of the run had been discarded when this one was written.
    package var oldestKept: UInt64
    /// At least one. Their numbers need not be consecutive: some may be sent again.
    package var messages: [OutgoingMessage]

    package init(
        group: String, sender: String, run: UInt64, serial: UInt64, oldestKept: UInt64, messages: [OutgoingMessage]
    ) {
        precondition(!messages.isEmpty, "A segment has at least one message.")
        self.group = group
        self.sender = sender
        self.run = run
        self.serial = serial
        self.oldestKept = oldestKept
        self.messages = messages
    }

    /// The lowest and the highest number of its messages.
    package var numbers: ClosedRange<UInt64> {
        let numbers = messages.map(\.number)
        return numbers.reduce(numbers[0], min)...numbers.reduce(numbers[0], max)
    }
}

extension Segment {
    /// The bytes of the header of a segment.
    static func headerBytes(group: String, sender: String) -> Int {
        SegmentFormat.fixedHeaderBytes + sender.utf8.count + group.utf8.count + SegmentFormat.checksumBytes
    }

    /// The bytes of a message in a segment.
    static func bytes(of message: OutgoingMessage) -> Int { SegmentFormat.messageHeaderBytes + message.body.count }

    /// The bytes of the file. The caller has limited names, bodies and their sum.
    package func encoded() -> [UInt8] {
        let headerBytes = Self.headerBytes(group: group, sender: sender)
        let fileBytes = messages.reduce(headerBytes + SegmentFormat.checksumBytes) { $0 + Self.bytes(of: $1) }
        precondition(headerBytes <= SegmentFormat.maximumHeaderBytes, "The names are too long for a segment.")
        precondition(fileBytes <= SegmentFormat.maximumFileBytes, "The messages are too large for a segment.")
        var bytes: [UInt8] = []
        bytes.reserveCapacity(fileBytes)
        appendHeader(headerBytes, fileBytes, to: &bytes)
        let seed = SegmentBytes.checksum(bytes, 0..<bytes.count, seed: SegmentSeed.header)
        SegmentBytes.append(seed, to: &bytes)
        for message in messages { Self.append(message, seed, to: &bytes) }
        SegmentBytes.append(SegmentBytes.checksum(bytes, 0..<bytes.count, seed: SegmentSeed.whole), to: &bytes)
        return bytes
    }

    private func appendHeader(_ headerBytes: Int, _ fileBytes: Int, to bytes: inout [UInt8]) {
        bytes += SegmentFormat.magic
        SegmentBytes.append(SegmentFormat.version, to: &bytes)
        SegmentBytes.append(UInt32(headerBytes), to: &bytes)
        SegmentBytes.append(UInt64(fileBytes), to: &bytes)
        SegmentBytes.append(run, to: &bytes)
        SegmentBytes.append(serial, to: &bytes)
        SegmentBytes.append(oldestKept, to: &bytes)
        SegmentBytes.append(numbers.lowerBound, to: &bytes)
        SegmentBytes.append(numbers.upperBound, to: &bytes)
        SegmentBytes.append(UInt32(messages.count), to: &bytes)
        SegmentBytes.append(UInt16(sender.utf8.count), to: &bytes)
        SegmentBytes.append(UInt16(group.utf8.count), to: &bytes)
        bytes += Array(sender.utf8)
        bytes += Array(group.utf8)
    }

    private static func append(_ message: OutgoingMessage, _ seed: UInt64, to bytes: inout [UInt8]) {
        let start = bytes.count
        SegmentBytes.append(UInt32(message.body.count), to: &bytes)
        SegmentBytes.append(message.number, to: &bytes)
        SegmentBytes.append(checksum(message.body[...], bytes, start, seed), to: &bytes)
        bytes += message.body
    }

    /// The checksum of a message: of its length and number, and with that as the seed, of its body.
    static func checksum(_ body: ArraySlice<UInt8>, _ bytes: [UInt8], _ start: Int, _ seed: UInt64) -> UInt64 {
        let head = SegmentBytes.checksum(bytes, start..<start + 12, seed: seed)
        return SegmentBytes.checksum(body, seed: head)
    }
}
