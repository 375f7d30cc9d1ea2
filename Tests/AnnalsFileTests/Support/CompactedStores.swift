// Compacted stores in few bytes, with consumers and cleaning: for the golden files and the fuzz corpus.

import Annals
import SimulatedDisk
import Testing

enum CompactedStores {
    private static func sync(cursor: UInt64, tag: UInt64) -> ConsumerRecord {
        ConsumerRecord(
            name: "sync", kind: .reads, cursor: cursor, tag: tag, lastSeen: 1_767_225_600_000_001,
            registered: 1_767_225_600_000_000, processID: 11)
    }

    private static let importer = ConsumerRecord(
        name: "import", kind: [.reads, .writes], cursor: 0, tag: 0, lastSeen: 0, registered: 0, processID: 12)

    /// A base with two schema versions, a large value, a deleted object that had the highest number, and an entity of
    /// which nothing is left; after it copied transactions, one of a hidden author, consumers, and a checkpoint that
    /// holds all of it; then a cursor within a transaction.
    static func golden() throws -> [UInt8] {
        let machine = machine()
        try withEngine(machine) { engine in try fill(engine) }
        try addFrames(machine) { (file, tags) in
            file.add(.consumer, table: importer.encoded())
            file.add(.consumer, table: sync(cursor: 3, tag: tags[3] ?? 0).encoded())
            file.add(.consumer, table: ConsumerRecord.removal(of: "import").encoded())
            file.add(.consumer, table: importer.encoded())
        }
        try withEngine(machine) { engine in
            try engine.setRetention(RetentionLimits(microseconds: .max, bytes: 5000))
            _ = try engine.deleteHistory(before: 5)
            _ = try engine.deleteHistory(before: 9, authors: ["secret", nil])
            let store = StoreHandle(engine)
            _ = try store.compact(.lowered)
            _ = try store.commit(author: "after") { transaction in
                _ = try transaction.insert(entity: EngineNote.entity, EngineNote.row("after", 7) + [.bool(true)])
            }
            try store.current.writeCheckpoint()
            try store.close()
        }
        try addFrames(machine) { (file, tags) in
            let last = file.lastNumber
            file.addMember(.consumer, table: sync(cursor: last, tag: tags[last] ?? 0).encoded())
            file.addCommit()
            file.add(.consumer, table: ConsumerRecord.removal(of: "import").encoded())
        }
        try withEngine(machine) { engine in try engine.writeCheckpoint() }
        return try contents(machine)
    }

    /// Two entities without history, one of which has it again: their rows stand after different transactions, and
    /// what they were before is left out of some; a large value, an object that was deleted, and changes after.
    static func folded() throws -> [UInt8] {
        let machine = machine()
        func definition(_ number: UInt16, _ name: String, isOff: Bool) -> EntityDefinition {
            var definition = EngineNote.definition
            (definition.number, definition.name, definition.keepsNoHistory) = (number, IdentifierName(name), isOff)
            return definition
        }
        try withEngine(machine) { engine in
            let store = StoreHandle(engine)
            _ = try store.commit(author: "golden", context: "schema") { transaction in
                try transaction.changeSchema([
                    EngineNote.definition, definition(2, "Log", isOff: true), definition(3, "Draft", isOff: true),
                ])
            }
            let long = StoredValue.data((0..<2000).map { UInt8(truncatingIfNeeded: $0 / 5) })
            let ids = try store.commit(author: "golden") { transaction in
                try [1, 2, 3, 2, 3].enumerated().map { (index, entity) in
                    try transaction.insert(entity: entity, EngineNote.row("row \(index)", Int64(index)))
                }
            }.result
            for round in 1...2 {
                _ = try store.commit(author: "golden") { transaction in
                    try transaction.update(ids[1], [(EngineNote.body, round == 1 ? long : .data([7]))])
                    try transaction.update(ids[2], [(EngineNote.rank, .int(100)), (EngineNote.body, long)])
                    if round == 2 { try transaction.update(ids[0], [(EngineNote.rank, .int(10))]) }
                }
            }
            _ = try store.commit(author: "other") { try $0.delete(ids[3]) }
            _ = try store.commit(author: "golden", context: "schema") { transaction in
                try transaction.changeSchema([definition(3, "Draft", isOff: false)])
                try transaction.update(ids[2], [(EngineNote.rank, .int(200))])
            }
            _ = try store.commit(author: "other") { transaction in
                try transaction.delete(ids[4])
                try transaction.update(ids[1], [(EngineNote.rank, .absent)])
            }
            _ = try store.compact(.lowered)
            _ = try store.commit(author: "after") { transaction in
                try transaction.update(ids[1], [(EngineNote.rank, .int(5))])
                try transaction.update(ids[2], [(EngineNote.rank, .int(300))])
            }
            try store.close()
        }
        return try contents(machine)
    }

