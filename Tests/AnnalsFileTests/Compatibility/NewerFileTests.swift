// What a program of version 1 does with everything that a later format may bring (FileFormat.md, "Versions and
// compatibility"): "unsupported" or kept, and no byte written.

import Annals
import FuzzTargets
import SimulatedDisk
import Testing

@Suite struct NewerFileTests {
    private func machine(_ bytes: [UInt8]) -> EngineMachine {
        let machine = EngineMachine()
        machine.machine.disk.install(bytes, at: EngineMachine.path)
        return machine
    }

    @discardableResult
    private func salvage(_ machine: EngineMachine) throws -> SalvageReport {
        var options = SalvageOptions()
        options.engine = machine.options
        return try Salvage.run(
            from: EngineMachine.path, to: "/data/salvaged", options: options, files: machine.machine.files(),
            environment: machine.machine.environment)
    }

    private func insert(_ engine: Engine) throws {
        _ = try engine.commit { try $0.insert(entity: Note.entity, Note.row("two", 2)) }
    }

    /// The newer program writes what the file lacks of these bytes.
    private func append(_ bytes: [UInt8], to machine: EngineMachine) throws {
        let files = machine.machine.files(9)
        let directory = try files.openDirectory("/data")
        let file = try files.open("s.annals", in: directory, access: .readWrite)
        defer {
            files.close(file)
            files.close(directory)
        }
        _ = try bytes.withUnsafeBytes { try files.write(file, at: 0, from: $0) }
        try files.setSize(file, to: UInt64(bytes.count))
    }

    /// Nothing of the file has changed, and nothing stands beside it.
    private func expectUntouched(_ machine: EngineMachine, _ bytes: [UInt8], _ name: String) {
        #expect(machine.machine.disk.contents(of: EngineMachine.path) == bytes, "\(name)")
        #expect(machine.machine.disk.names(in: "/data") == ["s.annals"], "\(name)")
    }

    // MARK: All kinds

    @Test(arguments: NewerFile.all.filter { $0.effect == NewerFile.Effect.stops })
    func additionsThatReadersMustKnowStopEveryAccess(_ file: NewerFile) throws {
        let bytes = try file.bytes()
        let machine = machine(bytes)
        for access in [FileAccess.readOnly, .readWrite] {
            #expect(code { _ = try machine.open(access: access) } == .unsupportedVersion)
        }
        #expect(code { try salvage(machine) } == .unsupportedVersion)
        let report = try check(bytes)
        #expect(!report.isIntact && !report.hasDamage && report.stoppedAt != nil, "\(report.findings)")
        expectUntouched(machine, bytes, file.name)
    }

    /// A handle that was open before keeps what it has seen, and gets and writes nothing more.
    @Test(arguments: NewerFile.all.filter { $0.effect == NewerFile.Effect.stops })
    func additionsThatReadersMustKnowStopOpenHandles(_ file: NewerFile) throws {
        let bytes = try file.bytes()
        var old = try ForgedFile.withNotes()
        old.addCommit([.insert(1, try Note.encoded("one"))])
        // Not what was in the file from its beginning, and nothing that only a checkpoint says to who opens there.
        guard bytes.starts(with: old.bytes) else { return }
        let machine = machine(old.finished())
        let engine = try machine.open()
        let view = try engine.view()
        try append(bytes, to: machine)
        #expect(code { _ = try engine.view() } == .unsupportedVersion)
        #expect(code { try insert(engine) } == .unsupportedVersion)
        #expect(try view.title(Note.object(1)) == "one")
        #expect(code { try engine.close() } == nil)
        expectUntouched(machine, bytes, file.name)
    }

