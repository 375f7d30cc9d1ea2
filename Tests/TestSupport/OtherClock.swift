// A machine whose clock is wrong.

internal import Annals

package struct OtherClock: Environment {
    private let real = RealEnvironment()
    private let microsecondsAhead: @Sendable () -> Int64

    /// - Parameter microsecondsAhead: How far the clock is ahead of the right one, asked at each look at it.
    package init(_ microsecondsAhead: @escaping @Sendable () -> Int64) { self.microsecondsAhead = microsecondsAhead }

    package func wallClockMicroseconds() -> Int64 { real.wallClockMicroseconds() + microsecondsAhead() }
    package func monotonicMicroseconds() -> UInt64 { real.monotonicMicroseconds() }
    package func coarseSeconds() -> Int64 { real.coarseSeconds() }
    package func random() -> UInt64 { real.random() }
    package func processID() -> UInt32 { real.processID() }
    package func processName() -> String { real.processName() }
    package func sleep(microseconds: UInt64) { real.sleep(microseconds: microseconds) }
}
