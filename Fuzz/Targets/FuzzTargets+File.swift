// The file target: bytes are a whole store, which is read, written to, and read again.

package import Annals
internal import SimulatedDisk

extension FuzzTargets {
    /// Longer inputs are cut to this.
    package static let maximumStoreBytes = 65536
    private static let path = "/data/f.annals"

    /// How far an input came, so that a test can tell a harness that reaches the engine from one that does not.
    package enum Outcome: Equatable, Sendable {
        case refused(StoreError.Code)
        /// It opened; so many transactions were read, and whether one more was committed.
        case opened(transactions: Int, isCommitted: Bool)
    }

    /// Z1 and Z3 to Z6 for a whole file.
    package static func file(_ bytes: UnsafeRawBufferPointer, planted: Planted? = nil) {
        _ = fileOutcome(bytes, planted: planted)
    }

    @discardableResult
    package static func fileOutcome(_ bytes: UnsafeRawBufferPointer, planted: Planted? = nil) -> Outcome {
        timed("A file", maximumFileMicroseconds) {
            if planted == .slowness {
                let start = threadMicroseconds()
                while threadMicroseconds() - start <= maximumFileMicroseconds {}
            }
            return run(Array(bytes.prefix(maximumStoreBytes)), planted)
        }
    }

    private static func run(_ bytes: [UInt8], _ planted: Planted?) -> Outcome {
        let store = FuzzedStore(bytes)
        let reader: Log
        do throws(StoreError) {
            reader = try store.open(.readOnly)
        } catch {
            requireByteError(error, "Opening")
            require(!store.hasChanged, "Z4", "opening that failed changed the file")
            salvage(bytes, checkAgreement(store, opened: nil))
            engine(store, nil, log: nil)
            return .refused(error.code)
        }
        var before = StoreContents(of: reader)
        let state = reader.current
        require(!store.hasChanged, "Z4", "reading changed the file")
        if planted == .forgottenTransaction { before.transactions = before.transactions.dropLast() }

        let report = checkAgreement(store, opened: state)
        let hasTrueSets = engine(store, report, log: reader)
        if !state.allowsWriting {
            refuseWriting(FuzzedStore(bytes))
            salvage(bytes, report)
            return .opened(transactions: before.transactions.count, isCommitted: false)
        }
        commitWithEngine(FuzzedStore(bytes), report, hasTrueSets: hasTrueSets)
        if report.isIntact, hasTrueSets { compact(FuzzedStore(bytes)) }
        salvage(bytes, report)
        let isCommitted = append(to: store, before, state)
        return .opened(transactions: before.transactions.count, isCommitted: isCommitted)
    }

    /// The whole-file checker comes as far as opening does: what opens has no break in its chain, what does not is not
    /// intact. The checker looks deeper, and may stop at something there that only a newer program knows.
    @discardableResult
    private static func checkAgreement(_ store: FuzzedStore, opened: LogState?) -> CheckReport {
        do throws(StoreError) {
            let report = try store.check()
            if let opened {
                if stopsAtNewer(report) { return report }
                require(
                    report.stoppedAt == nil && report.end == opened.end && report.lastNumber == opened.lastNumber, "Z7",
                    "a store opens, and the checker stops: \(report.findings)")
            } else {
                require(!report.isIntact, "Z7", "a store does not open, and the checker finds nothing")
            }
            return report
        } catch {
            violation("Z7", "the checker cannot read a store: \(error)")
        }
    }

    /// Whether the checker stops at what only a newer program knows, whatever else it has found.
    private static func stopsAtNewer(_ report: CheckReport) -> Bool {
        guard let place = report.stoppedAt else { return false }
        return report.omittedFindings > 0 || report.findings.contains { $0.offset == place && !$0.isDamage }
    }

    /// Opens for writing, commits once more, closes, and looks at what is there then.
    private static func append(to store: FuzzedStore, _ before: StoreContents, _ state: LogState) -> Bool {
        let writer: Log
        do throws(StoreError) {
            writer = try store.open(.readWrite)
        } catch {
            violation("Z3", "a store that opens for reading does not open for writing: \(error)")
        }
        let isCommitted = commit(to: writer, before)
        let end = writer.current.end
        do throws(StoreError) { try writer.close() } catch { violation("Z3", "a store cannot be closed: \(error)") }
        require(
            store.bytes[FormatLimits.pageBytes..<Int(state.end)]
                == store.original[FormatLimits.pageBytes..<Int(state.end)],
            "Z4", "bytes below the end have changed")
        let again: Log
        do throws(StoreError) { again = try store.open(.readOnly) } catch {
            violation("Z3", "a store does not open after a commit: \(error)")
        }
        let after = StoreContents(of: again)
        let expected = before.transactions.count + (isCommitted ? 1 : 0)
        require(
            after.transactions.count == expected && after.transactions.starts(with: before.transactions), "Z3",
            "\(before.transactions.count) transactions have become \(after.transactions.count)")
        if isCommitted { checkSeal(of: again, in: store, above: end) }
        return isCommitted
    }

