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
/// be null. `schema` gives options to properties, connects the two sides of relationships, and names the properties
/// that the store does not keep.
public protocol Entity: Sendable {
    /// Creates a value with the initial values of all properties. The compiler writes this for a struct.
    init()
    /// The options and relationships of the properties, as a `static let` of the type `Schema<Self>`. Leave it out if
    /// no property has any.
    static var schema: _SchemaForm { get }

    /// Not for programs: leave it as it is. Without it, a `schema` that describes another entity would be ignored
    /// silently.
    associatedtype _SchemaForm = Schema<Self>
    /// Not for programs: leave it as it is. Conformances of `Object` depend on it. See `Object+Identity.swift`.
    associatedtype _ObjectForm = _PlainObject

    /// Called once before an object that was inserted into a context is saved. Changes that it makes are saved, too.
    mutating func willInsert()
    /// Called once before an object that was inserted or changed in a context is saved. Changes that it makes are
    /// saved, too.
    mutating func willSave()
    /// Called once before the deletion of an object in a context is saved. For an object that only a delete rule
    /// deletes, it is not always called.
    mutating func willDelete()
}

extension Entity {
    /// Not available: the compiler writes the real initializer if all stored properties have initial values.
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

/// Names one object of an entity in a store. Keeping and copying a reference cost nothing. The object need not exist.
///
/// It is the object's ID, with four bytes that distinguish stores. If you use it in a store that it does not belong to,
/// reading and writing throw `referenceForeign`, and a predicate finds nothing. A reference made from an ID alone, or
/// from a decoded change of history, belongs to no particular store: it equals every reference with the same ID,
/// whichever store that one belongs to.
///
/// A property of the type `Reference<E>?` is a relationship to one object. `[Reference<E>]` is a relationship to
/// several objects in an order, and `Set<Reference<E>>` to several objects without an order.
public struct Reference<E: Entity>: Hashable, Comparable, Sendable {
    // If `Folder` has a property `id`, `clip.folder?.id` must mean that property (ON4). So the members of `Reference`
    // are disfavored.

    /// The object's ID, for functions that do not use the type of the entity.
    @_disfavoredOverload public let id: ObjectID
    /// The mark of the store (`UUIDBytes.mark`); 0 if the store is not known.
    let store: UInt32

    /// Refers to an object by its ID, in no particular store. The entity of the ID is checked when the reference is
    /// used.
    public init(_ id: ObjectID) { self.init(id, of: 0) }

    /// Refers to an object of the store with this mark.
    init(_ id: ObjectID, of store: UInt32) { (self.id, self.store) = (id, store) }

    /// Whether two references name the same object of a store. A reference without a store matches any store.
    public static func == (left: Reference, right: Reference) -> Bool {
        left.id == right.id && ReferenceContent.mayBeEqual(left.store, right.store)
    }

    @_disfavoredOverload public func hash(into hasher: inout Hasher) { hasher.combine(id) }

    /// The hash of the object's ID.
    @_disfavoredOverload public var hashValue: Int { id.hashValue }

    /// By ID. That is the order in which the objects of an entity got their IDs, usually that of their insertion.
    public static func < (left: Reference, right: Reference) -> Bool { left.id < right.id }

    /// Throws `referenceForeign` if the reference belongs to another store than the one with this mark.
    func requireStore(_ mark: UInt32) throws(StoreError) {
        if store != mark, store != 0, mark != 0 { throw .referenceForeign(id, of: E.model.name) }
    }
}

extension Array {
    /// Creates references to objects of the store with this mark.
    init<E: Entity>(_ objects: [ObjectID], of mark: UInt32) where Element == Reference<E> {
        // The element type is not known here, so appending would look it up for each element.
        self.init(unsafeUninitializedCapacity: objects.count) { references, count in
            guard let first = references.baseAddress else { return }
            for (index, object) in objects.enumerated() {
                (first + index).initialize(to: Reference(object, of: mark))
            }
            count = objects.count
        }
    }
}

/// A `Reference` to any entity, as it is in memory. The layout is the same for all entities, because no field of
/// `Reference` has a type that depends on the entity.
struct ReferenceContent {
    var id: ObjectID
    var store: UInt32

    /// Whether references with these marks may belong to the same store.
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
    /// Decodes a text: the ID, and after “@” the mark of the store, if that is known. For example “1:42@9a3f01c2”.
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

    /// Throws `StoreError`: `wrongContext` if the reference is temporary, and so has no meaning outside of its context.
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
/// `.orderedObjects` or `.objects`. Then a `Relationship` accepts properties of that type.
public protocol ReferenceValue {}

extension Optional: ReferenceValue where Wrapped: ReferenceValue {}
extension Array: ReferenceValue where Element: ReferenceValue {}
extension Set: ReferenceValue where Element: ReferenceValue {}

/// A reference to an object of some entity. Only `Reference` is one. It is a constraint for the compiler: do not adopt
/// it.
public protocol EntityReference: ReferenceValue {
    /// The entity.
    associatedtype Target: Entity
}

/// The type of a property that refers to objects: `Reference<E>?`, `[Reference<E>]` or `Set<Reference<E>>`. It is a
/// constraint for the compiler: do not adopt it.
public protocol RelationshipProperty: ReferenceValue {
    /// The entity of the objects that the property refers to.
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

/// The type of a property through which you read the objects that refer to an object: `ToMany` or `ToOne`. It is a
/// constraint for the compiler: do not adopt it.
public protocol OtherSide {
    /// The entity of the referring objects.
    associatedtype Referrer: Entity
}

extension ToMany: OtherSide {
    public typealias Referrer = E
}

extension ToOne: OtherSide {
    public typealias Referrer = E
}

/// The other side of a unique relationship to one object: the only object that refers to this one. Like `ToMany`, it
/// is read-only.
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
