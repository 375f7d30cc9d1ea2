// The time as a tracker sees it.

package import FoundationEssentials

/// The time by which a tracker waits and cleans. Tests give it a clock that they set.
package protocol HistoryTrackerClock: Sendable {
    /// The time of day.
    var now: Date { get }
    /// The time since any fixed moment, by a clock that is never set.
    var uptime: Duration { get }
    /// Waits. Throws `CancellationError` if the task is cancelled.
    func sleep(for duration: Duration) async throws
}

/// The clocks of the machine.
package struct SystemTrackerClock: HistoryTrackerClock {
    private static let beginning = ContinuousClock.now

    package init() {}

    /// The time of day.
    package var now: Date { Date() }
    /// The time since the process first read it.
    package var uptime: Duration { Self.beginning.duration(to: .now) }
    /// Waits.
    package func sleep(for duration: Duration) async throws { try await Task.sleep(for: duration) }
}

/// Whether the time of day can be believed. A jump of more than an hour is not believed until the new time has lasted
/// an hour or the clock is set back: cleaning by age must not remove everything because of a mistyped year.
struct ClockTrust: Sendable {
    private static let tolerance = Duration.seconds(3600)
    private var last: (now: Date, uptime: Duration)?
    private var doubtedUntil: Duration?

    mutating func believes(now: Date, uptime: Duration) -> Bool {
        defer { last = (now, uptime) }
        if let last {
            let jump = Duration.seconds(now.timeIntervalSince(last.now)) - (uptime - last.uptime)
            if jump > Self.tolerance { doubtedUntil = uptime + Self.tolerance }
            if jump < .zero - Self.tolerance { doubtedUntil = nil }
        }
        guard let doubtedUntil else { return true }
        return uptime >= doubtedUntil
    }
}
