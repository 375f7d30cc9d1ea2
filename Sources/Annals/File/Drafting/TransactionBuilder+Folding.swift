// Taking a change out of a transaction again, so that an object that is changed twice stands in it once.

/// A change that was taken out of a transaction in the making.
package struct RemovedChange: Equatable, Sendable {
    package let object: ObjectID
    package let kind: ChangeKind
    package let previous: PreviousVersion?
    /// What an update wrote.
    package let attributes: AttributeSet
    /// The row with its padding, in the newest layout of its entity; nil if the change had none.
    package let row: [UInt8]?
}

extension TransactionBuilder {
    /// Takes the object's change out of the frame in the making, and returns it.
    ///
    /// Nil if that frame has none: a caller that knows that the object was changed then knows that its frame is
    /// complete and cannot change any more. Large values stay in the transaction: a new row may name them. Linear in
    /// the size of the frame.
    package func removeChange(of object: ObjectID) throws(StoreError) -> RemovedChange? {
        try requireUsable()
        guard let found = findEntry(of: object) else { return nil }
        let row = rowRange(of: found)
        let removed = RemovedChange(
            object: object, kind: found.kind, previous: found.previous,
            attributes: found.attributes, row: row.map { Array(body.bytes[$0]) })
        let entryStart = found.entryOffset - FrameField.bytes
        let entryBytes = found.entryBytes
        table.remove(entryStart..<(entryStart + entryBytes))
        if let row { removeRow(row) }
        moveRows(from: entryStart, entryBytes: entryBytes, rowBytes: row?.count ?? 0)
        changes -= 1
        changesInFrame -= 1
        return removed
    }

    private func findEntry(of object: ObjectID) -> ChangeView? {
        let entries = table.bytes
        var position = TransactionField.bytes
        while position < entries.count {
            let entry = ChangeView(at: position, of: entries, rowShift: 0)
            if entry.object == object { return entry }
            position += entry.entryBytes
        }
        return nil
    }

    /// Where in `body` the row of an entry of the frame in the making is, with its padding.
    func rowRange(of entry: ChangeView) -> Range<Int>? {
        guard let offset = entry.rowOffset else { return nil }
        let start = headroom + offset - FrameField.bytes
        let bytes = Int(body.bytes.integer(at: start + RowField.rowBytes, as: UInt32.self))
        return start..<(start + bytes.paddedTo8)
    }

    private func removeRow(_ row: Range<Int>) {
        body.remove(row)
        // From the first row on, as relocations count.
        let start = row.lowerBound - headroom
        let end = row.upperBound - headroom
        relocations.removeAll { $0.position >= start && $0.position < end }
        for index in relocations.indices where relocations[index].position >= end {
            relocations[index].position -= row.count
        }
    }

    /// Entries from `entryStart` on, and their rows, stand so much further to the front than they say.
    private func moveRows(from entryStart: Int, entryBytes: Int, rowBytes: Int) {
        var position = entryStart
        while position < table.count {
            let entry = ChangeView(at: position, of: table.bytes, rowShift: 0)
            if let offset = entry.rowOffset {
                table.patch(UInt32(truncatingIfNeeded: offset - rowBytes), at: position + ChangeField.row)
                let row = headroom + offset - FrameField.bytes - rowBytes + RowField.entryDistance
                let distance = body.bytes.integer(at: row, as: UInt16.self)
                body.patch(distance &+ UInt16(truncatingIfNeeded: (entryBytes - rowBytes) / 8), at: row)
            }
            position += entry.entryBytes
        }
    }
}
