// The engine's tables of Unicode agree with the standard library: every scalar, and texts at random.

import Annals
import SimulatedDisk
import TestSupport
import Testing

@Suite struct NormalFormTests {
    private static func text(_ scalars: [UInt32]) -> String {
        String(String.UnicodeScalarView(scalars.compactMap { Unicode.Scalar($0) }))
    }

    private static func bytes(_ text: String) -> [UInt8] { Array(NormalForm.of(text).utf8) }

    /// NF1: every scalar alone and after a letter, and every one that combines before and after others that do.
    @Test func everyScalarIsEqualToItsNormalForm() {
        var combining: [UInt32] = []
        var isSwapped = 0
        for number in UInt32(0)...0x10FFFF {
            guard let scalar = Unicode.Scalar(number) else { continue }
            let (alone, after) = (Self.text([number]), Self.text([0x61, number, 0x323, 0x301]))
            let normal = NormalForm.of(alone)
            #expect(normal == alone && NormalForm.of(after) == after, "\(number)")
            if normal.utf8.count != alone.utf8.count || scalar.properties.canonicalCombiningClass != .notReordered {
                #expect(Self.bytes(normal) == Array(normal.utf8), "\(number)")
            }
            if scalar.properties.canonicalCombiningClass != .notReordered { combining.append(number) }
        }
        #expect(combining.count > 900)
        for left in combining {
            for right in combining where left < right && (left &+ right) % 7 == 0 {
                let (one, other) = (Self.text([0x61, left, right]), Self.text([0x61, right, left]))
                isSwapped += one == other ? 1 : 0
                #expect((one == other) == (Self.bytes(one) == Self.bytes(other)), "\(left) \(right)")
            }
        }
        #expect(isSwapped > 1000)
    }

    /// Swift 6.3 does not divide these before it orders marks. Keys follow Unicode.
    @Test(arguments: [(0xF73, 0xF72), (0xF75, 0xF74), (0xF81, 0xF80)] as [(UInt32, UInt32)])
    func signsOfTibetanAreDividedBeforeMarksAreOrdered(_ sign: UInt32, _ part: UInt32) {
        let divided = Self.text([0x62, 0xF71, part, 0x308])
        #expect(Self.bytes(Self.text([0x62, 0x308, sign])) == Array(divided.utf8))
        #expect(Self.bytes(divided) == Array(divided.utf8))
    }

    /// Every pair that composes, and every syllable of Hangul.
    @Test func composedTextEqualsDecomposedText() {
        for number in UInt32(0xC0)...0x30000 {
            guard Unicode.Scalar(number) != nil else { continue }
            let composed = Self.text([number])
            let parts = NormalForm.decomposed(composed)
            #expect(parts == composed)
            #expect(Self.bytes(parts) == Self.bytes(composed), "\(number)")
        }
        for syllable in UInt32(0xAC00)...0xD7A3 {
            let parts = NormalForm.decomposed(Self.text([syllable]))
            #expect(parts.unicodeScalars.count >= 2 && Self.bytes(parts) == Array(Self.text([syllable]).utf8))
        }
    }

    /// The order of the bytes is Swift's order, and equal bytes are equal texts.
    @Test(arguments: 1...4 as ClosedRange<UInt64>) func textsAreOrderedAsInSwift(_ seed: UInt64) {
        var random = SeededRandom(seed)
        var equal = 0
        for _ in 0..<40_000 {
            let left = Self.random(&random)
            let right = random.next() % 2 == 0 ? Self.random(&random) : Self.another(left, &random)
            let (a, b) = (Self.bytes(left), Self.bytes(right))
            let place: Comment =
                "seed \(seed): \(left.unicodeScalars.map(\.value)) \(right.unicodeScalars.map(\.value))"
            equal += left == right ? 1 : 0
            #expect((left == right) == (a == b), place)
            #expect(NormalForm.isBefore(left, right) == a.lexicographicallyPrecedes(b), place)
            // Swift takes the beginning of a text for the lesser one, even if later marks belong before its end.
            if left.utf8.starts(with: right.utf8) || right.utf8.starts(with: left.utf8) { continue }
            #expect((left < right) == a.lexicographicallyPrecedes(b), place)
        }
        #expect(equal > 10_000)
    }

