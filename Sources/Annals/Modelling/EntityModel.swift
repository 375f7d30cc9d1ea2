// The facts about an entity's type: its stored properties, their offsets in memory, and the rules of its schema.
//
// Invariants:
// EM1  A model without problems knows every stored property, and `offset` is its offset in a value. This was compared
//      with the size of the type and with every key path of its schema.
// EM2  There is one model for each type in a process, for all stores.

internal import FoundationEssentials
internal import Synchronization

/// Everything about an entity that does not depend on a store.
final class EntityModel: Sendable {
    /// A property that is kept in the store.
    struct Property: Sendable {
        let name: String
        let type: Any.Type
        let offset: Int
        /// In bytes.
        let size: Int
        var codec: any PropertyCodec
        var isUnique = false
        var isIndexed = false
        /// Its weight in a search for words; nil if it is not searched.
        var searchWeight: Double?
        /// Whether its search index has the positions of the words.
        var keepsPositions = true
        var isPreserved = false
        /// Whether an optional property must have a value.
        var isRequired = false
        /// Whether it is computed on saving, and so never edited.
        var isDerived = false
        /// The schema's value for old objects.
        var defaultValue: Value?
        /// The value in a new object; null for none.
        var initial: Value
        /// Whether every new value has the same.
        var isInitialStable = true
        var formerNames: [String] = []
        var deleteRule = DeleteRule.noAction
        var inverse: SchemaItemInverse?
    }

    /// The facts about a property by which two values are compared.
    struct Place: Sendable {
        enum Comparison { case bytes, text, optionalText, optionalReference, stored }

        let offset: Int
        /// In bytes.
        let size: Int
        let comparison: Comparison
    }

    /// The other side of a relationship.
    struct OtherSide: Sendable {
        let name: String
        let offset: Int
        let target: any Entity.Type
        /// Whether at most one object refers.
        let isOne: Bool
    }

    let type: any Entity.Type
    /// Of `type`.
    let key: ObjectIdentifier
    let name: String
    let properties: [Property]
    /// Of `properties`.
    let places: [Place]
    let otherSides: [OtherSide]
    let keys: [IndexDescription]
    let history: HistoryPolicy
    /// Whole sentences. Nothing else here counts if there are any.
    let problems: [String]
    /// Whether a new value must be made for each object that is read, because a property is not kept.
    let hasTransients: Bool
    let rules: any EntityRules
    /// The rules for values derived from other sides.
    let derived: [DerivedRule]
    /// The numbers of objects that other sides must have.
    let limits: [SideLimit]
    /// The name of the property with the time of the object's last change.
    let lastChange: String?
    /// For observing objects of the type: a key path for each slot. See `Object.path(ofSlot:_:)`.
    let slotPaths: [any AnyKeyPath & Sendable]
    /// The indexes of the properties that refer to objects.
    let referringSlots: [Int]
    /// Of `rules`. Kept, because each write of an object reads it.
    let hasRules: Bool
    let paths = KnownPaths()
    let classes = EntityClasses()
    /// A value with the initial values of all properties. Sound although it is shared: it is never changed or released,
    /// as no model is.
    nonisolated(unsafe) let initial: UnsafeRawPointer

    init(
        type: any Entity.Type, name: String, properties: [Property], otherSides: [OtherSide], keys: [IndexDescription],
        history: HistoryPolicy, problems: [String], hasTransients: Bool, rules: any EntityRules,
        derived: [DerivedRule], limits: [SideLimit], lastChange: String?, slotPaths: [any AnyKeyPath & Sendable],
        initial: UnsafeRawPointer
    ) {
        self.type = type
        key = ObjectIdentifier(type)
        self.name = name
        self.properties = properties
        places = properties.map { Place($0) }
        (self.otherSides, self.keys, self.history, self.problems) = (otherSides, keys, history, problems)
        (self.hasTransients, self.rules, self.derived, self.limits) = (hasTransients, rules, derived, limits)
        (self.lastChange, self.slotPaths, self.initial) = (lastChange, slotPaths, initial)
        referringSlots = properties.indices.filter { properties[$0].codec.target != nil }
        hasRules = rules.hasRules
    }

    /// The stored property at an offset in a value (EM1); nil without one.
    func property(at offset: Int?) -> Property? {
        guard let offset else { return nil }
        return properties.first { $0.offset == offset }
    }

