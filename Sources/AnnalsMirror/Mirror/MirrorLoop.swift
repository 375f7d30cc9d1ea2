// The thread of a running mirror.
//
// Invariants:
// ML1  Only the thread uses the peer and its courier.
// ML2  Errors never end the thread before it is stopped: it shows them, and tries again.
// ML3  The thread holds the store's lease while it uses the store, and publishes nothing more after an error of
//      identity.

internal import Annals
internal import FoundationEssentials
internal import Synchronization

final class MirrorLoop: Sendable {
    private let store: Store
    /// For people.
    private let name: String
    private let interruption: Interruption
    private let direction: Mirror.Direction
    private let localEntities: [String]?
    private let board: MirrorStatusBoard
    private let isStopping = Atomic(false)
    private let shared = Mutex(Shared())
    /// Used by the thread only (ML1).
    private nonisolated(unsafe) let courier: any Courier
    /// The number of this mirror in its join messages, over all connections.
    private let instance = UInt64.random(in: .min ... .max)
    /// Whether the group may know of this mirror. Used by the thread only.
    private nonisolated(unsafe) var hasJoined = false
    /// Of the engine and the store. Used by the thread only.
    private nonisolated(unsafe) var weaknesses: [String] = []

    /// Something that a program wants from the group.
    enum Wish: Sendable {
        case leave
        /// The group does not wait for this store any more.
        case forget(UUID)
    }

    private struct Shared {
        var wishes: [(Wish, CheckedContinuation<Void, any Error>)] = []
        var signals: MirrorSignals?
        var waiters: [CheckedContinuation<Void, Never>] = []
        var hasEnded = false
    }

    private static let longestWaitSeconds = 3600.0
    private static let saveSeconds = 5.0
    private static let ended = StoreError(.cancelled, "The mirror is not running: start it first.")
    private static let retrySeconds = 1.0
    /// How often the place for a later mirror is kept.
    private static let savePeriod: Duration = .seconds(saveSeconds)

    init(
        _ store: Store, _ name: String, _ direction: Mirror.Direction, _ localEntities: [String]?,
        _ courier: sending any Courier, _ interruption: Interruption, _ board: MirrorStatusBoard
    ) {
        (self.store, self.name, self.direction, self.courier) = (store, name, direction, courier)
        self.localEntities = localEntities
        (self.interruption, self.board) = (interruption, board)
    }

    func start() throws {
        let signals = try MirrorSignals(store, interruption)
        shared.withLock { $0.signals = signals }
        do {
            _ = try BackgroundThread(name: "annals-mirror") { self.run(signals) }
        } catch {
            signals.stop()
            throw error
        }
        board.change { $0.isRunning = true }
    }

    var isEnding: Bool { isStopping.load(ordering: .acquiring) }

