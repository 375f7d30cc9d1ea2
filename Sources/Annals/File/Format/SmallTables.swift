// Tables with few entries, for schemas and files.
//
// Arrays instead of dictionaries: the first use of a dictionary type costs about 60 us in the Swift runtime, and
// opening a store takes about 500 us.

/// Maps names to numbers.
package struct NameNumbers: Sendable {
    private struct Entry: Sendable {
        let name: IdentifierName
        let number: UInt32
    }

    /// Boxed in a class: copying a struct with a dictionary would look up the dictionary's type metadata.
    ///
    /// Sound although it is shared: it is changed only through a table that alone refers to it.
    private final class OverflowTable: @unchecked Sendable {
        var numbers: [IdentifierName: UInt32]
        init(_ numbers: [IdentifierName: UInt32]) { self.numbers = numbers }
    }

    /// Searched linearly.
    private var few: [Entry] = []
    /// Overflow beyond `maximumFew` entries.
    private var rest: OverflowTable?
    private static let maximumFew = 32

    package init() {}

    /// Of constant time.
    package subscript(_ name: IdentifierName) -> UInt32? {
        for entry in few where entry.name == name { return entry.number }
        return rest?.numbers[name]
    }

    /// Returns false, without a change, if the name already exists.
    package mutating func insert(_ name: IdentifierName, _ number: UInt32) -> Bool {
        guard self[name] == nil else { return false }
        if few.count < Self.maximumFew {
            few.append(Entry(name: name, number: number))
        } else {
            changeableRest().numbers[name] = number
        }
        return true
    }

    package mutating func remove(_ name: IdentifierName) {
        if let index = few.firstIndex(where: { $0.name == name }) {
            few.remove(at: index)
        } else if rest != nil {
            changeableRest().numbers[name] = nil
        }
    }

    private mutating func changeableRest() -> OverflowTable {
        if isKnownUniquelyReferenced(&rest), let rest { return rest }
        let own = OverflowTable(rest?.numbers ?? [:])
        rest = own
        return own
    }
}

/// The types of attributes by their numbers, in ascending order.
package struct AttributeTypes: Sendable {
    private struct Entry: Sendable {
        let number: UInt16
        let type: AttributeType
    }

    private var entries: [Entry] = []

    package init() {}

    /// Of logarithmic time.
    package subscript(_ number: UInt16) -> AttributeType? {
        let index = place(of: number)
        return index < entries.count && entries[index].number == number ? entries[index].type : nil
    }

    /// Constant time for a number above all existing ones, otherwise linear. Existing entries stay.
    package mutating func insert(_ number: UInt16, _ type: AttributeType) {
        let index = place(of: number)
        if index < entries.count, entries[index].number == number { return }
        assert(index == entries.count || entries[index].number > number, "The types of attributes are not in order.")
        entries.insert(Entry(number: number, type: type), at: index)
    }

    private func place(of number: UInt16) -> Int {
        if let last = entries.last, last.number < number { return entries.count }
        return entries.partitioningIndex { $0.number >= number }
    }
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

extension [IdentifierName] {
    /// Whether a name occurs twice.
    package var hasDuplicates: Bool {
        if count < 2 { return false }
        let sorted = sorted { $0.text.utf8.lexicographicallyPrecedes($1.text.utf8) }
        return zip(sorted, sorted.dropFirst()).contains { $0 == $1 }
    }
}
