// Compares all parts of a segment with each other.

extension SegmentReader {
    /// Reads everything, and throws `damaged` if parts of the segment contradict each other. It cannot find a number or
    /// a position that was replaced by another possible one: compare the segment with its objects for that.
    ///
    /// The memory has 4 bytes for each object and attribute.
    package func verify() throws(StoreError) {
        try verifyNumbers()
        try verifyLengths()
        try verifyDirectory()
        guard try byteCount() == descriptor.byteCount else { throw Self.contradiction("the size of the blocks") }
    }

    private static func contradiction(_ what: String) -> StoreError {
        PostingFormat.damaged("\(what) differs from the rest of the segment.")
    }

    private func verifyNumbers() throws(StoreError) {
        var previous: UInt64?
        for ordinal in 0..<descriptor.objectCount {
            let number = try number(of: ordinal)
            if let previous, number <= previous { throw PostingFormat.damaged("object numbers are not in order.") }
            if previous == nil, number != descriptor.firstNumber { throw Self.contradiction("the first number") }
            previous = number
        }
        guard previous == descriptor.lastNumber else { throw Self.contradiction("the last number") }
    }

    /// Compares the lengths with the positions of all lists.
    private func verifyLengths() throws(StoreError) {
        let attributes = descriptor.attributes
        var lengths = [UInt32](repeating: 0, count: descriptor.objectCount * attributes)
        var positions = PostingPositions()
        var lists: UInt64 = 0
        let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
        try forEachList(of: nothing, isPrefix: true) { _, attribute, list throws(StoreError) in
            lists += 1
            var (iterator, count) = (list.iterator(), 0)
            while try iterator.next() {
                try iterator.readPositions(&positions)
                lengths[iterator.ordinal * attributes + attribute] &+= UInt32(truncatingIfNeeded: positions.count)
                count += 1
            }
            guard try count == list.count() else { throw Self.contradiction("the number of objects of a list") }
            return true
        }
        guard lists == descriptor.listCount else { throw Self.contradiction("the number of lists") }
        var totals = [UInt64](repeating: 0, count: attributes)
        for ordinal in 0..<descriptor.objectCount {
            for attribute in 0..<attributes {
                let length = try length(ordinal, attribute)
                totals[attribute] += UInt64(length)
                guard length == lengths[ordinal * attributes + attribute] else {
                    throw Self.contradiction("the number of terms of an object")
                }
            }
        }
        guard totals == descriptor.totalLengths else { throw Self.contradiction("the number of terms") }
    }

    /// Compares the directory with the first entry of each block of terms.
    private func verifyDirectory() throws(StoreError) {
        var block = 0
        for index in 0..<descriptor.directoryBlocks {
            let directory = try directory(index)
            guard directory.firstBlock == block else { throw Self.contradiction("a block of the directory") }
            for place in 0..<directory.count {
                let entry = try SegmentEntry(termBlock(block), 0)
                guard try directory.term(place).hasSameBytes(as: entry.wholeTerm),
                    try directory.attribute(place) == entry.attribute
                else { throw Self.contradiction("a term of the directory") }
                block += 1
            }
        }
        guard block == descriptor.termBlocks else { throw Self.contradiction("the size of the directory") }
    }

    private func byteCount() throws(StoreError) -> UInt64 {
        var sum: UInt64 = 0
        for index in 0..<descriptor.blockCount { sum += UInt64(try block(index).count) }
        return sum
    }
}
