// What a program's own types need to be kept in a store, and how they refer to each other.

/// A type whose values a store keeps: a plain struct whose stored properties all have initial values.
///
/// ```swift
/// struct Folder: Entity {
///     var name = ""
/// }
/// ```
///
/// That is a whole declaration. Every stored property is an attribute of the same name. A property that is optional may
/// be null. Options, relationships and properties that are not kept are named in `schema`.
public protocol Entity: Sendable {
    /// A value with the initial values of all properties. A struct gets this for free.
    init()
    /// What is to be said of the properties, as a `static let`. Leave it out if there is nothing to say.
    static var schema: Schema<Self> { get }

    /// Called once before an object that was inserted into a context is saved. Its changes are saved, too.
    mutating func willInsert()
    /// Called once before an object that was inserted or changed in a context is saved. Its changes are saved, too.
    mutating func willSave()
    /// Called once before the deletion of an object in a context is saved.
    mutating func willDelete()
}

extension Entity {
    /// The entity is called as the type is, and no property has options.
    public static var schema: Schema<Self> { Schema() }

    /// Does nothing.
    public mutating func willInsert() {}
    /// Does nothing.
    public mutating func willSave() {}
    /// Does nothing.
    public mutating func willDelete() {}
}

/// Names one object of an entity in a store. It costs nothing to keep and to copy, and says nothing about whether the
/// object exists.
///
/// A property of the type `Reference<E>?` is a relationship to one object, one of the type `[Reference<E>]` to several
/// in an order, and one of the type `Set<Reference<E>>` to several without.
public struct Reference<E: Entity>: Hashable, Comparable, Sendable {
    /// The object's ID, for everything that is not typed.
    public let id: ObjectID

    /// Refers to an object by its ID. That the ID is one of this entity is checked where it is used.
    public init(_ id: ObjectID) { self.id = id }

    /// In the order in which the objects were inserted.
    public static func < (left: Reference, right: Reference) -> Bool { left.id < right.id }
}

extension Reference: Codable {
    public init(from decoder: any Decoder) throws { self.init(try ObjectID(from: decoder)) }

    /// Throws `StoreError`: `wrongContext` if the reference is temporary: it means nothing outside of its context.
    public func encode(to encoder: any Encoder) throws {
        guard !id.isTemporary else {
            throw StoreError(
                .wrongContext,
                "It contains a temporary reference, which means nothing outside of its context: save the object of "
                    + "“\(E.model.name)” first, or call context.obtainPermanentReferences(for:), and set the value "
                    + "with the object's new reference.", ObjectFacts(E.model.name, object: id))
        }
        try id.encode(to: encoder)
    }
}

extension Reference: CustomStringConvertible {
    public var description: String { id.description }
}

extension Reference: EntityReference {
    public typealias Target = E
}

/// A reference to objects of some entity: `Reference`.
public protocol EntityReference {
    /// The entity.
    associatedtype Target: Entity
}

/// A property that refers to objects: `Reference<E>?`, `[Reference<E>]` or `Set<Reference<E>>`.
public protocol RelationshipProperty {
    /// The entity that it refers to.
    associatedtype Target: Entity
}

extension Optional: RelationshipProperty where Wrapped: EntityReference {
    public typealias Target = Wrapped.Target
}

extension Array: RelationshipProperty where Element: EntityReference {
    public typealias Target = Element.Target
}

extension Set: RelationshipProperty where Element: EntityReference {
    public typealias Target = Element.Target
}

/// A property from which the objects that refer to its object are read: `ToMany` or `ToOne`.
public protocol OtherSide {
    /// The entity of the objects that refer.
    associatedtype Referrer: Entity
}

extension ToMany: OtherSide {
    public typealias Referrer = E
}

extension ToOne: OtherSide {
    public typealias Referrer = E
}

/// The other side of a relationship to one that is unique: the one object that refers to this one. A place to read
/// from, as `ToMany` is for several.
///
/// Name it as the inverse of a relationship that has the option `.unique`:
/// `Relationship(\.owner, .unique, inverse: \.passport)`.
public struct ToOne<E: Entity>: Hashable, Sendable {
    /// So that no two properties are at the same place in a struct: places tell properties apart.
    private let place: UInt8 = 0

    /// The other side of a relationship.
    public init() {}
}

/// The other side of a relationship: the objects that refer to this one. A place to read from. It holds nothing, and
/// takes no space in the store.
///
/// Name it as the inverse of the relationship: `Relationship(\.folder, inverse: \.clips)`. A snapshot finds the objects
/// through the index that every relationship has.
public struct ToMany<E: Entity>: Hashable, Sendable {
    /// So that no two properties are at the same place in a struct: places tell properties apart.
    private let place: UInt8 = 0

    /// The other side of a relationship.
    public init() {}
}
