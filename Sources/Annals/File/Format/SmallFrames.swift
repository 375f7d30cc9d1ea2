// The tables of value, metadata, recovery and seal frames (FileFormat.md, "Large values", "Other frames").

package enum ValueField {
    package static let valueBytes = 0
    package static let position = 8
    package static let first = 16
    package static let pieceBytes = 24
    package static let zero = 28
    package static let bytes = 32

    /// Throws `unsupportedVersion` if a newer program wrote the frame at `offset`, whose table this is.
    @inline(__always)
    static func requireKnown(_ table: UnsafeRawBufferPointer, _ offset: UInt64) throws(StoreError) {
        guard table.integer(at: zero, as: UInt32.self) == 0 else {
            throw .newer("F24", "a reserved field of a value frame is in use", offset: offset)
        }
    }
}

/// A piece of a large value.
package struct ValuePiece: Equatable, Sendable {
    package var valueBytes: UInt64
    package var position: UInt64
    /// Offset of the value's first frame.
    package var first: UInt64
    package var pieceBytes: UInt32

    package init(valueBytes: UInt64, position: UInt64, first: UInt64, pieceBytes: UInt32) {
        (self.valueBytes, self.position, self.first, self.pieceBytes) = (valueBytes, position, first, pieceBytes)
    }

    package func encode(into table: UnsafeMutableRawBufferPointer) {
        table.store(valueBytes, at: ValueField.valueBytes)
        table.store(position, at: ValueField.position)
        table.store(first, at: ValueField.first)
        table.store(pieceBytes, at: ValueField.pieceBytes)
        table.store(UInt32(0), at: ValueField.zero)
    }

    /// Reads the table of a value frame and checks it against the frame's body (F24, as far as one frame shows it).
    package static func decode(_ frame: FrameView) throws(StoreError) -> ValuePiece {
        let table = frame.table
        guard table.count == ValueField.bytes else {
            throw StoreError(.damaged, "F24: a value frame's table has the wrong form.", offset: frame.offset)
        }
        try ValueField.requireKnown(table, frame.offset)
        let piece = ValuePiece(
            valueBytes: table.integer(at: ValueField.valueBytes, as: UInt64.self),
            position: table.integer(at: ValueField.position, as: UInt64.self),
            first: table.integer(at: ValueField.first, as: UInt64.self),
            pieceBytes: table.integer(at: ValueField.pieceBytes, as: UInt32.self))
        let bytes = Int(piece.pieceBytes)
        let end = piece.position.addingReportingOverflow(UInt64(piece.pieceBytes))
        guard bytes > 0, bytes.paddedTo8 == frame.body.count, frame.body[bytes...].allSatisfy({ $0 == 0 }),
            piece.valueBytes <= UInt64(FormatLimits.maximumValueBytes), !end.overflow,
            end.partialValue <= piece.valueBytes,
            (piece.position == 0) == (piece.first == frame.offset)
        else { throw StoreError(.damaged, "F24: a piece of a value does not fit its frame.", offset: frame.offset) }
        return piece
    }
}

