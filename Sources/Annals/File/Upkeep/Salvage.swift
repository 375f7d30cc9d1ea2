// Salvage: copies the readable content of a damaged file into a new store.
//
// Invariants:
// SV1  The source is opened for reading only, and never written to.
// SV2  An object's newest row is the newest in frames that check and count. Every object whose newest row can be read
//     is in the new store, under its ID.
// SV3  The new store gets its name when it is complete and durable. A killed salvage leaves at most a file with another
//     name. The next salvage to the same name removes it.

package struct SalvageOptions: Sendable {
    package var author = "salvage"
    package var context: String?
    /// A transaction of the new store ends at this size.
    package var transactionBytes = 4 << 20
    /// Memory for sorting the found changes. The rest waits in a file beside the new store.
    package var sortingBytes = 48 << 20
    package var windowBytes = 1 << 20
    /// Receives the bytes examined and the total. Returning false ends the salvage, which throws `cancelled`.
    package var progress: (@Sendable (CompactionProgress) -> Bool)?
    package var engine = EngineOptions()

    package init() {}

    /// Reports progress. Throws `cancelled` if the salvage should end.
    func report(_ done: UInt64, of total: UInt64) throws(StoreError) {
        guard let progress, !progress(CompactionProgress(doneBytes: done, totalBytes: total)) else { return }
        throw StoreError(.cancelled, "Salvage was cancelled: no new store was created.")
    }
}

package enum Salvage {
    /// Reads the parts of the store at `source` that check, and makes a store of them at `target`, which must not
    /// exist.
    ///
    /// Throws `alreadyExists`; `busy` if another process salvages to that name; `cancelled`; `notAStore`, `truncated`
    /// or `damaged` if no frame can be read; `unsupportedVersion` if a newer program wrote the store; and system
    /// errors. Any loss of content is in the report. The time is linear in the file, plus sorting its changes.
    package static func run(
        from source: String, to target: String, options: SalvageOptions = SalvageOptions(), files: any FileSystem,
        environment: any Environment
    ) throws(StoreError) -> SalvageReport {
        let file = try open(source, files)
        defer { files.close(file) }
        var model = try files.status(file)
        // A damaged store may have been made read-only. The new one must be writable.
        model.mode |= 0o600
        let unfinished = try UnfinishedStore(
            .salvage, target, like: model, files: files, environment: environment)
        defer { unfinished.close() }
        var salvage = SalvageRun(files, file, options)
        do throws(StoreError) {
            try salvage.read(directory: unfinished.directoryPath)
        } catch {
            throw error.at(path: source)
        }
        do throws(StoreError) {
            return try salvage.write(to: unfinished, environment)
        } catch {
            // An offset refers to the source.
            throw error.at(path: error.offset == nil ? target : source)
        }
    }

    /// Opens the source for reading only: SV1.
    private static func open(_ source: String, _ files: any FileSystem) throws(StoreError) -> Descriptor {
        do throws(StoreError) { return try files.openStoreFile(source) } catch { throw error.at(path: source) }
    }
}

/// One salvage of one open file.
private struct SalvageRun {
    private let files: any FileSystem
    private let file: Descriptor
    private let options: SalvageOptions
    private let window: ByteWindow
    private var report = SalvageReport()
    private var salt: UInt64 = 0
    private var scan: SalvageScan?
    /// Nil if the page is damaged.
    private var header: FileHeader?
    private var schema = SalvagedSchema()
    /// The newest readable checkpoint.
    private var checkpoint: (offset: UInt64, content: CheckpointContent)?

    init(_ files: any FileSystem, _ file: Descriptor, _ options: SalvageOptions) {
        (self.files, self.file, self.options) = (files, file, options)
        window = ByteWindow(files, file, stepBytes: options.windowBytes)
    }

    // MARK: Reading

    mutating func read(directory: String) throws(StoreError) {
        report.fileBytes = try files.size(file)
        let page = Array(try window.bytes(at: 0, count: FormatLimits.pageBytes))
        let (header, fault) = try readHeader(page)
        let hints = page.withUnsafeBytes { HintSlot.decodeAll($0, salt: salt) }
        let scan = SalvageScan(
            window, salt: salt, fileBytes: report.fileBytes,
            changes: ExternalSorter(files, directory: directory, memoryBytes: options.sortingBytes), options)
        try scan.run(header: header, hints: hints, &report)
        if report.framesRead == 0, let fault {
            throw StoreError(
                fault.code,
                "The header page cannot be read, and no frame matches its salt, so nothing can be salvaged. "
                    + "(\(fault.message))", offset: 0)
        }
        guard report.framesRead > 0 || report.bytesPassedOver == 0 else {
            throw StoreError(
                .damaged, "No frame of this file is valid, so nothing can be salvaged.",
                offset: UInt64(FormatLimits.pageBytes))
        }
        let base = header?.baseNumber ?? scan.transactions.lowest
        let known = report.transactionsComplete + report.transactionsWithGaps
        if scan.transactions.highest > base { report.transactionsMissing = scan.transactions.highest - base }
        report.transactionsMissing -= min(known, report.transactionsMissing)
        self.scan = scan
        self.header = header
        try readSchema(scan)
        if checkpoint == nil, header?.generation != 0 { report.bytesUncounted = scan.bytesPassedOverInBase }
    }

