// The input of observers: the changes of one transaction, entity and kind.

/// A transaction's change of one object of an entity whose type the program has.
public struct ObservedChange<E: Entity>: Sendable {
    /// The object.
    public let reference: Reference<E>
    /// The object before; nil for an insert, or if history no longer has it.
    public let before: E?
    /// The object after; nil for a deletion.
    public let after: E?
    /// The preserved properties of a deleted object.
    public let tombstone: Tombstone<E>?
    /// The change itself, with the names of the attributes.
    public let change: HistoryChange

    init?(_ change: HistoryChange) throws {
        guard let reference = change.reference(to: E.self) else { return nil }
        self.reference = reference
        self.change = change
        before = try change.before(of: E.self)
        after = try change.after(of: E.self)
        tombstone = change.tombstone(of: E.self)
    }

    /// Whether an update changed a property.
    public func changes(_ path: any PartialKeyPath<E> & Sendable) -> Bool { change.changes(path) }
}

/// The changes of one kind that a transaction made to objects of one entity, in the order in which they were made.
public struct ObservedChanges<E: Entity>: RandomAccessCollection, Sendable {
    /// The transaction that made the changes.
    public let transaction: TransactionHeader
    /// The kind of change.
    public let kind: HistoryChange.Kind
    private let changes: [ObservedChange<E>]

    init(_ group: ChangeGroup) throws {
        transaction = group.transaction.header
        kind = group.kind
        var changes: [ObservedChange<E>] = []
        changes.reserveCapacity(group.changes.count)
        for change in group.changes {
            if let observed = try ObservedChange<E>(change) { changes.append(observed) }
        }
        self.changes = changes
    }

    /// The position of the first change.
    public var startIndex: Int { 0 }
    /// The position after the last change.
    public var endIndex: Int { changes.count }
    /// The change at a position.
    public subscript(position: Int) -> ObservedChange<E> { changes[position] }
}

/// The changes of a transaction that observers get in one call.
struct ChangeGroup: Sendable {
    let transaction: HistoryTransaction
    let entity: String
    let kind: HistoryChange.Kind
    var changes: [HistoryChange]

    /// The changes of a transaction, by entity and kind, in the order of their first changes.
    static func groups(of transaction: HistoryTransaction) -> [ChangeGroup] {
        var groups: [ChangeGroup] = []
        for change in transaction.changes {
            // The groups are few, and the last one is usually the right one.
            if let position = groups.lastIndex(where: { $0.kind == change.kind && $0.entity == change.entity }) {
                groups[position].changes.append(change)
            } else {
                groups.append(
                    ChangeGroup(
                        transaction: transaction, entity: change.entity, kind: change.kind, changes: [change]))
            }
        }
        return groups
    }
}