package enum MetadataRecord: Equatable, Sendable {
    case name(number: UInt32, text: String)
    /// The clock went back: the last transaction's time, and the time now.
    case clockStep(from: Int64, to: Int64)
    /// An entity's next object number when the file was compacted: one above the highest used.
    case objectNumbers(entity: UInt16, next: UInt64)
    /// The time and the size for which history is kept.
    case retention(RetentionLimits)
    /// The features of later formats that the file uses from here on.
    case features(FormatFeatures)

    static let recordHeaderBytes = 8
    private static let knownTypes: ClosedRange<UInt16> = 1...5

    package func append(to table: inout [UInt8]) {
        var content: [UInt8] = []
        let type: UInt16
        switch self {
        case .name(let number, let text):
            type = 1
            content.append(integer: number)
            content.append(contentsOf: text.utf8)
        case .clockStep(let from, let to):
            type = 2
            content.append(integer: from)
            content.append(integer: to)
        case .objectNumbers(let entity, let next):
            type = 3
            content.append(integer: next)
            content.append(integer: entity)
        case .retention(let limits):
            type = 4
            content.append(integer: limits.microseconds)
            content.append(integer: limits.bytes)
        case .features(let features):
            type = 5
            content.append(integer: features.reading)
            content.append(integer: features.writing)
        }
        table.append(integer: type)
        table.append(integer: UInt16(0))
        table.append(integer: UInt32(content.count))
        table.append(contentsOf: content)
        table.append(contentsOf: repeatElement(0, count: table.count.paddedTo8 - table.count))
        assert(table.count % 8 == 0, "A record is not padded.")
    }

    package static func decodeAll(_ frame: FrameView) throws(StoreError) -> [MetadataRecord] {
        var records: [MetadataRecord] = []
        var position = 0
        let table = frame.table
        let malformed = StoreError(.damaged, "F26: a metadata frame has the wrong form.", offset: frame.offset)
        guard frame.body.isEmpty else { throw malformed }
        while position < table.count {
            guard table.count - position >= recordHeaderBytes else { throw malformed }
            let type = table.integer(at: position, as: UInt16.self)
            guard knownTypes.contains(type), table.integer(at: position + 2, as: UInt16.self) == 0 else {
                throw .newer("F26", "a metadata frame has a record of type \(type)", offset: frame.offset)
            }
            let bytes = Int(table.integer(at: position + 4, as: UInt32.self))
            position += recordHeaderBytes
            guard bytes <= table.count - position, bytes.paddedTo8 <= table.count - position,
                table[(position + bytes)..<(position + bytes.paddedTo8)].allSatisfy({ $0 == 0 }),
                let record = decode(type: type, content: table.slice(position, bytes))
            else { throw malformed }
            records.append(record)
            position += bytes.paddedTo8
        }
        return records
    }

    private static func decode(type: UInt16, content: UnsafeRawBufferPointer) -> MetadataRecord? {
        switch type {
        case 1:
            guard content.count > 4, content.count - 4 <= FormatLimits.maximumNameBytes,
                let text = content.slice(4, content.count - 4).text
            else { return nil }
            return .name(number: content.integer(at: 0, as: UInt32.self), text: text)
        case 2:
            guard content.count == 16 else { return nil }
            return .clockStep(
                from: content.integer(at: 0, as: Int64.self), to: content.integer(at: 8, as: Int64.self))
        case 3:
            guard content.count == 10 else { return nil }
            let next = content.integer(at: 0, as: UInt64.self)
            let entity = content.integer(at: 8, as: UInt16.self)
            guard entity > 0, next > 1, next <= FormatLimits.maximumObjectNumber + 1 else { return nil }
            return .objectNumbers(entity: entity, next: next)
        case 4:
            guard content.count == 16 else { return nil }
            return .retention(
                RetentionLimits(
                    microseconds: content.integer(at: 0, as: UInt64.self),
                    bytes: content.integer(at: 8, as: UInt64.self)))
        case 5:
            guard content.count == 16 else { return nil }
            return .features(
                FormatFeatures(
                    reading: content.integer(at: 0, as: UInt64.self),
                    writing: content.integer(at: 8, as: UInt64.self)))
        default: return nil
        }
    }
}

package struct RecoveryRecord: Equatable, Sendable {
    package static let bytes = 24
    package var random: UInt64
    package var droppedBytes: UInt64
    package var time: Int64

    package init(random: UInt64, droppedBytes: UInt64, time: Int64) {
        (self.random, self.droppedBytes, self.time) = (random, droppedBytes, time)
    }

    package func encoded() -> [UInt8] {
        var table: [UInt8] = []
        table.append(integer: random)
        table.append(integer: droppedBytes)
        table.append(integer: time)
        assert(table.count == Self.bytes, "A recovery's table has another size.")
        return table
    }

    package static func decode(_ frame: FrameView) throws(StoreError) -> RecoveryRecord {
        guard frame.table.count == bytes, frame.body.isEmpty else {
            throw StoreError(.damaged, "F26: a recovery frame has the wrong form.", offset: frame.offset)
        }
        return RecoveryRecord(
            random: frame.table.integer(at: 0, as: UInt64.self),
            droppedBytes: frame.table.integer(at: 8, as: UInt64.self),
            time: frame.table.integer(at: 16, as: Int64.self))
    }
}

package struct SealRecord: Equatable, Sendable {
    package static let bytes = 16
    package var time: Int64
    /// Offset of a checkpoint frame, 0 for none.
    package var checkpoint: UInt64

    package init(time: Int64, checkpoint: UInt64) {
        self.time = time
        self.checkpoint = checkpoint
    }

    package func encoded() -> [UInt8] {
        var table: [UInt8] = []
        table.append(integer: time)
        table.append(integer: checkpoint)
        assert(table.count == Self.bytes, "A seal's table has another size.")
        return table
    }

    package static func decode(_ frame: FrameView) throws(StoreError) -> SealRecord {
        guard frame.table.count == bytes, frame.body.isEmpty else {
            throw StoreError(.damaged, "F26: a seal frame has the wrong form.", offset: frame.offset)
        }
        return SealRecord(
            time: frame.table.integer(at: 0, as: Int64.self),
            checkpoint: frame.table.integer(at: 8, as: UInt64.self))
    }
}

extension [UInt8] {
    mutating func append<Integer: FixedWidthInteger & BitwiseCopyable>(integer: Integer) {
        Swift.withUnsafeBytes(of: integer.littleEndian) { append(contentsOf: $0) }
    }
}
