// A tracker's clock that tests move, and what its bodies were called with.

package import Annals
package import FoundationEssentials
import Synchronization

/// A clock that stands until it is moved. Sleeping takes no time.
package final class ManualClock: HistoryTrackerClock {
    private let times: Mutex<(now: Date, uptime: Duration, slept: [Duration])>

    package init(_ now: Date = Date()) { times = Mutex((now, .zero, [])) }

    package var now: Date { times.withLock { $0.now } }
    package var uptime: Duration { times.withLock { $0.uptime } }
    package var slept: [Duration] { times.withLock { $0.slept } }

    package func sleep(for duration: Duration) async throws { times.withLock { $0.slept.append(duration) } }

    /// Time passes.
    package func advance(by seconds: Double) {
        times.withLock { times in
            times.now += seconds
            times.uptime += .seconds(seconds)
        }
    }

    /// Somebody sets the clock.
    package func set(by seconds: Double) { times.withLock { $0.now += seconds } }
}

/// What bodies were called with, in the order of the calls.
package final class Calls: Sendable {
    private let list = Mutex<[String]>([])

    package init() {}

    package var all: [String] { list.withLock { $0 } }
    package var count: Int { all.count }
    package func note(_ call: String) { list.withLock { $0.append(call) } }
}

/// Notes what a tracker logs.
package struct Messages: HistoryTrackerLogger {
    package let calls: Calls

    package init(calls: Calls) { self.calls = calls }

    package func log(type: HistoryTrackerLogType, message: String) { calls.note("\(type): \(message)") }
}
