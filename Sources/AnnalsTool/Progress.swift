// The progress of a long command: one line on standard error that is overwritten, only on a terminal.

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

struct Progress {
    private let unit: String
    private let isShown: Bool
    private var lastSeconds = 0
    private var isVisible = false

    init(_ unit: String) {
        self.unit = unit
        isShown = isatty(2) == 1
    }

    /// Prints at most once a second.
    mutating func show(_ count: UInt64) {
        guard isShown, case let now = time(nil), now != lastSeconds else { return }
        lastSeconds = now
        isVisible = true
        print("\r\(count) \(unit)")
    }

    /// Call it before anything else is printed on the terminal.
    mutating func clear() {
        guard isVisible else { return }
        isVisible = false
        print("\r\u{1b}[K")
    }

    /// Failures do not matter here.
    private func print(_ text: String) { _ = write(2, text, text.utf8.count) }
}
