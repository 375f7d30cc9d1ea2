// Files that a newer program wrote: one of each kind of thing that a later format may bring, all checksums right.

import Annals
import SimulatedDisk
import Testing

/// One such file.
struct NewerFile: Sendable, CustomTestStringConvertible {
    enum Effect: Sendable {
        /// This program reads and writes nothing.
        case stops
        /// This program reads everything that it knows, and writes nothing.
        case stopsWriters
        /// The same, but it was not declared: a copy would lack what stops them. The checker calls it damage.
        case stopsCopies
    }

    var name: String
    var effect: Effect
    private var make: @Sendable (inout ForgedFile) throws -> Void
    /// What stands in the header page before its checksum is computed.
    private var page: @Sendable (inout [UInt8]) -> Void

    private init(_ name: String, _ effect: Effect, page: @escaping @Sendable (inout [UInt8]) -> Void) {
        (self.name, self.effect, self.page, make) = (name, effect, page, { _ in })
    }

    private init(_ name: String, _ effect: Effect, _ make: @escaping @Sendable (inout ForgedFile) throws -> Void) {
        (self.name, self.effect, page, self.make) = (name, effect, { _ in }, make)
    }

    var testDescription: String { name }

    /// The notes with one object, "one", and what the newer program wrote after it.
    func bytes() throws -> [UInt8] {
        var header = ForgedFile().header.encoded()
        page(&header)
        let checksum = Array(header[..<HeaderField.checksum]).withUnsafeBytes { Checksum.hash($0, seed: 0) }
        header.put(checksum, at: HeaderField.checksum)
        guard var file = try? ForgedFile(header) else { return header + [UInt8](repeating: 0, count: 4096) }
        try file.addNotes()
        file.addCommit([.insert(1, try Note.encoded("one"))])
        try make(&file)
        return file.finished()
    }

    /// The same after a store that was read to its end. Only one of `appended`.
    func bytes(after store: [UInt8], _ state: LogState) throws -> [UInt8] {
        var file = ForgedFile(goingOnBehind: store, state)
        try make(&file)
        return file.finished()
    }

    /// The same with a checkpoint above that declares nothing, after so many MiB that mean nothing. A hint names it, so
    /// that opening reads nothing below its own MiB. Only one of `appended`.
    func bytesBelowSilentCheckpoint(addingMiB: UInt64 = 0) throws -> [UInt8] {
        let machine = EngineMachine()
        var old = try ForgedFile.withNotes()
        old.addCommit([.insert(1, try Note.encoded("one"))])
        machine.machine.disk.install(old.finished(), at: EngineMachine.path)
        var (file, content) = try Self.cutBeforeCheckpoint(machine)
        try make(&file)
        let end = file.end + addingMiB << 20
        while file.end < end {
            let frame = file.add(
                .nodes, table: [15, 0, 0, 0, 0, 0, 0, 0], body: [UInt8](repeating: 0, count: 15 * IndexNode.bytes))
            if frame.offset >> 20 == content.landmarks.count {
                content.landmarks.append(Landmark(offset: frame.offset, number: file.lastNumber))
            }
        }
        (content.number, content.tag, content.time) = (file.lastNumber, file.lastTag, file.time - 1)
        let start = file.end
        content.countedEnd = start
        file.addCheckpoint(content, hinted: false)
        file.write(Hint(sequence: 1, checkpoint: start, durableEnd: file.end, number: file.lastNumber))
        file.addSeal(checkpoint: start)
        return file.finished()
    }

    /// Whether a checkpoint above says that something stops writers.
    var isDeclared: Bool { effect == .stopsWriters || name.contains("extension") }

    /// The same with what the newer program wrote after it: a checkpoint, a transaction, and a seal. Only of a file
    /// that this program can read.
    func bytesBelowCheckpoint(addingBytes: Int = 0) throws -> [UInt8] {
        var machine = EngineMachine()
        // As the newer program.
        machine.options.log.writesForNewer = true
        machine.machine.disk.install(try bytes(), at: EngineMachine.path)
        let engine = try machine.open()
        let body = [UInt8](repeating: 1, count: 60_000)
        for number in 0..<addingBytes / body.count {
            _ = try engine.commit { try $0.insert(entity: Note.entity, Note.row("\(number)", nil, body)) }
        }
        try engine.writeCheckpoint()
        _ = try engine.commit { try $0.insert(entity: Note.entity, Note.row("two", 2)) }
        try engine.close()
        return machine.machine.disk.contents(of: EngineMachine.path) ?? []
    }