    /// The index of the stored property that a key path of values leads to; nil for a part of one, and for other key
    /// paths.
    func index<E: Entity>(of path: PartialKeyPath<E>) -> Int? {
        guard let offset = MemoryLayout<E>.offset(of: path) else { return nil }
        let type = Swift.type(of: path).valueType
        // A property and its first part are at the same place.
        return properties.firstIndex { $0.offset == offset && $0.type == type }
    }

    /// Throws `modelInvalid`, with all problems.
    func requireValid() throws(StoreError) {
        guard problems.isEmpty else { throw Self.invalid(problems) }
    }

    static func invalid(_ problems: [String]) -> StoreError {
        StoreError(.modelInvalid, problems.joined(separator: "\n"))
    }
}

extension EntityModel.Place {
    fileprivate init(_ property: EntityModel.Property) {
        offset = property.offset
        size = property.size
        let isOptional = property.codec.isOptional
        comparison =
            switch property.codec.form {
            case .bool, .int8, .int16, .int32, .int64, .uint8, .uint16, .uint32, .uint64, .double, .date:
                isOptional ? .stored : .bytes
            case .reference: isOptional ? .optionalReference : .stored
            case .string: isOptional ? .optionalText : .text
            case .float, .other: .stored
            }
    }
}

/// The other side of a relationship, as a schema names it.
struct SchemaItemInverse: Sendable {
    let target: any Entity.Type
    /// The offset of the property in the other struct; nil if it is no stored property.
    let offset: Int?

    /// The name of the property there; nil if it is no other side.
    var name: String? { target.model.otherSides.first { $0.offset == offset }?.name }
}

/// Work on a value before it is saved. Addresses are of values of the entity's type.
protocol EntityRules: Sendable {
    var hasRules: Bool { get }
    /// Whether a property is derived from the object's other properties.
    var derivesAnything: Bool { get }
    /// Computes the derived properties.
    func derive(_ address: UnsafeMutableRawPointer)
    /// The properties that break the schema's rules.
    func failures(_ address: UnsafeRawPointer) -> [ValidationFailure]
}

// MARK: All models

extension Entity {
    /// The model of this type (EM2). Usually one look into a table without a lock.
    static var model: EntityModel { EntityModels.shared.model(of: Self.self) }
}

/// Sound although it is shared: `monitor` guards the table.
private final class EntityModels: @unchecked Sendable {
    static let shared = EntityModels()
    private let monitor = Monitor()
    private var models: [ObjectIdentifier: EntityModel] = [:]
    /// The addresses of models that were used recently, each at a place that its type determines: found without a lock.
    ///
    /// Sound because no model is ever released.
    private let recent = InlineArray<64, Atomic<UInt>> { _ in Atomic(0) }

    @inline(__always)
    func model<E: Entity>(of type: E.Type) -> EntityModel {
        let key = ObjectIdentifier(type)
        let place = Int(truncatingIfNeeded: (UInt(bitPattern: key) &* 0x9E37_79B9_7F4A_7C15) >> 58)
        if let address = UnsafeRawPointer(bitPattern: recent[place].load(ordering: .acquiring)) {
            let model = Unmanaged<EntityModel>.fromOpaque(address).takeUnretainedValue()
            if model.key == key { return model }
        }
        let model = keptModel(of: type)
        let address = UInt(bitPattern: Unmanaged.passUnretained(model).toOpaque())
        recent[place].store(address, ordering: .releasing)
        return model
    }

    private func keptModel<E: Entity>(of type: E.Type) -> EntityModel {
        if let known = monitor.withLock({ models[ObjectIdentifier(type)] }) { return known }
        // Not under the lock: the program's own code makes the schema and the first value.
        let made = EntityModelBuilder<E>().model()
        return monitor.withLock {
            if let known = models[ObjectIdentifier(type)] { return known }
            models[ObjectIdentifier(type)] = made
            return made
        }
    }
}

extension EntityModel {
    /// The slot of the property with this name; nil without one.
    func slot(named name: String) -> Int? { properties.firstIndex { isSameName($0.name, name) } }

    func property(named name: String) -> Property? { slot(named: name).map { properties[$0] } }
}

extension [EntityModel] {
    /// The model of the entity with this name.
    func first(named name: String) -> EntityModel? { first { isSameName($0.name, name) } }
}
