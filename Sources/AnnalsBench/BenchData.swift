// The benchmark's rows: the same that the peers make, from the same generator.

/// splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
struct SplitMix {
    var state: UInt64

    @inline(__always)
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    /// At least `count` letters, in whole words.
    @inline(__always)
    mutating func fill(_ text: UnsafeMutableRawPointer, _ count: Int) {
        var offset = 0
        while offset < count {
            let letters = (next() & 0x0F0F_0F0F_0F0F_0F0F) &+ 0x6161_6161_6161_6161
            text.storeBytes(of: letters.littleEndian, toByteOffset: offset, as: UInt64.self)
            offset &+= 8
        }
    }
}

/// One row with its texts in one buffer. Reused for all rows, so that making a row allocates nothing.
///
/// Sound: the buffer is this object's alone, and each text's place in it is 8 bytes longer than the longest text.
final class BenchRow {
    private let text = UnsafeMutableRawPointer.allocate(byteCount: 320, alignment: 8)
    private(set) var titleBytes = 0
    private(set) var urlBytes = 0
    private(set) var noteBytes = 0
    private(set) var created = 0.0
    private(set) var rank: Int64 = 0
    private(set) var flag = false

    init() { text.initializeMemory(as: UInt8.self, repeating: 0, count: 320) }

    deinit { text.deallocate() }

    private static let urlStart = 40
    private static let noteStart = 120
    private static let urlPrefix: StaticString = "https://example.com/"

    var title: UnsafeRawBufferPointer { part(0, titleBytes) }
    var url: UnsafeRawBufferPointer { part(Self.urlStart, urlBytes) }
    var note: UnsafeRawBufferPointer { part(Self.noteStart, noteBytes) }
    var variableBytes: Int { titleBytes + urlBytes + noteBytes }

    private func part(_ start: Int, _ count: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: text + start, count: count)
    }

    /// Makes the row with this number, from 1.
    func make(_ number: UInt64) {
        var generator = SplitMix(state: number)
        let lengths = generator.next()
        titleBytes = 16 + Int(lengths % 17)
        urlBytes = 52 + Int((lengths >> 16) % 17)
        noteBytes = 88 + Int((lengths >> 32) % 65)
        generator.fill(text, titleBytes)
        (text + Self.urlStart).copyMemory(from: Self.urlPrefix.utf8Start, byteCount: 20)
        generator.fill(text + Self.urlStart + 20, urlBytes - 20)
        generator.fill(text + Self.noteStart, noteBytes)
        created = 700_000_000.0 + Double(generator.next() % 1_000_000_000) / 1000.0
        rank = Int64(generator.next() % 1_000_000)
        flag = generator.next() & 1 == 1
    }

    /// The row's checksum as the peers compute it.
    func checksum(_ number: UInt64) -> UInt64 {
        number &+ created.bitPattern &+ UInt64(bitPattern: rank) &+ (flag ? 1 : 0) &+ Self.sum(title) &+ Self.sum(url)
            &+ Self.sum(note)
    }

    /// The sum of a text's little-endian 64-bit words, the last one filled up with zeros.
    static func sum(_ text: UnsafeRawBufferPointer) -> UInt64 {
        guard let start = text.baseAddress else { return 0 }
        let count = text.count
        let position = count & ~7
        var sum: UInt64 = 0
        for offset in stride(from: 0, to: position, by: 8) {
            sum &+= UInt64(littleEndian: start.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
        }
        guard position < count else { return sum }
        if count >= 8 {
            // The last eight bytes, without those that were summed already.
            let word = UInt64(littleEndian: start.loadUnaligned(fromByteOffset: count &- 8, as: UInt64.self))
            return sum &+ (word &>> UInt64(truncatingIfNeeded: (8 &- (count &- position)) &* 8))
        }
        var last: UInt64 = 0
        withUnsafeMutableBytes(of: &last) { $0.copyMemory(from: UnsafeRawBufferPointer(start: start, count: count)) }
        return UInt64(littleEndian: last)
    }
}

/// A text of the generator's letters, in a buffer that is used again.
///
/// Sound: the buffer is this object's alone and 8 bytes longer than the longest text.
final class BenchText {
    private let text = UnsafeMutableRawPointer.allocate(byteCount: 168, alignment: 8)
    private var count = 0

    deinit { text.deallocate() }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: text, count: count) }

    func make(_ count: Int, _ generator: inout SplitMix) {
        self.count = count
        generator.fill(text, count)
    }
}