    // MARK: All of them

    static let all = pages + bases + appended + checkpoints
    /// Those that are frames behind a store.
    static let appended = frames + declaredFrames + transactions + schemas + smallFrames

    private static let pages = [
        NewerFile(
            "read version", .stops,
            page: { page in
                for field in [HeaderField.readVersion, HeaderField.writeVersion] { page[field] = 2 }
            }),
        NewerFile("header.zero", .stops, page: { $0[HeaderField.zero + 7] = 1 }),
        NewerFile(
            "write version, and more in the page", .stopsWriters,
            page: { page in
                page[HeaderField.writeVersion] = 2
                for offset in [HeaderField.zero + 3, 130, 4095] { page[offset] = 7 }
            }),
    ]

    private static let bases = [
        NewerFile("the zeros of a rows frame", .stops) { file in
            file = try .withBase()
            file.addRows([ForgedChange(object: Note.object(1), kind: .base, row: try Note.encoded("one"))])
            file.add(.rows, table: [0, 0, 0, 0, 1, 0, 0, 0])
        }
    ]

    private static func frame(
        _ name: String, _ effect: Effect = .stops, isMember: Bool = false, declared: Bool = false,
        with fields: [(Int, UInt8)]
    ) -> NewerFile {
        NewerFile(name, effect) { file in
            if declared { file.add(.metadata, table: features(.init(writing: 1))) }
            let table = [UInt8](repeating: 1, count: 24)
            let frame = file.add(.checkpoint, isMember: isMember, table: table) { header in
                for (field, value) in fields { header[field] = value }
            }
            if isMember { file.addCommit([], .init(record: { $0.start = frame.offset })) }
        }
    }

    private static let frames = [
        frame("frame.kind", with: [(FrameField.kind, 14)]),
        frame("the highest kind", with: [(FrameField.kind, 255)]), frame("kind 0", with: [(FrameField.kind, 0)]),
        frame("a value frame with a flag", isMember: true, with: [(FrameField.kind, 3), (FrameField.flags, 9)]),
        frame(
            "a value frame that may be skipped", isMember: true, with: [(FrameField.kind, 3), (FrameField.flags, 3)]),
        frame("a member of another kind", isMember: true, with: [(FrameField.kind, 14)]),
        frame("frame.flags", with: [(FrameField.flags, 8)]),
        frame("a known kind that may be skipped", with: [(FrameField.flags, 2)]),
        frame("a flag beside skippable", with: [(FrameField.kind, 14), (FrameField.flags, 10)]),
        frame("stops writers, and cannot be skipped", with: [(FrameField.kind, 14), (FrameField.flags, 4)]),
        frame("frame.zero", with: [(FrameField.zero, 1)]),
        frame("frame.zero2", with: [(FrameField.zero2 + 3, 1)]),
        frame(
            "a skipped frame that stops writers", .stopsCopies,
            with: [(FrameField.kind, 14), (FrameField.flags, 6)]),
        frame(
            "a skipped member that stops writers", .stopsCopies, isMember: true,
            with: [(FrameField.kind, 14), (FrameField.flags, 7)]),
    ]

    private static let declaredFrames = [
        frame(
            "a declared frame that stops writers", .stopsWriters, declared: true,
            with: [(FrameField.kind, 14), (FrameField.flags, 6)]),
        frame(
            "a declared member that stops writers", .stopsWriters, isMember: true, declared: true,
            with: [(FrameField.kind, 14), (FrameField.flags, 7)]),
    ]

    private static func commit(_ name: String, entries edit: @escaping @Sendable (inout [UInt8]) -> Void) -> NewerFile {
        NewerFile(name, .stops) { file in
            file.addCommit([.insert(2, try Note.encoded("two"))], .init(entries: edit))
        }
    }

