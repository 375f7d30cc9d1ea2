// Compaction returns what entities without history took: their rows stay, their changes go, and nothing else is
// different.

import Annals
import SimulatedDisk
import Testing

/// A store of notes, whose history is kept, and of logs, which are made like notes and whose history is turned off and
/// on.
private struct LogStore {
    static let log: UInt16 = 2

    let machine = EngineMachine()
    let store: StoreHandle
    /// The notes and logs that there are, in the order in which they were made.
    private(set) var notes: [ObjectID] = []
    private(set) var logs: [ObjectID] = []
    private var count = 0

    init(_ history: Bool = true) throws {
        store = StoreHandle(try machine.create())
        try turn(history)
        notes = try store.current.insertNotes(1...40)
        try commit(inserting: 40)
    }

    func turn(_ history: Bool, in other: StoreHandle? = nil) throws {
        var log = EngineNote.definition
        (log.number, log.name, log.keepsNoHistory) = (Self.log, IdentifierName("Log"), !history)
        let definition = log
        _ = try (other ?? store).commit { try $0.changeSchema([definition]) }
    }

    static func long(_ number: Int) -> StoredValue { .data([UInt8](repeating: UInt8(number % 251), count: 3000)) }

    mutating func commit(inserting inserts: Int) throws {
        let first = count
        logs += try store.commit(author: "logs") { transaction in
            try (0..<inserts).map { index in
                var row = EngineNote.row("log \(first + index)", Int64(index % 7))
                if index % 3 == 0 { row[EngineNote.body] = Self.long(first + index) }
                return try transaction.insert(entity: Self.log, row)
            }
        }.result
        count += inserts
    }

    /// Each changes logs, and every other one a note as well.
    mutating func update(_ transactions: Int, in other: StoreHandle? = nil) throws {
        for _ in 0..<transactions {
            count += 1
            let (number, logs, notes) = (count, logs, notes)
            _ = try (other ?? store).commit(author: "tests") { transaction in
                try transaction.update(logs[number % logs.count], [(EngineNote.rank, .int(Int64(number)))])
                let body = number % 5 == 0 ? StoredValue.absent : Self.long(number)
                try transaction.update(logs[(number * 7 + 3) % logs.count], [(EngineNote.body, body)])
                if number % 2 == 0 {
                    try transaction.update(notes[number % notes.count], [(EngineNote.rank, .int(Int64(number)))])
                    if number % 6 == 0 {
                        try transaction.update(
                            notes[(number + 5) % notes.count], [(EngineNote.body, Self.long(number))])
                    }
                }
            }
        }
    }

    mutating func delete(_ number: Int) throws {
        let log = logs.remove(at: number)
        _ = try store.commit { try $0.delete(log) }
    }

    // MARK: What is there

    static func rows(_ view: View, _ entity: UInt16) throws -> [String] {
        var lines: [String] = []
        try view.scan(entity: entity) { (object, row) throws(StoreError) in
            lines.append("\(object.number) \(try text(row, view))")
            return true
        }
        return lines
    }

    private static func text(_ row: RowImage, _ view: View) throws(StoreError) -> String {
        var text = "\(try row.value(at: EngineNote.title)) \(try row.value(at: EngineNote.rank))"
        if case .data(let bytes) = try view.value(row, at: EngineNote.body) {
            text += " \(bytes.count) of \(bytes.first ?? 0)"
        }
        return text
    }

    /// The transactions, and in each the changes of an entity with the rows before and after.
    static func history(_ engine: Engine, of entity: UInt16, after number: UInt64 = 0) throws -> [String] {
        var lines: [String] = []
        let view = try engine.view()
        try engine.tracked(view).forEachTransaction(after: max(number, engine.tracking.horizon)) {
            (transaction) throws(StoreError) in
            lines.append(
                "\(transaction.number) \(transaction.tag) \(transaction.time) \(transaction.author ?? "") "
                    + "\(transaction.schemaVersion)"
            )
            try transaction.forEachChange { (change) throws(StoreError) in
                guard change.object.entityNumber == entity else { return true }
                var line = "\(transaction.number) \(change.kind) \(change.object.number) \(change.attributePositions)"
                _ = try view.withRow(before: change) { (row) throws(StoreError) in
                    line += " from \(try text(row, view))"
                }
                _ = try view.withRow(after: change) { (row) throws(StoreError) in line += " to \(try text(row, view))" }
                lines.append(line)
                return true
            }
            return true
        }
        return lines
    }

    static func changes(_ engine: Engine, of entity: UInt16) throws -> [UInt64] {
        var numbers: [UInt64] = []
        try engine.tracked(engine.view()).forEachTransaction(after: 0) { (transaction) throws(StoreError) in
            try transaction.forEachChange { (change) in
                if change.object.entityNumber == entity { numbers.append(transaction.number) }
                return true
            }
            return true
        }
        return numbers
    }

