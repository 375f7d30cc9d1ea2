// Orderly ending on SIGTERM or SIGINT.

internal import Annals

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

    /// Handles the signals from now on. Call it before there are other threads: otherwise these could receive the
    /// signals.
    static func onSignals() throws -> Ending {
        let ending = Ending()
        _ = change(SIG_BLOCK)
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
            _ = Self.change(SIG_UNBLOCK)
            raise(number)
        }
        action?()
        // One request may come several times: from a terminal and from a parent, or as `timeout` sends it.
        var silence = timespec(tv_sec: 0, tv_nsec: 200_000_000)
        while sigtimedwait(&signals, nil, &silence) > 0 {}
        // The next signal is delivered to this thread, unless it is blocked.
        _ = Self.change(SIG_UNBLOCK)
        while true { pause() }
    }

    private static var signals: sigset_t {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGTERM)
        sigaddset(&signals, SIGINT)
        return signals
    }

    private static func change(_ how: Int32) -> Int32 {
        var signals = signals
        return pthread_sigmask(how, &signals, nil)
    }
}
