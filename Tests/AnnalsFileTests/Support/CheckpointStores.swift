// Stores with checkpoints in few bytes: for the golden files and the fuzz corpus.

import Annals
import SimulatedDisk
import Testing

enum CheckpointStores {
    /// One attribute of every type that an index can hold, all indexed, and a key over two of them.
    private static let everything: EntityDefinition = {
        let types = AttributeType.allCases.filter { !$0.isObjectList }
        let attributes = types.enumerated().map { index, type in
            AttributeDefinition(
                number: UInt16(index + 1), type: type, flags: [.optional, .indexed], name: .init("\(type)"))
        }
        return EntityDefinition(
            number: 7, name: "Everything", attributes: attributes,
            keys: [KeyDefinition(isUnique: false, attributes: [4, 2])])
    }()

    private static func everythingRow(_ number: Int) -> [StoredValue] {
        everything.attributes.map { attribute in
            let values = Samples.values(of: attribute.type).filter { $0.variableBytes < 4096 }
            return number == 5 ? .absent : values[number % values.count]
        }
    }

    /// All kinds of keys, cut ones too, nodes on two levels of both kinds of index, two checkpoints, and a transaction
    /// after the last.
    static func golden() throws -> [UInt8] {
        try store { engine in
            let (ids, _) = try engine.commit(author: "golden") { transaction in
                // Its references are samples of keys, and lead nowhere.
                transaction.checksReferences = false
                for number in 0..<7 { _ = try transaction.insert(entity: 7, everythingRow(number)) }
                return try (1...24).map { number in
                    let title = String(repeating: "long ", count: number < 20 ? 38 : 60) + "\(number)"
                    return try transaction.insert(
                        entity: EngineNote.entity, EngineNote.row(title, Int64(100 - number)))
                }
            }
            try engine.writeCheckpoint()
            _ = try engine.commit(author: "golden", context: "changes") { transaction in
                try transaction.update(ids[0], [(EngineNote.rank, .absent)])
                try transaction.update(ids[1], [(EngineNote.title, .string("renamed"))])
                try transaction.delete(ids[2])
            }
            try engine.writeCheckpoint()
            _ = try engine.commit(author: "golden") { transaction in
                _ = try transaction.insert(entity: EngineNote.entity, EngineNote.row("behind", 1))
            }
        }
    }

    /// The worked example of FileFormat.md: one of everything, in as few bytes as possible.
    static func example() throws -> [UInt8] {
        let machine = Machine(seed: 42)
        let engine = try Engine.create(
            Machine.path, options: options(machine), files: machine.files(), environment: machine.environment)
        let attributes = [
            AttributeDefinition(number: 1, type: .string, flags: [.unique, .preservedOnDeletion], name: "title"),
            AttributeDefinition(number: 2, type: .int, flags: [.optional], name: "rank"),
        ]
        _ = try engine.commit(author: "example") { transaction in
            try transaction.changeSchema([EntityDefinition(number: 1, name: "Note", attributes: attributes)])
        }
        let (ids, _) = try engine.commit(author: "example") { transaction in
            try [("tea", 1), ("milk", 2)].map { title, rank in
                try transaction.insert(entity: 1, [.string(title), .int(rank)])
            }
        }
        _ = try engine.commit(author: "example") { try $0.update(ids[0], [(1, .absent)]) }
        _ = try engine.commit(author: "example") { try $0.delete(ids[1]) }
        try engine.writeCheckpoint()
        try engine.close()
        return try #require(machine.disk.contents(of: Machine.path))
    }

    /// References of all three types, their indexes in a checkpoint, and after it what every rule has made of them.
    static func references() throws -> [UInt8] {
        let machine = Machine(seed: 42, clockStepMicroseconds: 0)
        let engine = try Engine.create(
            Machine.path, options: options(machine), files: machine.files(), environment: machine.environment)
        let rules: [(AttributeType, DeleteRule)] = [
            (.object, .cascade), (.objects, .nullify), (.orderedObjects, .deny), (.object, .noAction),
        ]
        let attributes = rules.enumerated().map { index, rule in
            AttributeDefinition(
                number: UInt16(index + 1), type: rule.0, flags: [.optional], target: 1,
                inverse: rule.1 == .cascade ? "children" : nil, deleteRule: rule.1, name: "\(rule.1)")
        }
        _ = try engine.commit(author: "golden") { transaction in
            try transaction.changeSchema([EntityDefinition(number: 1, name: "Node", attributes: attributes)])
        }
        let (ids, _) = try engine.commit(author: "golden") { transaction in
            var ids: [ObjectID] = []
            for number in 0..<12 {
                let some = Array(ids.suffix(3))
                let before = number == 0 ? StoredValue.absent : .object(ids[number / 2])
                ids.append(
                    try transaction.insert(
                        entity: 1,
                        [
                            number > 6 ? before : .absent, .objectSet(some),
                            .orderedObjects(number == 11 ? some.reversed() : []), before,
                        ]))
            }
            return ids
        }
        try engine.writeCheckpoint()
        // Its children go too, lists lose it, and one reference leads to nothing from then on.
        _ = try engine.commit(author: "golden") { try $0.delete(ids[3]) }
        _ = try engine.commit(author: "golden") { try $0.update(ids[11], [(2, .orderedObjects([ids[0], ids[2]]))]) }
        try engine.close()
        return try #require(machine.disk.contents(of: Machine.path))
    }

