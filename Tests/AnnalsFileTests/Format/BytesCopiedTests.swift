// Bytes that are copied while they are looked at: every size up to several words, with one byte that is no ASCII
// anywhere.

import Annals
import Testing

@Suite struct BytesCopiedTests {
    @Test func everySizeIsCopiedAndNoByteIsOverlooked() {
        for size in Array(0...300) + [511, 512, 513, 600] {
            let bytes = (0..<size).map { UInt8(0x21 + $0 % 90) }
            #expect(Self.append(bytes) == true, "\(size) bytes")
            for position in 0..<size {
                var other = bytes
                other[position] = 0x80
                #expect(Self.append(other) == false, "byte \(position) of \(size)")
            }
        }
    }

    @Test func noByteOfATextIsOverlooked() {
        for size in 0...70 {
            let bytes = (0..<size).map { UInt8(0x21 + $0 % 90) }
            #expect(bytes.withUnsafeBytes { $0.text } == String(decoding: bytes, as: UTF8.self))
            for position in 0..<size {
                var other = bytes
                other[position] = 0x80
                #expect(other.withUnsafeBytes { $0.text == nil && !$0.isText }, "byte \(position) of \(size)")
                other.replaceSubrange(position...position, with: [0xC3, 0xA9])
                #expect(other.withUnsafeBytes { $0.text } == String(decoding: other, as: UTF8.self))
            }
        }
    }

    /// Appends the bytes between others; nil if something else than they stand there then.
    private static func append(_ bytes: [UInt8]) -> Bool? {
        var writer = ByteWriter(capacity: 64)
        writer.append(UInt8(7))
        let isASCII = bytes.withUnsafeBytes { writer.appendNotingASCII($0) }
        writer.append(UInt8(9))
        return Array(writer.bytes) == [7] + bytes + [9] ? isASCII : nil
    }
}
