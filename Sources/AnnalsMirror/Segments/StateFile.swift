// The bytes of a state's file. Its form is in SegmentFormat.swift.

/// Encodes a state in parts.
struct StateEncoder {
    let header: [UInt8]
    /// The checksum of the part before, or of the header.
    private var checksum: UInt64
    private var fileBytes: Int
    private var bodyBytes = 0

    init(group: String, name: String) {
        var bytes = StateFormat.magic
        let count = StateFormat.fixedHeaderBytes + group.utf8.count + name.utf8.count + SegmentFormat.checksumBytes
        precondition(count <= StateFormat.maximumHeaderBytes, "The names are too long for a state.")
        SegmentBytes.append(StateFormat.version, to: &bytes)
        SegmentBytes.append(UInt32(count), to: &bytes)
        SegmentBytes.append(UInt16(group.utf8.count), to: &bytes)
        SegmentBytes.append(UInt16(name.utf8.count), to: &bytes)
        bytes += Array(group.utf8)
        bytes += Array(name.utf8)
        checksum = SegmentBytes.checksum(bytes[...], seed: SegmentSeed.stateHeader)
        SegmentBytes.append(checksum, to: &bytes)
        header = bytes
        fileBytes = bytes.count
    }

    /// The bytes of a part, which is not empty.
    mutating func part(_ body: [UInt8]) -> [UInt8] {
        checksum = SegmentBytes.checksum(body[...], seed: checksum)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(StateFormat.partHeaderBytes + body.count)
        SegmentBytes.append(UInt32(body.count), to: &bytes)
        SegmentBytes.append(checksum, to: &bytes)
        bytes += body
        fileBytes += bytes.count
        bodyBytes += body.count
        return bytes
    }

    var trailer: [UInt8] {
        var bytes = StateFormat.endMagic
        SegmentBytes.append(UInt64(fileBytes + StateFormat.trailerBytes), to: &bytes)
        SegmentBytes.append(UInt64(bodyBytes), to: &bytes)
        SegmentBytes.append(checksum, to: &bytes)
        SegmentBytes.append(SegmentBytes.checksum(bytes[...], seed: SegmentSeed.stateTrailer), to: &bytes)
        return bytes
    }
}

/// Decodes a state in parts, and trusts none of its bytes.
struct StateDecoder {
    struct Damage: Error, Equatable {
        enum Kind: Equatable {
            case bytes
            case laterVersion
            case otherGroup(String)
        }
        var kind: Kind
        var offset: Int
    }

    private let fileBytes: Int
    private let maximumPartBytes: Int
    private var offset = 0
    private var checksum: UInt64 = 0
    private var bodyBytes = 0
    private var trailer: (bodyBytes: UInt64, checksum: UInt64) = (0, 0)

    init(fileBytes: Int, maximumPartBytes: Int) {
        self.fileBytes = fileBytes
        self.maximumPartBytes = maximumPartBytes
    }

    /// Reads the header and the trailer.
    ///
    /// - Parameter read: Returns bytes at an offset, fewer at the end of the file.
    /// - Returns: False if the file is not complete.
    mutating func begin(
        group: String, name: String, read: (_ offset: Int, _ count: Int) throws -> [UInt8]
    ) throws -> Bool {
        let end = fileBytes - StateFormat.trailerBytes
        if end < StateFormat.fixedHeaderBytes + SegmentFormat.checksumBytes { return false }
        let bytes = try read(end, StateFormat.trailerBytes)
        guard bytes.count == StateFormat.trailerBytes, bytes.starts(with: StateFormat.endMagic),
            SegmentBytes.checksum(bytes[..<32], seed: SegmentSeed.stateTrailer) == number(bytes, 32),
            number(bytes, 8) == UInt64(fileBytes)
        else { return false }
        trailer = (number(bytes, 16), number(bytes, 24))
        try readHeader(read(0, min(StateFormat.maximumHeaderBytes, end)), group, name)
        return true
    }

    private mutating func readHeader(_ bytes: [UInt8], _ group: String, _ name: String) throws(Damage) {
        let names = StateFormat.fixedHeaderBytes
        guard bytes.count >= names, bytes.starts(with: StateFormat.magic) else { throw damage() }
        let count = Int(SegmentBytes.number(UInt32.self, in: bytes, at: 12))
        guard count >= names + SegmentFormat.checksumBytes, count <= bytes.count else { throw damage() }
        let end = count - SegmentFormat.checksumBytes
        checksum = SegmentBytes.checksum(bytes[..<end], seed: SegmentSeed.stateHeader)
        guard checksum == number(bytes, end) else { throw damage() }
        guard SegmentBytes.number(UInt32.self, in: bytes, at: 8) == StateFormat.version else {
            throw Damage(kind: .laterVersion, offset: 8)
        }
        let groupBytes = Int(SegmentBytes.number(UInt16.self, in: bytes, at: 16))
        let nameBytes = Int(SegmentBytes.number(UInt16.self, in: bytes, at: 18))
        guard names + groupBytes + nameBytes == end else { throw damage() }
        let found = String(decoding: bytes[names..<names + groupBytes], as: UTF8.self)
        guard found == group else { throw Damage(kind: .otherGroup(found), offset: names) }
        guard bytes[(names + groupBytes)..<end].elementsEqual(name.utf8) else { throw damage() }
        offset = count
    }

    /// The next part; nil after the last one.
    mutating func next(read: (_ offset: Int, _ count: Int) throws -> [UInt8]) throws -> [UInt8]? {
        let end = fileBytes - StateFormat.trailerBytes
        if offset == end {
            guard checksum == trailer.checksum, UInt64(bodyBytes) == trailer.bodyBytes else { throw damage() }
            return nil
        }
        guard end - offset >= StateFormat.partHeaderBytes else { throw damage() }
        let head = try read(offset, StateFormat.partHeaderBytes)
        guard head.count == StateFormat.partHeaderBytes else { throw damage() }
        let count = Int(SegmentBytes.number(UInt32.self, in: head, at: 0))
        guard (1...maximumPartBytes) ~= count, count <= end - offset - StateFormat.partHeaderBytes else {
            throw damage()
        }
        let body = try read(offset + StateFormat.partHeaderBytes, count)
        guard body.count == count else { throw damage() }
        let found = SegmentBytes.checksum(body[...], seed: checksum)
        guard found == number(head, 4) else { throw damage() }
        checksum = found
        offset += StateFormat.partHeaderBytes + count
        bodyBytes += count
        return body
    }

    private func damage() -> Damage { Damage(kind: .bytes, offset: offset) }

    private func number(_ bytes: [UInt8], _ offset: Int) -> UInt64 {
        SegmentBytes.number(UInt64.self, in: bytes, at: offset)
    }
}
