// Sorts more records than fit in memory: sorted runs in an unnamed file, merged when they are read.
//
// Invariants:
// ES1  `pending` and `runs` together have all appended records.
// ES2  Each run is sorted and lies in the spill file from `start` on.

/// Records of one size that may be copied as bytes. Only a temporary file of this process ever contains them.
package protocol SortRecord: BitwiseCopyable, Comparable {}

struct SortedRun {
    var start: UInt64
    var records: UInt64
}

/// Accepts records in any order and returns them in ascending order.
package final class ExternalSorter<Record: SortRecord> {
    private let files: any FileSystem
    private let makeFile: () throws(StoreError) -> Descriptor
    /// Sorting an array takes half of its memory again.
    private let maximumPending: Int
    private let memoryBytes: Int
    private var pending: [Record] = []
    private var runs: [SortedRun] = []
    private var file: Descriptor?
    private var fileBytes: UInt64 = 0

    /// The file is made in `directory` if memory does not suffice.
    package convenience init(_ files: any FileSystem, directory: String, memoryBytes: Int) {
        self.init(files, memoryBytes: memoryBytes) { () throws(StoreError) in
            let directory = try files.openDirectory(directory)
            defer { files.close(directory) }
            return try files.createUnnamed(in: directory, mode: 0o600)
        }
    }

    /// If memory does not suffice, `makeFile` makes a file, which the sorter then owns.
    package init(_ files: any FileSystem, memoryBytes: Int, makeFile: @escaping () throws(StoreError) -> Descriptor) {
        (self.files, self.makeFile, self.memoryBytes) = (files, makeFile, memoryBytes)
        maximumPending = max(2, memoryBytes / 3 * 2 / MemoryLayout<Record>.stride)
    }

    deinit { if let file { files.close(file) } }

    package var runCount: Int { runs.count }

    package func append(_ record: Record) throws(StoreError) {
        if pending.count >= maximumPending { try spill() }
        // Doubling a nearly full array would need three times the memory: this reserves all of it at once.
        if pending.count == pending.capacity, pending.count * 4 > maximumPending {
            pending.reserveCapacity(maximumPending)
        }
        pending.append(record)
        assert(pending.count <= maximumPending, "More records are in memory than the limit allows.")
    }

    private func spill() throws(StoreError) {
        pending.sort()
        let target = try spillFile()
        var failure: StoreError?
        pending.withUnsafeBytes { bytes in
            do throws(StoreError) { try files.writeAll(target, at: fileBytes, bytes) } catch { failure = error }
        }
        if let failure { throw failure }
        assert(
            fileBytes == (runs.last.map { $0.start + $0.records * UInt64(MemoryLayout<Record>.stride) } ?? 0),
            "ES2: a run does not begin at the end of the last one.")
        runs.append(SortedRun(start: fileBytes, records: UInt64(pending.count)))
        fileBytes += UInt64(pending.count * MemoryLayout<Record>.stride)
        pending.removeAll(keepingCapacity: true)
    }

    private func spillFile() throws(StoreError) -> Descriptor {
        if let file { return file }
        let made = try makeFile()
        file = made
        return made
    }

    /// Passes every record to `body` in ascending order, and is empty afterwards.
    package func drain(_ body: (Record) throws(StoreError) -> Void) throws(StoreError) {
        guard !runs.isEmpty else {
            pending.sort()
            for record in pending { try body(record) }
            pending = []
            return
        }
        var records = try sorted()
        while let record = try records.next() { try body(record) }
        runs = []
    }

    /// All records in ascending order, one by one. May be called again: the sorter keeps them.
    package func sorted() throws(StoreError) -> SortedRecords<Record> {
        guard !runs.isEmpty else {
            pending.sort()
            return SortedRecords(pending)
        }
        if !pending.isEmpty { try spill() }
        pending = []
        guard let file else { return SortedRecords([]) }
        return SortedRecords(try RunMerge(readers(of: file)))
    }

    private func readers(of file: Descriptor) -> [RunReader<Record>] {
        assert(pending.isEmpty && !runs.isEmpty, "ES1: records are missing from the runs.")
        let bytes = max(4096, min(1 << 20, memoryBytes / runs.count))
        let records = max(1, bytes / MemoryLayout<Record>.stride)
        return runs.map { RunReader(files, file, $0, bufferRecords: records) }
    }
}

/// The records of a sorter: in memory if they fit, otherwise merged. Must not outlive the sorter, which owns the file.
package struct SortedRecords<Record: SortRecord> {
    private let records: [Record]
    private var position = 0
    private var merge: RunMerge<Record>?

    init(_ records: [Record]) { self.records = records }

    init(_ merge: RunMerge<Record>) {
        records = []
        self.merge = merge
    }

    package mutating func next() throws(StoreError) -> Record? {
        guard position < records.count else { return try merge?.next() }
        assert(position == 0 || !(records[position] < records[position - 1]), "ES2: records are not in order.")
        defer { position += 1 }
        return records[position]
    }
}