    private static let transactions = [
        NewerFile("transaction.flags", .stops) { file in
            var table = [UInt8](repeating: 0, count: TransactionField.bytes)
            table[TransactionField.flags] = 8
            file.add(.transaction, table: table, number: 3)
        },
        NewerFile("transaction.flags of a part", .stops) { file in
            var table = [UInt8](repeating: 0, count: TransactionField.bytes)
            table[TransactionField.flags + 1] = 0x80
            file.addMember(.part, table: table)
            file.addCommit()
        },
        commit("change.kind") { $0[ChangeField.kind] = 4 },
        commit("change.shape") { $0[ChangeField.shape] |= 0x40 },
        commit("change.zero") { $0[ChangeField.zero + 1] = 1 },
    ]

    private static func schema(_ name: String, _ offset: Int, _ value: UInt8) -> NewerFile {
        NewerFile(name, .stops) { file in
            let other = EntityDefinition(
                number: 2, name: "Other", attributes: [AttributeDefinition(number: 1, type: .int, name: "a")],
                keys: [KeyDefinition(isUnique: false, attributes: [1])])
            var table = try SchemaDefinition(version: 2, entities: [other]).encodeTables()[0]
            table[offset] = value
            file.addSchema(table: table)
            file.addCommit()
        }
    }

    private static let entity = SchemaField.bytes
    private static let attribute = entity + EntityField.bytes + 5
    private static let schemas = [
        schema("schema.zero", SchemaField.zero, 1), schema("entity.state", entity + EntityField.state, 3),
        schema("entity.flags", entity + EntityField.flags, 2), schema("entity.zero", entity + EntityField.zero, 1),
        schema("attribute.type", attribute + AttributeField.type, 13),
        schema("attribute.flags", attribute + AttributeField.flags, 16),
        schema("attribute.deleteRule", attribute + AttributeField.deleteRule, 4),
        schema("attribute.zero", attribute + AttributeField.zero, 1),
        schema("attribute.zero2", attribute + AttributeField.zero2, 1),
        schema("the flags of a key", attribute + AttributeField.bytes + 1, 2),
        NewerFile("a default of another form", .stops) { file in
            let zero = [UInt8](repeating: 0, count: 20)
            let other = EntityDefinition(
                number: 2, name: "Other",
                attributes: [AttributeDefinition(number: 1, type: .decimal, name: "a", defaultValue: zero)])
            var table = try SchemaDefinition(version: 2, entities: [other]).encodeTables()[0]
            table[attribute + AttributeField.bytes + 1 + DecimalField.decimalClass] = 3
            file.addSchema(table: table)
            file.addCommit()
        },
    ]

