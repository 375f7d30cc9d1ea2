// F13, F17 and F20 to F22: validates frames with changes, entry by entry and row by row.

/// Checks the changes of frames. Checking a store and compacting it both use this, so they agree on damage.
struct ChangesValidator {
    private var layouts = LayoutCache()

    /// A row of a validated frame.
    struct WrittenRow {
        let view: RowImage
        /// Whether it refers to large values.
        let hasReferences: Bool
        /// Offset in the file.
        let offset: UInt64
    }

    /// Validates a frame of the kinds part, transaction or rows, and calls `visit` with each change after its
    /// validation.
    ///
    /// `catalog` has the schema versions known at the frame. Throws `damaged` with the rule.
    mutating func validate(
        _ frame: FrameView, _ catalog: SchemaCatalog, _ visit: (ChangeView, WrittenRow?) throws(StoreError) -> Void
    ) throws(StoreError) {
        let (expected, rule) = try Self.expectedEntries(frame)
        var cursor = ChangeCursor(frame)
        var position = FrameField.bytes + frame.table.count
        var entries: UInt64 = 0
        while let change = try cursor.next() {
            entries += 1
            var row: WrittenRow?
            if let offset = change.rowOffset {
                guard offset == position else {
                    throw StoreError(
                        .damaged, "F20: a row does not begin at the end of the row before it.",
                        offset: frame.offset + UInt64(change.entryOffset))
                }
                let found = try validate(change, at: offset, frame, catalog)
                position += found.view.rowBytes.paddedTo8
                row = found
            }
            try visit(change, row)
        }
        guard entries == UInt64(expected) else {
            throw StoreError(.damaged, "\(rule): a frame's count of changes is wrong.")
        }
        guard position == Int(frame.header.frameBytes) else {
            throw StoreError(.damaged, "F20: the rows of a frame do not fill its body.")
        }
    }

    private static func expectedEntries(_ frame: FrameView) throws(StoreError) -> (UInt32, rule: String) {
        guard frame.header.kind == .rows else { return (try TransactionRecord.decode(frame.table).changes, "F13") }
        return (try RowsField.entries(frame), "F17")
    }

    private mutating func validate(
        _ change: ChangeView, at row: Int, _ frame: FrameView, _ catalog: SchemaCatalog
    ) throws(StoreError) -> WrittenRow {
        let offset = frame.offset + UInt64(row)
        let start = row - FrameField.bytes - frame.table.count
        let bytes = frame.body.slice(start, frame.body.count - start)
        let header = try RowHeader(bytes, fileOffset: offset)
        guard Int(header.entryDistance) * 8 == row - change.entryOffset else {
            throw StoreError(.damaged, "F20: a row does not point to its change entry.", offset: offset)
        }
        guard let layout = layouts.layout(header.schemaVersion, change.object.entityNumber, catalog) else {
            throw StoreError(.damaged, "F21: a row has a missing schema version or entity.", offset: offset)
        }
        if let last = change.lastAttributePosition, last >= layout.count {
            throw StoreError(
                .damaged, "F21: an attribute set contains an attribute that the entity does not have.", offset: offset)
        }
        let view = try RowImage(bytes, layout: layout, fileOffset: offset)
        let hasReferences = try view.validate(isDeletion: change.kind == .delete)
        return WrittenRow(view: view, hasReferences: hasReferences, offset: offset)
    }
}

/// Remembers the layout requested last: rows of one kind lie together.
private struct LayoutCache {
    private var version: UInt16 = 0
    private var entity: UInt16 = 0
    private var last: RowLayout?

    /// A version's definition of an entity never changes, so each call may pass another catalog.
    mutating func layout(_ version: UInt16, _ entity: UInt16, _ catalog: SchemaCatalog) -> RowLayout? {
        if let last, version == self.version, entity == self.entity { return last }
        guard let found = catalog.layout(version: version, entity: entity) else { return nil }
        (self.version, self.entity, last) = (version, entity, found)
        return found
    }
}
