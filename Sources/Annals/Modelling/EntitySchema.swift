// An entity's description of its properties, by key paths: the compiler checks names and types.

/// The name of an entity and the options of its properties. A property needs a line only if it has options.
///
/// ```swift
/// static let schema = Schema<Clip> {
///     Attribute(\.url, .unique, .preservedOnDeletion)
///     Attribute(\.rank, .indexed)
///     Relationship(\.folder, inverse: \.clips, whenTargetIsDeleted: .cascade)
/// }
/// ```
///
/// Mistakes that the compiler does not see are reported when a store is opened, all at once (`modelInvalid`).
public struct Schema<E: Entity>: Sendable {
    /// A key path to any property.
    public typealias Property = any PartialKeyPath<E> & Sendable

    /// The name of the entity in the store.
    public let name: String
    let items: [SchemaItem<E>]
    let unique: [[Property]]
    let indexed: [[Property]]
    let history: HistoryPolicy
    let place: SchemaPlace

    /// Describes an entity.
    ///
    /// - Parameters:
    ///   - name: The entity's name in the store; nil for the name of the type.
    ///   - unique: Several properties whose values together are different for all objects, most significant first.
    ///   - indexed: Several properties that together have an index, most significant first.
    ///   - history: Whether changes are recorded. Used when the store does not have the entity yet.
    ///   - file: For messages about mistakes.
    ///   - line: For messages about mistakes.
    ///   - items: A line for each property that has options.
    public init(
        _ name: String? = nil, unique: [[Property]] = [], indexed: [[Property]] = [], history: HistoryPolicy = .full,
        file: StaticString = #fileID, line: Int = #line,
        @SchemaBuilder<E> _ items: () -> [SchemaItem<E>] = { [] }
    ) {
        self.name = name ?? "\(E.self)"
        self.items = items()
        (self.unique, self.indexed, self.history) = (unique, indexed, history)
        place = SchemaPlace(file: file, line: line)
    }
}

/// The place in a program that describes an entity. Computed properties have no names while the program runs.
struct SchemaPlace: Sendable, CustomStringConvertible {
    let file: StaticString
    let line: Int

    var description: String { "\(file):\(line)" }
}

/// Puts the lines of a schema together.
@resultBuilder public struct SchemaBuilder<E: Entity> {
    /// One line.
    public static func buildExpression(_ item: SchemaItem<E>) -> SchemaItem<E> { item }
    /// All lines.
    public static func buildBlock(_ items: SchemaItem<E>...) -> [SchemaItem<E>] { items }
}

/// A line of a schema about a property that holds a value: `Attribute(\.rank, .indexed)`.
public typealias Attribute = SchemaItem

/// A line of a schema: an `Attribute`, a `Relationship` or a `Transient`.
public struct SchemaItem<E: Entity>: Sendable {
    enum Role: Sendable {
        case attribute
        case relationship(DeleteRule, inverse: Inverse?)
        case transient
    }

    /// The other side of a relationship.
    struct Inverse: Sendable {
        let target: any Entity.Type
        let path: any AnyKeyPath & Sendable
        /// The offset of the property in the other struct; nil if it is no stored property.
        let offset: Int?
    }

    let path: any PartialKeyPath<E> & Sendable
    let role: Role
    let options: [PropertyOption<E>]
    let place: SchemaPlace

    var isTransient: Bool { if case .transient = role { true } else { false } }

    fileprivate init(
        _ path: any PartialKeyPath<E> & Sendable, _ role: Role, _ options: [PropertyOption<E>], _ place: SchemaPlace
    ) {
        (self.path, self.role, self.options, self.place) = (path, role, options, place)
    }

    /// Describes special rules of a property. A property without options needs no line. Messages about mistakes name
    /// the file and the line.
    public init<V>(
        _ path: any WritableKeyPath<E, V> & Sendable, _ options: AttributeOption<E, V>...,
        file: StaticString = #fileID, line: Int = #line
    ) {
        self.init(path, .attribute, options.map(\.option), SchemaPlace(file: file, line: line))
    }

    /// Not available: the store sets properties with options.
    @available(*, unavailable, message: "only a whole stored var has options: write var, not let, or remove the line")
    public init<V>(_ path: any KeyPath<E, V> & Sendable, _ options: AttributeOption<E, V>...) {
        preconditionFailure("The option is not available.")
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase
/// A line of a schema about a property that refers to one object (`Reference<T>?`), to several in an order
/// (`[Reference<T>]`) or to several (`Set<Reference<T>>`). Its other side is a property of the target.
///
/// - Parameters:
///   - path: The property that refers.
///   - options: As for an attribute.
///   - inverse: The property of the target from which the objects on this side can be read: a `ToMany`, or a `ToOne` if
///     the relationship is to one object and has the option `.unique`.
///   - rule: Decides about the objects of **this** entity when an object that they refer to is deleted.
///   - file: For messages about mistakes.
///   - line: For messages about mistakes.
public func Relationship<E: Entity, P: RelationshipProperty, S: OtherSide>(
    _ path: any WritableKeyPath<E, P> & Sendable, _ options: AttributeOption<E, P>...,
    inverse: any KeyPath<P.Target, S> & Sendable, whenTargetIsDeleted rule: DeleteRule = .nullify,
    file: StaticString = #fileID, line: Int = #line
) -> SchemaItem<E> where S.Referrer == E {
    let offset = MemoryLayout<P.Target>.offset(of: inverse)
    let side = SchemaItem<E>.Inverse(target: P.Target.self, path: inverse, offset: offset)
    return SchemaItem(
        path, .relationship(rule, inverse: side), options.map(\.option), SchemaPlace(file: file, line: line))
}

// swift-format-ignore: AlwaysUseLowerCamelCase
/// A line of a schema about a property that refers to objects, and has no other side.
public func Relationship<E: Entity, P: ReferenceValue>(
    _ path: any WritableKeyPath<E, P> & Sendable, _ options: AttributeOption<E, P>...,
    whenTargetIsDeleted rule: DeleteRule = .nullify, file: StaticString = #fileID, line: Int = #line
) -> SchemaItem<E> {
    SchemaItem(path, .relationship(rule, inverse: nil), options.map(\.option), SchemaPlace(file: file, line: line))
}

// swift-format-ignore: AlwaysUseLowerCamelCase
/// A line of a schema about a property that the store does not keep. In objects that are read it has its initial value.
public func Transient<E: Entity>(
    _ path: any PartialKeyPath<E> & Sendable, file: StaticString = #fileID, line: Int = #line
) -> SchemaItem<E> { SchemaItem(path, .transient, [], SchemaPlace(file: file, line: line)) }
