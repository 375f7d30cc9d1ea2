// Reading history: transactions in order, in place.

/// One transaction of the history. Its bytes are lent: it lives until the closure that borrows it returns.
///
/// It is only a few machine words, which point into the table of its commit frame. Inlined code can use it. Both are
/// for speed: programs read millions of transactions. It counts no references, which is sound, because the lending code
/// retains the view, the names and the table.
@usableFromInline
package struct TransactionView {
    @usableFromInline package let number: UInt64
    /// The offset of its commit frame.
    package let commitFrame: UInt64
    package let end: UInt64
    private let viewReference: Unmanaged<View>
    @usableFromInline let names: UnsafeMutablePointer<String>
    @usableFromInline let nameCount: UInt32
    /// The table of its commit frame, which begins with the record.
    @usableFromInline let table: UnsafeRawBufferPointer

    init(
        number: UInt64, commitFrame: UInt64, end: UInt64, view: View, names: NameTable, table: UnsafeRawBufferPointer
    ) {
        assert(
            TransactionField.time == 8 && TransactionField.author == 40 && TransactionField.context == 44,
            "Inlined code reads other fields.")
        (self.number, self.commitFrame, self.end) = (number, commitFrame, end)
        viewReference = .passUnretained(view)
        self.names = names.names
        nameCount = names.count
        self.table = table
    }

    package var tag: UInt64 { table.integer(at: TransactionField.tag, as: UInt64.self) }
    /// Microseconds since 1970.
    @inlinable @inline(__always)
    package var time: Int64 { Int64(littleEndian: table.loadUnaligned(fromByteOffset: 8, as: Int64.self)) }
    package var processID: UInt32 { table.integer(at: TransactionField.processID, as: UInt32.self) }
    package var totalChanges: UInt64 { table.integer(at: TransactionField.totalChanges, as: UInt64.self) }
    package var changesSchema: Bool { table.integer(at: TransactionField.flags, as: UInt16.self) & 1 != 0 }
    /// Whether compaction has left out some of its changes.
    package var lacksChanges: Bool { table.integer(at: TransactionField.flags, as: UInt16.self) & 4 != 0 }
    package var schemaVersion: UInt16 { table.integer(at: TransactionField.schemaVersion, as: UInt16.self) }
    /// The offset at which the transaction begins.
    package var start: UInt64 { table.integer(at: TransactionField.start, as: UInt64.self) }
    // The offsets are those of `TransactionField`, which inlined code cannot see.
    @inlinable @inline(__always)
    package var author: String? { name(40) }
    @inlinable @inline(__always)
    package var context: String? { name(44) }
    package var process: String? { name(TransactionField.process) }

    var view: View { viewReference.takeUnretainedValue() }

    @inlinable @inline(__always)
    func name(_ field: Int) -> String? {
        let number = UInt32(littleEndian: table.loadUnaligned(fromByteOffset: field, as: UInt32.self))
        return number > 0 && number <= nameCount ? names[Int(number) - 1] : nil
    }

    /// Lends the changes in their order, until `body` returns false.
    @inline(__always)
    package func forEachChange(_ body: (ChangeView) throws(StoreError) -> Bool) throws(StoreError) {
        if start != commitFrame {
            let goesOn = try withoutActuallyEscaping(body) { (body) throws(StoreError) in
                try forEachChangeOfParts(ChangeVisitor(body))
            }
            if !goesOn { return }
        }
        var cursor = ChangeCursor(
            table: table, first: TransactionField.bytes, frameBytes: Int(truncatingIfNeeded: end - commitFrame),
            allowsBase: false, frameOffset: commitFrame)
        while let change = try cursor.next() {
            if try !body(change) { return }
        }
    }

    private func forEachChangeOfParts(_ visitor: ChangeVisitor) throws(StoreError) -> Bool {
        var position = start
        while position < commitFrame {
            let header = try view.core.goodHeader(at: position)
            if header.isOf(.part) {
                var cursor = ChangeCursor(
                    table: try view.core.table(of: header), first: TransactionField.bytes,
                    frameBytes: Int(header.frameBytes), allowsBase: false, frameOffset: position)
                while let change = try cursor.next() {
                    if try !visitor.visit(change) { return false }
                }
            }
            position = header.end
        }
        return true
    }
}

/// A closure in an object: see `RowVisitor`.
private final class ChangeVisitor {
    let visit: (ChangeView) throws(StoreError) -> Bool

    init(_ visit: @escaping (ChangeView) throws(StoreError) -> Bool) { self.visit = visit }
}

/// A closure in an object: see `RowVisitor`.
private final class TransactionVisitor {
    let visit: (UnsafePointer<TransactionView>) throws(StoreError) -> Bool

    init(_ visit: @escaping (UnsafePointer<TransactionView>) throws(StoreError) -> Bool) { self.visit = visit }
}

/// Author, context and process names by number.
///
/// Sharing it is sound: after `init`, neither its properties nor its memory change.
final class NameTable: @unchecked Sendable {
    let count: UInt32
    let names: UnsafeMutablePointer<String>

