// A store file taken apart into its header page, its frames and the rest, and put together again with checksums that
// agree.

internal import Annals

/// Invariants:
/// - a frame has at least the 64 bytes of a header; otherwise its bytes may be anything;
/// - the header page may be shorter than a page, and then there are no frames.
struct StorePieces {
    struct Frame {
        var bytes: [UInt8]
        /// Where it stood before; nil for a new one.
        var offset: Int?

        var kind: UInt8 { bytes[FrameField.kind] }
        var isMember: Bool { bytes[FrameField.flags] & 1 == 1 }
        /// Where the body begins, the table's size brought into what is there.
        var bodyStart: Int {
            let tableBytes = Int(bytes.integer(FrameField.tableBytes, as: UInt32.self))
            return FrameField.bytes + min(tableBytes & ~7, bytes.count - FrameField.bytes)
        }
    }

    var page: [UInt8]
    var frames: [Frame] = []
    var rest: [UInt8]

    /// Believes sizes, not checksums: a frame goes on being one after a mutation.
    init(_ bytes: [UInt8]) {
        page = Array(bytes.prefix(FormatLimits.pageBytes))
        var position = page.count
        while frames.count < 512, bytes.count - position >= FrameField.bytes {
            let size = Int(bytes.integer(position + FrameField.frameBytes, as: UInt32.self))
            guard size >= FrameField.bytes, size % 8 == 0, size <= bytes.count - position else { break }
            frames.append(Frame(bytes: Array(bytes[position..<position + size]), offset: position))
            position += size
        }
        rest = Array(bytes[position...])
    }

    func joined(maximumBytes: Int) -> [UInt8] {
        var bytes = page
        for frame in frames where bytes.count + frame.bytes.count <= maximumBytes { bytes += frame.bytes }
        bytes += rest
        return bytes.count > maximumBytes ? Array(bytes[..<maximumBytes]) : bytes
    }

    var salt: UInt64 {
        page.count >= HeaderField.bytes ? page.integer(HeaderField.salt, as: UInt64.self) : 0
    }

    // MARK: Sealing anew

    /// What is made to agree beside the checksums and the chain.
    struct Repairs: OptionSet {
        let rawValue: UInt8
        static let numbers = Repairs(rawValue: 1)
        static let marks = Repairs(rawValue: 2)
        static let records = Repairs(rawValue: 4)
        static let tags = Repairs(rawValue: 8)
        static let references = Repairs(rawValue: 16)
        static let hints = Repairs(rawValue: 32)
        static let checkpoints = Repairs(rawValue: 64)
        static let consumers = Repairs(rawValue: 128)
    }

    /// Recomputes every checksum along the file, and the chain; what `repairs` says as well.
    mutating func seal(_ repairs: Repairs) {
        guard page.count == FormatLimits.pageBytes else { return }
        page.store(page.hash(0..<HeaderField.checksum, seed: 0), at: HeaderField.checksum)
        var walk = SealWalk(page, salt: salt)
        for index in frames.indices { walk.seal(&frames[index], repairs) }
        if repairs.contains(.hints) { sealHints() }
    }

    private mutating func sealHints() {
        for slot in HintField.slots where page[slot..<slot + HintField.bytes].contains(where: { $0 != 0 }) {
            page.store(
                page.hash(slot..<slot + HintField.checksum, seed: salt ^ UInt64(slot)), at: slot + HintField.checksum)
        }
    }
}

/// What sealing remembers from frame to frame.
private struct SealWalk {
    private let salt: UInt64
    private var position = FormatLimits.pageBytes
    private var previousChecksum: UInt64
    private var lastNumber: UInt64
    private var lastTag: UInt64
    /// By the numbers of their transactions, the base included.
    private var tags: [UInt64: UInt64]
    private var lastMark = UInt64(FormatLimits.pageBytes)
    /// Of the transaction whose members are being read.
    private var start: Int?
    private var changes: UInt64 = 0
    /// First frames of values: where they stood, where they stand, and their checksums.
    private var values: [(before: UInt64, after: UInt64, checksum: UInt64)] = []
    private var first = 0

    init(_ page: [UInt8], salt: UInt64) {
        self.salt = salt
        previousChecksum = page.integer(HeaderField.checksum, as: UInt64.self)
        lastNumber = page.integer(HeaderField.baseNumber, as: UInt64.self)
        lastTag = page.integer(HeaderField.baseTag, as: UInt64.self)
        tags = [lastNumber: lastTag]
    }

    mutating func seal(_ frame: inout StorePieces.Frame, _ repairs: StorePieces.Repairs) {
        let isTransaction = frame.kind == FrameKind.transaction.rawValue
        let body = frame.bodyStart
        let begin = start ?? position
        frame.bytes.store(UInt32(frame.bytes.count), at: FrameField.frameBytes)
        frame.bytes.store(UInt32(body - FrameField.bytes), at: FrameField.tableBytes)
        frame.bytes.store(previousChecksum, at: FrameField.previousChecksum)
        if repairs.contains(.numbers) {
            frame.bytes.store(frame.isMember || isTransaction ? lastNumber &+ 1 : lastNumber, at: FrameField.number)
        }
        if repairs.contains(.marks) { repairMark(&frame, begin) }
        if repairs.contains(.records) { repairRecord(&frame, begin, body) }
        if repairs.contains(.checkpoints) { repairCheckpoint(&frame, body) }
        if repairs.contains(.consumers) { repairConsumer(&frame, body) }
        if repairs.contains(.references), !values.isEmpty { repairReferences(&frame, from: body) }
        frame.bytes.store(
            frame.bytes.hash(body..<frame.bytes.count, seed: ~salt), at: FrameField.bodyChecksum)
        if isTransaction, repairs.contains(.tags), body - FrameField.bytes >= TransactionField.bytes, !isCopied(frame) {
            repairTag(&frame, body)
        }
        frame.bytes.store(frame.bytes.hash(FrameField.bytes..<body, seed: salt), at: FrameField.tableChecksum)
        previousChecksum = frame.bytes.hash(8..<FrameField.bytes, seed: salt ^ UInt64(position))
        frame.bytes.store(previousChecksum, at: FrameField.checksum)
        remember(frame, begin, body)
    }

