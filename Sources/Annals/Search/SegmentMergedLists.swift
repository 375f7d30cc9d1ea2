// Merges the lists of several segments.

/// Merges lists of several segments, in the order of their terms and attributes, and their postings in the order of
/// their new ordinals.
///
/// Sound because the struct owns the memory of its inputs, cannot be copied, and initializes all of them.
struct SegmentMergedLists: ~Copyable {
    private let inputs: UnsafeMutableBufferPointer<SegmentMergeInput>
    /// The inputs at the list that is merged.
    private var lists: [Int] = []
    private var positions = PostingPositions()
    var terms: SegmentTermWriter

    init(_ readers: [SegmentReader], _ newOrdinals: [[UInt32]]) {
        terms = SegmentTermWriter(positional: readers.first?.descriptor.positional ?? 0)
        inputs = .allocate(capacity: readers.count)
        for (index, reader) in readers.enumerated() {
            inputs.initializeElement(at: index, to: SegmentMergeInput(reader, newOrdinals[index]))
        }
    }

    deinit {
        for index in 0..<inputs.count { inputs.deinitializeElement(at: index) }
        inputs.deallocate()
    }

    mutating func writeAll(_ write: SegmentTermWriter.Write) throws(StoreError) {
        for index in 0..<inputs.count { try inputs[index].begin() }
        while findLeastLists() {
            terms.begin(term: inputs[lists[0]].term, attribute: inputs[lists[0]].attribute)
            for index in lists { try inputs[index].beginPostings() }
            try writeList(write)
            for index in lists { try inputs[index].nextList() }
        }
    }

    /// Finds the inputs whose next list is the first one of all; false if no list is left.
    private mutating func findLeastLists() -> Bool {
        lists.removeAll(keepingCapacity: true)
        for index in 0..<inputs.count where !inputs[index].isAtEnd {
            let order = lists.isEmpty ? 0 : inputs[index].order(inputs[lists[0]])
            if order > 0 { continue }
            if order < 0 { lists.removeAll(keepingCapacity: true) }
            lists.append(index)
        }
        return !lists.isEmpty
    }

    private mutating func writeList(_ write: SegmentTermWriter.Write) throws(StoreError) {
        while true {
            var (least, second) = (SegmentMergedObjects.dead, SegmentMergedObjects.dead)
            var next = 0
            for index in lists {
                let ordinal = inputs[index].newOrdinal
                if ordinal < least {
                    (least, second, next) = (ordinal, least, index)
                } else {
                    second = min(second, ordinal)
                }
            }
            guard least != SegmentMergedObjects.dead else { break }
            // Many postings of one input may come before those of the second one.
            while least < second {
                try terms.begin(ordinal: least, write)
                try inputs[next].readPositions(&positions)
                for position in positions.values { try terms.append(position: position, write) }
                try inputs[next].nextPosting()
                least = inputs[next].newOrdinal
            }
        }
        try terms.endList(write)
    }
}

/// A segment that is merged: its next list, and the next live posting of it.
struct SegmentMergeInput: ~Copyable {
    private var cursor: SegmentTermCursor
    private let newOrdinals: [UInt32]
    private(set) var isAtEnd = false
    private var postings: PostingIterator?
    /// The new ordinal of the posting; `SegmentMergedObjects.dead` after the last one.
    private(set) var newOrdinal = SegmentMergedObjects.dead

    init(_ reader: SegmentReader, _ newOrdinals: [UInt32]) {
        cursor = SegmentTermCursor(reader)
        self.newOrdinals = newOrdinals
    }

    /// Moves to the first list.
    mutating func begin() throws(StoreError) {
        try cursor.seek(UnsafeRawBufferPointer(start: nil, count: 0))
        try nextList()
    }

    mutating func nextList() throws(StoreError) { isAtEnd = try !cursor.next() }

    /// Valid until the next list.
    var term: UnsafeRawBufferPointer { cursor.term }
    var attribute: Int { cursor.attribute }

    /// Negative if the list is before that of another input, 0 if it is the same.
    func order(_ other: borrowing SegmentMergeInput) -> Int {
        if term.hasSameBytes(as: other.term) { return attribute - other.attribute }
        return term.isBefore(other.term) ? -1 : 1
    }

    mutating func beginPostings() throws(StoreError) {
        postings = cursor.list.iterator()
        try nextPosting()
    }

    /// Moves to the next live posting.
    @inline(__always)
    mutating func nextPosting() throws(StoreError) {
        repeat {
            guard try postings?.next() == true else {
                newOrdinal = SegmentMergedObjects.dead
                return
            }
            newOrdinal = newOrdinals[postings?.ordinal ?? 0]
        } while newOrdinal == SegmentMergedObjects.dead
    }

    @inline(__always)
    mutating func readPositions(_ positions: inout PostingPositions) throws(StoreError) {
        try postings?.readPositions(&positions)
    }
}
