// The requirements for storing a program's own types, and their references to each other.

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
    /// The options and relationships of the properties, as a `static let` of the type `Schema<Self>`. Leave it out if
    /// no property has any.
    static var schema: _SchemaForm { get }

    /// Not for programs: leave it as it is. The schema of another entity would be left out silently otherwise.
    associatedtype _SchemaForm = Schema<Self>
    /// Not for programs: leave it as it is. Conformances of `Object` depend on it. See `Object+Identity.swift`.
    associatedtype _ObjectForm = _PlainObject

    /// Called once before an object that was inserted into a context is saved. Its changes are saved, too.
    mutating func willInsert()
    /// Called once before an object that was inserted or changed in a context is saved. Its changes are saved, too.
    mutating func willSave()
    /// Called once before the deletion of an object in a context is saved. It may not be called for an object that only
    /// a delete rule deletes.
    mutating func willDelete()
}

extension Entity {
    /// Not available: the compiler makes the real one from the initial values.
    @available(*, unavailable, message: "give each stored property an initial value, or write an init() that does")
    public init() { preconditionFailure("The initializer is not available.") }

    /// Does nothing.
    public mutating func willInsert() {}
    /// Does nothing.
    public mutating func willSave() {}
    /// Does nothing.
    public mutating func willDelete() {}
}

extension Entity where _SchemaForm == Schema<Self> {
    /// The entity has the type's name, and no property has options.
    public static var schema: Schema<Self> { Schema() }
}

/// Not for programs. See `Entity`.
public enum _PlainObject {}

/// Names one object of an entity in a store. It costs nothing to keep and to copy. The object need not exist.
///
/// It is the object's ID, with four bytes that distinguish stores. With a reference from one store, reading and writing
/// throw `referenceForeign` in another store, and a predicate finds nothing there. A reference made from an ID alone,
/// or from a decoded change of history, belongs to no particular store: it equals the references of all stores that
/// have its ID.
///
/// A property of the type `Reference<E>?` is a relationship to one object, one of the type `[Reference<E>]` to several
/// in an order, and one of the type `Set<Reference<E>>` to several without.
public struct Reference<E: Entity>: Hashable, Comparable, Sendable {
    // Its members are disfavored: `clip.folder?.id` is a property `id` of `Folder`, if it has one (ON4).

    /// The object's ID, for everything that is not typed.
    @_disfavoredOverload public let id: ObjectID
    /// The mark of the store (`UUIDBytes.mark`); 0 if it is not known.
    let store: UInt32

    /// Refers to an object by its ID. The entity of the ID is checked where the reference is used. Its store is not
    /// known.
    public init(_ id: ObjectID) { self.init(id, of: 0) }

    /// Refers to an object of the store with that mark.
    init(_ id: ObjectID, of store: UInt32) { (self.id, self.store) = (id, store) }

    /// Whether two references name the same object of a store. A reference without a store matches any store.
    public static func == (left: Reference, right: Reference) -> Bool {
        left.id == right.id && ReferenceContent.mayBeEqual(left.store, right.store)
    }

    @_disfavoredOverload public func hash(into hasher: inout Hasher) { hasher.combine(id) }

    /// The hash of the object's ID.
    @_disfavoredOverload public var hashValue: Int { id.hashValue }

    /// In the order in which the objects were inserted.
    public static func < (left: Reference, right: Reference) -> Bool { left.id < right.id }

    /// Throws `referenceForeign` if it is of another store than the one with that mark.
    func requireStore(_ mark: UInt32) throws(StoreError) {
        if store != mark, store != 0, mark != 0 { throw .referenceForeign(id, of: E.model.name) }
    }
}

extension Array {
    /// References to objects of the store with that mark.
    init<E: Entity>(_ objects: [ObjectID], of mark: UInt32) where Element == Reference<E> {
        // Appending to an array whose type is not known here would look the type up for each element.
        self.init(unsafeUninitializedCapacity: objects.count) { references, count in
            guard let first = references.baseAddress else { return }
            for (index, object) in objects.enumerated() {
                (first + index).initialize(to: Reference(object, of: mark))
            }
            count = objects.count
        }
    }
}

/// A reference in memory, for any entity: the layout of a generic struct does not depend on types that its fields do
/// not use.
struct ReferenceContent {
    var id: ObjectID
    var store: UInt32

    /// Whether references with these marks may be of one store.
    static func mayBeEqual(_ left: UInt32, _ right: UInt32) -> Bool { left == right || left == 0 || right == 0 }
}

