// F30 and F31: the indexes of checkpoints hold exactly the content of the log. F34 and F35: at the end, unique keys are
// unique, and references lead to objects.
//
// Invariants:
// CI1  For each checkpoint, changes above it are skipped: `newest` is the newest version of the current object as of
//     the checkpoint.
// CI2  A part of an index that was found broken is not compared any further: it has one finding.

/// A checkpoint whose indexes are being compared.
private struct CheckedCheckpoint {
    let found: FoundCheckpoint
    var stream: RowIndexStream
    var newest: ChangeRecord?
    var isRowIndexDone = false
    /// By number in the shape: whether the ordered index has no findings.
    var isSound: [Bool]

    init(_ found: FoundCheckpoint, _ nodes: CheckedNodes) {
        self.found = found
        stream = RowIndexStream(found.content.entities, nodes)
        isSound = [Bool](repeating: true, count: found.shape.indexes.count)
    }
}

/// Accepts all changes in the order of their objects, and compares the indexes of some checkpoints with them. Checks
/// the rows at the end of the file against the indexes of the newest schema, whether or not a checkpoint has them.
final class IndexChecker {
    private let files: any FileSystem
    private let file: Descriptor
    private let options: CheckOptions
    private let memoryBytes: Int
    private let nodes: ExternalSorter<NodeRecord>
    private let liveRows: ExternalSorter<LiveRowRecord>
    private let references: ExternalSorter<ReferenceRecord>
    private var checked: [CheckedCheckpoint]
    private var findings: FindingList
    /// The indexes of the newest schema.
    private let end: StoreShape
    /// The newest version of the current object; only for entities with indexes.
    private var newest: ChangeRecord?
    /// The last row that was reported for F31.
    private var faultyRow: UInt64?

    init(
        _ files: any FileSystem, _ file: Descriptor, _ options: CheckOptions, _ checkpoints: [FoundCheckpoint],
        _ nodes: ExternalSorter<NodeRecord>, end: StoreShape, memoryBytes: Int
    ) {
        (self.end, self.files, self.file, self.options) = (end, files, file, options)
        (self.memoryBytes, self.nodes) = (memoryBytes, nodes)
        liveRows = ExternalSorter(files, directory: options.spillDirectory, memoryBytes: memoryBytes)
        references = ExternalSorter(files, directory: options.spillDirectory, memoryBytes: memoryBytes)
        findings = FindingList(maximum: options.maximumFindings)
        checked = checkpoints.map { found in
            let window = ByteWindow(files, file, stepBytes: FormatLimits.maximumNodeFrameBytes)
            defer { withExtendedLifetime(window) {} }
            return CheckedCheckpoint(found, CheckedNodes(window, nodes, checkpoint: found.offset, .rowIndex))
        }
    }

    /// Accepts the next change, by object and place.
    func collect(_ record: ChangeRecord) throws(StoreError) {
        for place in checked.indices where record.entryOffset < checked[place].found.offset {
            assert(checked[place].newest.map { !(record < $0) } ?? true, "CI1: changes are not in their order.")
            if let newest = checked[place].newest, newest.object != record.object { try settle(place) }
            checked[place].newest = record
        }
        if end.indexes.isEmpty { return }
        if let newest, newest.object != record.object { try settleEnd() }
        newest = record
    }

    private func settleEnd() throws(StoreError) {
        guard let newest, newest.kind != .delete, let object = ObjectID(rawValue: newest.object) else { return }
        if end.hasReferences, !end.referring(to: object.entityNumber).isEmpty {
            try references.append(ReferenceRecord(object: object))
        }
        if end.indexes(of: object.entityNumber).isEmpty { return }
        try liveRows.append(
            LiveRowRecord(offset: newest.row, object: newest.object, checkpoint: LiveRowRecord.theEnd))
    }

    /// Checks the rest after all changes.
    func finish(into all: inout FindingList) throws(StoreError) {
        for place in checked.indices {
            try settle(place)
            if let entry = try nextEntry(place) { stopRowIndex(place, lacking: nil, found: entry) }
        }
        try settleEnd()
        try checkOrdered()
        try ReferenceRecord.check(references, end, into: &findings)
        try NodeRecord.check(nodes, into: &findings)
        for finding in findings.kept {
            all.add(finding.rule, at: finding.offset, finding.sentence, isDamage: finding.isDamage)
        }
    }

    // MARK: The row index

