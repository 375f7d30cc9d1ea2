// The golden files: stores that show every feature of the format, always made the same way.

import Annals
import SimulatedDisk
import Testing

enum GoldenStores {
    /// Each by its name, with what makes it.
    static let all: [(name: String, make: @Sendable () throws -> [UInt8])] = [
        ("empty", { try store { _, _ in } }),
        ("types", { try store { log, _ in try types(log) } }),
        ("long", { try store(limits: .lowered) { log, _ in try long(log) } }),
        ("schema", { try store { log, _ in try schema(log) } }),
        ("unsealed", { try store(isClosed: false) { log, _ in try notes(log) } }),
        ("clock", { try store { log, environment in try clock(log, environment) } }),
        ("torn", { try torn(recovering: false) }),
        ("recovered", { try torn(recovering: true) }),
        ("checkpoint", { try CheckpointStores.golden() }),
        ("example", { try CheckpointStores.example() }),
        ("reserved", { try CheckpointStores.reserved() }),
        ("references", { try CheckpointStores.references() }),
        ("deltas", { try CheckpointStores.deltas() }),
        ("compacted", { try CompactedStores.golden() }),
        ("folded", { try CompactedStores.folded() }),
        ("replacing", { try CompactedStores.replacing() }),
        ("skipped", { try SkippedFrames.golden() }),
    ]

    static func store(
        limits: LogLimits = LogLimits(), isClosed: Bool = true,
        _ body: (Log, SimulatedEnvironment) throws -> Void
    ) throws -> [UInt8] {
        let machine = Machine(seed: 42, limits: limits, clockStepMicroseconds: 0)
        let log = try machine.create()
        try body(log, machine.environment)
        if isClosed { try log.close() }
        return try #require(machine.disk.contents(of: Machine.path))
    }

    private static func notes(_ log: Log) throws {
        try log.defineNotes()
        for number in 1...3 { try log.insertNote(number, Note.row("n\(number)", Int64(number)), durability: .relaxed) }
    }

