// The engine on a fuzzed file: it answers or refuses whatever the bytes say, and answers as the log does where the
// checker finds nothing.

internal import Annals
internal import SimulatedDisk

extension FuzzTargets {
    /// Z1, Z5 and Z8 for the engine, in both ways of reading. `report` is the checker's, nil if the log did not
    /// open.
    ///
    /// Returns whether the attribute sets of updates name all that changed: the checker does not compare them, and
    /// indexes follow them.
    @discardableResult
    static func engine(_ store: FuzzedStore, _ report: CheckReport?, log: Log?) -> Bool {
        let isIntact = report?.isIntact ?? false
        var hasTrueSets = true
        for reading in [FileReading.mapped, .copied] {
            guard let engine = open(store, .readOnly, reading, isIntact) else { continue }
            var reader = EngineReading(engine, isIntact: isIntact)
            reader.readEverything()
            if isIntact, let log { reader.compare(with: log) }
            hasTrueSets = hasTrueSets && reader.hasTrueSets
            readEntities(engine, isIntact: isIntact, hasTrueSets: hasTrueSets)
            do throws(StoreError) { try engine.close() } catch {
                violation("Z8", "a reader cannot be closed: \(error)")
            }
        }
        require(!store.hasChanged, "Z4", "the engine changed a file that it only read")
        return hasTrueSets
    }

    static func open(
        _ store: FuzzedStore, _ access: FileAccess, _ reading: FileReading, _ isIntact: Bool
    ) -> Engine? {
        do throws(StoreError) {
            return try store.openEngine(access, reading)
        } catch {
            // Values too long for an index are no writer's, and no damage of the log.
            if error.code != .tooLarge {
                requireByteError(error, "Opening the engine")
                require(!isIntact, "Z8", "an intact store does not open: \(error)")
            }
            return nil
        }
    }

    /// Z12: a file that only newer programs may write to stays as it is, and the error says so.
    static func refuseWriting(_ store: FuzzedStore) {
        guard let engine = open(store, .readWrite, .mapped, false) else { return }
        do throws(StoreError) {
            try engine.writeCheckpoint()
            violation("Z12", "a newer program's file was written to")
        } catch {
            require(error.code == .unsupportedVersion, "Z12", "a newer program's file: \(error)")
        }
        do throws(StoreError) { try engine.close() } catch { requireByteError(error, "Closing the engine") }
        require(!store.hasChanged, "Z12", "a newer program's file has changed")
    }

    /// Commits once through the engine and closes, which may write a checkpoint: an intact store stays so.
    static func commitWithEngine(_ store: FuzzedStore, _ report: CheckReport, hasTrueSets: Bool) {
        guard let engine = open(store, .readWrite, .mapped, report.isIntact) else { return }
        // An extension of the checkpoint from which it was opened may stop writers.
        guard engine.log.current.allowsWriting else { return refuseWriting(store) }
        do {
            let view = try engine.view()
            let catalog = view.catalog
            _ = try engine.commit(author: "fuzz") { transaction in
                guard let entity = catalog.entities(version: catalog.newestVersion).first else { return }
                _ = try transaction.insert(
                    entity: entity.number,
                    entity.attributes.map { $0.isOptional ? .absent : smallestValue(of: $0.type) })
            }
            _ = try engine.commit(author: "fuzz") { try deleteFirst(of: catalog, $0) }
            try engine.writeCheckpoint()
        } catch let error as StoreError {
            switch error.code {
            case .uniqueViolation, .tooLarge, .invalidArgument, .referenceMissing, .deleteDenied, .requiredMissing:
                break
            default:
                requireByteError(error, "Committing with the engine")
                require(!report.isIntact, "Z8", "an intact store cannot be written to: \(error)")
            }
        } catch {
            violation("Z5", "an error of another type: \(error)")
        }
        do throws(StoreError) { try engine.close() } catch { requireByteError(error, "Closing the engine") }
        requireWritten(store, report, hasTrueSets: hasTrueSets)
    }

