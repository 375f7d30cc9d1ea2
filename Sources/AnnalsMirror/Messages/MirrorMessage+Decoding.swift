// Bytes to messages. Nothing is taken from them before the checksum agrees, and nothing is believed afterwards: a peer
// may be mistaken, too.

package import Annals
internal import FoundationEssentials

extension MirrorMessage {
    /// Decodes a whole message. Encoding the result gives the same bytes.
    ///
    /// Takes memory of at most 48 times the bytes, and linear time. Throws `exportMalformed` for bytes that no version
    /// writes, and `unsupportedVersion` for those of a later version that this one must not skip.
    package init(_ bytes: [UInt8]) throws(StoreError) {
        self = try bytes.reading { (bytes) throws(StoreError) in try MirrorMessage(reading: bytes) }
    }

    private init(reading bytes: UnsafeRawBufferPointer) throws(StoreError) {
        let header = try MessageHeader(bytes)
        let content = UnsafeRawBufferPointer(rebasing: bytes[MessageFormat.headerBytes...])
        let known = content.count - header.restBytes
        var reader = ContentReader(MessageReader(UnsafeRawBufferPointer(rebasing: content[..<known])))
        published = try reader.input.readVarint()
        self.content = try Content(header, &reader)
        try reader.input.finish()
        optional = header.optional
        rest = Array(content[known...])
    }
}

/// The header of a message whose checksum agrees.
private struct MessageHeader {
    let kind: UInt8
    let optional: MirrorMessage.OptionalBits
    let restBytes: Int

    init(_ bytes: UnsafeRawBufferPointer) throws(StoreError) {
        typealias Field = MessageFormat.Field
        guard bytes.count >= MessageFormat.headerBytes else {
            throw StoreError.malformedMessage("it is shorter than a header")
        }
        guard bytes.starts(with: MessageFormat.magic) else {
            throw StoreError.malformedMessage("it begins like something else")
        }
        func number<Integer: FixedWidthInteger & BitwiseCopyable>(_ offset: Int, _: Integer.Type) -> Integer {
            Integer(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: Integer.self))
        }
        let content = UnsafeRawBufferPointer(rebasing: bytes[MessageFormat.headerBytes...])
        guard Int(number(Field.contentBytes, UInt32.self)) == content.count else {
            throw StoreError.malformedMessage("its length is not that in its header", offset: Field.contentBytes)
        }
        let head = UnsafeRawBufferPointer(rebasing: bytes[..<Field.checksum])
        let seed = Checksum.hash(head, seed: MessageFormat.Seed.header)
        guard Checksum.hash(content, seed: seed) == number(Field.checksum, UInt64.self) else {
            throw StoreError.malformedMessage("its checksum does not agree", offset: Field.checksum)
        }
        // From here on, the bytes are those that a peer has sent.
        try Self.requireKnown(bytes)
        restBytes = Int(number(Field.extensionBytes, UInt32.self))
        guard restBytes <= content.count else {
            throw StoreError.malformedMessage("its extension is longer than it", offset: Field.extensionBytes)
        }
        kind = bytes[Field.kind]
        optional = MirrorMessage.OptionalBits(rawValue: bytes[Field.optional])
    }

    private static func requireKnown(_ bytes: UnsafeRawBufferPointer) throws(StoreError) {
        typealias Field = MessageFormat.Field
        let version = bytes[Field.version]
        guard version > 0 else { throw StoreError.malformedMessage("it has version 0", offset: Field.version) }
        guard version == MessageFormat.version else { throw StoreError.newerMessage("has version \(version)") }
        guard bytes[Field.required] & ~MessageFormat.knownRequired == 0 else {
            throw StoreError.newerMessage("requires a feature")
        }
        guard bytes[Field.zero] == 0 else { throw StoreError.newerMessage("uses a reserved byte") }
    }
}

extension MirrorMessage.Content {
    fileprivate init(_ header: MessageHeader, _ reader: inout ContentReader) throws(StoreError) {
        typealias Kind = MessageFormat.Kind
        switch header.kind {
        case Kind.transaction: self = .transaction(try reader.readTransactionMessage())
        case Kind.state: self = .state(try reader.readState())
        case Kind.receipt: self = .receipt(try reader.readReceipt())
        case Kind.request: self = .request(try reader.readRequest())
        case Kind.join: self = .join(try reader.readPeer())
        case Kind.leave:
            var message = try reader.readPeer()
            if try reader.readFlag() { message.lost = try reader.readStore() }
            self = .leave(message)
        case Kind.stateBeginning: self = .statePart(.beginning(try reader.readStateBeginning()))
        case Kind.stateStretches: self = .statePart(.stretches(try reader.readStretches()))
        case Kind.stateObjects: self = .statePart(.objects(try reader.readStateObjects()))
        case Kind.stateEnd: self = .statePart(.end(objects: try reader.input.readVarint()))
        case Kind.stateAliases: self = .statePart(.aliases(try reader.readAliases()))
        case Kind.stateRequest: self = .stateRequest(of: try reader.readStore())
        case 0: throw StoreError.malformedMessage("it has kind 0")
        default:
            guard header.optional.contains(.skippable) else {
                throw StoreError.newerMessage("has kind \(header.kind)")
            }
            self = .skipped(kind: header.kind, bytes: Array(try reader.input.readBytes(reader.input.remaining)))
        }
    }
}

