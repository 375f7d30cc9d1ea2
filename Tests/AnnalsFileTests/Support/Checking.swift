// The checker in tests: every test that makes a store ends with it.

import Annals
import SimulatedDisk
import Testing

/// Checks a file that has these bytes.
func check(_ bytes: [UInt8], options: CheckOptions? = nil) throws -> CheckReport {
    let disk = SimulatedDisk()
    disk.install(bytes, at: Machine.path)
    return try check(disk, options: options)
}

/// Checks a store on a simulated disk.
func check(
    _ disk: SimulatedDisk, _ path: String = Machine.path, options: CheckOptions? = nil
) throws -> CheckReport {
    var chosen = CheckOptions()
    chosen.spillDirectory = "/data"
    chosen.windowBytes = 32768
    return try Checker.check(path, options: options ?? chosen, files: disk.process(98))
}

/// Holds a store against every rule of the format. Closed stores have a seal and not a byte after it. With
/// `mayRefer`, references may lead to objects that are lost.
@discardableResult
func expectIntact(
    _ disk: SimulatedDisk, _ path: String = Machine.path, isSealed: Bool? = nil, mayBeTorn: Bool = false,
    mayRefer: Bool = false,
    sourceLocation: SourceLocation = #_sourceLocation
) throws -> CheckReport {
    let report = try check(disk, path)
    #expect(report.isIntact, "\(report.findings)", sourceLocation: sourceLocation)
    if !mayBeTorn {
        let findings = report.findings.filter { !mayRefer || $0.rule != "F35" }
        #expect(findings == [], sourceLocation: sourceLocation)
    }
    if let isSealed { #expect(report.isSealed == isSealed, sourceLocation: sourceLocation) }
    return report
}

/// The same of stores on a machine: its own, if no paths are given.
func expectIntact(
    _ machine: EngineMachine, _ paths: String..., sourceLocation: SourceLocation = #_sourceLocation
) throws {
    for path in paths.isEmpty ? [EngineMachine.path] : paths {
        let report = try Checker.check(path, files: machine.machine.files())
        #expect(report.findings.map(\.sentence) == [], sourceLocation: sourceLocation)
        #expect(report.isIntact, sourceLocation: sourceLocation)
    }
}

/// What makes a new file of a store.
enum Copying: CaseIterable {
    case compaction, backup
}

/// Compacts or backs up a file that has these bytes. What comes of it is intact, or nothing does.
///
/// - Returns: what was thrown.
@discardableResult
func expectSound(
    _ copying: Copying, of bytes: [UInt8], sourceLocation: SourceLocation = #_sourceLocation
) throws -> StoreError? {
    let machine = EngineMachine()
    let disk = machine.machine.disk
    disk.install(bytes, at: EngineMachine.path)
    do {
        let store = StoreHandle(try machine.open())
        switch copying {
        case .compaction: _ = try store.compact(.lowered)
        case .backup: _ = try store.backUp(to: "/data/copy", newIdentity: false, .lowered)
        }
    } catch let error as StoreError {
        #expect(disk.names(in: "/data") == ["s.annals"], sourceLocation: sourceLocation)
        return error
    }
    try expectIntact(disk, copying == .backup ? "/data/copy" : EngineMachine.path, sourceLocation: sourceLocation)
    return nil
}

extension Note {
    /// A row of the first schema version, as bytes.
    static func encoded(
        _ title: String, _ rank: Int64? = nil, _ body: [UInt8]? = nil, version: UInt16 = 1
    ) throws -> [UInt8] {
        try encoded(row(title, rank, body), version: version)
    }

    static func encoded(_ values: [StoredValue], version: UInt16 = 1, isDeletion: Bool = false) throws -> [UInt8] {
        var writer = ByteWriter()
        try EncodedRow.append(
            values, layout: RowLayout.make(definition), entryDistance: 0, schemaVersion: version,
            isDeletion: isDeletion, to: &writer)
        return Array(writer.bytes)
    }
}

extension ForgedFile {
    /// A file with the notes' schema, as transaction 1.
    static func withNotes() throws -> ForgedFile {
        var file = ForgedFile()
        try file.addNotes()
        return file
    }

    /// One that begins with a base: the schema, and room for rows without history.
    static func withBase() throws -> ForgedFile {
        var file = ForgedFile(generation: 1)
        file.add(.schema, table: try SchemaDefinition(version: 1, entities: [Note.definition]).encodeTables()[0])
        file.schemaVersion = 1
        return file
    }

    mutating func addNotes() throws {
        addSchema(table: try SchemaDefinition(version: 1, entities: [Note.definition]).encodeTables()[0])
        addCommit()
    }

    /// Says that everything so far is durable, by a hint.
    mutating func proveEverything() {
        write(Hint(sequence: 1, checkpoint: 0, durableEnd: end, number: lastNumber))
        mark = end
    }

    mutating func addSeal() {
        addSeal(checkpoint: 0)
        proveEverything()
    }

    /// Without a hint.
    mutating func addSeal(checkpoint: UInt64) {
        add(.seal, table: SealRecord(time: time, checkpoint: checkpoint).encoded(), mark: end)
    }
}

/// The code of the error that the body throws; nil if it throws none of the store.
func code(_ body: () throws -> Void) -> StoreError.Code? {
    do { try body() } catch { return (error as? StoreError)?.code }
    return nil
}
