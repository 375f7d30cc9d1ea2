// A store that is removed takes with it what killed programs have left beside it, and nothing else.

import Annals
import Glibc
import TestSupport
import Testing

@Suite struct DestroyTests {
    let folder: StoreFolder
    private static let leftover = "s.annals.compacting"
    private static let unfinished = [".s.annals.annals-backup", ".s.annals.annals-salvage"]

    init() throws { folder = try StoreFolder() }

    private func fill() throws -> Store {
        let store = try folder.open([Sample.clip])
        for index in 1...50 {
            try store.writeOptimistically {
                try $0.insert("Clip", ["title": .string(String(repeating: "\(index) ", count: 9000))])
            }
        }
        return store
    }

    /// Keeps the file of a compaction that goes no further under another name: the store would remove it.
    private func keepLeftover(of store: Store) throws {
        let (temporary, kept) = (folder.temporary.path(Self.leftover), folder.temporary.path("kept"))
        expect(.cancelled) {
            try store.compact { (_) in
                _ = link(temporary, kept)
                return false
            }
        }
    }

    /// What a kill would have left.
    private func putLeftover() {
        #expect(rename(folder.temporary.path("kept"), folder.temporary.path(Self.leftover)) == 0)
    }

    @Test(arguments: [false, true]) func filesOfKilledProgramsAreDestroyedWithTheStore(isRestored: Bool) throws {
        let store = try fill()
        let copy = folder.temporary.path("copy")
        try store.backup(to: copy)
        try keepLeftover(of: store)
        try store.close()
        putLeftover()
        if isRestored { #expect(rename(copy, folder.path) == 0) } else { #expect(unlink(copy) == 0) }
        for name in Self.unfinished { try folder.temporary.write("unfinished", to: name) }
        try Store.destroy(at: folder.path)
        #expect(folder.temporary.names == [])
    }

    @Test func filesOfKilledProgramsAreRemovedWithAnAbandonedStore() throws {
        let store = try folder.open([Sample.clip])
        try keepLeftover(of: store)
        putLeftover()
        #expect(try store.abandon(ownTransactions: 1))
        #expect(folder.temporary.names == [])
    }

    @Test func theNextStoreOfThatNameIsCompacted() throws {
        let store = try fill()
        try keepLeftover(of: store)
        try store.close()
        putLeftover()
        // Not by `destroy`, so the leftover stays.
        #expect(unlink(folder.path) == 0)
        let next = try fill()
        #expect(folder.temporary.names.sorted() == ["s.annals", Self.leftover])
        try next.compact()
        try next.close()
        try folder.expectIntact()
    }

    @Test func filesThatAreNotTheStoresStay() throws {
        let store = try fill()
        try store.close()
        try folder.temporary.write("Notes of a person", to: Self.leftover)
        #expect(mkdir(folder.temporary.path(Self.unfinished[0]), 0o700) == 0)
        try Store.destroy(at: folder.path)
        #expect(folder.temporary.names.sorted() == [Self.unfinished[0], Self.leftover])
    }

    @Test func aStoreThatIsBeingCompactedStays() throws {
        let store = try fill()
        let path = folder.path
        try store.compact { (_) in
            let error = expect(.busy) { try Store.destroy(at: path) }
            #expect(error?.message.contains("is compacting the store") == true)
            return true
        }
        #expect(try store.snapshot().count(of: "Clip") == 50)
        try store.close()
        try folder.expectIntact()
        try Store.destroy(at: path)
        #expect(folder.temporary.names == [])
    }

    /// A backup to the store's name began before the store was created there.
    @Test func aBackupThatIsUnderWayStays() throws {
        let source = try fill()
        let (path, temporary) = (folder.temporary.path("new"), folder.temporary)
        let error = #expect(throws: StoreError.self) {
            try source.backup(to: path) { (_) in
                if !temporary.names.contains("new") {
                    do {
                        try Store(at: path).close()
                        try Store.destroy(at: path)
                        #expect(temporary.names.sorted() == [".new.annals-backup", "s.annals"])
                    } catch { Issue.record(error) }
                }
                return false
            }
        }
        #expect(error?.code == .cancelled)
        try source.close()
        try folder.expectIntact()
    }
}
