// What a store holds, folded from its log alone: the engine's answers are held against it.

internal import Annals

/// The rows of objects that there are after some transaction, and who reads the history.
struct StoreFold {
    /// Where the row of each object stands.
    private(set) var rows: [ObjectID: UInt64] = [:]
    /// The number of the last transaction that is no longer returned.
    private(set) var horizon: UInt64
    private(set) var retention = RetentionLimits.standard
    /// By author's name number, what is hidden below which number.
    private var hidden: [UInt32: UInt64] = [:]
    /// In the order in which they were registered.
    private(set) var consumers: [ConsumerRecord] = []
    /// Those of members whose commit frame is not read yet.
    private var openConsumers: [ConsumerRecord] = []

    /// What is there after transaction `number`.
    init(of log: Log, through number: UInt64) {
        horizon = log.header.baseNumber
        do throws(StoreError) {
            try log.forEachFrame { (frame, _) throws(StoreError) in
                guard frame.header.number <= number else { return }
                try take(frame)
            }
        } catch {
            // Who compares has a checker's word that changes can be read.
            FuzzTargets.requireByteError(error, "Folding the log")
        }
    }

    private mutating func take(_ frame: FrameView) throws(StoreError) {
        switch frame.header.kind {
        case .transaction, .part, .rows: try takeChanges(frame)
        case .consumer: openConsumers.append(try ConsumerRecord.decode(frame))
        case .cleaning:
            let record = try CleaningRecord.decode(frame)
            horizon = max(horizon, max(record.before, 1) - 1)
            for entry in record.hidden { hidden[entry.author] = max(hidden[entry.author] ?? 0, entry.before) }
        case .metadata:
            for case .retention(let limits) in try MetadataRecord.decodeAll(frame) { retention = limits }
        default: break
        }
        if frame.header.isMember { return }
        for consumer in openConsumers { take(consumer) }
        openConsumers = []
    }

    private mutating func takeChanges(_ frame: FrameView) throws(StoreError) {
        var cursor = ChangeCursor(frame)
        while let change = try cursor.next() {
            let row = change.rowOffset.map { frame.offset + UInt64($0) }
            rows[change.object] = change.kind == .delete ? nil : row
        }
    }

    private mutating func take(_ consumer: ConsumerRecord) {
        let name = Array(consumer.name.utf8)
        let known = consumers.firstIndex { Array($0.name.utf8) == name }
        if consumer.kind.isEmpty {
            if let known { consumers.remove(at: known) }
        } else if let known {
            consumers[known] = consumer
        } else {
            consumers.append(consumer)
        }
    }

    func objects(of entity: UInt16) -> [ObjectID] { rows.keys.filter { $0.entityNumber == entity }.sorted() }

    /// Hidden authors, those only of whom something above the horizon is hidden.
    var hiddenAuthors: [CleaningRecord.Hidden] {
        hidden.filter { $0.value > horizon + 1 }.sorted { $0.key < $1.key }.map {
            .init(author: $0.key, before: $0.value)
        }
    }
}
