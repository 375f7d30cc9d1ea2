// Where a store is: odd names and paths, and directories that get other names or change places.

import Annals
import FoundationEssentials
import Glibc
import TestSupport
import Testing

@Suite struct StorePlaceTests {
    @Test(arguments: OddNames.all) func aStoreOfAnOddNameIsCompacted(_ name: String) throws {
        let folder = try TemporaryDirectory()
        let path = folder.path(name)
        let store = try Store(at: path, entities: [SampleClip.self])
        let other = try Store(at: path, entities: [SampleClip.self])
        for rank in 1...20 { try other.write { try $0.insert(SampleClip(url: "\(rank)")) } }
        for _ in 1...3 {
            _ = try store.compact()
            let (added, _) = try other.write { try $0.insert(SampleClip(url: "after")) }
            try other.write { try $0.delete(added) }
        }
        #expect(folder.names == [name])
        for store in [store, other] {
            #expect(try store.snapshot().fetch(SampleClip.self).count == 20)
            try store.close()
        }
        try expectIntact(path)
    }

    /// The folder is named as the store's name has more bytes than characters.
    @Test func twoStoresWhoseFoldersDifferByTheBytesOfTheirNameAreCompacted() throws {
        let folder = try TemporaryDirectory()
        let name = "ä.annals"
        let stores = try ["1", "10"].map { directory in
            mkdir(folder.path(directory), 0o700)
            let store = try Store(at: folder.path(directory + "/" + name), entities: [SampleClip.self])
            try store.write { try $0.insert(SampleClip(url: directory)) }
            return store
        }
        _ = try stores[1].compact()
        _ = try stores[0].compact()
        for (directory, store) in zip(["1", "10"], stores) {
            #expect(try store.snapshot().fetch(SampleClip.self).map(\.url) == [directory])
            try store.close()
            try expectIntact(store.path)
        }
        #expect(TemporaryDirectory.names(in: folder.path("1")) == [name])
        #expect(TemporaryDirectory.names(in: folder.path("10")) == [name])
    }

    /// Two folders with a store of the same name change places while both stores are open.
    @Test func storesOfSwappedDirectoriesAreCompactedInPlace() throws {
        let folder = try TemporaryDirectory()
        let stores = try ["a", "b"].map { directory in
            mkdir(folder.path(directory), 0o700)
            let store = try Store(at: folder.path(directory + "/s.annals"), entities: [SampleClip.self])
            try store.write { try $0.insert(SampleClip(url: directory)) }
            return store
        }
        for (from, to) in [("a", "c"), ("b", "a"), ("c", "b")] {
            #expect(rename(folder.path(from), folder.path(to)) == 0)
        }
        for store in stores { _ = try store.compact() }
        for (directory, store) in zip(["a", "b"], stores) {
            try store.write { try $0.insert(SampleClip(url: directory + "2")) }
            #expect(try store.snapshot().fetch(SampleClip.self).map(\.url) == [directory, directory + "2"])
            try store.close()
        }
        for (directory, there) in [("a", "b"), ("b", "a")] {
            let path = folder.path(there + "/s.annals")
            let store = try Store(at: path, entities: [SampleClip.self])
            #expect(try store.snapshot().fetch(SampleClip.self).map(\.url) == [directory, directory + "2"])
            try store.close()
            try expectIntact(path)
            #expect(TemporaryDirectory.names(in: folder.path(there)) == ["s.annals"])
        }
    }

    /// Needs root, to run the tool as somebody else.
    @Test(.enabled(if: getuid() == 0 && access("/usr/bin/setpriv", X_OK) == 0))
    func theErrorNamesTheUsersWhoMayCompact() throws {
        let folder = try TemporaryDirectory()
        let path = folder.path("s.annals")
        let store = try Store(at: path, entities: [SampleClip.self])
        try store.write { _ = try $0.insert(SampleClip(url: "1")) }
        chmod(folder.path, 0o777)
        chmod(path, 0o666)
        func run(_ arguments: String...) throws -> ToolRun {
            let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups", toolPath("annals")]
            return try runTool(user + arguments, name: "/usr/bin/setpriv")
        }
        guard try run("help").status == 0 else { return print("SKIPPED: another user may not run the tool") }
        #expect(try run("insert", path, "SampleClip", "url=\"2\"").status == 0)
        let compacted = try run("compact", path)
        #expect(compacted.status == 1)
        #expect(compacted.errors.contains("Only that user or root can compact the store"), "\(compacted.errors)")
        #expect(folder.names == ["s.annals"])
        _ = try store.compact()
        #expect(try run("insert", path, "SampleClip", "url=\"3\"").status == 0)
        #expect(try store.snapshot().count(SampleClip.self) == 3)
        try store.close()
        try expectIntact(path)
    }

