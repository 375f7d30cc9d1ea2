// Moves a consumer's cursor from an expected place, so that one of two callers that move it gets an error.

/// A transaction's number and tag.
package struct TransactionPlace: Hashable, Sendable {
    package var number: UInt64
    package var tag: UInt64

    package init(number: UInt64, tag: UInt64) { (self.number, self.tag) = (number, tag) }
}

/// Moves a consumer that has seen everything up to `from` to `to`.
package struct ConsumerAdvance: Hashable, Sendable {
    package var name: String
    package var from: TransactionPlace
    package var to: TransactionPlace

    package init(name: String, from: TransactionPlace, to: TransactionPlace) {
        (self.name, self.from, self.to) = (name, from, to)
    }
}
