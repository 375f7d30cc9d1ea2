// Compaction, which is history cleaning. It writes the state at the horizon into a new file and copies all transactions
// after it. Then the new file takes the old one's name.
//
// Invariants:
// O1  Until the rename the store's file is unchanged, apart from a replacing frame at its end. After the rename, the
//     new file has all acknowledged commits.
// O2  Only the last, short piece is copied while writers wait.
// O3  Memory is bounded. Index nodes go to the file when they take too much memory, and keys are sorted in files. Only
//     the table of large values grows, by 60 bytes for each, and the set of objects that the proof of rows has seen, by
//     a bit for each.
// O4  Transactions after the state with which compaction began are copied whole, regardless of their entity's present
//     policy.
// O5  Bytes of the source get a new checksum only after they were verified in the copy, against their old one: frames
//     in `frames`, and rows without history by `proof`.

/// The options of compaction, and its progress callbacks.
package struct CompactionOptions: Sendable {
    /// The limit of the last piece, which is copied while writers wait.
    package var finalBytes: UInt64 = 1 << 20
    /// The number of bytes copied in one hold of the new file's lock.
    package var sliceBytes: UInt64 = 4 << 20
    /// If other writers write about as fast as this copies: how long they wait at a time, and how long they can write
    /// in between. A process waiting for the lock sleeps for less than a turn.
    package var holdMicroseconds: UInt64 = 10_000
    package var turnMicroseconds: UInt64 = 2_000
    /// Receives the bytes copied and the total. Returning false ends the compaction, which throws `cancelled`.
    package var progress: (@Sendable (CompactionProgress) -> Bool)?
    /// Called regularly while no writer waits. It may sleep.
    package var pace: (@Sendable () -> Void)?

    package init() {}
}

/// The progress of a compaction.
public struct CompactionProgress: Hashable, Sendable {
    /// The number of bytes of the store that have been processed.
    public let doneBytes: UInt64
    /// The number of bytes of the store to process. It grows if other handles write during the compaction.
    public let totalBytes: UInt64
}

/// The result of a compaction.
public struct CompactionResult: Hashable, Sendable {
    /// The size of the file before, in bytes.
    public let bytesBefore: UInt64
    /// The size of the file after, in bytes.
    public let bytesAfter: UInt64
    /// History now begins after the transaction with this number.
    public let horizon: UInt64
}

/// The state of a backup.
package struct BackupResult: Equatable, Sendable {
    package var storeID: UUIDBytes
    package var number: UInt64
    package var tag: UInt64
    package var bytes: UInt64
}

/// One compaction of one store. For one use by one thread.
final class Compactor {
    let source: Engine
    let options: CompactionOptions
    let target: Engine
    private let base: View
    let folded: FoldedHistory
    private let copier: FrameCopier
    private let frames = FrameCopy()
    let proof = RowProof()
    /// Frames of the source below this offset were copied.
    private(set) var position: UInt64
    /// Whether the first, long round is done. Then consumers and cleaning marks are written as of that time and indexes
    /// are built. Later copying keeps them up to date.
    private var isCaughtUp = false
    /// The new file is being written to the disk up to `startedEnd`, and was written up to `arrivedEnd`.
    private var (startedEnd, arrivedEnd): (UInt64, UInt64) = (0, 0)