    func checkFile(_ path: String = EngineMachine.path) throws {
        let report = try Checker.check(path, files: machine.machine.files())
        #expect(report.isIntact && report.findings.isEmpty, "\(report.findings)")
    }

    /// Opens the file anew, from its beginning and from its checkpoint, and looks at everything.
    func expect(_ rows: [UInt16: [String]], _ history: [String]) throws {
        try checkFile()
        var bytes = try #require(machine.machine.disk.contents(of: EngineMachine.path))
        for slot in HintField.slots {
            bytes.replaceSubrange(slot..<slot + HintField.bytes, with: repeatElement(0, count: HintField.bytes))
        }
        machine.machine.disk.install(bytes, at: "/data/bare.annals")
        for path in [EngineMachine.path, "/data/bare.annals"] {
            let engine = try Engine.open(
                path, access: .readOnly, options: machine.options, files: machine.machine.files(20),
                environment: machine.machine.environment)
            for (entity, lines) in rows { #expect(try Self.rows(engine.view(), entity) == lines) }
            #expect(try Self.history(engine, of: EngineNote.entity) == history)
            let index = IndexID(entity: Self.log, attributes: [2], isUnique: false)
            var found = 0
            try engine.view().range(index) { (_, _) in
                found += 1
                return true
            }
            #expect(found == rows[Self.log]?.count)
            try engine.close()
        }
    }

    var rows: [UInt16: [String]] {
        get throws {
            let view = try store.newest().view
            return [EngineNote.entity: try Self.rows(view, EngineNote.entity), Self.log: try Self.rows(view, Self.log)]
        }
    }
}

@Suite struct FoldedHistoryTests {
    private static let log = LogStore.log

    @Test func compactionFreesTheHistoryOfAnEntityWithoutHistory() throws {
        var kept = try LogStore(true)
        var off = try LogStore(false)
        for number in 0..<2 {
            var logs = number == 0 ? kept : off
            try logs.update(200)
            try logs.delete(3)
            if number == 0 { kept = logs } else { off = logs }
        }
        let whole = try kept.store.compact(.lowered).bytesAfter
        let (rows, last) = (try off.rows, try off.store.newest().view.number)
        let history = try LogStore.history(off.store.current, of: EngineNote.entity)
        let result = try off.store.compact(.lowered)
        #expect(result.bytesAfter * 5 / 2 < whole, "\(result.bytesAfter) of \(whole)")
        #expect(result.horizon == 0)
        #expect(try LogStore.changes(off.store.current, of: Self.log).isEmpty)
        try off.expect(rows, history)
        // What comes is written as ever, and goes with the next compaction.
        try off.update(5)
        #expect(try LogStore.changes(off.store.current, of: Self.log) == (1...5).flatMap { [last + $0, last + $0] })
        let (more, behind) = (try off.rows, try LogStore.history(off.store.current, of: EngineNote.entity))
        _ = try off.store.compact(.lowered)
        #expect(try LogStore.changes(off.store.current, of: Self.log).isEmpty)
        try off.expect(more, behind)
        // Numbers of what was deleted are not given again.
        try off.commit(inserting: 1)
        #expect(off.logs.last?.number == 41)
        for logs in [kept, off] {
            try logs.store.close()
            try logs.checkFile()
        }
    }

    /// Its transactions say so, and their numbers of changes are those of what is there.
    @Test func transactionsRecordThatChangesAreLeftOut() throws {
        var logs = try LogStore(false)
        try logs.update(2)
        let note = logs.notes[0]
        _ = try logs.store.commit { try $0.update(note, [(EngineNote.rank, .int(5))]) }
        _ = try logs.store.compact(.lowered)
        func look() throws -> [String] {
            var found: [String] = []
            let engine = try logs.store.newest().engine
            try engine.tracked(engine.view()).forEachTransaction(after: 0) { (transaction) throws(StoreError) in
                var changes: UInt64 = 0
                try transaction.forEachChange { (_) in
                    changes += 1
                    return true
                }
                #expect(changes == transaction.totalChanges)
                found.append("\(transaction.number): \(changes)" + (transaction.lacksChanges ? ", and more" : ""))
                return true
            }
            return found
        }
        let expected = ["1: 0", "2: 0", "3: 40", "4: 0, and more", "5: 0, and more", "6: 2, and more", "7: 1"]
        #expect(try look() == expected)
        _ = try logs.store.compact(.lowered)
        #expect(try look() == expected)
        try logs.store.close()
        try logs.checkFile()
    }