    /// Compares the current object with the row index, after its last version.
    private func settle(_ place: Int) throws(StoreError) {
        guard let newest = checked[place].newest else { return }
        checked[place].newest = nil
        if newest.kind != .delete, let object = ObjectID(rawValue: newest.object),
            !checked[place].found.shape.indexes(of: object.entityNumber).isEmpty
        {
            try liveRows.append(
                LiveRowRecord(offset: newest.row, object: newest.object, checkpoint: UInt64(place)))
        }
        guard !checked[place].isRowIndexDone else { return }
        let expected = RowIndexStream.Entry(object: newest.object, word: newest.version)
        let entry = try nextEntry(place)
        if entry != expected { stopRowIndex(place, lacking: expected, found: entry) }
    }

    private func nextEntry(_ place: Int) throws(StoreError) -> RowIndexStream.Entry? {
        guard !checked[place].isRowIndexDone else { return nil }
        do throws(StoreError) {
            return try checked[place].stream.next()
        } catch  where error.isBreach {
            findings.add(error, rule: "F30")
            checked[place].isRowIndexDone = true
            return nil
        }
    }

    private func stopRowIndex(
        _ place: Int, lacking expected: RowIndexStream.Entry?, found entry: RowIndexStream.Entry?
    ) {
        guard !checked[place].isRowIndexDone else { return }
        checked[place].isRowIndexDone = true
        let sentence: String
        if let entry, entry.object == expected?.object {
            sentence = "The row index does not contain the newest version of an object."
        } else if let entry, entry.object < expected?.object ?? .max {
            sentence = "The row index contains an object that never existed."
        } else {
            sentence = "The row index lacks an object."
        }
        findings.add("F30", at: checked[place].found.offset, sentence)
    }

    // MARK: Ordered indexes

    private func checkOrdered() throws(StoreError) {
        let entries = ExternalSorter<IndexEntryRecord>(
            files, directory: options.spillDirectory, memoryBytes: memoryBytes)
        for place in checked.indices { try readIndexes(place, entries) }
        try readRows(entries)
        try compare(entries)
    }

    private func isComplete(_ place: Int, _ number: Int) -> Bool {
        checked[place].found.content.indexes[number].isComplete
    }

    /// Reads the entries from the indexes.
    private func readIndexes(_ place: Int, _ entries: ExternalSorter<IndexEntryRecord>) throws(StoreError) {
        let found = checked[place].found
        let window = ByteWindow(files, file, stepBytes: FormatLimits.maximumNodeFrameBytes)
        defer { withExtendedLifetime(window) {} }
        let source = CheckedNodes(window, nodes, checkpoint: found.offset, .orderedIndex)
        for (number, root) in found.content.indexes.enumerated() where root.isComplete {
            do throws(StoreError) {
                let index = OrderedIndex(root: root.root, entries: root.entries, OrderedDeltaPolicy())
                try index.validate(source) { (key, object) throws(StoreError) in
                    try entries.append(
                        IndexEntryRecord(
                            checkpoint: place, index: number, object: object, key: key, isOfRow: false))
                }
            } catch  where error.isBreach {
                findings.add(error.offset == nil ? error.at(offset: found.offset) : error, rule: "F31")
                checked[place].isSound[number] = false
            }
        }
    }

    /// Reads the entries that rows require, in the order of the file.
    private func readRows(_ entries: ExternalSorter<IndexEntryRecord>) throws(StoreError) {
        let window = ByteWindow(files, file, stepBytes: options.windowBytes)
        defer { withExtendedLifetime(window) {} }
        var key = ByteWriter(capacity: 256)
        let unique = ExternalSorter<UniqueKeyRecord>(
            files, directory: options.spillDirectory, memoryBytes: memoryBytes)
        try liveRows.drain { record throws(StoreError) in
            guard let object = ObjectID(rawValue: record.object) else { return }
            if record.checkpoint == LiveRowRecord.theEnd {
                return try readKeys(at: record.offset, object, window, &key, unique)
            }
            let place = Int(record.checkpoint)
            let shape = checked[place].found.shape
            // A fault of a row itself was found before, under its own rule.
            guard let row = try rowView(record.offset, object.entityNumber, shape, window) else { return }
            for number in shape.indexes(of: object.entityNumber) {
                key.truncate()
                do throws(StoreError) {
                    try shape.indexes[number].forEachKey(of: row, in: &key, large: Self.noLargeKeys) {
                        (bytes, _) throws(StoreError) in
                        // The row must have the key even if the index is missing.
                        if !isComplete(place, number) { return }
                        try entries.append(
                            IndexEntryRecord(
                                checkpoint: place, index: number, object: object, key: bytes, isOfRow: true))
                    }
                } catch  where error.isBreach {
                    findings.add(error.at(offset: record.offset), rule: "F31")
                    faultyRow = record.offset
                    checked[place].isSound[number] = false
                }
            }
        }
        try requireUnique(unique)
    }