    func stop() {
        isStopping.store(true, ordering: .releasing)
        shared.withLock { $0.signals }?.stop()
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

    private func run(_ signals: MirrorSignals) {
        var lease: MirrorLease?
        while goesOn {
            do {
                if lease?.isInPlace != true { lease = try MirrorLease.take(store) }
                try mirror(lease, signals)
            } catch {
                // An error of the call that `stop` has ended is none.
                guard goesOn else { break }
                let error = error as? StoreError ?? StoreError(.invalidArgument, "\(error)")
                show(error)
                // `stop` ends this wait.
                _ = interruption.wait(seconds: Self.retrySeconds)
                // Nothing needs the history of a store that has left, or cannot join.
                if [.leftGroup, .mirrorNeedsEmptyStore].contains(error.code) {
                    _ = try? store.removeConsumer(MergingStore.consumer)
                }
                let isFinal = [.leftGroup, .groupConflict, .mirrorNeedsEmptyStore].contains(error.code)
                if isFinal || hasJoined && [.storeCopied, .storeRestored].contains(error.code) { awaitStop(error) }
            }
        }
        signals.stop()
        // Before `stop` returns, so that another mirror can start.
        lease = nil
        board.change { $0.isRunning = false }
        let (waiters, wishes) = shared.withLock { shared in
            defer { (shared.waiters, shared.wishes) = ([], []) }
            shared.hasEnded = true
            return (shared.waiters, shared.wishes)
        }
        for (_, wish) in wishes { wish.resume(throwing: Self.ended) }
        for waiter in waiters { waiter.resume() }
    }

    /// After an error that lasts until the mirror is started again.
    private func awaitStop(_ error: StoreError) {
        while goesOn {
            let wishes = shared.withLock { shared in
                defer { shared.wishes = [] }
                return shared.wishes
            }
            for (_, wish) in wishes { wish.resume(throwing: error) }
            _ = interruption.wait(seconds: Self.longestWaitSeconds)
            clear()
        }
    }

    private func mirror(_ lease: MirrorLease?, _ signals: MirrorSignals) throws {
        clear()
        let found = try lease?.mark()
        if let found, let record = try MirrorRecord.load(store) { try lease?.requireOwn(record.mark, found: found) }
        let start = ContinuousClock.now
        // Above the numbers of earlier mirrors of the store, unless the clock went back: then an engine may take a
        // message for an older one, and it is requested again.
        let number = UInt64(max(1, Date.now.timeIntervalSince1970 * 1_000_000))
        let peer = try MirrorPeer.begin(
            store, courier, firstNumber: number, name: name, instance: instance, direction: direction,
            localEntities: localEntities
        ) {
            let (seconds, parts) = (ContinuousClock.now - start).components
            return Double(seconds) + Double(parts) * 1e-18
        }
        hasJoined = true
        peer.mark = found
        var nextSave = ContinuousClock.now + Self.savePeriod
        var (hasAsked, isChanged) = (false, true)
        defer { if lease?.isInPlace != false { try? peer.save() } }
        while goesOn {
            do {
                try carryOutWishes(peer)
                let wait = min(peer.pauseSeconds, isChanged ? Self.saveSeconds : Self.longestWaitSeconds)
                let isNew = try peer.step(waitSeconds: wait) { waits in
                    if waits {
                        signals.begin()
                    } else {
                        signals.end()
                        clear()
                    }
                }
                isChanged = isChanged || isNew
                if !hasAsked { try askForWeaknesses() }
                hasAsked = true
            } catch let error as StoreError where error.code == .cancelled {
                // A signal that came after the wait has ended the next call.
                clear()
                continue
            }
            show(peer)
            if isChanged, ContinuousClock.now >= nextSave {
                try lease?.requireInPlace()
                // Compaction changes it.
                peer.mark = try lease?.mark()
                try peer.save()
                (isChanged, nextSave) = (false, ContinuousClock.now + Self.savePeriod)
            }
        }
    }

    // MARK: Wishes of other threads

    /// Has the thread do something with the group. Returns when it is done.
    func carryOut(_ wish: Wish) async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            let hasEnded = shared.withLock { shared in
                if !shared.hasEnded { shared.wishes.append((wish, continuation)) }
                return shared.hasEnded
            }
            if hasEnded { continuation.resume(throwing: Self.ended) } else { interruption.interrupt() }
        }
    }

    private func carryOutWishes(_ peer: MirrorPeer) throws {
        while let (wish, continuation) = shared.withLock({ $0.wishes.first }) {
            switch wish {
            case .leave:
                // The other members need the rest first.
                peer.direction = .both
                if peer.mayLeave { try peer.leave() }
                guard peer.hasLeft else { return }
                _ = try store.removeConsumer(MergingStore.consumer)
                isStopping.store(true, ordering: .releasing)
            case .forget(let store): try peer.declareLost(store)
            }
            shared.withLock { _ = $0.wishes.removeFirst() }
            continuation.resume()
        }
    }

    private func askForWeaknesses() throws {
        weaknesses = try courier.weaknesses() + withoutHistory()
    }

    private func withoutHistory() throws -> [String] {
        let (snapshot, local) = (try store.snapshot(), try MirrorRecord.load(store)?.local.numbers ?? [])
        let mirrored = try snapshot.entities.filter { try !local.contains(snapshot.entity($0.name).number) }
        return mirrored.filter { $0.history != .full }.map { entity in
            "Objects of \(entity.name) are not mirrored, because the history of the entity is off: turn it on, or make "
                + "it a local entity."
        }
    }

    private func clear() {
        interruption.clear()
        // A stop that came just before stays in force.
        if !goesOn { interruption.interrupt() }
    }

    // MARK: What it shows

    private func show(_ error: StoreError) { board.change { $0.lastError = error } }

    private func show(_ peer: MirrorPeer) {
        let (members, published, conflicts) = (peer.known, peer.publishedNumber, translated(peer.takeConflicts()))
        let (bytes, weaknesses) = (peer.takeBytes(), weaknesses + [peer.waits].compactMap(\.self))
        let (obstacle, parked) = (peer.obstacle, peer.parked.map { Mirror.Parked($0) })
        board.change { status in
            (status.peers, status.published) = (members.map { Mirror.Peer($0) }, published)
            (status.lastError, status.parked) = (obstacle, parked)
            status.add(conflicts)
            (status.weaknesses, status.localEntities) = (weaknesses, peer.merging.local.names)
            status.bytesSent += bytes.sent
            status.bytesReceived += bytes.received
        }
    }

    /// The conflicts with the objects of this store.
    private func translated(_ conflicts: [MergeConflict]) -> [Mirror.Conflict] {
        if conflicts.isEmpty { return [] }
        let view = try? ExchangeView(try store.snapshot())
        return conflicts.map { Mirror.Conflict($0, in: view) }
    }
}
