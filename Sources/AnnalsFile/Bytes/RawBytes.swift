// Little-endian integers at byte offsets. Callers have checked that the bytes are there; debug builds check again.

extension UnsafeRawBufferPointer {
    @inline(__always)
    func integer<Integer: FixedWidthInteger & BitwiseCopyable>(at offset: Int, as type: Integer.Type) -> Integer {
        Integer(littleEndian: loadUnaligned(fromByteOffset: offset, as: type))
    }

    /// The bytes from `offset` on, as a buffer that counts from 0.
    @inline(__always)
    func slice(_ offset: Int, _ count: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: self[offset..<(offset + count)])
    }
}

extension UnsafeMutableRawBufferPointer {
    @inline(__always)
    func store<Integer: FixedWidthInteger & BitwiseCopyable>(_ value: Integer, at offset: Int) {
        storeBytes(of: value.littleEndian, toByteOffset: offset, as: Integer.self)
    }

    @inline(__always)
    func integer<Integer: FixedWidthInteger & BitwiseCopyable>(at offset: Int, as type: Integer.Type) -> Integer {
        UnsafeRawBufferPointer(self).integer(at: offset, as: type)
    }
}

extension Int {
    /// The next multiple of 8.
    @inline(__always)
    var paddedTo8: Int { (self &+ 7) & ~7 }
}
