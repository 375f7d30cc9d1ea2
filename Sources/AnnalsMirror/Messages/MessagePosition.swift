// The place of a message in its sender's sequence, and the transactions that a gap in the sequence may contain.
//
// The courier's numbers of a sender rise by one, each for one body. So a receiver finds a missing body by its number.
// The sender's transactions have numbers of their own, which rise from message to message, but not by one. Each body
// contains the largest transaction number before it. So two bodies at both ends of a gap show which numbers may be
// missing.

/// The place of one body in its sender's sequence.
package struct MessagePosition: Hashable, Sendable {
    /// The courier's number.
    package let number: UInt64
    /// The largest transaction number in earlier messages; 0 for none.
    package let published: UInt64
    /// The number of the transaction in the message; 0 for none.
    package let transaction: UInt64
    /// Whether the message has parts before this body, and after it.
    package let hasEarlierParts: Bool
    package let hasLaterParts: Bool

    package init(
        number: UInt64, published: UInt64, transaction: UInt64, hasEarlierParts: Bool, hasLaterParts: Bool
    ) {
        (self.number, self.published, self.transaction) = (number, published, transaction)
        (self.hasEarlierParts, self.hasLaterParts) = (hasEarlierParts, hasLaterParts)
    }

    /// The place of a body with that number.
    package init(_ body: MessageBody, number: UInt64) {
        self.number = number
        switch body {
        case .whole(let message):
            (published, transaction) = (message.published, message.transactionNumber)
            (hasEarlierParts, hasLaterParts) = (false, false)
        case .part(let part):
            (published, transaction) = (part.published, part.transaction)
            (hasEarlierParts, hasLaterParts) = (part.index > 0, part.index < part.count - 1)
        }
    }

    /// The numbers of the transactions that bodies between this place and a later one may contain, whole or in part.
    /// Nil if they contain none: then nothing needs to be requested.
    package func transactions(before next: MessagePosition) -> ClosedRange<UInt64>? {
        guard next.number > number, next.number - number > 1 else { return nil }
        // A transaction that began here goes on in the gap.
        let isCut = hasLaterParts && transaction > 0
        let known = max(published, transaction)
        let last = next.hasEarlierParts ? max(next.published, next.transaction) : next.published
        if isCut { return transaction <= last ? transaction...last : transaction...transaction }
        return known < last ? (known + 1)...last : nil
    }

    /// The same for the first body that a receiver gets of a sender: all numbers after one that it has already.
    package func transactions(after known: UInt64) -> ClosedRange<UInt64>? {
        let last = hasEarlierParts ? max(published, transaction) : published
        return known < last ? (known + 1)...last : nil
    }
}
