// The content of a checkpoint: everything that opening a store needs, as of its frame (FileFormat.md,
// "Checkpoints").

/// Offsets of the fields of a nodes frame's table; its body is the nodes.
package enum NodesField {
    package static let nodes = 0
    package static let zero = 4
    package static let bytes = 8
}

extension NodesField {
    /// Throws `unsupportedVersion` if a newer program wrote the frame.
    static func requireKnown(_ frame: FrameView) throws(StoreError) {
        if frame.table.count == bytes, frame.table.integer(at: zero, as: UInt32.self) != 0 {
            throw .newer("F28", "a reserved field of a nodes frame is in use", offset: frame.offset)
        }
    }
}

/// Offsets of the fields of a checkpoint frame's table.
package enum CheckpointField {
    package static let documentBytes = 0
    package static let pieces = 8
    package static let zero = 12
    package static let readFeatures = 16
    package static let writeFeatures = 24
    package static let bytes = 32

    /// The features of later formats that a checkpoint frame declares. Throws `unsupportedVersion` if only a later
    /// program can read it, and `damaged` for another form.
    static func features(_ frame: FrameView) throws(StoreError) -> FormatFeatures {
        let table = frame.table
        guard table.count >= bytes else {
            throw StoreError(.damaged, "F29: a checkpoint's table has the wrong form.", offset: frame.offset)
        }
        let features = FormatFeatures(
            reading: table.integer(at: readFeatures, as: UInt64.self),
            writing: table.integer(at: writeFeatures, as: UInt64.self))
        do throws(StoreError) { try features.requireReadable() } catch { throw error.at(offset: frame.offset) }
        guard table.integer(at: zero, as: UInt32.self) == 0 else {
            throw .newer("F29", "a reserved field of a checkpoint is in use", offset: frame.offset)
        }
        return features
    }
}

/// Offsets of the fields of an extension in a checkpoint's document.
package enum ExtensionField {
    package static let kind = 0
    package static let flags = 4
    package static let zero = 6
    package static let number = 8
    package static let extensionBytes = 16
    package static let bytes = 20
}

/// A part of a checkpoint's document that a later format defines. This program copies its bytes from checkpoint to
/// checkpoint without knowing their meaning.
package struct CheckpointExtension: Equatable, Sendable {
    package var kind: UInt32
    /// Bit 0: a program that does not know the kind must not write. Bit 1: it must not read either.
    package var flags: UInt16
    /// The last transaction that it includes.
    package var number: UInt64
    package var bytes: [UInt8]

    package init(kind: UInt32, flags: UInt16 = 0, number: UInt64, bytes: [UInt8]) {
        (self.kind, self.flags, self.number, self.bytes) = (kind, flags, number, bytes)
    }

    package var stopsWriters: Bool { flags & 1 != 0 }
}

/// The root of an entity's row index, and its next numbers.
package struct EntityRoot: Equatable, Sendable {
    package var entity: UInt16
    package var depth: UInt8
    package var root: UInt64
    /// One above the highest object number ever used.
    package var nextNumber: UInt64
    package var liveObjects: UInt64

    package init(entity: UInt16, depth: UInt8, root: UInt64, nextNumber: UInt64, liveObjects: UInt64) {
        (self.entity, self.depth, self.root) = (entity, depth, root)
        (self.nextNumber, self.liveObjects) = (nextNumber, liveObjects)
    }
}

/// The root of an ordered index.
package struct OrderedRoot: Equatable, Sendable {
    package var entity: UInt16
    package var isUnique: Bool
    /// False if the index must still be built.
    package var isComplete: Bool
    package var attributes: [UInt16]
    package var root: UInt64
    package var entries: UInt64

    package init(
        entity: UInt16, isUnique: Bool, isComplete: Bool, attributes: [UInt16], root: UInt64, entries: UInt64
    ) {
        (self.entity, self.isUnique, self.isComplete, self.attributes) = (entity, isUnique, isComplete, attributes)
        (self.root, self.entries) = (root, entries)
    }
}

/// A frame at which walking can begin, and the number in its header.
package struct Landmark: Equatable, Sendable {
    package var offset: UInt64
    package var number: UInt64

    package init(offset: UInt64, number: UInt64) { (self.offset, self.number) = (offset, number) }
}

