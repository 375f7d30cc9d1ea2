// An object that a draft changes again: the later change counts, and the earlier one is removed before the commit.
//
// Invariants:
// B6  While `superseded` is 0, every change counts. Otherwise a change counts if `own` names its place, and
//     `superseded` is the number of changes that do not count.
// B7  Only the newest change of an object counts. A completed transaction contains only such changes (F19).

/// A copy of a draft's change.
package struct OwnChange {
    package let kind: ChangeKind
    package let previous: PreviousVersion?
    /// The attributes that an update wrote.
    package let attributes: AttributeSet
    /// The row with its padding, in the newest layout of its entity; nil if the change has none.
    package fileprivate(set) var row: [UInt8]?

    fileprivate init(_ change: ChangeView) {
        (kind, previous, attributes) = (change.kind, change.previous, change.attributes)
    }
}

extension DraftFrames {
    /// The number of changes that count.
    package var countingChanges: UInt64 { changes - superseded }

    /// Returns the change of an object that counts; nil if it has none. The first call is linear in all changes, later
    /// ones in those since.
    package func ownChange(of object: ObjectID) throws(StoreError) -> OwnChange? {
        try requireUsable()
        let own = try findOwnChanges()
        guard let place = own.place(of: object.rawValue) else { return nil }
        guard Int(place.part) < own.parts.count else {
            let change = ChangeView(at: Int(place.position), of: table.bytes)
            var found = OwnChange(change)
            found.row = rowRange(of: change).map { Array(body.bytes[$0]) }
            return found
        }
        return try spooledChange(prepared.members[own.parts[Int(place.part)]], Int(place.position))
    }

    /// Reads an entry of a complete frame and its row, but not the rest of the frame.
    private func spooledChange(_ frame: PreparedFrame, _ position: Int) throws(StoreError) -> OwnChange {
        assert(
            position >= TransactionField.bytes && position < Int(frame.tableBytes),
            "OC1: the place of a change is outside of its table.")
        let start = FrameField.bytes + position
        let most = min(Int(frame.tableBytes) - position, ChangeField.maximumBytes)
        var (found, row) = try prepared.spool.withBytes(at: frame.spoolOffset + UInt64(start), count: most) { (bytes) in
            let change = ChangeView(at: 0, of: bytes)
            return (OwnChange(change), change.rowOffset)
        }
        guard let row else { return found }
        let offset = frame.spoolOffset + UInt64(row)
        let rowBytes = try prepared.spool.withBytes(at: offset, count: RowField.bytes) { (bytes) in
            Int(bytes.integer(at: RowField.rowBytes, as: UInt32.self)).paddedTo8
        }
        found.row = try prepared.spool.withBytes(at: offset, count: rowBytes) { Array($0) }
        return found
    }

    /// The range in `body` of the row of an entry of the open frame, with its padding.
    private func rowRange(of entry: ChangeView) -> Range<Int>? {
        guard let offset = entry.rowOffset else { return nil }
        assert(offset >= FrameField.bytes, "B3: a row lies in front of the rows.")
        let start = headroom + offset - FrameField.bytes
        let bytes = Int(body.bytes.integer(at: start + RowField.rowBytes, as: UInt32.self))
        return start..<(start + bytes.paddedTo8)
    }

    /// The places of all changes, including the last one.
    @discardableResult
    func findOwnChanges() throws(StoreError) -> OwnChanges {
        let found = own ?? OwnChanges(expecting: Int(clamping: changes))
        own = found
        while found.frames < prepared.members.count {
            let frame = prepared.members[found.frames]
            if case .part = frame.content {
                let count = Int(frame.tableBytes)
                superseded += try prepared.spool.withBytes(
                    at: frame.spoolOffset + UInt64(FrameField.bytes), count: count
                ) {
                    (table) in found.continueThrough(table)
                }
                found.endPart(found.frames)
            }
            found.passFrame()
        }
        superseded += found.continueThrough(table.bytes)
        assert(superseded <= changes, "B6: more changes are superseded than there are.")
        return found
    }

    /// Called after an object was changed again: its earlier change no longer counts.
    package func supersede() throws(StoreError) {
        try findOwnChanges()
        try settleIfLong()
    }

    /// Drops the change of an object that was looked up, without a replacement.
    package func takeOut(_ object: ObjectID) throws(StoreError) {
        guard try findOwnChanges().takeOut(object.rawValue) else { return }
        superseded += 1
        try settleIfLong()
    }

    /// Keeps the size of a transaction that changes a few objects often proportional to these objects.
    private func settleIfLong() throws(StoreError) {
        if superseded > Self.supersededLimit, superseded > changes / 2 { try settle() }
    }

