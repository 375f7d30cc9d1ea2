// A state in parts, for stores of any size: it never is one value in memory.

/// A part of a state. `Store.forEachStatePart` returns the parts, and `Store.applyState` applies them.
///
/// A state is one `beginning`, any number of `stretches`, any number of `objects`, and one `end`, in this order.
public enum ExportedStatePart: Hashable, Sendable {
    /// The state without its objects: a transaction whose `holds` is not nil, and that has no changes.
    case beginning(ExportedTransaction)
    /// The names of the objects.
    case stretches([ExportedStretch])
    /// Objects of the state, as insertions. Each entity's objects come together, in the order of their numbers in the
    /// exporting store.
    case objects([ExportedChange])
    /// The number of objects. A state without it is not complete.
    case end(objects: UInt64)
}

/// Names of objects of one entity, whose numbers are consecutive. Not each number in between has an object.
public struct ExportedStretch: Hashable, Sendable {
    /// The name of the entity.
    public let entity: String
    /// The name of the first object.
    public let first: ExportedObject
    /// The first object's number in the exporting store.
    public let number: UInt64
    /// The number of names.
    public let count: UInt64

    /// Creates a stretch. It is not validated here.
    public init(entity: String, first: ExportedObject, number: UInt64, count: UInt64) {
        (self.entity, self.first, self.number, self.count) = (entity, first, number, count)
    }
}
