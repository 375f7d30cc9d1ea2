// Sorts more records than fit in memory: sorted runs in an unnamed file, merged when they are read.
//
// Invariants:
// E1  The records in `pending` and those in `runs` together are all that were appended.
// E2  Each run is sorted and stands in the spill file from `start` on.

/// Records of one size that may be copied as bytes. Nothing but a temporary file of this process ever holds them.
package protocol SortRecord: BitwiseCopyable, Comparable {}

struct SortedRun {
    var start: UInt64
    var records: UInt64
}

/// Takes records in any order and gives them back in ascending order, once.
package final class ExternalSorter<Record: SortRecord> {
    private let files: any FileSystem
    private let directoryPath: String
    /// Sorting an array takes half of it once more.
    private let maximumPending: Int
    private let memoryBytes: Int
    private var pending: [Record] = []
    private var runs: [SortedRun] = []
    private var file: Descriptor?
    private var fileBytes: UInt64 = 0

    /// The file is made in `directory` when memory does not suffice.
    package init(_ files: any FileSystem, directory: String, memoryBytes: Int) {
        self.files = files
        directoryPath = directory
        self.memoryBytes = memoryBytes
        maximumPending = max(2, memoryBytes / 3 * 2 / MemoryLayout<Record>.stride)
    }

    deinit { if let file { files.close(file) } }

    package var runCount: Int { runs.count }

    package func append(_ record: Record) throws(FileError) {
        if pending.count >= maximumPending { try spill() }
        // Doubling an array that is nearly full would hold three times what is needed: it gets all of its room at once.
        if pending.count == pending.capacity, pending.count * 4 > maximumPending {
            pending.reserveCapacity(maximumPending)
        }
        pending.append(record)
    }

    private func spill() throws(FileError) {
        pending.sort()
        let target = try spillFile()
        var failure: FileError?
        pending.withUnsafeBytes { bytes in
            do throws(FileError) { try files.writeAll(target, at: fileBytes, bytes) } catch { failure = error }
        }
        if let failure { throw failure }
        runs.append(SortedRun(start: fileBytes, records: UInt64(pending.count)))
        fileBytes += UInt64(pending.count * MemoryLayout<Record>.stride)
        pending.removeAll(keepingCapacity: true)
    }

    private func spillFile() throws(FileError) -> Descriptor {
        if let file { return file }
        let directory = try files.openDirectory(directoryPath)
        defer { files.close(directory) }
        let made = try files.createUnnamed(in: directory, mode: 0o600)
        file = made
        return made
    }

    /// Hands every record to `body` in ascending order, and is empty afterwards.
    package func drain(_ body: (Record) throws(FileError) -> Void) throws(FileError) {
        guard !runs.isEmpty else {
            pending.sort()
            for record in pending { try body(record) }
            pending = []
            return
        }
        if !pending.isEmpty { try spill() }
        pending = []
        guard let file else { return }
        var merge = try RunMerge<Record>(readers(of: file))
        while let record = try merge.next() { try body(record) }
        runs = []
    }

    private func readers(of file: Descriptor) -> [RunReader<Record>] {
        let bytes = max(4096, min(1 << 20, memoryBytes / runs.count))
        let records = max(1, bytes / MemoryLayout<Record>.stride)
        return runs.map { RunReader(files, file, $0, bufferRecords: records) }
    }
}
