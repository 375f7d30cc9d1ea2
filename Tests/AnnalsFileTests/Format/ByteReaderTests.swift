// The reader never leaves its bytes; the writer returns what was appended.

import Annals
import Testing

@Suite struct ByteReaderTests {
    @Test func integersAreReadBackLittleEndian() throws {
        var writer = ByteWriter(capacity: 0)
        writer.append(0x01 as UInt8)
        writer.append(0x0302 as UInt16)
        writer.append(0x0706_0504 as UInt32)
        writer.append(0x0f0e_0d0c_0b0a_0908 as UInt64)
        writer.append(-2 as Int16)
        writer.append(Int64.min)
        #expect(Array(writer.bytes.prefix(15)) == (1...15).map { UInt8($0) })
        var reader = ByteReader(writer.bytes)
        #expect(try reader.readUInt8() == 0x01)
        #expect(try reader.readUInt16() == 0x0302)
        #expect(try reader.readUInt32() == 0x0706_0504)
        #expect(try reader.readUInt64() == 0x0f0e_0d0c_0b0a_0908)
        #expect(try reader.readUInt16() == 0xfffe)
        #expect(try reader.readInt64() == .min)
        try reader.finish()
    }

    @Test func aFieldBeyondTheEndIsDamageAtItsOffset() {
        let bytes: [UInt8] = [1, 2, 3]
        bytes.withUnsafeBytes { buffer in
            var reader = ByteReader(buffer, fileOffset: 100)
            #expect(throws: damaged(at: 100)) { try reader.readUInt32() }
            #expect(throws: Never.self) { try reader.readUInt8() }
            #expect(throws: damaged(at: 101)) { try reader.readUInt64() }
            #expect(throws: damaged(at: 101)) { try reader.readBytes(3) }
            #expect(throws: damaged(at: 101)) { try reader.readBytes(-1) }
            #expect(throws: damaged(at: 101)) { try reader.readBytes(.max) }
            #expect(reader.remaining == 2)
        }
    }

    @Test func anEmptyBufferHasNothing() throws {
        var reader = ByteReader(UnsafeRawBufferPointer(start: nil, count: 0))
        #expect(try reader.readBytes(0).isEmpty)
        #expect(try reader.readText(0) == "")
        #expect(throws: StoreError.self) { try reader.readUInt8() }
    }

    @Test func skippedBytesMustBeZero() throws {
        try ([5, 0, 0, 0, 0, 0, 0, 0] as [UInt8]).withUnsafeBytes {
            var reader = ByteReader($0)
            _ = try reader.readUInt8()
            try reader.readZeros(7)
            #expect(reader.isAtEnd)
        }
        ([5, 0, 0, 0, 0, 0, 1, 0] as [UInt8]).withUnsafeBytes {
            var reader = ByteReader($0)
            _ = try? reader.readUInt8()
            #expect(throws: StoreError.self) { try reader.readZeros(7) }
        }
    }

    @Test(
        arguments: [[0xc0, 0x80], [0xed, 0xa0, 0x80], [0xff], [0xe2, 0x82], [0xf4, 0x90, 0x80, 0x80]] as [[UInt8]])
    func invalidTextIsDamage(bytes: [UInt8]) {
        bytes.withUnsafeBytes { buffer in
            var reader = ByteReader(buffer)
            #expect(throws: StoreError.self) { try reader.readText(buffer.count) }
        }
    }

    @Test func theWriterKeepsItsBytesWhenItGrows() {
        var writer = ByteWriter(capacity: 0)
        for number in 0..<10_000 as Range<UInt64> { writer.append(number) }
        var reader = ByteReader(writer.bytes)
        for number in 0..<10_000 as Range<UInt64> { #expect((try? reader.readUInt64()) == number) }
    }

    @Test func theWriterAppendsPadsPatchesAndTruncates() {
        var writer = ByteWriter()
        writer.append([1, 2, 3])
        writer.appendPadding()
        writer.appendPadding()
        writer.append(text: "\u{e9}")
        writer.appendZeros(2)
        writer.patch(0xbbaa as UInt16, at: 1)
        writer.patch(0x81 as UInt8, at: 0)
        #expect(Array(writer.bytes) == [0x81, 0xaa, 0xbb, 0, 0, 0, 0, 0, 0xc3, 0xa9, 0, 0])
        writer.truncate(to: 2)
        writer.appendPadding()
        #expect(Array(writer.bytes) == [0x81, 0xaa, 0, 0, 0, 0, 0, 0])
    }

    private func damaged(at offset: UInt64) -> StoreError {
        StoreError(.damaged, "A field extends beyond the bytes that contain it.", offset: offset)
    }
}
