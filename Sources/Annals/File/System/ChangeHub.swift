// Wakes threads that wait for changes of store files. The process has one watch; its threads take turns in it.
//
// Invariants:
// CH1  A listener has its watch before it first looks, or looks every 250 ms.
// CH2  One thread at a time waits in the watch: it leads. It passes all news on before it leaves; then another waiting
//     thread leads.
// CH3  No lock is held while a thread waits in the watch.
// CH4  Without listeners there is no watch: the system allows each user only a few.
// CH5  The thread for tasks reads the watch only while a task waits. At other times the system folds all changes into
//      one event, and a writer that commits at full speed wakes no thread.

internal import Synchronization

/// Lets the threads and tasks of a process wait for changes. Any thread may call it.
///
/// Sound although it is shared: variables are touched only with `monitor` locked.
package final class ChangeHub: @unchecked Sendable {
    /// The interval of looks if there is no watch.
    package static let intervalMicroseconds: UInt64 = 250_000

    package typealias WatchMaker = @Sendable () throws(StoreError) -> any ChangeWatch

    private let process = OwnProcess()
    private let monitor = Monitor()
    private let makeWatch: WatchMaker
    private var watch: (any ChangeWatch)?
    /// Counts watches: news from an earlier watch concerns its own files only.
    private var epoch: UInt64 = 0
    private var listeners: [ObjectIdentifier: ChangeListener] = [:]
    private var isLed = false
    /// The number of threads that wait for the leading one.
    private var followers = 0
    private var asynchronousListeners = 0
    private var hasThread = false
    /// The moment until which the thread for tasks waits.
    private var threadMoment = UInt64.max
    /// Whether that thread waits for a waiting task. (CH5)
    private var isThreadIdle = false

    package init(_ makeWatch: @escaping WatchMaker) { self.makeWatch = makeWatch }

    // MARK: The process's own

    private static let own = PerProcess { ChangeHub { () throws(StoreError) in try InotifyWatch() } }

    /// The hub of this process, which watches through inotify.
    package static var shared: ChangeHub { own.value }

    /// The same, but nil if it does not exist yet.
    package static var existing: ChangeHub? { own.existing }

    // MARK: Listening

    /// Begins to listen for changes of a file (`Log.directoryPath`, `Log.name`). The first wait ends at once, so that
    /// the caller reads the state with the watch in place.
    ///
    /// Without a free watch, it looks every 250 ms. Throws `forked`, and `outOfMemory` if the system cannot start the
    /// thread that waits for tasks.
    package func listen(
        directory: String, name: String, asynchronously: Bool
    ) throws(StoreError) -> ChangeListener {
        if process.wasForked { throw process.refusal(path: StorePlace.path(of: name, in: directory)) }
        return try monitor.withLock { () throws(StoreError) in
            let listener = ChangeListener(directory: directory, name: name, isAsynchronous: asynchronously)
            if asynchronously, !hasThread { try startThread() }
            if asynchronously { asynchronousListeners += 1 }
            listeners[ObjectIdentifier(listener)] = listener
            attach(listener)
            return listener
        }
    }

    package func remove(_ listener: ChangeListener) {
        if process.wasForked { return }
        monitor.withLock {
            guard listeners.removeValue(forKey: ObjectIdentifier(listener)) != nil else { return }
            if listener.isAsynchronous { asynchronousListeners -= 1 }
            if let file = listener.file { watch?.remove(file) }
            let isThreadDone = listener.isAsynchronous && asynchronousListeners == 0
            if isThreadDone || listeners.isEmpty { interrupt() }
            // A watch is kept only for listeners: CH4.
            if listeners.isEmpty { dropWatch() }
        }
    }

    /// Ends all waits of the listener, now and later.
    package func stop(_ listener: ChangeListener) {
        if process.wasForked { return }
        wake([listener]) { $0.isStopped = true }
    }

    /// Wakes all listeners for the file: a handle on it has committed, or was closed.
    package func poke(directory: @autoclosure () -> String, name: String) {
        if process.wasForked { return }
        let concerned = monitor.withLock {
            // The first use of each dictionary type is expensive.
            if listeners.isEmpty { return [ChangeListener]() }
            let directory = directory()
            return listeners.values.filter { $0.directory == directory && $0.name == name }
        }
        if !concerned.isEmpty { wake(concerned) { $0.hasNews = true } }
    }

    /// For a caller that has found news but not its cause: the next wait ends at once.
    package func keepDoubt(_ listener: ChangeListener) {
        if process.wasForked { return }
        monitor.withLock { (listener.hasNews, listener.isInDoubt) = (true, true) }
    }

    /// For a caller whose path no longer leads to the file: it looks in intervals from now on.
    package func lookInIntervals(_ listener: ChangeListener) {
        if process.wasForked { return }
        monitor.withLock {
            if let file = listener.file { watch?.remove(file) }
            listener.file = nil
            listener.nextLook = SystemCalls.monotonicMicroseconds() &+ Self.intervalMicroseconds
        }
    }

    /// Whether the watch reports changes of the file. Otherwise the listener looks in intervals.
    package func isWatched(_ listener: ChangeListener) -> Bool { monitor.withLock { listener.file != nil } }

    private func wake(_ concerned: [ChangeListener], _ change: (ChangeListener) -> Void) {
        let due = monitor.withLock {
            for listener in concerned { change(listener) }
            interrupt()
            return popDue()
        }
        for continuation in due { continuation.resume() }
    }

    // MARK: The watch. With `monitor` locked

    /// Puts the listener under watch if the system allows. No program sees the errors: the file is then looked at in
    /// intervals.
    private func attach(_ listener: ChangeListener) {
        do throws(StoreError) {
            if watch == nil { watch = try makeWatch() }
            listener.file = try watch?.add(directory: listener.directory, name: listener.name)
        } catch {
            listener.file = nil
            if !listeners.values.contains(where: { $0.file != nil }), !isLed { dropWatch() }
        }
    }

    private func dropWatch() {
        watch = nil
        epoch &+= 1
    }

    /// Wakes every waiting thread to check its condition.
    private func interrupt() {
        if isLed { watch?.wake() }
        monitor.signalAll()
    }

    private func tell(_ news: [WatchNews]) {
        for item in news {
            for listener in listeners.values {
                switch item {
                case .changed(let file) where file == listener.file: break
                case .replaced(let file) where file == listener.file: listener.isInDoubt = true
                case .gone(let file) where file == listener.file:
                    watch?.remove(file)
                    listener.file = nil
                    listener.isInDoubt = true
                case .overflow: listener.isInDoubt = true
                default: continue
                }
                listener.hasNews = true
            }
        }
    }

    /// The watch fails: from now on all listeners look in intervals.
    private func giveUpWatch() {
        dropWatch()
        for listener in listeners.values where listener.file != nil {
            listener.file = nil
            listener.hasNews = true
            listener.isInDoubt = true
        }
    }

    // MARK: Waiting

    /// Waits on the calling thread until there may be something to see, at most until a moment of the monotonic clock.
    package func wait(for listener: ChangeListener, untilMonotonicMicroseconds deadline: UInt64?) -> WaitOutcome {
        if process.wasForked { return .stopped }
        return monitor.withLock {
            while true {
                if let waking = nextStep(listener, deadline) { return waking }
                turn(until: listener.nextMoment(deadline: deadline))
            }
        }
    }

    /// The same for a task, without occupying a thread. Ends with `stopped` if the task is cancelled.
    package func wait(
        for listener: ChangeListener, untilMonotonicMicroseconds deadline: UInt64?,
        isolation: isolated (any Actor)? = #isolation
    ) async -> WaitOutcome {
        while true {
            if Task.isCancelled || process.wasForked { return .stopped }
            if let waking = monitor.withLock({ nextStep(listener, deadline) }) { return waking }
            await withTaskCancellationHandler(
                operation: {
                    await withCheckedContinuation(isolation: isolation) { park(listener, $0, deadline) }
                }, onCancel: { wake([listener]) { $0.isRoused = true } }, isolation: isolation)
        }
    }

    private func park(_ listener: ChangeListener, _ continuation: CheckedContinuation<Void, Never>, _ deadline: UInt64?)
    {
        let isParked = monitor.withLock {
            let now = SystemCalls.monotonicMicroseconds()
            guard listener.parked == nil, !listener.isDue(now: now) else {
                listener.isRoused = false
                return false
            }
            listener.parked = .init(continuation: continuation, deadline: deadline)
            if isThreadIdle {
                monitor.signalAll()
            } else if let moment = listener.parkedMoment, moment < threadMoment {
                // The thread would wait beyond this deadline.
                interrupt()
            }
            return true
        }
        if !isParked { continuation.resume() }
    }

    /// The listener's next step; nil to wait. With `monitor` locked.
    private func nextStep(_ listener: ChangeListener, _ deadline: UInt64?) -> WaitOutcome? {
        if listener.isStopped { return .stopped }
        let isUnwatched = listener.file == nil
        let now = isUnwatched || deadline != nil ? SystemCalls.monotonicMicroseconds() : 0
        let isLookDue = isUnwatched && now >= listener.nextLook
        guard listener.hasNews || isLookDue else {
            return deadline.map { now >= $0 } ?? false ? .timePassed : nil
        }
        // The watch first, then the look: CH1.
        if isLookDue {
            attach(listener)
            listener.nextLook = now &+ Self.intervalMicroseconds
        }
        defer { (listener.hasNews, listener.isInDoubt) = (false, false) }
        return .news(isInDoubt: listener.isInDoubt || isLookDue)
    }

    /// Waits once, as leader or follower. The caller then checks its condition again. Call with `monitor` locked; the
    /// wait itself releases it.
    private func turn(until moment: UInt64?) {
        guard !isLed, let watch else {
            followers += 1
            defer { followers -= 1 }
            if let moment { _ = monitor.wait(untilMonotonicMicroseconds: moment) } else { monitor.wait() }
            return
        }
        isLed = true
        let epoch = epoch
        // Waited for without the lock: CH3.
        monitor.unlock()
        var news: [WatchNews]?
        do throws(StoreError) { news = try watch.wait(untilMonotonicMicroseconds: moment) } catch {}
        monitor.lock()
        assert(isLed, "CH2: another thread has ended the turn of this one.")
        isLed = false
        if epoch == self.epoch {
            if let news { tell(news) } else { giveUpWatch() }
        }
        let due = popDue()
        if followers > 0 { monitor.signalAll() }
        guard !due.isEmpty else { return }
        monitor.unlock()
        for continuation in due { continuation.resume() }
        monitor.lock()
    }

    // MARK: The thread that waits for tasks

    private func startThread() throws(StoreError) {
        let thread = try BackgroundThread(name: "annals-watch") { self.waitForTasks() }
        hasThread = true
        // The thread ends when no task listens any more.
        _ = thread
    }

    private func waitForTasks() {
        monitor.lock()
        while asynchronousListeners > 0 {
            let due = popDue()
            if due.isEmpty, !listeners.values.contains(where: { $0.parked != nil }) {
                isThreadIdle = true
                monitor.wait()
                isThreadIdle = false
            } else if due.isEmpty {
                let moment = listeners.values.compactMap(\.parkedMoment).min()
                threadMoment = moment ?? .max
                turn(until: moment)
                threadMoment = 0
            } else {
                monitor.unlock()
                for continuation in due { continuation.resume() }
                monitor.lock()
            }
        }
        hasThread = false
        monitor.unlock()
    }

    /// Removes and returns the tasks to resume. With `monitor` locked.
    private func popDue() -> [CheckedContinuation<Void, Never>] {
        guard asynchronousListeners > 0 else { return [] }
        let now = SystemCalls.monotonicMicroseconds()
        var due: [CheckedContinuation<Void, Never>] = []
        for listener in listeners.values where listener.parked != nil && listener.isDue(now: now) {
            if let parked = listener.parked { due.append(parked.continuation) }
            listener.parked = nil
            listener.isRoused = false
        }
        return due
    }
}
