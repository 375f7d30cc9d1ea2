// Sorts the keys of an index with their objects, more than fit in memory, in records of three sizes.
//
// Invariants:
// KS1  Each entry is in the sorter with the smallest records that its key fits.
// KS2  Entries come out in the order of an ordered index: by key, compared as bytes, then by object.

/// A key padded with zeros, its object, and whether a component is absent.
package struct KeyRecord<let words: Int>: SortRecord {
    /// The bytes of the key, as they lie in memory.
    private(set) var key: InlineArray<words, UInt64>
    /// From the highest bit on: the size of the key, the number of the object in 48 bits, and one bit for an absent
    /// component. So records with the same words are in order by this alone.
    private let ending: UInt64

    static var maximumKeyBytes: Int { words * 8 }

    init(_ bytes: UnsafeRawBufferPointer, number: UInt64, hasAbsent: Bool) {
        precondition(bytes.count <= Self.maximumKeyBytes, "A key is longer than its record.")
        key = InlineArray(repeating: 0)
        ending = UInt64(bytes.count) << 49 | number << 1 | (hasAbsent ? 1 : 0)
        withUnsafeMutableBytes(of: &key) { $0.copyMemory(from: bytes) }
    }

    /// The same entry in a longer record.
    init<let fewer: Int>(_ other: KeyRecord<fewer>) {
        key = InlineArray(repeating: 0)
        for index in 0..<min(fewer, words) { key[index] = other.key[index] }
        ending = other.ending
    }

    package var keyBytes: Int { Int(ending >> 49) }
    package var number: UInt64 { ending >> 1 & FormatLimits.maximumObjectNumber }
    package var hasAbsent: Bool { ending & 1 == 1 }

    package static func < (left: Self, right: Self) -> Bool {
        for index in 0..<words where left.key[index] != right.key[index] {
            return UInt64(bigEndian: left.key[index]) < UInt64(bigEndian: right.key[index])
        }
        return left.ending < right.ending
    }

    package static func == (left: Self, right: Self) -> Bool {
        left.hasSameKey(as: right) && left.ending == right.ending
    }

    package func hasSameKey(as other: Self) -> Bool {
        guard keyBytes == other.keyBytes else { return false }
        for index in 0..<words where key[index] != other.key[index] { return false }
        return true
    }

    package func withKey(_ body: (UnsafeRawBufferPointer) throws(StoreError) -> Void) throws(StoreError) {
        var failure: StoreError?
        withUnsafeBytes(of: key) { bytes in
            do throws(StoreError) { try body(bytes.slice(0, keyBytes)) } catch { failure = error }
        }
        if let failure { throw failure }
    }
}

/// A record that any key fits.
package typealias LongKeyRecord = KeyRecord<32>

/// Accepts the entries of one index in any order and returns them in index order.
package struct KeySorter {
    private typealias ShortRecord = KeyRecord<3>
    private typealias MiddleRecord = KeyRecord<10>
    private let short: ExternalSorter<ShortRecord>
    private let middle: ExternalSorter<MiddleRecord>
    private let long: ExternalSorter<LongKeyRecord>

    /// `memoryBytes` limits the memory of all keys together; the rest waits in files.
    package init(_ files: any FileSystem, memoryBytes: Int, makeFile: @escaping () throws(StoreError) -> Descriptor) {
        short = ExternalSorter(files, memoryBytes: memoryBytes / 3, makeFile: makeFile)
        middle = ExternalSorter(files, memoryBytes: memoryBytes / 3, makeFile: makeFile)
        long = ExternalSorter(files, memoryBytes: memoryBytes / 3, makeFile: makeFile)
    }

    /// The number of sorted runs in files.
    package var runCount: Int { short.runCount + middle.runCount + long.runCount }

    /// Adds an entry to the smallest records that its key fits: KS1.
    package func append(_ key: UnsafeRawBufferPointer, _ object: ObjectID, hasAbsent: Bool) throws(StoreError) {
        if key.count <= ShortRecord.maximumKeyBytes {
            try short.append(ShortRecord(key, number: object.number, hasAbsent: hasAbsent))
        } else if key.count <= MiddleRecord.maximumKeyBytes {
            try middle.append(MiddleRecord(key, number: object.number, hasAbsent: hasAbsent))
        } else {
            try long.append(LongKeyRecord(key, number: object.number, hasAbsent: hasAbsent))
        }
    }

    /// All entries, in order. Can be called again.
    package func sorted() throws(StoreError) -> SortedKeys {
        try SortedKeys(short.sorted(), middle.sorted(), long.sorted())
    }
}

/// The keys in a sorter's order. Must not outlive the sorter.
package struct SortedKeys {
    private var short: SortedRecords<KeyRecord<3>>
    private var middle: SortedRecords<KeyRecord<10>>
    private var long: SortedRecords<LongKeyRecord>
    /// The next record of each size.
    private var nextShort: LongKeyRecord?
    private var nextMiddle: LongKeyRecord?
    private var nextLong: LongKeyRecord?

    init(
        _ short: SortedRecords<KeyRecord<3>>, _ middle: SortedRecords<KeyRecord<10>>,
        _ long: SortedRecords<LongKeyRecord>
    ) throws(StoreError) {
        (self.short, self.middle, self.long) = (short, middle, long)
        nextShort = try self.short.next().map { LongKeyRecord($0) }
        nextMiddle = try self.middle.next().map { LongKeyRecord($0) }
        nextLong = try self.long.next()
    }

    package mutating func next() throws(StoreError) -> LongKeyRecord? {
        if let record = nextShort, Self.isLess(record, nextMiddle), Self.isLess(record, nextLong) {
            nextShort = try short.next().map { LongKeyRecord($0) }
            assert(nextShort.map { !($0 < record) } ?? true, "KS2: short keys are not in order.")
            return record
        }
        if let record = nextMiddle, Self.isLess(record, nextLong) {
            nextMiddle = try middle.next().map { LongKeyRecord($0) }
            assert(nextMiddle.map { !($0 < record) } ?? true, "KS2: keys of middle length are not in order.")
            return record
        }
        guard let record = nextLong else { return nil }
        nextLong = try long.next()
        assert(nextLong.map { !($0 < record) } ?? true, "KS2: long keys are not in order.")
        return record
    }

    private static func isLess(_ record: LongKeyRecord, _ other: LongKeyRecord?) -> Bool {
        other.map { record < $0 } ?? true
    }
}
