// What a program of version 1 does if a newer one writes to a store that it has open: it keeps what it has seen, reads
// and writes nothing more, or only writes nothing more, and says "unsupported".

import Annals
import FoundationEssentials
import Glibc
import SimulatedDisk
import Synchronization
import TestSupport
import Testing

@Suite struct NewerFileBesideTests {
    // MARK: Engines

    /// A handle that has written, and would end with a checkpoint, a seal and a hint.
    @Test(arguments: NewerFile.appended) func aHandleStopsWritingWhenTheFileBecomesNewer(_ file: NewerFile) throws {
        let machine = EngineMachine()
        let engine = try machine.create(1, Note.definition)
        let (object, _) = try engine.commit(durability: .relaxed) { transaction in
            try transaction.insert(entity: Note.entity, Note.row("one", 1))
        }
        let view = try engine.view()
        let disk = machine.machine.disk
        let bytes = try file.bytes(after: try #require(disk.contents(of: EngineMachine.path)), engine.log.current)
        try append(bytes, to: machine)

        let isReadable = file.effect != .stops
        #expect(code { _ = try engine.view() } == (isReadable ? nil : .unsupportedVersion))
        let write = { _ = try engine.commit { try $0.update(object, [(0, .string("other"))]) } }
        #expect(code(write) == .unsupportedVersion)
        #expect(code { try engine.writeCheckpoint() } == .unsupportedVersion)
        #expect(code { try engine.setRetention(.standard) } == .unsupportedVersion)
        #expect(code { _ = try StoreHandle(engine).compact(.lowered) } == .unsupportedVersion)
        let copied = code { _ = try StoreHandle(engine).backUp(to: "/data/copy", newIdentity: false, .lowered) }
        #expect(copied == (file.effect == .stopsWriters ? nil : .unsupportedVersion))
        #expect(try view.title(object) == "one")
        // Everything is durable: that there is no seal is no error.
        try engine.close()
        #expect(disk.contents(of: EngineMachine.path) == bytes)
        #expect(disk.names(in: "/data") == (file.effect == .stopsWriters ? ["copy", "s.annals"] : ["s.annals"]))
        let report = try check(bytes)
        #expect(report.isIntact == (file.effect == .stopsWriters), "\(report.findings)")
        #expect(report.hasDamage == (file.effect == .stopsCopies), "\(report.findings)")
    }

    /// The newer program writes what the file lacks of these bytes.
    private func append(_ bytes: [UInt8], to machine: EngineMachine) throws {
        let files = machine.machine.files(9)
        let place = try files.openPlace(EngineMachine.path)
        let file = try files.open(place.name, in: place.directory, access: .readWrite)
        defer {
            files.close(file)
            files.close(place.directory)
        }
        _ = try bytes.withUnsafeBytes { try files.write(file, at: 0, from: $0) }
        try files.setSize(file, to: UInt64(bytes.count))
    }

    /// The newer program compacts the store, or migrates it, into a file that only it can read.
    @Test func aFileThatIsReplacedByANewerOneIsUnsupported() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        let ids = try store.newest().engine.insertNotes(1...3)
        let view = try store.newest().view
        let disk = machine.machine.disk
        var header = store.current.log.header
        header.generation += 1
        var page = header.encoded()
        for field in [HeaderField.readVersion, HeaderField.writeVersion] { page[field] = 2 }
        let checksum = Array(page[..<HeaderField.checksum]).withUnsafeBytes { Checksum.hash($0, seed: 0) }
        page.put(checksum, at: HeaderField.checksum)
        let newer = page + [UInt8](repeating: 7, count: 8192)
        disk.install(newer, at: "/data/newer")
        let files = machine.machine.files(9)
        let directory = try files.openDirectory("/data")
        try files.rename("newer", to: "s.annals", in: directory)
        files.close(directory)
        machine.machine.environment.advance(byMicroseconds: 2_000_000)

        #expect(code { _ = try store.newest() } == .unsupportedVersion)
        #expect(code { _ = try store.commit { try $0.delete(ids[0]) } } == .unsupportedVersion)
        #expect(code { _ = try store.compact(.lowered) } == .unsupportedVersion)
        #expect(code { _ = try store.backUp(to: "/data/copy", newIdentity: false) } == .unsupportedVersion)
        #expect(try view.title(ids[0]) == "note 1")
        #expect([nil, .unsupportedVersion].contains(code { try store.close() }))
        #expect(disk.contents(of: EngineMachine.path) == newer)
        #expect(disk.names(in: "/data") == ["s.annals"])
    }