    init(_ names: [String]) {
        count = UInt32(names.count)
        self.names = .allocate(capacity: max(names.count, 1))
        for (index, name) in names.enumerated() { (self.names + index).initialize(to: name) }
    }

    deinit {
        names.deinitialize(count: Int(count))
        names.deallocate()
    }
}

/// A state together with the log of its file. Reading history needs the log's names and its header.
///
/// In a child of the process that opened the store, every function throws `forked` before it takes a lock. A thread of
/// the parent may have held that lock at the fork, and in the child nothing releases it.
package struct TrackedView {
    package let view: View
    let log: Log
    let clockSteps: ClockSteps
}

extension TrackedView {
    /// Lends the transactions with numbers above `after` that the view contains, oldest first, until `body` returns
    /// false.
    ///
    /// Finding the first transaction takes logarithmic time. The rest is linear in the tables of changes: no rows are
    /// read. Throws `damaged`.
    ///
    /// `place` saves the search for the first transaction. It is the offset of a frame in this file. No transactions
    /// before that frame are lent.
    package func forEachTransaction(
        after number: UInt64, at place: UInt64? = nil,
        _ body: (TransactionView) throws(StoreError) -> Bool
    ) throws(StoreError) {
        try lendTransactions(after: number, at: place) { (transaction) throws(StoreError) in
            try body(transaction.pointee)
        }
    }

    /// The same, for callers that read a transaction only in place.
    func lendTransactions(
        after number: UInt64, at place: UInt64? = nil,
        _ body: (UnsafePointer<TransactionView>) throws(StoreError) -> Bool
    ) throws(StoreError) {
        try withoutActuallyEscaping(body) { (body) throws(StoreError) in
            try lendTransactions(after: number, at: place, TransactionVisitor(body))
        }
    }

    private func lendTransactions(
        after number: UInt64, at place: UInt64?, _ visitor: TransactionVisitor
    ) throws(StoreError) {
        try log.process.requireOwn(path: log.path)
        guard number < view.number else { return }
        let names = NameTable(log.current.names)
        var position =
            place ?? view.core.file.currentLandmarks.last(number: number)?.offset ?? UInt64(FormatLimits.pageBytes)
        let core = view.core
        var last = number
        // The first offset may be the caller's. Later ones are the ends of good frames.
        var isStart = false
        // Lent transactions refer to these without counting references.
        defer { withExtendedLifetime((view, names)) {} }
        while position < view.end {
            // A read section delays the reuse of old nodes, so it must not last for the whole history.
            let sectionEnd = min(view.end, position + 1 << 22)
            let goesOn = try core.reading { () throws(StoreError) -> Bool in
                while position < sectionEnd {
                    let header = try core.goodHeader(at: position, isStart: isStart)
                    isStart = true
                    if header.isOf(.transaction), case let found = header.number, found > number {
                        guard found > last else { throw Self.outOfOrder(position) }
                        last = found
                        let transaction = try core.transaction(header, view, names)
                        let goesOn = try withUnsafePointer(to: transaction) { (transaction) throws(StoreError) in
                            try visitor.visit(transaction)
                        }
                        if !goesOn { return false }
                    }
                    position = header.end
                }
                return true
            }
            if !goesOn { return }
        }
    }

    @inline(never)
    private static func outOfOrder(_ offset: UInt64) -> StoreError {
        StoreError(
            .damaged, "F11: a transaction's number does not follow the last. Restore the store from a backup.",
            offset: offset)
    }

    /// The number of the view's last transaction that is known to survive a power failure. Takes time linear in the
    /// frames from the MiB of the durable mark to the first transaction after the mark. Throws `damaged`, `closed`.
    package func lastDurableNumber() throws(StoreError) -> UInt64 {
        try log.process.requireOwn(path: log.path)
        let durableEnd = log.durableEnd
        guard durableEnd < view.end else { return view.number }
        let place = view.core.file.currentLandmarks.last(at: durableEnd)?.offset
        var number = view.number
        let base = log.header.baseNumber
        try forEachTransaction(after: base, at: place) { (transaction) throws(StoreError) in
            // Durable marks are between frames: one above the start of a commit frame is not below its end.
            guard transaction.commitFrame >= durableEnd else { return true }
            number = transaction.number - 1
            return false
        }
        return number
    }

