// Trackers whose clock a test sets: the initializers of the library, with a clock.

package import Annals
package import FoundationEssentials

extension HistoryTracker {
    package convenience init(
        store: Store, contexts: [Context], currentAuthor: String, allAuthors: [String], batchAuthors: [String] = [],
        cleanStrategy: CleanStrategy = .none, logger: (any HistoryTrackerLogger)? = nil, logLevel: Int = 1,
        autoStart: Bool = true, deduplicator: Deduplicator? = nil, clock: any HistoryTrackerClock,
        isolation: isolated any Actor = #isolation
    ) throws {
        try self.init(
            store: store, contexts: contexts,
            TrackerSettings(
                currentAuthor: currentAuthor, allAuthors: allAuthors, batchAuthors: batchAuthors,
                cleanStrategy: cleanStrategy, logger: logger, logLevel: logLevel, deduplicator: deduplicator,
                clock: clock),
            autoStart: autoStart)
    }

    package convenience init(
        store: Store, currentAuthor: String, allAuthors: [String], includingMirroring: Bool = false,
        batchAuthors: [String] = [], cleanStrategy: CleanStrategy = .none, maximumDuration: TimeInterval = 604_800,
        logger: (any HistoryTrackerLogger)? = nil, logLevel: Int = 1, autoStart: Bool = true, consumer: String? = nil,
        deduplicator: Deduplicator? = nil, clock: any HistoryTrackerClock,
        isolation: isolated (any Actor)? = #isolation
    ) throws {
        try self.init(
            store: store,
            TrackerSettings(
                currentAuthor: currentAuthor, allAuthors: allAuthors, includingMirroring: includingMirroring,
                batchAuthors: batchAuthors, cleanStrategy: cleanStrategy, maximumDuration: maximumDuration,
                logger: logger, logLevel: logLevel, consumer: consumer, deduplicator: deduplicator, clock: clock),
            autoStart: autoStart)
    }
}
