// Clocks, random numbers and a process identity that a test can set.

internal import Annals
import TestSupport

/// A simulated environment: time stands still but for a step per look at a clock, and for sleeping.
package final class SimulatedEnvironment: Environment {
    private struct State: Sendable {
        var wallClock: Int64
        var monotonic: UInt64
        var generator: SeededRandom
        var process: UInt32
        var name: String
        var sleepHook: (@Sendable (UInt64) -> Void)?
    }

    private let state: Guarded<State>
    /// How far each look at a clock moves both.
    package let stepMicroseconds: UInt64

    /// The clocks begin at 2026-01-01T00:00:00Z and at one second.
    package init(
        seed: UInt64 = 0, process: UInt32 = 1, name: String = "simulated", stepMicroseconds: UInt64 = 1,
        wallClock: Int64 = 1_767_225_600_000_000
    ) {
        self.stepMicroseconds = stepMicroseconds
        state = Guarded(
            State(
                wallClock: wallClock, monotonic: 1_000_000, generator: SeededRandom(seed), process: process,
                name: name))
    }

    package func wallClockMicroseconds() -> Int64 {
        state.withLock { state in
            SimulatedEnvironment.advance(&state, by: stepMicroseconds)
            return state.wallClock
        }
    }

    package func monotonicMicroseconds() -> UInt64 {
        state.withLock { state in
            SimulatedEnvironment.advance(&state, by: stepMicroseconds)
            return state.monotonic
        }
    }

    /// A look that takes no time.
    package func coarseSeconds() -> Int64 { state.withLock { Int64($0.monotonic / 1_000_000) } }

    package func random() -> UInt64 { state.withLock { $0.generator.next() } }

    package func processID() -> UInt32 { state.withLock { $0.process } }

    package func processName() -> String { state.withLock { $0.name } }

    /// Moves both clocks and runs the hook; takes no real time.
    package func sleep(microseconds: UInt64) {
        let hook = state.withLock { state in
            SimulatedEnvironment.advance(&state, by: microseconds)
            return state.sleepHook
        }
        hook?(microseconds)
    }

    // MARK: For the test

    package func setWallClock(_ microseconds: Int64) { state.withLock { $0.wallClock = microseconds } }

    package func advance(byMicroseconds microseconds: UInt64) {
        state.withLock { SimulatedEnvironment.advance(&$0, by: microseconds) }
    }

    package func setProcess(_ id: UInt32, name: String) {
        state.withLock { state in
            state.process = id
            state.name = name
        }
    }

    /// Runs at each sleep, with its length, without any lock held.
    package func setOnSleep(_ hook: (@Sendable (UInt64) -> Void)?) { state.withLock { $0.sleepHook = hook } }

    /// A wall clock may be set to its very end, and then stays there.
    private static func advance(_ state: inout State, by microseconds: UInt64) {
        let (moved, overflow) = state.wallClock.addingReportingOverflow(Int64(clamping: microseconds))
        state.wallClock = overflow ? Int64.max : moved
        state.monotonic &+= microseconds
    }
}