    /// A transaction that compaction has copied keeps its tag.
    private func isCopied(_ frame: StorePieces.Frame) -> Bool {
        frame.bytes.integer(FrameField.bytes + TransactionField.flags, as: UInt16.self) & 2 != 0
    }

    private mutating func remember(_ frame: StorePieces.Frame, _ begin: Int, _ body: Int) {
        if frame.kind == FrameKind.value.rawValue, position == first, let before = frame.offset {
            values.append((UInt64(before), UInt64(position), previousChecksum))
        }
        if frame.kind == FrameKind.transaction.rawValue {
            lastNumber = frame.bytes.integer(FrameField.number, as: UInt64.self)
            if body >= FrameField.bytes + 8 { lastTag = frame.bytes.integer(FrameField.bytes, as: UInt64.self) }
            tags[lastNumber] = lastTag
        }
        start = frame.isMember ? begin : nil
        if !frame.isMember { changes = 0 }
        position += frame.bytes.count
    }

    private mutating func repairMark(_ frame: inout StorePieces.Frame, _ begin: Int) {
        let isSeal = frame.kind == FrameKind.seal.rawValue
        let mark = frame.bytes.integer(FrameField.durableMark, as: UInt64.self)
        lastMark = isSeal ? UInt64(position) : min(max(mark, lastMark), UInt64(begin))
        frame.bytes.store(lastMark, at: FrameField.durableMark)
    }

    private mutating func repairRecord(_ frame: inout StorePieces.Frame, _ begin: Int, _ body: Int) {
        let table = FrameField.bytes
        switch FrameKind(rawValue: frame.kind) {
        case .transaction, .part:
            guard body - table >= TransactionField.bytes else { return }
            frame.bytes.store(UInt64(begin), at: table + TransactionField.start)
            frame.bytes.store(changes, at: table + TransactionField.firstChange)
            changes &+= UInt64(frame.bytes.integer(table + TransactionField.changes, as: UInt32.self))
            let total = frame.kind == FrameKind.transaction.rawValue ? changes : 0
            frame.bytes.store(total, at: table + TransactionField.totalChanges)
        case .value:
            guard body - table >= ValueField.bytes else { return }
            if frame.bytes.integer(table + ValueField.position, as: UInt64.self) == 0 { first = position }
            frame.bytes.store(UInt64(first), at: table + ValueField.first)
        default: break
        }
    }

    /// A document that begins in its own frame names the last transaction, whose tag has changed with anything before
    /// it.
    private func repairCheckpoint(_ frame: inout StorePieces.Frame, _ body: Int) {
        let table = FrameField.bytes
        guard frame.kind == FrameKind.checkpoint.rawValue, body - table >= CheckpointField.bytes,
            frame.bytes.integer(table + CheckpointField.pieces, as: UInt32.self) == 0, frame.bytes.count >= body + 16
        else { return }
        frame.bytes.store(lastNumber, at: body)
        frame.bytes.store(lastTag, at: body + 8)
    }

    /// A consumer names the tag of the transaction that it has seen; a removed one names none.
    private func repairConsumer(_ frame: inout StorePieces.Frame, _ body: Int) {
        let table = FrameField.bytes
        guard frame.kind == FrameKind.consumer.rawValue, body - table >= ConsumerField.bytes,
            frame.bytes.integer(table + ConsumerField.kind, as: UInt16.self) != 0,
            let tag = tags[frame.bytes.integer(table + ConsumerField.cursor, as: UInt64.self)]
        else { return }
        frame.bytes.store(tag, at: table + ConsumerField.tag)
    }

    private func repairTag(_ frame: inout StorePieces.Frame, _ body: Int) {
        let bodyChecksum = frame.bytes.integer(FrameField.bodyChecksum, as: UInt64.self)
        let tag = frame.bytes.withUnsafeBytes { bytes in
            TransactionRecord.tag(
                previousTag: lastTag, previousChecksum: previousChecksum, bodyChecksum: bodyChecksum,
                table: UnsafeRawBufferPointer(rebasing: bytes[FrameField.bytes..<body]))
        }
        frame.bytes.store(tag, at: FrameField.bytes + TransactionField.tag)
    }

    /// References name an offset and a checksum, and both have changed where a value moved.
    private func repairReferences(_ frame: inout StorePieces.Frame, from body: Int) {
        let kinds: [FrameKind] = [.transaction, .part, .rows]
        guard kinds.contains(where: { $0.rawValue == frame.kind }) else { return }
        var position = body
        while position + ReferenceField.bytes <= frame.bytes.count {
            let offset = frame.bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: position, as: UInt64.self) }
            if let value = values.first(where: { $0.before == UInt64(littleEndian: offset) }) {
                frame.bytes.store(value.after, at: position + ReferenceField.offset)
                frame.bytes.store(value.checksum, at: position + ReferenceField.checksum)
                position += ReferenceField.bytes
            } else {
                position += 1
            }
        }
    }
}