    /// Compacts an engine's store. Afterwards the engine's file has been replaced.
    ///
    /// Throws `busy` if another process compacts or a writer does not end, `noSpace`, `cancelled`, `storeRemoved` and
    /// errors of reading and writing. The store is then unchanged.
    static func compact(_ source: Engine, _ options: CompactionOptions) throws(StoreError) -> CompactionResult {
        guard source.log.access == .readWrite else {
            throw StoreError(
                .readOnly, "This handle was opened for reading only: open the store for writing to compact it.",
                path: source.log.path)
        }
        try requireCountable(source)
        do throws(StoreError) {
            try source.log.requireWritable(source.log.current)
        } catch {
            throw error.at(path: source.log.path)
        }
        try source.log.requirePlace()
        try source.log.ledger.requireUsable()
        let view = try source.view()
        let before = view.end
        var file = try CompactionFile(source.log)
        defer { file.close() }
        // In this order, so that the state is not older than the base, even if another handle cleans in between.
        let base = try source.view(asOf: source.tracking.horizon)
        let folded = try FoldedHistory(source, base, try source.view())
        let header = header(source, source.log.header.storeID, base)
        let compactor = Compactor(source, try file.make(header, targetOptions(source)), base, folded, options)
        do throws(StoreError) {
            try compactor.writeBase()
            try compactor.copyTransactions()
            let end = try compactor.finish(file)
            // Writers need not wait for this: the first to make a commit durable in the new file does the same.
            try file.synchronizeDirectory()
            return CompactionResult(bytesBefore: before, bytesAfter: end, horizon: compactor.base.number)
        } catch {
            compactor.target.log.retire()
            throw error
        }
    }

    /// Writes a compacted copy of the store's present state to a new file, while other handles read and write.
    ///
    /// Returns the state of the copy and the store's ID. Throws `alreadyExists` and errors of reading and writing, and
    /// then leaves no part of the copy. `files` are those of the copy.
    static func backUp(
        _ source: Engine, to path: String, in files: any FileSystem, newIdentity: Bool, _ options: CompactionOptions
    ) throws(StoreError) -> BackupResult {
        try requireCountable(source)
        // In this order, so that the state is not older than the base, even if another handle cleans in between.
        let base = try source.view(asOf: source.tracking.horizon)
        let view = try source.view()
        guard !source.log.current.stopsCopies else {
            throw StoreError(
                .unsupportedVersion,
                "A newer version of Annals has written something to this store that a copy by this version would lack: "
                    + "use the newer version.", path: source.log.path)
        }
        let storeID = newIdentity ? UUIDBytes.random(source.log.environment) : source.log.header.storeID
        let log = source.log
        let model = try log.whileOpen { () throws(StoreError) in try log.files.status(log.file) }
        let file = try UnfinishedStore(.backup, path, like: model, files: files, environment: log.environment)
        defer { file.close() }
        var chosen = targetOptions(source)
        chosen.log.writesForNewer = true
        let target = try file.open(header(source, storeID, base), chosen)
        let compactor = Compactor(source, target, base, try FoldedHistory(source, base, view), options)
        do throws(StoreError) {
            try compactor.writeBase()
            try compactor.copyFolding()
            try compactor.copy(to: view.end)
            try compactor.writeTracking(withConsumers: !newIdentity)
            try compactor.buildIndexes()
            let bytes = target.log.current.end
            try target.log.close(isPublished: false)
            try file.publish(target, view)
            return BackupResult(storeID: storeID, number: view.number, tag: view.tag, bytes: bytes)
        } catch {
            target.log.retire()
            throw error
        }
    }

    private static func requireCountable(_ source: Engine) throws(StoreError) {
        guard source.log.header.generation < .max else {
            throw StoreError(
                .tooLarge, "The store was compacted as often as its generation can count: export it to a new store.",
                path: source.log.path)
        }
    }

    private static func header(_ source: Engine, _ storeID: UUIDBytes, _ base: View) -> FileHeader {
        let environment = source.log.environment
        return FileHeader(
            storeID: storeID, generation: source.log.header.generation + 1, salt: environment.random(),
            created: environment.wallClockMicroseconds(), baseNumber: base.number, baseTag: base.tag,
            baseTime: base.time
        ).keeping(source.log.header)
    }

    private static func targetOptions(_ source: Engine) -> EngineOptions {
        var chosen = source.options
        chosen.dirtyNodeBytes = min(chosen.dirtyNodeBytes, 16 << 20)
        chosen.log.limits.expectedFileBytes = source.log.current.end
        // An incomplete file is never used: it is synced when it is complete.
        chosen.log.synchronizesInBackground = false
        return chosen
    }

