// Holds the frames of a long transaction until its commit: memory first, then an unnamed file.

/// Bytes that are appended and later read back, in memory up to a limit.
///
/// The first `fileBytes` bytes are in the file, the rest in `memory`. The file has no name, so the system frees it in
/// any case.
///
/// With a file, little is gathered in memory: bytes written just before are still in the processor's caches, from which
/// the system copies them several times as fast.
struct Spool: ~Copyable {
    private let files: any FileSystem
    private let directory: Descriptor
    private let limit: Int
    /// The number of bytes gathered for one write to the file.
    private let step: Int
    private var memory = ByteWriter(withoutMemory: ())
    private var file: Descriptor?
    private var fileBytes: UInt64 = 0

    init(_ files: any FileSystem, directory: Descriptor, limit: Int, step: Int) {
        (self.files, self.directory, self.limit, self.step) = (files, directory, limit, step)
    }

    /// An empty spool of the same kind.
    func another() -> Spool { Spool(files, directory: directory, limit: limit, step: step) }

    deinit { if let file { files.close(file) } }

    var count: UInt64 { fileBytes + UInt64(memory.count) }

    mutating func append(_ bytes: UnsafeRawBufferPointer) throws(StoreError) {
        if memory.count + bytes.count > (file == nil ? limit : step), memory.count > 0 { try moveToFile() }
        guard let file, memory.count == 0, bytes.count >= step / 2 else { return memory.append(bytes) }
        try files.writeAll(file, at: fileBytes, bytes)
        fileBytes += UInt64(bytes.count)
    }

    private mutating func moveToFile() throws(StoreError) {
        if file == nil { file = try files.createUnnamed(in: directory, mode: 0o600) }
        guard let file else { return }
        try files.writeAll(file, at: fileBytes, memory.bytes)
        fileBytes += UInt64(memory.count)
        // Memory is limited from now on, because a file exists.
        if memory.count > step { memory = ByteWriter(withoutMemory: ()) } else { memory.truncate() }
    }

    /// Copies appended bytes. Bytes of one append are never split between file and memory.
    func read(at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer) throws(StoreError) {
        if offset >= fileBytes {
            let start = Int(offset - fileBytes)
            precondition(
                start + buffer.count <= memory.count,
                "Only bytes that were written to a spool can be read from it.")
            buffer.copyMemory(from: memory.bytes.slice(start, buffer.count))
            return
        }
        guard let file else { return }
        assert(offset + UInt64(buffer.count) <= fileBytes, "The bytes of one append are in two places.")
        try files.readAll(file, at: offset, into: buffer)
    }

    /// Lends bytes that one call appended, in place if they are in memory. The spool must not change during the call.
    func withBytes<Result>(
        at offset: UInt64, count: Int, _ body: (UnsafeRawBufferPointer) throws(StoreError) -> Result
    ) throws(StoreError) -> Result {
        assert(offset + UInt64(count) <= self.count, "A spool lends more than it has.")
        if offset >= fileBytes { return try body(memory.bytes.slice(Int(offset - fileBytes), count)) }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 16)
        defer { buffer.deallocate() }
        try read(at: offset, into: buffer)
        return try body(UnsafeRawBufferPointer(buffer))
    }
}

extension FileSystem {
    /// Writes all bytes, in any number of calls.
    func writeAll(_ file: Descriptor, at offset: UInt64, _ bytes: UnsafeRawBufferPointer) throws(StoreError) {
        var done = 0
        while done < bytes.count {
            done += try self.write(
                file, at: offset + UInt64(done), from: UnsafeRawBufferPointer(rebasing: bytes[done...]))
            assert(done <= bytes.count, "More bytes were written than were given.")
        }
    }

    /// Fills the buffer from a temporary file, in any number of calls.
    func readAll(
        _ file: Descriptor, at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer
    ) throws(StoreError) {
        var done = 0
        while done < buffer.count {
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[done...])
            let read = try read(file, at: offset + UInt64(done), into: rest)
            guard read > 0 else {
                throw StoreError(.inputOutput, "A temporary file is shorter than the bytes written to it: try again.")
            }
            done += read
            assert(done <= buffer.count, "More bytes were read than were asked for.")
        }
    }
}
