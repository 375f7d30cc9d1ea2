// Letting go of a file that was replaced: when nobody else has it any more, the system gives its space back, which
// takes a quarter of a second for a GB.

/// Sees to it that the last to let go of an engine is a thread that nobody waits for.
///
/// Sound although it is shared: its thread alone touches it.
final class ReplacedFile: @unchecked Sendable {
    private var engine: Engine?
    private static let stepMicroseconds: UInt64 = 20_000
    private static let steps = 50

    private init(_ engine: Engine) { self.engine = engine }

    /// Keeps the engine until its callers have gone. Who holds a snapshot of it for longer lets go of it last, as if
    /// this had not been.
    static func begin(_ engine: Engine) {
        guard engine.options.log.synchronizesInBackground else { return }
        let retirement = ReplacedFile(engine)
        // Without a thread the caller is the last one.
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
