// Salvage, one kind of loss at a time.

import Annals
import SimulatedDisk
import Testing

@Suite struct SalvageTests {
    private static let path = "/data/new"

    @discardableResult
    private func salvage(_ machine: EngineMachine, process: UInt32 = 9) throws -> SalvageReport {
        var options = SalvageOptions()
        options.engine = machine.options
        options.transactionBytes = 4096
        return try Salvage.run(
            from: EngineMachine.path, to: Self.path, options: options, files: machine.machine.files(process),
            environment: machine.machine.environment)
    }

    /// The new store, which is intact.
    private func reading<Result>(_ machine: EngineMachine, _ body: (View) throws -> Result) throws -> Result {
        try expectIntact(machine.machine.disk, Self.path, isSealed: true)
        let engine = try Engine.open(
            Self.path, access: .readOnly, options: machine.options, files: machine.machine.files(8),
            environment: machine.machine.environment)
        let result = try body(try engine.view())
        try engine.close()
        return result
    }

    private func bytes(_ machine: EngineMachine) throws -> [UInt8] {
        try #require(machine.machine.disk.contents(of: EngineMachine.path))
    }

    /// Changes a byte in the middle of each frame that `isChosen` chooses.
    private func damage(_ machine: EngineMachine, _ isChosen: (SalvageSample.Frame) -> Bool) throws {
        let sample = try SalvageSample(bytes(machine))
        for frame in sample.frames where isChosen(frame) {
            let place = frame.range.lowerBound + 64 + (frame.range.count - 64) / 2
            machine.machine.disk.corrupt(EngineMachine.path, at: place, to: sample.bytes[place] ^ 0x10)
        }
    }

    private func corrupt(_ machine: EngineMachine, _ places: [Int]) throws {
        let bytes = try bytes(machine)
        for place in places { machine.machine.disk.corrupt(EngineMachine.path, at: place, to: bytes[place] ^ 0x10) }
    }

    /// A store with notes 1 to 40, a transaction each ten.
    private func store(_ body: (Engine) throws -> Void = { _ in }) throws -> EngineMachine {
        let machine = EngineMachine()
        let engine = try machine.create()
        for first in [1, 11, 21, 31] { _ = try engine.insertNotes(first...(first + 9)) }
        try body(engine)
        try engine.close()
        return machine
    }

    // MARK: Nothing to be read

    @Test func aFileThatIsNoStoreIsRefusedAndLeavesNothing() throws {
        let whole = try bytes(store())
        for (content, expected): ([UInt8], StoreError.Code) in [
            ([], .notAStore), (Array(whole[..<100]), .truncated), ([UInt8](repeating: 0xA7, count: 40_000), .notAStore),
            ([UInt8](repeating: 0, count: 40_000), .notAStore), (Array(whole[4096...]), .notAStore),
            (whole[..<4096] + [UInt8](repeating: 0x55, count: 40_000), .damaged),
            (whole[..<32] + [UInt8](repeating: 0, count: 4064) + whole[4096...], .damaged),
        ] {
            let machine = EngineMachine()
            machine.machine.disk.install(content, at: EngineMachine.path)
            #expect(code { try salvage(machine) } == expected)
            #expect(machine.machine.disk.names(in: "/data") == ["s.annals"])
            #expect(try bytes(machine) == content)
        }
        let none = EngineMachine()
        #expect(code { try salvage(none) } == .notFound)
    }

    @Test func aFileAtTheNewNameStays() throws {
        let machine = try store()
        machine.machine.disk.install([1, 2, 3], at: Self.path)
        #expect(code { try salvage(machine) } == .alreadyExists)
        #expect(machine.machine.disk.contents(of: Self.path) == [1, 2, 3])
        #expect(machine.machine.disk.names(in: "/data") == ["new", "s.annals"])
    }

    private static let temporary = "/data/.new.annals-salvage"

