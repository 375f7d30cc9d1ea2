// The past of one object: from its newest version back along the links, and from each version to the transaction that wrote it.

extension TrackedView {
    /// Lends the changes that an object has gone through and the transactions that made them, newest first, until `body` returns false.
    ///
    /// Follows the links between versions: linear in how many there are, and for each in the frames between it and the landmark before
    /// it, a MiB at most; in a transaction of several frames also in those behind it. What compaction has left of an object without its
    /// history is not among them: true where the walk came to that. Throws `damaged`.
    @discardableResult
    package func forEachVersion(
        of object: ObjectID, _ body: (TransactionView, ChangeView) throws(StoreError) -> Bool
    ) throws(StoreError) -> Bool {
        try log.process.requireOwn(path: log.path)
        guard view.catalog.isUsed(entity: object.entityNumber) else { return false }
        let names = NameTable(log.current.names)
        let core = view.core
        // What is lent refers to them without counting.
        defer { withExtendedLifetime((view, names)) {} }
        var version = try core.reading { () throws(StoreError) in try core.newestVersion(object, below: view.end) }
        var isFolded = false
        while version != 0 {
            let current = version
            version = try core.reading { () throws(StoreError) -> UInt64 in
                guard let (transaction, change) = try core.change(writing: current, view, names) else {
                    isFolded = true
                    return 0
                }
                guard change.object == object else { throw ReadCore.badLink(current) }
                guard try body(transaction, change) else { return 0 }
                let previous = change.previousWord
                guard previous < current else { throw ReadCore.badLink(current) }
                return previous
            }
        }
        return isFolded
    }
}

extension ReadCore {
    /// The version that is newest for a view with this end, a deletion too; 0 where there is none. Inside a read section.
    func newestVersion(_ object: ObjectID, below end: UInt64) throws(StoreError) -> UInt64 {
        var version = try rows.newest(object)
        while version >= end {
            let previous = try previousVersion(entry: try entryOffset(of: version), object) ?? 0
            guard previous < version else { throw Self.badLink(version) }
            version = previous
        }
        return version
    }

    /// The change that wrote a version, and its transaction; nil for a row without history. Inside a read section.
    fileprivate func change(
        writing version: UInt64, _ view: View, _ names: NameTable
    ) throws(StoreError) -> (TransactionView, ChangeView)? {
        let entry = try entryOffset(of: version)
        var position = file.currentLandmarks.last(at: entry)?.offset ?? UInt64(FormatLimits.pageBytes)
        var header = try goodHeader(at: position)
        var end = position + UInt64(header.integer(at: FrameField.frameBytes, as: UInt32.self))
        while end <= entry {
            position = end
            header = try goodHeader(at: position)
            end = position + UInt64(header.integer(at: FrameField.frameBytes, as: UInt32.self))
        }
        guard header[FrameField.kind] != FrameKind.rows.rawValue else { return nil }
        let change = try self.change(at: entry, in: header, at: position)
        while header[FrameField.kind] != FrameKind.transaction.rawValue, end < view.end {
            position = end
            header = try goodHeader(at: position)
            end = position + UInt64(header.integer(at: FrameField.frameBytes, as: UInt32.self))
        }
        guard header[FrameField.kind] == FrameKind.transaction.rawValue else { throw Self.badLink(version) }
        return (try transaction(header, at: position, to: end, view, names), change)
    }

    /// The entry at an offset, in the table of the frame at `position`.
    private func change(
        at entry: UInt64, in header: UnsafeRawBufferPointer, at position: UInt64
    ) throws(StoreError) -> ChangeView {
        let place = entry - position
        let table = try table(of: header, at: position)
        let isOfTransaction =
            header[FrameField.kind] == FrameKind.transaction.rawValue
            || header[FrameField.kind] == FrameKind.part.rawValue
        guard isOfTransaction, place >= UInt64(FrameField.bytes + TransactionField.bytes) else {
            throw Self.badLink(entry)
        }
        var cursor = ChangeCursor(
            table: table, first: Int(place) - FrameField.bytes,
            frameBytes: Int(header.integer(at: FrameField.frameBytes, as: UInt32.self)), allowsBase: false,
            frameOffset: position)
        guard let change = try cursor.next() else { throw Self.badLink(entry) }
        return change
    }
}