    private static let supersededLimit = 4096

    // MARK: Removing superseded changes

    /// Removes superseded changes: each object then is in the transaction once. Linear in its size, and free if it has
    /// changed no object twice. The large values stay, because rows name them by their order.
    @inline(__always)
    func settle() throws(StoreError) {
        if superseded > 0 { try leaveOutSuperseded() }
    }

    @inline(never)
    private func leaveOutSuperseded() throws(StoreError) {
        try requireUsable()
        let own = try findOwnChanges()
        if own.parts.isEmpty { closeUp(own) } else { try writeAnew() }
    }

    /// Moves the entries and rows that count to the front of the only frame.
    private func closeUp(_ own: OwnChanges) {
        let entries = table.mutableBytes(0..<table.count)
        let rows = body.mutableBytes(0..<body.count)
        var position = TransactionField.bytes
        // The places for the next entry and row that count.
        var (entryEnd, rowEnd) = (position, headroom)
        var (relocation, relocationEnd) = (0, 0)
        while position < entries.count {
            let change = ChangeView(at: position, of: UnsafeRawBufferPointer(entries))
            let (entryBytes, object, row) = (change.entryBytes, change.objectBits, rowRange(of: change))
            let place = OwnChanges.Place(part: 0, position: UInt32(position))
            let counts = own.place(of: object) == place
            if let row {
                let shift = row.lowerBound - rowEnd
                // Relocations count from the first row.
                while relocation < relocations.count, relocations[relocation].position < row.upperBound - headroom {
                    if counts {
                        relocations[relocationEnd] = relocations[relocation]
                        relocations[relocationEnd].position -= shift
                        relocationEnd += 1
                    }
                    relocation += 1
                }
            }
            if counts {
                if position > entryEnd {
                    entries.slice(entryEnd, entryBytes).copyMemory(
                        from: UnsafeRawBufferPointer(entries.slice(position, entryBytes)))
                    own.move(object, to: entryEnd)
                    if let row {
                        rows.slice(rowEnd, row.count).copyMemory(
                            from: UnsafeRawBufferPointer(rows.slice(row.lowerBound, row.count)))
                        entries.store(
                            UInt32(truncatingIfNeeded: rowEnd - headroom + FrameField.bytes),
                            at: entryEnd + ChangeField.row)
                        rows.store(
                            UInt16(truncatingIfNeeded: (rowEnd - headroom - entryEnd) / 8),
                            at: rowEnd + RowField.entryDistance)
                    }
                }
                entryEnd += entryBytes
                rowEnd += row?.count ?? 0
            }
            position += entryBytes
        }
        assert(
            entryEnd <= table.count && rowEnd <= body.count && relocationEnd <= relocations.count,
            "B6: the changes that count take more room than all.")
        table.truncate(to: entryEnd)
        body.truncate(to: rowEnd)
        relocations.removeLast(relocations.count - relocationEnd)
        own.cut(to: entryEnd)
        changes -= superseded
        changesInFrame -= UInt32(superseded)
        superseded = 0
        assert(changes == UInt64(changesInFrame), "B6: changes that do not count are left.")
    }

    /// Writes the transaction again, without superseded changes. Its rows are not decoded.
    private func writeAnew() throws(StoreError) {
        let next = try successor()
        for frame in prepared.members {
            guard case .value = frame.content else { continue }
            try prepared.spool.withBytes(at: frame.spoolOffset, count: Int(frame.frameBytes)) {
                (bytes) throws(StoreError) in
                next.scratch.truncate()
                next.scratch.append(bytes)
                try next.spoolScratch(tableBytes: Int(frame.tableBytes), content: frame.content)
            }
        }
        next.values = values
        try forEachEntry(withRows: true) { (change, row) throws(StoreError) in
            try next.add(change, row)
            return true
        }
        assert(next.changes == countingChanges, "B6: changes were lost or are left.")
        exchangeContent(with: next)
        (own, superseded) = (nil, 0)
    }

    /// Adds a change of another transaction unchanged. Its row is in the newest layout of its entity.
    private func add(_ change: ChangeView, _ row: UnsafeRawBufferPointer?) throws(StoreError) {
        let entry = Entry(change.kind, change.object, previous: change.previous, attributes: change.attributes)
        let layout = catalog.layout(version: catalog.newestVersion, entity: change.object.entityNumber)
        try makeRoom(entryBytes: entry.bytes, rowBytes: row?.count ?? 0)
        guard let row, let layout else { return append(entry, rowStart: nil) }
        scratch.truncate()
        scratch.append(row)
        let start = appendScratchAsRow()
        append(entry, rowStart: start)
        noteRelocations(layout: layout, rowStart: start)
    }
}
