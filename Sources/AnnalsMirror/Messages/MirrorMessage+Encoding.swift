// Messages to bytes.

package import Annals
internal import FoundationEssentials

extension MirrorMessage {
    /// The bytes of the message. Equal messages have equal bytes.
    ///
    /// Throws `tooLarge` for a message that no peer accepts, and `valueOutOfRange` for a default value that no store
    /// can have.
    package func encoded() throws(StoreError) -> [UInt8] {
        var writer = ContentWriter(MessageWriter())
        for byte in MessageFormat.magic { writer.out.append(byte) }
        writer.out.append(MessageFormat.version)
        writer.out.append(content.kind)
        writer.out.append(optional.rawValue)
        writer.out.append(fixed: UInt16(0))
        for _ in 0..<2 { writer.out.append(fixed: UInt64(0)) }
        writer.out.append(varint: published)
        try content.append(to: &writer)
        writer.out.append(rest)
        return try Self.finished(writer.out, restBytes: rest.count)
    }

    private static func finished(_ writer: MessageWriter, restBytes: Int) throws(StoreError) -> [UInt8] {
        typealias Field = MessageFormat.Field
        var writer = writer
        let count = writer.count - MessageFormat.headerBytes
        guard writer.count <= MessageFormat.maximumMessageBytes else {
            throw StoreError(
                .tooLarge,
                "A message of the mirror has \(writer.count) bytes, and no peer accepts more than "
                    + "\(MessageFormat.maximumMessageBytes): divide the transaction.")
        }
        writer.patch(UInt32(count), at: Field.contentBytes)
        writer.patch(UInt32(restBytes), at: Field.extensionBytes)
        let seed = writer.checksum(from: 0, Field.checksum, seed: MessageFormat.Seed.header)
        writer.patch(writer.checksum(from: MessageFormat.headerBytes, count, seed: seed), at: Field.checksum)
        return writer.bytes
    }
}

extension MirrorMessage.Content {
    var kind: UInt8 {
        typealias Kind = MessageFormat.Kind
        return switch self {
        case .transaction: Kind.transaction
        case .state: Kind.state
        case .receipt: Kind.receipt
        case .request: Kind.request
        case .join: Kind.join
        case .leave: Kind.leave
        case .statePart(.beginning): Kind.stateBeginning
        case .statePart(.stretches): Kind.stateStretches
        case .statePart(.objects): Kind.stateObjects
        case .statePart(.end): Kind.stateEnd
        case .statePart(.aliases): Kind.stateAliases
        case .stateRequest: Kind.stateRequest
        case .skipped(let kind, _): kind
        }
    }

    fileprivate func append(to writer: inout ContentWriter) throws(StoreError) {
        switch self {
        case .transaction(let message):
            writer.out.append(varint: message.lamport)
            writer.out.append(message.isKnowledgeComplete ? 1 : 0)
            writer.append(message.knowledge)
            try writer.append(message.transaction)
        case .state(let message):
            writer.out.append(text: message.name)
            writer.append(message.knowledge)
            writer.out.append(varint: message.lamport)
        case .receipt(let message):
            writer.append(message.applied)
            for tag in message.tags { writer.out.append(fixed: tag) }
            writer.out.append(varint: message.lamport)
            writer.out.append(fixed: message.microseconds)
            writer.append(message.settled)
            writer.append(message.members)
            writer.append(message.departed)
        case .stateRequest(let peer): writer.append(store: peer)
        case .request(let ranges):
            writer.out.append(count: ranges.count)
            for range in ranges {
                writer.append(store: range.peer)
                writer.out.append(varint: range.numbers.lowerBound)
                writer.out.append(varint: range.numbers.upperBound - range.numbers.lowerBound)
            }
        case .join(let message): writer.append(message)
        case .leave(let message):
            writer.append(message)
            writer.out.append(message.lost == nil ? 0 : 1)
            if let lost = message.lost { writer.append(store: lost) }
        case .statePart(let part): try writer.append(part)
        case .skipped(_, let bytes): writer.out.append(bytes)
        }
    }
}

extension ContentWriter {
    fileprivate mutating func append(_ set: PeerSet) {
        out.append(count: set.peers.count)
        for peer in set.peers { append(store: peer) }
    }

    fileprivate mutating func append(_ message: PeerMessage) {
        append(store: message.peer)
        out.append(text: message.name)
        out.append(message.versions.lowerBound)
        out.append(message.versions.upperBound)
        out.append(fixed: message.instance)
    }

    fileprivate mutating func append(_ part: ExportedStatePart) throws(StoreError) {
        switch part {
        case .beginning(let transaction): try append(transaction)
        case .objects(let changes): append(changes)
        case .end(let objects): out.append(varint: objects)
        case .aliases(let aliases):
            out.append(count: aliases.count)
            for alias in aliases {
                append(alias.first)
                append(alias.object)
                out.append(varint: alias.count)
            }
        case .stretches(let stretches):
            out.append(count: stretches.count)
            for stretch in stretches {
                append(name: stretch.entity)
                append(stretch.first)
                out.append(varint: stretch.count)
            }
        }
    }
}
