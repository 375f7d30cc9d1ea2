// Accepts frames outside of transactions: names, clock steps, retention, the base that compaction has made, consumers,
// cleaning.

/// The transactions that history still returns, and its readers.
package struct TrackingState: Equatable, Sendable {
    /// Transactions up to this number are no longer returned.
    package var horizon: UInt64
    /// By author's name number, 0 for none: the number below which its transactions are hidden. Ascending.
    package var hidden: [CleaningRecord.Hidden] = []
    /// By name.
    package var consumers: [ConsumerRecord] = []
    package var retention = RetentionLimits.standard

    package init(horizon: UInt64) { self.horizon = horizon }

    init(_ content: CheckpointContent) {
        horizon = content.horizon
        hidden = content.hidden
        consumers = content.consumers
        retention = content.retention
    }

    package func consumer(_ name: String) -> ConsumerRecord? { consumers.first { $0.name.hasSameBytes(as: name) } }

    /// The first transaction that a consumer holds; the highest number for none.
    package var firstHeld: UInt64 {
        consumers.reduce(.max) { $1.kind.contains(.holds) ? min($0, $1.cursor == .max ? .max : $1.cursor + 1) : $0 }
    }

    /// The number below which transactions of an author are hidden; 0 for none.
    package func hiddenBefore(_ author: UInt32) -> UInt64 { hidden.first { $0.author == author }?.before ?? 0 }

    mutating func apply(_ record: CleaningRecord) {
        if record.before > 0 { horizon = max(horizon, record.before - 1) }
        for entry in record.hidden {
            if let index = hidden.firstIndex(where: { $0.author >= entry.author }) {
                if hidden[index].author == entry.author {
                    hidden[index].before = max(hidden[index].before, entry.before)
                } else {
                    hidden.insert(entry, at: index)
                }
            } else {
                hidden.append(entry)
            }
        }
        // Transactions before the horizon need not be hidden.
        hidden.removeAll { $0.before <= horizon + 1 }
    }

    mutating func apply(_ record: ConsumerRecord) {
        let index = consumers.firstIndex { $0.name.hasSameBytes(as: record.name) }
        switch (index, record.kind.isEmpty) {
        case (let index?, true): consumers.remove(at: index)
        case (let index?, false): consumers[index] = record
        case (nil, true): break
        case (nil, false): consumers.append(record)
        }
    }
}

extension LogState {
    // MARK: Names and clock steps

    mutating func accept(metadata frame: FrameView) throws(StoreError) {
        for record in try MetadataRecord.decodeAll(frame) {
            switch record {
            case .name(let number, let text):
                let known = uniqueShared()
                try require(
                    Int(number) == known.names.count + 1 && known.names.count < FormatLimits.maximumNames
                        && known.nameNumbers.insert(IdentifierName(text), number),
                    "F15: name numbers do not ascend, or a name occurs twice")
                known.names.append(text)
                assert(known.names.count == Int(number), "A name is not at its number.")
            case .clockStep(let from, let to):
                try require(
                    from == lastTime && isClockStep(from: from, to: to),
                    "F12: a clock step has impossible times")
                progress.mayStepBack = true
            case .retention(let limits): uniqueShared().tracking.retention = limits
            case .features(let features): try accept(features)
            case .objectNumbers: break
            }
        }
    }

    // MARK: Later formats

    private mutating func accept(_ features: FormatFeatures) throws(StoreError) {
        try features.requireReadable()
        if !rare.features.isSuperset(of: features) { uniqueShared().features.formUnion(features) }
    }

    /// The later features that a checkpoint declares; its document is not read.
    mutating func accept(checkpoint frame: FrameView) throws(StoreError) {
        let features = try CheckpointField.features(frame)
        try require(
            features.isSuperset(of: rare.features), "F36: a checkpoint lacks features that earlier frames use")
        try accept(features)
    }

    // MARK: The base

    /// A schema version that compaction has folded: one frame or more, each with definitions of its own.
    mutating func accept(baseSchema frame: FrameView) throws(StoreError) {
        let definition = try definition(frame)
        let known = uniqueShared()
        do throws(StoreError) {
            if definition.version == known.catalog.newestVersion {
                try require(!definition.entities.isEmpty, "F25: a schema version has frames without definitions")
                try known.catalog.extend(definition)
            } else {
                try require(
                    Int(definition.version) == Int(known.catalog.newestVersion) + 1,
                    "F16: a schema version is not one more than the last")
                try known.catalog.apply(definition)
            }
        } catch {
            throw error.rule == nil ? error.under("F25") : error
        }
    }

    // MARK: Consumers and cleaning

    func consumer(_ frame: FrameView) throws(StoreError) -> ConsumerRecord {
        let record = try ConsumerRecord.decode(frame)
        try require(record.cursor <= lastNumber, "F33: a consumer has read a transaction that does not exist yet")
        return record
    }

    func apply(_ consumer: ConsumerRecord, _ known: SharedLogState) throws(StoreError) {
        known.tracking.apply(consumer)
        try require(
            known.tracking.consumers.count <= FormatLimits.maximumConsumers, "F33: too many consumers")
    }

    mutating func accept(cleaning frame: FrameView) throws(StoreError) {
        let record = try CleaningRecord.decode(frame)
        let highest = record.hidden.reduce(record.before) { max($0, $1.before) }
        try require(
            highest > 0 && highest - 1 <= lastNumber,
            "F33: a cleaning mark is empty, or beyond the last transaction")
        try require((record.hidden.last?.author ?? 0) <= names.count, "F15: a frame refers to an undefined name")
        uniqueShared().tracking.apply(record)
    }

    func accept(replacing frame: FrameView) throws(StoreError) {
        let record = try ReplacingRecord.decode(frame)
        try require(record.generation > header.generation, "F33: a replacing file is older than the replaced one")
    }
}

/// A clock that is earlier than the last transaction by more than this has stepped (FileFormat.md, "Other frames").
package let clockStepMicroseconds: Int64 = 3_600_000_000

/// Whether a clock that has gone back from `from` to `to` must be recorded in the log.
func isClockStep(from: Int64, to: Int64) -> Bool {
    guard to < from else { return false }
    let (distance, overflow) = from.subtractingReportingOverflow(to)
    return overflow || distance > clockStepMicroseconds
}
