// F18 and F19: the changes of each object, sorted, form one chain of versions.

/// The fields of a change that these rules need.
struct ChangeRecord: SortRecord {
    static let noPrevious = UInt64.max

    var object: UInt64
    /// Offset of the change entry in the file, and the change's kind in the bits that an offset leaves free.
    var place: UInt64
    /// Offset of the row in the file; 0 for none.
    var row: UInt64
    /// The previous version, from the entry.
    var previous: UInt64
    /// The number of the transaction.
    var number: UInt64

    init(_ change: ChangeView, number: UInt64, frameOffset: UInt64) {
        object = change.object.rawValue
        place = (frameOffset + UInt64(change.entryOffset)) | UInt64(change.kind.rawValue)
        row = change.rowOffset.map { frameOffset + UInt64($0) } ?? 0
        previous = change.previous?.rawValue ?? Self.noPrevious
        self.number = number
        assert(
            entryOffset == frameOffset + UInt64(change.entryOffset),
            "The kind of a change does not fit beside its offset.")
    }

    var entryOffset: UInt64 { place & ~7 }
    var kind: ChangeKind { ChangeKind(rawValue: UInt8(truncatingIfNeeded: place & 7)) ?? .base }

    /// The reference by which a later change of the object must name this version.
    var version: UInt64 { kind == .delete ? entryOffset | 1 : row }

    static func < (left: ChangeRecord, right: ChangeRecord) -> Bool {
        left.object != right.object ? left.object < right.object : left.place < right.place
    }
}

/// Follows the versions of one object after another.
struct VersionChain {
    /// The newest version of the current object.
    private var newest: ChangeRecord?

    /// Checks sorted changes, ignoring transactions after `lastNumber`, which do not count, and passes them to `visit`.
    static func check(
        _ changes: ExternalSorter<ChangeRecord>, lastNumber: UInt64, into findings: inout FindingList,
        _ visit: (ChangeRecord) throws(StoreError) -> Void
    ) throws(StoreError) {
        var chain = VersionChain()
        try changes.drain { record throws(StoreError) in
            guard record.number <= lastNumber else { return }
            if let (rule, sentence) = chain.accept(record) { findings.add(rule, at: record.entryOffset, sentence) }
            try visit(record)
        }
    }

    /// The rule that the next change breaks, if any. The change counts as the newest version in any case.
    mutating func accept(_ record: ChangeRecord) -> (rule: String, sentence: String)? {
        defer { newest = record }
        guard let newest, newest.object == record.object else { return checkFirst(record) }
        guard newest.number != record.number || record.kind == .base else {
            return ("F19", "An object appears twice in a transaction.")
        }
        return requireNext(record, newest)
    }

    private func checkFirst(_ record: ChangeRecord) -> (rule: String, sentence: String)? {
        switch record.kind {
        case .base: nil
        case .insert where record.previous == ChangeRecord.noPrevious: nil
        case .insert: ("F18", "An object's first version refers to an earlier version.")
        case .update, .delete: ("F18", "A missing object is changed.")
        }
    }

    private func requireNext(_ record: ChangeRecord, _ newest: ChangeRecord) -> (rule: String, sentence: String)? {
        switch record.kind {
        case .base: return ("F18", "A row without history belongs to an existing object.")
        case .insert where newest.kind != .delete: return ("F18", "An existing object is inserted.")
        case .update where newest.kind == .delete, .delete where newest.kind == .delete:
            return ("F18", "A deleted object is changed.")
        case .insert, .update, .delete: break
        }
        return record.previous == newest.version
            ? nil : ("F18", "The previous version of a change is not the newest one.")
    }
}
