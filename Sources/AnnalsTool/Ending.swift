// Long commands: orderly ending on SIGTERM or SIGINT, waiting for code that runs in tasks, and the line of progress.

internal import Annals
internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

/// Whether the process was asked to end, and the reaction. Before `holdBack`, while a store is opened, a request ends
/// the process at once, as it ends any other program. A second request always does.
final class Ending: Sendable {
    private struct State {
        var isAsked = false
        var isHeldBack = false
        var action: (@Sendable () -> Void)?
    }

    private let state = Guarded(State())

    private init() {}
    var isAsked: Bool { state.withLock { $0.isAsked } }

    /// Handles the signals. Call it before there are other threads, which could receive the signals.
    static func onSignals() throws -> Ending {
        let ending = Ending()
        change(SIG_BLOCK)
        // A thread that waits for signals may call anything; a signal handler may not.
        _ = try BackgroundThread(name: "annals-ending") { ending.waitForSignals() }
        return ending
    }

    /// From now on a request is only noted: the work looks at `isAsked`.
    func holdBack() { state.withLock { $0.isHeldBack = true } }
    func wait(microseconds: UInt32) { usleep(microseconds) }

    /// Runs `action` when the process is asked to end; at once if it was asked already.
    func then(_ action: @escaping @Sendable () -> Void) {
        let isLate = state.withLock { state in
            state.isHeldBack = true
            state.action = action
            return state.isAsked
        }
        if isLate { action() }
    }

    private func waitForSignals() {
        var signals = Self.signals
        var number: Int32 = 0
        while sigwait(&signals, &number) != 0 {}
        let (action, isHeldBack) = state.withLock { state in
            state.isAsked = true
            return (state.action, state.isHeldBack)
        }
        if !isHeldBack {
            Self.change(SIG_UNBLOCK)
            raise(number)
        }
        action?()
        // One request may come several times: from a terminal and from a parent, or as `timeout` sends it.
        var silence = timespec(tv_sec: 0, tv_nsec: 200_000_000)
        while sigtimedwait(&signals, nil, &silence) > 0 {}
        // The next signal is delivered to this thread, unless it is blocked.
        Self.change(SIG_UNBLOCK)
        while true { pause() }
    }

    private static var signals: sigset_t {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGTERM)
        sigaddset(&signals, SIGINT)
        return signals
    }

    /// Blocks or unblocks the signals, for this thread and those that it starts.
    static func change(_ how: Int32) {
        var signals = signals
        pthread_sigmask(how, &signals, nil)
    }
}

enum ToolTask {
    /// Runs code that waits in a task, and waits for its end.
    static func wait(_ body: @escaping @Sendable () async throws -> Void) throws {
        let monitor = Monitor()
        let result = Mutex<Result<Void, any Error>?>(nil)
        Task.detached {
            let end = await Task { try await body() }.result
            monitor.withLock {
                result.withLock { $0 = end }
                monitor.signalAll()
            }
        }
        monitor.withLock { while result.withLock({ $0 }) == nil { monitor.wait() } }
        try result.withLock { $0 }?.get()
    }
}

package final class Progress: Sendable {
    private struct State {
        var shownSeconds: Int64 = 0
        var isVisible = false
    }

    private let unit: String
    let isShown: Bool
    private let began = ContinuousClock.now
    private let state = Mutex(State())

    /// - Parameter unit: Such as “rows”. Bytes are counted in MB.
    init(_ unit: String) {
        self.unit = unit
        isShown = Output(.standardError).isTerminal
    }

    /// Prints at most once a second. `part` is the part of the work that is done, from 0 to 1, if it is known.
    func show(_ count: UInt64, part: @autoclosure () -> Double? = nil) {
        guard isShown else { return }
        let elapsed = began.duration(to: .now)
        state.withLock { state in
            guard elapsed.components.seconds > state.shownSeconds else { return }
            (state.shownSeconds, state.isVisible) = (elapsed.components.seconds, true)
            print("\r" + Self.line(count, unit, part: part(), elapsed / .seconds(1)) + "\u{1b}[K")
        }
    }

    func show(_ done: UInt64, of total: UInt64) { show(done, part: total > 0 ? Double(done) / Double(total) : nil) }

    /// Clears the line. The work ends its progress before anything else is printed on the terminal.
    deinit {
        state.withLock { state in
            guard state.isVisible else { return }
            state.isVisible = false
            print("\r\u{1b}[K")
        }
    }

    /// Such as `41 %: 1,200,000 rows, 45,000 a second, 38s left`.
    package static func line(_ count: UInt64, _ unit: String, part: Double?, _ seconds: Double) -> String {
        let scale = unit == "bytes" ? 1e6 : 1
        func text(_ number: Double) -> String {
            String(grouped: UInt64(max(0, number / scale))) + (unit == "bytes" ? " MB" : "")
        }
        let rate = seconds > 0 ? Double(count) / seconds : 0
        let amount = text(Double(count)) + (unit == "bytes" ? "" : " " + unit) + ", " + text(rate) + " a second"
        guard let part, part > 0, part <= 1 else { return amount }
        let left = UInt64(seconds * (1 - part) / part + 0.5)
        let time = left < 60 ? "\(left)s" : left < 3600 ? "\(left / 60)min" : "\(left / 3600)h \(left / 60 % 60)min"
        return "\(Int(part * 100)) %: \(amount), \(time) left"
    }

    private func print(_ text: String) {
        let errors = Output(.standardError)
        errors.data(Array(text.utf8))
        try? errors.finish()
    }
}
