// A signal from readers to the upkeep of a layer above, which works in the background of a handle.

/// Rings for one listener. All engines of a handle share one bell.
package final class UpkeepBell: Sendable {
    private let listener = Guarded<(@Sendable () -> Void)?>(nil)

    package init() {}

    /// Sets the listener; nil for none. It must return soon.
    package func answer(_ listener: (@Sendable () -> Void)?) { self.listener.withLock { $0 = listener } }

    package func ring() { listener.withLock { $0 }?() }
}
