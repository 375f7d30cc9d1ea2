// Removes the history that every reader has read, and the history that is too old.

internal import FoundationEssentials

/// Cleans the history of a store by hand, as a tracker's strategies do. Make it with `HistoryTracker.cleanerBuilder()`.
///
/// Cleaning removes
///
/// - history that every registered reader has read: each author of the tracker except batch authors, and every other
///   consumer of the store;
/// - history older than `maximumDuration`, or beyond the store's retention, even if a reader has not read it.
///
/// Both apply to transactions with and without an author. An author that never ran delays cleaning until
/// `maximumDuration` is over. `Store.compact` then frees the space in the file.
public struct HistoryCleaner: Sendable {
    private let store: Store
    private let settings: TrackerSettings

    init(_ store: Store, _ settings: TrackerSettings) { (self.store, self.settings) = (store, settings) }

    /// Removes all history that can be removed now. Believes the machine's clock.
    ///
    /// - Returns: The number of transactions that have left history.
    ///
    /// Throws `StoreError`, as `Store.clean` and `Store.registerConsumer`.
    @discardableResult
    public func clean() throws -> UInt64 {
        try registerReaders()
        let before = try store.horizon
        try store.clean()
        try store.deleteHistory(before: settings.clock.now.addingTimeInterval(-settings.maximumDuration))
        return try store.horizon - before
    }

    /// Registers the readers that cleaning waits for, at the beginning of history, unless they are registered.
    func registerReaders() throws {
        for name in settings.readers where try store.consumer(name) == nil {
            try store.registerConsumer(name, kind: .reads, at: .oldest)
        }
    }
}

/// When a strategy wants to clean.
struct CleaningSchedule: Sendable {
    private let strategy: HistoryTracker.CleanStrategy
    private var rounds = 0
    private var lastCleaned: Duration?

    init(_ strategy: HistoryTracker.CleanStrategy) { self.strategy = strategy }

    /// Counts a round. Whether to clean after it.
    mutating func isDue(at uptime: Duration) -> Bool {
        rounds += 1
        switch strategy {
        case .none: return false
        case .byDuration(let seconds):
            guard let lastCleaned else { return true }
            return (uptime - lastCleaned) / .seconds(1) >= seconds
        case .byNotification(let times): return rounds >= times
        }
    }

    /// Counts and intervals restart only when something was removed.
    mutating func hasCleaned(at uptime: Duration) {
        rounds = 0
        lastCleaned = uptime
    }
}