    @Test func anUnusedFileAtTheTemporaryNameIsRemoved() throws {
        let machine = try store()
        machine.machine.disk.install([1], at: Self.temporary)
        #expect(try salvage(machine).objects == 40)
        #expect(machine.machine.disk.names(in: "/data") == ["new", "s.annals"])
        try expectIntact(machine.machine.disk, Self.path, isSealed: true)
        // A second name of another file is only a name.
        let other = try store()
        let source = try bytes(other)
        other.machine.disk.installLink(from: EngineMachine.path, to: Self.temporary)
        try salvage(other)
        #expect(other.machine.disk.names(in: "/data") == ["new", "s.annals"])
        #expect(try bytes(other) == source)
    }

    @Test func aSalvageThatIsUnderWayIsLeftAlone() throws {
        let machine = try store()
        let files9 = machine.machine.files(9)
        let model = try files9.status(
            try files9.open("s.annals", in: try files9.openDirectory("/data"), access: .readOnly))
        let first = try UnfinishedStore(
            .salvage, Self.path, like: model, files: machine.machine.files(7), environment: machine.machine.environment)
        #expect(code { try salvage(machine) } == .busy)
        #expect(machine.machine.disk.names(in: "/data") == [".new.annals-salvage", "s.annals"])
        // A backup to that name has another file.
        let engine = try machine.open(3)
        _ = try StoreHandle(engine).backUp(to: Self.path, newIdentity: false, .lowered)
        let written = try first.open(
            FileHeader(storeID: UUIDBytes(high: 1, low: 2), salt: 3, created: 4), machine.options)
        #expect(code { try first.publish(written, try written.view()) } == .alreadyExists)
        try written.close()
        first.close()
        #expect(machine.machine.disk.names(in: "/data") == ["new", "s.annals"])
        try engine.close()
        try expectIntact(machine.machine.disk, Self.path, isSealed: true)
    }