/// The document of a checkpoint.
package struct CheckpointContent: Equatable, Sendable {
    package var number: UInt64 = 0
    package var tag: UInt64 = 0
    package var time: Int64 = .min
    package var recoveries: UInt64 = 0
    package var frames: UInt64 = 0
    package var transactions: UInt64 = 0
    /// The number of changes in these transactions, and of rows without history.
    package var changes: UInt64 = 0
    /// Whether a clock step follows the last transaction.
    package var mayStepBack = false
    package var names: [String] = []
    /// All schema versions, from the first.
    package var schemas: [SchemaDefinition] = []
    package var entities: [EntityRoot] = []
    package var indexes: [OrderedRoot] = []
    /// Nodes frames that hold one node full of landmarks each.
    package var landmarkFrames: [UInt64] = []
    /// The landmarks after those: offset and number.
    package var landmarks: [Landmark] = []
    /// The number up to which history is gone.
    package var horizon: UInt64 = 0
    package var hidden: [CleaningRecord.Hidden] = []
    package var consumers: [ConsumerRecord] = []
    package var retention = RetentionLimits.standard
    /// Frames are counted and landmarks noted below this offset; only the document follows it.
    package var countedEnd: UInt64 = 0
    /// Bytes of frames, by kind number.
    package var frameBytes = [UInt64](repeating: 0, count: CheckpointContent.kinds)

    /// The features of later formats that the file uses. They are in the frame's table, not in the document.
    package var features = FormatFeatures.none
    /// By ascending kind.
    package var extensions: [CheckpointExtension] = []

    package static let kinds = 16
    /// The most bytes that a schema frame holds.
    private static let maximumTableBytes = FormatLimits.maximumFrameBytes - FrameField.bytes

    package init() {}

    package static func == (left: CheckpointContent, right: CheckpointContent) -> Bool {
        left.encoded() == right.encoded()
    }
}

// MARK: Encoding

extension CheckpointContent {
    package func encoded() -> [UInt8] {
        assert(frameBytes.count == Self.kinds, "A checkpoint counts other kinds of frames.")
        var bytes: [UInt8] = []
        bytes.append(integer: number)
        bytes.append(integer: tag)
        bytes.append(integer: time)
        bytes.append(integer: recoveries)
        bytes.append(integer: frames)
        bytes.append(integer: transactions)
        bytes.append(integer: changes)
        bytes.append(integer: UInt64(mayStepBack ? 1 : 0))
        bytes.append(integer: countedEnd)
        for count in frameBytes { bytes.append(integer: count) }
        appendNames(to: &bytes)
        appendSchemas(to: &bytes)
        appendRoots(to: &bytes)
        bytes.append(integer: UInt32(landmarkFrames.count))
        bytes.append(integer: UInt32(landmarks.count))
        for node in landmarkFrames { bytes.append(integer: node) }
        for landmark in landmarks {
            bytes.append(integer: landmark.offset)
            bytes.append(integer: landmark.number)
        }
        appendTracking(to: &bytes)
        appendExtensions(to: &bytes)
        return bytes
    }

    private func appendExtensions(to bytes: inout [UInt8]) {
        bytes.append(integer: UInt32(extensions.count))
        for known in extensions {
            bytes.append(integer: known.kind)
            bytes.append(integer: known.flags)
            bytes.append(integer: UInt16(0))
            bytes.append(integer: known.number)
            bytes.append(integer: UInt32(known.bytes.count))
            bytes.append(contentsOf: known.bytes)
        }
    }

    private func appendTracking(to bytes: inout [UInt8]) {
        bytes.append(integer: horizon)
        bytes.append(integer: retention.microseconds)
        bytes.append(integer: retention.bytes)
        bytes.append(integer: UInt32(hidden.count))
        for entry in hidden {
            bytes.append(integer: entry.author)
            bytes.append(integer: entry.before)
        }
        bytes.append(integer: UInt32(consumers.count))
        for consumer in consumers {
            let table = consumer.encoded()
            bytes.append(integer: UInt32(table.count))
            bytes.append(contentsOf: table)
        }
    }

    private func appendNames(to bytes: inout [UInt8]) {
        bytes.append(integer: UInt32(names.count))
        for name in names {
            bytes.append(integer: UInt16(name.utf8.count))
            bytes.append(contentsOf: name.utf8)
        }
    }

    /// Each version as the tables of its schema frames, which hold no more definitions than fit a frame.
    private func appendSchemas(to bytes: inout [UInt8]) {
        bytes.append(integer: UInt32(schemas.count))
        for schema in schemas {
            let tables =
                (try? schema.encodeTables(maximumTableBytes: Self.maximumTableBytes)) ?? []
            bytes.append(integer: UInt32(tables.count))
            for table in tables {
                bytes.append(integer: UInt32(table.count))
                bytes.append(contentsOf: table)
            }
        }
    }

