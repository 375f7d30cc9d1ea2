// Who waits for changes: each is woken by what concerns it, whoever waits in the watch, and without a watch in
// intervals.

import Annals
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(20))) struct ChangeHubTests {
    let watches = FakeWatches()
    let hub: ChangeHub

    init() { hub = watches.hub() }

    var watch: FakeWatch { watches.watch }

    /// A listener that has looked once, as all do at first.
    func listener(_ name: String = "a", asynchronously: Bool = false) throws -> ChangeListener {
        let listener = try hub.listen(directory: "/d", name: name, asynchronously: asynchronously)
        #expect(hub.wait(for: listener, untilMonotonicMicroseconds: nil) == .news(isInDoubt: true))
        return listener
    }

    func soon(_ milliseconds: UInt64 = 20) -> UInt64 {
        RealEnvironment().monotonicMicroseconds() + milliseconds * 1000
    }

    /// Waits until as many threads are in the watch.
    func untilSomebodyWaits() {
        while watch.waiters == 0 { RealEnvironment().sleep(microseconds: 100) }
    }

    @Test func aChangeOfAnotherFileWakesNoListener() throws {
        let (first, second) = (try listener("a"), try listener("b"))
        watch.tell([.changed(watch.files[1])])
        #expect(hub.wait(for: first, untilMonotonicMicroseconds: soon()) == .timePassed)
        // It was told while the first one waited, and is kept for the second.
        #expect(hub.wait(for: second, untilMonotonicMicroseconds: nil) == .news(isInDoubt: false))
        #expect(hub.wait(for: second, untilMonotonicMicroseconds: soon()) == .timePassed)
    }

    @Test func newsContainWhetherTheNameIsInDoubt() throws {
        let listener = try listener()
        let file = watch.files[0]
        for (news, isInDoubt) in [(WatchNews.changed(file), false), (.replaced(file), true), (.overflow, true)] {
            watch.tell([news])
            #expect(hub.wait(for: listener, untilMonotonicMicroseconds: nil) == .news(isInDoubt: isInDoubt))
        }
        hub.keepDoubt(listener)
        #expect(hub.wait(for: listener, untilMonotonicMicroseconds: nil) == .news(isInDoubt: true))
    }

    /// Each thread waits for its own file: one leads, the others follow, and when the leader goes the next one leads.
    @Test func eachThreadIsWokenForItsOwnFile() throws {
        let listeners = try (0..<4).map { try listener("\($0)") }
        let woken = Guarded<[Int]>([])
        let hub = hub
        let threads = try listeners.enumerated().map { index, listener in
            try BackgroundThread(name: "waits") {
                _ = hub.wait(for: listener, untilMonotonicMicroseconds: nil)
                woken.withLock { $0.append(index) }
            }
        }
        for index in [2, 0, 3, 1] {
            untilSomebodyWaits()
            watch.tell([.changed(watch.files[index])])
            threads[index].join()
        }
        #expect(woken.withLock { $0 } == [2, 0, 3, 1])
    }

    @Test func stopEndsAllWaits() throws {
        let (leader, follower) = (try listener("a"), try listener("b"))
        let hub = hub
        let threads = try [leader, follower].map { listener in
            try BackgroundThread(name: "waits") {
                _ = hub.wait(for: listener, untilMonotonicMicroseconds: nil)
            }
        }
        untilSomebodyWaits()
        hub.stop(leader)
        hub.stop(follower)
        for thread in threads { thread.join() }
        #expect(hub.wait(for: leader, untilMonotonicMicroseconds: nil) == .stopped)
        #expect(hub.wait(for: follower, untilMonotonicMicroseconds: nil) == .stopped)
    }

    @Test func aPokeWakesTheListenersOfItsFile() throws {
        let (first, second, other) = (try listener("a"), try listener("a"), try listener("b"))
        hub.poke(directory: "/d", name: "a")
        hub.poke(directory: "/e", name: "b")
        #expect(hub.wait(for: first, untilMonotonicMicroseconds: nil) == .news(isInDoubt: false))
        #expect(hub.wait(for: second, untilMonotonicMicroseconds: nil) == .news(isInDoubt: false))
        #expect(hub.wait(for: other, untilMonotonicMicroseconds: soon()) == .timePassed)
    }

    // MARK: Without a watch

    /// Two looks without news, the interval between them.
    private func expectIntervals(_ listener: ChangeListener) {
        #expect(!hub.isWatched(listener))
        let before = RealEnvironment().monotonicMicroseconds()
        for _ in 0..<2 {
            #expect(hub.wait(for: listener, untilMonotonicMicroseconds: nil) == .news(isInDoubt: true))
        }
        let passed = RealEnvironment().monotonicMicroseconds() - before
        #expect(passed >= ChangeHub.intervalMicroseconds)
        #expect(!hub.isWatched(listener))
    }

    @Test(arguments: [false, true]) func withoutAWatchTheFileIsPolled(atAll: Bool) throws {
        if atAll { watches.refuse(true) } else { watch.refuse(.tooManyFiles) }
        let listener = try listener()
        expectIntervals(listener)
        watches.refuse(false)
        watch.refuse(nil)
        #expect(hub.wait(for: listener, untilMonotonicMicroseconds: nil) == .news(isInDoubt: true))
        #expect(hub.isWatched(listener))
        #expect(hub.wait(for: listener, untilMonotonicMicroseconds: soon(400)) == .timePassed)
    }

    @Test func theFileIsPolledAfterTheWatchEnds() throws {
        let listener = try listener()
        watch.refuse(.notFound)
        watch.tell([.gone(watch.files[0])])
        #expect(hub.wait(for: listener, untilMonotonicMicroseconds: nil) == .news(isInDoubt: true))
        expectIntervals(listener)
    }

    @Test func aFailedWatchIsNotUsedAgain() throws {
        let (first, second) = (try listener("a"), try listener("b"))
        watches.refuse(true)
        watch.failToWait()
        #expect(hub.wait(for: first, untilMonotonicMicroseconds: nil) == .news(isInDoubt: true))
        #expect(hub.wait(for: second, untilMonotonicMicroseconds: nil) == .news(isInDoubt: true))
        expectIntervals(first)
    }

    @Test func theFileIsPolledIfItsPathLeadsElsewhere() throws {
        let listener = try listener()
        watch.refuse(.notFound)
        hub.lookInIntervals(listener)
        #expect(watch.files.isEmpty)
        expectIntervals(listener)
    }

    @Test func theWatchEndsWithItsLastListener() throws {
        let first = try listener("a")
        let second = try listener("b")
        hub.remove(first)
        hub.remove(first)
        #expect(watch.files.count == 1 && watches.made == 1)
        hub.remove(second)
        #expect(watch.files.isEmpty)
        _ = try listener("c")
        #expect(watches.made == 2)
    }

    // MARK: Tasks

    @Test func tasksAreWokenLikeThreads() async throws {
        let listeners = try (0..<3).map { try listener("\($0)", asynchronously: true) }
        let hub = hub
        for round in 0..<20 {
            let task = Task { await hub.wait(for: listeners[round % 3], untilMonotonicMicroseconds: nil) }
            watch.tell([.changed(watch.files[round % 3])])
            #expect(await task.value == .news(isInDoubt: false))
        }
        #expect(await hub.wait(for: listeners[0], untilMonotonicMicroseconds: soon()) == .timePassed)
        hub.stop(listeners[1])
        #expect(await hub.wait(for: listeners[1], untilMonotonicMicroseconds: nil) == .stopped)
    }

    @Test func aCancelledTaskStopsWaiting() async throws {
        let listener = try listener(asynchronously: true)
        let hub = hub
        for isEarly in [true, false, true, false] {
            let task = Task { await hub.wait(for: listener, untilMonotonicMicroseconds: nil) }
            if !isEarly { untilSomebodyWaits() }
            task.cancel()
            #expect(await task.value == .stopped)
        }
        // Another task can wait with it afterwards.
        watch.tell([.changed(watch.files[0])])
        #expect(await hub.wait(for: listener, untilMonotonicMicroseconds: nil) == .news(isInDoubt: false))
    }

    @Test func withoutAWatchTasksPollTheFile() async throws {
        watches.refuse(true)
        let listener = try listener(asynchronously: true)
        let before = RealEnvironment().monotonicMicroseconds()
        for _ in 0..<3 {
            #expect(await hub.wait(for: listener, untilMonotonicMicroseconds: nil) == .news(isInDoubt: true))
        }
        #expect(RealEnvironment().monotonicMicroseconds() - before >= 2 * ChangeHub.intervalMicroseconds)
    }

    /// The thread for tasks and one that waits by itself: whoever leads tells the other.
    @Test func aThreadAndATaskWaitTogether() async throws {
        let (thread, task) = (try listener("a"), try listener("b", asynchronously: true))
        let hub = hub
        for _ in 0..<50 {
            let waiting = Task { await hub.wait(for: task, untilMonotonicMicroseconds: nil) }
            let blocked = try BackgroundThread(name: "waits") {
                #expect(hub.wait(for: thread, untilMonotonicMicroseconds: nil) == .news(isInDoubt: false))
            }
            watch.tell([.changed(watch.files[1])])
            #expect(await waiting.value == .news(isInDoubt: false))
            watch.tell([.changed(watch.files[0])])
            blocked.join()
        }
    }

    @Test func aProcessHasOneSharedHub() { #expect(ChangeHub.shared === ChangeHub.shared) }
}