    /// A holder stays with its store, whatever is at the path by which it was opened.
    @Test func aHolderFollowsACompactionInARenamedDirectory() throws {
        let folder = try TemporaryDirectory()
        mkdir(folder.path("old"), 0o700)
        let path = folder.path("old/s.annals")
        let holder = try Store(at: path, entities: [SampleClip.self])
        try holder.write { try $0.insert(SampleClip(url: "1")) }
        try holder.backup(to: folder.path("backup"))
        #expect(rename(folder.path("old"), folder.path("new")) == 0)
        mkdir(folder.path("old"), 0o700)
        #expect(rename(folder.path("backup"), path) == 0)
        let other = try Store(at: folder.path("new/s.annals"), entities: [SampleClip.self])
        _ = try other.compact()
        try other.write { try $0.insert(SampleClip(url: "2")) }
        try holder.write { try $0.insert(SampleClip(url: "3")) }
        #expect(try holder.snapshot().fetch(SampleClip.self).map(\.url) == ["1", "2", "3"])
        #expect(try other.snapshot().fetch(SampleClip.self).map(\.url) == ["1", "2", "3"])
        let backup = try Store(at: path, entities: [SampleClip.self])
        #expect(try backup.snapshot().fetch(SampleClip.self).map(\.url) == ["1"])
        for store in [holder, other, backup] { try store.close() }
        for path in [path, folder.path("new/s.annals")] {
            try expectIntact(path)
        }
    }

    // MARK: Directories that are missing

    /// Expects that the message names the directory that is the cause, and no other.
    private func expectNamed(
        _ directory: String, _ reason: String, sourceLocation: SourceLocation = #_sourceLocation,
        _ body: () throws -> Void
    ) {
        let error = expect(.notFound, sourceLocation: sourceLocation, body)
        #expect(
            error?.message.contains("“\(directory)” \(reason)") ?? false, "\(error?.description ?? "")",
            sourceLocation: sourceLocation)
        #expect(error?.path?.hasSuffix("/s.annals") ?? false, sourceLocation: sourceLocation)
    }

    @Test func aMissingDirectoryIsNamed() throws {
        let folder = try TemporaryDirectory()
        let store = try Store(at: folder.path("store"), entities: [SampleClip.self])
        symlink(folder.path("nowhere"), folder.path("link"))
        let missing = "does not exist: create it, or check the path."
        for (path, directory, reason) in [
            ("missing/s.annals", "missing", missing), ("missing/below/s.annals", "missing", missing),
            ("./missing/../s.annals", "./missing", missing),
            ("store/s.annals", "store", "is not a directory: check the path."),
            ("store/below/s.annals", "store", "is not a directory"),
            ("link/s.annals", "link", "is a symbolic link that leads nowhere"),
        ] {
            let (path, directory) = (folder.path(path), folder.path(directory))
            var reader = Store.Options()
            reader.access = .readOnly
            expectNamed(directory, reason) { _ = try Store(at: path, entities: [SampleClip.self]) }
            expectNamed(directory, reason) { _ = try Store(at: path, options: reader) }
            expectNamed(directory, reason) { try store.backup(to: path) }
            expectNamed(directory, reason) { _ = try Store.salvage(from: store.path, to: path) }
            expectNamed(directory, reason) { _ = try Store.salvage(from: path, to: folder.path("new")) }
            expectNamed(directory, reason) { try Store.destroy(at: path) }
        }
        try store.close()
        #expect(folder.names.sorted() == ["link", "store"])
        let run = try runTool(["load", "missing/s.annals", "-", "--entity", "Item"], input: "{}")
        #expect(run.errors == "annals: The directory “missing” \(missing) [missing/s.annals]\n")
    }
}
