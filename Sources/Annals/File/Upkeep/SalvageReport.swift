// The result of salvage: the content found in a damaged file, its part in the new store, and the losses.

/// The result of salvage: the content found, its part in the new store, and the losses.
public struct SalvageReport: Hashable, Sendable {
    /// A part of the damaged file in which nothing could be read.
    public struct Stretch: Hashable, Sendable {
        /// The offset of its beginning in the file.
        public let offset: UInt64
        /// Its length.
        public let bytes: UInt64
    }

    /// The findings about one entity.
    public struct Entity: Hashable, Sendable {
        /// The number that begins the object IDs of the entity.
        public let number: UInt16
        /// The name; nil if no definition of the entity was found. Then none of its objects can be read.
        public let name: String?
        /// The number of objects in the new store.
        public let objects: UInt64
        /// The number of objects that were found but are unreadable, because their definition was not found.
        public let unreadableObjects: UInt64
        /// The number of lost objects, by the index of the newest readable checkpoint.
        public let lostObjects: UInt64
        /// The number of objects that had a newer version than the one found, or were deleted, by that index.
        public let outdatedObjects: UInt64
        /// The number of object numbers that were assigned after that checkpoint and belong to no found object.
        /// They are counted only if transactions are missing. Their objects are lost, or were deleted. Without a
        /// checkpoint, all numbers count.
        public let unaccountedObjects: UInt64
    }

    /// The size of the damaged file, in bytes.
    public internal(set) var fileBytes: UInt64 = 0
    /// Whether the header page was damaged.
    public internal(set) var isHeaderDamaged = false
    /// The number of frames with a correct header, table and body.
    public internal(set) var framesRead: UInt64 = 0
    /// The number of frames with a correct header but wrong content.
    public internal(set) var framesBad: UInt64 = 0
    /// The number of frames that unfinished writes have left.
    public internal(set) var framesStray: UInt64 = 0
    /// The first hundred unreadable parts, by offset.
    public internal(set) var passedOver: [Stretch] = []
    /// The number of further unreadable parts.
    public internal(set) var omittedStretches: UInt64 = 0
    /// The length of all unreadable parts together.
    public internal(set) var bytesPassedOver: UInt64 = 0
    /// The number of transactions that were found complete.
    public internal(set) var transactionsComplete: UInt64 = 0
    /// The number of transactions that were found in part.
    public internal(set) var transactionsWithGaps: UInt64 = 0
    /// The number of committed transactions that were not found. Gaps in the numbers of found ones reveal them.
    public internal(set) var transactionsMissing: UInt64 = 0
    /// The number of changes that the newest readable checkpoint counted and that were not found. Some may be of
    /// older versions.
    public internal(set) var changesMissing: UInt64 = 0
    /// The number of unreadable bytes that contained an unknown number of objects. 0 unless a compacted store has no
    /// readable checkpoint.
    public internal(set) var bytesUncounted: UInt64 = 0
    /// Whether committed content is missing, or may be: objects, values, or rules of the schema.
    public var hasLosses: Bool {
        transactionsWithGaps > 0 || transactionsMissing > 0 || changesMissing > 0 || bytesUncounted > 0
            || schemaVersionsMissing > 0 || objectsOfGuessedSchema > 0 || largeValuesLost > 0 || !schemaChanges.isEmpty
            || entities.contains { entity in
                entity.unreadableObjects > 0 || entity.lostObjects > 0 || entity.outdatedObjects > 0
                    || entity.unaccountedObjects > 0
            }
    }
    /// The number of found changes that were never committed. They are left out.
    public internal(set) var changesUnfinished: UInt64 = 0
    /// The number of objects in the new store with values from a transaction that is incomplete, or not provably
    /// committed.
    public internal(set) var objectsOfGaps: UInt64 = 0
    /// The number of versions of the schema that were not found.
    public internal(set) var schemaVersionsMissing: UInt64 = 0
    /// The number of objects in the new store that were read with a definition that fits, but may not be their own.
    public internal(set) var objectsOfGuessedSchema: UInt64 = 0
    /// The findings about each entity.
    public internal(set) var entities: [Entity] = []
    /// The number of long values that lack a piece. Their objects are in the new store without them.
    public internal(set) var largeValuesLost: UInt64 = 0
    /// The differences of the new store's schema from the old one's: one sentence for each.
    public internal(set) var schemaChanges: [String] = []
    /// The number of objects in the new store.
    public var objects: UInt64 { entities.reduce(0) { $0 + $1.objects } }
    /// The number of objects known to be lost.
    public var lostObjects: UInt64 { entities.reduce(0) { $0 + $1.lostObjects } }

    private static let maximumStretches = 100

    mutating func notePassedOver(_ start: UInt64, _ end: UInt64) {
        guard end > start else { return }
        bytesPassedOver += end - start
        if passedOver.count < Self.maximumStretches {
            passedOver.append(Stretch(offset: start, bytes: end - start))
        } else {
            omittedStretches += 1
        }
    }
}
