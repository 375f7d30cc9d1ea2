// A state in parts, for stores of any size: it is never one value in memory.

/// A part of a state. `Store.stateReader` returns the parts, and `Store.applyState` applies them.
///
/// A state is one `beginning`, any number of `stretches`, any number of `objects`, and one `end`, in this order. The
/// stretches name all objects of the state. The objects come in the order of their names. Aliases may come before the
/// end.
public enum ExportedStatePart: Hashable, Sendable {
    /// The state without its objects: a transaction whose `holds` is not nil, and that has no changes.
    case beginning(ExportedTransaction)
    /// The names of objects.
    case stretches([ExportedStretch])
    /// Objects, as insertions.
    case objects([ExportedChange])
    /// Further names of objects that also have the name of a stretch.
    case aliases([ExportedAlias])
    /// The number of objects. A state without it is not complete.
    case end(objects: UInt64)
}

/// The names of objects of one entity whose numbers are consecutive.
public struct ExportedStretch: Hashable, Sendable {
    /// The name of the entity.
    public let entity: String
    /// The name of the first object.
    public let first: ExportedObject
    /// The number of objects.
    public let count: UInt64

    /// Creates a stretch. It is not validated here.
    public init(entity: String, first: ExportedObject, count: UInt64) {
        (self.entity, self.first, self.count) = (entity, first, count)
    }
}

/// Further names of objects, whose numbers are consecutive in both.
public struct ExportedAlias: Hashable, Sendable {
    /// The first further name.
    public let first: ExportedObject
    /// The object that it leads to, by its name in the state.
    public let object: ExportedObject
    /// The number of names.
    public let count: UInt64

    /// Creates a stretch of names. It is not validated here.
    public init(first: ExportedObject, of object: ExportedObject, count: UInt64) {
        (self.first, self.object, self.count) = (first, object, count)
    }
}
