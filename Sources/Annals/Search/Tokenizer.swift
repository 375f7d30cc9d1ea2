// Divides a text into the terms by which it is found. The index and the queries use the same division.
//
// A word is a run of letters, digits and their marks: "x86" is one word. All else separates words, also "_", "." and
// "'". A word is folded: without cases (full case folding), diacritics, Hebrew points and Arabic vowels, without width
// and other forms (NFKC), with ASCII digits, and with ø, æ and the like as people type them. Marks that make another
// word stay, such as the vowels of Hindi and the voicing of Kana.
//
// Emoji and other pictures are terms, one for each scalar. The colours and joiners between them are left out. Other
// symbols separate words.
//
// Chinese, Japanese, Korean, Thai and other scripts are written without spaces. A run ABCD of their characters has the
// terms AB, BC, CD and D. So one character is found as a prefix, and a word as the phrase of its pairs.
//
// Invariants:
// TZ1  Texts that are equal in Swift have the same terms.
// TZ2  A word divided again is the one term that it is, and every term is in the form NFC.
// TZ3  The terms of any bytes lie in the text in order. Bytes that are not valid UTF-8 separate words.
// TZ4  A term has at most 64 bytes, each of the two characters of a pair at most 32: more scalars are left out.

/// One occurrence of a term in a text.
package struct TermPlace: Hashable, Sendable {
    /// 0, 1, 2 … in this text.
    package var position: Int
    /// Offsets in the text's UTF-8. The term ends before `end`.
    package var start: Int
    /// The end of the first character of a pair; otherwise the end.
    package var head: Int
    package var end: Int
    /// Whether the term is a pair of characters, or the last character of a run without spaces.
    package var isPair: Bool
}

/// Divides texts into folded terms.
package struct Tokenizer: Sendable {
    /// Increases if a later release divides or folds any text differently: indexes are made again then.
    package static let version = 1
    /// Longer words are cut at a scalar boundary.
    package static let maximumTermBytes = 64

    package init() {}

    /// Calls `body` with the folded UTF-8 of each term, in order. The bytes are valid until `body` returns.
    package mutating func forEachTerm(
        of text: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer, TermPlace) -> Void
    ) {
        withUnsafeTemporaryAllocation(byteCount: TermAssembly.bufferBytes, alignment: 1) { buffer in
            var terms = TermAssembly(buffer)
            var offset = 0
            while offset < text.count {
                let next =
                    text[offset] < 0x80
                    ? Self.readASCII(text, offset, &terms, body) : Self.readScalars(text, offset, &terms, body)
                assert(next > offset && next <= text.count, "TZ3: reading a text does not advance.")
                offset = next
            }
            terms.finish(body)
        }
    }

    /// Reads ASCII letters and digits, or one ASCII separator.
    @inline(__always)
    private static func readASCII(
        _ text: UnsafeRawBufferPointer, _ offset: Int, _ terms: inout TermAssembly,
        _ body: (UnsafeRawBufferPointer, TermPlace) -> Void
    ) -> Int {
        guard TermAssembly.isWordByte(text[offset]) else {
            terms.finish(body)
            return offset &+ 1
        }
        terms.beginWord(at: offset, body)
        return terms.appendWordBytes(text, offset)
    }

    /// Reads scalars until the next ASCII or malformed byte, and that byte too if it is the first one. A cluster is a
    /// scalar with the following marks: only within it scalars join or change their order.
    private static func readScalars(
        _ text: UnsafeRawBufferPointer, _ offset: Int, _ terms: inout TermAssembly,
        _ body: (UnsafeRawBufferPointer, TermPlace) -> Void
    ) -> Int {
        guard var first = SourceScalar(text, offset) else {
            terms.finish(body)
            return offset &+ 1
        }
        var start = offset
        while true {
            var (end, next) = (start &+ first.length, SourceScalar(text, start &+ first.length))
            guard let follower = next, follower.folding.extends else {
                terms.append(first.scalar, first.folding, start, end, body)
                guard let follower = next else { return end }
                (start, first) = (end, follower)
                continue
            }
            var cluster = ClusterOrder(first.folding)
            while let mark = next, mark.folding.extends {
                cluster.add(mark.folding)
                end &+= mark.length
                next = SourceScalar(text, end)
            }
            if cluster.isInOrder {
                terms.append(first.scalar, first.folding, start, start &+ first.length, body)
                appendMarks(text, start &+ first.length, end, &terms, body)
            } else {
                appendNormalized(text, start, end, &terms, body)
            }
            guard let follower = next else { return end }
            (start, first) = (end, follower)
        }
    }

    private static func appendMarks(
        _ text: UnsafeRawBufferPointer, _ start: Int, _ end: Int, _ terms: inout TermAssembly,
        _ body: (UnsafeRawBufferPointer, TermPlace) -> Void
    ) {
        var offset = start
        while offset < end, let mark = SourceScalar(text, offset) {
            offset &+= mark.length
            terms.append(mark.scalar, mark.folding, offset &- mark.length, offset, body)
        }
    }

    /// Appends a cluster whose scalars may compose or change their order.
    @inline(never)
    private static func appendNormalized(
        _ text: UnsafeRawBufferPointer, _ start: Int, _ end: Int, _ terms: inout TermAssembly,
        _ body: (UnsafeRawBufferPointer, TermPlace) -> Void
    ) {
        var decomposed = Decomposition(capacity: end &- start)
        var offset = start
        while offset < end, let part = SourceScalar(text, offset) {
            decomposed.append(part.scalar)
            offset &+= part.length
        }
        var folded = Decomposition(capacity: end &- start)
        for scalar in decomposed.scalars() {
            let folding = TermFolding(scalar)
            if folding == .dropped { continue }
            guard let letters = folding.letters else {
                folded.append(scalar)
                continue
            }
            for place in letters { folded.append(TermFolding.letter(place)) }
        }
        for scalar in folded.composed() {
            let folding = TermFolding(scalar)
            assert(folding.letters == nil && folding != .dropped, "TZ2: a folded scalar is folded further.")
            terms.append(scalar, folding, start, end, body)
        }
        terms.extend(to: end)
    }
}