    @Test func aSalvageRemovesTheFileOfAKilledOne() throws {
        for kind in [CallKind.write, .setSize, .synchronize, .rename, .synchronizeDirectory, .createExclusively] {
            var isDone = false
            for occurrence in 1...40 where !isDone {
                let machine = try store()
                machine.machine.disk.addFault(
                    Fault(.death(afterBytes: 100), on: kind, occurrence: occurrence, process: 9))
                isDone = (try? salvage(machine)) != nil
                machine.machine.disk.removeAllFaults()
                machine.machine.disk.kill(9)
                let names = machine.machine.disk.names(in: "/data").filter { $0 != "s.annals" }
                #expect([["new"], [".new.annals-salvage"], []].contains(names), "\(kind) \(occurrence): \(names)")
                if names != ["new"] { #expect(try salvage(machine, process: 10).objects == 40) }
                #expect(machine.machine.disk.names(in: "/data") == ["new", "s.annals"])
                try expectIntact(machine.machine.disk, Self.path)
            }
            #expect(isDone, "\(kind) happens more often than was tried")
        }
    }

    @Test func theNewStoreCanBeWrittenEvenIfTheOldOneCouldNot() throws {
        let machine = try store()
        let files = machine.machine.files(3)
        let file = try files.open("s.annals", in: try files.openDirectory("/data"), access: .readWrite)
        let status = try files.status(file)
        try files.setPermissions(file, mode: 0o440, owner: status.owner, group: status.group)
        try salvage(machine)
        let new = try files.open("new", in: try files.openDirectory("/data"), access: .readWrite)
        #expect(try files.status(new).mode & 0o777 == 0o640)
        try expectIntact(machine.machine.disk, Self.path, isSealed: true)
    }

    @Test func aFailureLeavesOnlyTheSource() throws {
        for kind in [CallKind.write, .rename, .synchronize, .read] {
            for occurrence in [1, 2, 7] {
                let machine = try store()
                machine.machine.disk.addFault(Fault(.failure(5), on: kind, occurrence: occurrence, process: 9))
                let met = code { try salvage(machine) }
                machine.machine.disk.removeAllFaults()
                let names = machine.machine.disk.names(in: "/data")
                #expect(names == (met == nil ? ["new", "s.annals"] : ["s.annals"]), "\(kind) \(occurrence)")
            }
        }
    }

    @Test func aNewerProgramsStoreIsUnsupported() throws {
        var file = try ForgedFile.withNotes()
        file.add(.seal, table: [UInt8](repeating: 0, count: 16)) { $0[FrameField.kind] = 77 }
        let machine = EngineMachine()
        machine.machine.disk.install(file.finished(), at: EngineMachine.path)
        #expect(code { try salvage(machine) } == .unsupportedVersion)
    }

    // MARK: The header page and the first frames

    @Test func aHeaderPageThatIsDamagedButForItsSaltLosesNothing() throws {
        for place in [0, 9, 13, 20, 33, 50, 58, 80, 121, 520, 3000] {
            let machine = try store()
            try corrupt(machine, [place])
            let result = try salvage(machine)
            #expect(result.objects == 40 && result.isHeaderDamaged == (place != 520) && result.transactionsMissing == 0)
            #expect(try reading(machine) { try $0.titles().count } == 40)
        }
        let lost = try store()
        try corrupt(lost, [42])
        #expect(code { try salvage(lost) } == .damaged)
    }

    @Test func theFirstFramesMayBeLost() throws {
        // A checkpoint tells the schema.
        let machine = try store { try $0.writeCheckpoint() }
        let first = try SalvageSample(bytes(machine)).frames
        try corrupt(machine, first.prefix(3).map { $0.range.lowerBound + 8 })
        let result = try salvage(machine)
        #expect(result.objects == 40 && result.unreadableObjects == 0 && result.framesBad == 0)
        #expect(result.passedOver.count == 1 && result.bytesPassedOver == UInt64(first[2].range.upperBound - 4096))
        #expect(try reading(machine) { try $0.titles() } == (1...40).map { "note \($0)" })
    }

    @Test func withoutTheirSchemaRowsAreCountedAndNotRead() throws {
        let machine = try store()
        try damage(machine) { $0.kind == .schema || $0.kind == .checkpoint }
        let result = try salvage(machine)
        #expect(result.objects == 0 && result.unreadableObjects == 40)
        #expect(result.entities.map(\.number) == [1] && result.entities[0].name == nil)
        #expect(try reading(machine) { $0.catalog.newestVersion } == 0)
    }

    /// A version of the schema is lost: rows of it are read by another one if they fit that.
    @Test func aRowOfALostSchemaVersionIsReadByOneThatFits() throws {
        var note = EngineNote.definition
        note.attributes[1].name = IdentifierName("position")
        var later = note
        later.attributes.append(AttributeDefinition(number: 4, type: .bool, flags: [.optional], name: "done"))
        let machine = try store { engine in
            _ = try engine.commit { try $0.changeSchema([note]) }
            _ = try engine.insertNotes(41...45)
            _ = try engine.commit { try $0.changeSchema([later]) }
            _ = try engine.commit { transaction in
                _ = try transaction.insert(
                    entity: EngineNote.entity, EngineNote.row("note 46", 46) + [.bool(true)])
            }
        }
        try damage(machine) { ($0.kind == .schema && $0.version == 2) || $0.kind == .checkpoint }
        let result = try salvage(machine)
        #expect(result.schemaVersionsMissing == 1 && result.objectsOfGuessedSchema == 5)
        #expect(result.objects == 46 && result.unreadableObjects == 0)
        #expect(try reading(machine) { try $0.titles() } == (1...46).map { "note \($0)" })
    }

    // MARK: Transactions

    /// Two parts and a commit frame with notes 1 to 3; then what a test adds.
    private func parts(_ body: (inout ForgedFile, ForgedFrame) throws -> Void) throws -> EngineMachine {
        var file = try ForgedFile.withNotes()
        file.addPart([.insert(1, try Note.encoded("one"))])
        file.addPart([.insert(2, try Note.encoded("two"))])
        let commit = file.addCommit([.insert(3, try Note.encoded("three"))])
        try body(&file, commit)
        let machine = EngineMachine()
        machine.machine.disk.install(file.finished(), at: EngineMachine.path)
        return machine
    }

    @Test func partsCountIfTheirTransactionIsProven() throws {
        // A transaction above.
        let above = try parts { (file, commit) in
            file.addCommit([.insert(4, try Note.encoded("four"))])
            file.change(commit.offset + 100) { $0 ^= 1 }
        }
        var result = try salvage(above)
        #expect(result.objects == 3 && result.objectsOfGaps == 2 && result.transactionsWithGaps == 1)
        #expect(result.transactionsComplete == 2 && result.transactionsMissing == 0 && result.changesUnfinished == 0)
        // The same if nothing of the commit frame can be recognised.
        let lost = try parts { (file, commit) in
            file.addCommit([.insert(4, try Note.encoded("four"))])
            for offset in commit.offset..<commit.end { file.change(offset) { $0 = 0 } }
        }
        result = try salvage(lost)
        #expect(result.objects == 3 && result.objectsOfGaps == 2 && result.transactionsWithGaps == 1)
        // A hint, where zeros stand after the parts.
        let hinted = try parts { (file, commit) in
            file.proveEverything()
            for offset in commit.offset..<commit.end { file.change(offset) { $0 = 0 } }
        }
        result = try salvage(hinted)
        #expect(result.objects == 2 && result.objectsOfGaps == 2)
        // Nothing but bytes that may have been the commit frame.
        let torn = try parts { (file, commit) in file.change(commit.offset + 20) { $0 ^= 1 } }
        result = try salvage(torn)
        #expect(result.objects == 2 && result.objectsOfGaps == 2 && result.changesUnfinished == 0)
        for machine in [above, lost, hinted, torn] { _ = try reading(machine) { $0.number } }
    }

    @Test func uncommittedChangesAreLeftOut() throws {
        let unfinished = try parts { (file, commit) in
            for offset in commit.offset..<commit.end { file.change(offset) { $0 = 0 } }
        }
        let result = try salvage(unfinished)
        #expect(result.objects == 0 && result.changesUnfinished == 2 && result.transactionsWithGaps == 0)
        #expect(try reading(unfinished) { try $0.count(entity: Note.entity) } == 0)
    }

    /// A recovery frame stands where a transaction was dropped; one of its frames is still there, after what was
    /// written since.
    @Test func framesThatARecoveryDroppedAreLeftOut() throws {
        var file = try ForgedFile.withNotes()
        let start = file
        let padding = [UInt8](repeating: 7, count: 200)
        file.addPart([.insert(1, try Note.encoded("dropped \(padding.count)", 1, padding))])
        let second = file.addPart([.insert(2, try Note.encoded("dropped"))])
        let stale = Array(file.bytes[Int(second.offset)...])
        var again = start
        again.add(.recovery, table: RecoveryRecord(random: 5, droppedBytes: 600, time: 1).encoded())
        // What follows ends where the dropped frame begins.
        let row = try Note.encoded("there", 1)
        let fill = Int(second.offset) - Int(again.end) - 64 - 64 - 16 - row.count
        again.addCommit([.insert(3, try Note.encoded("there", 1, [UInt8](repeating: 1, count: fill)))])
        let end = again.end
        again.addRaw(stale)
        let machine = EngineMachine()
        machine.machine.disk.install(again.finished(), at: EngineMachine.path)
        #expect(end == second.offset, "the forged frame does not reach the dropped one")
        let result = try salvage(machine)
        #expect(result.framesStray == 1 && result.objects == 1)
        #expect(try reading(machine) { try $0.titles() } == ["there"])
    }

    @Test func deletedObjectsStayDeletedAndTheirNumbersAreNotReused() throws {
        let machine = try store { engine in
            let ids = try engine.insertNotes(41...43)
            _ = try engine.commit { transaction in for id in ids { try transaction.delete(id) } }
        }
        try damage(machine) { $0.kind == .transaction && $0.number == 2 }
        let result = try salvage(machine)
        #expect(result.objects == 30)
        #expect(try reading(machine) { try $0.titles() } == (11...40).map { "note \($0)" })
        let engine = try Engine.open(
            Self.path, options: machine.options, files: machine.machine.files(8),
            environment: machine.machine.environment)
        let (new, _) = try engine.commit { try $0.insert(entity: EngineNote.entity, EngineNote.row("new", 1)) }
        #expect(new.number == 44)
        try engine.close()
    }

    /// A definition may ask for an index over a list, which means nothing; and a reference may be to a number that was
    /// never given.
    @Test func impossiblePartsOfADefinitionAreLeftOut() throws {
        var note = Note.definition
        note.attributes += [
            AttributeDefinition(number: 4, type: .objects, flags: [.optional, .indexed, .unique], name: "list"),
            AttributeDefinition(number: 5, type: .object, flags: [.optional], name: "other"),
        ]
        note.keys = [
            KeyDefinition(isUnique: true, attributes: [4, 2]), KeyDefinition(isUnique: true, attributes: [1]),
        ]
        var file = ForgedFile()
        file.addSchema(table: try SchemaDefinition(version: 1, entities: [note]).encodeTables()[0])
        file.addCommit()
        var row = ByteWriter()
        let far = try #require(ObjectID(entityNumber: 1, number: FormatLimits.maximumObjectNumber))
        try EncodedRow.append(
            Note.row("one", 1) + [.objects([Note.object(1)]), .object(far)], layout: RowLayout.make(note),
            entryDistance: 0, schemaVersion: 1, isDeletion: false, to: &row)
        file.addCommit([.insert(1, Array(row.bytes))])
        file.addSeal()
        let machine = EngineMachine()
        machine.machine.disk.install(file.finished(), at: EngineMachine.path)
        #expect(try salvage(machine).objects == 1)
        let engine = try Engine.open(
            Self.path, options: machine.options, files: machine.machine.files(8),
            environment: machine.machine.environment)
        let (new, _) = try engine.commit { try $0.insert(entity: 1, Note.row("two") + [.absent, .absent]) }
        #expect(new.number == 2)
        try engine.close()
        try expectIntact(machine.machine.disk, Self.path, mayRefer: true)
    }

    // MARK: What is gone

    /// A compacted store: notes 1 to 400 are rows without history, five have a transaction.
    private func compacted() throws -> EngineMachine {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        let ids = try store.current.insertNotes(1...400)
        for id in ids[10..<20] { _ = try store.commit { try $0.delete(id) } }
        _ = try store.current.deleteHistory(before: store.current.view().number + 1)
        _ = try store.compact(.lowered)
        _ = try store.current.insertNotes(401...405)
        try store.close()
        return machine
    }

    private func frames(_ machine: EngineMachine, _ kind: FrameKind) throws -> [SalvageSample.Frame] {
        try SalvageSample(bytes(machine)).frames.filter { $0.kind == kind }
    }

    private func middle(_ frame: SalvageSample.Frame) -> Int {
        frame.range.lowerBound + 64 + (frame.range.count - 64) / 2
    }

    @Test func theIndexShowsHowManyRowsOfACompactedStoreAreLost() throws {
        let machine = try compacted()
        let rows = try frames(machine, .rows)
        #expect(rows.count > 2)
        try corrupt(machine, [middle(rows[1])])
        let result = try salvage(machine)
        #expect(result.objects < 395 && result.entities.count == 1)
        #expect(result.lostObjects == 395 - result.objects && result.changesMissing == result.lostObjects)
        #expect(result.transactionsMissing == 0 && result.bytesUncounted == 0 && result.hasLosses)
        #expect(result.entities[0].unaccountedObjects == 0 && result.entities[0].outdatedObjects == 0)
    }

    /// Nodes of which none can be read leave the counts.
    @Test func withoutNodesTheCheckpointShowsHowManyRowsAreLost() throws {
        let machine = try compacted()
        let rows = try frames(machine, .rows)
        try damage(machine) { $0.kind == .nodes }
        try corrupt(machine, [middle(rows[0])])
        let result = try salvage(machine)
        #expect(result.lostObjects == 395 - result.objects && result.lostObjects > 0)
        // Indexes are made again: their loss alone loses nothing.
        let whole = try compacted()
        try damage(whole) { $0.kind == .nodes }
        let second = try salvage(whole)
        #expect(second.objects == 395 && second.framesBad > 0 && !second.hasLosses)
    }

    @Test func withoutACheckpointTheNumberOfLostRowsIsUnknown() throws {
        let machine = try compacted()
        let rows = try frames(machine, .rows)
        try damage(machine) { $0.kind == .checkpoint }
        try corrupt(machine, [middle(rows[1])])
        let result = try salvage(machine)
        #expect(result.bytesUncounted >= UInt64(rows[1].range.count) && result.hasLosses)
        // Ten of these were deleted before.
        #expect(result.lostObjects == 0 && result.entities[0].unaccountedObjects == 405 - result.objects)
    }

    @Test func anObjectWhoseLastVersionIsLostIsOutdated() throws {
        let machine = try store { engine in
            let ids = try engine.insertNotes(41...43)
            _ = try engine.commit { transaction in
                try transaction.update(ids[0], [(EngineNote.rank, .int(7))])
                try transaction.delete(ids[1])
            }
            try engine.writeCheckpoint()
        }
        let numbers = try frames(machine, .transaction).map(\.number)
        try damage(machine) { $0.kind == .transaction && $0.number == numbers.max() }
        let result = try salvage(machine)
        #expect(result.objects == 43 && result.lostObjects == 0 && result.entities[0].outdatedObjects == 2)
        #expect(result.changesMissing == 2 && result.transactionsWithGaps == 1 && result.hasLosses)
    }

    /// After the newest checkpoint only the numbers tell.
    @Test func numbersOfWhichNothingIsFoundAreUnaccountedFor() throws {
        let machine = try store()
        try damage(machine) { ($0.kind == .transaction && $0.number == 3) || $0.kind == .checkpoint }
        let result = try salvage(machine)
        #expect(result.objects == 30 && result.lostObjects == 0 && result.bytesUncounted == 0)
        #expect(result.entities[0].unaccountedObjects == 10 && result.transactionsWithGaps == 1 && result.hasLosses)
    }

    // MARK: Rules that rows do not have any more

    @Test func rowsThatShareAUniqueValueStay() throws {
        let machine = try store { engine in
            let id = try engine.insertNotes(41...41)[0]
            _ = try engine.commit { try $0.update(id, [(EngineNote.title, .string("other"))]) }
            _ = try engine.insertNotes(41...41)
        }
        let updated = try SalvageSample(bytes(machine)).frames.filter { $0.kind == .transaction }.map(\.number)
        try damage(machine) { $0.kind == .transaction && $0.number == updated[updated.count - 2] }
        let result = try salvage(machine)
        #expect(result.objects == 42 && result.schemaChanges.count == 1)
        #expect(result.schemaChanges.first?.contains("“Note.title” is no longer unique") == true)
        try reading(machine) { (view) throws in
            #expect(try view.titles().filter { $0 == "note 41" }.count == 2)
            let attributes = view.catalog.entity(1, version: view.catalog.newestVersion)?.attributes
            #expect(attributes?[0].flags == [.indexed, .preservedOnDeletion])
            #expect(attributes?[1].flags == [.indexed, .optional])
            #expect(try view.byRank().count == 42)
        }
    }

    @Test func aLostLargeValueIsAbsentAndEveryOtherStays() throws {
        var note = EngineNote.definition
        note.attributes[2].flags = []
        let required = note
        let content = (0..<20_000).map { UInt8(truncatingIfNeeded: $0 / 11) }
        let machine = EngineMachine()
        let engine = try machine.create(1, required)
        for number in 1...2 {
            _ = try engine.commit { transaction in
                _ = try transaction.insert(
                    entity: EngineNote.entity, [.string("note \(number)"), .absent, .data(content)])
            }
        }
        try engine.close()
        let values = try SalvageSample(bytes(machine)).frames.filter { $0.kind == .value }
        let chosen = values[1].range
        try damage(machine) { $0.range == chosen }
        let result = try salvage(machine)
        #expect(result.objects == 2 && result.largeValuesLost == 1)
        #expect(result.schemaChanges.first?.contains("“Note.body” is optional now") == true)
        try reading(machine) { (view) throws in
            var bodies: [StoredValue] = []
            try view.scan(entity: EngineNote.entity) { (_, row) throws(StoreError) in
                bodies.append(try view.value(row, at: EngineNote.body))
                return true
            }
            #expect(bodies == [.absent, .data(content)])
        }
    }

    // MARK: Somebody writes meanwhile

    @Test func aStoreCanBeSalvagedWhileItIsInUse() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        _ = try engine.insertNotes(1...200)
        let (result, _) = try engine.write(author: "writer") { transaction in
            _ = try transaction.insert(entity: EngineNote.entity, EngineNote.row("not yet", 1))
            return try salvage(machine)
        }
        #expect(result.objects == 200 && result.framesBad == 0)
        _ = try engine.insertNotes(201...201)
        try machine.closeAndCheck(engine)
        #expect(try reading(machine) { try $0.titles().count } == 200)
    }

