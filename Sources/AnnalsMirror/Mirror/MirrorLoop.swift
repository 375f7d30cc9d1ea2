// The thread of a running mirror.
//
// Invariants:
// ML1  Only the thread uses the peer and its courier.
// ML2  Errors never end the thread before it is stopped: it shows them, and tries again.

internal import Annals
internal import FoundationEssentials
internal import Synchronization

final class MirrorLoop: Sendable {
    private let store: Store
    private let interruption: Interruption
    private let isStopping = Atomic(false)
    /// Whether the thread waits for messages: then a transaction of this store ends the wait.
    private let isWaiting = Atomic(false)
    private let shared = Mutex(Shared())
    /// Used by the thread only (ML1).
    private nonisolated(unsafe) let courier: any Courier

    private struct Shared {
        var status = Mirror.Status()
        var signals: Task<Void, Never>?
        var waiters: [CheckedContinuation<Void, Never>] = []
        var hasEnded = false
    }

    /// The longest wait for messages: reminders are due at times.
    private static let waitSeconds = 1.0
    private static let retrySeconds = 1.0
    /// How often the place for a later mirror is kept.
    private static let savePeriod: Duration = .seconds(5)

    init(_ store: Store, _ courier: sending any Courier, _ interruption: Interruption) {
        (self.store, self.courier, self.interruption) = (store, courier, interruption)
    }

    var status: Mirror.Status { shared.withLock { $0.status } }

    func start() throws {
        let signals = try store.changes()
        shared.withLock { $0.status.isRunning = true }
        _ = try BackgroundThread(name: "annals-mirror") { self.run() }
        let task = Task {
            do {
                for try await _ in signals where isWaiting.load(ordering: .acquiring) { interruption.interrupt() }
            } catch {}
        }
        shared.withLock { $0.signals = task }
    }

    var isEnding: Bool { isStopping.load(ordering: .acquiring) }

    func stop() {
        isStopping.store(true, ordering: .releasing)
        shared.withLock { $0.signals }?.cancel()
        interruption.interrupt()
    }

    /// Returns when the thread has ended.
    func ended() async {
        await withCheckedContinuation { continuation in
            let hasEnded = shared.withLock { shared in
                if !shared.hasEnded { shared.waiters.append(continuation) }
                return shared.hasEnded
            }
            if hasEnded { continuation.resume() }
        }
    }

    // MARK: The thread

    private var goesOn: Bool { !isStopping.load(ordering: .acquiring) }

    private func run() {
        while goesOn {
            do {
                try mirror()
            } catch {
                show(error as? StoreError ?? StoreError(.invalidArgument, "\(error)"))
                // `stop` ends this wait.
                if goesOn { _ = interruption.wait(seconds: Self.retrySeconds) }
            }
        }
        let waiters = shared.withLock { shared in
            defer { shared.waiters = [] }
            (shared.hasEnded, shared.status.isRunning) = (true, false)
            return shared.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    private func mirror() throws {
        clear()
        let isNew = try store.mergeState() == nil
        let highest = isNew ? try MirrorPeer.highestNumber(courier) : 0
        let lowest = highest > 0 ? highest + MirrorPeer.joiningDistance : 0
        let merging = try MergingStore(store, joining: lowest)
        let start = ContinuousClock.now
        // Above the numbers of earlier mirrors of the store, unless the clock went back: then an engine may take a
        // message for an older one, and it is requested again.
        let number = UInt64(max(1, Date.now.timeIntervalSince1970 * 1_000_000))
        let peer = MirrorPeer(merging, courier, members: [], firstNumber: number) {
            let (seconds, parts) = (ContinuousClock.now - start).components
            return Double(seconds) + Double(parts) * 1e-18
        }
        try peer.join(name: "", instance: UInt64.random(in: .min ... .max))
        var nextSave = ContinuousClock.now + Self.savePeriod
        defer { try? peer.save() }
        while goesOn {
            do {
                try peer.step(waitSeconds: Self.waitSeconds) { waits in
                    isWaiting.store(waits, ordering: .sequentiallyConsistent)
                    if !waits { clear() }
                }
            } catch let error as StoreError where error.code == .cancelled {
                // A signal that came after the wait has ended the next call.
                clear()
                continue
            }
            show(peer)
            if ContinuousClock.now >= nextSave {
                try peer.save()
                nextSave = ContinuousClock.now + Self.savePeriod
            }
        }
    }

    private func clear() {
        interruption.clear()
        // A stop that came just before stays in force.
        if !goesOn { interruption.interrupt() }
    }

    // MARK: What it shows

    private func show(_ error: StoreError) { shared.withLock { $0.status.lastError = error } }

    private func show(_ peer: MirrorPeer) {
        let peers = peer.known.map {
            Mirror.Peer(identifier: $0.peer, merged: $0.merged, newest: $0.newest, confirmed: $0.confirmed)
        }
        let (published, conflicts) = (peer.publishedNumber, peer.takeConflicts().count)
        let obstacle = peer.obstacles.min { $0.key.uuidString < $1.key.uuidString }?.value
        shared.withLock { shared in
            (shared.status.peers, shared.status.published) = (peers, published)
            shared.status.lastError = obstacle
            shared.status.conflicts += conflicts
        }
    }
}
