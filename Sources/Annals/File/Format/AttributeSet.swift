// The set of attributes that an update wrote, by position: up to 64 of them without allocating.

/// Positions in an entity's attribute list, as bits of 64-bit words.
///
/// Invariant: the last word is not zero, so equal sets are equal words (F17).
package struct AttributeSet: Equatable, Sendable {
    /// The positions 0 to 63.
    private var first: UInt64 = 0
    /// The words after it; empty for most entities.
    private var rest: [UInt64] = []

    package init() {}

    /// Impossible positions are a mistake of the program, and trap.
    package init(_ positions: some Sequence<Int>) {
        for position in positions { insert(position) }
    }

    /// The words of a change entry.
    init(words: UnsafeRawBufferPointer) {
        guard words.count >= 8 else { return }
        first = words.integer(at: 0, as: UInt64.self)
        for offset in stride(from: 8, to: words.count, by: 8) {
            rest.append(words.integer(at: offset, as: UInt64.self))
        }
        while rest.last == 0 { rest.removeLast() }
    }

    @inline(__always)
    package mutating func insert(_ position: Int) {
        if position >= 0, position < 64 { first |= 1 << UInt64(position) } else { insertLate(position) }
    }

    private mutating func insertLate(_ position: Int) {
        precondition(
            position >= 0 && position < ChangeField.maximumAttributeWords * 64,
            "An entity has fewer attributes than that.")
        let word = position / 64 - 1
        while rest.count <= word { rest.append(0) }
        rest[word] |= 1 << UInt64(position % 64)
    }

    package mutating func formUnion(_ other: AttributeSet) {
        first |= other.first
        while rest.count < other.rest.count { rest.append(0) }
        for (word, bits) in other.rest.enumerated() { rest[word] |= bits }
        assert(rest.last ?? 1 != 0, "The last word of a set is zero.")
    }

    @inline(__always)
    package func contains(_ position: Int) -> Bool {
        if position >= 0, position < 64 { return first >> UInt64(position) & 1 == 1 }
        return containsLate(position)
    }

    private func containsLate(_ position: Int) -> Bool {
        guard position >= 0, position < wordCount * 64 else { return false }
        return word(position / 64) >> UInt64(position % 64) & 1 == 1
    }

    package var isEmpty: Bool { first == 0 && rest.isEmpty }

    /// The highest position; nil for an empty set.
    package var last: Int? {
        let words = wordCount
        return words == 0 ? nil : words * 64 - 1 - word(words - 1).leadingZeroBitCount
    }

    /// Ascending.
    package var positions: [Int] { (0..<(wordCount * 64)).filter { contains($0) } }

    var wordCount: Int { rest.isEmpty ? (first == 0 ? 0 : 1) : rest.count + 1 }

    func word(_ index: Int) -> UInt64 { index == 0 ? first : rest[index - 1] }
}

extension ChangeView {
    /// The attributes that an update wrote.
    package var attributes: AttributeSet { AttributeSet(words: attributeWords) }
}
