// The progress of a long command: one line on standard error that is overwritten, only on a terminal.

internal import Synchronization

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

    /// Prints at most once a second.
    ///
    /// - Parameter part: The part of the work that is done, from 0 to 1, if it is known.
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

    /// Call it before anything else is printed on the terminal.
    func clear() {
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

    /// Failures do not matter here.
    private func print(_ text: String) {
        var errors = Output(.standardError)
        try? errors.data(Array(text.utf8))
        try? errors.finish()
    }
}
