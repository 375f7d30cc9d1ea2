// The table “Moved and replaced files” of the guide Concurrency, row by row: other processes rename, copy, replace
// and remove while handles of this one are open.

import Annals
import FoundationEssentials
import Glibc
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(20))) struct PlaceTableTests {
    enum Happening: String, CaseIterable {
        case directoryRenamed, directoriesSwapped, fileRenamed, fileRenamedAndBack, fileRemoved, compacted
        case backupPutBack, copyPutBack, olderCopyPutBack, otherStorePutThere, newStorePutThere, overwritten
        case otherFilePutThere, shortFilePutThere, emptyFilePutThere, directoryPutThere, linkPutThere
        case directoryMadeAgain, secondName
    }

    /// What a handle for reading shows.
    enum Reading: Equatable {
        /// It shows what others write afterwards, within about a second.
        case goesOn
        /// What was there, and no error.
        case keepsWhatWasRead
        case fails(StoreError.Code)
    }

    /// What a handle for reading gets, and what writing and compacting throw, if anything. A handle for writing reads
    /// as one for reading does, unless `readingOfWriters` says otherwise.
    struct Row {
        var reading: Reading
        var readingOfWriters: Reading?
        var writing: StoreError.Code?
    }

    private static func row(_ happening: Happening) -> Row {
        switch happening {
        case .directoryRenamed, .directoriesSwapped, .fileRenamedAndBack, .compacted, .backupPutBack:
            Row(reading: .goesOn)
        case .fileRenamed, .fileRemoved, .directoryMadeAgain:
            Row(reading: .keepsWhatWasRead, writing: .storeRemoved)
        case .copyPutBack:
            Row(reading: .goesOn, readingOfWriters: .fails(.storeReplaced), writing: .storeReplaced)
        case .olderCopyPutBack, .otherStorePutThere, .newStorePutThere, .overwritten, .otherFilePutThere,
            .shortFilePutThere, .emptyFilePutThere, .directoryPutThere, .linkPutThere:
            Row(reading: .fails(.storeReplaced), writing: .storeReplaced)
        case .secondName: Row(reading: .keepsWhatWasRead, writing: .hardLinked)
        }
    }

    private let folder: TemporaryDirectory
    private var directory: String { folder.path("d") }
    private var path: String { folder.path("d/s.annals") }

    init() throws {
        folder = try TemporaryDirectory()
        mkdir(directory, 0o700)
    }

    private func run(_ program: String, _ arguments: String...) throws {
        let run = try runTool(arguments, name: program)
        guard run.status == 0 else { throw OracleDifference("\(program) \(arguments): \(run.errors)") }
    }

    private func insert(_ title: String, in store: Store) throws {
        try store.write { _ = try $0.insert(SampleClip(title: title, url: title)) }
    }

    private func insert(_ title: String, at path: String) throws {
        try run("annals", "insert", path, "SampleClip", "title=\"\(title)\"", "url=\"\(title)\"")
    }

    /// What others do to the place. Returns the path by which others find the store then; nil if there is none that
    /// they could write.
    private func happen(_ happening: Happening) throws -> String? {
        let (copy, other) = (folder.path("copy"), folder.path("other"))
        switch happening {
        case .directoryRenamed:
            try run("/bin/mv", directory, other)
            return other + "/s.annals"
        case .directoriesSwapped:
            mkdir(other, 0o700)
            try Store(at: other + "/s.annals", entities: [SampleClip.self]).close()
            try run("/bin/mv", directory, copy)
            try run("/bin/mv", other, directory)
            try run("/bin/mv", copy, other)
            return other + "/s.annals"
        case .fileRenamed: try run("/bin/mv", path, path + ".away")
        case .fileRenamedAndBack:
            try run("/bin/mv", path, path + ".away")
            try run("/bin/mv", path + ".away", path)
            return path
        case .fileRemoved: try run("/bin/rm", path)
        case .compacted:
            try run("annals", "compact", path)
            return path
        case .backupPutBack:
            try run("annals", "backup", path, copy)
            try run("/bin/mv", copy, path)
            return path
        case .copyPutBack:
            try run("/bin/cp", path, copy)
            try run("/bin/mv", copy, path)
            return path
        case .olderCopyPutBack:
            // Of before the last transaction.
            try run("/bin/mv", folder.path("older"), path)
            return path
        case .otherStorePutThere, .newStorePutThere:
            let path = happening == .newStorePutThere ? self.path : other
            if happening == .newStorePutThere { try run("/bin/rm", path) }
            let store = try Store(at: path, entities: [SampleClip.self])
            for number in 0..<9 { try store.write { try $0.insert(SampleClip(title: "other", url: "\(number)")) } }
            try store.close()
            if happening == .otherStorePutThere { try run("/bin/mv", other, self.path) }
            return self.path
        case .overwritten:
            let store = try Store(at: other, entities: [SampleClip.self])
            for number in 0..<9 { try store.write { try $0.insert(SampleClip(title: "other", url: "\(number)")) } }
            try store.close()
            try run("/bin/cp", other, path)
        case .otherFilePutThere:
            try folder.write(String(repeating: "no store\n", count: 10_000), to: "other")
            try run("/bin/mv", other, path)
        case .shortFilePutThere, .emptyFilePutThere:
            // The first bytes of a store, or none.
            try run("/bin/cp", path, other)
            truncate(other, happening == .emptyFilePutThere ? 0 : 100)
            try run("/bin/mv", other, path)
        case .directoryPutThere:
            try run("/bin/rm", path)
            mkdir(path, 0o700)
        case .linkPutThere:
            try run("/bin/mv", path, other)
            symlink(other, path)
        case .directoryMadeAgain:
            try run("/bin/rm", "-r", directory)
            mkdir(directory, 0o700)
            try Store(at: path, entities: [SampleClip.self]).close()
        case .secondName: try run("/bin/ln", path, path + ".second")
        }
        return nil
    }

    private func open(_ access: Store.Access) throws -> Store {
        var options = Store.Options()
        options.access = access
        // A file that is written over may become shorter for a moment.
        options.reading = .copied
        return try Store(at: path, entities: [SampleClip.self], options: options)
    }

    private func reading(_ store: Store, _ wanted: Reading) throws -> Reading {
        let deadline = ContinuousClock.now + .seconds(wanted == .keepsWhatWasRead ? 2 : 60)
        var looks = 0
        // Beside many other tests, whole seconds pass between two looks.
        while looks < 20 || ContinuousClock.now < deadline {
            looks += 1
            do {
                let titles = try store.snapshot().fetch(SampleClip.self).map(\.title)
                if titles == ["one", "two", "after"] { return .goesOn }
                if titles != ["one", "two"] { throw OracleDifference("\(titles)") }
            } catch let error as StoreError { return .fails(error.code) }
            usleep(50_000)
        }
        return .keepsWhatWasRead
    }

    private func code(_ body: () throws -> Void) throws -> StoreError.Code? {
        do { try body() } catch let error as StoreError {
            #expect(error.message.contains(":"), "It says what to do: \(error)")
            return error.code
        }
        return nil
    }

    @Test(arguments: Happening.allCases) func everyRowOfTheTableHolds(_ happening: Happening) throws {
        let row = Self.row(happening)
        let writer = try open(.readWrite)
        try insert("one", in: writer)
        try run("/bin/cp", path, folder.path("older"))
        try insert("two", in: writer)
        let (compactor, reader, follower) = (try open(.readWrite), try open(.readOnly), try open(.readWrite))
        for store in [compactor, reader, follower] { #expect(try store.snapshot().count(SampleClip.self) == 2) }
        if let path = try happen(happening), row.reading == .goesOn { try insert("after", at: path) }
        #expect(try reading(reader, row.reading) == row.reading)
        let wanted = row.readingOfWriters ?? row.reading
        #expect(try reading(follower, wanted) == wanted)
        let written = try code { try insert("three", in: writer) }
        #expect(written == row.writing)
        let compacted = try code { _ = try compactor.compact() }
        #expect(compacted == row.writing)
        if row.writing == nil {
            // All of them are in one file.
            for store in [compactor, follower] { #expect(try store.snapshot().count(SampleClip.self) == 4) }
        }
        for store in [writer, compactor, reader, follower] { try? store.close() }
    }

    /// Every call of an open handle says the same. Only opening looks at the file as at a stranger.
    @Test(arguments: [Happening.otherStorePutThere, .otherFilePutThere, .emptyFilePutThere, .directoryPutThere])
    func everyCallOfAnOpenHandleReportsAReplacedFile(_ happening: Happening) throws {
        var options = Store.Options()
        options.durability = .relaxed
        let store = try Store(at: path, entities: [SampleClip.self], options: options)
        try insert("one", in: store)
        let before = try store.currentToken
        _ = try happen(happening)
        let started = ContinuousClock.now
        while ContinuousClock.now - started < .seconds(1.5) { usleep(50_000) }
        let calls: [() throws -> Void] = [
            { _ = try store.snapshot() }, { _ = try store.history(after: before.number) },
            { try store.backup(to: folder.path("backup")) }, { try store.setMetadata(1, for: "k") },
            { try store.changeSchema([.addEntity(EntityDescription("E", attributes: []))]) },
        ]
        for (index, call) in calls.enumerated() {
            #expect(try code(call) == .storeReplaced, "\(index)")
        }
        // Closes without an error: what was committed is durable in the file that lost the name.
        #expect(try store.abandon() == false && access(path, F_OK) == 0)
        let opened: StoreError.Code? =
            switch happening {
            case .otherStorePutThere: nil
            case .directoryPutThere: .notARegularFile
            default: .notAStore
            }
        #expect(try code { try Store(at: path, entities: [SampleClip.self]).close() } == opened)
    }
}
