// The places of a peer's own messages in the stream, as exactly as discarding needs them.

/// Finds the sequence number up to which a peer's messages can be removed from a stream.
///
/// A message that was sent again is stored after messages with larger numbers, so the numbers of a stream do not only
/// rise. For each block of 64 numbers this remembers the first sequence that any of them has. So the answer is exact
/// to a block, and never too large.
package struct NATSSentNumbers: Equatable, Sendable {
    private var firstSequences: [UInt64: UInt64] = [:]
    /// 0 for none.
    private(set) var newestSequence: UInt64 = 0

    package init() {}

    package mutating func add(number: UInt64, sequence: UInt64) {
        newestSequence = max(newestSequence, sequence)
        firstSequences[number >> 6] = min(firstSequences[number >> 6] ?? .max, sequence)
    }

    /// All known messages before this sequence have at most this number. 0 if no message is known.
    package func firstSequence(after number: UInt64) -> UInt64 {
        guard newestSequence > 0 else { return 0 }
        let block = number == .max ? number >> 6 : (number + 1) >> 6
        let later = firstSequences.lazy.filter { $0.key >= block }.map(\.value).min()
        return later ?? newestSequence + 1
    }

    /// Forgets messages that were removed.
    package mutating func forget(through number: UInt64) {
        let block = number == .max ? number >> 6 : (number + 1) >> 6
        firstSequences = firstSequences.filter { $0.key >= block }
    }
}
