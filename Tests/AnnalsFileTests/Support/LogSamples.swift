// Stores for tests: a schema, rows, and a simulated machine to keep them on.

import Annals
import SimulatedDisk
import Testing

/// A simulated machine with one process that has a store open, or is about to.
struct Machine {
    var disk: SimulatedDisk
    var environment: SimulatedEnvironment
    var options = LogOptions()
    static let path = "/data/s.annals"

    init(
        disk: SimulatedDisk = SimulatedDisk(), seed: UInt64 = 1, process: UInt32 = 1,
        limits: LogLimits = LogLimits(), clockStepMicroseconds: UInt64 = 1
    ) {
        self.disk = disk
        environment = SimulatedEnvironment(
            seed: seed, process: process, name: "tests", stepMicroseconds: clockStepMicroseconds)
        options.limits = limits
        options.synchronizesInBackground = false
    }

    func files(_ process: UInt32 = 1) -> any FileSystem { disk.process(process) }

    func create(_ process: UInt32 = 1) throws -> Log {
        try Log.create(Self.path, options: options, files: files(process), environment: environment)
    }

    func open(_ process: UInt32 = 1, access: FileAccess = .readWrite) throws -> Log {
        try Log.open(
            Self.path, access: access, options: options, files: files(process), environment: environment)
    }
}

extension LockKeepingLimits {
    /// After every relaxed commit, with a look at each whether somebody waits.
    static var always: LockKeepingLimits {
        var limits = LockKeepingLimits()
        (limits.commits, limits.commitsAfterOthers) = (0, 0)
        limits.leaseMicroseconds = 0
        limits.idleMicroseconds = 0
        return limits
    }
}

/// The schema of most tests: one entity with a required and some optional attributes.
enum Note {
    static let entity: UInt16 = 1

    static var definition: EntityDefinition {
        EntityDefinition(
            number: entity, name: "Note",
            attributes: [
                AttributeDefinition(number: 1, type: .string, flags: [], name: "title"),
                AttributeDefinition(number: 2, type: .int, flags: [.optional], name: "rank"),
                AttributeDefinition(number: 3, type: .data, flags: [.optional, .preservedOnDeletion], name: "body"),
            ])
    }

    static func object(_ number: Int) -> ObjectID {
        guard let object = ObjectID(entityNumber: entity, number: UInt64(number)) else {
            preconditionFailure("Tests use object numbers from 1.")
        }
        return object
    }

    static func row(_ title: String, _ rank: Int64? = nil, _ body: [UInt8]? = nil) -> [StoredValue] {
        [.string(title), rank.map { .int($0) } ?? .absent, body.map { .data($0) } ?? .absent]
    }
}

extension Log {
    /// Defines the notes' schema in a transaction of its own.
    @discardableResult
    func defineNotes(_ durability: Durability = .full) throws -> AppendedTransaction {
        let transaction = makeFrames()
        transaction.prepared.author = "tests"
        try transaction.changeSchema([Note.definition])
        return try commit(transaction, durability: durability)
    }

    @discardableResult
    func insertNote(
        _ number: Int, _ row: [StoredValue], author: String = "tests", durability: Durability = .full
    ) throws -> AppendedTransaction {
        let transaction = makeFrames()
        transaction.prepared.author = author
        try transaction.insert(Note.object(number), row)
        return try commit(transaction, durability: durability)
    }
}
