// A merged transaction that is kept in the store with its effect, because the effect was another one, or is not all
// that it has read.
//
// A byte, the sum of 1 if it is open, 2 if it has moved names, and 4 if it is parked. Then the transaction as a message
// (`MirrorMessage`).

internal import Annals

struct KeptTransaction {
    var transaction: ExportedTransaction
    /// Whether it has read objects that it names nowhere (`MergeWindow.append`).
    var isOpen: Bool
    /// Whether names lead to other objects since.
    var movesNames: Bool
    /// Whether it has no effect yet (MK1).
    var isParked: Bool

    init(transaction: ExportedTransaction, isOpen: Bool, movesNames: Bool, isParked: Bool) {
        (self.transaction, self.isOpen, self.movesNames) = (transaction, isOpen, movesNames)
        self.isParked = isParked
    }

    init(_ bytes: [UInt8]) throws(StoreError) {
        guard let flag = bytes.first, flag <= 7,
            case .transaction(let message) = try MirrorMessage(Array(bytes.dropFirst())).content
        else {
            throw StoreError(.damaged, "A merged transaction was kept in an unknown form: use a newer version.")
        }
        self.init(
            transaction: message.transaction, isOpen: flag & 1 != 0, movesNames: flag & 2 != 0,
            isParked: flag & 4 != 0)
    }

    func encoded(_ order: UInt64) throws(StoreError) -> [UInt8] {
        let message = TransactionMessage(
            lamport: order, knowledge: VersionVector(), isKnowledgeComplete: false, transaction: transaction)
        return [(isOpen ? 1 : 0) | (movesNames ? 2 : 0) | (isParked ? 4 : 0)]
            + (try MirrorMessage(published: 0, .transaction(message)).encoded())
    }
}
