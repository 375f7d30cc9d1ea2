// Signals of changes: every transaction exactly once and in order, whoever commits and whatever becomes of the watch.

import Annals
import Foundation
import Glibc
import Synchronization
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(20))) struct ChangeSignalTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    static let clip = EntityDescription(
        "Clip", attributes: [AttributeDescription("title", .string, isOptional: false, defaultValue: "untitled")])

    /// A store whose first transaction made its entity.
    func made(hub: ChangeHub? = nil) throws -> Store { try folder.open([Self.clip]) { $0.hub = hub } }

    func insert(_ count: Int = 1, author: String? = nil, _ store: Store) throws {
        for _ in 0..<count {
            try store.writeOptimistically(author: author) { try $0.insert("Clip", ["title": "t"]) }
        }
    }

    func insert(_ store: Store) throws { try insert(1, store) }

    /// Starts a process that commits.
    func writer(_ count: Int, _ author: String, durability: String = "relaxed") throws -> RunningTool {
        try RunningTool(["commit", folder.path, String(count), author, durability], name: "crash-helper")
    }

    /// The signals up to a number, which must follow each other.
    func signals(_ watcher: ChangeWatcher, through last: UInt64) throws -> [ChangeSignal] {
        var all: [ChangeSignal] = []
        var next = watcher.position + 1
        while watcher.position < last {
            let signal = try #require(try watcher.next(timeout: .seconds(600)), "nothing comes after \(next - 1)")
            #expect(signal.numbers.lowerBound == next && signal.token.number == signal.numbers.upperBound)
            next = signal.numbers.upperBound + 1
            all.append(signal)
        }
        return all
    }

    // MARK: Stores that are no longer open here

    @Test func aWatcherOfAClosedStoreThrowsClosedDespiteCleaning() throws {
        let store = try made()
        try insert(10, store)
        let watcher = try store.changeWatcher(after: .number(0))
        try store.deleteHistory(before: 6)
        try store.close()
        for body in [{ _ = try watcher.next(timeout: .zero) }, { _ = try store.oldestToken }] {
            let error = #expect(throws: StoreError.self) { try body() }
            #expect(error?.code == .closed, "\(error?.description ?? "")")
        }
        try folder.expectIntact()
    }

    @Test func aForkedChildCannotUseTheWatcherOfItsParent() throws {
        let run = try runTool(["fork", folder.path], name: "process-helper")
        #expect(run.status == 0, "\(run.errors)")
        try folder.expectIntact()
    }

    // MARK: What a signal says

    /// In two containers of one image, process ID and program name are equal.
    @Test func anotherProcessOfTheSameIDAndNameIsNotThisOne() throws {
        let store = try made()
        let watcher = try store.changeWatcher()
        try insert(store)
        #expect(try watcher.next(timeout: .zero)?.isOwn == true)
        try insert(store)
        // As if another process had made it: this one remembers another transaction of that number.
        let number = try store.currentToken.number
        OwnTransactions.of(Self.bytes(of: store.identifier)).note(number, tag: 0)
        let other = try #require(try watcher.next(timeout: .zero))
        #expect(other.processIDs == [UInt32(getpid())] && !other.isOwn)
        try insert(store)
        #expect(try watcher.next(timeout: .zero)?.isOwn == true)
        try store.close()
        try folder.expectIntact()
    }

    private static func bytes(of identifier: UUID) -> UUIDBytes {
        withUnsafeBytes(of: identifier.uuid) { bytes in
            let words = bytes.bindMemory(to: UInt64.self)
            return UUIDBytes(high: UInt64(bigEndian: words[0]), low: UInt64(bigEndian: words[1]))
        }
    }

    @Test func aProcessKnowsItsOwnTransactions() {
        let identifier = UUIDBytes(high: .random(in: 1 ... .max), low: 7)
        let own = OwnTransactions.of(identifier)
        for number in [2, 3, 4, 8, 9] as [UInt64] { own.note(number, tag: number * 10) }
        let found = (1...10).filter { own.contains($0, tag: $0 * 10) }
        #expect(found == [2, 3, 4, 8, 9])
        // The write of 9 failed, and another process has the number.
        #expect(!own.contains(9, tag: 91))
        // A backup was restored, and numbers come again.
        own.note(4, tag: 44)
        #expect(own.contains(4, tag: 44) && own.contains(3, tag: 30) && !own.contains(4, tag: 40))
        #expect(!own.contains(8, tag: 80))
        #expect(OwnTransactions.of(identifier) === own)
    }

    @Test func aSignalNamesAuthorsEntitiesAndProcesses() throws {
        let store = try made()
        let watcher = try store.changeWatcher()
        try store.changeSchema(
            [.addEntity(EntityDescription("Tag", attributes: [AttributeDescription("n", .int)]))], author: "app")
        try insert(author: "app", store)
        try insert(store)
        try store.writeOptimistically(author: "sync") { try $0.insert("Tag", ["n": 1]) }
        let signal = try #require(try watcher.next(timeout: .zero))
        #expect(signal.numbers == 2...5 && signal.storeIdentifier == store.identifier)
        #expect(try signal.token == store.currentToken)
        #expect(signal.authors == ["app", "sync"] && signal.includesUnnamedAuthor)
        #expect(signal.entities == ["Clip", "Tag"] && signal.isExact && signal.changesSchema)
        #expect(signal.processIDs == [UInt32(getpid())] && signal.isOwn)
        #expect(try watcher.next(timeout: .zero) == nil)
        try insert(author: "app", store)
        let other = try writer(1, "other")
        _ = try #require(other.line())
        let both = try signals(watcher, through: 7)
        #expect(Set(both.flatMap(\.processIDs)) == [UInt32(getpid()), other.processID])
        #expect(both.last?.isOwn == false && both.last?.entities == ["Clip"] && both.last?.changesSchema == false)
        #expect(other.end().status == 0)
        try store.close()
        try folder.expectIntact()
    }

    @Test func aWatcherBeginsAtTheRequestedPlace() throws {
        let store = try made()
        try insert(3, store)
        let token = try store.currentToken
        try insert(2, store)
        #expect(try store.changeWatcher(after: .number(0)).next()?.numbers == 1...6)
        #expect(try store.changeWatcher(after: .number(2)).next()?.numbers == 3...6)
        #expect(try store.changeWatcher(after: .token(token)).next()?.numbers == 5...6)
        #expect(try store.changeWatcher().next(timeout: .zero) == nil)
        expect(.tokenUnknown) { try store.changeWatcher(after: .number(7)) }
        expect(.tokenUnknown) { try store.changes(after: .number(7)) }
        let foreign = HistoryToken(storeIdentifier: UUID(), number: 1, tag: 0)
        expect(.tokenForeign) { try store.changeWatcher(after: .token(foreign)) }
        let diverged = HistoryToken(storeIdentifier: store.identifier, number: token.number, tag: token.tag ^ 1)
        expect(.tokenDiverged) { try store.changes(after: .token(diverged)) }
        try store.close()
        try folder.expectIntact()
    }

    /// A process that was stopped for long: others have cleaned what it has not seen.
    @Test func signalsNeedNoHistory() async throws {
        let store = try made()
        try insert(2, author: "app", store)
        let watcher = try store.changeWatcher()
        var changes = try store.changes(excluding: ["app"]).makeAsyncIterator()
        let fromHere = try store.changeWatcher(after: .number(watcher.position))
        try insert(3, author: "app", store)
        try store.deleteHistory(before: store.currentToken.number + 1)
        let signal = try #require(try watcher.next(timeout: .zero))
        let newest = try store.currentToken
        #expect(signal.numbers == 4...6 && signal.token == newest && !signal.isExact)
        #expect(signal.entities == ["Clip"] && signal.changesSchema && signal.includesUnnamedAuthor)
        #expect(signal.authors == [] && signal.processIDs == [] && !signal.isOwn)
        #expect(try watcher.next(timeout: .zero) == nil)
        // Nobody knows whether the author was excluded.
        let told = try await changes.next()
        #expect(told?.numbers == 4...6)
        expect(.tokenExpired) { _ = try fromHere.next(timeout: .zero) }
        try insert(author: "share", store)
        let next = try #require(try watcher.next(timeout: .zero))
        #expect(next.numbers == 7...7 && next.isExact && next.authors == ["share"])
        let last = try await changes.next()
        #expect(last?.numbers == 7...7)
        try store.close()
        try folder.expectIntact()
    }

    @Test func excludedContextNamesAreSkipped() async throws {
        let store = try made()
        let watcher = try store.changeWatcher(
            after: .number(1), excluding: ["mirror"], excludingContextNames: ["view", ""])
        for (author, name) in [("app", "view"), ("app", "import"), ("mirror", "import"), ("app", nil)] {
            try await store.writeOptimistically(author: author, contextName: name) {
                try $0.insert("Clip", ["title": "t"])
            }
        }
        let all = try #require(try watcher.next(timeout: .zero))
        #expect(all.authors == ["app"] && all.numbers == 2...5)
        try await store.writeOptimistically(author: "app", contextName: "view") {
            try $0.insert("Clip", ["title": "t"])
        }
        #expect(try watcher.next(timeout: .zero) == nil && watcher.position == 6)
        var changes = try store.changes(after: .number(1), excludingContextNames: ["view"]).makeAsyncIterator()
        let others = try await changes.next()
        #expect(others?.authors == ["app", "mirror"])
        try store.close()
        try folder.expectIntact()
    }

    @Test func aPlaceBeforeHistoryIsExpired() throws {
        let header = FileHeader(
            storeID: UUIDBytes(high: 1, low: 2), generation: 1, salt: 3, created: 0, baseNumber: 10, baseTag: 4,
            baseTime: .min)
        try Data(header.encoded() + [UInt8](repeating: 0, count: 4096)).write(to: URL(fileURLWithPath: folder.path))
        let store = try folder.open()
        expect(.tokenExpired) { try store.changeWatcher(after: .number(9)) }
        expect(.tokenExpired) { try store.changes(after: .number(9)) }
        let token = HistoryToken(storeIdentifier: store.identifier, number: 9, tag: 0)
        expect(.tokenExpired) { try store.waitUntil(token) }
        let watcher = try store.changeWatcher(after: .number(10))
        try store.changeSchema([.addEntity(Self.clip)])
        #expect(try watcher.next()?.numbers == 11...11)
        try store.close()
        try folder.expectIntact()
    }

    @Test func excludedAuthorsAreSkipped() throws {
        let store = try made()
        let watcher = try store.changeWatcher(excluding: ["me", "mirror"])
        try insert(3, author: "me", store)
        try insert(1, author: "mirror", store)
        #expect(try watcher.next(timeout: .zero) == nil)
        #expect(watcher.position == 5)
        try insert(1, author: "me", store)
        try insert(1, author: "other", store)
        try insert(1, author: "me", store)
        let signal = try #require(try watcher.next())
        #expect(signal.numbers == 6...8 && signal.authors == ["other"] && !signal.includesUnnamedAuthor)
        try insert(store)
        #expect(try watcher.next()?.includesUnnamedAuthor == true)
        try store.close()
        try folder.expectIntact()
    }

    @Test func theSignalOfALongTransactionIsNotExact() throws {
        let store = try made()
        try store.changeSchema([.addEntity(EntityDescription("Tag", attributes: [AttributeDescription("n", .int)]))])
        let watcher = try store.changeWatcher()
        try insert(store)
        try store.writeOptimistically { transaction in
            for _ in 0..<65_537 { _ = try transaction.insert("Clip", ["title": ""]) }
        }
        try insert(2, store)
        let all = try signals(watcher, through: 6)
        #expect(all.map(\.numbers) == [3...3, 4...4, 5...6])
        #expect(all.map(\.isExact) == [true, false, true])
        #expect(all.map(\.entities) == [["Clip"], ["Clip", "Tag"], ["Clip"]])
        try store.close()
        try folder.expectIntact()
    }

    /// Frames that are no transactions move nothing: a checkpoint and a seal here, recovery and metadata frames come
    /// with transactions.
    @Test func framesThatAreNoTransactionsCauseNoSignal() throws {
        let store = try made()
        let watcher = try store.changeWatcher(after: .number(0))
        #expect(try watcher.next()?.numbers == 1...1)
        let before = try store.statistics.bytesByKind["seal"]
        let other = try folder.open()
        try insert(author: "x", other)
        #expect(try watcher.next()?.numbers == 2...2)
        try other.close()
        #expect(try watcher.next(timeout: .milliseconds(100)) == nil)
        #expect(try store.statistics.bytesByKind["seal"] != before)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Never lost

    private func threeWriters(_ count: Int, beside store: Store, _ body: () throws -> Void) throws {
        let own = try folder.open()
        let writers = [try writer(count, "one"), try writer(count, "two")]
        try insert(count, author: "own", own)
        try body()
        for writer in writers { #expect(writer.end().status == 0) }
        try own.close()
    }

    @Test func everyNumberComesOnceAndInOrder() throws {
        let store = try made()
        let watcher = try store.changeWatcher()
        let late = try store.changeWatcher(excluding: ["one", "own"])
        let seen = Guarded<[ChangeSignal]>([])
        let waiting = try BackgroundThread(name: "watches") {
            // By itself, while the others commit.
            let all = try? signals(watcher, through: 601)
            seen.withLock { $0 = all ?? [] }
        }
        try threeWriters(200, beside: store) { waiting.join() }
        let all = seen.withLock { $0 }
        #expect(all.map(\.numbers.count).reduce(0, +) == 600)
        #expect(Set(all.flatMap(\.authors)) == ["one", "two", "own"])
        var found = 0
        while let signal = try late.next(timeout: .zero) {
            #expect(signal.authors == ["two"])
            found += 1
        }
        #expect(found > 0 && late.position == 601)
        try store.close()
        try folder.expectIntact()
    }

    @Test func threadsThatAskOneWatcherShareItsSignals() throws {
        let store = try made()
        let watcher = try store.changeWatcher()
        let seen = Guarded<[ChangeSignal]>([])
        let failures = Guarded<[String]>([])
        let threads = try (0..<3).map { number in
            try BackgroundThread(name: "watches \(number)") {
                do {
                    while let signal = try watcher.next(timeout: .seconds(600)) { seen.withLock { $0.append(signal) } }
                } catch { failures.withLock { $0.append("\(error)") } }
            }
        }
        for round in 0..<20 {
            try insert(100, store)
            // Now and then another file takes the store's place.
            if round % 5 == 4 { try store.compact() }
        }
        while watcher.position < 2001, failures.withLock({ $0.isEmpty }) { sched_yield() }
        watcher.stop()
        for thread in threads { thread.join() }
        #expect(failures.withLock { $0 } == [])
        let all = seen.withLock { $0 }.sorted { $0.numbers.lowerBound < $1.numbers.lowerBound }
        var next: UInt64 = 2
        for signal in all {
            #expect(signal.numbers.lowerBound == next)
            next = signal.numbers.upperBound + 1
        }
        #expect(next == 2002)
        try store.close()
        try folder.expectIntact()
    }

    /// Two threads read history as signals tell of it, a third compacts all the time, and this one commits.
    @Test func readersOnSignalsMissNothingWhileTheProcessCompacts() throws {
        let store = try made()
        let start = try store.currentToken
        let failures = Guarded<[String]>([])
        let isDone = Atomic(false)
        let readers = try (0..<2).map { number in
            try BackgroundThread(name: "reads \(number)") {
                do { try readOnSignals(store, from: start, through: 3001) } catch {
                    failures.withLock { $0.append("\(error)") }
                }
            }
        }
        let compactor = try BackgroundThread(name: "compacts") {
            do {
                while !isDone.load(ordering: .relaxed) { try store.compact() }
            } catch { failures.withLock { $0.append("\(error)") } }
        }
        try insert(3000, store)
        for thread in readers { thread.join() }
        isDone.store(true, ordering: .relaxed)
        compactor.join()
        #expect(failures.withLock { $0 } == [])
        try store.close()
        try folder.expectIntact()
    }

    private func readOnSignals(_ store: Store, from start: HistoryToken, through last: UInt64) throws {
        let watcher = try store.changeWatcher(after: .token(start))
        var token = start
        while token.number < last {
            let signal = try #require(try watcher.next(timeout: .seconds(600)), "nothing comes after \(token.number)")
            for transaction in try store.history(after: token) {
                #expect(transaction.number == token.number + 1)
                token = transaction.token
            }
            #expect(token.number >= signal.numbers.upperBound)
        }
    }

    @Test func everyNumberComesOnceAndInOrderAsASequence() async throws {
        let store = try made()
        let changes = try store.changes()
        let tasks = (0..<3).map { _ in
            Task { () throws -> UInt64 in
                var next: UInt64 = 2
                for try await signal in changes {
                    guard signal.numbers.lowerBound == next else { return next }
                    next = signal.numbers.upperBound + 1
                    if next == 602 { break }
                }
                return next
            }
        }
        try threeWriters(200, beside: store) {}
        for task in tasks { #expect(try await task.value == 602) }
        try store.close()
        try folder.expectIntact()
    }

    /// Without any watch, with none for this file, and with one that has lost everything but that it has lost
    /// something.
    @Test(arguments: ["instances", "watches", "overflow"]) func withoutEventsNothingIsMissed(lack: String) throws {
        let watches = FakeWatches()
        if lack == "instances" { watches.refuse(true) }
        if lack == "watches" { watches.watch.refuse(.tooManyFiles) }
        let store = try made(hub: watches.hub())
        let watcher = try store.changeWatcher()
        let writers = [try writer(50, "one"), try writer(50, "two")]
        for _ in 0..<100 where lack == "overflow" {
            watches.watch.tell([.overflow])
            try insert(store)
        }
        if lack != "overflow" { try insert(100, store) }
        for writer in writers { #expect(writer.end().status == 0) }
        if lack == "overflow" { watches.watch.tell([.overflow]) }
        #expect(try signals(watcher, through: 201).map(\.numbers.count).reduce(0, +) == 200)
        try store.close()
        try folder.expectIntact()
    }

    /// What comes while it waits is seen by looking, without news of any kind.
    @Test func withoutAWatchTheWatcherPolls() async throws {
        let watches = FakeWatches()
        watches.refuse(true)
        let store = try made(hub: watches.hub())
        var iterator = try store.changes().makeAsyncIterator()
        let watcher = try store.changeWatcher()
        for number in UInt64(2)..<5 {
            let other = try writer(1, "other")
            #expect(try await iterator.next()?.numbers == number...number)
            #expect(try watcher.next()?.numbers == number...number)
            #expect(other.end().status == 0)
        }
        try store.close()
        try folder.expectIntact()
    }

    @Test func noChangeIsMissedAfterTheDirectoryIsRenamed() throws {
        let inner = folder.temporary.path("inner")
        try FileManager.default.createDirectory(atPath: inner, withIntermediateDirectories: false)
        let path = inner + "/s.annals"
        let store = try Store(at: path, entities: [Self.clip])
        let watcher = try store.changeWatcher()
        #expect(try watcher.next(timeout: .milliseconds(1)) == nil)
        let moved = folder.temporary.path("moved")
        #expect(rename(inner, moved) == 0)
        let other = try Store(at: moved + "/s.annals")
        try insert(2, other)
        #expect(try signals(watcher, through: 3).count >= 1)
        // One that begins now finds another directory, or none, where the path leads.
        try FileManager.default.createDirectory(atPath: inner, withIntermediateDirectories: false)
        let stranger = try Store(at: path, entities: [Self.clip])
        let later = try store.changeWatcher()
        #expect(try later.next(timeout: .milliseconds(1)) == nil)
        try insert(1, other)
        #expect(try later.next(timeout: .seconds(600))?.numbers == 4...4)
        #expect(try watcher.next(timeout: .seconds(600))?.numbers == 4...4)
        for store in [store, other, stranger] { try store.close() }
    }

    // MARK: Ends

    @Test func aRemovedStoreIsReported() async throws {
        let store = try made()
        let (watcher, late) = (try store.changeWatcher(), try store.changeWatcher(after: .number(0)))
        var iterator = try store.changes().makeAsyncIterator()
        #expect(try watcher.next(timeout: .milliseconds(1)) == nil)
        unlink(folder.path)
        expect(.storeRemoved) { try watcher.next() }
        await expect(.storeRemoved) { _ = try await iterator.next() }
        // What is there is still told.
        #expect(try late.next()?.numbers == 1...1)
        expect(.storeRemoved) { try late.next() }
        #expect(try await iterator.next() == nil)
        try? store.close()
    }

    @Test func aReplacedStoreIsReported() throws {
        let store = try made()
        let watcher = try store.changeWatcher()
        #expect(try watcher.next(timeout: .milliseconds(1)) == nil)
        let other = folder.temporary.path("other")
        try Store(at: other, entities: [Self.clip]).close()
        try insert(store)
        rename(other, folder.path)
        #expect(try watcher.next()?.numbers == 2...2)
        expect(.storeReplaced) { try watcher.next() }
        try? store.close()
        try folder.expectIntact()
    }

    @Test func closingEndsEveryWait() async throws {
        let store = try made()
        let watcher = try store.changeWatcher()
        let changes = try store.changes()
        let codes = Guarded<[StoreError.Code]>([])
        let thread = try BackgroundThread(name: "watches") {
            do {
                _ = try watcher.next()
            } catch {
                guard let error = error as? StoreError else { return }
                codes.withLock { $0.append(error.code) }
            }
        }
        let task = Task { () async -> StoreError.Code? in
            var iterator = changes.makeAsyncIterator()
            do { _ = try await iterator.next() } catch { return (error as? StoreError)?.code }
            return nil
        }
        let token = HistoryToken(storeIdentifier: store.identifier, number: 9, tag: 0)
        let until = Task { () async -> StoreError.Code? in
            do { try await store.waitUntil(token) } catch { return (error as? StoreError)?.code }
            return nil
        }
        try store.close()
        thread.join()
        #expect(codes.withLock { $0 } == [.closed])
        #expect(await task.value == .closed)
        #expect(await until.value == .closed)
        expect(.closed) { try watcher.next() }
        expect(.closed) { try store.changeWatcher() }
        try folder.expectIntact()
    }

    @Test func aCancelledTaskEndsItsSequence() async throws {
        let store = try made()
        let changes = try store.changes()
        for _ in 0..<20 {
            let task = Task { () throws -> Int in
                var count = 0
                for try await _ in changes { count += 1 }
                return count
            }
            await Task.yield()
            task.cancel()
            #expect(try await task.value == 0)
        }
        let token = HistoryToken(storeIdentifier: store.identifier, number: 9, tag: 0)
        let until = Task { try await store.waitUntil(token) }
        until.cancel()
        await expect(.cancelled) { try await until.value }
        try store.close()
        try folder.expectIntact()
    }

    @Test func stopEndsTheWait() throws {
        let store = try made()
        let watcher = try store.changeWatcher()
        let thread = try BackgroundThread(name: "stops") { watcher.stop() }
        #expect(try watcher.next() == nil)
        thread.join()
        #expect(try watcher.next() == nil)
        // Also if it would have something to report.
        try insert(1, store)
        #expect(try watcher.next() == nil)
        try store.close()
        try folder.expectIntact()
    }

    @Test func theBodyOfAWriteCannotWait() throws {
        let store = try made()
        let watcher = try store.changeWatcher()
        let token = HistoryToken(storeIdentifier: store.identifier, number: 9, tag: 0)
        try store.write { _ in
            expect(.invalidArgument) { try watcher.next() }
            expect(.invalidArgument) { try store.changeWatcher() }
            expect(.invalidArgument) { try store.waitUntil(token) }
        }
        try store.close()
        try folder.expectIntact()
    }
}

/// The same for what is asynchronous.
func expect<Result>(
    _ code: StoreError.Code, sourceLocation: SourceLocation = #_sourceLocation,
    isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws -> Result
) async {
    do {
        _ = try await body()
        Issue.record("nothing was thrown", sourceLocation: sourceLocation)
    } catch {
        let found = error as? StoreError
        #expect(found?.code == code, "\(error)", sourceLocation: sourceLocation)
    }
}
