// The thread of a running mirror.
//
// Invariants:
// ML1  Only the thread uses the peer and its courier.
// ML2  Errors never end the thread before it is stopped: it shows them, and tries again.
// ML3  The thread holds the store's lease while it uses the store, and publishes nothing more after an error of identity.

internal import Annals
internal import FoundationEssentials
internal import Synchronization

final class MirrorLoop: Sendable {
    private let store: Store
    /// For people.
    private let name: String
    private let interruption: Interruption
    private let board: MirrorStatusBoard
    private let isStopping = Atomic(false)
    /// Whether the thread waits for messages: then a transaction of this store ends the wait.
    private let isWaiting = Atomic(false)
    private let shared = Mutex(Shared())
    /// Used by the thread only (ML1).
    private nonisolated(unsafe) let courier: any Courier
    /// The number of this mirror in its join messages, over all connections.
    private let instance = UInt64.random(in: .min ... .max)
    /// Whether the group may know of this mirror. Used by the thread only.
    private nonisolated(unsafe) var hasJoined = false

    private struct Shared {
        var signals: Task<Void, Never>?
        var waiters: [CheckedContinuation<Void, Never>] = []
        var hasEnded = false
    }

    /// The longest wait for messages: reminders are due at times.
    private static let waitSeconds = 1.0
    private static let retrySeconds = 1.0
    /// How often the place for a later mirror is kept.
    private static let savePeriod: Duration = .seconds(5)

    init(
        _ store: Store, _ name: String, _ courier: sending any Courier, _ interruption: Interruption,
        _ board: MirrorStatusBoard
    ) {
        (self.store, self.name, self.courier) = (store, name, courier)
        (self.interruption, self.board) = (interruption, board)
    }

    func start() throws {
        let signals = try store.changes()
        _ = try BackgroundThread(name: "annals-mirror") { self.run() }
        board.change { $0.isRunning = true }
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
        var lease: MirrorLease?
        while goesOn {
            do {
                if lease?.isInPlace != true { lease = try MirrorLease.take(store) }
                try mirror(lease)
            } catch {
                // An error of the call that `stop` has ended is none.
                guard goesOn else { break }
                let error = error as? StoreError ?? StoreError(.invalidArgument, "\(error)")
                show(error)
                // `stop` ends this wait.
                _ = interruption.wait(seconds: Self.retrySeconds)
                if hasJoined, [.storeCopied, .storeRestored].contains(error.code) { awaitStop() }
            }
        }
        // Before `stop` returns, so that another mirror can start.
        lease = nil
        board.change { $0.isRunning = false }
        let waiters = shared.withLock { shared in
            defer { shared.waiters = [] }
            shared.hasEnded = true
            return shared.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    private func awaitStop() {
        while goesOn {
            _ = interruption.wait(seconds: Self.waitSeconds)
            clear()
        }
    }

    private func mirror(_ lease: MirrorLease?) throws {
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
        try peer.join(name: name, instance: instance)
        hasJoined = true
        var nextSave = ContinuousClock.now + Self.savePeriod
        var hasAsked = false
        defer { try? peer.save() }
        while goesOn {
            do {
                try peer.step(waitSeconds: Self.waitSeconds) { waits in
                    isWaiting.store(waits, ordering: .sequentiallyConsistent)
                    if !waits { clear() }
                }
                if !hasAsked { try askForWeaknesses() }
                hasAsked = true
            } catch let error as StoreError where error.code == .cancelled {
                // A signal that came after the wait has ended the next call.
                clear()
                continue
            }
            show(peer)
            if ContinuousClock.now >= nextSave {
                try lease?.requireInPlace()
                try peer.save()
                nextSave = ContinuousClock.now + Self.savePeriod
            }
        }
    }

    private func askForWeaknesses() throws {
        let weaknesses = try courier.weaknesses()
        board.change { $0.weaknesses = weaknesses }
    }

    private func clear() {
        interruption.clear()
        // A stop that came just before stays in force.
        if !goesOn { interruption.interrupt() }
    }

    // MARK: What it shows

    private func show(_ error: StoreError) { board.change { $0.lastError = error } }

    private func show(_ peer: MirrorPeer) {
        let (members, published, conflicts) = (peer.members, peer.publishedNumber, translated(peer.takeConflicts()))
        let obstacle = peer.obstacles.min { $0.key.uuidString < $1.key.uuidString }?.value
        board.change { status in
            (status.peers, status.published) = (members.map { Mirror.Peer($0) }, published)
            status.lastError = obstacle
            status.add(conflicts)
        }
    }

    /// The conflicts with the objects of this store.
    private func translated(_ conflicts: [MergeConflict]) -> [Mirror.Conflict] {
        if conflicts.isEmpty { return [] }
        let view = try? ExchangeView(try store.snapshot())
        return conflicts.map { Mirror.Conflict($0, in: view) }
    }
}
