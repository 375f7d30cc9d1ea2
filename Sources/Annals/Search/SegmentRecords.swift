// The records of a segment's objects: their numbers and lengths, of a fixed width.

/// Writes the blocks of records.
struct SegmentRecordWriter: ~Copyable {
    private let descriptor: SegmentDescriptor
    private var block = ByteWriter(capacity: PostingFormat.maximumBlockBytes)
    private var records = 0
    private(set) var byteCount: UInt64 = 0

    init(_ descriptor: SegmentDescriptor) { self.descriptor = descriptor }

    /// Adds the record of the next ordinal. `length` returns the length of an attribute.
    mutating func append(
        number: UInt64, _ write: SegmentTermWriter.Write, length: (Int) throws(StoreError) -> UInt32
    ) throws(StoreError) {
        if records == descriptor.recordsPerBlock { try endBlock(write) }
        append(UInt32(number - descriptor.firstNumber), width: descriptor.numberWidth)
        for attribute in 0..<descriptor.attributes {
            append(try length(attribute), width: descriptor.lengthWidth)
        }
        records += 1
    }

    private mutating func append(_ value: UInt32, width: Int) {
        switch width {
        case 0: break
        case 1: block.append(UInt8(value))
        case 2: block.append(UInt16(value))
        default: block.append(value)
        }
    }

    mutating func endBlock(_ write: SegmentTermWriter.Write) throws(StoreError) {
        guard records > 0 else { return }
        assert(block.count <= PostingFormat.maximumBlockBytes, "SG2: a block of records is too large.")
        try write(block.bytes)
        byteCount += UInt64(block.count)
        block.truncate()
        records = 0
    }
}

extension SegmentReader {
    /// The object number of an ordinal below the segment's count.
    package func number(of ordinal: Int) throws(StoreError) -> UInt64 {
        guard descriptor.numberWidth > 0 else {
            try requireOrdinal(ordinal)
            return descriptor.firstNumber + UInt64(ordinal)
        }
        let (record, offset) = try record(ordinal)
        let distance = Self.value(record, offset, width: descriptor.numberWidth)
        let number = descriptor.firstNumber + UInt64(distance)
        guard number <= descriptor.lastNumber else {
            throw PostingFormat.damaged("an object number is above the last one.")
        }
        return number
    }

    /// The ordinal of an object number; nil if the segment does not contain the object.
    package func ordinal(of number: UInt64) throws(StoreError) -> Int? {
        guard number >= descriptor.firstNumber, number <= descriptor.lastNumber else { return nil }
        if descriptor.numberWidth == 0 { return Int(number - descriptor.firstNumber) }
        var range = 0..<descriptor.objectCount
        while !range.isEmpty {
            let middle = range.lowerBound + range.count / 2
            let found = try self.number(of: middle)
            if found == number { return middle }
            range = found < number ? middle + 1..<range.upperBound : range.lowerBound..<middle
        }
        return nil
    }

    /// The number of terms that an object has in an attribute.
    package func length(_ ordinal: Int, _ attribute: Int) throws(StoreError) -> UInt32 {
        precondition(attribute >= 0 && attribute < descriptor.attributes, "The segment has no such attribute.")
        let (block, offset) = try record(ordinal)
        let width = descriptor.lengthWidth
        return Self.value(block, offset + descriptor.numberWidth + attribute * width, width: width)
    }

    private func requireOrdinal(_ ordinal: Int) throws(StoreError) {
        guard ordinal >= 0, ordinal < descriptor.objectCount else {
            throw PostingFormat.damaged("an ordinal is too large.")
        }
    }

    /// The block of a record, and the offset of the record in it. The block has the whole record.
    private func record(_ ordinal: Int) throws(StoreError) -> (UnsafeRawBufferPointer, Int) {
        try requireOrdinal(ordinal)
        let (index, place) = ordinal.quotientAndRemainder(dividingBy: recordsPerBlock)
        return (try recordBlock(index), place * recordBytes)
    }

    @inline(__always)
    fileprivate static func value(_ block: UnsafeRawBufferPointer, _ offset: Int, width: Int) -> UInt32 {
        switch width {
        case 1: UInt32(block[offset])
        case 2: UInt32(block.integer(at: offset, as: UInt16.self))
        default: block.integer(at: offset, as: UInt32.self)
        }
    }
}

/// Reads the lengths of one object after the other, faster than `length`.
///
/// Sound because the block is checked to have whole records for the ordinals in `range`, and an object's record is only
/// read after `move`.
struct SegmentLengths {
    private let reader: SegmentReader
    private let recordBytes: Int
    private let numberWidth: Int
    private let lengthWidth: Int
    private var block = UnsafeRawBufferPointer(start: nil, count: 0)
    /// The ordinals in the block.
    private var range = 0..<0
    private var offset = 0

    init(_ reader: SegmentReader) {
        self.reader = reader
        recordBytes = reader.recordBytes
        (numberWidth, lengthWidth) = (reader.descriptor.numberWidth, reader.descriptor.lengthWidth)
    }

    @inline(__always)
    mutating func move(to ordinal: Int) throws(StoreError) {
        if !range.contains(ordinal) { try open(ordinal) }
        offset = (ordinal &- range.lowerBound) &* recordBytes &+ numberWidth
    }

    @inline(never)
    private mutating func open(_ ordinal: Int) throws(StoreError) {
        guard ordinal >= 0, ordinal < reader.descriptor.objectCount else {
            throw PostingFormat.damaged("an ordinal is too large.")
        }
        let index = ordinal / reader.recordsPerBlock
        block = try reader.recordBlock(index)
        let first = index * reader.recordsPerBlock
        range = first..<min(first + reader.recordsPerBlock, reader.descriptor.objectCount)
    }

    /// The number of terms of an attribute of the object.
    @inline(__always)
    func length(_ attribute: Int) -> UInt32 {
        SegmentReader.value(block, offset &+ attribute &* lengthWidth, width: lengthWidth)
    }
}
