// The result of salvage: the content found in a damaged file, its part in the new store, and the losses.

package struct SalvageResult: Equatable, Sendable {
    /// A part of the source without any good frame.
    package struct Stretch: Equatable, Sendable {
        package var offset: UInt64
        package var bytes: UInt64
    }

    package struct Entity: Equatable, Sendable {
        package var number: UInt16
        /// Nil if no definition of the entity was found.
        package var name: String?
        /// The number of objects written to the new store.
        package var objects: UInt64 = 0
        /// Objects whose newest row was found but cannot be read, because no definition fits.
        package var unreadableRows: UInt64 = 0
        /// Live objects of the newest readable checkpoint without any findings.
        package var lostObjects: UInt64 = 0
        /// Objects of which that checkpoint knew a newer version, or a deletion, that was not found.
        package var outdatedObjects: UInt64 = 0
        /// If transactions are missing: object numbers assigned after that checkpoint without any findings. These
        /// objects are lost, or were deleted. Without a checkpoint, all numbers.
        package var unaccountedObjects: UInt64 = 0
    }

    package var fileBytes: UInt64 = 0
    /// Whether the header page is damaged. Its salt was still correct, as frames prove.
    package var isHeaderDamaged = false
    /// Frames whose header, table and body check.
    package var framesRead: UInt64 = 0
    /// Frames whose header checks, but not their content.
    package var framesBad: UInt64 = 0
    /// Good frames that a recovery has dropped. No chain leads to them.
    package var framesStray: UInt64 = 0
    /// The first stretches, by offset.
    package var passedOver: [Stretch] = []
    package var omittedStretches: UInt64 = 0
    package var bytesPassedOver: UInt64 = 0

    /// Transactions whose commit frame and changes were all found.
    package var transactionsComplete: UInt64 = 0
    /// Transactions of which only some frames were found.
    package var transactionsWithGaps: UInt64 = 0
    /// Transactions of which only the number is known, from the numbers around them.
    package var transactionsMissing: UInt64 = 0
    /// Changes that the newest readable checkpoint counted and that were not found, including those of older versions.
    package var changesMissing: UInt64 = 0
    /// If no checkpoint of a compacted store can be read: skipped bytes that held an unknown number of its rows.
    package var bytesUncounted: UInt64 = 0
    /// Changes that seem not to be committed. They are left out.
    package var changesUnfinished: UInt64 = 0
    /// Objects whose row is from a transaction with gaps, or from one that was not provably committed.
    package var objectsOfGaps: UInt64 = 0

    /// Schema versions that rows or other versions refer to and that were not found.
    package var schemaVersionsMissing: UInt64 = 0
    /// Objects whose row was read by a fitting definition that may be of another version.
    package var objectsOfGuessedSchema: UInt64 = 0
    package var entities: [Entity] = []
    package var largeValuesLost: UInt64 = 0
    /// Rules that the new store's schema lacks because rows break them, as one sentence each.
    package var schemaChanges: [String] = []
    package var storeID = UUIDBytes(high: 0, low: 0)

    package static let maximumStretches = 100

    package init() {}

    package var objects: UInt64 { entities.reduce(0) { $0 + $1.objects } }
    package var unreadableRows: UInt64 { entities.reduce(0) { $0 + $1.unreadableRows } }

    package var lostObjects: UInt64 { entities.reduce(0) { $0 + $1.lostObjects } }

    /// Whether committed content is missing, or may be: objects, values, or rules of the schema.
    package var hasLosses: Bool {
        transactionsWithGaps > 0 || transactionsMissing > 0 || changesMissing > 0 || bytesUncounted > 0
            || schemaVersionsMissing > 0 || objectsOfGuessedSchema > 0 || largeValuesLost > 0 || !schemaChanges.isEmpty
            || entities.contains { entity in
                entity.unreadableRows > 0 || entity.lostObjects > 0 || entity.outdatedObjects > 0
                    || entity.unaccountedObjects > 0
            }
    }

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