    /// The state after transaction `number`, which must be older than the view's last one.
    func past(_ number: UInt64) throws(StoreError) -> View {
        assert(number < view.number, "A state of the past is the present one.")
        let core = view.core
        if number == log.header.baseNumber { return try base() }
        let unknown = try unknownEntities(asOf: number)
        var found: View?
        try forEachTransaction(after: number - 1) { (transaction) throws(StoreError) in
            let version = transaction.schemaVersion
            let isNewest = version == view.catalog.newestVersion
            let shape = isNewest ? view.shape : StoreShape(view.catalog.upTo(version: version))
            let end = view.historyGaps.isEmpty ? transaction.end : try core.endOfRows(after: transaction.end, view)
            found = View(
                end: end, number: number, tag: transaction.tag, time: transaction.time, shape: shape,
                core: core, totals: nil, ordered: [], unknownEntities: unknown,
                past: isNewest ? nil : PastSchema(view.shape, version: version))
            return false
        }
        guard let found else {
            throw StoreError(.damaged, "F11: transaction \(number) is missing from its place.", path: log.path)
        }
        return found
    }
}

extension TrackedView {
    /// The state before the first transaction of the file. Requires a view of a later state.
    private func base() throws(StoreError) -> View {
        let header = log.header
        var first: (start: UInt64, version: UInt16)?
        try forEachTransaction(after: header.baseNumber) { (transaction) throws(StoreError) in
            let version = transaction.schemaVersion
            first = (transaction.start, transaction.changesSchema ? version - min(version, 1) : version)
            return false
        }
        guard let first else {
            throw StoreError(
                .damaged, "F11: transaction \(header.baseNumber + 1) is missing from its place.", path: log.path)
        }
        let isNewest = first.version == view.catalog.newestVersion
        let shape = isNewest ? view.shape : StoreShape(view.catalog.upTo(version: first.version))
        return View(
            end: first.start, number: header.baseNumber, tag: header.baseTag, time: header.baseTime, shape: shape,
            core: view.core, totals: nil, ordered: [],
            unknownEntities: try unknownEntities(asOf: header.baseNumber),
            past: isNewest ? nil : PastSchema(view.shape, version: first.version))
    }

    /// The entities whose history lacks changes after transaction `number`, which is older than the view's last one.
    private func unknownEntities(asOf number: UInt64) throws(StoreError) -> Set<UInt16> {
        if view.historyGaps.isEmpty { return [] }
        let next = try schemaVersion(ofTransactionAfter: number)
        return Set(view.historyGaps.filter { $0.hides(version: next) }.map(\.entity))
    }
}

extension ReadCore {
    /// The end of the rows that compaction has put directly after a transaction. Call it inside a read section.
    fileprivate func endOfRows(after start: UInt64, _ newest: View) throws(StoreError) -> UInt64 {
        var end = start
        var position = start
        while position < newest.end {
            let header = try goodHeader(at: position)
            position = header.end
            switch FrameKind(rawValue: header.bytes[FrameField.kind]) {
            case .rows: end = position
            case .value where header.bytes[FrameField.flags] == 0: continue
            case .nodes, .checkpoint, nil: continue
            default: return end
            }
        }
        return end
    }

    /// The transaction whose commit frame has this header. Call it inside a read section.
    @inline(__always)
    func transaction(
        _ header: FrameHead, _ view: View, _ names: NameTable
    ) throws(StoreError) -> TransactionView {
        let (offset, end) = (header.offset, header.end)
        let table = try table(of: header)
        guard table.count >= TransactionField.bytes else {
            throw StoreError(.damaged, "F13: a transaction's table is shorter than its record.", offset: offset)
        }
        let start = table.integer(at: TransactionField.start, as: UInt64.self)
        guard start <= offset, start >= UInt64(FormatLimits.pageBytes),
            table.integer(at: TransactionField.totalChanges, as: UInt64.self) <= end / UInt64(ChangeField.bytes),
            TransactionField.hasKnownFlags(table)
        else {
            // A newer program may have written the record, with another meaning: then this throws `unsupportedVersion`.
            try TransactionField.requireKnown(table, offset)
            throw StoreError(
                .damaged,
                "F13: a transaction does not begin where its record specifies, or its count of changes is "
                    + "wrong.", offset: offset)
        }
        return TransactionView(
            number: header.number, commitFrame: offset, end: end, view: view, names: names, table: table)
    }
}

// MARK: Values before and after

extension View {
    /// Lends the row that a change wrote; for a deletion, the row of preserved values. Returns false without a row.
    package func withRow(
        after change: ChangeView, _ body: (RowImage) throws(StoreError) -> Void
    ) throws(StoreError) -> Bool {
        guard let row = change.rowOffset else { return false }
        return try withRow(at: change.frameOffset + UInt64(row), change.object.entityNumber, body)
    }

    /// Lends the row before a change. Returns false without one.
    package func withRow(
        before change: ChangeView, _ body: (RowImage) throws(StoreError) -> Void
    ) throws(StoreError) -> Bool {
        guard case .row(let offset) = change.previous else { return false }
        return try withRow(at: offset, change.object.entityNumber, body)
    }

    /// Lends the row of an entity's object at an offset.
    package func withRow(
        at offset: UInt64, _ entity: UInt16, _ body: (RowImage) throws(StoreError) -> Void
    ) throws(StoreError) -> Bool {
        try core.reading { () throws(StoreError) in
            try body(try core.row(at: offset, entity, shape))
            return true
        }
    }
}
