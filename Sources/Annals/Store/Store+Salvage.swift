// Salvage: copies the readable content of a damaged store into a new one.

extension Store {
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
        public let fileBytes: UInt64
        /// Whether the header page was damaged.
        public let isHeaderDamaged: Bool
        /// The number of frames with a correct header, table and body.
        public let framesRead: UInt64
        /// The number of frames with a correct header but wrong content.
        public let framesBad: UInt64
        /// The number of frames that unfinished writes have left.
        public let framesStray: UInt64
        /// The first hundred unreadable parts, by offset.
        public let passedOver: [Stretch]
        /// The number of further unreadable parts.
        public let omittedStretches: UInt64
        /// The length of all unreadable parts together.
        public let bytesPassedOver: UInt64
        /// The number of transactions that were found complete.
        public let transactionsComplete: UInt64
        /// The number of transactions that were found in part.
        public let transactionsWithGaps: UInt64
        /// The number of committed transactions that were not found. Gaps in the numbers of found ones reveal them.
        public let transactionsMissing: UInt64
        /// The number of changes that the newest readable checkpoint counted and that were not found. Some may be of
        /// older versions.
        public let changesMissing: UInt64
        /// The number of unreadable bytes that contained an unknown number of objects. Not 0 only if a compacted store
        /// has no readable checkpoint.
        public let bytesUncounted: UInt64
        /// Whether committed content is missing, or may be: objects, values, or rules of the schema.
        public let hasLosses: Bool
        /// The number of found changes that were never committed. They are left out.
        public let changesUnfinished: UInt64
        /// The number of objects in the new store with values from a transaction that is incomplete, or not provably
        /// committed.
        public let objectsOfGaps: UInt64
        /// The number of versions of the schema that were not found.
        public let schemaVersionsMissing: UInt64
        /// The number of objects in the new store that were read with a definition that fits, but may not be their own.
        public let objectsOfGuessedSchema: UInt64
        /// The findings about each entity.
        public let entities: [Entity]
        /// The number of long values that lack a piece. Their objects are in the new store without them.
        public let largeValuesLost: UInt64
        /// The differences of the new store's schema from the old one's: one sentence for each.
        public let schemaChanges: [String]
        /// The number of objects in the new store.
        public var objects: UInt64 { entities.reduce(0) { $0 + $1.objects } }
        /// The number of objects known to be lost.
        public var lostObjects: UInt64 { entities.reduce(0) { $0 + $1.lostObjects } }

        init(_ report: SalvageResult) {
            fileBytes = report.fileBytes
            isHeaderDamaged = report.isHeaderDamaged
            (framesRead, framesBad, framesStray) = (report.framesRead, report.framesBad, report.framesStray)
            passedOver = report.passedOver.map { Stretch(offset: $0.offset, bytes: $0.bytes) }
            (omittedStretches, bytesPassedOver) = (report.omittedStretches, report.bytesPassedOver)
            transactionsComplete = report.transactionsComplete
            transactionsWithGaps = report.transactionsWithGaps
            transactionsMissing = report.transactionsMissing
            (changesMissing, bytesUncounted) = (report.changesMissing, report.bytesUncounted)
            hasLosses = report.hasLosses
            (changesUnfinished, objectsOfGaps) = (report.changesUnfinished, report.objectsOfGaps)
            schemaVersionsMissing = report.schemaVersionsMissing
            objectsOfGuessedSchema = report.objectsOfGuessedSchema
            entities = report.entities.map {
                Entity(
                    number: $0.number, name: $0.name, objects: $0.objects, unreadableObjects: $0.unreadableRows,
                    lostObjects: $0.lostObjects, outdatedObjects: $0.outdatedObjects,
                    unaccountedObjects: $0.unaccountedObjects)
            }
            (largeValuesLost, schemaChanges) = (report.largeValuesLost, report.schemaChanges)
        }
    }

    /// Creates a new store from the readable content of a damaged one.
    ///
    /// Every part of the file with correct checksums is read, even if nothing refers to it. For each object, the new
    /// store contains the newest values that were found, under the object's ID. Objects that were deleted stay deleted,
    /// as far as their deletion was found. The new store has an identifier of its own and no history; its transactions
    /// have the author “salvage”. Old object numbers are not used again.
    ///
    /// If objects now have equal unique values, or lack a required one, they are kept, and the new schema drops that
    /// rule. `SalvageReport.schemaChanges` lists these changes.
    ///
    /// The damaged file is opened for reading only, and other processes may use it at the same time. Until the new
    /// store is complete, it is called `.NAME.annals-salvage`. If salvage is killed, the next salvage to the same path
    /// removes that file. Takes as long as reading the whole file and writing the objects. Memory use does not grow
    /// with the number of objects.
    ///
    /// - Parameters:
    ///   - source: The path of the damaged store.
    ///   - target: The path of the new store. Nothing may exist there.
    ///   - progress: Called every few MiB, on this thread, with the number of bytes of the damaged file that have been
    ///     read. Return false to cancel.
    ///
    /// Throws `StoreError`: `notFound`; `notARegularFile`; `alreadyExists` if something exists at `target`; `busy` if
    /// another process salvages to it; `cancelled`; `notAStore`, `truncated` or `damaged` if nothing can be read;
    /// `unsupportedVersion` if a newer program wrote the store; `noSpace`; and other errors of the system. Nothing can
    /// be read without the header page: all checksums depend on the salt in it.
    @discardableResult
    public static func salvage(
        from source: String, to target: String, progress: (@Sendable (CompactionProgress) -> Bool)? = nil
    ) throws -> SalvageReport {
        var options = SalvageOptions()
        options.context = "salvage"
        if let progress {
            options.progress = { progress(CompactionProgress(doneBytes: $0, totalBytes: $1)) }
        }
        let report = try Salvage.run(
            from: source, to: target, options: options, files: RealFileSystem(), environment: RealEnvironment())
        return SalvageReport(report)
    }
}