    /// Deletes an object of the first entity, and what the rules of references to it say.
    private static func deleteFirst(of catalog: SchemaCatalog, _ transaction: Draft) throws(StoreError) {
        guard let entity = catalog.entities(version: catalog.newestVersion).first else { return }
        var first: ObjectID?
        try transaction.base.scan(entity: entity.number) { (object, _) in
            first = object
            return false
        }
        if let first { try transaction.delete(first) }
    }

    private static func requireWritten(_ store: FuzzedStore, _ report: CheckReport, hasTrueSets: Bool) {
        guard report.isIntact else { return }
        do throws(StoreError) {
            let after = try store.check()
            let isExcused =
                !hasTrueSets && after.findings.allSatisfy { ["F31", "F37"].contains($0.rule) || !$0.isDamage }
            require(after.isIntact || isExcused, "Z8", "what the engine wrote is damaged: \(after.findings)")
        } catch {
            violation("Z7", "the checker cannot read a store: \(error)")
        }
    }
}

/// Reads everything that there is to read, and remembers whether it could.
private struct EngineReading {
    private let engine: Engine
    private let isIntact: Bool
    /// Large values are read up to so many bytes, so that references to one long value do not multiply it.
    private var largeBytes = 1 << 18
    /// In a file that is not intact, a tree may show the same objects again under ever more numbers.
    private var lastNumber: UInt64 { isIntact ? .max : 1 << 14 }
    private static let maximumRows = 5000
    /// Whether every update's attribute set names all attributes whose values differ.
    private(set) var hasTrueSets = true

    init(_ engine: Engine, isIntact: Bool) {
        self.engine = engine
        self.isIntact = isIntact
    }

    /// Runs a reading that may fail on bytes that are wrong, and on no others.
    private func attempt(_ what: String, _ body: () throws(StoreError) -> Void) {
        do throws(StoreError) {
            try body()
        } catch {
            FuzzTargets.requireByteError(error, what)
            FuzzTargets.require(!isIntact, "Z8", "\(what) of an intact store: \(error)")
        }
    }

    mutating func readEverything() {
        var newest: View?
        attempt("A view") { () throws(StoreError) in newest = try engine.view() }
        guard let newest else { return }
        readRows(newest)
        readHistory(newest)
        let base = engine.log.header.baseNumber
        for number in Set([base, base + (newest.number - base) / 2, newest.number]) {
            var view: View?
            attempt("A past view") { () throws(StoreError) in view = try engine.view(asOf: number) }
            if let view { readRows(view) }
        }
    }

    private mutating func readRows(_ view: View) {
        var reader = self
        for entity in view.catalog.entities(version: view.catalog.newestVersion) {
            for isReversed in [false, true] {
                var rows = 0
                attempt("A scan") { () throws(StoreError) in
                    try view.scan(entity: entity.number, through: lastNumber, reversed: isReversed) {
                        (_, row) throws(StoreError) in
                        try reader.readValues(row, view)
                        rows += 1
                        return rows < Self.maximumRows
                    }
                }
                for index in view.indexes(entity: entity.number) where !entity.isList(index) {
                    reader.readRange(index, isReversed, view)
                }
            }
        }
        self = reader
    }

    private mutating func readRange(_ index: IndexID, _ isReversed: Bool, _ view: View) {
        // A state of the past, or an index that is not built, sorts all rows: those are looked at only if they are
        // right.
        guard isIntact || (try? view.hasBuilt(view.indexNumber(index))) ?? false else { return }
        var reader = self
        var rows = 0
        attempt("A range") { () throws(StoreError) in
            try view.range(index, reversed: isReversed) { (_, row) throws(StoreError) in
                try reader.readValues(row, view)
                rows += 1
                return rows < Self.maximumRows
            }
        }
        self = reader
    }

    private mutating func readValues(_ row: RowImage, _ view: View) throws(StoreError) {
        for position in 0..<row.layout.count {
            guard case .large(let reference) = try row.value(at: position) else { continue }
            guard reference.valueBytes <= largeBytes else { continue }
            largeBytes -= Int(reference.valueBytes)
            _ = try view.value(row, at: position)
        }
    }