    private static let alphabet: [UInt32] = [
        0, 0x41, 0x61, 0x7A, 0xC5, 0xE9, 0x212B, 0x2126, 0x300, 0x301, 0x308, 0x30A, 0x323, 0x327, 0x338, 0x344, 0x345,
        0x5B0,
        0x3B1, 0x1F80, 0x1E69, 0x1E9B, 0xFB2C, 0x1100, 0x1161, 0x11A8, 0xAC00, 0xAC01, 0xD7A3, 0x9C7, 0x9BE, 0x9D7,
        0xDD9, 0xDCF,
        0xDCA, 0xF71, 0xF72, 0xF74, 0x3099, 0x304B, 0x2F801, 0x1D15E, 0x1D165, 0x11131, 0x11127, 0x1133E, 0x11347,
        0xFB01,
        0x16D67, 0x16D68, 0x1611E, 0x16121, 0x113C2, 0x113B8, 0x105D2, 0x307, 0x1F600, 0x200D, 0x10FFFF,
    ]

    private static func random(_ random: inout SeededRandom) -> String {
        text(
            (0..<Int(random.next() % 8)).map { _ in
                switch random.next() % 8 {
                case 0: UInt32(random.next() % 0x3000)
                case 1: UInt32(0x300 + random.next() % 0x70)
                case 2: UInt32(0x1100 + random.next() % 0x100)
                case 3: UInt32(random.next() % 0x30000)
                default: alphabet[Int(random.next() % UInt64(alphabet.count))]
                }
            })
    }

    /// The text in another form: decomposed, and neighbours of different classes swapped.
    private static func another(_ text: String, _ random: inout SeededRandom) -> String {
        var scalars = Array(NormalForm.decomposed(text).unicodeScalars)
        for _ in 0..<4 where scalars.count > 1 {
            let place = Int(random.next() % UInt64(scalars.count - 1))
            let (a, b) = (scalars[place].properties, scalars[place + 1].properties)
            guard a.canonicalCombiningClass != b.canonicalCombiningClass, a.canonicalCombiningClass != .notReordered,
                b.canonicalCombiningClass != .notReordered
            else { continue }
            scalars.swapAt(place, place + 1)
        }
        return String(String.UnicodeScalarView(scalars))
    }

    @Test func aTextInPiecesHasTheSameNormalForm() {
        var random = SeededRandom(7)
        for _ in 0..<500 {
            let text = (0..<20).map { _ in Self.random(&random) }.joined()
            var stream = NormalFormStream()
            var result: [UInt8] = []
            var rest = Array(text.utf8)[...]
            while !rest.isEmpty {
                let piece = Array(rest.prefix(1 + Int(random.next() % 30)))
                rest = rest.dropFirst(piece.count)
                piece.withUnsafeBytes { bytes in stream.append(bytes) { result += $0 } }
            }
            stream.finish { result += $0 }
            #expect(result == Self.bytes(text), "\(text.unicodeScalars.map(\.value))")
        }
    }

    /// NF3.
    @Test func invalidBytesAreUnchanged() {
        for bytes: [UInt8] in [
            [0xC3], [0xE1, 0x80], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80], [0x65, 0xCC], [0x80],
        ] {
            var key = ByteWriter()
            bytes.withUnsafeBytes { OrderedKey.append(text: $0, to: &key) }
            #expect(Array(key.bytes) == [1] + bytes + [0, 0])
        }
    }

    @Test func keysOfEqualTextsAreEqual() {
        for (left, right) in [("\u{e9}\0a", "e\u{301}\0a"), ("\u{1e69}", "s\u{307}\u{323}"), ("a\0\0b", "a\0\0b")] {
            var first = ByteWriter()
            var second = ByteWriter()
            OrderedKey.append(string: left, to: &first)
            OrderedKey.append(string: right, to: &second)
            #expect(Array(first.bytes) == Array(second.bytes))
        }
        for count in Array(0..<20) + [31, 32, 33, 63, 64, 65, 95, 96, 97, 100, 127, 128, 129] {
            for place in 0..<count {
                // A mark at every place is noticed.
                let (before, after) = (
                    String(repeating: "a", count: place), String(repeating: "a", count: count - place)
                )
                var composed = ByteWriter()
                var decomposed = ByteWriter()
                OrderedKey.append(string: before + "\u{e9}" + after, to: &composed)
                OrderedKey.append(string: before + "e\u{301}" + after, to: &decomposed)
                #expect(Array(composed.bytes) == Array(decomposed.bytes))
                for byte in [0, 1, 0x7F] as [UInt8] {
                    var text = [UInt8](repeating: 0x61, count: count)
                    text[place] = byte
                    var first = ByteWriter()
                    var second = ByteWriter()
                    text.withUnsafeBytes { OrderedKey.append(text: $0, to: &first) }
                    text.withUnsafeBytes { OrderedKey.append(data: $0, to: &second) }
                    #expect(Array(first.bytes) == Array(second.bytes))
                }
            }
        }
    }
}
