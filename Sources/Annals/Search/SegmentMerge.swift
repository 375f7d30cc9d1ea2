// Merges segments into one, without the objects that are dead.

/// Merges segments by streaming over their lists.
package enum SegmentMerge {
    /// Writes the blocks of the segment of all live objects, in order. Returns nil, and has written nothing, if none is
    /// alive.
    ///
    /// The object numbers of the inputs may interleave, but no number may be alive in two of them. All inputs have the
    /// same attributes. Bit `i` of `dead` of an input, counted from the lowest one of its first word, is set if ordinal
    /// `i` is dead; missing words have no bits set. The memory has 4 bytes for each object, and a few blocks.
    package static func merge(
        _ readers: [SegmentReader], dead: [[UInt64]], write: (UnsafeRawBufferPointer) throws(StoreError) -> Void
    ) throws(StoreError) -> SegmentDescriptor? {
        precondition(readers.count == dead.count, "Each segment has its dead objects.")
        var objects = SegmentMergedObjects(readers, dead)
        guard var descriptor = try objects.describe() else { return nil }
        var records = SegmentRecordWriter(descriptor)
        try objects.assign { input, ordinal, number throws(StoreError) in
            try records.append(number: number, write) { attribute throws(StoreError) in
                try readers[input].length(ordinal, attribute)
            }
        }
        try records.endBlock(write)
        var lists = SegmentMergedLists(readers, objects.newOrdinals)
        try lists.writeAll(write)
        let (directoryBlocks, byteCount) = try lists.terms.finish(write)
        (descriptor.termBlocks, descriptor.directoryBlocks) = (lists.terms.termBlocks, directoryBlocks)
        descriptor.listCount = lists.terms.listCount
        descriptor.byteCount = records.byteCount + byteCount
        return descriptor
    }
}

/// The live objects of several segments, in the order of their numbers.
struct SegmentMergedObjects {
    static let dead = UInt32.max

    private let readers: [SegmentReader]
    private let dead: [[UInt64]]
    /// By input and ordinal: the ordinal in the merged segment, or `dead`.
    private(set) var newOrdinals: [[UInt32]]

    init(_ readers: [SegmentReader], _ dead: [[UInt64]]) {
        (self.readers, self.dead) = (readers, dead)
        newOrdinals = readers.map { Array(repeating: Self.dead, count: $0.descriptor.objectCount) }
    }

    private func isDead(_ input: Int, _ ordinal: Int) -> Bool {
        let word = ordinal >> 6
        return word < dead[input].count && dead[input][word] >> UInt64(ordinal & 63) & 1 == 1
    }

    private func nextLive(_ input: Int, from ordinal: Int) -> Int {
        var next = ordinal
        while next < newOrdinals[input].count, isDead(input, next) { next += 1 }
        return next
    }

    /// The descriptor without blocks; nil if no object is alive.
    func describe() throws(StoreError) -> SegmentDescriptor? {
        let attributes = readers.first?.descriptor.attributes ?? 0
        let positional = readers.first?.descriptor.positional ?? 0
        var totals = [UInt64](repeating: 0, count: attributes)
        var (count, longest) = (0, UInt32(0))
        var (first, last) = (UInt64.max, UInt64(0))
        for (input, reader) in readers.enumerated() {
            precondition(
                reader.descriptor.attributes == attributes && reader.descriptor.positional == positional,
                "Merged segments have the same attributes.")
            var ordinal = nextLive(input, from: 0)
            while ordinal < reader.descriptor.objectCount {
                let number = try reader.number(of: ordinal)
                (first, last) = (min(first, number), max(last, number))
                count += 1
                for attribute in 0..<attributes {
                    let length = try reader.length(ordinal, attribute)
                    totals[attribute] &+= UInt64(length)
                    longest = max(longest, length)
                }
                ordinal = nextLive(input, from: ordinal + 1)
            }
        }
        guard count > 0 else { return nil }
        guard count <= PostingFormat.maximumObjects, last - first <= UInt64(UInt32.max) else {
            throw StoreError(.tooLarge, "The objects of the segments are too many, or too far apart, for one.")
        }
        return SegmentDescriptor(
            attributes: attributes, positional: positional, objectCount: count, firstNumber: first, lastNumber: last,
            numberWidth: SegmentDescriptor.numberWidth(span: last - first, count),
            lengthWidth: SegmentDescriptor.lengthWidth(maximum: longest), totalLengths: totals)
    }

    /// Gives the live objects their new ordinals, and calls `body` with each in that order.
    mutating func assign(
        _ body: (_ input: Int, _ ordinal: Int, _ number: UInt64) throws(StoreError) -> Void
    ) throws(StoreError) {
        var heads: [(number: UInt64, ordinal: Int)?] = []
        for input in readers.indices { heads.append(try head(input, from: 0)) }
        var count: UInt32 = 0
        var previous: UInt64?
        while let input = Self.least(heads), let head = heads[input] {
            if let previous, head.number <= previous {
                throw PostingFormat.damaged("an object number is repeated or not in order.")
            }
            previous = head.number
            newOrdinals[input][head.ordinal] = count
            count += 1
            try body(input, head.ordinal, head.number)
            heads[input] = try self.head(input, from: head.ordinal + 1)
        }
    }

    private func head(_ input: Int, from ordinal: Int) throws(StoreError) -> (number: UInt64, ordinal: Int)? {
        let next = nextLive(input, from: ordinal)
        return next < newOrdinals[input].count ? (try readers[input].number(of: next), next) : nil
    }

    private static func least(_ heads: [(number: UInt64, ordinal: Int)?]) -> Int? {
        var best: Int?
        for (input, head) in heads.enumerated() {
            guard let head else { continue }
            if let other = best, let least = heads[other], least.number <= head.number { continue }
            best = input
        }
        return best
    }
}
