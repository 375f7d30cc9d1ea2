// Names of authors, contexts and processes in a file that compaction makes: only those that it uses, under new numbers.
//
// Invariants:
// CN1  A name's record is before the first frame that refers to it, and not inside a transaction.
// CN2  The new file has only names that it uses. So names do not run out as long as history is cleaned.

/// Maps the name numbers of one file to those of another.
struct CopiedNames {
    private let source: Engine
    private let target: Engine
    private var numbers: [UInt32: UInt32] = [0: 0]

    init(_ source: Engine, _ target: Engine) { (self.source, self.target) = (source, target) }

    /// Sets the numbers in the new file. Their names must be defined before (`define`).
    func settle(_ record: inout TransactionRecord) throws(StoreError) {
        record.author = try number(record.author)
        record.context = try number(record.context)
        record.process = try number(record.process)
    }

    private func number(_ source: UInt32) throws(StoreError) -> UInt32 {
        guard let number = numbers[source] else {
            throw StoreError(.damaged, "F15: a frame refers to an undefined name.")
        }
        return number
    }

    /// Defines the names of the transaction to which a frame of the source belongs.
    mutating func define(of frame: FrameView, _ appender: Appender) throws(StoreError) {
        let record = try record(of: frame)
        try define([record.author, record.context, record.process], appender)
    }

    /// The record of the first frame with one: all frames of a transaction have the same names.
    private func record(of frame: FrameView) throws(StoreError) -> TransactionRecord {
        if frame.hasTransactionRecord { return try TransactionRecord.decode(frame.table) }
        let log = source.log
        // Follows headers, so that pieces of large values need not be read twice.
        let window = ByteWindow(log.files, log.file, stepBytes: FormatLimits.pageBytes)
        defer { withExtendedLifetime(window) {} }
        var cursor = FrameCursor(window, salt: log.header.salt, at: frame.end)
        while let header = try cursor.header() {
            guard header.kind == .transaction || header.kind == .part else {
                guard header.isMember else { break }
                cursor.position += UInt64(header.frameBytes)
                continue
            }
            return try TransactionRecord.decode(try source.indexes.core.frame(at: cursor.position).table)
        }
        throw ReadCore.badLink(cursor.position)
    }

    /// Defines the authors that a cleaning record hides, and returns the record with their numbers in the new file.
    mutating func define(
        of mark: CleaningRecord, _ appender: Appender
    ) throws(StoreError) -> CleaningRecord {
        try define(mark.hidden.map(\.author), appender)
        var settled = mark
        for index in settled.hidden.indices { settled.hidden[index].author = try number(settled.hidden[index].author) }
        settled.hidden.putInOrder { $0.author < $1.author }
        return settled
    }

    private mutating func define(_ wanted: [UInt32], _ appender: Appender) throws(StoreError) {
        if wanted.allSatisfy({ numbers[$0] != nil }) { return }
        assert(appender.state.reach == appender.state.end, "CN1: a name is defined inside a transaction.")
        let names = source.log.current.names
        var writer = StandaloneWriter(target)
        for number in wanted where numbers[number] == nil {
            guard number <= names.count else {
                throw StoreError(.damaged, "F15: a frame refers to an undefined name.")
            }
            let next = UInt32(numbers.count)
            try writer.add(.name(number: next, text: names[Int(number) - 1]), appender)
            numbers[number] = next
        }
        assert(numbers.count <= names.count + 1, "CN2: the new file has more names than the old one.")
        try writer.finish(appender)
    }
}

extension FrameView {
    /// Whether the table begins with a transaction's record.
    var hasTransactionRecord: Bool { header.kind == .transaction || header.kind == .part }
}
