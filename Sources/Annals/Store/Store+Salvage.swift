// Salvage: what can still be read of a damaged store, into a new one.

extension Store {
    /// What salvage found, what of it is in the new store, and what is lost.
    public struct SalvageReport: Hashable, Sendable {
        /// Bytes of the damaged file in which nothing could be read.
        public struct Stretch: Hashable, Sendable {
            /// Where it begins, in bytes from the beginning of the file.
            public let offset: UInt64
            /// How long it is.
            public let bytes: UInt64
        }

        /// What salvage found of one entity.
        public struct Entity: Hashable, Sendable {
            /// The number that the object IDs of the entity begin with.
            public let number: UInt16
            /// Nil if no definition of the entity was found: then none of its objects can be read.
            public let name: String?
            /// How many are in the new store.
            public let objects: UInt64
            /// How many were found whose values cannot be read, because the definition that they were written by was
            /// not found.
            public let unreadableObjects: UInt64
            /// How many were in the store, as the index of its newest readable checkpoint says, and are lost.
            public let lostObjects: UInt64
            /// How many had a newer version than the one found, or were deleted, as that index says.
            public let outdatedObjects: UInt64
            /// How many object numbers were given after that checkpoint and belong to no object that was found, if
            /// transactions are missing. They are lost, or were deleted. Without a checkpoint, all numbers count.
            public let unaccountedObjects: UInt64
        }

        /// The size of the damaged file, in bytes.
        public let fileBytes: UInt64
        /// Whether the header page was damaged.
        public let isHeaderDamaged: Bool
        /// Frames whose header, table and body check.
        public let framesRead: UInt64
        /// Frames whose header checks and whose content does not.
        public let framesBad: UInt64
        /// Frames that were left behind by a write that did not finish.
        public let framesStray: UInt64
        /// By offset, the first hundred.
        public let passedOver: [Stretch]
        /// How many more there are.
        public let omittedStretches: UInt64
        /// In all of them together.
        public let bytesPassedOver: UInt64
        /// How many transactions were found whole.
        public let transactionsComplete: UInt64
        /// Those of which a part is there.
        public let transactionsWithGaps: UInt64
        /// How many transactions were committed and not found, as the numbers of the others tell.
        public let transactionsMissing: UInt64
        /// Changes that the newest readable checkpoint counted and that were not found. Some may be of older versions.
        public let changesMissing: UInt64
        /// Bytes passed over where an unknown number of objects stood, if a compacted store has no readable checkpoint.
        public let bytesUncounted: UInt64
        /// Whether anything committed is known to be missing, or may be: objects, values, or rules of the schema.
        public let hasLosses: Bool
        /// Changes that were found and never committed: they are left out.
        public let changesUnfinished: UInt64
        /// Objects in the new store whose values are from a transaction of which a part is missing, or that cannot be
        /// proved to be committed.
        public let objectsOfGaps: UInt64
        /// How many versions of the schema were not found.
        public let schemaVersionsMissing: UInt64
        /// Objects in the new store that were read by a definition that fits, and may not be the one that they were
        /// written by.
        public let objectsOfGuessedSchema: UInt64
        /// What was found of each entity.
        public let entities: [Entity]
        /// Values of which a piece is missing. The objects that had them are in the new store without them.
        public let largeValuesLost: UInt64
        /// What the new store's schema has otherwise than the old one's: a sentence each.
        public let schemaChanges: [String]
        /// How many objects are in the new store.
        public var objects: UInt64 { entities.reduce(0) { $0 + $1.objects } }
        /// How many are known to be lost.
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

    /// Makes a new store of what can still be read of a damaged one.
    ///
    /// Every part of the file whose checksums agree is read, whether or not something leads to it. The new store has,
    /// for each object, the newest values that were found, under the object's ID. It has an identifier of its own and
    /// no history: its transactions are by the author “salvage”. What was deleted, as far as that was found, is
    /// deleted. Where objects now have the same value of what is unique, or have lost one that is required, they are
    /// kept, and the schema asks for less; `SalvageReport.schemaChanges` says so. Object numbers that were ever given
    /// are not given again.
    ///
    /// The damaged file is opened for reading only, and other processes may use it meanwhile. Until the new store is
    /// complete it is called
    /// `.NAME.annals-salvage`; what a salvage that was killed has left there, the next one to the same name removes.
    /// Takes as long as reading all of the file and writing the objects; memory does not grow with them.
    ///
    /// - Parameters:
    ///   - source: The damaged store.
    ///   - target: The path of the new store; nothing may be there yet.
    ///   - progress: Called every few MiB, on this thread, with the bytes of the damaged file that were gone through;
    ///     false cancels.
    ///
    /// Throws `StoreError`: `notFound`; `notARegularFile`; `alreadyExists` for what stands at `target`; `busy` where
    /// another process salvages to it; `cancelled`; `notAStore`, `truncated` or `damaged` if nothing can be read:
    /// the salt of all checksums stands in the header page, and without it there is nothing to tell data from garbage
    /// by; `unsupportedVersion` where a newer program wrote the store; `noSpace`, and what else the system says.
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
