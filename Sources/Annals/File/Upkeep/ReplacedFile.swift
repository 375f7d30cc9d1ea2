// Releasing a replaced file. When its last user closes it the system frees its space, which takes a quarter of a second
// per GB.

/// Releases an engine on a thread of its own, for which no caller waits.
///
/// Sound although it is shared: only its thread touches it.
final class ReplacedFile: @unchecked Sendable {
    private var engine: Engine?
    private static let stepMicroseconds: UInt64 = 20_000
    private static let steps = 50

    private init(_ engine: Engine) { self.engine = engine }

    /// Keeps the engine until its callers have gone. If a snapshot is held for longer, its holder releases the engine
    /// last.
    static func begin(_ engine: Engine) {
        guard engine.options.log.synchronizesInBackground else { return }
        let retirement = ReplacedFile(engine)
        // Without a thread, the caller releases the engine.
        _ = try? BackgroundThread(name: "annals-retire") { retirement.letGo() }
    }

    private func letGo() {
        guard let environment = engine?.log.environment else { return }
        for _ in 0..<Self.steps {
            environment.sleep(microseconds: Self.stepMicroseconds)
            if isKnownUniquelyReferenced(&engine) { break }
        }
        engine = nil
    }
}
