// Folds many changes of an object into one, in memory that does not grow with history: sorted by object, then in their
// order.
//
// The existence of the object before its first change and after its last one decides (FileFormat.md defines the
// possible sequences):
//
//   there before | there after | net
//   no           | no           | nothing
//   no           | yes          | insert
//   yes          | no           | delete
//   yes          | yes          | update
//
// An object exists before its first change unless that is an insert, and after its last one unless that is a deletion.
// So gaps that a request has made do not matter. An update that went through a deletion does not list the attributes
// that it wrote: its rows are compared.

/// The fields of a change that folding needs, without the row.
struct NetRecord: SortRecord {
    /// The object's ID; newest first, its complement.
    var key: UInt64
    /// Offset of the change entry in the file, and the change's kind in the bits that an offset leaves free.
    var place: UInt64
    /// Offset of the row in the file; 0 for none.
    var row: UInt64
    /// The previous version; 0 for none.
    var previous: UInt64
    /// The number of the transaction.
    var number: UInt64
    /// The first word of an update's attribute set.
    var attributes: UInt64
    var schemaVersion: UInt16
    /// The number of words of the attribute set.
    var attributeWords: UInt16

    init(_ change: ChangeView, of transaction: TransactionView, isReversed: Bool) {
        key = isReversed ? ~change.objectBits : change.objectBits
        place = (change.frameOffset + UInt64(change.entryOffset)) | UInt64(change.kind.rawValue)
        row = change.rowOffset.map { change.frameOffset + UInt64($0) } ?? 0
        previous = change.previousWord
        number = transaction.number
        let words = change.attributeWords
        attributes = words.count >= 8 ? words.integer(at: 0, as: UInt64.self) : 0
        schemaVersion = transaction.schemaVersion
        attributeWords = UInt16(words.count / 8)
        assert(
            entryOffset == change.frameOffset + UInt64(change.entryOffset),
            "The kind of a change does not fit beside its offset.")
    }

    var kind: ChangeKind { ChangeKind(rawValue: UInt8(truncatingIfNeeded: place & 7)) ?? .base }
    var entryOffset: UInt64 { place & ~7 }

    static func < (left: NetRecord, right: NetRecord) -> Bool {
        left.key != right.key ? left.key < right.key : left.place < right.place
    }
}

/// The net change of one object.
package struct FoldedChange: Sendable {
    package let object: ObjectID
    package let kind: ChangeKind
    /// The offset of the object's row before the first change; nil if it did not exist.
    package let before: UInt64?
    /// The offset of its row after the last change; nil if it does not exist any more.
    package let after: UInt64?
    /// Of a deletion: the offset of the preserved values.
    package let preserved: UInt64?
    /// The numbers of the attributes that an update wrote. Empty for an update whose rows are to be compared, and for
    /// other kinds.
    package let attributes: Set<UInt16>
    /// Whether an update went through a deletion: its attributes are those in which the two rows differ.
    package let isReplacement: Bool
    package let firstNumber: UInt64
    package let lastNumber: UInt64
    /// The schema version of the last change.
    package let schemaVersion: UInt16
}

/// Folds the changes of one object in their order.
struct NetFold {
    private let first: NetRecord
    private var last: NetRecord
    private var isReplacement = false
    private var attributes: Set<UInt16> = []

    init(_ first: NetRecord) {
        self.first = first
        last = first
    }

    /// `attributes` are the numbers of the attributes that the change wrote.
    mutating func fold(_ record: NetRecord, attributes written: Set<UInt16>) {
        assert(record.key == first.key && !(record < last), "An object's changes are not in their order.")
        last = record
        if record.kind == .update { attributes.formUnion(written) } else { isReplacement = true }
    }

    /// Nil if the changes cancel each other.
    func result(_ object: ObjectID) -> FoldedChange? {
        let wasThere = first.kind != .insert
        let isThere = last.kind != .delete
        guard wasThere || isThere else { return nil }
        let kind: ChangeKind = !wasThere ? .insert : !isThere ? .delete : .update
        let isUpdate = kind == .update
        return FoldedChange(
            object: object, kind: kind, before: wasThere && first.previous & 1 == 0 ? first.previous : nil,
            after: isThere ? last.row : nil, preserved: !isThere && last.row != 0 ? last.row : nil,
            attributes: isUpdate && !isReplacement ? attributes : [], isReplacement: isUpdate && isReplacement,
            firstNumber: first.number, lastNumber: last.number, schemaVersion: last.schemaVersion)
    }
}

