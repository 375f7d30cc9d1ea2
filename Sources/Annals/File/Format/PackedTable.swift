// Numbers in a literal, six bits a character: static data that costs no time at program start.
//
// Sound because the literal has all entries that are read: Tests/Scripts/unicode.py makes the entries and their number,
// and the tests read every entry.

/// A table of entries with a fixed number of characters each.
struct PackedTable {
    private let start: UnsafePointer<UInt8>
    private let entryCharacters: Int

    @inline(__always)
    init(_ literal: StaticString, entryCharacters: Int) {
        start = literal.utf8Start
        self.entryCharacters = entryCharacters
    }

    /// A number of an entry: `count` characters from its character `offset` on.
    @inline(__always)
    func number(_ entry: Int, _ offset: Int, _ count: Int) -> UInt32 {
        assert(entry >= 0 && offset &+ count <= entryCharacters, "A number reaches beyond its entry.")
        let first = start + (entry &* entryCharacters &+ offset)
        var number: UInt32 = 0
        for place in 0..<count { number = number &<< 6 | UInt32(first[place] &- 48) }
        return number
    }

    /// The entry that begins with a key, in a table of ascending entries; nil if it has none.
    func entry(_ key: UInt64, keyCharacters: Int, count: Int) -> Int? {
        assert(keyCharacters <= entryCharacters, "A key reaches beyond its entry.")
        var (lower, upper) = (0, count)
        while lower < upper {
            let middle = (lower &+ upper) / 2
            let first = start + middle &* entryCharacters
            var found: UInt64 = 0
            for place in 0..<keyCharacters { found = found &<< 6 | UInt64(first[place] &- 48) }
            if found == key { return middle }
            if found < key { lower = middle &+ 1 } else { upper = middle }
        }
        return nil
    }
}