    private static func checkSeal(of log: Log, in store: FuzzedStore, above end: UInt64) {
        let report = log.openingReport
        require(report.isSealed && report.end > end, "Z6", "a closed store is not sealed")
        require(report.tornTail == nil, "Z6", "a closed store has a torn tail: \(report.reason)")
        let spare = store.bytes[Int(report.end)...]
        require(
            spare.count == FormatLimits.pageBytes && spare.allSatisfy { $0 == 0 }, "Z6",
            "the spare page of a closed store is not one of zeros")
    }

    /// Whether one more transaction could be committed: one that inserts a row if there is an entity.
    private static func commit(to log: Log, _ contents: StoreContents) -> Bool {
        do throws(StoreError) {
            let transaction = log.makeFrames()
            transaction.prepared.author = "fuzz"
            if let (object, row) = newObject(log.current.catalog, contents) { try transaction.insert(object, row) }
            let appended = try log.commit(transaction)
            require(
                appended.number == (contents.transactions.last?.number ?? log.header.baseNumber) &+ 1, "Z3",
                "a number is not the next")
            return true
        } catch {
            require(error.code == .tooLarge, "Z3", "a store that opens cannot be written to: \(error.code) \(error)")
            return false
        }
    }

    private static func newObject(_ catalog: SchemaCatalog, _ contents: StoreContents) -> (ObjectID, [StoredValue])? {
        for entity in catalog.entities(version: catalog.newestVersion) {
            guard let object = ObjectID(entityNumber: entity.number, number: (contents.highest[entity.number] ?? 0) + 1)
            else {
                continue
            }
            return (object, entity.attributes.map { $0.isOptional ? .absent : smallestValue(of: $0.type) })
        }
        return nil
    }

    static func smallestValue(of type: AttributeType) -> StoredValue {
        switch type {
        case .bool: .bool(false)
        case .int: .int(0)
        case .double: .double(0)
        case .string: .string("")
        case .data: .data([])
        case .date: .date(0)
        case .uuid: .uuid(UUIDBytes(high: 0, low: 0))
        case .decimal: .decimal(.zero)
        case .json: .json("0")
        case .object: ObjectID(entityNumber: 1, number: 1).map { .object($0) } ?? .absent
        case .orderedObjects: .orderedObjects([])
        case .objects: .objects([])
        }
    }

    /// A machine whose disk holds one file.
    struct FuzzedStore {
        let original: [UInt8]
        private let disk: SimulatedDisk
        private let environment: SimulatedEnvironment
        private let changes: Int

        init(_ bytes: [UInt8]) {
            original = bytes
            disk = SimulatedDisk()
            disk.install(bytes, at: path)
            // The first byte of the store's ID may set the clock to an end of time.
            let choice = bytes.count > HeaderField.storeID ? bytes[HeaderField.storeID] : 0
            environment =
                switch choice {
                case 0xFF: SimulatedEnvironment(name: "fuzz", wallClock: .max - 1)
                case 0xFE: SimulatedEnvironment(name: "fuzz", wallClock: .min)
                default: SimulatedEnvironment(name: "fuzz")
                }
            changes = disk.changeCount
        }

        var hasChanged: Bool { disk.changeCount != changes }
        var bytes: [UInt8] { disk.contents(of: path) ?? [] }

        func open(_ access: FileAccess) throws(StoreError) -> Log {
            var options = LogOptions()
            options.limits.windowBytes = 16384
            options.limits.mappingReserveBytes = 0
            options.limits.minimumPreallocationBytes = 4096
            options.synchronizesInBackground = false
            return try Log.open(path, access: access, options: options, files: disk, environment: environment)
        }

        func openEngine(_ access: FileAccess, _ reading: FileReading) throws(StoreError) -> Engine {
            var options = EngineOptions.lowered
            options.log.limits.windowBytes = 16384
            options.log.limits.mappingReserveBytes = 2 << 20
            options.log.synchronizesInBackground = false
            options.reading = reading
            return try Engine.open(path, access: access, options: options, files: disk, environment: environment)
        }

        func check() throws(StoreError) -> CheckReport {
            var options = CheckOptions()
            options.spillDirectory = "/data"
            options.windowBytes = 16384
            options.sortingBytes = 1 << 20
            return try Checker.check(path, options: options, files: disk)
        }
    }
}