extension StoreError {
    static func referenceForeign(
        _ object: ObjectID, of entity: String, at property: (entity: String, name: String)? = nil
    ) -> StoreError {
        let place = property.map { "“\($0.name)” of “\($0.entity)” refers to \(object)" } ?? "\(object)"
        return StoreError(
            .referenceForeign,
            "\(place) of “\(entity)” in another store, so this ID may belong to another object here: pass "
                + "store.uri(of:) between stores, or find the object here by its values.",
            ObjectFacts(property?.entity ?? entity, property.map { [$0.name] } ?? [], object: object))
    }
}

extension Reference: Codable {
    /// The ID as text, and after “@” the mark of the store, if it is known: “1:42@9a3f01c2”.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let parts = try container.decode(String.self).split(separator: "@", omittingEmptySubsequences: false)
        guard parts.count <= 2, let id = ObjectID(String(parts[0])),
            let store = parts.count == 1 ? CanonicalJSON.mark(of: decoder) : UInt32(parts[1], radix: 16),
            parts.count == 1 || String(store, radix: 16) == parts[1]
        else {
            throw DecodingError.dataCorruptedError(
                in: container,
                debugDescription: "This is not a reference: a reference looks like “1:42@9a3f01c2” or "
                    + "“1:42”.")
        }
        self.init(id, of: store)
    }

    /// Throws `StoreError`: `wrongContext` if the reference is temporary: it means nothing outside of its context.
    public func encode(to encoder: any Encoder) throws {
        guard !id.isTemporary else {
            throw StoreError(
                .wrongContext,
                "The value contains a temporary reference, which has no meaning outside of its context: save the "
                    + "object of “\(E.model.name)” first, or call context.obtainPermanentReferences(for:), and set the "
                    + "value with the object's new objectReference.", ObjectFacts(E.model.name, object: id))
        }
        guard store != 0, !CanonicalJSON.isStoredForm(encoder) else { return try id.encode(to: encoder) }
        var container = encoder.singleValueContainer()
        try container.encode("\(id)@" + String(store, radix: 16))
    }
}

extension Reference: CustomStringConvertible {
    @_disfavoredOverload public var description: String { id.description }
}

extension Reference: EntityReference {
    public typealias Target = E
}

/// A value that refers to objects. Adopt it in an `AttributeValue` of your own whose `attributeType` is `.object`,
/// `.orderedObjects` or `.objects`: a `Relationship` takes it.
public protocol ReferenceValue {}

extension Optional: ReferenceValue where Wrapped: ReferenceValue {}
extension Array: ReferenceValue where Element: ReferenceValue {}
extension Set: ReferenceValue where Element: ReferenceValue {}

/// A reference to objects of some entity: `Reference`. Only a constraint for the compiler: do not adopt it.
public protocol EntityReference: ReferenceValue {
    /// The entity.
    associatedtype Target: Entity
}

/// A property that refers to objects: `Reference<E>?`, `[Reference<E>]` or `Set<Reference<E>>`. Only a constraint for
/// the compiler: do not adopt it.
public protocol RelationshipProperty: ReferenceValue {
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

/// A property from which the objects that refer to its object are read: `ToMany` or `ToOne`. Only a constraint for the
/// compiler: do not adopt it.
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
    /// Takes space, so that no two properties are at the same offset in a struct: offsets identify properties.
    private let place: UInt8 = 0

    /// The other side of a relationship.
    public init() {}
}

/// The other side of a relationship: the objects that refer to this one. It is read-only, holds nothing, and takes no
/// space in the store.
///
/// Name it as the inverse of the relationship: `Relationship(\.folder, inverse: \.clips)`. A snapshot finds the objects
/// through the index that every relationship has.
public struct ToMany<E: Entity>: Hashable, Sendable {
    /// Takes space, so that no two properties are at the same offset in a struct: offsets identify properties.
    private let place: UInt8 = 0

    /// The other side of a relationship.
    public init() {}
}

extension ToMany {
    /// Not available: the other side of a relationship is read-only.
    @available(*, unavailable, message: "the other side is read only: set the property of the object that refers")
    public mutating func append(_ object: Object<E>) {}

    /// Not available: the other side of a relationship is read-only.
    @available(*, unavailable, message: "the other side is read only: set the property of the object that refers")
    public mutating func append(_ reference: Reference<E>) {}
}
