// The settings of a tracker, and their rules.

package import FoundationEssentials

/// The settings that a tracker was made with.
package struct TrackerSettings: Sendable {
    let author: String
    let allAuthors: [String]
    let includesMirrors: Bool
    let batchAuthors: [String]
    /// Contexts of this program that are observed.
    let ownContexts: Set<String>
    let strategy: HistoryTracker.CleanStrategy
    let maximumDuration: TimeInterval
    let logger: any HistoryTrackerLogger
    let logLevel: Int
    let consumer: String
    let deduplicator: HistoryTracker.Deduplicator?
    let clock: any HistoryTrackerClock

    /// The labels and defaults are those of the tracker's initializers.
    package init(
        currentAuthor: String, allAuthors: [String], includingMirroring: Bool = false, batchAuthors: [String] = [],
        ownContexts: [String] = [], cleanStrategy: HistoryTracker.CleanStrategy = .none,
        maximumDuration: TimeInterval = 604_800, logger: (any HistoryTrackerLogger)? = nil, logLevel: Int = 1,
        consumer: String? = nil, deduplicator: HistoryTracker.Deduplicator? = nil,
        clock: any HistoryTrackerClock = SystemTrackerClock()
    ) {
        author = currentAuthor
        self.allAuthors = allAuthors
        includesMirrors = includingMirroring
        self.batchAuthors = batchAuthors
        self.ownContexts = Set(ownContexts)
        strategy = cleanStrategy
        self.maximumDuration = maximumDuration
        self.logger = logger ?? StandardErrorLogger(hasDetails: logLevel > 1)
        self.logLevel = logLevel
        self.consumer = consumer ?? currentAuthor
        self.deduplicator = deduplicator
        self.clock = clock
    }

    /// Throws `invalidArgument`.
    func requireValid() throws(StoreError) {
        func refuse(_ sentence: String) -> StoreError { StoreError(.invalidArgument, sentence) }
        // The limit of the file, which is not public: trackers use the public API alone.
        let maximumNameBytes = 1024
        func isTooLong(_ name: String) -> Bool { name.utf8.count > maximumNameBytes }
        if author.isEmpty { throw refuse("`currentAuthor` is empty: name the author of this program's changes.") }
        if consumer.isEmpty { throw refuse("`consumer` is empty: leave it out, or name the cursor.") }
        if (allAuthors + batchAuthors).contains("") {
            throw refuse("An author has an empty name: leave it out of `allAuthors` and `batchAuthors`.")
        }
        if let long = ([author, consumer] + allAuthors + batchAuthors).first(where: isTooLong) {
            throw refuse(
                "The name “\(long.prefix(40))…” of an author or of `consumer` has \(long.utf8.count) bytes: use a name "
                    + "of at most \(maximumNameBytes) bytes.")
        }
        if batchAuthors.contains(author) {
            throw refuse(
                "The current author “\(author)” is among `batchAuthors`, whose programs never read history: leave "
                    + "it out, because this tracker reads.")
        }
        if !(maximumDuration >= 0) {
            throw refuse("`maximumDuration` is \(maximumDuration): give a number of seconds from 0.")
        }
        switch strategy {
        case .none: break
        case .byDuration(let seconds):
            if !(seconds >= 0) { throw refuse("`byDuration` has \(seconds) seconds: give a number from 0.") }
        case .byNotification(let times):
            if times < 1 { throw refuse("`byNotification` has \(times) times: give a number from 1.") }
        }
    }

    /// The authors whose transactions are observed; nil for all but the current author.
    var observedAuthors: Set<String?>? {
        allAuthors.isEmpty ? nil : Set(allAuthors).subtracting([author]).reduce(into: []) { $0.insert($1) }
    }

    /// The names for which cleaning waits.
    var readers: [String] {
        allAuthors.filter { $0 != author && !batchAuthors.contains($0) } + [consumer]
    }
}