    // MARK: Stores, contexts, trackers

    private struct Card: Entity {
        var title = ""
        static let schema = Schema<Card> { Attribute(\.title, .indexed) }
    }

    /// The bodies that were called, in order.
    private final class Calls: Sendable {
        private let list = Mutex<[String]>([])
        var all: [String] { list.withLock { $0 } }
        func note(_ call: String) { list.withLock { $0.append(call) } }
    }

    /// A store on the disk, and what a newer program writes to it.
    private final class Shared: Sendable {
        let folder: TemporaryDirectory
        let path: String
        private let written = Mutex<[UInt8]>([])
        private var bytes: [UInt8] { written.withLock { $0 } }

        init() throws {
            folder = try TemporaryDirectory()
            path = folder.path("s.annals")
        }

        func open(_ reading: Store.Reading, _ access: Store.Access = .readWrite) throws -> Store {
            var options = Store.Options()
            (options.reading, options.access, options.automaticCompaction) = (reading, access, nil)
            return try Store(at: path, entities: [Card.self], options: options)
        }

        /// Writes a frame that nobody may skip, or one that stops writers only.
        func becomeNewer(_ name: String) throws {
            let files = RealFileSystem()
            let log = try Log.open(path, access: .readOnly, files: files, environment: RealEnvironment())
            let old = try [UInt8](Data(contentsOf: URL(filePath: path)))
            let file = try #require(NewerFile.appended.first { $0.name == name })
            let bytes = try file.bytes(after: old, log.current)
            written.withLock { $0 = bytes }
            try log.close()
            let descriptor = Glibc.open(path, O_WRONLY | O_CLOEXEC)
            defer { Glibc.close(descriptor) }
            try #require(pwrite(descriptor, bytes, bytes.count, 0) == bytes.count)
            try #require(ftruncate(descriptor, bytes.count) == 0)
        }

        func expectUntouched(_ location: SourceLocation = #_sourceLocation) throws {
            #expect(try [UInt8](Data(contentsOf: URL(filePath: path))) == bytes, sourceLocation: location)
            #expect(folder.names == ["s.annals"], sourceLocation: location)
        }
    }

    @Test(arguments: [Store.Reading.mapped, .copied])
    func anOpenStoreKeepsItsStateAndWritesNothing(_ reading: Store.Reading) throws {
        let shared = try Shared()
        let store = try shared.open(reading)
        let reader = try shared.open(reading, .readOnly)
        let card = try store.write { try $0.insert(Card(title: "one")) }.result
        let token = try store.currentToken
        let context = store.makeContext(author: "app")
        let object = try context.object(card)
        let snapshot = try reader.snapshot()
        let watcher = try reader.changeWatcher()
        try shared.becomeNewer("frame.kind")

        for store in [store, reader] {
            #expect(code { _ = try store.snapshot() } == .unsupportedVersion)
            #expect(code { _ = try store.currentToken } == .unsupportedVersion)
            #expect(code { _ = try store.history(after: token) } == .unsupportedVersion)
            #expect(code { try store.backup(to: shared.folder.path("copy")) } == .unsupportedVersion)
        }
        #expect(code { _ = try watcher.next(timeout: .seconds(60)) } == .unsupportedVersion)
        #expect(code { try store.write { try $0.insert(Card(title: "two")) } } == .unsupportedVersion)
        #expect(code { try store.deleteHistory(before: token) } == .unsupportedVersion)
        #expect(code { try store.compact() } == .unsupportedVersion)
        #expect(try snapshot.count(of: "Card") == 1)
        // A context keeps its state and its edits.
        object.title = "edited"
        #expect(code { try context.save() } == .unsupportedVersion)
        #expect(code { try context.merge() } == .unsupportedVersion)
        #expect(object.title == "edited" && context.hasChanges)
        context.close()
        try store.close()
        try reader.close()
        try shared.expectUntouched()
    }