    // MARK: The end

    private func readKeys(
        at offset: UInt64, _ object: ObjectID, _ window: ByteWindow, _ key: inout ByteWriter,
        _ unique: ExternalSorter<UniqueKeyRecord>
    ) throws(StoreError) {
        guard let row = try rowView(offset, object.entityNumber, end, window) else { return }
        for number in end.indexes(of: object.entityNumber) {
            let index = end.indexes[number]
            key.truncate()
            do throws(StoreError) {
                if index.reference != nil {
                    for target in try index.elements(of: row, large: Self.noLargeKeys) {
                        try references.append(ReferenceRecord(to: target, from: offset, index: number))
                    }
                }
                try index.forEachKey(of: row, in: &key, large: Self.noLargeKeys) {
                    (bytes, hasAbsent) throws(StoreError) in
                    if hasAbsent || !index.id.isUnique { return }
                    try unique.append(
                        UniqueKeyRecord(index: number, object: object.rawValue, row: offset, key: bytes))
                }
            } catch  where error.isBreach {
                // A checkpoint's index may have reported the row just before: rows come in the order of their offsets.
                if faultyRow != offset { findings.add(error.at(offset: offset), rule: "F31") }
                faultyRow = offset
            }
        }
    }

    private func requireUnique(_ keys: ExternalSorter<UniqueKeyRecord>) throws(StoreError) {
        var last: UniqueKeyRecord?
        try keys.drain { record throws(StoreError) in
            if let last, record.hasSameKey(as: last), let object = ObjectID(rawValue: record.object),
                let other = ObjectID(rawValue: last.object)
            {
                findings.add(
                    "F34", at: record.row,
                    "Objects \(other.number) and \(object.number) of entity \(object.entityNumber) have the same value "
                        + "in a unique index.")
            }
            last = record
        }
    }

    // MARK: Rows

    private func rowView(
        _ offset: UInt64, _ entity: UInt16, _ shape: StoreShape, _ window: ByteWindow
    ) throws(StoreError) -> RowImage? {
        let start = try window.bytes(at: offset, count: RowField.bytes)
        guard start.count == RowField.bytes else { return nil }
        let version = start.integer(at: RowField.schemaVersion, as: UInt16.self)
        let rowBytes = Int(start.integer(at: RowField.rowBytes, as: UInt32.self))
        guard let layout = shape.layout(version: version, entity: entity), rowBytes <= FormatLimits.maximumFrameBytes
        else { return nil }
        let bytes = try window.bytes(at: offset, count: rowBytes)
        do throws(StoreError) {
            return try RowImage(bytes, layout: layout, fileOffset: offset)
        } catch  where error.isBreach {
            return nil
        }
    }

    private static func noLargeKeys(
        _ reference: LargeValueReference, _ visit: (UnsafeRawBufferPointer) throws(StoreError) -> Void
    ) throws(StoreError) {
        throw StoreError(.damaged, "F37: an indexed value is not in its row.")
    }

    /// Each entry of an index must have its counterpart among the entries that rows require.
    private func compare(_ entries: ExternalSorter<IndexEntryRecord>) throws(StoreError) {
        var waiting: IndexEntryRecord?
        try entries.drain { record throws(StoreError) in
            if let first = waiting {
                if record.isCounterpart(of: first) {
                    waiting = nil
                    return
                }
                report(first)
            }
            waiting = record
        }
        if let waiting { report(waiting) }
    }

    private func report(_ record: IndexEntryRecord) {
        let (place, number) = (Int(record.checkpoint), Int(record.index))
        // CI2.
        guard checked[place].isSound[number] else { return }
        checked[place].isSound[number] = false
        let id = checked[place].found.shape.indexes[number].id
        findings.add(
            "F31", at: checked[place].found.offset,
            "An ordered index of entity \(id.entity) does not contain exactly the keys of the entity's rows.")
    }
}
