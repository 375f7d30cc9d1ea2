// Deltas by themselves: entries, the table in memory, merging, and the form in the file.

import Annals
import Testing

@Suite struct LeafDeltaTests {
    private static let words: [UInt64] = [4096, 4097, 8192, 1 << 40, 1 << 57 - 8, 1 << 57 - 7]
    private let base = NodeReference(offset: 4096)
    private let place: UInt64 = 1 << 20

    @Test func everyEntryKeepsItsObjectAndItsWord() {
        for index: UInt64 in [0, 1, 63, 64, 255, 510, 511] {
            for word in Self.words {
                let entry = DeltaEntry(index, word)
                #expect(entry.index == index && entry.word == word && entry.isPossible && entry.bits != 0)
            }
        }
        #expect(!DeltaEntry(bits: 0).isPossible && !DeltaEntry(bits: 1).isPossible)
        #expect(!DeltaEntry(7, 4088).isPossible)
    }

    // MARK: In memory

    /// Indexes that share slots, and one from which the search goes on at the first slot.
    @Test func aTableHoldsTheLastWordOfEachObject() {
        let indexes: [UInt64] = [0, 4, 3, 7, 508, 511]
        for count in 1...5 {
            for number in 0..<Int(pow(indexes.count, count)) {
                var table = LeafChanges(over: base)
                var known: [UInt64: UInt64] = [:]
                var rest = number
                for step in 0..<count {
                    let entry = DeltaEntry(indexes[rest % indexes.count], 4096 + UInt64(step) * 8)
                    rest /= indexes.count
                    if !table.set(entry) {
                        let small = table
                        table = small.grown()
                        small.deallocate()
                        #expect(table.set(entry))
                    }
                    known[entry.index] = entry.word
                }
                var found: [UInt64: UInt64] = [:]
                table.forEachEntry { found[$0.index] = $0.word }
                let isSame = found == known && table.count == known.count && table.base == base
                if !isSame || indexes.contains(where: { table.word(of: $0) != known[$0] ?? 0 }) {
                    Issue.record("sequence \(number) of \(count)")
                }
                table.deallocate()
            }
        }
    }

    @Test func aTableGrowsUpTo96Entries() {
        var table = LeafChanges(over: NodeReference(offset: 8192, isDelta: true))
        var sizes: [Int] = []
        for number in 0..<96 as Range<UInt64> {
            let entry = DeltaEntry(number * 37 & 511, 4096 + number * 8)
            if !table.set(entry) {
                sizes.append(table.count)
                let small = table
                table = small.grown()
                small.deallocate()
                #expect(table.set(entry))
            }
            for earlier in 0...number { #expect(table.word(of: earlier * 37 & 511) == 4096 + earlier * 8) }
            #expect(table.word(of: (number + 1) * 37 & 511) == 0)
        }
        #expect(sizes == [3, 6, 12, 24, 48] && table.count == 96 && table.bytes == 1040)
        #expect(!table.set(DeltaEntry(96 * 37 & 511, 4096)), "a quarter of the slots stays empty")
        #expect(table.set(DeltaEntry(0, 16384)) && table.word(of: 0) == 16384)
        #expect(table.base == NodeReference(offset: 8192, isDelta: true) && table.reference.isDelta)
        table.deallocate()
    }

    // MARK: In the file

    private func pow(_ base: Int, _ exponent: Int) -> Int { (0..<exponent).reduce(1) { power, _ in power * base } }

    private func written(_ merged: MergedEntries, over base: NodeReference) -> [UInt8] {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: DeltaField.mostBytes, alignment: 8)
        defer { buffer.deallocate() }
        return Array(merged.write(over: base, to: buffer))
    }

    private func entries(_ bytes: [UInt8], at offset: UInt64) -> [UInt64: UInt64]? {
        bytes.withUnsafeBytes { bytes in
            guard let delta = StoredDelta(bytes, at: offset) else { return nil }
            var found: [UInt64: UInt64] = [:]
            delta.forEachEntry { found[$0.index] = $0.word }
            return found.count == delta.head.count ? found : nil
        }
    }

    /// Every way in which two deltas can have entries of the same objects, with the bits of `present` and without.
    @Test func ofTwoDeltasTheUpperCounts() {
        let indexes: [UInt64] = [0, 63, 64, 511]
        for others in [0, 14] {
            for choice in 1..<256 {
                var merged = MergedEntries()
                var known: [UInt64: UInt64] = [:]
                for other in 0..<UInt64(others) {
                    merged.add(DeltaEntry(100 + other, 1 << 30 | 1))
                    known[100 + other] = 1 << 30 | 1
                }
                for level in 0..<2 {
                    for (place, index) in indexes.enumerated() where choice >> (level * 4 + place) & 1 == 1 {
                        let word = UInt64(level + 1) << 20
                        merged.add(DeltaEntry(index, word))
                        known[index] = known[index] ?? word
                    }
                }
                let bytes = written(merged, over: base)
                let size = 8 + (known.count >= 16 ? 64 : 0) + known.count * 8
                if bytes.count != size || entries(bytes, at: place) != known || merged.count != known.count {
                    Issue.record("choice \(choice) with \(others)")
                }
                var order: [UInt64] = []
                merged.forEachEntry { order.append($0.index) }
                if order != known.keys.sorted() { Issue.record("order of \(choice) with \(others)") }
            }
        }
    }

    @Test func malformedDeltasAreRefused() {
        for count in [1, 2, 15, 16, 255] {
            var merged = MergedEntries()
            for number in 0..<UInt64(count) { merged.add(DeltaEntry(number * 2, 1 << 30 | number & 1)) }
            let good = written(merged, over: base)
            #expect(entries(good, at: place)?.count == count)
            let first = count >= 16 ? 72 : 8
            func expectRefused(_ sentence: String, at offset: UInt64? = nil, _ edit: (inout [UInt8]) -> Void) {
                var bytes = good
                edit(&bytes)
                if entries(bytes, at: offset ?? place) != nil { Issue.record("\(count): \(sentence)") }
            }
            expectRefused("no entries") { $0[7] = 0 }
            expectRefused("one more entry than there is") { $0[7] &+= 1 }
            expectRefused("no base") { $0[1] = 0 }
            for bit: UInt8 in [1, 4] { expectRefused("bit \(bit) of the base") { $0[0] |= bit } }
            for offset: UInt64 in [4096, 4088, 8] { expectRefused("base not below \(offset)", at: offset) { _ in } }
            expectRefused("cut") { $0.removeLast() }
            expectRefused("a word of 0") { $0.replaceSubrange(first..<first + 6, with: repeatElement(0, count: 6)) }
            if count > 1 {
                expectRefused("descending") { bytes in
                    for byte in 0..<8 { bytes.swapAt(first + byte, first + 8 + byte) }
                }
                expectRefused("twice") { bytes in
                    for byte in 0..<8 { bytes[first + 8 + byte] = bytes[first + byte] }
                }
            }
            if count >= 16 {
                expectRefused("a bit too few") { $0[8] ^= 1 }
                expectRefused("a bit too many") { $0[8] ^= 2 }
                expectRefused("a bit too many at the end") { $0[71] ^= 0x80 }
            }
        }
    }
}
