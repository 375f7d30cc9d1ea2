// The kind and the folding of each scalar, from a table that Tests/Scripts/unicode.py makes.

/// The kind of a scalar, or the number of its folding. Scalars from `end` on are not in the table.
package struct TermFolding: Equatable {
    package static let separator = TermFolding(number: 0)
    package static let letter = TermFolding(number: 1)
    package static let withoutSpace = TermFolding(number: 2)
    package static let picture = TermFolding(number: 3)
    package static let dropped = TermFolding(number: 4)
    /// A mark that stays, and joins nothing.
    package static let freeMark = TermFolding(number: 5)
    /// A mark that stays, and has a place among other marks.
    package static let orderedMark = TermFolding(number: 6)
    /// A mark or letter that may compose with the scalar before it.
    package static let joiningMark = TermFolding(number: 7)
    private static let kinds: UInt32 = 8
    package static let end = SearchTables.end

    private let number: UInt32

    private init(number: UInt32) { self.number = number }

    @inline(__always)
    package init(_ scalar: UInt32) {
        guard scalar < SearchTables.end else {
            // Tags and variations.
            number = scalar >= 0xE0000 && scalar < 0xE1000 ? 4 : 0
            return
        }
        let block = PackedTable(SearchTables.blockNumbers, entryCharacters: 2).number(Int(scalar &>> 7), 0, 2)
        let values = PackedTable(SearchTables.blocks, entryCharacters: 2)
        number = values.number(Int(block &<< 7 | scalar & 127), 0, 2)
    }

    /// Whether the scalar belongs to the one before it.
    @inline(__always)
    package var extends: Bool { number >= 4 && number < Self.kinds &+ UInt32(SearchTables.joiningFoldings) }

    /// Whether the scalar may compose with the one before it.
    package var joins: Bool { number >= 7 && number < Self.kinds &+ UInt32(SearchTables.joiningFoldings) }

    /// The places of the scalars to which the scalar is folded; nil if it stays or is left out.
    @inline(__always)
    package var letters: Range<Int>? {
        guard number >= Self.kinds else { return nil }
        let entries = PackedTable(SearchTables.foldingEntries, entryCharacters: 4)
        let first = Int(entries.number(Int(number &- Self.kinds), 0, 3))
        return first..<first &+ Int(entries.number(Int(number &- Self.kinds), 3, 1))
    }

    /// A scalar to which another one is folded.
    @inline(__always)
    static func letter(_ place: Int) -> UInt32 {
        PackedTable(SearchTables.foldingLetters, entryCharacters: 3).number(place, 0, 3)
    }
}
