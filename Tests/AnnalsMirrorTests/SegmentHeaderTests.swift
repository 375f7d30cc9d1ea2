// Headers whose checksum is right and whose content is wrong: from a writer with a mistake, or from a later one.

import Annals
import AnnalsMirror
import Testing

@Suite struct SegmentHeaderTests {
    /// A segment with other bytes at an offset of the header, and right checksums.
    private func segment(_ change: [UInt8], at offset: Int) -> [UInt8] {
        var bytes = SegmentTests.segment([[1], [2]]).encoded()
        bytes.replaceSubrange(offset..<offset + change.count, with: change)
        let count = Int(SegmentBytes.number(UInt32.self, in: bytes, at: 12))
        guard count <= bytes.count, count > 8 else { return bytes }
        func seal(_ end: Int, seed: UInt64) {
            var sum: [UInt8] = []
            SegmentBytes.append(SegmentBytes.checksum(bytes[..<end], seed: seed), to: &sum)
            bytes.replaceSubrange(end..<end + 8, with: sum)
        }
        seal(count - 8, seed: SegmentSeed.header)
        seal(bytes.count - 8, seed: SegmentSeed.whole)
        return bytes
    }

    @Test func laterVersionIsNamed() {
        #expect(Segment.read(segment([2, 0, 0, 0], at: 8)) == .laterVersion(2))
    }

    @Test(
        arguments: [
            ("bytes of the file: too many", 16, [0, 0, 0, 0, 0, 0, 0, 0x7f]),
            ("bytes of the file: too many for a number", 16, Array(repeating: 0xff, count: 8)),
            ("bytes of the file: none", 16, Array(repeating: 0, count: 8)),
            ("serial: none", 32, Array(repeating: 0, count: 8)),
            ("serial: too high", 32, Array(repeating: 0xff, count: 8)),
            ("oldest serial: none", 40, Array(repeating: 0, count: 8)),
            ("oldest serial: after the serial", 40, [10, 0, 0, 0, 0, 0, 0, 0]),
            ("lowest number: above the highest", 48, [100, 0, 0, 0, 0, 0, 0, 0]),
            ("highest number: below the lowest", 56, [0, 0, 0, 0, 0, 0, 0, 0]),
            ("count: other", 64, [3, 0, 0, 0]),
            ("count: as many as there can be", 64, [0xff, 0xff, 0xff, 0xff]),
            ("sender's name: too long", 68, [0xff, 0xff]),
            ("group's name: too long", 70, [0xff, 0xff]),
            ("sender's name: not UTF-8", 72, [0xff]),
            ("length of the header: shorter", 12, [60, 0, 0, 0]),
            ("length of the header: impossible", 12, [0xff, 0xff, 0, 0]),
        ] as [(String, Int, [UInt8])])
    func impossibleHeaderIsDamage(what: String, offset: Int, bytes: [UInt8]) {
        guard case .damaged = Segment.read(segment(bytes, at: offset)) else {
            Issue.record("A header with impossible \(what) is read as \(Segment.read(segment(bytes, at: offset))).")
            return
        }
    }
}