    private mutating func readHistory(_ view: View) {
        var reader = self
        attempt("History") { () throws(StoreError) in
            try engine.tracked(view).forEachTransaction(after: engine.log.header.baseNumber) {
                (transaction) throws(StoreError) in
                _ = (transaction.author, transaction.context, transaction.process)
                try transaction.forEachChange { (change) throws(StoreError) in
                    try reader.compareSet(of: change, view)
                    _ = try view.withRow(before: change) { (row) throws(StoreError) in try reader.readValues(row, view)
                    }
                    _ = try view.withRow(after: change) { (row) throws(StoreError) in try reader.readValues(row, view) }
                    return true
                }
                return true
            }
        }
        self = reader
    }

    private mutating func compareSet(of change: ChangeView, _ view: View) throws(StoreError) {
        guard change.kind == .update, hasTrueSets, isIntact else { return }
        var before: [UInt16: StoredValue] = [:]
        _ = try view.withRow(before: change) { (row) throws(StoreError) in
            for (position, attribute) in row.layout.entity.attributes.enumerated() {
                before[attribute.number] = try row.value(at: position)
            }
        }
        var isTrue = true
        _ = try view.withRow(after: change) { (row) throws(StoreError) in
            for (position, attribute) in row.layout.entity.attributes.enumerated()
            where !change.contains(attributePosition: position) {
                let value = try row.value(at: position)
                if value != before[attribute.number] ?? attribute.valueBeforeItExisted { isTrue = false }
            }
        }
        hasTrueSets = isTrue
    }

    // MARK: Against the log

    func compare(with log: Log) {
        attempt("Comparing") { () throws(StoreError) in
            let newest = try engine.view()
            let base = log.header.baseNumber
            for number in [newest.number, base + (newest.number - base) / 2] {
                let fold = StoreFold(of: log, through: number)
                if number == newest.number { compareTracking(fold) }
                try compare(try engine.view(asOf: number), fold)
            }
        }
    }

    private func compareTracking(_ fold: StoreFold) {
        let known = engine.tracking
        FuzzTargets.require(known.horizon == fold.horizon, "Z8", "the horizon is another one than the log says")
        FuzzTargets.require(known.retention == fold.retention, "Z8", "retention is another one than the log says")
        FuzzTargets.require(known.hidden == fold.hiddenAuthors, "Z8", "other authors are hidden than the log says")
        FuzzTargets.require(known.consumers == fold.consumers, "Z8", "there are other consumers than the log says")
    }

    private func compare(_ view: View, _ fold: StoreFold) throws(StoreError) {
        for entity in view.catalog.entities(version: view.catalog.newestVersion) {
            let expected = fold.objects(of: entity.number)
            var found: [ObjectID] = []
            try view.scan(entity: entity.number) { (object, row) in
                FuzzTargets.require(
                    fold.rows[object] == row.fileOffset, "Z8", "an object has another row than the log says")
                found.append(object)
                return true
            }
            FuzzTargets.require(found == expected, "Z8", "a scan has not the objects that the log has")
            FuzzTargets.require(
                try view.count(entity: entity.number) == UInt64(expected.count), "Z8", "a count is wrong")
            for index in view.indexes(entity: entity.number) where hasTrueSets && !entity.isList(index) {
                var ascending: [ObjectID] = []
                try view.range(index) { (object, _) in
                    ascending.append(object)
                    return true
                }
                FuzzTargets.require(
                    ascending.sorted() == expected, "Z8", "a range has not the objects that the log has")
                var descending: [ObjectID] = []
                try view.range(index, reversed: true) { (object, _) in
                    descending.append(object)
                    return true
                }
                FuzzTargets.require(
                    descending == ascending.reversed(), "Z8", "a range is another one in the other direction")
            }
        }
    }
}

extension EntityDefinition {
    /// Whether the index has an entry for each element of a list: it is read for one of them at a time.
    fileprivate func isList(_ index: IndexID) -> Bool {
        attributes.contains { [$0.number] == index.attributes && $0.type.isObjectList }
    }
}
