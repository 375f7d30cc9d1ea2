// Merges the lists of several segments.

/// Merges lists of several segments, in the order of their terms and attributes, and their postings in the order of
/// their new ordinals.
struct SegmentMergedLists: ~Copyable {
    private let inputs: [SegmentMergeInput]
    private var positions: [UInt32] = []
    var terms = SegmentTermWriter()

    init(_ readers: [SegmentReader], _ newOrdinals: [[UInt32]]) {
        inputs = zip(readers, newOrdinals).map { SegmentMergeInput($0, $1) }
    }

    mutating func writeAll(_ write: SegmentTermWriter.Write) throws(StoreError) {
        let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
        for input in inputs { try input.seek(nothing) }
        while let least = leastList() {
            terms.begin(term: least.term, attribute: least.attribute)
            var lists: [SegmentMergeInput] = []
            for input in inputs where !input.isAtEnd && !least.isBefore(input) { lists.append(input) }
            try writeList(lists, write)
            for input in lists { try input.nextList() }
        }
    }

    /// An input at the first list of all.
    private func leastList() -> SegmentMergeInput? {
        var least: SegmentMergeInput?
        for input in inputs where !input.isAtEnd {
            if let least, !input.isBefore(least) { continue }
            least = input
        }
        return least
    }

    private mutating func writeList(
        _ lists: [SegmentMergeInput], _ write: SegmentTermWriter.Write
    ) throws(StoreError) {
        for input in lists { try input.beginPostings() }
        while true {
            var least = SegmentMergedObjects.dead
            var next: SegmentMergeInput?
            for input in lists where input.newOrdinal < least { (least, next) = (input.newOrdinal, input) }
            guard let next else { break }
            try terms.begin(ordinal: least, write)
            try next.readPositions(&positions)
            for position in positions { try terms.append(position: position, write) }
            try next.nextPosting()
        }
        try terms.endList(write)
    }
}

/// A segment that is merged: its next list, and the next live posting of it.
final class SegmentMergeInput {
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

    func seek(_ term: UnsafeRawBufferPointer) throws(StoreError) {
        try cursor.seek(term)
        try nextList()
    }

    func nextList() throws(StoreError) { isAtEnd = try !cursor.next() }

    /// Valid until the next list.
    var term: UnsafeRawBufferPointer { cursor.term }
    var attribute: Int { cursor.attribute }

    /// Whether the list is before that of another input.
    func isBefore(_ other: SegmentMergeInput) -> Bool {
        term.hasSameBytes(as: other.term) ? attribute < other.attribute : term.isBefore(other.term)
    }

    func beginPostings() throws(StoreError) {
        postings = cursor.list.iterator()
        try nextPosting()
    }

    /// Moves to the next live posting.
    func nextPosting() throws(StoreError) {
        newOrdinal = SegmentMergedObjects.dead
        while try postings?.next() == true {
            newOrdinal = newOrdinals[postings?.ordinal ?? 0]
            if newOrdinal != SegmentMergedObjects.dead { return }
        }
    }

    func readPositions(_ positions: inout [UInt32]) throws(StoreError) { try postings?.readPositions(&positions) }
}
