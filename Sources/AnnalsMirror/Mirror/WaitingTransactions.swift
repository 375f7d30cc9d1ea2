// The transactions of one store that cannot be merged yet, by their numbers.

internal import Annals

struct WaitingTransactions {
    private var messages: [UInt64: TransactionMessage] = [:]
    /// Ascending.
    private var numbers: ArraySlice<UInt64> = []

    var first: TransactionMessage? { numbers.first.flatMap { messages[$0] } }

    /// In their order.
    var all: some Sequence<TransactionMessage> { numbers.lazy.compactMap { messages[$0] } }

    /// Constant time for the one with the highest number: usually they come in their order.
    mutating func insert(_ message: TransactionMessage) {
        let number = message.transaction.token.number
        guard messages.updateValue(message, forKey: number) == nil else { return }
        let place = number > numbers.last ?? 0 ? numbers.endIndex : numbers.partitioningIndex { $0 > number }
        numbers.insert(number, at: place)
    }

    mutating func removeFirst() { if let number = numbers.popFirst() { messages[number] = nil } }
}
