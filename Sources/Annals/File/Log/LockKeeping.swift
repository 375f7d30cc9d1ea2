// When the writer lock is kept from one commit to the next: while a handle makes one short commit directly after the
// other.
//
// Taking the lock and giving it back costs more than writing a row. A handle that keeps it still holds it, as the
// system sees it: a kept lock changes who waits, and for how long, and never who may write.
//
// Invariants:
// K1  As long as it is kept nobody else has appended: what was known at the last commit is the newest there is.
// K2  A waiting process announces it. The one that keeps the lock looks for that each time a lease has passed, and then
//     lets the other one go first. A lease is longer only after one that went by without the other one coming.
// K3  When commits cease a thread releases it: nobody waits longer than a lease, or twice the idle time, for a handle
//     that does nothing.

/// What a handle knows about the lock between its commits. Times are of the wall clock, which every commit reads: where
/// that is set to another time the lock is returned sooner.
struct LockKeeping {
    private let limits: LockKeepingLimits
    /// Whether the lock is held although nobody commits.
    private(set) var isKept = false
    /// Whether the thread that releases it is awake.
    var isWatched = false
    /// Below zero after another handle's.
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

    /// Nobody waits.
    mutating func renewLease(_ now: Int64) {
        leaseStart = now
        lease = limits.leaseMicroseconds
    }

    /// A process waited, and has taken the lock, or not.
    mutating func gaveWay(_ hasCome: Bool) {
        lease = hasCome ? limits.leaseMicroseconds : min(max(lease, 1) * 2, limits.longestLeaseMicroseconds)
    }

    func isIdle(_ now: Int64) -> Bool { !Self.isWithin(limits.idleMicroseconds, since: lastCommit, now) }

    /// Called for a relaxed commit: whether the lock is kept after it.
    mutating func isWorthKeeping(afterCommitAt now: Int64) -> Bool {
        let isClose = Self.isWithin(limits.gapMicroseconds, since: lastCommit, now)
        closeCommits = isClose ? closeCommits + 1 : min(closeCommits, 0)
        lastCommit = now
        return closeCommits >= limits.commits
    }

    /// Another process has written: it may be its turn again.
    mutating func beginAnew() {
        closeCommits = limits.commits - max(limits.commits, limits.commitsAfterOthers) - 1
        lease = limits.leaseMicroseconds
    }

    mutating func keep(_ now: Int64) {
        if !isKept { leaseStart = now }
        isKept = true
    }

    mutating func release() { isKept = false }
}