/// Whether the scalars of a cluster stay as they are, each folded alone.
private struct ClusterOrder {
    private(set) var isInOrder: Bool
    /// Whether a mark with a combining class may come before the next scalar.
    private var isAfterOrdered: Bool

    init(_ first: TermFolding) {
        isInOrder = !first.joins
        isAfterOrdered = first == .orderedMark || first.letters != nil
    }

    mutating func add(_ mark: TermFolding) {
        switch mark {
        case .dropped: return
        case .freeMark: isAfterOrdered = false
        case .orderedMark:
            if isAfterOrdered { isInOrder = false }
            isAfterOrdered = true
        default: isInOrder = false
        }
    }
}

/// A scalar of a text that is not ASCII.
private struct SourceScalar {
    let scalar: UInt32
    let length: Int
    let folding: TermFolding

    /// Nil at the text's end, at ASCII, and at bytes that are not valid UTF-8.
    @inline(__always)
    init?(_ text: UnsafeRawBufferPointer, _ offset: Int) {
        guard offset < text.count, text[offset] >= 0xC2, text[offset] <= 0xF4 else { return nil }
        let first = text[offset]
        length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2
        guard text.count &- offset >= length else { return nil }
        var value = UInt32(first) & (0x7F &>> UInt32(truncatingIfNeeded: length))
        for place in 1..<length {
            let byte = text[offset &+ place]
            guard byte & 0xC0 == 0x80 else { return nil }
            value = value &<< 6 | UInt32(byte & 0x3F)
        }
        let least: UInt32 = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000
        guard value >= least, value <= 0x10FFFF, value & 0xFFFF_F800 != 0xD800 else { return nil }
        scalar = value
        folding = TermFolding(value)
    }
}