extension ContentReader {
    fileprivate mutating func readTransactionMessage() throws(StoreError) -> TransactionMessage {
        let lamport = try readLamport()
        let isComplete = try readFlag()
        let knowledge = try readVector()
        return TransactionMessage(
            lamport: lamport, knowledge: knowledge, isKnowledgeComplete: isComplete,
            transaction: try readTransaction())
    }

    /// No peer gets to the limit by itself: beyond it the next number could not be computed.
    private mutating func readLamport() throws(StoreError) -> UInt64 {
        let lamport = try input.readVarint()
        guard lamport <= MessageFormat.maximumLamport else {
            throw input.malformed("its number in the order of the group is too large")
        }
        return lamport
    }

    fileprivate mutating func readState() throws(StoreError) -> StateMessage {
        let name = try input.readText()
        let knowledge = try readVector()
        return StateMessage(name: name, knowledge: knowledge, lamport: try readLamport())
    }

    fileprivate mutating func readReceipt() throws(StoreError) -> ReceiptMessage {
        let applied = try readVector()
        var tags: [UInt64] = []
        for _ in applied.entries { tags.append(try input.readFixed(UInt64.self)) }
        return ReceiptMessage(
            applied: applied, tags: tags, lamport: try readLamport(), microseconds: try input.readFixed(Int64.self),
            settled: try readVector(), members: try readPeers(), departed: try readPeers())
    }

    private mutating func readPeers() throws(StoreError) -> PeerSet {
        let count = try input.readCount(ofAtLeast: 1)
        var peers: [UUID] = []
        peers.reserveCapacity(count)
        for _ in 0..<count { peers.append(try readStore()) }
        guard let set = PeerSet(ascending: peers) else { throw input.malformed("its peers are not in order") }
        return set
    }

    fileprivate mutating func readRequest() throws(StoreError) -> [RequestedNumbers] {
        let count = try input.readCount(ofAtLeast: 3)
        var ranges: [RequestedNumbers] = []
        ranges.reserveCapacity(count)
        for _ in 0..<count {
            let (peer, first, more) = (try readStore(), try input.readVarint(), try input.readVarint())
            let (last, isTooLarge) = first.addingReportingOverflow(more)
            guard first > 0, !isTooLarge else { throw input.malformed("a range of numbers is impossible") }
            ranges.append(RequestedNumbers(peer: peer, numbers: first...last))
        }
        return ranges
    }

    fileprivate mutating func readPeer() throws(StoreError) -> PeerMessage {
        let peer = try readStore()
        let name = try input.readText()
        let (lowest, highest) = (try input.readByte(), try input.readByte())
        guard lowest <= highest else { throw input.malformed("the versions that it reads are impossible") }
        return PeerMessage(
            peer: peer, name: name, versions: lowest...highest, instance: try input.readFixed(UInt64.self))
    }

    // MARK: States

    fileprivate mutating func readStateBeginning() throws(StoreError) -> ExportedTransaction {
        let transaction = try readTransaction()
        guard transaction.holds != nil, transaction.changes.isEmpty else {
            throw input.malformed("the beginning of a state is a plain transaction, or has changes")
        }
        return transaction
    }

    fileprivate mutating func readStretches() throws(StoreError) -> [ExportedStretch] {
        let count = try input.readCount(ofAtLeast: 5)
        var stretches: [ExportedStretch] = []
        stretches.reserveCapacity(count)
        for _ in 0..<count {
            let (entity, first, count) = (try readName(), try readObject(), try input.readVarint())
            // Keeps sums from overflowing.
            guard count > 0, count <= FormatLimits.maximumObjectNumber + 1 - first.id.number else {
                throw input.malformed("a stretch of objects is impossible")
            }
            stretches.append(ExportedStretch(entity: entity, first: first, count: count))
        }
        return stretches
    }

    fileprivate mutating func readAliases() throws(StoreError) -> [ExportedAlias] {
        let count = try input.readCount(ofAtLeast: 7)
        var aliases: [ExportedAlias] = []
        aliases.reserveCapacity(count)
        for _ in 0..<count {
            let (first, object, count) = (try readObject(), try readObject(), try input.readVarint())
            // Keeps sums from overflowing.
            guard count > 0,
                count <= FormatLimits.maximumObjectNumber + 1 - max(first.id.number, object.id.number)
            else { throw input.malformed("a stretch of names is impossible") }
            aliases.append(ExportedAlias(first: first, of: object, count: count))
        }
        return aliases
    }

    fileprivate mutating func readStateObjects() throws(StoreError) -> [ExportedChange] {
        let changes = try readChanges()
        guard changes.allSatisfy({ $0.kind == .insert && $0.before == nil }) else {
            throw input.malformed("a state has a change that is not an insertion")
        }
        return changes
    }
}
