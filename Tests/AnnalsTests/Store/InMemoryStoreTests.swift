// Stores in memory: all that a store in a file does, nothing left behind, and other handles beside it.

import Annals
import Foundation
import Glibc
import Synchronization
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(20))) struct InMemoryStoreTests {
    @Test func structsAreWrittenAndFetched() throws {
        let store = try Store(inMemory: [Shelf.self, Book.self, Tag.self])
        #expect(store.isInMemory && store.path.hasPrefix("memory:/"))
        let (shelf, _) = try store.write(author: "app") { transaction in
            let shelf = try transaction.insert(Shelf(name: "A"))
            for number in 0..<100 {
                try transaction.insert(Book(title: "T\(number)", isbn: "i\(number)", pages: number, shelf: shelf))
            }
            return shelf
        }
        try store.update(Book.self, where: #Predicate { $0.pages >= 90 }, author: "app") { $0.price = 2 }
        let snapshot = try store.snapshot()
        #expect(try snapshot.fetch(Book.self, where: #Predicate { $0.price == 2 }).count == 10)
        expect(.uniqueViolation) { try store.write { _ = try $0.insert(Book(title: "x", isbn: "i1")) } }
        try store.write { try $0.delete(shelf) }
        #expect(try store.snapshot().count(of: "Book") == 0 && snapshot.count(of: "Book") == 100)
        let gone = try store.changes(HistoryRequest(kinds: [.delete])).compactMap { $0.tombstone(of: Book.self) }
        #expect(gone.count == 100 && gone[0][\.isbn] == "i0")
        try store.close()
        try expectIntact(store.path)
    }

    @Test func historyIsReadByConsumersCleanedAndCompacted() throws {
        let store = try Store(inMemory: [Sample.clip])
        let start = try store.currentToken
        try store.registerConsumer("reader", at: start)
        var token = start
        for round in 0..<50 {
            token = try #require(
                try store.writeOptimistically(author: "app") { transaction in
                    for _ in 0..<20 { try transaction.insert("Clip", ["title": .string("\(round)")]) }
                }.token)
        }
        #expect(try store.history(after: start).count == 50)
        #expect(try store.snapshot(asOf: start.number + 10).count(of: "Clip") == 200)
        try store.advanceConsumer("reader", from: start, to: token)
        try store.deleteHistory(before: token)
        expect(.tokenExpired) { try store.history(after: start) }
        let snapshot = try store.snapshot()
        let result = try store.compact()
        #expect(result.horizon == token.number - 1)
        #expect(try snapshot.count(of: "Clip") == 1000 && store.snapshot().count(of: "Clip") == 1000)
        try store.writeOptimistically { try $0.insert("Clip", [:]) }
        let other = try Store(at: store.path)
        #expect(try other.snapshot().count(of: "Clip") == 1001 && other.identifier == store.identifier)
        try other.close()
        try store.close()
        try expectIntact(store.path)
    }

    /// The second handle has a lock, a position and an index of its own, as another process has.
    @Test func severalHandlesWriteAndSignalEachOther() throws {
        let store = try Store(inMemory: [Sample.clip])
        let other = try Store(at: store.path)
        let watcher = try store.changeWatcher(excluding: ["app"])
        let threads = try [store, other].enumerated().map { number, handle in
            try BackgroundThread(name: "writes \(number)") {
                for _ in 0..<200 {
                    _ = try? handle.write(author: number == 0 ? "app" : "other") { transaction in
                        try transaction.insert("Clip", ["rank": .int(Int64(number))])
                    }
                }
            }
        }
        var heard = 0
        while heard < 200, let signal = try watcher.next(timeout: .seconds(60)) {
            let (first, last) = (signal.numbers.lowerBound, signal.numbers.upperBound)
            let request = HistoryRequest(after: .number(first - 1), before: .number(last + 1), authors: ["other"])
            heard += try store.transactionCount(request)
        }
        for thread in threads { thread.join() }
        #expect(heard == 200)
        for handle in [store, other] { #expect(try handle.snapshot().count(of: "Clip") == 400) }
        // What one handle compacts the other goes on with.
        try other.deleteHistory(before: .max)
        try other.compact()
        try store.writeOptimistically { try $0.insert("Clip", [:]) }
        #expect(try other.snapshot().count(of: "Clip") == 401)
        try store.close()
        #expect(try other.snapshot().count(of: "Clip") == 401)
        try other.close()
        try expectIntact(store.path)
    }

    @Test func theLockHoldsBetweenHandles() throws {
        let store = try Store(inMemory: [Sample.clip])
        var options = Store.Options()
        options.lockTimeout = .milliseconds(20)
        let other = try Store(at: store.path, options: options)
        try store.write { transaction in
            try transaction.insert("Clip", [:])
            expect(.busy) { try other.writeOptimistically { try $0.insert("Clip", [:]) } }
        }
        try other.writeOptimistically { try $0.insert("Clip", [:]) }
        #expect(try store.snapshot().count(of: "Clip") == 2)
        try store.close()
        try other.close()
        try expectIntact(store.path)
    }

    @Test func largeTransactionsAndValuesNeedNoDisk() throws {
        let folder = try TemporaryDirectory()
        let blob = EntityDescription("Blob", attributes: [AttributeDescription("data", .data)])
        let store = try Store(inMemory: [blob])
        let data = Data(repeating: 7, count: 3 << 20)
        let (id, _) = try store.writeOptimistically { transaction in
            for _ in 0..<10_000 { try transaction.insert("Blob", ["data": .data(Data(repeating: 1, count: 1500))]) }
            return try transaction.insert("Blob", ["data": .data(data)])
        }
        #expect(try store.snapshot().row(id)?.value("data").data?.count == 3 << 20)
        // A backup is a file.
        try store.backup(to: folder.path("s.annals"))
        let copy = try Store(at: folder.path("s.annals"))
        #expect(!copy.isInMemory)
        #expect(try copy.snapshot().count(of: "Blob") == 10_001 && copy.snapshot().row(id) == store.snapshot().row(id))
        try copy.close()
        try expectIntact(folder.path("s.annals"))
        #expect(folder.names == ["s.annals"])
        try store.close()
        try expectIntact(store.path)
    }

    @Test func aStoreInMemoryCanBeReadByCopiesAndReadOnly() throws {
        let store = try Store(inMemory: [Sample.clip])
        try store.writeOptimistically { try $0.insert("Clip", [:]) }
        var options = Store.Options()
        options.reading = .copied
        options.access = .readOnly
        let reader = try Store(at: store.path, options: options)
        #expect(try reader.snapshot().count(of: "Clip") == 1)
        expect(.readOnly) { try reader.writeOptimistically { try $0.insert("Clip", [:]) } }
        try reader.close()
        try store.close()
        try expectIntact(store.path)
    }

    // MARK: Its life

    /// How many open files of this process have this name.
    private func openFiles(of path: String) -> Int {
        let directory = path.split(separator: "/").dropLast().joined(separator: "/")
        return (0..<1024).count { number in
            var bytes = [CChar](repeating: 0, count: 256)
            let count = readlink("/proc/self/fd/\(number)", &bytes, 255)
            let link = String(decoding: bytes.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
            return link == "/memfd:\(directory) (deleted)"
        }
    }

    @Test func aStoreInMemoryVanishesWithItsLastHandle() throws {
        var store: Store? = try Store(inMemory: [Sample.clip])
        let path = try #require(store?.path)
        try store?.writeOptimistically { try $0.insert("Clip", [:]) }
        #expect(openFiles(of: path) > 1)
        // Closed, it can be opened again.
        try store?.close()
        var second: Store? = try Store(at: path)
        #expect(try second?.snapshot().count(of: "Clip") == 1)
        store = nil
        #expect(try second?.snapshot().count(of: "Clip") == 1)
        var snapshot = try second?.snapshot()
        second = nil
        #expect(try snapshot?.count(of: "Clip") == 1)
        snapshot = nil
        #expect(openFiles(of: path) == 0)
        #expect(expect(.notFound) { try Store(at: path) }?.message.contains("Store(inMemory:)") == true)
        expect(.notFound) { try Store.destroy(at: path) }
    }

    @Test func aStoreInMemoryCanBeDestroyed() throws {
        let store = try Store(inMemory: [Sample.clip])
        try Store.destroy(at: store.path)
        expect(.storeRemoved) { try store.writeOptimistically { try $0.insert("Clip", [:]) } }
        let another = try Store(at: store.path, entities: [Sample.clip])
        #expect(another.identifier != store.identifier)
        try another.close()
        try expectIntact(another.path)
        var options = Store.Options()
        options.createsIfMissing = false
        expect(.notFound) { try Store(inMemory: [Sample.clip], options: options) }
    }

    @Test func mistakesInTypesLeaveNothing() throws {
        let twice = [Sample.clip, Sample.clip]
        #expect(throws: StoreError.self) { try Store(inMemory: twice) }
        expect(.modelInvalid) { try Store(inMemory: [Broken.self]) }
        let path = "memory:/1000000/store"
        expect(.notFound) { try Store(at: path, entities: [Sample.clip]) }
        expect(.notFound) { try Store(at: "memory:/", entities: [Sample.clip]) }
        expect(.notFound) { try Store(at: "memory:/../store", entities: [Sample.clip]) }
    }

    private struct Broken: Entity {
        var pair = (1, 2)
    }
}
