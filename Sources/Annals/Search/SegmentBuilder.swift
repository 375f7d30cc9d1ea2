// Builds a segment in memory from the terms of objects.
//
// Invariants:
// SB1  `occurrences` has a jump (a mark, and the next position) before each occurrence whose position is not the one
//      after its predecessor in the same object and attribute, or not 0 for the first.

/// Collects the terms of objects in ascending order of their numbers, and writes them as a segment.
///
/// Each occurrence is one number in memory, that of its term and attribute; its position follows from those before it.
/// At the end a counting sort arranges the occurrences by term. After `finish` the builder is empty and can be used
/// again.
package struct SegmentBuilder: ~Copyable {
    private static let jump = UInt32.max

    package let attributes: Int
    /// The attributes whose positions are kept, as bits.
    private let positional: UInt64
    /// The number of occurrences of all objects. It is time to finish at about 4,000,000.
    package private(set) var termCount = 0
    private var table = TermTable()
    private var occurrences: [UInt32] = []
    /// The occurrences by term.
    private var counts: [UInt32] = []
    private var firstNumber: UInt64 = 0
    private var lastNumber: UInt64 = 0
    /// For each object: its distance from the first one, the end of its occurrences, its lengths.
    private var distances: [UInt32] = []
    private var ends: [Int] = []
    private var lengths: [UInt32] = []
    private var nextPositions: [UInt32]
    private var isInObject = false

    /// - Parameter positional: The attributes whose positions are kept, as bits.
    package init(attributes: Int, positional: UInt64 = .max) {
        precondition(
            attributes > 0 && attributes <= PostingFormat.maximumAttributes, "A segment has 1 to 64 attributes.")
        self.attributes = attributes
        self.positional = positional & SegmentDescriptor.allBits(attributes)
        nextPositions = Array(repeating: 0, count: attributes)
    }

    package var objectCount: Int { distances.count }
    package var isEmpty: Bool { distances.isEmpty }
    /// The memory in use, nearly. `finish` needs 12 bytes more for each occurrence.
    package var memory: Int {
        table.memory + 4 * (occurrences.count + counts.count + distances.count + lengths.count) + 8 * ends.count
    }

    /// Whether the segment has room for an object with a number above the last one. If not, finish first.
    package func canAdd(_ number: UInt64) -> Bool {
        guard number <= PostingFormat.maximumNumber else { return false }
        if isEmpty { return true }
        return number > lastNumber && number - firstNumber <= UInt64(UInt32.max)
            && objectCount < PostingFormat.maximumObjects
    }

    /// Begins an object, which may have no terms.
    package mutating func begin(number: UInt64) {
        precondition(!isInObject && canAdd(number), "Objects are added in ascending order, within the limits.")
        if isEmpty { firstNumber = number }
        lastNumber = number
        distances.append(UInt32(number - firstNumber))
        for attribute in 0..<attributes {
            nextPositions[attribute] = 0
            lengths.append(0)
        }
        isInObject = true
    }

    /// Adds an occurrence of a term of 1 to 255 bytes. Positions ascend in each attribute of the object.
    @inline(__always)
    package mutating func add(term: UnsafeRawBufferPointer, attribute: Int, position: Int) {
        precondition(isInObject && attribute >= 0 && attribute < attributes, "An object and its attribute have begun.")
        precondition(term.count > 0 && term.count <= PostingFormat.maximumTermBytes, "A term has 1 to 255 bytes.")
        let list = table.number(of: term, attribute: attribute)
        if list == counts.count { counts.append(0) }
        counts[list] &+= 1
        if position != Int(nextPositions[attribute]) { appendJump(attribute, position) }
        nextPositions[attribute] = UInt32(truncatingIfNeeded: position) &+ 1
        occurrences.append(UInt32(truncatingIfNeeded: list))
        termCount &+= 1
        lengths[lengths.count &- attributes &+ attribute] &+= 1
    }

    @inline(never)
    private mutating func appendJump(_ attribute: Int, _ position: Int) {
        precondition(
            position > Int(nextPositions[attribute]) && position < Int(Self.jump), "Positions ascend, below 2^32 - 1.")
        occurrences.append(Self.jump)
        occurrences.append(UInt32(position))
    }

    package mutating func end() {
        precondition(isInObject, "An object has begun.")
        ends.append(occurrences.count)
        isInObject = false
    }

    // MARK: Writing

    /// Writes the blocks in order. There must be an object.
    package mutating func finish(
        _ write: (UnsafeRawBufferPointer) throws(StoreError) -> Void
    ) throws(StoreError) -> SegmentDescriptor {
        precondition(!isInObject && !isEmpty, "A segment has an object, and the last one has ended.")
        var descriptor = emptyDescriptor()
        try writeRecords(&descriptor, write)
        try writeTerms(&descriptor, write)
        removeAll()
        return descriptor
    }

    /// Forgets all objects.
    package mutating func removeAll() {
        table.removeAll()
        occurrences.removeAll(keepingCapacity: true)
        counts.removeAll(keepingCapacity: true)
        distances.removeAll(keepingCapacity: true)
        ends.removeAll(keepingCapacity: true)
        lengths.removeAll(keepingCapacity: true)
        (termCount, isInObject) = (0, false)
    }

    private func emptyDescriptor() -> SegmentDescriptor {
        var totals = [UInt64](repeating: 0, count: attributes)
        var longest: UInt32 = 0
        for object in 0..<objectCount {
            for attribute in 0..<attributes {
                let length = lengths[object * attributes + attribute]
                totals[attribute] += UInt64(length)
                longest = max(longest, length)
            }
        }
        return SegmentDescriptor(
            attributes: attributes, positional: positional, objectCount: objectCount, firstNumber: firstNumber,
            lastNumber: lastNumber,
            numberWidth: SegmentDescriptor.numberWidth(span: lastNumber - firstNumber, objectCount),
            lengthWidth: SegmentDescriptor.lengthWidth(maximum: longest), totalLengths: totals)
    }

    private func writeRecords(
        _ descriptor: inout SegmentDescriptor, _ write: SegmentTermWriter.Write
    ) throws(StoreError) {
        var records = SegmentRecordWriter(descriptor)
        for object in 0..<objectCount {
            try records.append(number: firstNumber + UInt64(distances[object]), write) { attribute in
                lengths[object * attributes + attribute]
            }
        }
        try records.endBlock(write)
        descriptor.byteCount += records.byteCount
    }

    private func writeTerms(
        _ descriptor: inout SegmentDescriptor, _ write: SegmentTermWriter.Write
    ) throws(StoreError) {
        let order = table.sorted()
        let places = UnsafeMutablePointer<UInt64>.allocate(capacity: max(termCount, 1))
        defer { places.deallocate() }
        scatter(order, places)
        var terms = SegmentTermWriter(positional: positional)
        var start = 0
        for list in order {
            let end = start + Int(counts[Int(list)])
            terms.begin(term: table.term(Int(list)), attribute: table.attribute(Int(list)))
            try Self.writeList(UnsafeBufferPointer(start: places + start, count: end - start), &terms, write)
            start = end
        }
        let (directoryBlocks, byteCount) = try terms.finish(write)
        (descriptor.termBlocks, descriptor.directoryBlocks) = (terms.termBlocks, directoryBlocks)
        descriptor.listCount = terms.listCount
        descriptor.byteCount += byteCount
    }

    /// The ordinals and positions of one list.
    private static func writeList(
        _ places: UnsafeBufferPointer<UInt64>, _ terms: inout SegmentTermWriter, _ write: SegmentTermWriter.Write
    ) throws(StoreError) {
        var ordinal: UInt64?
        for place in places {
            if place &>> 32 != ordinal {
                ordinal = place &>> 32
                try terms.begin(ordinal: UInt32(truncatingIfNeeded: place &>> 32), write)
            }
            try terms.append(position: UInt32(truncatingIfNeeded: place), write)
        }
        try terms.endList(write)
    }

    /// Arranges all occurrences by list, each as its ordinal above its position: a counting sort, which keeps the order
    /// of the occurrences of a list.
    ///
    /// Sound because `places` has room for all occurrences, and the counts of the lists add up to their number.
    private func scatter(_ order: [UInt32], _ places: UnsafeMutablePointer<UInt64>) {
        var cursors = [Int](repeating: 0, count: counts.count)
        var sum = 0
        for list in order {
            cursors[Int(list)] = sum
            sum += Int(counts[Int(list)])
        }
        assert(sum == termCount, "The counts of the lists differ from the number of occurrences.")
        let listAttributes = (0..<counts.count).map { UInt8(table.attribute($0)) }
        var positions = [UInt32](repeating: 0, count: attributes)
        var index = 0
        for object in 0..<objectCount {
            for attribute in 0..<attributes { positions[attribute] = 0 }
            while index < ends[object] {
                var list = occurrences[index]
                index &+= 1
                if list == Self.jump {
                    // SB1: the position and its occurrence follow.
                    list = occurrences[index &+ 1]
                    positions[Int(listAttributes[Int(list)])] = occurrences[index]
                    index &+= 2
                }
                let attribute = Int(listAttributes[Int(list)])
                places[cursors[Int(list)]] = UInt64(object) &<< 32 | UInt64(positions[attribute])
                cursors[Int(list)] &+= 1
                positions[attribute] &+= 1
            }
        }
    }
}
