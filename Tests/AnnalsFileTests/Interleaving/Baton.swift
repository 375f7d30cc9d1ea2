// Two simulated processes on two threads, of which one runs at a time: who has the baton.
//
// Invariants:
// B1  Between `start` and `finish` of both, only the thread that has the baton runs; the other one waits in here.
// B2  The baton goes over at a preemption of the schedule, when a process sleeps, and when one has ended: nothing else
//     decides, so equal schedules give equal runs.

import Annals
import SimulatedDisk

/// Sound although it is shared: everything that changes is touched only with `monitor` locked.
final class Baton: @unchecked Sendable {
    struct Step: Sendable {
        var process: Int
        var call: CallKind
        /// Whether a preemption here lets the other process do something.
        var canSwitch: Bool
    }

    private struct Process {
        var isDone = false
        /// It waits for what the other one does.
        var isAsleep = false
        /// Since it fell asleep, something has happened that it may be waiting for.
        var mayGoOn = false
        var waitsForCompaction = false
        /// The other one runs instead while this one holds what it waits for: until that gives up.
        var isStalled = false
        var hasNews = false
    }

    private let monitor = Monitor()
    private let schedule: Schedule
    private var plan: ArraySlice<Int>
    private var processes = [Process(), Process()]
    private var running: Int
    private var isOn = false
    private var idle = 0
    private var stalledSleeps = 0
    private var taken: [Step] = []
    private var problem: String?
    private var wasStalled = false
    private var calls = 0
    private let onCut: @Sendable (Int) -> Void

    /// As often as no process that waits does without learning something.
    private static let patience = 400
    /// More than a compactor tries again.
    private static let stalledPatience = 30

    init(_ schedule: Schedule, onCut: @escaping @Sendable (Int) -> Void = { _ in }) {
        self.schedule = schedule
        self.onCut = onCut
        plan = schedule.preemptions[...]
        running = schedule.first
    }

    var steps: [Step] { monitor.withLock { taken } }
    /// All calls, those included that no other process can tell from none.
    var callCount: Int { monitor.withLock { calls } }
    /// Why it could not go on: both waited for ever, or the schedule does not fit.
    var failure: String? {
        monitor.withLock { plan.isEmpty ? problem : problem ?? "preemptions \(plan) were not reached" }
    }

    /// Whether a process was kept from going on until the other one had given up waiting for it, or had tried for long.
    var hasStalled: Bool { monitor.withLock { wasStalled } }

    // MARK: Running

    /// Runs both bodies, each on a thread of its own, and returns when both have ended.
    func run(_ bodies: [@Sendable () -> Void]) throws {
        monitor.withLock { isOn = true }
        let threads = try bodies.indices.map { index in
            try BackgroundThread(name: "interleaved") {
                self.waitForBaton(index)
                bodies[index]()
                self.finish(index)
            }
        }
        for thread in threads { thread.join() }
        monitor.withLock { isOn = false }
    }

    private func waitForBaton(_ index: Int) { monitor.withLock { wait(index) } }

    /// With `monitor` locked.
    private func wait(_ index: Int) {
        while running != index { monitor.wait() }
    }

    private func finish(_ index: Int) {
        monitor.withLock {
            processes[index].isDone = true
            processes[1 - index].isStalled = false
            running = 1 - index
            monitor.signalAll()
        }
    }

    /// With `monitor` locked; returns when the baton is back.
    private func handOver(from index: Int) {
        processes[1 - index].isStalled = false
        running = 1 - index
        monitor.signalAll()
        wait(index)
    }

    // MARK: What processes do

    /// A call that no other process can tell from none.
    func countCall() { monitor.withLock { calls += isOn ? 1 : 0 } }

    /// Before a call. Returns whether the process is to die in it.
    func step(_ index: Int, _ call: CallKind) -> Bool {
        let number: Int? = monitor.withLock {
            guard isOn else { return nil }
            calls += 1
            if call != .tryLock { idle = 0 }
            while let next = plan.first, next == taken.count + 1, canSwitch(from: index) {
                plan.removeFirst()
                let other = processes[1 - index]
                processes[index].isStalled = other.isAsleep && !other.mayGoOn
                wasStalled = wasStalled || processes[index].isStalled
                stalledSleeps = 0
                handOver(from: index)
            }
            taken.append(Step(process: index, call: call, canSwitch: canSwitch(from: index)))
            return taken.count
        }
        guard let number else { return false }
        // Nobody else runs meanwhile.
        if schedule.cuts.contains(number) { onCut(number) }
        return schedule.kill == number
    }

    /// With `monitor` locked.
    private func canSwitch(from index: Int) -> Bool {
        let other = processes[1 - index]
        if other.isDone || other.isStalled || problem != nil { return false }
        return !other.isAsleep || other.mayGoOn || other.waitsForCompaction
    }

    /// Instead of time passing, the other process goes on.
    func sleep(_ index: Int) {
        monitor.withLock {
            guard isOn, problem == nil else { return }
            idle += 1
            if idle > Self.patience {
                problem = "both processes wait for ever"
                return
            }
            let other = 1 - index
            processes[index].isAsleep = true
            processes[index].mayGoOn = false
            if processes[other].isStalled, stalledSleeps < Self.stalledPatience {
                stalledSleeps += 1
            } else if !processes[other].isDone {
                handOver(from: index)
            }
            processes[index].isAsleep = false
        }
    }

    /// What the process waits for is a lock of compaction: it gives up after some time, whatever the other one does.
    func waitsForCompaction(_ index: Int, _ waits: Bool) {
        monitor.withLock { processes[index].waitsForCompaction = waits }
    }

    /// The process has let go of something that the other may wait for.
    func released(by index: Int) { monitor.withLock { processes[1 - index].mayGoOn = true } }

    /// The process has changed the store's file or its name: who watches it learns of that.
    func changed(by index: Int) {
        monitor.withLock {
            processes[1 - index].hasNews = true
            processes[1 - index].mayGoOn = true
        }
    }

    /// Waits until the other process has changed something since the last time. False if that will never be.
    func waitForNews(_ index: Int) -> Bool {
        while true {
            let isOver: Bool? = monitor.withLock {
                if processes[index].hasNews {
                    processes[index].hasNews = false
                    return false
                }
                return problem != nil || !isOn || processes[1 - index].isDone ? true : nil
            }
            if let isOver { return !isOver }
            sleep(index)
        }
    }

    /// From now on the process is told what the other changes.
    func watch(_ index: Int) { monitor.withLock { processes[index].hasNews = false } }

    /// Whether everything that calls may go on: not so where both wait for ever.
    var isStuck: Bool { monitor.withLock { problem != nil } }
}
