// Encodes a transaction before the writer lock is taken: only numbers, offsets and names are settled under it.
//
// Invariants:
// B1  Frames in the spool are complete except for the fields that the commit settles; the open frame is in `table` and
//     `body`.
// B2  The open table and rows fit a frame of the writer's limit, unless they are a single change.
// B3  A row is in `body` at `headroom` + its body offset; the table goes in front of the rows when the frame is
//     complete.
// B4  Entries and rows of the open frame are placed as if the table had no bytes: an entry names its row as if rows
//     began after the frame's header, and a row's distance to its entry lacks the table's size. Completing the frame
//     adds it.
// B5  `relocations` has each reference in `body` to a value of this transaction, once.

/// The bytes of a draft: schema changes first, then inserts, updates and deletions in any order.
///
/// For one thread at a time. Nothing is written to the store before `Log.append`. Before that, superseded changes are
/// removed (`supersede`), so that each object is in it once (F19).
///
/// Its accesses to its own memory are not checked for overlaps, which would cost as much as writing a row. Sound: one
/// thread uses it, and while a caller's closure writes a row, the memory is lent out (`lendBody`), so no access to it
/// is under way.
package final class DraftFrames {
    /// The frames for the log.
    package let prepared: PreparedFrames
    /// The schema for encoding rows, including this transaction's own changes.
    @exclusivity(unchecked) package private(set) var catalog: SchemaCatalog { didSet { lastLayout = nil } }
    /// The layout of the catalog that was asked for last: asking the catalog copies it.
    @exclusivity(unchecked) private var lastLayout: RowLayout?
    /// The catalog's newest version: that of the rows.
    @exclusivity(unchecked) private(set) var schemaVersion: UInt16
    /// The number of changes, including those that no longer count.
    @exclusivity(unchecked) package internal(set) var changes: UInt64 = 0
    /// The number of changes that no longer count.
    @exclusivity(unchecked) var superseded: UInt64 = 0
    /// The places of the changes that count; nil before the first look.
    @exclusivity(unchecked) var own: OwnChanges?
    let limits: LogLimits
    /// Whether its references must lead to objects. Salvage keeps those that lead to lost objects.
    @exclusivity(unchecked) var checksReferences = true
    /// The number of large values.
    @exclusivity(unchecked) var values = 0
    @exclusivity(unchecked) var table = ByteWriter(capacity: 256)
    @exclusivity(unchecked) var body = ByteWriter(capacity: 1024)
    @exclusivity(unchecked) var headroom: Int
    @exclusivity(unchecked) var changesInFrame: UInt32 = 0
    @exclusivity(unchecked) var relocations: [Relocation] = []
    @exclusivity(unchecked) var state = State.open
    /// Notes about the row that is being written.
    let marks = AttributeNotes.allocate()
    /// Reused for pieces of values, schema frames and rows that move.
    @exclusivity(unchecked) var scratch = ByteWriter(withoutMemory: ())

    enum State {
        case open
        /// A row is being written: `body` is empty during that time (see `lendBody`).
        case lent
        /// All frames are prepared.
        case complete
        /// A part of it could not be kept, so it cannot be committed.
        case broken
    }

    init(
        limits: LogLimits, catalog: SchemaCatalog, salt: UInt64, spool: consuming Spool, expectedChanges: Int
    ) {
        self.limits = limits
        self.catalog = catalog
        schemaVersion = catalog.newestVersion
        prepared = PreparedFrames(salt: salt, spool: spool, schemaVersion: catalog.newestVersion)
        headroom = 0
        begin(expectedChanges: expectedChanges, catalog: nil)
    }

    deinit { marks.deallocate() }

    /// Begins again with only the names, and with its present catalog if none is given. Requires `isReusable`.
    func begin(expectedChanges: Int, catalog: SchemaCatalog?) {
        assert(prepared.members.isEmpty && values == 0, "B1: a draft begins with the frames of another transaction.")
        if let catalog {
            self.catalog = catalog
            (schemaVersion, prepared.baseSchemaVersion) = (catalog.newestVersion, catalog.newestVersion)
        }
        (changes, state, checksReferences) = (0, .open, true)
        (prepared.last, prepared.isCommitted) = (nil, false)
        if !prepared.advances.isEmpty { prepared.advances = [] }
        if own != nil { (own, superseded) = (nil, 0) }
        let expected = max(1, min(expectedChanges, limits.maximumFrameBytes / 32))
        headroom = FrameField.bytes + TransactionField.bytes + expected * 2 * ChangeField.bytes
        beginFrame()
    }

    /// Whether it can begin again: it has one frame, of moderate size, and no schema of its own.
    var isReusable: Bool {
        prepared.members.isEmpty && prepared.spool.count == 0 && values == 0 && !prepared.changesSchema
            && (state == .open || state == .complete) && body.count + table.count <= Self.maximumKeptBytes
    }

    private static let maximumKeptBytes = 1 << 19

    /// A transaction without changes for the same log, with the same schema frames.
    func successor() throws(StoreError) -> DraftFrames {
        let next = DraftFrames(
            limits: limits, catalog: catalog, salt: prepared.salt, spool: prepared.spool.another(),
            expectedChanges: Int(clamping: changes))
        for frame in prepared.members {
            guard case .schema = frame.content else { continue }
            try prepared.spool.withBytes(at: frame.spoolOffset, count: Int(frame.frameBytes)) {
                (bytes) throws(StoreError) in
                next.scratch.truncate()
                next.scratch.append(bytes)
                try next.spoolScratch(tableBytes: Int(frame.tableBytes), content: .schema)
            }
        }
        return next
    }

    /// Takes over its successor's content. The owner keeps this object: a reference that can change costs each row.
    func exchangeContent(with next: DraftFrames) {
        (changes, next.changes) = (next.changes, changes)
        swap(&prepared.members, &next.prepared.members)
        (values, next.values) = (next.values, values)
        swap(&prepared.spool, &next.prepared.spool)
        swap(&table, &next.table)
        swap(&body, &next.body)
        (headroom, next.headroom) = (next.headroom, headroom)
        (changesInFrame, next.changesInFrame) = (next.changesInFrame, changesInFrame)
        swap(&relocations, &next.relocations)
        (state, next.state) = (next.state, state)
        swap(&scratch, &next.scratch)
    }

    // MARK: Schema

    /// Defines a new schema version. Only once, and before any change.
    package func changeSchema(_ definitions: [EntityDefinition]) throws(StoreError) {
        try requireUsable()
        guard changes == 0, prepared.members.isEmpty, changesInFrame == 0, !prepared.changesSchema else {
            throw StoreError(
                .invalidArgument,
                "A transaction can change the schema once only, and before its other changes.")
        }
        let schema = SchemaDefinition(version: catalog.newestVersion &+ 1, entities: definitions)
        var changed = catalog
        do throws(StoreError) {
            try changed.apply(schema)
        } catch {
            throw StoreError(.invalidArgument, error.message)
        }
        // A definition is never split, so it may need a longer frame than the writer's own limit.
        let longest = definitions.map(\.encodedBytes).max() ?? 0
        let tableBytes = max(limits.maximumFrameBytes - FrameField.bytes, longest + SchemaField.bytes)
        for table in try schema.encodeTables(
            maximumTableBytes: min(tableBytes, FormatLimits.maximumFrameBytes - FrameField.bytes))
        {
            scratch.truncate()
            scratch.appendZeros(FrameField.bytes)
            scratch.append(table)
            try spoolScratch(tableBytes: table.count, content: .schema)
        }
        catalog = changed
        schemaVersion = changed.newestVersion
        prepared.changesSchema = true
    }

    // MARK: Changes as values

    /// Inserts an object with a value for each attribute of its entity's newest layout.
    package func insert(
        _ object: ObjectID, _ row: [StoredValue], afterDeletion previous: PreviousVersion? = nil
    ) throws(StoreError) {
        try change(Entry(.insert, object, previous: previous), row)
    }

    /// `preserved` is a row with only the attributes to preserve; nil for none.
    package func delete(
        _ object: ObjectID, preserved: [StoredValue]? = nil, previous: PreviousVersion
    ) throws(StoreError) {
        try change(Entry(.delete, object, previous: previous), preserved)
    }

    /// The content of a change entry, without the row's offset.
    package struct Entry {
        let kind: ChangeKind
        let object: ObjectID
        let previous: PreviousVersion?
        var attributes: AttributeSet

        package init(
            _ kind: ChangeKind, _ object: ObjectID, previous: PreviousVersion?,
            attributes: AttributeSet = AttributeSet()
        ) {
            self.kind = kind
            self.object = object
            self.previous = previous
            self.attributes = attributes
        }

        var bytes: Int { ChangeField.bytes + (previous == nil ? 0 : 8) + attributes.wordCount * 8 }
    }

    /// Adds a change with a row of these values; nil for no row.
    package func change(_ entry: Entry, _ row: [StoredValue]?) throws(StoreError) {
        try requireUsable()
        guard let layout = layout(entry.object.entityNumber) else {
            throw StoreError(
                .invalidArgument,
                "Entity \(entry.object.entityNumber) is not in the schema: define it before its objects.")
        }
        guard let row else {
            try validate(entry, layout)
            try makeRoom(entryBytes: entry.bytes, rowBytes: 0)
            return append(entry, rowStart: nil)
        }
        guard row.count == layout.count else {
            throw StoreError(.invalidArgument, "A row does not have one value for each attribute.")
        }
        let isDeletion = entry.kind == .delete
        let values = try moveOutLargeValues(row, of: layout.entity)
        try write(entry, layout, isDeletion ? .deletion : .object) { (row) throws(StoreError) in
            for (position, value) in values.enumerated() where !isDeletion || value != .absent {
                try row.set(stored: value, at: position)
            }
        }
    }

    private func layout(_ entity: UInt16) -> RowLayout? {
        if let lastLayout, lastLayout.number == entity { return lastLayout }
        lastLayout = catalog.layout(version: catalog.newestVersion, entity: entity)
        return lastLayout
    }

    /// An update names attributes that its entity has. Other changes name none.
    @inline(__always)
    func validate(_ entry: Entry, _ layout: RowLayout) throws(StoreError) {
        guard entry.kind == .update else { return }
        guard let last = entry.attributes.last else {
            throw StoreError(.invalidArgument, "An update must name at least one attribute.")
        }
        guard last < layout.count else { throw Self.unknownAttribute }
    }

    private static var unknownAttribute: StoreError {
        StoreError(.invalidArgument, "An update names an attribute that its entity does not have.")
    }

    /// The distance from the next entry to the next row, in units of 8 bytes, as if the table had no bytes.
    @inline(__always)
    var distance: UInt16 { UInt16(truncatingIfNeeded: (body.count - headroom - table.count) / 8) }

    @inline(__always)
    func append(_ entry: Entry, rowStart: Int?) {
        let position = rowStart.map { $0 - headroom + FrameField.bytes } ?? 0
        let words = entry.attributes.wordCount
        let shape = UInt8(words) | (entry.previous == nil ? 0 : ChangeField.previousBit)
        table.append(entry.object.rawValue)
        // The fields from `row` on, in one word.
        table.append(
            UInt64(UInt32(truncatingIfNeeded: position)) | UInt64(entry.kind.rawValue) << 32 | UInt64(shape) << 40)
        if let previous = entry.previous { table.append(previous.rawValue) }
        for index in 0..<words { table.append(entry.attributes.word(index)) }
        changes += 1
        changesInFrame += 1
    }

    /// Writes a row through `body`: while foreign code runs, no access to this object is under way.
    @inline(__always)
    func lendBody(to bytes: inout ByteWriter) {
        state = .lent
        swap(&bytes, &body)
    }

    @inline(__always)
    func exchangeBody(from bytes: inout ByteWriter) {
        if state == .lent { state = .open }
        swap(&bytes, &body)
    }

    /// Throws unless changes can be added now.
    @inline(__always)
    func requireUsable(whileRowIsWritten: Bool = false) throws(StoreError) {
        guard state == .open || whileRowIsWritten && state == .lent else { throw unusable() }
    }

    func unusable() -> StoreError {
        if state == .lent {
            return StoreError(.invalidArgument, "A transaction cannot change while one of its rows is written.")
        }
        return StoreError(
            .invalidArgument,
            "A transaction cannot change after it was committed, or after one of its changes has failed: begin another "
                + "transaction.")
    }
}

extension Log {
    /// Begins a transaction. `expectedChanges` saves copying if it is right, and costs nothing if it is wrong.
    ///
    /// Its rows are encoded with `catalog`, by default the newest that this handle knows.
    package func makeFrames(expectedChanges: Int = 1, catalog: SchemaCatalog? = nil) -> DraftFrames {
        DraftFrames(
            limits: limits, catalog: catalog ?? current.catalog, salt: header.salt,
            spool: Spool(files, directory: directory, limit: limits.spoolBytes, step: limits.spoolStepBytes),
            expectedChanges: expectedChanges)
    }
}
