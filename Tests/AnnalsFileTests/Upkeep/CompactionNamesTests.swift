// Names of authors, contexts and processes after compaction: those that the file uses, and no others.

import Annals
import SimulatedDisk
import Synchronization
import Testing

@Suite struct CompactionNamesTests {
    private let machine = EngineMachine()

    private func insert(_ title: String, _ author: String, _ context: String?, _ store: StoreHandle) throws {
        _ = try store.newest().engine.commit(author: author, context: context) {
            try $0.insert(entity: EngineNote.entity, EngineNote.row(title, nil))
        }
    }

    /// "number author context" of each transaction in the file, and whether it is hidden.
    private func history(_ store: StoreHandle) throws -> [String] {
        let log = try store.newest().engine.log
        let (names, tracking) = (log.current.names, log.current.tracking)
        var found: [String] = []
        try log.forEachFrame { (frame, _) throws(StoreError) in
            guard frame.header.kind == .transaction else { return }
            let record = try TransactionRecord.decode(frame.table)
            func name(_ number: UInt32) -> String { number == 0 ? "-" : names[Int(number) - 1] }
            let isHidden = frame.header.number < tracking.hiddenBefore(record.author)
            found.append(
                "\(frame.header.number) \(name(record.author)) \(name(record.context))" + (isHidden ? " hidden" : ""))
        }
        return found
    }

    private func makeStore() throws -> StoreHandle {
        let store = StoreHandle(try machine.create())
        for (number, author) in ["a", "b", "a", "c", "d"].enumerated() {
            try insert("note \(number)", author, "in \(author)", store)
        }
        return store
    }

    @Test func namesThatNothingUsesAreFreed() throws {
        let store = try makeStore()
        // The first transaction is the schema.
        try store.current.deleteHistory(before: 5)
        _ = try store.compact(.lowered)
        #expect(try history(store) == ["5 c in c", "6 d in d"])
        let names = try store.newest().engine.log.current.names
        #expect(Set(names).isSuperset(of: ["c", "in c", "d", "in d"]))
        #expect(!names.contains("a") && !names.contains("in b"))
        // A freed name is given a number again.
        try insert("later", "a", "in d", store)
        #expect(try history(store).last == "7 a in d")
        try machine.closeAndCheck(store.newest().engine)
    }

    @Test func hiddenAuthorsStayHidden() throws {
        let store = try makeStore()
        try store.current.deleteHistory(before: 3)
        try store.current.deleteHistory(before: 7, authors: ["d", "c"])
        _ = try store.compact(.lowered)
        #expect(try history(store) == ["3 b in b", "4 a in a", "5 c in c hidden", "6 d in d hidden"])
        _ = try store.backUp(to: "/data/copy", newIdentity: false, .lowered)
        try machine.closeAndCheck(store.newest().engine)
        try expectIntact(machine.machine.disk, "/data/copy")
    }

    /// Others use names that the new file does not have yet, while it is made.
    @Test func namesOfTransactionsDuringACompactionAreKept() throws {
        let store = try makeStore()
        try store.current.deleteHistory(before: 6)
        let other = StoreHandle(try machine.open(2))
        let count = Count()
        var options = CompactionOptions.lowered
        options.progress = { _ in
            let number = count.next()
            if number < 6 {
                do {
                    let author = ["a", "new", "b", "d", "new"][number % 5]
                    _ = try other.newest().engine.commit(author: author, context: "in c") {
                        let body: [StoredValue] = [
                            .string("meanwhile \(number)"), .absent, .data([UInt8](repeating: 1, count: 100_000)),
                        ]
                        _ = try $0.insert(entity: EngineNote.entity, body)
                    }
                    if number == 3 { try other.current.deleteHistory(before: 100, authors: ["b"]) }
                } catch {
                    Issue.record("\(error)")
                }
            }
            return true
        }
        _ = try store.compact(options)
        let found = try history(store)
        #expect(found.first == "6 d in d" && found.dropFirst().allSatisfy { $0.contains("in c") }, "\(found)")
        #expect(found.contains("7 a in c") && found.contains("8 new in c") && found.count == 7, "\(found)")
        #expect(found.contains("9 b in c hidden"), "\(found)")
        try other.close()
        try machine.closeAndCheck(store.newest().engine)
    }

    /// Names run out within one file, and not in a store that is cleaned and compacted.
    @Test func seventyThousandNamesPassThroughAStore() throws {
        var machine = machine
        // Not lowered: the file grows to some MiB.
        machine.options = EngineOptions()
        machine.options.log.synchronizesInBackground = false
        let store = StoreHandle(try machine.create())
        let total = 70_000
        for number in 0..<total {
            let engine = try store.newest().engine
            _ = try engine.commit(author: "author \(number)", durability: .relaxed) {
                try $0.insert(entity: EngineNote.entity, EngineNote.row("\(number)", nil))
            }
            guard number % 20_000 == 19_999 else { continue }
            try engine.deleteHistory(before: store.newest().view.number)
            _ = try store.compact(CompactionOptions())
            #expect(try store.newest().engine.log.current.names.count <= 3)
        }
        #expect(try history(store).last == "\(total + 1) author \(total - 1) -")
        try machine.closeAndCheck(store.newest().engine)
    }

    @Test func theErrorForTooManyNamesAdvisesCompaction() throws {
        var file = try ForgedFile.withNotes()
        var table: [UInt8] = []
        for number in 1...UInt32(FormatLimits.maximumNames) {
            MetadataRecord.name(number: number, text: "\(number)").append(to: &table)
            guard table.count > 65000 || number == FormatLimits.maximumNames else { continue }
            file.add(.metadata, table: table)
            table = []
        }
        machine.machine.disk.install(file.finished(), at: EngineMachine.path)
        let store = StoreHandle(try machine.open())
        let row = Note.row("one")
        let engine = try store.newest().engine
        let error = #expect(throws: StoreError.self) {
            _ = try engine.commit(author: "another") { try $0.insert(entity: Note.entity, row) }
        }
        #expect(error?.code == .tooLarge && error?.message.contains("compact the store") == true)
        _ = try store.compact(.lowered)
        _ = try store.newest().engine.commit(author: "another") { try $0.insert(entity: Note.entity, row) }
        try machine.closeAndCheck(store.newest().engine)
    }

    private final class Count: Sendable {
        private let count = Atomic<Int>(0)

        /// How often it was called before.
        func next() -> Int { count.add(1, ordering: .relaxed).oldValue }
    }
}
