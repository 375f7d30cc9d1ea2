// The form of segments: whole, in part, damaged, and of other versions.

import AnnalsMirror
import TestSupport
import Testing

@Suite struct SegmentTests {
    static func segment(
        _ bodies: [[UInt8]], from number: UInt64 = 7, group: String = "notes", sender: String = "Anna’s laptop"
    ) -> Segment {
        let messages = bodies.enumerated().map { OutgoingMessage(number: number + UInt64($0), body: $1) }
        return Segment(
            group: group, sender: sender, run: 0x1234_5678_9abc_def0, serial: 9, oldestKept: 4, messages: messages)
    }

    @Test(
        arguments: [
            [[]], [[1]], [[1, 2, 3], [], [4]], [[UInt8](repeating: 0, count: 70_000)],
            Array(repeating: [5], count: 1000),
        ] as [[[UInt8]]])
    func encodedSegmentIsReadUnchanged(bodies: [[UInt8]]) {
        let segment = Self.segment(bodies)
        #expect(Segment.read(segment.encoded()) == .complete(segment))
    }

    @Test func numbersNeedNotBeInOrder() {
        var segment = Self.segment([[1], [2], [3]])
        segment.messages[0].number = .max
        segment.messages[1].number = 0
        #expect(segment.numbers == 0 ... .max)
        #expect(Segment.read(segment.encoded()) == .complete(segment))
    }

    @Test func partOfASegmentIsIncomplete() {
        let bytes = Self.segment([[1, 2, 3], [], [4, 5]]).encoded()
        for count in 0..<bytes.count {
            #expect(Segment.read(Array(bytes[..<count])) == .incomplete, "The first \(count) bytes are not incomplete.")
        }
    }

    /// A length that is flipped upwards makes the file look incomplete only if the header's checksum agrees, which it
    /// does not.
    @Test func flippedByteIsDamage() {
        let bytes = Self.segment([[1, 2, 3], [], [4, 5]]).encoded()
        for index in bytes.indices {
            for change: UInt8 in [1, 0x10, 0x80, 0xff] {
                var flipped = bytes
                flipped[index] ^= change
                let reading = Segment.read(flipped)
                let isExpected =
                    switch reading {
                    case .damaged: true
                    // The header's length says that more is to come.
                    case .incomplete: (12..<16).contains(index)
                    default: false
                    }
                #expect(isExpected, "Byte \(index) changed by \(change) is read as \(reading).")
            }
        }
    }

    @Test func swappedMessagesAreDamage() {
        let bytes = Self.segment([[1, 1], [2, 2]], sender: "a").encoded()
        let end = bytes.count - 8
        let first = bytes[(end - 44)..<(end - 22)]
        let second = bytes[(end - 22)..<end]
        let swapped = Array(bytes[..<(end - 44)] + second + first + bytes[end...])
        guard case .damaged(end, _) = Segment.read(swapped) else {
            Issue.record("Swapped messages are read as \(Segment.read(swapped)).")
            return
        }
    }

    @Test func messageOfAnotherSegmentIsDamage() {
        let one = Self.segment([[1, 1]], sender: "a").encoded()
        let two = Self.segment([[2, 2]], from: 8, sender: "b").encoded()
        let end = one.count - 8
        let mixed = Array(one[..<(end - 22)] + two[(end - 22)..<end] + one[end...])
        guard case .damaged(end - 22, _) = Segment.read(mixed) else {
            Issue.record("A message of another segment is read as \(Segment.read(mixed)).")
            return
        }
    }

    @Test func longerFileIsDamage() {
        let bytes = Self.segment([[1]]).encoded()
        guard case .damaged(bytes.count, _) = Segment.read(bytes + [0]) else {
            Issue.record("A longer file is read as \(Segment.read(bytes + [0])).")
            return
        }
    }

    @Test func emptyRoomOfASegmentIsDamage() {
        let count = Self.segment([[1]]).encoded().count
        guard case .damaged = Segment.read([UInt8](repeating: 0, count: count)) else {
            Issue.record("Zeros are read as a segment.")
            return
        }
    }

    @Test(arguments: 0..<20 as Range<UInt64>)
    func randomBytesAreNotASegment(seed: UInt64) {
        var random = SeededRandom(seed)
        let whole = Self.segment([[1, 2, 3], Array(repeating: 9, count: 100), []])
        let bytes = whole.encoded()
        for _ in 0..<500 {
            var other = bytes
            for _ in 0...random.next(below: 6) {
                let start = random.next(below: other.count)
                let count = min(random.next(below: 40), other.count - start)
                for index in start..<start + count { other[index] = UInt8(truncatingIfNeeded: random.next()) }
            }
            if random.happens(0.3) { other.removeLast(random.next(below: other.count)) }
            if random.happens(0.3) { other += (0..<random.next(below: 50)).map { _ in 0 } }
            if case .complete(let found) = Segment.read(other) {
                #expect(found == whole, "With seed \(seed) damaged bytes are read as another segment.")
            }
        }
        for count in 0..<300 {
            var bytes = (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            if case .complete = Segment.read(bytes) { Issue.record("Random bytes of seed \(seed) are a segment.") }
            bytes = Array("ANNALSEG".utf8) + bytes
            if case .complete = Segment.read(bytes) { Issue.record("Random bytes of seed \(seed) are a segment.") }
        }
    }
}
