// Decides when the writer lock is kept from one commit to the next: while a handle makes short commits one directly
// after the other.
//
// Taking and releasing the lock costs more than writing a row. A handle that keeps it still holds it for the system: a
// kept lock changes which process waits, and for how long, but never which may write.
//
// Invariants:
// K1  While the lock is kept, no other handle can have appended: the state of the last commit is the newest.
// K2  A waiting process announces itself. The keeper looks for an announcement after each lease, and then lets the
//     waiting process go first. A lease is longer only if the waiting process did not come during the one before.
// K3  When commits cease, a thread releases the lock: a waiting process loses at most a lease, or twice the idle time,
//     to an idle handle.

/// A handle's facts about the lock between its commits. Times are of the wall clock, which every commit reads: if that
/// clock is set, the lock is released sooner.
struct LockKeeping {
    private let limits: LockKeepingLimits
    /// Whether the lock is held between commits.
    private(set) var isKept = false
    /// Whether the thread that releases it is awake.
    var isWatched = false
    /// Below zero after another handle's commit.
    private var closeCommits = 0
    private var lastCommit: Int64 = 0
    private var leaseStart: Int64 = 0
    private var lease: Int64

    init(_ limits: LockKeepingLimits) {
        self.limits = limits
        lease = limits.leaseMicroseconds
    }

    private static func isWithin(_ length: Int64, since start: Int64, _ now: Int64) -> Bool {
        now >= start && now &- start < length
    }

    func isLeaseOver(_ now: Int64) -> Bool { !Self.isWithin(lease, since: leaseStart, now) }

    /// Starts a new lease because no process waits.
    mutating func renewLease(_ now: Int64) {
        assert(isKept, "K2: a lease is renewed without the lock.")
        leaseStart = now
        lease = limits.leaseMicroseconds
    }

    /// Called after giving way to a waiting process. `hasCome`: whether it has taken the lock.
    mutating func gaveWay(_ hasCome: Bool) {
        assert(!isKept, "K2: a handle gives way and keeps the lock.")
        lease = hasCome ? limits.leaseMicroseconds : min(max(lease, 1) * 2, limits.longestLeaseMicroseconds)
    }

    func isIdle(_ now: Int64) -> Bool {
        assert(isKept, "K3: a lock that is not kept is idle.")
        return !Self.isWithin(limits.idleMicroseconds, since: lastCommit, now)
    }

    /// Called for a relaxed commit: whether the lock is kept after it.
    mutating func isWorthKeeping(afterCommitAt now: Int64) -> Bool {
        let isClose = Self.isWithin(limits.gapMicroseconds, since: lastCommit, now)
        closeCommits = isClose ? closeCommits + 1 : min(closeCommits, 0)
        lastCommit = now
        return closeCommits >= limits.commits
    }

    /// Another process has written: it may want the lock again.
    mutating func beginAnew() {
        assert(!isKept, "K1: another handle has appended while the lock was kept.")
        closeCommits = limits.commits - max(limits.commits, limits.commitsAfterOthers) - 1
        lease = limits.leaseMicroseconds
    }

    mutating func keep(_ now: Int64) {
        assert(closeCommits >= limits.commits, "The lock is kept after few commits.")
        if !isKept { leaseStart = now }
        isKept = true
    }

    mutating func release() { isKept = false }
}
