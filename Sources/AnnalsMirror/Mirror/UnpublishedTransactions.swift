// Own transactions that the group has not got: the first of them. The others stay in history.

internal import Annals

struct UnpublishedTransactions {
    private var first: [OwnTransaction] = []
    private var bytes = 0
    /// The last own transaction that was taken, or is here.
    private var last: UInt64
    /// All own transactions before this number were taken.
    private(set) var next: UInt64

    init(after number: UInt64) { (last, next) = (number, number + 1) }

    /// Adds an own transaction if it follows the last one that is here, and there is room.
    ///
    /// - Parameter previous: The own transaction before it.
    /// - Returns: Whether there is more room.
    @discardableResult
    mutating func append(_ own: OwnTransaction, after previous: UInt64? = nil) -> Bool {
        let number = own.transaction.token.number
        guard previous ?? last <= last, number > last, bytes < Self.mostBytes else { return bytes < Self.mostBytes }
        first.append(own)
        last = number
        bytes += own.transaction.roughBytes
        return bytes < Self.mostBytes
    }

    /// Whether own transactions up to a number are missing, and none is here.
    func lacks(_ number: UInt64) -> Bool { first.isEmpty && number > last }

    mutating func take() -> [OwnTransaction] {
        defer { (first, bytes, next) = ([], 0, last + 1) }
        return first
    }

    /// Every store has the transactions up to a number, from an earlier mirror: they are not taken any more.
    mutating func settle(through number: UInt64) {
        guard number >= next else { return }
        first.removeAll { $0.transaction.token.number <= number }
        bytes = first.reduce(0) { $0 + $1.transaction.roughBytes }
        (last, next) = (max(last, number), number + 1)
    }

    private static let mostBytes = 1 << 20
}

extension ExportedTransaction {
    /// About the memory that it takes.
    var roughBytes: Int {
        changes.reduce(500) { sum, change in
            sum + change.values.reduce(100) { $0 + $1.roughBytes }
                + (change.before ?? []).reduce(0) { $0 + $1.roughBytes }
        }
    }
}

extension ExportedValue {
    fileprivate var roughBytes: Int {
        switch content {
        case .plain(.string(let text)): 50 + text.utf8.count
        case .plain(.data(let data)): 50 + data.count
        case .plain: 50
        case .object: 50
        case .orderedObjects(let objects), .objects(let objects): 50 + 32 * objects.count
        }
    }
}
