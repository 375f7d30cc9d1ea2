// A simulated machine with one store on it, and a schema for tests of the engine.

import Annals
import SimulatedDisk
import Testing

/// The entity of these tests: a unique title, an indexed rank, optional data.
enum EngineNote {
    static let entity: UInt16 = 1
    static let title = 0
    static let rank = 1
    static let body = 2

    static let definition = EntityDefinition(
        number: entity, name: "Note",
        attributes: [
            AttributeDefinition(number: 1, type: .string, flags: [.unique, .preservedOnDeletion], name: "title"),
            AttributeDefinition(number: 2, type: .int, flags: [.indexed, .optional], name: "rank"),
            AttributeDefinition(number: 3, type: .data, flags: [.optional], name: "body"),
        ])

    /// The same, before anything of it was indexed or unique.
    static var withoutIndexes: EntityDefinition {
        var plain = definition
        plain.attributes[title].flags = [.preservedOnDeletion]
        plain.attributes[rank].flags = [.optional]
        return plain
    }

    /// The same with the one index that a rank makes still to come.
    static var withoutRankIndex: EntityDefinition {
        var plain = definition
        plain.attributes[rank].flags = [.optional]
        return plain
    }

    static let rankIndex = IndexID(entity: entity, attributes: [2], isUnique: false)
    static let titleIndex = IndexID(entity: entity, attributes: [1], isUnique: true)

    static func row(_ title: String, _ rank: Int64?) -> [StoredValue] {
        [.string(title), rank.map { .int($0) } ?? .absent, .absent]
    }

    static func expectedRank(_ id: ObjectID) -> Int64 {
        id.number % 3 == 1 ? 1000 - Int64(id.number) : Int64(id.number)
    }
}

struct EngineMachine {
    let machine = Machine()
    /// Without threads: they would run on the real clock beside the simulated one. What the background would do is done
    /// when a test says so.
    var options = {
        var options = EngineOptions.lowered
        options.log.synchronizesInBackground = false
        return options
    }()
    static let path = Machine.path

    func create(_ process: UInt32 = 1, _ definition: EntityDefinition = EngineNote.definition) throws -> Engine {
        let engine = try Engine.create(
            Self.path, options: options, files: machine.files(process), environment: machine.environment)
        _ = try engine.commit { try $0.changeSchema([definition]) }
        return engine
    }

    func open(_ process: UInt32 = 1, access: FileAccess = .readWrite) throws -> Engine {
        try Engine.open(
            Self.path, access: access, options: options, files: machine.files(process), environment: machine.environment
        )
    }

    func closeAndCheck(_ engine: Engine) throws {
        try engine.close()
        let report = try Checker.check(Self.path, files: machine.files())
        #expect(report.findings.map(\.sentence) == [])
        #expect(report.isIntact && report.tornTail == nil)
    }
}

extension Engine {
    /// Notes with these numbers in their titles and ranks, 100 a transaction.
    func insertNotes(_ numbers: ClosedRange<Int>) throws -> [ObjectID] {
        var ids: [ObjectID] = []
        for start in stride(from: numbers.lowerBound, through: numbers.upperBound, by: 100) {
            let (some, _) = try commit(author: "tests") { transaction in
                try (start...min(start + 99, numbers.upperBound)).map {
                    try transaction.insert(entity: EngineNote.entity, EngineNote.row("note \($0)", Int64($0)))
                }
            }
            ids += some
        }
        return ids
    }
}

extension View {
    func title(_ id: ObjectID) throws -> String? {
        var title: String?
        _ = try withRow(id) { (row) throws(StoreError) in
            if case .string(let text) = try row.value(at: EngineNote.title) { title = text }
        }
        return title
    }

    func rank(_ id: ObjectID) throws -> Int64? {
        var rank: Int64?
        _ = try withRow(id) { (row) in rank = row.int(at: EngineNote.rank) }
        return rank
    }

    func titles() throws -> [String] {
        var titles: [String] = []
        try scan(entity: EngineNote.entity) { (_, row) throws(StoreError) in
            if case .string(let text) = try row.value(at: EngineNote.title) { titles.append(text) }
            return true
        }
        return titles
    }

    func byRank(reversed: Bool = false) throws -> [ObjectID] {
        var ids: [ObjectID] = []
        try range(EngineNote.rankIndex, reversed: reversed) { (object, _) in
            ids.append(object)
            return true
        }
        return ids
    }
}
