// The slots in which a store and a transaction hold objects of the layers above.

/// The objects of the layers above that belong to a store.
struct StoreExtensions {
    /// Called for each transaction.
    var upkeep: (any TransactionUpkeep)? { didSet { hasWork = upkeep != nil || indexer != nil } }
    /// Told about the changes of each transaction.
    var indexer: (any SearchUpkeep)? { didSet { hasWork = upkeep != nil || indexer != nil } }
    /// Whether there is one of them. Cheaper to ask for than these, which are copied for it.
    private(set) var hasWork = false
    /// The types that the store was opened with.
    var models: (any StoreModels)?
}

/// The types of a program that a store was opened with.
protocol StoreModels: Sendable {}

/// The keeper of a context that belongs to a store.
@MainActor protocol StoreContextKeeper: AnyObject {}

/// An object of a layer above that belongs to a transaction.
class TransactionAttachment {
    /// The error to throw after the body.
    var failure: StoreError? { nil }
}

/// Work for searches in the background of a store.
protocol SearchUpkeep: AnyObject, Sendable {
    /// So many objects are about to be changed.
    func noteChanges(_ count: Int)
    /// A transaction of this store was committed.
    func noteCommit()
    /// A search has met many changes.
    func wake()
    /// Waits for the step under way, and begins no other.
    func stop()
}

/// Work of a layer above after the body of each transaction of a store. It may change objects.
protocol TransactionUpkeep: Sendable {
    /// `transaction` is nil if the changes are not those of a body: a revert, or a transaction of another store.
    /// `validates` is false for the latter, which must be applied unchanged. Throws an error with `upkeepObstacles` if
    /// such changes lead to values that cannot be written.
    func bodyHasEnded(
        _ draft: Draft, _ transaction: Transaction?, validates: Bool
    ) throws(StoreError)
    /// Whether an attribute of an entity has no value of its own, but a derived one that is computed here.
    func isDerived(_ attribute: UInt16, of entity: UInt16, _ draft: Draft) -> Bool
    /// The same without attributes that keep a written value, such as the time of the last change.
    func isWorkedOut(_ attribute: UInt16, of entity: UInt16, _ draft: Draft) -> Bool
}