    /// A long transaction has parts, of which some lose everything and others nothing.
    @Test func longTransactionsKeepTheirParts() throws {
        let logs = try LogStore(false)
        _ = try logs.store.commit(author: "long") { transaction in
            for number in 0..<300 {
                // Stretches of one entity, longer than a part, and stretches of both.
                let entity = number / 60 % 2 == 0 || number % 3 == 0 ? Self.log : EngineNote.entity
                var row = EngineNote.row("long \(number)", Int64(number))
                if number % 4 == 0 { row[EngineNote.body] = LogStore.long(number) }
                _ = try transaction.insert(entity: entity, row)
            }
        }
        let (rows, history) = (try logs.rows, try LogStore.history(logs.store.current, of: EngineNote.entity))
        #expect(history.filter { $0.contains("insert") }.count > 100)
        _ = try logs.store.compact(.lowered)
        #expect(try LogStore.changes(logs.store.current, of: Self.log).isEmpty)
        try logs.expect(rows, history)
        try logs.store.close()
        try logs.checkFile()
    }

    // MARK: On again

    /// From the place where its history begins, everything is as it was; wherever the horizon stands.
    @Test(arguments: [0, 20, 51, 53, 55, 70]) func historyIsCompleteSinceItWasTurnedOnAgain(cleaned: UInt64) throws {
        var logs = try LogStore(true)
        try logs.update(20)
        try logs.turn(false)
        try logs.update(20)
        try logs.delete(5)
        try logs.update(6)
        try logs.turn(true)
        let first = try logs.store.newest().view.number
        try logs.update(10)
        try logs.delete(2)
        try logs.update(10)
        let last = try logs.store.newest().view.number
        if cleaned > 0 { _ = try logs.store.current.deleteHistory(before: cleaned + 1) }
        let rows = try logs.rows
        let begin = max(first - 1, cleaned)
        let past = try (begin...last).map { try LogStore.rows(logs.store.current.view(asOf: $0), Self.log) }
        let since = try LogStore.history(logs.store.current, of: Self.log, after: begin)
        let history = try LogStore.history(logs.store.current, of: EngineNote.entity)
        for _ in 0..<2 {
            _ = try logs.store.compact(.lowered)
            try logs.expect(rows, history)
            let engine = logs.store.current
            #expect(try LogStore.changes(engine, of: Self.log).allSatisfy { $0 > begin })
            #expect(try (begin...last).map { try LogStore.rows(engine.view(asOf: $0), Self.log) } == past)
            #expect(try LogStore.history(engine, of: Self.log, after: begin) == since)
            let unknown = try (cleaned..<last).map { try engine.view(asOf: $0).unknownEntities.contains(Self.log) }
            #expect(unknown == (cleaned..<last).map { $0 + 1 < first })
        }
        // Off, on and compacted once more, with rows after another transaction in the file that is compacted.
        try logs.turn(false)
        try logs.update(3)
        _ = try logs.store.compact(.lowered)
        try logs.turn(true)
        try logs.update(3)
        let (again, behind) = (try logs.rows, try LogStore.history(logs.store.current, of: EngineNote.entity))
        let third = try logs.store.newest().view.number - 3
        let known = try LogStore.history(logs.store.current, of: Self.log, after: third - 1)
        _ = try logs.store.compact(.lowered)
        try logs.expect(again, behind)
        #expect(try LogStore.history(logs.store.current, of: Self.log, after: third - 1) == known)
        try logs.store.close()
        try logs.checkFile()
    }

    @Test func aRemovedEntityLeavesNoHistory() throws {
        var logs = try LogStore(false)
        try logs.update(30)
        _ = try logs.store.commit { try $0.changeSchema([.removal(of: Self.log)]) }
        let note = logs.notes[1]
        _ = try logs.store.commit { try $0.update(note, [(EngineNote.rank, .int(5))]) }
        let history = try LogStore.history(logs.store.current, of: EngineNote.entity)
        _ = try logs.store.compact(.lowered)
        #expect(try LogStore.changes(logs.store.current, of: Self.log).isEmpty)
        #expect(try LogStore.history(logs.store.current, of: EngineNote.entity) == history)
        try logs.store.close()
        try logs.checkFile()
    }

    // MARK: Meanwhile

    /// Sound: the closure that changes it runs on the thread that looks at it.
    private final class Meanwhile: @unchecked Sendable {
        var logs: LogStore
        var step = 0
        var turnedOn: UInt64 = 0
        var failure: String?
        init(_ logs: LogStore) { self.logs = logs }
    }