    @Test func theNewStoreHasItsOwnIdentityAndCanBeWritten() throws {
        let machine = try store()
        _ = try salvage(machine)
        let source = try bytes(machine)
        let engine = try Engine.open(
            Self.path, options: machine.options, files: machine.machine.files(8),
            environment: machine.machine.environment)
        #expect(source[16..<32] != machine.machine.disk.contents(of: Self.path)?[16..<32])
        #expect(throws: StoreError.self) { try engine.insertNotes(40...40) }
        _ = try engine.insertNotes(41...41)
        var authors = Set<String?>()
        try engine.tracked(engine.view()).forEachTransaction(after: 0) { (transaction) in
            authors.insert(transaction.author)
            return true
        }
        #expect(authors == ["salvage", "tests"])
        try engine.close()
        try expectIntact(machine.machine.disk, Self.path)
    }

    @Test func aCancelledSalvageLeavesNothing() throws {
        let machine = try store()
        let calls = Calls()
        func run(until count: Int) throws {
            calls.count = 0
            var options = SalvageOptions()
            options.engine = machine.options
            options.transactionBytes = 1024
            options.windowBytes = 4096
            options.progress = { progress in
                calls.count += 1
                calls.isAll = progress.doneBytes == progress.totalBytes
                return calls.count < count
            }
            _ = try Salvage.run(
                from: EngineMachine.path, to: Self.path, options: options, files: machine.machine.files(9),
                environment: machine.machine.environment)
        }
        try run(until: .max)
        let whole = calls.count
        #expect(whole >= 4 && calls.isAll)
        let files = machine.machine.files(9)
        try files.unlink("new", in: try files.openDirectory("/data"))
        for count in 1...whole {
            #expect(code { try run(until: count) } == .cancelled)
            #expect(calls.count == count && machine.machine.disk.names(in: "/data") == ["s.annals"])
        }
        #expect(try salvage(machine).objects == 40)
        try expectIntact(machine.machine.disk, Self.path, isSealed: true)
    }

    /// Sound: the closure that changes it runs on the thread that looks at it.
    private final class Calls: @unchecked Sendable {
        var count = 0
        var isAll = false
    }
}

extension SalvageReport {
    fileprivate var unreadableObjects: UInt64 { entities.reduce(0) { $0 + $1.unreadableObjects } }
}
