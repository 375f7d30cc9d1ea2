// The distinct terms of a segment that is being built: a hash table from a term and its attribute to a number.

/// Numbers pairs of a term and an attribute, from 0 in the order of their first occurrence.
///
/// Open addressing with linear probing. The seeds are random, so texts cannot be chosen to collide; the numbers do not
/// depend on them.
///
/// Sound because the struct owns its memory and cannot be copied. Places are masked to the size of the table, and the
/// numbers in it are below `count`.
struct TermTable: ~Copyable {
    private struct Entry {
        var offset: UInt32
        var length: UInt8
        var attribute: UInt8
    }

    /// The low half of the hash above the number plus 1; 0 for an empty place.
    private var slots: UnsafeMutablePointer<UInt64>
    private var mask: Int
    private var entries: [Entry] = []
    private var bytes = ByteWriter()
    private let seeds = (UInt64.random(in: 0...UInt64.max) | 1, UInt64.random(in: 0...UInt64.max) | 1)

    init() {
        (slots, mask) = (Self.emptySlots(4096), 4095)
    }

    deinit { slots.deallocate() }

    var count: Int { entries.count }
    /// The memory of the table, nearly.
    var memory: Int { (mask + 1) * 8 + entries.count * 8 + bytes.count }

    func attribute(_ number: Int) -> Int { Int(entries[number].attribute) }

    /// Valid until the next addition.
    func term(_ number: Int) -> UnsafeRawBufferPointer {
        let entry = entries[number]
        return bytes.bytes.slice(Int(entry.offset), Int(entry.length))
    }

    /// Forgets all terms, and keeps the memory.
    mutating func removeAll() {
        entries.removeAll(keepingCapacity: true)
        bytes.truncate()
        slots.update(repeating: 0, count: mask + 1)
    }

    /// The number of a term, which is added if it is missing.
    @inline(__always)
    mutating func number(of term: UnsafeRawBufferPointer, attribute: Int) -> Int {
        let hash = hash(term, attribute)
        var place = Int(truncatingIfNeeded: hash &>> 32) & mask
        while true {
            let slot = slots[place]
            if slot == 0 { return add(term, attribute, hash, place) }
            if slot &>> 32 == hash & 0xffff_ffff {
                let number = Int(truncatingIfNeeded: slot & 0xffff_ffff) &- 1
                if isEqual(number, term, attribute) { return number }
            }
            place = (place &+ 1) & mask
        }
    }

    @inline(__always)
    private func isEqual(_ number: Int, _ term: UnsafeRawBufferPointer, _ attribute: Int) -> Bool {
        let entry = entries[number]
        guard Int(entry.length) == term.count, Int(entry.attribute) == attribute else { return false }
        return bytes.bytes.slice(Int(entry.offset), term.count).hasSameBytes(as: term)
    }

    // MARK: Growth

    @inline(never)
    private mutating func add(
        _ term: UnsafeRawBufferPointer, _ attribute: Int, _ hash: UInt64, _ place: Int
    ) -> Int {
        precondition(bytes.count < Int(UInt32.max) - term.count, "A segment has too many terms.")
        let number = entries.count
        entries.append(Entry(offset: UInt32(bytes.count), length: UInt8(term.count), attribute: UInt8(attribute)))
        bytes.append(term)
        slots[place] = hash &<< 32 | UInt64(number + 1)
        if entries.count * 2 > mask { grow() }
        return number
    }

    private mutating func grow() {
        let size = (mask + 1) * 2
        slots.deallocate()
        (slots, mask) = (Self.emptySlots(size), size - 1)
        for number in 0..<entries.count {
            let hash = hash(term(number), attribute(number))
            var place = Int(truncatingIfNeeded: hash &>> 32) & mask
            while slots[place] != 0 { place = (place &+ 1) & mask }
            slots[place] = hash &<< 32 | UInt64(number + 1)
        }
    }

    private static func emptySlots(_ count: Int) -> UnsafeMutablePointer<UInt64> {
        let slots = UnsafeMutablePointer<UInt64>.allocate(capacity: count)
        slots.initialize(repeating: 0, count: count)
        return slots
    }

    // MARK: Hashing

    /// Multiplies 8 bytes at a time with a seed, and folds the product.
    @inline(__always)
    private func hash(_ term: UnsafeRawBufferPointer, _ attribute: Int) -> UInt64 {
        var hash = seeds.0 ^ UInt64(truncatingIfNeeded: attribute &<< 8 | term.count)
        var offset = 0
        while term.count &- offset >= 8 {
            hash = mix(hash ^ term.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
            offset &+= 8
        }
        return mix(mix(hash ^ tail(term, offset)) &+ seeds.0)
    }

    @inline(__always)
    private func mix(_ word: UInt64) -> UInt64 {
        let product = word.multipliedFullWidth(by: seeds.1)
        return product.high ^ product.low
    }

    /// The bytes from an offset on: less than 8.
    @inline(__always)
    private func tail(_ term: UnsafeRawBufferPointer, _ offset: Int) -> UInt64 {
        let left = term.count &- offset
        if left >= 4 {
            let low = UInt64(term.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
            let high = UInt64(term.loadUnaligned(fromByteOffset: term.count &- 4, as: UInt32.self))
            return high &<< 32 | low
        }
        guard left > 0 else { return 0 }
        // These three bytes cover all that are left.
        return UInt64(term[offset]) | UInt64(term[offset &+ left &>> 1]) &<< 8 | UInt64(term[term.count &- 1]) &<< 16
    }

    // MARK: Order

    /// The numbers of all terms in the order of their bytes, then of their attributes.
    func sorted() -> [UInt32] {
        var keys: [(start: UInt64, number: UInt32)] = []
        keys.reserveCapacity(entries.count)
        for number in 0..<entries.count { keys.append((Self.start(term(number)), UInt32(number))) }
        keys.sort { $0.start == $1.start ? isBefore(Int($0.number), Int($1.number)) : $0.start < $1.start }
        return keys.map(\.number)
    }

    /// The first 8 bytes as a number that sorts as they do; zeros fill it up.
    private static func start(_ term: UnsafeRawBufferPointer) -> UInt64 {
        if term.count >= 8 { return UInt64(bigEndian: term.loadUnaligned(as: UInt64.self)) }
        var word: UInt64 = 0
        for index in 0..<term.count { word |= UInt64(term[index]) &<< UInt64(56 &- 8 &* index) }
        return word
    }

    private func isBefore(_ left: Int, _ right: Int) -> Bool {
        let (first, second) = (term(left), term(right))
        return first.hasSameBytes(as: second) ? attribute(left) < attribute(right) : first.isBefore(second)
    }
}