    private func appendRoots(to bytes: inout [UInt8]) {
        bytes.append(integer: UInt32(entities.count))
        for root in entities {
            bytes.append(integer: root.entity)
            bytes.append(integer: UInt16(root.depth))
            bytes.append(integer: root.root)
            bytes.append(integer: root.nextNumber)
            bytes.append(integer: root.liveObjects)
        }
        bytes.append(integer: UInt32(indexes.count))
        for index in indexes {
            bytes.append(integer: index.entity)
            let flags: UInt8 = (index.isUnique ? 1 : 0) | (index.isComplete ? 2 : 0)
            bytes.append(integer: flags)
            bytes.append(integer: UInt16(index.attributes.count))
            for attribute in index.attributes { bytes.append(integer: attribute) }
            bytes.append(integer: index.root)
            bytes.append(integer: index.entries)
        }
    }
}

// MARK: Decoding

extension CheckpointContent {
    /// Throws `damaged` if the bytes are not a document, or an impossible one.
    package static func decode(_ bytes: UnsafeRawBufferPointer) throws(StoreError) -> CheckpointContent {
        do throws(StoreError) {
            var reader = ByteReader(bytes)
            var content = CheckpointContent()
            content.number = try reader.readUInt64()
            content.tag = try reader.readUInt64()
            content.time = try reader.readInt64()
            content.recoveries = try reader.readUInt64()
            content.frames = try reader.readUInt64()
            content.transactions = try reader.readUInt64()
            content.changes = try reader.readUInt64()
            let step = try reader.readUInt64()
            guard step <= 1 else { throw reader.newer("a checkpoint has an unknown flag") }
            content.mayStepBack = step == 1
            content.countedEnd = try reader.readUInt64()
            for kind in 0..<kinds { content.frameBytes[kind] = try reader.readUInt64() }
            try content.readNames(&reader)
            try content.readSchemas(&reader)
            try content.readRoots(&reader)
            try content.readIndexes(&reader)
            try content.readLandmarks(&reader)
            try content.readTracking(&reader)
            try content.readExtensions(&reader)
            try reader.finish()
            return content
        } catch {
            throw error.under("F29")
        }
    }

    /// Throws `damaged` if a count is higher than the file below its frame allows. So adding to these numbers cannot
    /// overflow.
    func validateCounts(below offset: UInt64) throws(StoreError) {
        let frames = offset / UInt64(FrameField.bytes)
        let changes = offset / UInt64(ChangeField.bytes)
        guard countedEnd <= offset, self.frames <= frames, transactions <= frames, recoveries <= frames,
            self.changes <= changes, frameBytes.allSatisfy({ $0 <= offset }),
            entities.allSatisfy({ $0.liveObjects <= changes }), indexes.allSatisfy({ $0.entries <= changes })
        else { throw Self.malformed("has counts too high for its offset").at(offset: offset) }
    }

    /// Reads a count of items of at least `itemBytes` each. Throws if the rest of the document cannot hold them, so a
    /// count in the file cannot claim memory.
    private static func count(_ reader: inout ByteReader, of itemBytes: Int) throws(StoreError) -> Int {
        let count = Int(try reader.readUInt32())
        guard count <= reader.remaining / itemBytes else { throw malformed("has a count too high for its size") }
        return count
    }

    private mutating func readNames(_ reader: inout ByteReader) throws(StoreError) {
        let count = try Self.count(&reader, of: 2)
        guard count <= FormatLimits.maximumNames else { throw Self.malformed("has too many names") }
        for _ in 0..<count {
            let bytes = Int(try reader.readUInt16())
            guard bytes > 0, bytes <= FormatLimits.maximumNameBytes else {
                throw Self.malformed("has an empty or too long name")
            }
            names.append(try reader.readText(bytes))
        }
    }

    private mutating func readSchemas(_ reader: inout ByteReader) throws(StoreError) {
        let count = try Self.count(&reader, of: 4)
        for version in 0..<count {
            var schema: SchemaDefinition?
            var lastBytes = 0
            for _ in 0..<(try Self.count(&reader, of: 4)) {
                let bytes = Int(try reader.readUInt32())
                defer { lastBytes = bytes }
                let table = try SchemaDefinition(table: try reader.readBytes(bytes), fileOffset: 0)
                guard Int(table.version) == version + 1 else {
                    throw Self.malformed("has schema versions in the wrong order")
                }
                guard let known = schema else {
                    schema = table
                    continue
                }
                guard let first = table.entities.first,
                    known.entities.count + table.entities.count <= FormatLimits.maximumEntities
                else { throw Self.malformed("has tables without definitions, or too many definitions in a version") }
                guard lastBytes + first.encodedBytes > Self.maximumTableBytes else {
                    throw Self.malformed("has a table with room for more definitions")
                }
                schema?.entities += table.entities
            }
            guard let schema else { throw Self.malformed("has a schema version without a definition") }
            schemas.append(schema)
        }
    }

