// Assembles folded scalars into terms: words, pairs of characters, and pictures.

/// The term that is being read.
struct TermAssembly {
    private enum Mode { case nothing, word, run, picture }

    /// The characters of a pair, or a word, and one scalar more.
    static let bufferBytes = Tokenizer.maximumTermBytes &+ 4
    private static let maximumCharacterBytes = Tokenizer.maximumTermBytes / 2

    /// Sound: the tokenizer keeps the memory until it is done with the assembly.
    private let buffer: UnsafeMutableRawBufferPointer
    private var mode = Mode.nothing
    /// The number of bytes in the buffer, and the number at which the term or character is full.
    private var (length, limit) = (0, 0)
    /// In a run, the bytes of the character before the last one; otherwise 0.
    private var headLength = 0
    private var position = 0
    private var (start, end) = (0, 0)
    /// In a run, the end of the character before the last one, and the start of the last one.
    private var (head, lastStart) = (0, 0)

    init(_ buffer: UnsafeMutableRawBufferPointer) { self.buffer = buffer }

    // MARK: ASCII

    @inline(__always)
    static func isWordByte(_ byte: UInt8) -> Bool { folded(byte) != 0x20 }

    /// A space for bytes that are no ASCII letters or digits.
    @inline(__always)
    private static func folded(_ byte: UInt8) -> UInt8 { SearchTables.wordBytes.utf8Start[Int(byte)] }

    @inline(__always)
    mutating func beginWord(at offset: Int, _ body: (UnsafeRawBufferPointer, TermPlace) -> Void) {
        if mode == .word { return }
        finish(body)
        (mode, start, length, limit) = (.word, offset, 0, Tokenizer.maximumTermBytes)
    }

    /// Appends ASCII letters and digits to the word; returns the offset after them.
    @inline(__always)
    mutating func appendWordBytes(_ text: UnsafeRawBufferPointer, _ offset: Int) -> Int {
        var (at, count) = (offset, length)
        let last = offset &+ min(text.count &- offset, limit &- count)
        while at < last {
            let byte = Self.folded(text[at])
            if byte == 0x20 { break }
            buffer[count] = byte
            count &+= 1
            at &+= 1
        }
        if at == last { while at < text.count, Self.isWordByte(text[at]) { at &+= 1 } }
        (length, end) = (count, at)
        return at
    }

    // MARK: Scalars

    /// Appends a scalar after folding it.
    @inline(__always)
    mutating func append(
        _ scalar: UInt32, _ folding: TermFolding, _ start: Int, _ end: Int,
        _ body: (UnsafeRawBufferPointer, TermPlace) -> Void
    ) {
        guard let letters = folding.letters else { return appendFolded(scalar, folding, start, end, body) }
        for place in letters {
            let letter = TermFolding.letter(place)
            appendFolded(letter, TermFolding(letter), start, end, body)
        }
    }

    private mutating func appendFolded(
        _ scalar: UInt32, _ folding: TermFolding, _ start: Int, _ end: Int,
        _ body: (UnsafeRawBufferPointer, TermPlace) -> Void
    ) {
        assert(folding.letters == nil, "TZ2: a folded scalar is folded further.")
        switch folding {
        case .separator: finish(body)
        case .letter:
            beginWord(at: start, body)
            write(scalar)
            self.end = end
        case .withoutSpace:
            beginCharacter(at: start, body)
            write(scalar)
            self.end = end
        case .picture:
            finish(body)
            (mode, self.start, length, limit) = (.picture, start, 0, Tokenizer.maximumTermBytes)
            write(scalar)
            self.end = end
        case .dropped: extend(to: end)
        default:
            // A mark without a character is left out.
            if mode == .word || mode == .run { write(scalar) }
            extend(to: end)
        }
    }

    /// Counts a mark after the last scalar as a part of its term.
    mutating func extend(to end: Int) { if mode != .nothing { self.end = end } }

    private mutating func beginCharacter(at offset: Int, _ body: (UnsafeRawBufferPointer, TermPlace) -> Void) {
        if mode != .run {
            finish(body)
            (mode, length, headLength) = (.run, 0, 0)
        } else {
            if headLength > 0 { emitPair(body) }
            buffer.copyMemory(from: UnsafeRawBufferPointer(buffer).slice(headLength, length &- headLength))
            length &-= headLength
            (headLength, start, head) = (length, lastStart, end)
        }
        (lastStart, limit) = (offset, length &+ Self.maximumCharacterBytes)
    }

    /// Writes a scalar, unless the term is full (TZ4).
    @inline(__always)
    private mutating func write(_ scalar: UInt32) {
        let count = scalar < 0x80 ? 1 : scalar < 0x800 ? 2 : scalar < 0x10000 ? 3 : 4
        guard limit &- length >= count else {
            limit = length
            return
        }
        var rest = scalar
        for place in stride(from: count &- 1, to: 0, by: -1) {
            buffer[length &+ place] = 0x80 | UInt8(truncatingIfNeeded: rest & 0x3F)
            rest &>>= 6
        }
        let marks: UInt32 = count == 1 ? 0 : count == 2 ? 0xC0 : count == 3 ? 0xE0 : 0xF0
        buffer[length] = UInt8(truncatingIfNeeded: marks | rest)
        length &+= count
        assert(length <= Tokenizer.maximumTermBytes, "TZ4: a term is too long.")
    }

    // MARK: Terms

    /// Ends the term that is being read.
    @inline(__always)
    mutating func finish(_ body: (UnsafeRawBufferPointer, TermPlace) -> Void) {
        if mode == .nothing { return }
        if mode == .run { return finishRun(body) }
        emit(0, TermPlace(position: position, start: start, head: end, end: end, isPair: false), body)
        mode = .nothing
    }

    private mutating func finishRun(_ body: (UnsafeRawBufferPointer, TermPlace) -> Void) {
        if headLength > 0 { emitPair(body) }
        emit(headLength, TermPlace(position: position, start: lastStart, head: end, end: end, isPair: true), body)
        mode = .nothing
    }

    private mutating func emitPair(_ body: (UnsafeRawBufferPointer, TermPlace) -> Void) {
        emit(0, TermPlace(position: position, start: start, head: head, end: end, isPair: true), body)
    }

    @inline(__always)
    private mutating func emit(
        _ first: Int, _ place: TermPlace, _ body: (UnsafeRawBufferPointer, TermPlace) -> Void
    ) {
        body(UnsafeRawBufferPointer(rebasing: buffer[first..<length]), place)
        position &+= 1
    }
}
