// Reading history: transactions in order, looked at where they stand.

/// One transaction of the history. Its bytes are lent: it lives until the closure returns that it was given to.
package struct TransactionView {
    package let number: UInt64
    package let tag: UInt64
    /// Microseconds since 1970.
    package let time: Int64
    package let processID: UInt32
    package let totalChanges: UInt64
    package let changesSchema: Bool
    /// Where it begins, and where its commit frame stands.
    package let start: UInt64
    package let commitFrame: UInt64
    let end: UInt64
    package let schemaVersion: UInt16
    let names: (author: UInt32, context: UInt32, process: UInt32)
    let view: View
    let nameTable: NameTable
    /// The table of its commit frame.
    let table: UnsafeRawBufferPointer

    package var author: String? { nameTable.name(names.author) }
    package var context: String? { nameTable.name(names.context) }
    package var process: String? { nameTable.name(names.process) }

    /// Lends the changes in their order until `body` returns false.
    @inline(__always)
    package func forEachChange(_ body: (ChangeView) throws(FileError) -> Bool) throws(FileError) {
        if start != commitFrame, try !forEachChangeOfParts(body) { return }
        var cursor = ChangeCursor(
            table: table, first: TransactionField.bytes, frameBytes: Int(truncatingIfNeeded: end - commitFrame),
            allowsBase: false, frameOffset: commitFrame)
        while let change = try cursor.next() {
            if try !body(change) { return }
        }
    }

    private func forEachChangeOfParts(_ body: (ChangeView) throws(FileError) -> Bool) throws(FileError) -> Bool {
        var position = start
        while position < commitFrame {
            let header = try view.core.frameHeader(at: position)
            if header.kind == .part {
                let table = try view.core.file.bytes(
                    at: position + UInt64(FrameField.bytes), count: Int(header.tableBytes))
                var cursor = ChangeCursor(
                    table: table, first: TransactionField.bytes, frameBytes: Int(header.frameBytes), allowsBase: false,
                    frameOffset: position)
                while let change = try cursor.next() {
                    if try !body(change) { return false }
                }
            }
            position += UInt64(header.frameBytes)
        }
        return true
    }
}

/// Author, context and process names by number.
final class NameTable: Sendable {
    private let names: [String]

    init(_ names: [String]) { self.names = names }

    func name(_ number: UInt32) -> String? { number > 0 && number <= names.count ? names[Int(number) - 1] : nil }
}

extension Engine {
    /// Lends the transactions with numbers above `after` that the view contains, oldest first, until `body` returns false.
    ///
    /// Logarithmic to find the first one, then linear in what is read: the tables of changes, not the rows. Throws `damaged`.
    package func forEachTransaction(
        after number: UInt64, in view: View, _ body: (TransactionView) throws(FileError) -> Bool
    ) throws(FileError) {
        guard number < view.number else { return }
        let names = NameTable(log.current.names)
        var position = indexes.core.file.currentLandmarks.last(number: number)?.offset ?? UInt64(FormatLimits.pageBytes)
        let core = view.core
        while position < view.end {
            // A section holds back the memory of old nodes: it does not last for the whole history.
            let sectionEnd = min(view.end, position + 1 << 22)
            let goesOn = try core.reading { () throws(FileError) -> Bool in
                while position < sectionEnd {
                    let header = try core.frameHeader(at: position)
                    let next = position + UInt64(header.frameBytes)
                    if header.kind == .transaction, header.number > number {
                        let transaction = try core.transaction(header, at: position, view, names)
                        if try !body(transaction) { return false }
                    }
                    position = next
                }
                return true
            }
            if !goesOn { return }
        }
    }

    /// The state behind transaction `number`, which is below the newest one's.
    func past(_ number: UInt64, _ newest: View) throws(FileError) -> View {
        let core = newest.core
        if number == log.header.baseNumber {
            return View(
                end: UInt64(FormatLimits.pageBytes), number: number, tag: log.header.baseTag, time: log.header.baseTime,
                shape: StoreShape(SchemaCatalog()), core: core, totals: nil, ordered: [])
        }
        var found: View?
        try forEachTransaction(after: number - 1, in: newest) { (transaction) throws(FileError) in
            let version = transaction.schemaVersion
            let shape =
                version == newest.catalog.newestVersion
                ? newest.shape : StoreShape(newest.catalog.upTo(version: version))
            found = View(
                end: transaction.end, number: number, tag: transaction.tag, time: transaction.time, shape: shape,
                core: core,
                totals: nil, ordered: [])
            return false
        }
        guard let found else {
            throw FileError(.damaged, "F11: transaction \(number) is not where it should be.", path: log.path)
        }
        return found
    }
}

extension ReadCore {
    /// The transaction whose commit frame stands at an offset. Inside a read section.
    @inline(__always)
    func transaction(
        _ header: FrameHeader, at offset: UInt64, _ view: View, _ names: NameTable
    ) throws(FileError) -> TransactionView {
        let table = try file.bytes(at: offset + UInt64(FrameField.bytes), count: Int(header.tableBytes))
        let record = try TransactionRecord.decode(table)
        guard record.start <= offset, record.start >= UInt64(FormatLimits.pageBytes) else {
            throw FileError(.damaged, "F13: a transaction begins elsewhere than it says.", offset: offset)
        }
        return TransactionView(
            number: header.number, tag: record.tag, time: record.time, processID: record.processID,
            totalChanges: record.totalChanges, changesSchema: record.changesSchema, start: record.start,
            commitFrame: offset, end: offset + UInt64(header.frameBytes), schemaVersion: record.schemaVersion,
            names: (record.author, record.context, record.process), view: view, nameTable: names, table: table)
    }
}

// MARK: Values before and after

extension View {
    /// Lends the row that a change wrote; of a deletion, the one that holds what is preserved. False where there is none.
    package func withRow(
        after change: ChangeView, _ body: (RowView) throws(FileError) -> Void
    ) throws(FileError) -> Bool {
        guard let row = change.rowOffset else { return false }
        return try withRow(at: change.frameOffset + UInt64(row), change.object.entity, body)
    }

    /// Lends the row that stood before a change. False where there was none.
    package func withRow(
        before change: ChangeView, _ body: (RowView) throws(FileError) -> Void
    ) throws(FileError) -> Bool {
        guard case .row(let offset) = change.previous else { return false }
        return try withRow(at: offset, change.object.entity, body)
    }

    private func withRow(
        at offset: UInt64, _ entity: UInt16, _ body: (RowView) throws(FileError) -> Void
    ) throws(FileError) -> Bool {
        try core.reading { () throws(FileError) in
            try body(try core.row(at: offset, entity, shape))
            return true
        }
    }
}