/// Accepts changes in any order and returns one for each object. One thread uses it, for one request.
package final class ChangeFolding {
    private let sorter: ExternalSorter<NetRecord>
    private let view: View
    private let isReversed: Bool
    /// Attribute numbers by position, of the entities and schema versions met: by entity and version.
    private var numbers: [UInt32: [UInt16]] = [:]

    /// Records that do not fit in `memoryBytes` are kept in a file without a name, beside the store or in the system's
    /// directory for such files.
    package init(_ tracked: TrackedView, isReversed: Bool, memoryBytes: Int = 32 << 20) {
        view = tracked.view
        self.isReversed = isReversed
        sorter = ExternalSorter(tracked.log.files, memoryBytes: memoryBytes) { () throws(StoreError) in
            try tracked.log.makeSpillFile()
        }
    }

    package func append(_ change: ChangeView, of transaction: TransactionView) throws(StoreError) {
        try sorter.append(NetRecord(change, of: transaction, isReversed: isReversed))
    }

    /// Passes the net change of each object to `body`, by ascending object ID or descending, until `body` returns
    /// false.
    package func forEachResult(_ body: (FoldedChange) throws(StoreError) -> Bool) throws(StoreError) {
        var records = try sorter.sorted()
        var next = try records.next()
        while let first = next {
            var fold = NetFold(first)
            var record = first
            repeat {
                fold.fold(record, attributes: try attributes(of: record))
                next = try records.next()
                if let next { record = next }
            } while next?.key == first.key
            guard let result = fold.result(ObjectID(checked: isReversed ? ~first.key : first.key)) else { continue }
            guard try body(result) else { return }
        }
    }

    /// Passes the object of each record to `body`, once.
    package func forEachObject(_ body: (ObjectID) throws(StoreError) -> Bool) throws(StoreError) {
        var records = try sorter.sorted()
        var last: UInt64?
        while let record = try records.next() {
            if record.key == last { continue }
            last = record.key
            guard try body(ObjectID(checked: isReversed ? ~record.key : record.key)) else { return }
        }
    }

    private func attributes(of record: NetRecord) throws(StoreError) -> Set<UInt16> {
        guard record.kind == .update else { return [] }
        let object = ObjectID(checked: isReversed ? ~record.key : record.key)
        let numbers = numbers(object.entityNumber, record.schemaVersion)
        var written: Set<UInt16> = []
        for position in try positions(record) {
            guard position < numbers.count else { throw ReadCore.badLink(record.entryOffset) }
            written.insert(numbers[position])
        }
        return written
    }

    private func positions(_ record: NetRecord) throws(StoreError) -> [Int] {
        if record.attributeWords <= 1 {
            return withUnsafeBytes(of: record.attributes.littleEndian) { AttributeSet(words: $0) }.positions
        }
        // With many attributes: reads the entry again, after its fixed part and its link.
        return try view.core.reading { () throws(StoreError) in
            let words = try view.core.file.bytes(
                at: record.entryOffset + UInt64(ChangeField.bytes) + 8, count: Int(record.attributeWords) * 8)
            return AttributeSet(words: words).positions
        }
    }

    private func numbers(_ entity: UInt16, _ version: UInt16) -> [UInt16] {
        let key = UInt32(entity) << 16 | UInt32(version)
        if let known = numbers[key] { return known }
        let layout = view.catalog.layout(version: version, entity: entity)
        let found = layout?.entity.attributes.map(\.number) ?? []
        numbers[key] = found
        return found
    }
}

extension Log {
    /// A file without a name: beside the store, or, if that is impossible, in the system's directory for temporary
    /// files.
    func makeSpillFile() throws(StoreError) -> Descriptor {
        do throws(StoreError) {
            return try whileOpen { () throws(StoreError) in
                try files.createUnnamed(in: directory, mode: 0o600)
            }
        } catch  where error.code == .readOnly || error.code == .permissionDenied {
            let directory = try files.openDirectory("/tmp")
            defer { files.close(directory) }
            return try files.createUnnamed(in: directory, mode: 0o600)
        }
    }
}
