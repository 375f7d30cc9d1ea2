// Parts of messages that are larger than a courier carries.

package import Annals

/// The body of a courier's message: a whole message, or a part of one.
package enum MessageBody: Sendable {
    case whole(MirrorMessage)
    case part(MessagePart)

    /// Decodes a body. Throws as `MirrorMessage.init`.
    package init(_ body: [UInt8]) throws(StoreError) {
        self =
            MessagePart.isPart(body)
            ? .part(try MessagePart(body)) : .whole(try MirrorMessage(body))
    }
}

/// A part of a message. Its data follow the header in `body`.
package struct MessagePart: Equatable, Sendable {
    /// From 0, below `count`.
    package let index: Int
    /// At least 2.
    package let count: Int
    package let messageBytes: Int
    package let messageChecksum: UInt64
    /// As in the message.
    package let published: UInt64
    /// The number of the transaction in the message; 0 for none.
    package let transaction: UInt64
    /// For later versions: a reader ignores the bits that it does not know.
    package let optional: UInt8
    /// The data. At least one byte.
    package let data: [UInt8]

    static func isPart(_ body: [UInt8]) -> Bool { body.starts(with: MessageFormat.partMagic) }
}

extension MessagePart {
    /// The bodies that carry a message, in their order: itself, or its parts. A body is never longer than the maximum.
    ///
    /// - Parameter maximumBodyBytes: At least 64.
    package static func bodies(
        of message: MirrorMessage, maximumBodyBytes: Int
    ) throws(StoreError) -> [[UInt8]] {
        let bytes = try message.encoded()
        if bytes.count <= maximumBodyBytes { return [bytes] }
        let step = maximumBodyBytes - MessageFormat.partHeaderBytes
        precondition(maximumBodyBytes >= MessageFormat.minimumBodyBytes, "A courier carries at least 64 bytes.")
        let checksum = bytes.withUnsafeBytes { Checksum.hash($0, seed: MessageFormat.Seed.message) }
        let count = (bytes.count + step - 1) / step
        return (0..<count).map { index in
            let data = bytes[(index * step)..<min(bytes.count, (index + 1) * step)]
            return MessagePart(
                index: index, count: count, messageBytes: bytes.count, messageChecksum: checksum,
                published: message.published, transaction: message.transactionNumber, optional: 0, data: Array(data)
            ).encoded()
        }
    }

    /// The body.
    package func encoded() -> [UInt8] {
        var writer = MessageWriter(capacity: MessageFormat.partHeaderBytes + data.count)
        writer.append(MessageFormat.partMagic)
        writer.append(MessageFormat.version)
        writer.append(0)
        writer.append(optional)
        writer.append(fixed: UInt16(0))
        writer.append(fixed: UInt32(index))
        writer.append(fixed: UInt32(count))
        writer.append(fixed: UInt32(messageBytes))
        writer.append(fixed: UInt32(0))
        writer.append(fixed: published)
        writer.append(fixed: transaction)
        writer.append(fixed: messageChecksum)
        writer.append(fixed: UInt64(0))
        writer.append(data)
        writer.patch(Self.checksum(of: writer.bytes), at: MessageFormat.PartField.checksum)
        return writer.bytes
    }

    /// The checksum of everything but its own field.
    private static func checksum(of body: [UInt8]) -> UInt64 {
        body.withUnsafeBytes { bytes in
            let head = UnsafeRawBufferPointer(rebasing: bytes[..<MessageFormat.PartField.checksum])
            let data = UnsafeRawBufferPointer(rebasing: bytes[MessageFormat.partHeaderBytes...])
            return Checksum.hash(data, seed: Checksum.hash(head, seed: MessageFormat.Seed.part))
        }
    }

    init(_ body: [UInt8]) throws(StoreError) {
        typealias Field = MessageFormat.PartField
        guard body.count > MessageFormat.partHeaderBytes else {
            throw StoreError.malformedMessage("a part has no data")
        }
        guard Self.isPart(body) else { throw StoreError.malformedMessage("it begins like something else") }
        func number<Integer: FixedWidthInteger & BitwiseCopyable>(_ offset: Int, _: Integer.Type) -> Integer {
            body.withUnsafeBytes { bytes in
                Integer(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: Integer.self))
            }
        }
        guard Self.checksum(of: body) == number(Field.checksum, UInt64.self) else {
            throw StoreError.malformedMessage("the checksum of a part does not agree", offset: Field.checksum)
        }
        guard body[Field.version] > 0 else { throw StoreError.malformedMessage("a part has version 0") }
        guard body[Field.version] == MessageFormat.version else {
            throw StoreError.newerMessage("has a part of version \(body[Field.version])")
        }
        guard body[Field.required] == 0 else { throw StoreError.newerMessage("has a part that requires a feature") }
        guard body[Field.zero] == 0, body[Field.zero2] == 0, number(Field.zero3, UInt32.self) == 0 else {
            throw StoreError.newerMessage("has a part that uses a reserved byte")
        }
        index = Int(number(Field.index, UInt32.self))
        count = Int(number(Field.count, UInt32.self))
        messageBytes = Int(number(Field.messageBytes, UInt32.self))
        messageChecksum = number(Field.messageChecksum, UInt64.self)
        published = number(Field.published, UInt64.self)
        transaction = number(Field.transaction, UInt64.self)
        optional = body[Field.optional]
        data = Array(body[MessageFormat.partHeaderBytes...])
        // Each other part has at least one byte.
        guard count >= 2, index < count, messageBytes <= MessageFormat.maximumMessageBytes,
            data.count <= messageBytes, count - 1 <= messageBytes - data.count
        else { throw StoreError.malformedMessage("the sizes of a part are impossible", offset: Field.index) }
    }
}