    /// The object with the decimal.
    static func price() throws -> ObjectID { try #require(ObjectID(entityNumber: 2, number: 1)) }

    private static func decimal(_ name: String, _ field: Int, _ value: UInt8) -> NewerFile {
        NewerFile(name, .stops) { file in
            let entity = EntityDefinition(
                number: 2, name: "Price", attributes: [AttributeDefinition(number: 1, type: .decimal, name: "a")])
            file.addSchema(table: try SchemaDefinition(version: 2, entities: [entity]).encodeTables()[0])
            var writer = ByteWriter()
            try EncodedRow.append(
                [.decimal(.zero)], layout: RowLayout.make(entity), entryDistance: 0, schemaVersion: 2,
                isDeletion: false, to: &writer)
            var row = Array(writer.bytes)
            row[RowField.bytes + field] = value
            var change = ForgedChange.insert(1, row)
            change.object = try price()
            file.addCommit([change])
        }
    }

    /// Only readers of the row notice these, and whoever copies it.
    static let rows = [
        decimal("the class of a decimal", DecimalField.decimalClass, 3), decimal("decimal zero", DecimalField.zero, 1),
    ]

    private static func table(_ name: String, _ kind: FrameKind, _ table: [UInt8]) -> NewerFile {
        NewerFile(name, .stops) { $0.add(kind, table: table) }
    }

    private static let consumer = ConsumerRecord(
        name: "r", kind: .reads, cursor: 0, tag: 0, lastSeen: 4, registered: 5, processID: 6
    ).encoded()
    private static let cleaning = CleaningRecord(before: 1, time: 0, hidden: [.init(author: 0, before: 1)]).encoded()

    private static func features(_ features: FormatFeatures) -> [UInt8] {
        var table: [UInt8] = []
        MetadataRecord.features(features).append(to: &table)
        return table
    }

    private static let smallFrames = [
        table(
            "checkpoint.zero", .checkpoint,
            [UInt8](repeating: 0, count: CheckpointField.bytes).edited { $0[CheckpointField.zero] = 1 }),
        table("the type of a record", .metadata, [6, 0, 0, 0, 0, 0, 0, 0]),
        table("zero of a record", .metadata, [2, 0, 1, 0, 0, 0, 0, 0]),
        table("a feature for readers", .metadata, features(.init(reading: 1 << 40))),
        NewerFile("a feature for writers", .stopsWriters) { file in
            file.add(.metadata, table: features(.init(writing: 2)))
        },
        table("consumer.kind", .consumer, consumer.edited { $0[ConsumerField.kind] = 8 }),
        table("cleaning.zero", .cleaning, cleaning.edited { $0[CleaningField.zero] = 1 }),
        table("hidden.zero", .cleaning, cleaning.edited { $0[CleaningField.bytes + HiddenField.zero] = 1 }),
        NewerFile("consumer.kind of a member", .stops) { file in
            file.addMember(.consumer, table: consumer.edited { $0[ConsumerField.kind + 1] = 1 })
            file.addCommit()
        },
        value("value.zero") { $0.addNewerPiece(position: 0, first: $0.end) },
        value("value.zero of a later piece") { file in
            let first = file.addValue([UInt8](repeating: 1, count: 8), of: 16)
            file.addNewerPiece(position: 8, first: first.offset)
        },
    ]

    private static func value(_ name: String, _ pieces: @escaping @Sendable (inout ForgedFile) -> Void) -> NewerFile {
        NewerFile(name, .stops) { file in
            pieces(&file)
            file.addCommit()
        }
    }

    /// A checkpoint of this program's, changed. A hint names it, so that opening begins there.
    private static func checkpoint(
        _ name: String, _ effect: Effect = .stops, declared: Bool = false,
        _ change: @escaping @Sendable (inout CheckpointContent) -> Void,
        document edit: @escaping @Sendable ([UInt8]) -> [UInt8] = { $0 }
    ) -> NewerFile {
        NewerFile(name, effect) { file in
            if declared { file.add(.metadata, table: features(.init(writing: 1))) }
            var machine = EngineMachine()
            machine.options.log.writesForNewer = true
            machine.machine.disk.install(file.finished(), at: EngineMachine.path)
            var content: CheckpointContent
            (file, content) = try cutBeforeCheckpoint(machine)
            if declared { content.features.writing = 1 }
            change(&content)
            let start = file.end
            file.addCheckpoint(content, hinted: false, document: edit)
            file.write(Hint(sequence: 1, checkpoint: start, durableEnd: file.end, number: file.lastNumber))
        }
    }

    /// Writes a checkpoint there. Returns the file without its frame, and what it said.
    private static func cutBeforeCheckpoint(_ machine: EngineMachine) throws -> (ForgedFile, CheckpointContent) {
        let engine = try machine.open()
        try engine.writeCheckpoint()
        let bytes = machine.machine.disk.contents(of: EngineMachine.path) ?? []
        let state = engine.log.current
        let start = Int(state.checkpoint?.offset ?? 0)
        var file = ForgedFile(goingOnBehind: bytes, state)
        file.cut(to: start)
        return (file, try checkpoint(in: bytes, at: start))
    }

    /// What the checkpoint frame there says; its document is in the frame.
    static func checkpoint(in bytes: [UInt8], at start: Int) throws -> CheckpointContent {
        let body = start + FrameField.bytes + CheckpointField.bytes
        return try bytes.withUnsafeBytes { all in
            let count = all.loadUnaligned(
                fromByteOffset: start + FrameField.bytes + CheckpointField.documentBytes, as: UInt64.self)
            return try CheckpointContent.decode(.init(rebasing: all[body..<body + Int(count)]))
        }
    }

    /// One that this program keeps and writes to.
    static func withExtension(_ known: CheckpointExtension) -> NewerFile {
        checkpoint("an extension", .stopsWriters) { $0.extensions = [known] }
    }

    private static let checkpoints = [
        checkpoint("a feature for readers in a checkpoint") { $0.features.reading = 1 },
        checkpoint("the flags of an extension") {
            $0.extensions = [CheckpointExtension(kind: 1, flags: 4, number: 2, bytes: [1])]
        },
        checkpoint("an extension that stops readers") {
            $0.extensions = [CheckpointExtension(kind: 1, flags: 2, number: 2, bytes: [1])]
        },
        checkpoint("an extension that stops writers", .stopsCopies) {
            $0.extensions = [CheckpointExtension(kind: 9, flags: 1, number: 2, bytes: [1, 2, 3])]
        },
        checkpoint("a declared extension that stops writers", .stopsWriters, declared: true) {
            $0.extensions = [CheckpointExtension(kind: 9, flags: 1, number: 2, bytes: [1, 2, 3])]
        },
        checkpoint("extension.zero") {
            $0.extensions = [CheckpointExtension(kind: 1, number: 2, bytes: [1])]
        } document: { document in
            document.edited { $0[document.count - 1 - ExtensionField.bytes + ExtensionField.zero] = 1 }
        },
        checkpoint("document.mayStepBack") { _ in
        } document: { document in
            document.edited { $0[56] = 2 }
        },
        checkpoint("the flags of an index") { content in
            content.indexes = [
                OrderedRoot(entity: 0x4E4E, isUnique: false, isComplete: true, attributes: [1], root: 0, entries: 0)
            ]
        } document: { document in
            document.edited(after: [0x4E, 0x4E], at: 0, to: 6)
        },
        checkpoint("the type of an attribute in a document") { _ in
        } document: { document in
            document.edited(after: Array("title".utf8), at: -5 - AttributeField.bytes + AttributeField.type, to: 13)
        },
        checkpoint("consumer.kind in a document") { content in
            content.consumers = [
                ConsumerRecord(
                    name: "someone", kind: .reads, cursor: 0, tag: 0, lastSeen: 4, registered: 5, processID: 6)
            ]
        } document: { document in
            document.edited(after: Array("someone".utf8), at: -7 - ConsumerField.bytes + ConsumerField.kind, to: 8)
        },
        NewerFile("nodes.zero of a piece of a document", .stops) { file in
            let machine = EngineMachine()
            machine.machine.disk.install(file.finished(), at: EngineMachine.path)
            var content: CheckpointContent
            (file, content) = try cutBeforeCheckpoint(machine)
            let piece = file.end
            content.countedEnd = piece
            let document = content.encoded()
            let node = document + [UInt8](repeating: 0, count: IndexNode.bytes - document.count)
            file.add(.nodes, table: [1, 0, 0, 0, 1, 0, 0, 0], body: node)
            var table = [UInt8](repeating: 0, count: CheckpointField.bytes + 8)
            table.put(UInt64(document.count), at: CheckpointField.documentBytes)
            table[CheckpointField.pieces] = 1
            table.put(piece, at: CheckpointField.bytes)
            let frame = file.add(.checkpoint, table: table)
            file.write(Hint(sequence: 1, checkpoint: frame.offset, durableEnd: file.end, number: file.lastNumber))
        },
    ]
}

extension ForgedFile {
    /// Eight bytes of a large value in a frame with something in `value.zero`; the value ends with them.
    fileprivate mutating func addNewerPiece(position: UInt64, first: UInt64) {
        var table = [UInt8](repeating: 0, count: ValueField.bytes)
        let piece = ValuePiece(valueBytes: position + 8, position: position, first: first, pieceBytes: 8)
        table.withUnsafeMutableBytes { piece.encode(into: $0) }
        table[ValueField.zero] = 1
        addMember(.value, table: table, body: [UInt8](repeating: 1, count: 8))
    }
}

extension [UInt8] {
    /// With another byte at a distance from the end of the first place that has these bytes.
    fileprivate func edited(after bytes: [UInt8], at distance: Int, to value: UInt8) -> [UInt8] {
        guard let place = firstRange(of: bytes) else { preconditionFailure("The bytes are there.") }
        return edited { $0[place.upperBound + distance] = value }
    }
}
