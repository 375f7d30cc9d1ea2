// Decodes the bytes of a segment, and trusts none of them.

/// The meaning of the bytes of a file.
package enum SegmentReading: Equatable, Sendable {
    case complete(Segment)
    /// The first bytes of a segment. A synchronizer is still delivering the rest.
    case incomplete
    /// A segment of a later version, in whole or in part.
    case laterVersion(UInt32)
    /// The bytes differ from the written ones. The sentence has no path.
    case damaged(offset: Int, sentence: String)
}

extension Segment {
    /// Decodes a file's bytes.
    ///
    /// Takes no more memory than they have. Each part of the file has a checksum, which is compared before anything of
    /// the part is used.
    package static func read(_ bytes: [UInt8]) -> SegmentReading {
        switch SegmentHeader.read(bytes) {
        case .failure(let reading): reading.reading
        case .success(let header): read(bytes, header)
        }
    }

    private static func read(_ bytes: [UInt8], _ header: SegmentHeader) -> SegmentReading {
        if bytes.count < header.fileBytes { return .incomplete }
        if bytes.count > header.fileBytes {
            return .damaged(offset: header.fileBytes, sentence: "The file is longer than its header says.")
        }
        let end = header.fileBytes - SegmentFormat.checksumBytes
        var messages: [OutgoingMessage] = []
        messages.reserveCapacity(min(header.count, (end - header.bytes) / SegmentFormat.messageHeaderBytes))
        var offset = header.bytes
        while offset < end {
            guard let message = message(in: bytes, at: offset, end: end, seed: header.checksum) else {
                return .damaged(offset: offset, sentence: "A message differs from its checksum.")
            }
            messages.append(message)
            offset += Self.bytes(of: message)
        }
        let whole = SegmentBytes.checksum(bytes, 0..<end, seed: SegmentSeed.whole)
        guard whole == SegmentBytes.number(UInt64.self, in: bytes, at: end) else {
            return .damaged(offset: end, sentence: "The file differs from its checksum.")
        }
        guard messages.count == header.count, !messages.isEmpty else {
            return .damaged(offset: 0, sentence: "The count of messages is not that of the header.")
        }
        let segment = Segment(
            group: header.group, sender: header.sender, run: header.run, serial: header.serial,
            oldestKept: header.oldestKept, messages: messages)
        guard segment.numbers.lowerBound == header.lowest, segment.numbers.upperBound == header.highest else {
            return .damaged(offset: 0, sentence: "The numbers of the messages are not those of the header.")
        }
        return .complete(segment)
    }

    /// The message at an offset; nil if its length or its checksum is wrong.
    private static func message(in bytes: [UInt8], at offset: Int, end: Int, seed: UInt64) -> OutgoingMessage? {
        guard end - offset >= SegmentFormat.messageHeaderBytes else { return nil }
        let start = offset + SegmentFormat.messageHeaderBytes
        let count = Int(SegmentBytes.number(UInt32.self, in: bytes, at: offset))
        // Compared with the remaining bytes, so that no sum can overflow.
        guard count <= end - start else { return nil }
        let body = bytes[start..<start + count]
        let stored = SegmentBytes.number(UInt64.self, in: bytes, at: offset + 12)
        guard checksum(body, bytes, offset, seed) == stored else { return nil }
        return OutgoingMessage(
            number: SegmentBytes.number(UInt64.self, in: bytes, at: offset + 4), body: Array(body))
    }
}

/// The header of a segment, whose checksum was right.
struct SegmentHeader: Equatable {
    var bytes: Int
    var fileBytes: Int
    var run: UInt64
    var serial: UInt64
    var oldestKept: UInt64
    var lowest: UInt64
    var highest: UInt64
    var count: Int
    var sender: String
    var group: String
    var checksum: UInt64

    /// The reason why there is no header.
    struct Refusal: Error {
        var reading: SegmentReading
    }

    static func read(_ bytes: [UInt8]) -> Result<SegmentHeader, Refusal> {
        guard SegmentBytes.agree(bytes, SegmentFormat.magic) else { return damaged(0, "This is not a segment.") }
        guard bytes.count >= SegmentFormat.preludeBytes else { return .failure(Refusal(reading: .incomplete)) }
        let count = Int(SegmentBytes.number(UInt32.self, in: bytes, at: 12))
        guard (SegmentFormat.preludeBytes + SegmentFormat.checksumBytes...SegmentFormat.maximumHeaderBytes) ~= count
        else { return damaged(12, "The header's length is impossible.") }
        guard bytes.count >= count else { return .failure(Refusal(reading: .incomplete)) }
        let end = count - SegmentFormat.checksumBytes
        let checksum = SegmentBytes.number(UInt64.self, in: bytes, at: end)
        guard SegmentBytes.checksum(bytes, 0..<end, seed: SegmentSeed.header) == checksum else {
            return damaged(0, "The header differs from its checksum.")
        }
        let version = SegmentBytes.number(UInt32.self, in: bytes, at: 8)
        guard version == SegmentFormat.version else { return .failure(Refusal(reading: .laterVersion(version))) }
        return fields(bytes, count, checksum)
    }

    /// A writer with a mistake may have made a header whose checksum is right.
    private static func fields(
        _ bytes: [UInt8], _ count: Int, _ checksum: UInt64
    ) -> Result<SegmentHeader, Refusal> {
        func number(_ offset: Int) -> UInt64 { SegmentBytes.number(UInt64.self, in: bytes, at: offset) }
        let wrong = "The header has a right checksum and impossible content."
        guard count >= SegmentFormat.fixedHeaderBytes + SegmentFormat.checksumBytes else { return damaged(12, wrong) }
        let senderBytes = Int(SegmentBytes.number(UInt16.self, in: bytes, at: 68))
        let groupBytes = Int(SegmentBytes.number(UInt16.self, in: bytes, at: 70))
        let names = SegmentFormat.fixedHeaderBytes
        guard names + senderBytes + groupBytes + SegmentFormat.checksumBytes == count,
            let fileBytes = Int(exactly: number(16)), fileBytes <= SegmentFormat.maximumFileBytes,
            fileBytes >= count + SegmentFormat.checksumBytes,
            let sender = String(validating: bytes[names..<names + senderBytes], as: UTF8.self),
            let group = String(
                validating: bytes[names + senderBytes..<names + senderBytes + groupBytes], as: UTF8.self),
            (1...FolderPlace.maximumSerial) ~= number(32), number(40) > 0, number(40) <= number(32),
            number(48) <= number(56)
        else { return damaged(16, wrong) }
        return .success(
            SegmentHeader(
                bytes: count, fileBytes: fileBytes, run: number(24), serial: number(32), oldestKept: number(40),
                lowest: number(48), highest: number(56),
                count: Int(SegmentBytes.number(UInt32.self, in: bytes, at: 64)), sender: sender, group: group,
                checksum: checksum))
    }

    private static func damaged(_ offset: Int, _ sentence: String) -> Result<SegmentHeader, Refusal> {
        .failure(Refusal(reading: .damaged(offset: offset, sentence: sentence)))
    }
}
