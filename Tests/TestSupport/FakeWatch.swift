// A watch that tells what a test has it tell.

package import Annals

/// Watches without a system: how many watches there are, and what is told, is the test's choice.
///
/// Sound although it is shared: everything that changes is touched only with `monitor` locked.
package final class FakeWatch: ChangeWatch, @unchecked Sendable {
    private let monitor = Monitor()
    private var news: [WatchNews] = []
    private var added: [WatchedFile] = []
    private var next: UInt64 = 1
    private var refusal: StoreError.Code?
    private var failsToWait = false
    private var isWoken = false
    private var waiting = 0

    package init() {}

    /// The files under watch, in the order in which they were added.
    package var files: [WatchedFile] { monitor.withLock { added } }
    /// How many threads wait in it.
    package var waiters: Int { monitor.withLock { waiting } }

    /// From now on no watch is given; nil for ones that are given again.
    package func refuse(_ code: StoreError.Code?) { monitor.withLock { refusal = code } }

    package func tell(_ items: [WatchNews]) {
        monitor.withLock {
            news += items
            monitor.signalAll()
        }
    }

    package func failToWait() {
        monitor.withLock {
            failsToWait = true
            monitor.signalAll()
        }
    }

    package func add(directory: String, name: String) throws(StoreError) -> WatchedFile {
        try monitor.withLock { () throws(StoreError) in
            if let refusal { throw StoreError(refusal, "There is no watch left.") }
            let file = WatchedFile(next)
            next += 1
            added.append(file)
            return file
        }
    }

    package func remove(_ file: WatchedFile) { monitor.withLock { added.removeAll { $0 == file } } }

    package func wait(untilMonotonicMicroseconds deadline: UInt64?) throws(StoreError) -> [WatchNews] {
        try monitor.withLock { () throws(StoreError) in
            waiting += 1
            defer { waiting -= 1 }
            precondition(waiting == 1, "One thread at a time waits in a watch.")
            while true {
                if failsToWait { throw StoreError(.inputOutput, "The watch is broken.") }
                if !news.isEmpty || isWoken {
                    defer { (news, isWoken) = ([], false) }
                    return news
                }
                if let deadline {
                    if !monitor.wait(untilMonotonicMicroseconds: deadline) { return [] }
                } else {
                    monitor.wait()
                }
            }
        }
    }

    package func wake() {
        monitor.withLock {
            isWoken = true
            monitor.signalAll()
        }
    }

    package func cancel() { tell([.cancelled]) }
}

/// A hub over such watches, and how often it has asked for one.
package final class FakeWatches: Sendable {
    package let watch = FakeWatch()
    private let counts = Guarded((made: 0, refuses: false))

    package init() {}

    package var made: Int { counts.withLock { $0.made } }
    /// Whether there is no watch to be had at all.
    package func refuse(_ refuses: Bool) { counts.withLock { $0.refuses = refuses } }

    package func hub() -> ChangeHub {
        ChangeHub { () throws(StoreError) in
            let refuses = self.counts.withLock { counts in
                counts.made += 1
                return counts.refuses
            }
            if refuses { throw StoreError(.tooManyFiles, "There is no instance left.") }
            return self.watch
        }
    }
}