    /// Object numbers that were reserved, before and after a checkpoint, of which one is used.
    static func reserved() throws -> [UInt8] {
        try store { engine in
            let first = try engine.reserveObjects(of: EngineNote.entity, count: 3)
            _ = try engine.insertNotes(2...3)
            _ = try engine.commit(author: "golden") { transaction in
                try transaction.claim(first)
                try transaction.insert(reserved: first, EngineNote.row("reserved", 1))
            }
            try engine.writeCheckpoint()
            _ = try engine.reserveObjects(of: EngineNote.entity, count: 2)
            _ = try engine.insertNotes(4...4)
            try engine.writeCheckpoint()
            _ = try engine.reserveObjects(of: EngineNote.entity, count: 1)
        }
    }

    /// Deltas over leaves of the row index: some of few entries and some of many, one over the other, one that took up
    /// the one below it, a leaf that became whole, and changes after the last checkpoint.
    static func deltas() throws -> [UInt8] {
        var policy = DeltaPolicy()
        (policy.mostInMemory, policy.mostInFile, policy.ordered.mostEdits) = (24, 30, 0)
        return try store(policy) { engine in
            let ids = try engine.insertNotes(2...41)
            try engine.writeCheckpoint()
            func update(_ numbers: Range<Int>, deleting deleted: ObjectID? = nil) throws {
                _ = try engine.commit(author: "golden") { transaction in
                    for id in ids[numbers] {
                        try transaction.update(id, [(EngineNote.body, .data([UInt8(numbers.count)]))])
                    }
                    if let deleted { try transaction.delete(deleted) }
                }
            }
            for (numbers, deleted) in [(0..<26, Note.object(1)), (3..<5, ids[39]), (4..<24, nil), (20..<24, nil)] {
                try update(numbers, deleting: deleted)
                try engine.writeCheckpoint()
            }
            try update(0..<2)
        }
    }

    /// Few objects of one entity, changed between checkpoints.
    static func small() throws -> [UInt8] {
        try store { engine in
            for round in 0..<3 {
                _ = try engine.commit { transaction in
                    let id = try transaction.insert(
                        entity: EngineNote.entity, EngineNote.row("round \(round)", Int64(round)))
                    if round == 1 { try transaction.delete(id) }
                }
                try engine.writeCheckpoint()
            }
        }
    }

    /// A store that begins with the notes 1 and 600, by the log alone.
    private static func store(_ deltas: DeltaPolicy? = nil, _ body: (Engine) throws -> Void) throws -> [UInt8] {
        let machine = Machine(seed: 42, clockStepMicroseconds: 0)
        let log = try machine.create()
        let transaction = log.makeFrames()
        transaction.prepared.author = "golden"
        try transaction.changeSchema([EngineNote.definition, everything])
        for number in [1, 600] {
            try transaction.insert(Note.object(number), EngineNote.row("note \(number)", Int64(number)))
        }
        try log.commit(transaction)
        try log.close()
        var options = options(machine)
        options.deltas = deltas ?? options.deltas
        let engine = try Engine.open(
            Machine.path, options: options, files: machine.files(), environment: machine.environment)
        try body(engine)
        try engine.close()
        return try #require(machine.disk.contents(of: Machine.path))
    }

    private static func options(_ machine: Machine) -> EngineOptions {
        var options = EngineOptions()
        options.log = machine.options
        // As they were first written: without deltas.
        options.deltas.mostInMemory = 0
        options.deltas.ordered.mostEdits = 0
        options.log.limits.mappingReserveBytes = 16 << 20
        return options
    }
}
