// Assembles a key whose values may be far longer than memory, and cuts it.

/// A key that is being written to a writer, from `start` on.
///
/// 1. As long as `hashed` is 0, all bytes of the key are in the writer.
/// 2. Otherwise `hashed` is a multiple of the block size, `hash` is the hash of that number of bytes, and the writer
///    has the first 240 bytes and those that are not hashed yet.
struct IndexKeyAssembly {
    private let start: Int
    private var hashed: UInt64 = 0
    private var hash: UInt64 = 0

    init(start: Int) { self.start = start }

    /// The index in the writer of the first byte that is not hashed yet.
    private var pending: Int { hashed == 0 ? start : start + IndexKey.uncutBytes }

    /// Appends the component of a large value, in memory of a few blocks, or of a few pieces for a text.
    mutating func append(
        _ reference: LargeValueReference, isText: Bool, to writer: inout ByteWriter, _ large: IndexKey.LargeValueReader
    ) throws(StoreError) {
        var text = NormalFormStream()
        writer.append(OrderedKey.present)
        try large(reference) { (piece) throws(StoreError) in
            if isText { text.append(piece) { append($0, to: &writer) } } else { append(piece, to: &writer) }
        }
        text.finish { append($0, to: &writer) }
        writer.append(0 as UInt16)
    }

    /// Appends a piece of a component, without the presence byte and without the end.
    private mutating func append(_ piece: UnsafeRawBufferPointer, to writer: inout ByteWriter) {
        var part = ByteWriter(capacity: 2 * IndexKey.blockBytes)
        var rest = piece
        while !rest.isEmpty {
            let count = min(rest.count, IndexKey.blockBytes)
            part.truncate()
            OrderedKey.append(data: rest.slice(0, count), to: &part)
            writer.append(part.bytes.slice(1, part.count - 3))
            fold(&writer)
            rest = rest.slice(count, rest.count - count)
        }
    }

    /// Hashes the whole blocks and forgets them.
    private mutating func fold(_ writer: inout ByteWriter) {
        while writer.count - pending >= IndexKey.blockBytes {
            let from = pending
            hash = Checksum.hash(writer.bytes.slice(from, IndexKey.blockBytes), seed: hash)
            hashed += UInt64(IndexKey.blockBytes)
            assert(hashed % UInt64(IndexKey.blockBytes) == 0, "A block of another size is hashed.")
            let rest = writer.count - from - IndexKey.blockBytes
            let target = writer.mutableBytes(pending..<pending + rest)
            target.copyMemory(from: writer.bytes.slice(from + IndexKey.blockBytes, rest))
            writer.truncate(to: pending + rest)
        }
    }

    /// Cuts the key if it is too long.
    mutating func finish(in writer: inout ByteWriter) {
        guard hashed > 0 || writer.count - start > IndexKey.uncutBytes else { return }
        fold(&writer)
        let rest = writer.count - pending
        if rest > 0 { hash = Checksum.hash(writer.bytes.slice(pending, rest), seed: hash) }
        let keyBytes = hashed + UInt64(rest)
        writer.truncate(to: start + IndexKey.uncutBytes)
        writer.append(keyBytes.byteSwapped)
        writer.append(hash.byteSwapped)
        assert(writer.count - start == IndexKey.maximumBytes, "A cut key has another length.")
    }
}