    private init(
        _ source: Engine, _ target: Engine, _ base: View, _ folded: FoldedHistory, _ options: CompactionOptions
    ) {
        (self.source, self.target, self.base, self.folded, self.options) = (source, target, base, folded, options)
        copier = FrameCopier(source, target, folded)
        position = base.number == source.log.header.baseNumber ? UInt64(FormatLimits.pageBytes) : base.end
    }

    /// Runs `body` with room for a slice in the new file, then writes the appended frames. While writers wait, no
    /// checkpoint is written.
    private func appending(
        othersWait: Bool = false, _ body: (Appender) throws(StoreError) -> Void
    ) throws(StoreError) {
        try target.log.locked(.relaxed, mayKeepLock: true) { (appender) throws(StoreError) in
            let room = options.sliceBytes + UInt64(source.options.log.limits.maximumFrameBytes) * 2
            try target.indexes.core.file.requireReach(appender.state.end + room)
            try appender.prepare(bytes: room)
            target.indexes.core.file.beginReading()
            defer { target.indexes.core.file.endReading() }
            try body(appender)
            try appender.flush()
        }
        if othersWait { return }
        try startWriting()
        let (end, dirty) = (target.log.current.end, target.indexes.dirtyBytes)
        // O3.
        if target.indexes.checkpoint.isDue(at: end, dirty: dirty, target.options) { try target.writeCheckpoint() }
    }

    /// Keeps the disk busy from the first slice on, with at most two slices waiting. So other processes on the same
    /// disk never wait for the whole new file, and the final sync is short.
    private func startWriting() throws(StoreError) {
        let log = target.log
        let end = log.current.end
        guard end > startedEnd else { return }
        assert(arrivedEnd <= startedEnd, "More was written to the disk than was begun.")
        log.files.startWriting(log.file, offset: startedEnd, count: end - startedEnd)
        if startedEnd > arrivedEnd {
            try log.files.finishWriting(log.file, offset: arrivedEnd, count: startedEnd - arrivedEnd)
        }
        (arrivedEnd, startedEnd) = (startedEnd, end)
    }

    /// Omitted if the new file is so small that reading it takes no longer than reading a checkpoint, which has at
    /// least a page for each index.
    func writeCheckpoint() throws(StoreError) {
        let tail = target.log.current.end - target.indexes.checkpoint.end
        guard copier.needsCheckpoint || tail > target.options.closingTailBytes else { return }
        try target.writeCheckpoint()
        copier.needsCheckpoint = false
    }

    private func report(_ done: UInt64) throws(StoreError) {
        if !isCaughtUp { options.pace?() }
        guard let progress = options.progress else { return }
        guard progress(CompactionProgress(doneBytes: done, totalBytes: source.log.current.end)) else {
            throw StoreError(.cancelled, "Copying was cancelled: the store is unchanged.", path: source.log.path)
        }
    }

    // MARK: The base

    private func writeBase() throws(StoreError) {
        try appending { (appender) throws(StoreError) in
            var writer = StandaloneWriter(target)
            let features = source.log.current.features
            if !features.isEmpty { try writer.add(.features(features), appender) }
            // The totals of the state with which this began. Objects deleted without history after the base are not
            // copied, but had numbers.
            let totals = folded.state.totals ?? StoreTotals()
            for entity in 0..<totals.entityLimit {
                let next = totals[UInt16(entity)].nextNumber
                if next > 1 { try writer.add(.objectNumbers(entity: UInt16(entity), next: next), appender) }
            }
            try writer.finish(appender)
        }
        let newest = base.catalog.newestVersion
        for version in 0..<newest {
            try appending { (appender) throws(StoreError) in
                let tables = try base.catalog.definition(version: version + 1).encodeTables(
                    maximumTableBytes: FormatLimits.maximumFrameBytes - FrameField.bytes)
                for table in tables {
                    try StandaloneWriter(target).append(.schema, table, appender)
                    target.indexes.adopt(appender.state.catalog)
                    target.indexes.dropOrdered()
                }
            }
        }
        for entity in base.catalog.entities(version: newest) where folded.through[entity.number] == nil {
            try writeRows(of: entity.number, in: base)
        }
    }