    @Test func anOpenStoreStaysReadableBesideAWriterOfALaterFormat() throws {
        let shared = try Shared()
        let store = try shared.open(.mapped)
        let card = try store.write { try $0.insert(Card(title: "one")) }.result
        let context = store.makeContext(author: "app")
        let object = try context.object(card)
        try shared.becomeNewer("a declared member that stops writers")
        let number = try store.currentToken.number
        #expect(try context.merge().number == number && object.title == "one")
        object.title = "edited"
        #expect(code { try context.save() } == .unsupportedVersion)
        #expect(context.hasChanges)
        #expect(code { try store.registerConsumer("app") } == .unsupportedVersion)
        context.close()
        try store.close()
        try shared.expectUntouched()
    }

    private struct Messages: HistoryTrackerLogger {
        let calls: Calls
        func log(type: HistoryTrackerLogType, message: String) { calls.note("\(type): \(message)") }
    }

    /// A context that cannot be merged is not the one that fails.
    @Test @MainActor func aTrackerThatEndsReportsNoFailedContext() async throws {
        let shared = try Shared()
        let (store, other) = (try shared.open(.mapped), try shared.open(.mapped))
        let (context, messages) = (store.makeContext(author: "app"), Calls())
        let tracker = try HistoryTracker(
            store: store, contexts: [context], currentAuthor: "app", allAuthors: [],
            logger: Messages(calls: messages), autoStart: false)
        tracker.observe(Card.self, [.insert]) { _ in try shared.becomeNewer("frame.kind") }
        try await other.write(author: "share") { try $0.insert(Card(title: "one")) }
        try other.close()
        await #expect(throws: StoreError.self) { try await tracker.run() }
        #expect(tracker.metrics.lastError?.code == .unsupportedVersion)
        #expect(messages.all.filter { $0.contains("A context") } == [])
        #expect(messages.all.last?.contains("has ended") == true, "\(messages.all)")
        context.close()
        try store.close()
        try shared.expectUntouched()
    }

    /// No body is called again and again, or is said to have failed, because the file may not be written to.
    @Test(arguments: ["frame.kind", "a declared member that stops writers"])
    func aTrackerEndsWithUnsupportedVersion(_ name: String) async throws {
        let shared = try Shared()
        let (store, other) = (try shared.open(.mapped), try shared.open(.mapped))
        let calls = Calls()
        let tracker = try HistoryTracker(
            store: store, currentAuthor: "app", allAuthors: [], autoStart: false,
            deduplicator: { (_, context) in
                calls.note("deduplicator")
                _ = context.insert(Card(title: "made"))
                // The newest moment before what it makes is saved.
                try shared.becomeNewer(name)
            })
        tracker.observe(Card.self, [.insert]) { _ in calls.note("observer") }
        try await other.write(author: "share") { try $0.insert(Card(title: "one")) }
        try other.close()
        do {
            try await tracker.run()
            Issue.record("The tracker was not ended.")
        } catch let error as StoreError {
            #expect(error.code == .unsupportedVersion)
        }
        #expect(calls.all == ["observer", "deduplicator"])
        #expect(tracker.metrics.lastError?.code == .unsupportedVersion)
        try store.close()
        try shared.expectUntouched()
    }
}
