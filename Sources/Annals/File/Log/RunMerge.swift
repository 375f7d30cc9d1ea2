// Reads sorted runs back, and merges them with a heap.

/// Reads the records of one run through a buffer of its own.
struct RunReader<Record: SortRecord> {
    private let files: any FileSystem
    private let file: Descriptor
    private let bufferRecords: Int
    private var run: SortedRun
    private var buffer: [Record] = []
    private var position = 0

    init(_ files: any FileSystem, _ file: Descriptor, _ run: SortedRun, bufferRecords: Int) {
        (self.files, self.file, self.run, self.bufferRecords) = (files, file, run, bufferRecords)
    }

    mutating func next() throws(StoreError) -> Record? {
        if position == buffer.count {
            guard run.records > 0 else { return nil }
            try fill()
        }
        defer { position += 1 }
        return buffer[position]
    }

    /// Sound because the records are bytes without pointers, and only bytes that were read become visible.
    private mutating func fill() throws(StoreError) {
        assert(position == buffer.count && run.records > 0, "A buffer is read again before it is used up.")
        let count = Int(min(UInt64(bufferRecords), run.records))
        let bytes = count * MemoryLayout<Record>.stride
        var failure: StoreError?
        buffer = [Record](unsafeUninitializedCapacity: count) { target, initialized in
            let raw = UnsafeMutableRawBufferPointer(target)
            do throws(StoreError) {
                try files.readAll(file, at: run.start, into: UnsafeMutableRawBufferPointer(rebasing: raw[..<bytes]))
                initialized = count
            } catch { failure = error }
        }
        if let failure { throw failure }
        position = 0
        run.start += UInt64(bytes)
        run.records -= UInt64(count)
    }
}

/// Returns the smallest record of several readers, one at a time.
struct RunMerge<Record: SortRecord> {
    private struct Head {
        var record: Record
        var reader: Int
    }

    private var readers: [RunReader<Record>]
    /// A binary heap: no record is smaller than that of its parent, the one at half its index.
    private var heap: [Head] = []

    init(_ readers: [RunReader<Record>]) throws(StoreError) {
        self.readers = readers
        for index in readers.indices {
            if let record = try self.readers[index].next() { heap.append(Head(record: record, reader: index)) }
        }
        for index in stride(from: heap.count / 2, through: 0, by: -1) { siftDown(index) }
    }

    mutating func next() throws(StoreError) -> Record? {
        guard let least = heap.first else { return nil }
        if let record = try readers[least.reader].next() {
            heap[0].record = record
        } else {
            heap[0] = heap[heap.count - 1]
            heap.removeLast()
        }
        siftDown(0)
        assert(heap.first.map { !($0.record < least.record) } ?? true, "ES2: a run is not sorted.")
        return least.record
    }

    private mutating func siftDown(_ start: Int) {
        var parent = start
        while true {
            var least = parent
            for child in (2 * parent + 1)...(2 * parent + 2) {
                if child < heap.count, heap[child].record < heap[least].record { least = child }
            }
            if least == parent { return }
            heap.swapAt(least, parent)
            parent = least
        }
    }
}
