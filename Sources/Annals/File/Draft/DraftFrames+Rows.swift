// Rows that a closure writes directly after earlier ones, without intermediate values, and without knowing their size
// in advance.

extension DraftFrames {
    /// Adds a change whose row `set` writes, in the entity's newest layout. An update names the attributes that differ
    /// from `old`, and those already in `entry`.
    ///
    /// Throws the errors of `set`, and then leaves the transaction unchanged. `set` may call only `addLargeValue` of
    /// this transaction's methods, for values over the inline limit. If the whole row is too long, its longest values
    /// move to value frames.
    @inline(__always)
    package func write(
        _ entry: Entry, _ layout: RowLayout, old: RowImage? = nil, _ purpose: RowWriter.Purpose,
        _ set: (inout RowWriter) throws(StoreError) -> Void
    ) throws(StoreError) {
        try requireUsable()
        let before = RowBoundary(self)
        let distance = distance
        var bytes = ByteWriter(withoutMemory: ())
        lendBody(to: &bytes)
        var isTooLong = false
        do throws(StoreError) {
            try withUnsafeMutablePointer(to: &bytes) { (bytes) throws(StoreError) in
                var row = RowWriter(layout, bytes, self, distance: distance, old: old, purpose)
                try row.write(set)
                isTooLong = row.isTooLong
            }
        } catch {
            exchangeBody(from: &bytes)
            rollBackRow(to: before)
            throw error
        }
        exchangeBody(from: &bytes)
        // Not in the closure: an insert's set of attributes would then be released for each row.
        var entry = entry
        if entry.kind == .update, old != nil { entry.attributes.formUnion(marks.changes(attributes: layout.count)) }
        do throws(StoreError) {
            try end(entry, before, layout, isTooLong: isTooLong)
        } catch {
            rollBackRow(to: before)
            throw error
        }
    }

    /// The state before a row was begun.
    struct RowBoundary {
        let row: Int
        let changesInFrame: UInt32
        let values: Int

        @inline(__always)
        init(_ transaction: DraftFrames) {
            row = transaction.body.count
            changesInFrame = transaction.changesInFrame
            values = transaction.values
        }
    }

    /// Drops an unfinished row and its large values. Their pieces stay in the spool, unused.
    private func rollBackRow(to before: RowBoundary) {
        // A transaction whose frames could not be kept is never committed. If the frame was ended before the row was
        // refused, it has no part of the row; the row's large values then stay unused.
        if state == .broken || changesInFrame != before.changesInFrame { return }
        assert(body.count >= before.row, "A row that is dropped has left its frame.")
        body.truncate(to: before.row)
        while case .value(before.values..., _)? = prepared.members.last?.content { prepared.members.removeLast() }
        values = before.values
    }

    /// Adds the entry of the row at the end of `body`.
    @inline(__always)
    private func end(
        _ entry: Entry, _ before: RowBoundary, _ layout: RowLayout, isTooLong: Bool
    ) throws(StoreError) {
        try validate(entry, layout)
        if isTooLong { return try encodeAgain(entry, layout, rowStart: before.row) }
        var start = before.row
        if frameBytes + entry.bytes > limits.maximumFrameBytes { start = try moveLastRow(from: start, entry) }
        append(entry, rowStart: start)
        noteRelocations(layout: layout, rowStart: start)
    }

    /// Reads the row back as values, and moves the largest ones out.
    private func encodeAgain(_ entry: Entry, _ layout: RowLayout, rowStart: Int) throws(StoreError) {
        let values: [StoredValue]
        do throws(StoreError) {
            values = try RowImage(body.bytes.slice(rowStart, body.count - rowStart), layout: layout).values()
        } catch {
            throw StoreError(.invalidArgument, error.message)
        }
        body.truncate(to: rowStart)
        try change(entry, values)
    }

    /// Ends the open frame before its last row, whose entry is still missing, and moves the row to the next frame.
    ///
    /// - Returns: the new start of the row.
    private func moveLastRow(from start: Int, _ entry: Entry) throws(StoreError) -> Int {
        let rowBytes = body.count - start
        try requireFits(entryBytes: entry.bytes, rowBytes: rowBytes)
        guard changesInFrame > 0 else { return start }
        scratch.truncate()
        scratch.append(body.bytes.slice(start, rowBytes))
        body.truncate(to: start)
        try endFrame()
        return appendScratchAsRow()
    }

    /// - Returns: the start of the row.
    func appendScratchAsRow() -> Int {
        assert(body.count >= headroom, "B3: a row lies in front of the rows.")
        let start = body.count
        let distance = distance
        body.append(scratch.bytes)
        body.patch(distance, at: start + RowField.entryDistance)
        return start
    }
}
