// Notes about each attribute of the row being written, in memory that is reused from row to row.

/// Three sets of positions, as bits of 64-bit words.
///
/// Sound: the memory suffices for the attributes of any entity, and positions are those of a layout, which the caller
/// has checked. The memory belongs to the transaction, which writes one row at a time and outlives its writer.
struct AttributeNotes {
    private static let words = ChangeField.maximumAttributeWords

    private let memory: UnsafeMutablePointer<UInt64>

    static func allocate() -> AttributeNotes {
        let memory = UnsafeMutablePointer<UInt64>.allocate(capacity: 3 * words)
        memory.initialize(repeating: 0, count: 3 * words)
        return AttributeNotes(memory: memory)
    }

    func deallocate() { memory.deallocate() }

    /// Clears all marks, for a row of this number of attributes.
    @inline(__always)
    func begin(attributes count: Int) {
        assert(count <= 64 &* Self.words, "An entity has more attributes than notes.")
        for word in 0..<(count &+ 63) >> 6 {
            memory[word] = 0
            memory[word &+ Self.words] = 0
            memory[word &+ 2 &* Self.words] = 0
        }
    }

    /// Whether the attribute was set to no value.
    @inline(__always)
    func isAbsent(_ position: Int) -> Bool { memory[position >> 6] >> UInt64(position & 63) & 1 == 1 }

    @inline(__always)
    func noteAbsence(_ position: Int) { memory[position >> 6] |= Self.bit(position) }

    /// Marks an attribute that differs from the row before.
    @inline(__always)
    func noteChange(_ position: Int) { memory[position >> 6 &+ Self.words] |= Self.bit(position) }

    /// Marks an attribute that received its default because it must not be absent any more.
    @inline(__always)
    func noteDefault(_ position: Int) { memory[position >> 6 &+ 2 &* Self.words] |= Self.bit(position) }

    /// Counts the attributes that received their default as changed.
    @inline(__always)
    func countDefaults(attributes count: Int) {
        for word in 0..<(count &+ 63) >> 6 { memory[word &+ Self.words] |= memory[word &+ 2 &* Self.words] }
    }

    @inline(__always)
    private static func bit(_ position: Int) -> UInt64 { 1 &<< UInt64(truncatingIfNeeded: position & 63) }

    /// The changed attributes of a row of this number of attributes.
    func changes(attributes count: Int) -> AttributeSet {
        AttributeSet(
            words: UnsafeRawBufferPointer(UnsafeBufferPointer(start: memory + Self.words, count: (count + 63) / 64)))
    }
}