    /// A store whose compacted form was made, and did not take its place: the process died in the rename.
    static func replacing() throws -> [UInt8] {
        let machine = machine()
        try withEngine(machine) { engine in
            _ = try engine.commit(author: "golden") { try $0.changeSchema([EngineNote.definition]) }
            _ = try engine.commit(author: "golden") { transaction in
                _ = try transaction.insert(entity: EngineNote.entity, EngineNote.row("one", 1))
            }
        }
        machine.disk.addFault(Fault(.death(afterBytes: 0), on: .rename, process: 2))
        let engine = try open(machine, 2)
        #expect(throws: StoreError.self) { try StoreHandle(engine).compact(.lowered) }
        machine.disk.removeAllFaults()
        machine.disk.kill(2)
        return try contents(machine)
    }

    /// Everything that a base may have, by hand and without indexes, and transactions after it.
    static func forged() throws -> [UInt8] {
        var file = ForgedFile(generation: 1)
        var names: [UInt8] = []
        for (index, text) in ["golden", "other"].enumerated() {
            MetadataRecord.name(number: UInt32(index + 1), text: text).append(to: &names)
        }
        MetadataRecord.objectNumbers(entity: 1, next: 9).append(to: &names)
        MetadataRecord.objectNumbers(entity: 2, next: 5).append(to: &names)
        file.add(.metadata, table: names)
        for entity in [Note.definition, folder] {
            file.add(.schema, table: try SchemaDefinition(version: 1, entities: [entity]).encodeTables()[0])
        }
        file.schemaVersion = 1
        let first = file.addValue([UInt8](repeating: 1, count: 640), of: 1000, isMember: false)
        file.addValue([UInt8](repeating: 2, count: 360), of: 1000, position: 640, first: first.offset, isMember: false)
        let large = StoredValue.large(
            try #require(LargeValueReference(offset: first.offset, valueBytes: 1000, checksum: first.checksum)))
        let rows = [[.string("large"), .absent, large], Note.row("two", 2)]
        let base = file.addRows(
            try rows.enumerated().map { index, row in
                ForgedChange(object: Note.object(index + 1), kind: .base, row: try Note.encoded(row))
            })
        file.add(.consumer, table: importer.encoded())
        file.addMember(.consumer, table: sync(cursor: 0, tag: 0).encoded())
        let inserted = file.addCommit([
            .insert(3, try Note.encoded("three")), .update(2, try Note.encoded("second", 2), previous: base.rows[1]),
        ])
        file.add(
            .cleaning,
            table: CleaningRecord(before: 1, time: 5, hidden: [.init(author: 0, before: 2)]).encoded())
        file.addCommit([.delete(3, previous: inserted.rows[0]), .delete(1, previous: base.rows[0])])
        file.addSeal()
        return file.finished()
    }

    // MARK: The transactions

    private static let folder = EntityDefinition(
        number: 2, name: "Folder",
        attributes: [
            AttributeDefinition(number: 1, type: .string, flags: [.optional], name: "name"),
            AttributeDefinition(number: 2, type: .objects, flags: [.optional], target: 1, name: "notes"),
        ])

    /// Transactions 1 to 8.
    private static func fill(_ engine: Engine) throws {
        _ = try engine.commit(author: "golden", context: "schema") { transaction in
            try transaction.changeSchema([EngineNote.definition, folder])
        }
        let (ids, _) = try engine.commit(author: "golden") { transaction in
            let body = (0..<9000).map { UInt8(truncatingIfNeeded: $0 / 7) }
            let ids = try (1...12).map { number in
                let row = EngineNote.row("note \(number)", Int64(number % 4))
                return try transaction.insert(
                    entity: EngineNote.entity, number == 3 ? Array(row.prefix(2)) + [.data(body)] : row)
            }
            let folder = try transaction.insert(entity: 2, [.string("folder"), .objects([ids[0], ids[2]])])
            return ids + [folder]
        }
        _ = try engine.commit(author: "other") { transaction in
            for id in [ids[12], ids[11], ids[4]] { try transaction.delete(id) }
            try transaction.update(ids[0], [(EngineNote.title, .string("renamed"))])
        }
        var note = EngineNote.definition
        note.attributes.append(
            AttributeDefinition(number: 4, type: .bool, flags: [], name: "done", defaultValue: [0]))
        let second = note
        _ = try engine.commit(author: "golden", context: "schema") { transaction in
            try transaction.changeSchema([second])
            try transaction.update(ids[1], [(3, .bool(true))])
        }
        _ = try engine.commit(author: "golden") { transaction in
            try transaction.update(ids[2], [(EngineNote.rank, .int(33))])
            try transaction.delete(ids[6])
        }
        _ = try engine.commit(author: "secret") { try $0.update(ids[3], [(EngineNote.rank, .absent)]) }
        _ = try engine.commit { try $0.update(ids[3], [(EngineNote.rank, .int(44))]) }
        _ = try engine.commit(author: "golden") { transaction in
            _ = try transaction.insert(entity: EngineNote.entity, EngineNote.row("last", 9) + [.bool(false)])
        }
    }

    // MARK: The machine

    private static func machine() -> Machine {
        Machine(seed: 42, limits: .lowered, clockStepMicroseconds: 0)
    }

    private static func open(_ machine: Machine, _ process: UInt32 = 1) throws -> Engine {
        var options = EngineOptions.lowered
        options.log = machine.options
        options.log.limits.mappingReserveBytes = 16 << 20
        if machine.disk.contents(of: Machine.path) == nil {
            return try Engine.create(
                Machine.path, options: options, files: machine.files(process), environment: machine.environment)
        }
        return try Engine.open(
            Machine.path, options: options, files: machine.files(process), environment: machine.environment)
    }

    private static func withEngine(_ machine: Machine, _ body: (Engine) throws -> Void) throws {
        let engine = try open(machine)
        try body(engine)
        try engine.close()
    }

    private static func contents(_ machine: Machine) throws -> [UInt8] {
        try #require(machine.disk.contents(of: Machine.path))
    }

    /// Puts frames after the last one of a closed store; `body` is told the tags of transactions.
    private static func addFrames(
        _ machine: Machine, _ body: (inout ForgedFile, [UInt64: UInt64]) throws -> Void
    ) throws {
        let log = try machine.open(9, access: .readOnly)
        var tags = [log.header.baseNumber: log.header.baseTag]
        try log.forEachFrame { (frame, _) throws(StoreError) in
            guard frame.header.kind == .transaction else { return }
            tags[frame.header.number] = try TransactionRecord.decode(frame.table).tag
        }
        var file = ForgedFile(goingOnBehind: try contents(machine), log.current)
        try body(&file, tags)
        machine.disk.install(file.finished(), at: Machine.path)
    }
}
