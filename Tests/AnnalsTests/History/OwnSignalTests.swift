// Signals of a handle's own commits: the watch of the system may tell before the handle itself knows its transaction.

import Annals
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(20))) struct OwnSignalTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    /// A watch that tells nothing: what is heard is what the commit itself says.
    @Test func aCommitNotifiesTheWatchersOfItsProcess() throws {
        let hub = ChangeHub { FakeWatch() }
        let store = try folder.open([ChangeSignalTests.clip]) { $0.hub = hub }
        let watcher = try store.changeWatcher()
        let thread = try BackgroundThread(name: "commits") {
            for _ in 0..<20 { _ = try? store.writeOptimistically { try $0.insert("Clip", ["title": "t"]) } }
        }
        var last: UInt64 = 1
        while last < 21, let signal = try watcher.next(timeout: .seconds(60)) {
            #expect(signal.numbers.lowerBound == last + 1)
            last = signal.numbers.upperBound
        }
        #expect(last == 21)
        thread.join()
        try store.close()
        try folder.expectIntact()
    }

    /// The last write of a large transaction is long done when its indexes are.
    @Test func aWatcherSeesALargeTransactionOfItsOwnHandle() throws {
        let store = try folder.open([ChangeSignalTests.clip])
        let watcher = try store.changeWatcher()
        for _ in 0..<5 {
            let thread = try BackgroundThread(name: "commits") {
                _ = try? store.writeOptimistically { transaction in
                    for number in 0..<20_000 { try transaction.insert("Clip", ["title": .string("t\(number)")]) }
                }
            }
            #expect(try watcher.next(timeout: .seconds(20)) != nil)
            thread.join()
        }
        try store.close()
        try folder.expectIntact()
    }
}
