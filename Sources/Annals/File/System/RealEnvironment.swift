// The machine apart from its files: clocks, random numbers, the process.

/// The environment of a real program, as opposed to a test.
package struct RealEnvironment: Environment {
    package init() {}

    package func wallClockMicroseconds() -> Int64 { SystemCalls.wallClockMicroseconds() }
    package func monotonicMicroseconds() -> UInt64 { SystemCalls.monotonicMicroseconds() }
    package func coarseSeconds() -> Int64 { SystemCalls.coarseSeconds() }
    package func random() -> UInt64 { UInt64.random(in: .min ... .max) }
    package func processID() -> UInt32 { SystemCalls.processID() }

    package func processName() -> String { Self.ownName }

    /// Read once, when it is first needed.
    private static let ownName = nameOfExecutable()

    /// Read from the kernel, because a caller chooses the arguments freely. "unknown" without `/proc`.
    private static func nameOfExecutable() -> String {
        guard let path = try? SystemCalls.linkTarget("/proc/self/exe") else { return "unknown" }
        var name = String(decoding: path.split(separator: UInt8(ascii: "/")).last ?? [], as: UTF8.self)
        // The kernel appends this if the program was replaced or removed while it runs.
        let suffix = " (deleted)"
        if name.hasSuffix(suffix) { name.removeLast(suffix.count) }
        return name.isEmpty ? "unknown" : name
    }

    package func sleep(microseconds: UInt64) {
        let (deadline, overflow) = SystemCalls.monotonicMicroseconds().addingReportingOverflow(microseconds)
        SystemCalls.sleep(untilMonotonicMicroseconds: overflow ? .max : deadline)
    }
}