    /// Every type, with boundary values, absent ones, updates, deletions with preserved values, and an insert after a
    /// deletion.
    private static func types(_ log: Log) throws {
        let types = AttributeType.allCases
        let attributes = types.enumerated().map { index, type in
            AttributeDefinition(
                number: UInt16(index + 1), type: type, flags: [.optional, .preservedOnDeletion], name: .init("\(type)"))
        }
        let transaction = log.makeFrames()
        transaction.prepared.author = "golden"
        transaction.prepared.context = "types"
        try transaction.changeSchema([EntityDefinition(number: 7, name: "Everything", attributes: attributes)])
        let rows = (0..<6).map { index in
            types.map { type in
                let values = Samples.values(of: type).filter { $0.variableBytes < 4096 }
                return index == 5 ? .absent : values[index % values.count]
            }
        }
        for (index, row) in rows.enumerated() { try transaction.insert(object(index + 1), row) }
        try log.commit(transaction)
        let places = try newestRows(log)
        let second = log.makeFrames()
        second.prepared.author = "golden"
        try second.update(
            object(1), rows[1], positions: Array(types.indices), previous: try #require(places[object(1)]))
        try second.update(object(2), rows[5], positions: [0], previous: try #require(places[object(2)]))
        try second.delete(object(3), preserved: rows[2], previous: try #require(places[object(3)]))
        try second.delete(object(4), previous: try #require(places[object(4)]))
        try log.commit(second)
        let third = log.makeFrames()
        let deleted = try newestRows(log)
        try third.insert(object(4), rows[0], afterDeletion: deleted[object(4)])
        try log.commit(third, durability: .relaxed)
    }

    private static func object(_ number: Int) -> ObjectID {
        guard let object = ObjectID(entityNumber: 7, number: UInt64(number)) else { preconditionFailure("From 1.") }
        return object
    }

    /// A transaction of several frames with large values, and an update that refers to one of an earlier transaction.
    private static func long(_ log: Log) throws {
        try log.defineNotes()
        let transaction = log.makeFrames()
        for number in 1...60 {
            let body = [UInt8](repeating: UInt8(number), count: number * 170)
            try transaction.insert(Note.object(number), Note.row("note \(number)", Int64(number), body))
        }
        try log.commit(transaction)
        var row: [StoredValue] = []
        try log.forEachFrame { (frame, state) throws(StoreError) in
            guard frame.header.kind == .transaction || frame.header.kind == .part else { return }
            var cursor = ChangeCursor(frame)
            while let change = try cursor.next() {
                guard change.object.number == 60, let bytes = frame.row(of: change) else { continue }
                let header = try RowHeader(bytes)
                guard let layout = state.rowCatalog.layout(version: header.schemaVersion, entity: 1) else { continue }
                row = try RowImage(bytes, layout: layout).values()
            }
        }
        row[0] = .string("renamed")
        let update = log.makeFrames()
        try update.update(
            Note.object(60), row, positions: [0], previous: try #require(try newestRows(log)[Note.object(60)]))
        try log.commit(update)
    }

    /// Attributes added with and without a default, renamed and removed; an entity removed.
    private static func schema(_ log: Log) throws {
        try log.defineNotes()
        try log.insertNote(1, Note.row("old", 1))
        let second = log.makeFrames()
        var note = Note.definition
        note.attributes[1].name = IdentifierName("position")
        note.attributes.append(
            AttributeDefinition(number: 4, type: .bool, flags: [], name: "done", defaultValue: [0]))
        let other = EntityDefinition(
            number: 2, name: "Folder",
            attributes: [AttributeDefinition(number: 1, type: .objects, flags: [.optional], target: 1, name: "notes")],
            keys: [])
        try second.changeSchema([note, other])
        try second.insert(Note.object(2), Note.row("new", 2) + [.bool(true)])
        try log.commit(second)
        let third = log.makeFrames()
        note.attributes.remove(at: 2)
        try third.changeSchema([note, .removal(of: 2)])
        try third.insert(Note.object(3), [.string("last"), .absent, .bool(false)])
        try log.commit(third)
    }

    /// The clock goes back by a little, by an hour and a half, and forth.
    private static func clock(_ log: Log, _ environment: SimulatedEnvironment) throws {
        try log.defineNotes()
        let start = environment.wallClockMicroseconds()
        for (number, step) in [-5_000_000, -5_400_000_000, 60_000_000].enumerated() {
            environment.setWallClock(start + Int64(step))
            try log.insertNote(number + 1, Note.row("at \(step)"), author: "clock \(number)")
        }
    }

    private static func torn(recovering: Bool) throws -> [UInt8] {
        let machine = Machine(seed: 42, clockStepMicroseconds: 0)
        let log = try machine.create()
        try notes(log)
        let end = Int(log.current.end)
        try log.insertNote(4, Note.row("torn", 4))
        // The title of the last row never reached the disk.
        for offset in end + 152..<end + 160 { machine.disk.corrupt(Machine.path, at: offset, to: 0) }
        machine.disk.kill(1)
        if recovering {
            let again = try machine.open(2)
            try again.insertNote(5, Note.row("after", 5))
            try again.close()
        }
        return try #require(machine.disk.contents(of: Machine.path))
    }

    /// Where the newest version of every object is.
    static func newestRows(_ log: Log) throws -> [ObjectID: PreviousVersion] {
        var newest: [ObjectID: PreviousVersion] = [:]
        try log.forEachFrame { (frame, _) throws(StoreError) in
            guard frame.header.kind == .transaction || frame.header.kind == .part else { return }
            var cursor = ChangeCursor(frame)
            while let change = try cursor.next() {
                newest[change.object] =
                    change.kind == .delete
                    ? .deletion(entryOffset: frame.offset + UInt64(change.entryOffset))
                    : change.rowOffset.map { .row(offset: frame.offset + UInt64($0)) }
            }
        }
        return newest
    }
}
