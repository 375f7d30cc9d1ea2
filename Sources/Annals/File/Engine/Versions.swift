// The past of one object: from its newest version back along the links, and from each version to the transaction that
// wrote it.

extension TrackedView {
    /// Lends the changes of an object and the transactions that made them, newest first, until `body` returns false.
    ///
    /// Follows the links between versions: linear in their number. For each it reads the frames from the landmark
    /// before it, a MiB at most, and those after it in a transaction of several frames. A row that compaction has kept
    /// without its history is not lent: returns true if the walk came to one. Throws `damaged`.
    @discardableResult
    package func forEachVersion(
        of object: ObjectID, _ body: (TransactionView, ChangeView) throws(StoreError) -> Bool
    ) throws(StoreError) -> Bool {
        try log.process.requireOwn(path: log.path)
        guard view.catalog.isUsed(entity: object.entityNumber) else { return false }
        let names = NameTable(log.current.names)
        let core = view.core
        // Lent views refer to these without counting.
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
    /// The newest version for a view with this end, including deletions; 0 without one. Inside a read section.
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
        let position = file.currentLandmarks.last(at: entry)?.offset ?? UInt64(FormatLimits.pageBytes)
        var header = try goodHeader(at: position)
        while header.end <= entry { header = try goodHeader(at: header.end) }
        guard !header.isOf(.rows) else { return nil }
        let change = try self.change(at: entry, in: header)
        while !header.isOf(.transaction), header.end < view.end { header = try goodHeader(at: header.end) }
        guard header.isOf(.transaction) else { throw Self.badLink(version) }
        return (try transaction(header, view, names), change)
    }

    /// The entry at an offset, in the table of the frame with that header.
    private func change(at entry: UInt64, in header: FrameHead) throws(StoreError) -> ChangeView {
        let place = entry - header.offset
        let table = try table(of: header)
        guard header.isOf(.transaction) || header.isOf(.part),
            place >= UInt64(FrameField.bytes + TransactionField.bytes)
        else { throw Self.badLink(entry) }
        var cursor = ChangeCursor(
            table: table, first: Int(place) - FrameField.bytes,
            frameBytes: Int(header.frameBytes), allowsBase: false, frameOffset: header.offset)
        guard let change = try cursor.next() else { throw Self.badLink(entry) }
        return change
    }
}