    /// Others commit, turn the history on and off, and clean, while the store is compacted.
    @Test(arguments: [true, false]) func changesDuringACompactionOrABackupAreKept(isBackup: Bool) throws {
        let meanwhile = Meanwhile(try LogStore(false))
        try meanwhile.logs.commit(inserting: 80)
        try meanwhile.logs.update(60)
        let store = meanwhile.logs.store
        let other = StoreHandle(try meanwhile.logs.machine.open(2))
        let begin = try (rows: meanwhile.logs.rows, number: store.newest().view.number)
        var options = CompactionOptions.lowered
        options.finalBytes = 256
        options.progress = { _ in
            meanwhile.step += 1
            do {
                switch meanwhile.step {
                case 2: _ = try other.current.deleteHistory(before: 30)
                case 4:
                    try meanwhile.logs.turn(true, in: other)
                    meanwhile.turnedOn = try other.newest().view.number
                case 3, 5...9: try meanwhile.logs.update(2, in: other)
                default: break
                }
            } catch { meanwhile.failure = "\(error)" }
            return true
        }
        if isBackup {
            let result = try store.backUp(to: "/data/copy.annals", newIdentity: false, options)
            #expect(result.number == begin.number)
            let copy = try Engine.open(
                "/data/copy.annals", options: meanwhile.logs.machine.options,
                files: meanwhile.logs.machine.machine.files(8), environment: meanwhile.logs.machine.machine.environment)
            for (entity, lines) in begin.rows { #expect(try LogStore.rows(copy.view(), entity) == lines) }
            #expect(try LogStore.changes(copy, of: Self.log).isEmpty)
            try copy.close()
            try meanwhile.logs.checkFile("/data/copy.annals")
        } else {
            _ = try store.compact(options)
        }
        #expect(meanwhile.step >= 9 && meanwhile.failure == nil, "\(meanwhile.step) \(meanwhile.failure ?? "")")
        let first = meanwhile.turnedOn
        let engine = try store.newest().engine
        let (rows, last) = (try meanwhile.logs.rows, try store.newest().view.number)
        // Each transaction changes two logs, at times one twice.
        let changes = try Set(LogStore.changes(engine, of: Self.log))
        #expect((first + 1...last).allSatisfy { changes.contains($0) } && last > first)
        let history = try LogStore.history(engine, of: EngineNote.entity)
        let since = try LogStore.history(engine, of: Self.log, after: first - 1)
        #expect(engine.tracking.horizon == 29)
        _ = try store.compact(.lowered)
        #expect(try Set(LogStore.changes(store.current, of: Self.log)).min() == first + 1)
        #expect(try LogStore.history(store.current, of: Self.log, after: first - 1) == since)
        try meanwhile.logs.expect(rows, history)
        try other.close()
        try store.close()
        try meanwhile.logs.checkFile()
    }

    // MARK: The file

    @Test func salvageFindsTheRows() throws {
        var logs = try LogStore(false)
        try logs.update(30)
        _ = try logs.store.compact(.lowered)
        try logs.update(3)
        let rows = try logs.rows
        try logs.store.close()
        var options = SalvageOptions()
        options.engine = logs.machine.options
        _ = try Salvage.run(
            from: EngineMachine.path, to: "/data/new.annals", options: options, files: logs.machine.machine.files(5),
            environment: logs.machine.machine.environment)
        let engine = try Engine.open(
            "/data/new.annals", options: logs.machine.options, files: logs.machine.machine.files(6),
            environment: logs.machine.machine.environment)
        for (entity, lines) in rows { #expect(try LogStore.rows(engine.view(), entity) == lines) }
        #expect(try engine.view().historyGaps.map(\.entity) == [Self.log])
        try engine.close()
        try logs.checkFile("/data/new.annals")
    }

    /// Rows without history stand after nothing that compaction has not written, and nothing else is without changes.
    @Test func rowsWithoutHistoryAreDamageInOtherFiles() throws {
        func file(generation: UInt64, _ change: (inout ForgedFile) throws -> Void) throws -> [String] {
            var file = ForgedFile(generation: generation)
            file.addCommit([], .init(record: { $0.isCopied = generation > 0 }))
            try change(&file)
            let machine = Machine()
            machine.disk.install(file.finished(), at: Machine.path)
            return try Checker.check(Machine.path, files: machine.files()).findings.map(\.rule)
        }
        func rows(_ file: inout ForgedFile) { _ = file.addRows([]) }
        func copied(_ file: inout ForgedFile) { file.addCommit([], .init(record: { $0.isCopied = true })) }
        #expect(try file(generation: 1) { rows(&$0) } == [])
        #expect(try file(generation: 0) { rows(&$0) } == ["F8"])
        #expect(
            try file(generation: 0) { (file) in
                copied(&file)
                rows(&file)
            } == ["F13"])
        #expect(
            try file(generation: 1) { (file) in
                copied(&file)
                rows(&file)
                file.addCommit([])
                rows(&file)
            } == ["F8"])
        #expect(
            try file(generation: 1) { (file) in
                file.addCommit([], .init(record: { ($0.isCopied, $0.lacksChanges) = (true, true) }))
            } == [])
        #expect(
            try file(generation: 1) { $0.addCommit([], .init(record: { $0.lacksChanges = true })) } == ["F13"])
    }
}
