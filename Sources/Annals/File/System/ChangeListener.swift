// A thread or task that waits for changes of a store file.

/// The reason why a wait for changes has ended.
package enum WaitOutcome: Equatable, Sendable {
    /// Look at the file. In doubt, look also whether its name still leads to it.
    case news(isInDoubt: Bool)
    case timePassed
    case stopped
}

/// A listener at a hub. Its owner calls the hub with it, and `remove` once at the end.
///
/// Sound although it is shared: the hub touches its variables only with the monitor locked.
package final class ChangeListener: @unchecked Sendable {
    let directory: String
    let name: String
    /// Whether tasks wait with it. A thread of the hub waits for them.
    let isAsynchronous: Bool
    /// Nil without a watch: then it looks in intervals.
    var file: WatchedFile?
    /// True from the start: a listener looks before it first waits.
    var hasNews = true
    var isInDoubt = true
    var isStopped = false
    /// The time of the next look without a watch, on the monotonic clock.
    var nextLook: UInt64 = 0
    /// The waiting task.
    var parked: Parked?
    /// A task was cancelled before it was parked.
    var isRoused = false

    struct Parked {
        var continuation: CheckedContinuation<Void, Never>
        var deadline: UInt64?
    }

    init(directory: String, name: String, isAsynchronous: Bool) {
        (self.directory, self.name, self.isAsynchronous) = (directory, name, isAsynchronous)
    }

    /// The moment to look or to give up even without news; nil for never.
    func nextMoment(deadline: UInt64?) -> UInt64? {
        guard file == nil else { return deadline }
        return min(nextLook, deadline ?? .max)
    }

    /// The moment at which the hub's thread wakes the task even without news; nil for never, or without a waiting task.
    var parkedMoment: UInt64? { parked.flatMap { nextMoment(deadline: $0.deadline) } }

    /// Whether its waiting task must wake.
    func isDue(now: UInt64) -> Bool {
        isStopped || hasNews || isRoused || parkedMoment.map { $0 <= now } ?? false
    }
}