    private mutating func readRoots(_ reader: inout ByteReader) throws(StoreError) {
        for _ in 0..<(try Self.count(&reader, of: 28)) {
            let entity = try reader.readUInt16()
            let depth = try reader.readUInt16()
            let root = EntityRoot(
                entity: entity, depth: UInt8(clamping: depth), root: try reader.readUInt64(),
                nextNumber: try reader.readUInt64(), liveObjects: try reader.readUInt64())
            let last = entities.last?.entity ?? 0
            guard entity > last, depth >= 1, depth <= 6, root.root % 8 == 0, root.root < 1 << 56,
                root.nextNumber >= 1, root.nextNumber <= FormatLimits.maximumObjectNumber + 1,
                root.liveObjects < root.nextNumber
            else { throw Self.malformed("has an impossible root") }
            entities.append(root)
        }
    }

    private mutating func readIndexes(_ reader: inout ByteReader) throws(StoreError) {
        for _ in 0..<(try Self.count(&reader, of: 21)) {
            let entity = try reader.readUInt16()
            let flags = try reader.readUInt8()
            let count = Int(try reader.readUInt16())
            guard flags <= 3 else { throw reader.newer("an index in a checkpoint has flags \(flags)") }
            guard count >= 1, count <= FormatLimits.maximumAttributes else {
                throw Self.malformed("has an impossible index")
            }
            var attributes: [UInt16] = []
            for _ in 0..<count { attributes.append(try reader.readUInt16()) }
            let root = OrderedRoot(
                entity: entity, isUnique: flags & 1 != 0, isComplete: flags & 2 != 0, attributes: attributes,
                root: try reader.readUInt64(), entries: try reader.readUInt64())
            guard root.root % 8 == 0, root.root < 1 << 56 else { throw Self.malformed("has an impossible index") }
            indexes.append(root)
        }
    }

    private mutating func readLandmarks(_ reader: inout ByteReader) throws(StoreError) {
        let nodes = Int(try reader.readUInt32())
        let count = Int(try reader.readUInt32())
        guard nodes <= reader.remaining / 8, count <= (reader.remaining - nodes * 8) / 16 else {
            throw Self.malformed("has a count too high for its size")
        }
        for _ in 0..<nodes {
            let frame = try reader.readUInt64()
            guard frame > landmarkFrames.last ?? 0 else {
                throw Self.malformed(
                    "has frames of landmarks in the wrong order")
            }
            landmarkFrames.append(frame)
        }
        for _ in 0..<count {
            landmarks.append(Landmark(offset: try reader.readUInt64(), number: try reader.readUInt64()))
        }
    }

    private mutating func readTracking(_ reader: inout ByteReader) throws(StoreError) {
        horizon = try reader.readUInt64()
        guard number <= FormatLimits.maximumTransactionNumber, horizon <= number else {
            throw Self.malformed("refers to missing transactions")
        }
        retention = RetentionLimits(microseconds: try reader.readUInt64(), bytes: try reader.readUInt64())
        for _ in 0..<(try Self.count(&reader, of: 12)) {
            let entry = CleaningRecord.Hidden(author: try reader.readUInt32(), before: try reader.readUInt64())
            guard hidden.last.map({ entry.author > $0.author }) ?? true, entry.author <= names.count,
                entry.before <= number + 1
            else { throw Self.malformed("hides an author twice, or a missing author or transaction") }
            hidden.append(entry)
        }
        for _ in 0..<(try Self.count(&reader, of: 48)) {
            let bytes = Int(try reader.readUInt32())
            guard let consumer = try ConsumerRecord.decode(try reader.readBytes(bytes)), !consumer.kind.isEmpty,
                consumer.cursor <= number, consumers.count < FormatLimits.maximumConsumers
            else { throw Self.malformed("has an impossible consumer") }
            consumers.append(consumer)
        }
    }

    private mutating func readExtensions(_ reader: inout ByteReader) throws(StoreError) {
        for _ in 0..<(try Self.count(&reader, of: ExtensionField.bytes)) {
            let kind = try reader.readUInt32()
            let flags = try reader.readUInt16()
            guard flags <= 1 else { throw reader.newer("an extension of kind \(kind) has flags \(flags)") }
            try reader.readReserved(2)
            let number = try reader.readUInt64()
            let bytes = Int(try reader.readUInt32())
            guard kind > extensions.last?.kind ?? 0, number <= self.number else {
                throw Self.malformed("has extensions in the wrong order, or one of a later transaction")
            }
            extensions.append(
                CheckpointExtension(
                    kind: kind, flags: flags, number: number, bytes: Array(try reader.readBytes(bytes))))
        }
    }

    private static func malformed(_ what: String) -> StoreError {
        StoreError(.damaged, "F29: a checkpoint \(what).")
    }
}
