// Tests that take long, beside others.

package actor LongTests {
    private static let shared = LongTests()

    /// Runs work of many seconds. Beside other tests it is done one piece after the other: it takes one thread of the
    /// pool, and leaves the rest to tests that change threads often, such as those of contexts. Otherwise each of their
    /// changes would wait for the end of a piece.
    package static func run<Result: Sendable>(
        besideOthers: Bool, _ work: @Sendable () throws -> Result
    ) async rethrows -> Result {
        besideOthers ? try await shared.perform(work) : try work()
    }

    private func perform<Result: Sendable>(_ work: @Sendable () throws -> Result) rethrows -> Result { try work() }
}