    /// Appends an entity's rows in a state of the source, without their history.
    func writeRows(of entity: UInt16, in state: View) throws(StoreError) {
        proof.begin(entity, state)
        var next: UInt64 = 1
        var isDone = false
        while !isDone {
            var rows = BaseRows(limitBytes: min(1 << 16, source.options.log.limits.maximumFrameBytes))
            let limit = options.sliceBytes
            try appending { (appender) throws(StoreError) in
                let start = appender.state.end
                isDone = true
                try state.scan(entity: entity, from: next) { (object, row) throws(StoreError) in
                    if !rows.hasRoom(for: row) { try rows.write(target, copier, appender) }
                    if appender.state.end - start >= limit {
                        isDone = false
                        return false
                    }
                    let hasReferences = try row.validate(hasPadding: false)
                    try row.require(schemaVersionUpTo: appender.state.schemaVersion)
                    if hasReferences { try copier.copyValues(of: row, appender) }
                    try rows.append(object, row, hasReferences ? copier : nil, proof)
                    next = object.number + 1
                    return true
                }
                try rows.write(target, copier, appender)
            }
            try reportBase()
        }
    }

    private func reportBase() throws(StoreError) { try report(min(target.log.current.end, source.log.current.end)) }

    /// Proves that all rows written so far are those of the source.
    func proveRows() throws(StoreError) {
        try proof.compare(with: source) { () throws(StoreError) in try reportBase() }
    }

    // MARK: Transactions

    /// Copies the existing transactions, then those added during the copy, until little is left.
    private func copyTransactions() throws(StoreError) {
        try copyFolding()
        try copy(to: source.view().end)
        try writeTracking()
        try buildIndexes()
        isCaughtUp = true
        try catchUp()
    }

    /// Copies up to `end`. While writers wait, omits work that can be done later.
    func copy(to end: UInt64, othersWait: Bool = false) throws(StoreError) {
        let limit = options.sliceBytes
        copier.catalog = source.log.current.catalog
        while position < end {
            try appending(othersWait: othersWait) { (appender) throws(StoreError) in
                let start = appender.state.reach
                while position < end, appender.state.reach - start < limit || appender.state.open != nil {
                    position = try source.indexes.core.reading { () throws(StoreError) in
                        // A verified copy: O5.
                        let frame = try frames.frame(at: position, source.indexes.core)
                        try copy(frame, appender)
                        return frame.end
                    }
                    if appender.state.reach - start >= limit { try appender.prepareMore(limit) }
                }
            }
            if !othersWait { try report(position) }
        }
    }

    /// Copies or skips one frame of the source.
    private func copy(_ frame: FrameView, _ appender: Appender) throws(StoreError) {
        let maintaining = isCaughtUp
        switch frame.header.kind {
        case .transaction, .part: try copier.copy(frame, maintaining: maintaining, appender)
        case .value, .schema:
            if frame.header.isMember { try copier.copy(frame, maintaining: maintaining, appender) }
        case .consumer where !isCaughtUp: break
        case .consumer where frame.header.isMember: try copier.copy(frame, maintaining: maintaining, appender)
        case .consumer: try StandaloneWriter(target).append(frame.header.kind, Array(frame.table), appender)
        case .cleaning where isCaughtUp:
            let mark = try copier.names.define(of: try CleaningRecord.decode(frame), appender)
            try StandaloneWriter(target).append(.cleaning, mark.encoded(), appender)
        case .metadata:
            var writer = StandaloneWriter(target)
            for record in try MetadataRecord.decodeAll(frame) {
                switch record {
                // Names are defined at their first use.
                case .name: break
                case .clockStep, .objectNumbers, .features: try writer.add(record, appender)
                case .retention where isCaughtUp: try writer.add(record, appender)
                case .retention: break
                }
            }
            try writer.finish(appender)
        default: break
        }
    }

