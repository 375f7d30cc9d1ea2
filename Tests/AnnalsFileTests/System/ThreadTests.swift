// Threads, the monitor they wait in, and the clocks.

import Annals
import Glibc
import Synchronization
import Testing

/// A number that threads share.
private final class Counter: Sendable {
    private let number = Atomic(0)
    var value: Int { number.load(ordering: .acquiring) }
    func add(_ amount: Int) { number.add(amount, ordering: .acquiringAndReleasing) }
}

@Suite(.timeLimit(.minutes(20))) struct ThreadTests {
    let environment = RealEnvironment()

    @Test func joinWaitsForTheEnd() throws {
        let counter = Counter()
        let thread = try BackgroundThread(name: "a name that is longer than the system keeps") {
            RealEnvironment().sleep(microseconds: 20_000)
            counter.add(1)
        }
        thread.join()
        #expect(counter.value == 1)
        thread.join()
    }

    /// Formed in a function of the main actor, the closure must not be bound to it.
    @MainActor @Test func threadOfTheMainActorRunsOutsideOfIt() throws {
        let counter = Counter()
        let thread = try BackgroundThread(name: "main") { counter.add(1) }
        thread.join()
        #expect(counter.value == 1)
    }

    @Test func aThreadRunsOnWithoutAReferenceToIt() throws {
        let counter = Counter()
        for _ in 0..<100 { _ = try BackgroundThread(name: "loose\0ä") { counter.add(1) } }
        while counter.value < 100 { environment.sleep(microseconds: 1000) }
    }

    @Test func threadHasItsNameAndHandlesNoSignals() throws {
        let blocked = Counter()
        let shared = NameBox()
        let thread = try BackgroundThread(name: "annals-sync") {
            shared.name.withLock { $0 = SourceFile.read("/proc/thread-self/comm") ?? "" }
            var signals = sigset_t()
            pthread_sigmask(SIG_SETMASK, nil, &signals)
            blocked.add(Int(sigismember(&signals, SIGALRM)) + Int(sigismember(&signals, SIGBUS)) * 10)
        }
        thread.join()
        #expect(shared.name.withLock { $0 } == "annals-sync\n")
        #expect(blocked.value == 1)
    }

    @Test func monitorLetsOneInAtATime() throws {
        let shared = Shared()
        let threads = try (0..<4).map { _ in
            try BackgroundThread(name: "adds") {
                for _ in 0..<10_000 { shared.monitor.withLock { shared.number += 1 } }
            }
        }
        for thread in threads { thread.join() }
        #expect(shared.monitor.withLock { shared.number } == 40_000)
    }

    @Test func aSignalWakesAllWaitingThreads() throws {
        let shared = Shared()
        let woken = Counter()
        let threads = try (0..<4).map { _ in
            try BackgroundThread(name: "waits") {
                shared.monitor.withLock { while shared.number == 0 { shared.monitor.wait() } }
                woken.add(1)
            }
        }
        environment.sleep(microseconds: 10_000)
        #expect(woken.value == 0)
        shared.monitor.withLock {
            shared.number = 1
            shared.monitor.signalAll()
        }
        for thread in threads { thread.join() }
        #expect(woken.value == 4)
    }

    @Test func waitEndsAtItsDeadline() {
        let monitor = Monitor()
        let start = environment.monotonicMicroseconds()
        monitor.withLock {
            while monitor.wait(untilMonotonicMicroseconds: start + 20_000) {}
            #expect(!monitor.wait(untilMonotonicMicroseconds: 0))
        }
        #expect(environment.monotonicMicroseconds() >= start + 20_000)
    }

    @Test func waitBeforeADistantDeadlineIsWoken() throws {
        let shared = Shared()
        let thread = try BackgroundThread(name: "signals") {
            RealEnvironment().sleep(microseconds: 10_000)
            shared.monitor.withLock { shared.number = 1 }
            shared.monitor.signalAll()
        }
        shared.monitor.withLock {
            while shared.number == 0 { _ = shared.monitor.wait(untilMonotonicMicroseconds: .max) }
        }
        thread.join()
    }

    @Test func errorLeavesTheMonitorUnlocked() {
        let monitor = Monitor()
        #expect(throws: StoreError.self) { try monitor.withLock { throw StoreError(.closed, "Closed.") } }
        monitor.withLock {}
    }

    /// The number is read and written with the monitor locked only, so threads may share the object.
    private final class Shared: @unchecked Sendable {
        let monitor = Monitor()
        var number = 0
    }

    private final class NameBox: Sendable { let name = Guarded("") }
}

@Suite struct RealEnvironmentTests {
    let environment = RealEnvironment()

    @Test func clocksRun() {
        let before = environment.monotonicMicroseconds()
        environment.sleep(microseconds: 2_000)
        #expect(environment.monotonicMicroseconds() >= before + 2_000)
        #expect(abs(environment.wallClockMicroseconds() / 1_000_000 - Int64(time(nil))) <= 1)
    }

    @Test func theEnvironmentDescribesThisProcess() {
        #expect(environment.processID() == UInt32(getpid()))
        #expect(!environment.processName().isEmpty && !environment.processName().contains("/"))
        #expect(environment.random() != environment.random())
    }
}
