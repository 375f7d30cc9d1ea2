// Tables with few entries, for schemas and files.
//
// Arrays of the standard library's types instead of dictionaries, and of types of our own: the Swift runtime makes the
// type of a generic class when it is first used. That takes 11,000 instructions for an array of a new element type and
// up to 280,000 for a dictionary, and opening a store takes about 600,000.

/// Maps names to numbers.
package struct NameNumbers: Sendable {
    /// Boxed in a class: copying a struct with a dictionary would look up the dictionary's type metadata.
    ///
    /// Sound although it is shared: it is changed only through a table that alone refers to it.
    private final class OverflowTable: @unchecked Sendable {
        var numbers: [IdentifierName: UInt32]
        init(_ numbers: [IdentifierName: UInt32]) { self.numbers = numbers }
    }

    /// Searched linearly.
    private var few: [String] = []
    /// The numbers of the names in `few`, at the same indexes.
    private var numbers: [UInt32] = []
    /// Overflow beyond `maximumFew` entries.
    private var rest: OverflowTable?
    private static let maximumFew = 32

    package init() {}

    /// Of constant time.
    package subscript(_ name: IdentifierName) -> UInt32? {
        if let index = index(of: name) { return numbers[index] }
        return rest?.numbers[name]
    }

    /// Returns false, without a change, if the name already exists.
    package mutating func insert(_ name: IdentifierName, _ number: UInt32) -> Bool {
        guard self[name] == nil else { return false }
        if few.count < Self.maximumFew {
            few.append(name.text)
            numbers.append(number)
        } else {
            changeableRest().numbers[name] = number
        }
        return true
    }

    package mutating func remove(_ name: IdentifierName) {
        if let index = index(of: name) {
            few.remove(at: index)
            numbers.remove(at: index)
        } else if rest != nil {
            changeableRest().numbers[name] = nil
        }
    }

    private func index(of name: IdentifierName) -> Int? { few.firstIndex { IdentifierName($0) == name } }

    private mutating func changeableRest() -> OverflowTable {
        if isKnownUniquelyReferenced(&rest), let rest { return rest }
        let own = OverflowTable(rest?.numbers ?? [:])
        rest = own
        return own
    }
}

/// The types of attributes by their numbers, in ascending order.
package struct AttributeTypes: Sendable {
    /// Numbers in the upper half, the numbers of their types in the lower.
    private var entries: [UInt32] = []

    package init() {}

    /// Of logarithmic time.
    package subscript(_ number: UInt16) -> AttributeType? {
        let index = place(of: number)
        guard index < entries.count, Self.number(entries[index]) == number else { return nil }
        return AttributeType(code: UInt8(truncatingIfNeeded: entries[index]))
    }

    /// Constant time for a number above all existing ones, otherwise linear. Existing entries stay.
    package mutating func insert(_ number: UInt16, _ type: AttributeType) {
        let index = place(of: number)
        if index < entries.count, Self.number(entries[index]) == number { return }
        assert(
            index == entries.count || Self.number(entries[index]) > number, "The types of attributes are not in order.")
        entries.insert(UInt32(number) << 16 | UInt32(type.code), at: index)
    }

    private func place(of number: UInt16) -> Int {
        if let last = entries.last, Self.number(last) < number { return entries.count }
        return entries.partitioningIndex { Self.number($0) >= number }
    }

    private static func number(_ entry: UInt32) -> UInt16 { UInt16(truncatingIfNeeded: entry >> 16) }
}

extension Array {
    /// The first index for which the condition is true, in an array where it is true from some index on; `count` if it
    /// never is. Logarithmic.
    @inline(__always)
    func partitioningIndex(_ isAfter: (Element) -> Bool) -> Int {
        var low = 0
        var high = count
        while low < high {
            let middle = (low + high) / 2
            if isAfter(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}

extension [UInt16] {
    /// For an array in ascending order.
    package var hasNeighbours: Bool { zip(self, dropFirst()).contains { $0 == $1 } }

    /// For an array in ascending order.
    package func hasSorted(_ number: UInt16) -> Bool {
        let index = partitioningIndex { $0 >= number }
        return index < count && self[index] == number
    }
}

extension [String] {
    /// Whether a name occurs twice (`IdentifierName`).
    package var hasDuplicates: Bool {
        if count < 2 { return false }
        let sorted = sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        return zip(sorted, sorted.dropFirst()).contains { IdentifierName($0) == IdentifierName($1) }
    }
}