    @Test(arguments: NewerFile.all.filter { $0.effect != NewerFile.Effect.stops }, [false, true])
    func additionsThatWritersMustKnowStopWriters(_ file: NewerFile, belowCheckpoint: Bool) throws {
        if belowCheckpoint, !file.isDeclared { return }
        let bytes = belowCheckpoint ? try file.bytesBelowCheckpoint() : try file.bytes()
        let machine = machine(bytes)
        // Nothing but the checker notices that it is not declared.
        let report = try check(bytes)
        #expect(Set(report.findings.map(\.rule)) == (file.effect == .stopsCopies ? ["F36"] : []), "\(report.findings)")
        #expect(report.stoppedAt == nil)
        let engine = try machine.open()
        #expect(try engine.view().title(Note.object(1)) == "one")
        #expect(code { try insert(engine) } == .unsupportedVersion)
        #expect(code { try engine.writeCheckpoint() } == .unsupportedVersion)
        #expect(code { try engine.setRetention(.standard) } == .unsupportedVersion)
        #expect(code { _ = try StoreHandle(engine).compact(.lowered) } == .unsupportedVersion)
        try engine.close()
        expectUntouched(machine, bytes, file.name)
        try expectCopies(machine, bytes, file)
    }

    /// A copy keeps what stops writers, or is not made.
    private func expectCopies(_ machine: EngineMachine, _ bytes: [UInt8], _ file: NewerFile) throws {
        let disk = machine.machine.disk
        let store = StoreHandle(try machine.open())
        let backup = code { _ = try store.backUp(to: "/data/copy", newIdentity: false, .lowered) }
        let salvage = code { try self.salvage(machine) }
        try store.close()
        guard file.effect == .stopsWriters else {
            #expect(backup == .unsupportedVersion && salvage == .unsupportedVersion)
            return expectUntouched(machine, bytes, file.name)
        }
        #expect(backup == nil && salvage == nil)
        for copy in ["/data/copy", "/data/salvaged"] {
            try expectIntact(disk, copy, isSealed: true)
            let made = try #require(disk.contents(of: copy))
            let other = self.machine(made)
            let engine = try other.open()
            #expect(try engine.view().title(Note.object(1)) == "one")
            #expect(code { try insert(engine) } == .unsupportedVersion)
            try engine.close()
            expectUntouched(other, made, file.name)
            for offset in [HeaderField.zero + 3, 130, 4095] { #expect(made[offset] == bytes[offset]) }
        }
        #expect(disk.contents(of: EngineMachine.path) == bytes)
    }

    // MARK: Large values

    /// A row with a large value of two pieces, the second of which `add` makes.
    private func withValue(_ add: (inout ForgedFile, _ first: UInt64) -> Void) throws -> [UInt8] {
        var file = try ForgedFile.withNotes()
        let first = file.addValue([UInt8](repeating: 1, count: 640), of: 1000)
        add(&file, first.offset)
        let large = LargeValueReference(offset: first.offset, valueBytes: 1000, checksum: first.checksum)
        file.addCommit([.insert(1, try Note.encoded([.string("one"), .absent, .large(try #require(large))]))])
        return file.finished()
    }

    private func addPiece(_ file: inout ForgedFile, _ first: UInt64, _ field: Int, _ value: UInt8) {
        var table = [UInt8](repeating: 0, count: ValueField.bytes)
        let piece = ValuePiece(valueBytes: 1000, position: 640, first: first, pieceBytes: 360)
        table.withUnsafeMutableBytes { piece.encode(into: $0) }
        let isOfTable = field >= FrameField.bytes
        if isOfTable { table[field - FrameField.bytes] = value }
        file.add(.value, isMember: true, table: table, body: [UInt8](repeating: 2, count: 360)) { header in
            if !isOfTable { header[field] = value }
        }
    }

    @Test func aNewerPieceOfALargeValueIsNotLostSilently() throws {
        let whole = try withValue { (file, first) in addPiece(&file, first, FrameField.flags, 1) }
        #expect(try salvage(machine(whole)).largeValuesLost == 0)
        let newer: [(field: Int, value: UInt8)] = [
            (FrameField.bytes + ValueField.zero, 1), (FrameField.bytes + ValueField.zero + 3, 128),
            (FrameField.kind, 14), (FrameField.flags, 9), (FrameField.flags, 3), (FrameField.zero + 1, 1),
        ]
        for (field, value) in newer {
            let bytes = try withValue { (file, first) in addPiece(&file, first, field, value) }
            let machine = machine(bytes)
            #expect(code { try salvage(machine) } == .unsupportedVersion, "\(field)")
            #expect(code { _ = try machine.open() } == .unsupportedVersion, "\(field)")
            let report = try check(bytes)
            #expect(report.stoppedAt != nil && !report.hasDamage, "\(field): \(report.findings)")
            expectUntouched(machine, bytes, "\(field)")
        }
    }

    /// Salvage reads nodes only for its report; still it makes no store without what a newer program wrote there.
    @Test func nodesOfALaterFormatStopTheirReaders() throws {
        var file = try ForgedFile.withNotes()
        file.addCommit([.insert(1, try Note.encoded("one"))])
        let nodes = file.add(
            .nodes, table: [1, 0, 0, 0, 0, 1, 0, 0], body: [UInt8](repeating: 0, count: IndexNode.bytes))
        let bytes = file.finished()
        let machine = machine(bytes)
        #expect(code { try salvage(machine) } == .unsupportedVersion)
        let report = try check(bytes)
        #expect(report.stoppedAt == nodes.offset && !report.hasDamage, "\(report.findings)")
        let engine = try machine.open(access: .readOnly)
        #expect(try engine.view().title(Note.object(1)) == "one")
        try engine.close()
        expectUntouched(machine, bytes, "nodes.zero")
    }

    // MARK: Below a checkpoint

    /// The frames below are not read, and the checkpoint says that there is something.
    @Test func aCheckpointDeclaresTheFeaturesOfTheFramesBelowIt() throws {
        let kinds = NewerFile.all.filter { $0.name.hasSuffix("in a checkpoint") || $0.name == "a feature for writers" }
        #expect(kinds.count == 2)
        for kind in kinds {
            // Opening looks at no frame below the checkpoint's own MiB.
            var bytes =
                kind.effect == .stops ? try kind.bytes() : try kind.bytesBelowCheckpoint(addingBytes: 3 << 20)
            // The table of the first frame is rotten: a program that reads from the beginning finds damage.
            bytes[4096 + FrameField.bytes] ^= 0xFF
            let machine = machine(bytes)
            #expect(code { try insert(try machine.open()) } == .unsupportedVersion, "\(kind.name)")
            expectUntouched(machine, bytes, kind.name)
        }
    }

    /// No program writes one. Opening does not notice: what reads the place says "unsupported", and never "damaged".
    @Test(arguments: NewerFile.appended.filter { $0.effect == .stops }, [FileReading.mapped, .copied])
    func undeclaredAdditionsAreUnsupportedWhenTheyAreRead(_ file: NewerFile, _ reading: FileReading) throws {
        let bytes = try file.bytesBelowSilentCheckpoint(addingMiB: 3)
        var machine = machine(bytes)
        machine.options.reading = reading
        let engine = try machine.open(access: .readOnly)
        let view = try engine.view()
        let codes = [
            code { _ = try view.title(Note.object(1)) },
            code { try view.scan(entity: Note.entity) { (_, _) in true } },
            code {
                try engine.tracked(view).forEachTransaction(after: 0) { (transaction) throws(StoreError) in
                    try transaction.forEachChange { (_) in true }
                    return true
                }
            },
            code { _ = try StoreHandle(engine).backUp(to: "/data/copy", newIdentity: false, .lowered) },
            code { try salvage(machine) },
        ]
        #expect(Set(codes).isSubset(of: [nil, .unsupportedVersion]), "\(codes)")
        #expect(codes.last == .unsupportedVersion)
        try engine.close()
        #expect(machine.machine.disk.contents(of: EngineMachine.path) == bytes)
    }

    /// No program writes one: it does not read beyond what it does not know.
    @Test func noCheckpointLacksAFeatureOfTheFramesBelow() throws {
        var file = try ForgedFile.withNotes()
        var table: [UInt8] = []
        MetadataRecord.features(.init(writing: 6)).append(to: &table)
        file.add(.metadata, table: table)
        file.addCheckpoint(number: 1, hinted: false) { $0.features.writing = 2 }
        try expectRules(["F36"], file)
    }

    /// Programs of a higher write version know it without a feature.
    @Test func aHigherWriteVersionNeedsNoDeclaredFeature() throws {
        var page = ForgedFile().header.encoded()
        page[HeaderField.writeVersion] = 2
        let checksum = Array(page[..<HeaderField.checksum]).withUnsafeBytes { Checksum.hash($0, seed: 0) }
        page.put(checksum, at: HeaderField.checksum)
        var file = try ForgedFile(page)
        try file.addNotes()
        file.add(.metadata) { header in (header[FrameField.kind], header[FrameField.flags]) = (14, 6) }
        try expectRules([], file, isDamage: false)
    }

    /// Opening looks at no checkpoint that no hint names. The checker looks at each: it stops there, and also says what
    /// is damaged below.
    @Test func aCheckpointThatNoHintNamesStopsTheChecker() throws {
        var file = try ForgedFile.withNotes()
        var row = try Note.encoded("one")
        row[RowField.schemaVersion] = 9
        let damaged = file.addCommit([.insert(1, row)])
        let place = file.end
        file.addCheckpoint(number: file.lastNumber, hinted: false) { content in
            content.extensions = [CheckpointExtension(kind: 1, flags: 4, number: 2, bytes: [1])]
        }
        let bytes = file.finished()
        let report = try check(bytes)
        #expect(report.stoppedAt == place && report.hasDamage, "\(report.findings)")
        #expect(report.findings.map(\.rule) == ["F21", "F29"] && report.findings[1].offset == place)
        #expect(report.findings[0].offset >= damaged.offset && report.findings[0].offset < place)
        #expect(FuzzTargets.fileOutcome(bytes) == .opened(transactions: 2, isCommitted: true))
    }

    // MARK: Extensions

    /// They are kept from checkpoint to checkpoint, and left out where their offsets would be wrong.
    @Test func extensionsAreKept() throws {
        let known = CheckpointExtension(kind: 7, number: 2, bytes: [1, 2, 3])
        let file = NewerFile.withExtension(known)
        let machine = machine(try file.bytes())
        var engine = try machine.open()
        try insert(engine)
        try engine.writeCheckpoint()
        try machine.closeAndCheck(engine)
        #expect(try extensions(machine) == [known])
        // Followed, and not opened from.
        engine = try machine.open()
        let other = try machine.open(2)
        try insert(engine)
        try engine.writeCheckpoint()
        try insert(other)
        try other.writeCheckpoint()
        try engine.close()
        try machine.closeAndCheck(other)
        #expect(try extensions(machine) == [known])
        let store = StoreHandle(try machine.open())
        _ = try store.compact(.lowered)
        try store.newest().engine.writeCheckpoint()
        try store.close()
        #expect(try extensions(machine) == [])
    }

    /// Those of the newest checkpoint.
    private func extensions(_ machine: EngineMachine) throws -> [CheckpointExtension] {
        let engine = try machine.open(access: .readOnly)
        let place = try #require(engine.log.current.checkpoint)
        try engine.close()
        let bytes = try #require(machine.machine.disk.contents(of: EngineMachine.path))
        return try NewerFile.checkpoint(in: bytes, at: Int(place.offset)).extensions
    }

    // MARK: Parameters

    /// What this program does not know of an attribute survives a schema change and every copy.
    @Test func parametersOfAttributesAreKept() throws {
        let parameters: [UInt8] = [1, 0, 0, 0, 3, 0, 0, 0, 9, 9, 9]
        var definition = Note.definition
        definition.attributes[1].parameters = parameters
        var file = ForgedFile()
        file.addSchema(table: try SchemaDefinition(version: 1, entities: [definition]).encodeTables()[0])
        file.addCommit()
        file.addCommit([.insert(1, try Note.encoded("one"))])
        let machine = machine(file.finished())
        let store = StoreHandle(try machine.open())
        let engine = try store.newest().engine
        try engine.writeCheckpoint()
        var changed = try #require(engine.log.current.catalog.entity(Note.entity, version: 1))
        changed.name = IdentifierName("Renamed")
        _ = try engine.commit { try $0.changeSchema([changed]) }
        _ = try store.compact(.lowered)
        _ = try store.backUp(to: "/data/copy", newIdentity: true, .lowered)
        try store.close()
        try salvage(machine)
        for path in [EngineMachine.path, "/data/copy", "/data/salvaged"] {
            let other = self.machine(try #require(machine.machine.disk.contents(of: path)))
            let catalog = try other.open().log.current.catalog
            let entity = try #require(catalog.entity(Note.entity, version: catalog.newestVersion))
            #expect(entity.attributes[1].parameters == parameters && entity.name.text == "Renamed", "\(path)")
        }
    }

    // MARK: Entities of the store's own

    /// Later formats keep notes in them, and rely on every program to keep them.
    @Test func unknownEntitiesOfTheStoreSurviveCopiesAndSalvage() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        let future = EntityDefinition(
            number: 9, name: "_annals.future",
            attributes: [AttributeDefinition(number: 1, type: .string, flags: [.unique], name: "note")])
        let (object, _) = try store.newest().engine.commit { transaction in
            try transaction.changeSchema([future])
            return try transaction.insert(entity: 9, [.string("kept")])
        }
        _ = try store.newest().engine.insertNotes(1...50)
        try store.current.deleteHistory(before: store.newest().view.number + 1)
        var later = EngineNote.definition
        later.name = IdentifierName("Renamed")
        _ = try store.newest().engine.commit { try $0.changeSchema([later]) }
        _ = try store.compact(.lowered)
        _ = try store.backUp(to: "/data/copy", newIdentity: true, .lowered)
        try store.close()
        try salvage(machine)
        for path in [EngineMachine.path, "/data/copy", "/data/salvaged"] {
            let other = self.machine(try #require(machine.machine.disk.contents(of: path)))
            let engine = try other.open()
            #expect(engine.log.current.catalog.number(ofEntity: "_annals.future") == 9, "\(path)")
            #expect(try engine.view().title(object) == "kept", "\(path)")
            try engine.close()
        }
    }

    // MARK: Rows

    /// Their readers notice them, and whoever copies them.
    @Test(arguments: NewerFile.rows) func aValueOfAnotherFormIsUnsupported(_ file: NewerFile) throws {
        let bytes = try file.bytes()
        let machine = machine(bytes)
        let engine = try machine.open()
        let read = {
            _ = try engine.view().withRow(NewerFile.price()) { (row) throws(StoreError) in
                _ = try row.value(at: 0)
            }
        }
        #expect(code(read) == .unsupportedVersion)
        let store = StoreHandle(engine)
        #expect(code { _ = try store.compact(.lowered) } == .unsupportedVersion)
        #expect(code { _ = try store.backUp(to: "/data/copy", newIdentity: false, .lowered) } == .unsupportedVersion)
        try store.close()
        #expect(code { try salvage(machine) } == .unsupportedVersion)
        let report = try check(bytes)
        #expect(!report.isIntact && !report.hasDamage && report.stoppedAt != nil)
        #expect(machine.machine.disk.names(in: "/data") == ["s.annals"])
    }
}