    /// Nil if the page is damaged. Then the frames show whether the salt is right.
    private mutating func readHeader(_ page: [UInt8]) throws(StoreError) -> (FileHeader?, fault: StoreError?) {
        guard page.count == FormatLimits.pageBytes else {
            throw StoreError(
                page.isEmpty ? .notAStore : .truncated,
                "The file ends within its header page, so nothing can be salvaged.", offset: UInt64(page.count))
        }
        salt = page.withUnsafeBytes { $0.integer(at: HeaderField.salt, as: UInt64.self) }
        let decoded = page.withUnsafeBytes { bytes -> Result<FileHeader, StoreError> in
            do throws(StoreError) { return .success(try FileHeader.decode(bytes)) } catch { return .failure(error) }
        }
        switch decoded {
        case .success(let header): return (header, nil)
        case .failure(let error):
            guard error.code != .unsupportedVersion else { throw error }
            report.isHeaderDamaged = true
            return (nil, error)
        }
    }

    /// Reads the newest readable checkpoint, and collects the schemas of it and of the schema frames.
    private mutating func readSchema(_ scan: SalvageScan) throws(StoreError) {
        let reader = CheckpointReader(files, file, salt: salt)
        for (offset, changes) in scan.checkpoints.reversed() where !scan.transactions.isDropped(offset) {
            do throws(StoreError) {
                let content = try reader.checkpoint(at: offset).content
                if content.extensions.contains(where: \.stopsWriters) { scan.stopsWriters = offset }
                checkpoint = (offset, content)
                if content.changes > changes { report.changesMissing = content.changes - changes }
                for version in content.schemas { schema.collect(version) }
                for root in content.entities { scan.note(next: root.nextNumber, root.entity) }
                break
            } catch  where error.isBreach {}
        }
        for (offset, definition) in scan.definitions where !scan.transactions.isDropped(offset) {
            schema.collect(definition)
        }
        report.schemaVersionsMissing = schema.missingVersions
        // The new store has neither skipped frames nor extensions. It stops writers only if the features declare this.
        if let offset = scan.stopsWriters, scan.features.allowsWriting, header?.allowsWriting ?? true {
            throw .newer("F36", "content that writers must understand was not declared", offset: offset)
        }
    }

    // MARK: Writing

    /// Writes the new store, and gives it its name.
    mutating func write(
        to unfinished: UnfinishedStore, _ environment: any Environment
    ) throws(StoreError) -> SalvageReport {
        guard let scan else { preconditionFailure("A salvaged store must be read before it is written.") }
        let isWhole = report.framesBad == 0 && report.bytesPassedOver == 0 && report.schemaVersionsMissing == 0
        let definitions = schema.newest(isWhole: isWhole, &report.schemaChanges)
        var header = FileHeader(
            storeID: .random(environment), salt: environment.random(), created: environment.wallClockMicroseconds())
        if let old = self.header { header = header.keeping(old) }
        var chosen = options.engine
        chosen.log.writesForNewer = true
        chosen.log.limits.expectedFileBytes = try files.size(file)
        let engine = try unfinished.open(header, chosen)
        do throws(StoreError) {
            let values = SalvagedValues(window.beside(stepBytes: FormatLimits.maximumFrameBytes), salt: salt)
            let rows = try SalvagedRows(window, scan, schema, definitions, SalvageLosses(indexed(scan)))
            let writer = SalvageWriter(engine, definitions, values, options, fileBytes: report.fileBytes)
            try writer.write(scan.features)
            try writer.writeSchema()
            try writer.write(rows)
            try rows.finishLosses(
                nextNumbers: scan.nextNumbers,
                isCounting: report.transactionsMissing > 0 || report.transactionsWithGaps > 0
                    || report.bytesUncounted > 0)
            try writer.passNumbers(numbersToPass(rows, scan))
            try writer.finishSchema()
            try engine.writeCheckpoint()
            completeReport(writer, rows, definitions)
            let state = try engine.view()
            try engine.close()
            // Complete: SV3.
            try unfinished.publish(engine, state)
        } catch {
            try? engine.log.closeReplaced()
            throw error
        }
        return report
    }

    private func indexed(_ scan: SalvageScan) -> IndexedObjects? {
        guard let checkpoint else { return nil }
        let window = window.beside(stepBytes: FormatLimits.maximumNodeFrameBytes)
        return IndexedObjects(checkpoint.content, at: checkpoint.offset, scan.nodes, window)
    }

    /// The next object numbers, as far as frames and references show them. A reference far above the rest has no
    /// target.
    private func numbersToPass(_ rows: SalvagedRows, _ scan: SalvageScan) -> [UInt16: UInt64] {
        var next = scan.nextNumbers
        for (entity, number) in rows.nextNumbers {
            let known = scan.nextNumbers[entity] ?? 1
            if number > known, number - known <= 1 << 20 { next[entity] = number }
        }
        return next
    }

    private mutating func completeReport(
        _ writer: SalvageWriter, _ rows: SalvagedRows, _ definitions: [EntityDefinition]
    ) {
        report.largeValuesLost = writer.largeValuesLost
        report.objectsOfGaps = writer.objectsOfGaps
        report.objectsOfGuessedSchema = writer.objectsOfGuessedSchema
        report.schemaChanges += writer.schemaChanges
        let losses = rows.losses.counts.filter { rows.wasVisible($0.key) }
        let numbers = Set(definitions.map(\.number)).union(rows.unreadable.keys).union(losses.keys)
        report.entities = numbers.inOrder().map { number in
            let lost = losses[number] ?? SalvageLosses.Counts()
            return SalvageReport.Entity(
                number: number, name: definitions.first { $0.number == number }?.name.text,
                objects: writer.written[number] ?? 0, unreadableObjects: rows.unreadable[number] ?? 0,
                lostObjects: lost.lost, outdatedObjects: lost.outdated, unaccountedObjects: lost.unaccounted)
        }
    }
}
