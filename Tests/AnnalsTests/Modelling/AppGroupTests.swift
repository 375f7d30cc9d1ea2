// What the programs of a group share: a folder, and settings by keys.

import Annals
import Foundation
import Synchronization
import TestSupport
import Testing

@Suite struct AppGroupTests {
    private let folder: StoreFolder
    private let group: AppGroup

    init() throws {
        folder = try StoreFolder()
        group = try AppGroup("org.example.group", in: folder.temporary.path + "/data")
    }

    private func end() throws {
        try expectIntact(group.storePath(named: "settings"))
        try FileManager.default.removeItem(atPath: folder.temporary.path + "/data")
    }

    private func mode(_ path: String) -> mode_t {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_mode & 0o7777 : 0
    }

    private struct Window: Codable, Equatable {
        var width = 0
        var titles: [String] = []
    }

    @Test func settingsAreSharedByKey() throws {
        let settings = try group.settings
        #expect(try group.settings === settings && settings.keys.isEmpty)
        #expect(try settings.value(for: "window", as: Window.self) == nil)
        let window = Window(width: 3, titles: ["ä", "b"])
        try settings.set(window, for: "window")
        try settings.set(12, for: "size")
        #expect(try settings.value(for: "window") == window && settings.keys == ["size", "window"])
        expect(.typeMismatch) { try settings.value(for: "window", as: Int.self) }
        expect(.invalidArgument) { try settings.set(1, for: "") }
        expect(.invalidArgument) { try settings.set(1, for: "_annals.x") }
        // Another program sees them; here another handle stands for it.
        let store = try Store(at: group.storePath(named: "settings"))
        #expect(try store.metadata("size", as: Int.self) == 12)
        try store.setMetadata(13, for: "size")
        #expect(try settings.value(for: "size") == 13)
        try settings.set(nil as Int?, for: "size")
        #expect(try settings.value(for: "size", as: Int.self) == nil && settings.keys == ["window"])
        try store.close()
        try end()
    }

    @Test func changesAreMadeTogetherOrNotAtAll() throws {
        struct Stop: Error {}
        let settings = try group.settings
        try settings.update { changes in
            try changes.set(1, for: "a")
            try changes.set(2, for: "b")
            #expect(try changes.value(for: "a") == 1)
        }
        #expect(throws: Stop.self) {
            try settings.update { changes in
                try changes.set(nil as Int?, for: "a")
                #expect(try changes.value(for: "a", as: Int.self) == nil && changes.value(for: "b") == 2)
                try changes.set(3, for: "a")
                #expect(try changes.value(for: "a") == 3)
                throw Stop()
            }
        }
        #expect(try settings.value(for: "a") == 1)
        // Counting from several threads and two handles: nothing is lost.
        let store = try Store(at: group.storePath(named: "settings"))
        DispatchQueue.concurrentPerform(iterations: 4) { thread in
            for _ in 0..<25 {
                do {
                    if thread % 2 == 0 {
                        try settings.update { try $0.set(($0.value(for: "a") ?? 0) + 1, for: "a") }
                    } else {
                        try store.write { try $0.setMetadata(($0.metadata("a", as: Int.self) ?? 0) + 1, for: "a") }
                    }
                } catch { Issue.record(error) }
            }
        }
        #expect(try settings.value(for: "a") == 101)
        try store.close()
        try end()
    }

    @Test func aKeyIsFollowed() async throws {
        let settings = try group.settings
        let (seen, ended) = AsyncStream<Int?>.makeStream()
        let task = Task {
            for try await size in settings.values(for: "size", as: Int.self) { ended.yield(size) }
            ended.finish()
        }
        var values = seen.makeAsyncIterator()
        #expect(await values.next() == .some(nil))
        for size in [1, 2, nil, 4] {
            // Changes of other keys, and the same value once more, are none of this one.
            try settings.set(size, for: "other")
            try settings.set(size, for: "size")
            try settings.set(size, for: "size")
            #expect(await values.next() == .some(size))
        }
        task.cancel()
        #expect(await values.next() == nil)
        try await task.value
        // What cannot be read ends it with the reason.
        try settings.set("text", for: "size")
        await #expect(throws: StoreError.self) {
            for try await _ in settings.values(for: "size", as: Int.self) {}
        }
        try end()
    }

    @Test func aFolderIsSharedByAGroupOfUsers() throws {
        let data = folder.temporary.path + "/data"
        let shared = try AppGroup("org.example.shared", in: data, sharing: .group)
        #expect(mode(shared.path) == 0o2770 && mode(group.path) == 0o700)
        try shared.settings.set(1, for: "a")
        #expect(mode(shared.storePath(named: "settings")) == 0o660)
        var options = Store.Options()
        options.sharing = .group
        let store = try Store(at: shared.storePath(named: "Notes"), entities: [Sample.clip], options: options)
        try store.writeOptimistically { try $0.insert("Clip", ["rank": 1]) }
        try store.compact()
        #expect(mode(store.path) == 0o660)
        try store.close()
        try group.settings.set(1, for: "a")
        #expect(mode(group.storePath(named: "settings")) == 0o600)
        try end()
    }

    @Test func onlyFlatpaksOwnFolderIsPrivate() {
        let inside = ["HOME": "/home/u", "FLATPAK_ID": "org.example.App"]
        let data = "/home/u/.var/app/org.example.App/data"
        #expect(DataFolder(inside.merging(["XDG_DATA_HOME": data]) { $1 }).isPrivateToFlatpak)
        // The host's folder, which the application was given.
        #expect(!DataFolder(inside.merging(["XDG_DATA_HOME": "/home/u/.local/share"]) { $1 }).isPrivateToFlatpak)
        let outside = DataFolder(["HOME": "/home/u", "XDG_DATA_HOME": "relative"])
        #expect(outside.path == "/home/u/.local/share" && !outside.isPrivateToFlatpak)
        #expect(DataFolder(["XDG_DATA_HOME": "/data"]).path == "/data")
    }
}