    /// Writes consumers and the hiding of history, limited to the transactions copied.
    private func writeTracking(withConsumers: Bool = true) throws(StoreError) {
        let state = source.log.current
        // Frames between the copied state and the present repeat some of this.
        let tracking = state.tracking
        try appending { (appender) throws(StoreError) in
            let last = appender.state.lastNumber
            var writer = StandaloneWriter(target)
            if tracking.retention != .standard {
                try writer.add(.retention(tracking.retention), appender)
                try writer.finish(appender)
            }
            for var consumer in tracking.consumers where withConsumers {
                try requireTag(of: consumer)
                // The consumer has seen more than was copied so far.
                if consumer.cursor > last { (consumer.cursor, consumer.tag) = (last, appender.state.lastTag) }
                try writer.append(.consumer, consumer.encoded(), appender)
            }
            var mark = CleaningRecord(before: 0, time: state.lastTime, hidden: tracking.hidden)
            if tracking.horizon > appender.state.tracking.horizon { mark.before = min(tracking.horizon, last) + 1 }
            for index in mark.hidden.indices { mark.hidden[index].before = min(mark.hidden[index].before, last + 1) }
            if mark.before > 0 || !mark.hidden.isEmpty {
                mark = try copier.names.define(of: mark, appender)
                try writer.append(.cleaning, mark.encoded(), appender)
            }
        }
    }

    /// Opening does not check the tags of consumers. Before one is copied, its tag is compared with the source's
    /// transaction.
    private func requireTag(of consumer: ConsumerRecord) throws(StoreError) {
        let header = source.log.header
        let tag =
            consumer.cursor <= header.baseNumber
            ? header.tag(ofFolded: consumer.cursor) : try source.view(asOf: consumer.cursor).tag
        guard tag ?? consumer.tag == consumer.tag else {
            throw StoreError(
                .damaged,
                "F33: the tag of the consumer “\(consumer.name)” does not match the transaction that it has read. "
                    + "Reset or remove the consumer.",
                path: source.log.path)
        }
    }

    // MARK: Indexes

    /// Builds every missing ordered index of the newest schema.
    private func buildIndexes() throws(StoreError) {
        if let build = try IndexBuild(completing: target) {
            build.progress = { [position] () throws(StoreError) in try self.report(position) }
            try build.run()
            try target.install(build)
        }
        try writeCheckpoint()
    }

    // MARK: The end

    /// Copies the rest while writers wait, and renames the new file. Returns its end.
    private func finish(_ file: CompactionFile) throws(StoreError) -> UInt64 {
        var rounds = 0
        while true {
            // Writers of large transactions may always leave more than the limit. After some rounds they wait for the
            // copy of all of it.
            let most = rounds < Self.patientRounds ? options.finalBytes * 4 : .max
            if let end = try finish(file, ifAtMost: most) { return end }
            rounds += 1
            // A schema change in the last piece may need an index, which must not be built while writers wait.
            if !target.indexes.isComplete { try buildIndexes() }
            try catchUp()
        }
    }

    private static let patientRounds = 4

    private func finish(_ file: CompactionFile, ifAtMost most: UInt64) throws(StoreError) -> UInt64? {
        let log = source.log
        // The lock of a replaced file is useless.
        return try log.locked(.relaxed, longestPause: WriterLock.eagerPause) {
            (appender) throws(StoreError) in
            try log.requireIdentity()
            // Much may have been written before this handle got the lock: O2.
            if appender.state.end - position > most { return nil }
            try copy(to: appender.state.end, othersWait: true)
            assert(position >= appender.state.end, "O1: the new file lacks a commit.")
            guard target.indexes.isComplete else { return nil }
            let state = source.indexes.newest
            let end = target.log.current.end
            try target.log.close(isPublished: false)
            let record = ReplacingRecord(
                generation: target.log.header.generation, salt: target.log.header.salt,
                time: log.environment.wallClockMicroseconds())
            _ = try source.append(.replacing, record.encoded(), appender)
            try file.rename(target, state)
            return end
        }
    }
}
