// The entities that a store keeps for itself: which transactions of other stores were applied, which changes exports
// leave out, and which foreign object corresponds to which object here.
//
// Their objects are ordinary rows, so one commit covers them and compaction keeps them. Only this library sees them.
// They are created when the first transaction is applied.
//
// Invariants:
// OR1  A transaction that changes the store's own objects first changes one of `origins`, which records the applied
//     transaction or state. After a state, the places of other stores that the state contains follow.
// OR2  Each origin has one record. Its number only grows, and this store contains everything of that store up to the
//      number.
// OR3  No two records of `objects` have the same foreign object. Records are never removed: an object that has a record
//     but does not exist was deleted.

internal import FoundationEssentials

struct ReservedEntity: Sendable {
    let description: EntityDescription
    /// Of its attributes, to compare them with those of a store.
    private let names: [String]
    private let types: [AttributeType]
    var name: String { description.name }

    /// - Parameter name: Without the reserved prefix.
    init(
        _ name: String, attributes: [AttributeDescription], keys: [IndexDescription] = [],
        history: HistoryPolicy = .full
    ) {
        let name = EntityDefinition.reservedPrefix + name
        description = EntityDescription(name, attributes: attributes, keys: keys, history: history)
        (names, types) = (attributes.map(\.name), attributes.map(\.type))
    }

    /// The last transaction that was applied from each store (OR2).
    static let origins = ReservedEntity(
        "origins",
        attributes: [
            AttributeDescription("store", .uuid, isOptional: false, isUnique: true),
            AttributeDescription("number", .int, isOptional: false),
            AttributeDescription("tag", .int, isOptional: false),
            AttributeDescription("previousNumber", .int),
            AttributeDescription("previousTag", .int),
            AttributeDescription("isSkipped", .bool, isOptional: false),
            AttributeDescription("firstStore", .uuid),
            AttributeDescription("firstNumber", .int),
            AttributeDescription("firstTag", .int),
            AttributeDescription("firstPreviousNumber", .int),
            AttributeDescription("firstPreviousTag", .int),
            AttributeDescription("isState", .bool, isOptional: false),
        ])

    /// The changes that the applied exports leave out (`ExportReach`).
    static let leftOut = ReservedEntity(
        "leftOut",
        attributes: [
            AttributeDescription("number", .int, isOptional: false),
            AttributeDescription("wholeNumber", .int),
            AttributeDescription("wholeTag", .int),
            AttributeDescription("store", .uuid),
            AttributeDescription("otherNumber", .int, isOptional: false),
            AttributeDescription("otherTag", .int, isOptional: false),
        ])

    static let all = [origins, objects, leftOut]

    /// The last transaction that was merged from each store: its number in the order of its group, and the transaction
    /// itself if its effect here was another. The record with this store's identifier is the mirror's own state. Only
    /// stores of a group have this entity.
    static let merged = ReservedEntity(
        "merged",
        attributes: [
            AttributeDescription("store", .uuid, isOptional: false, isUnique: true),
            AttributeDescription("order", .int, isOptional: false),
            AttributeDescription("content", .data),
        ])

    /// Ranges of foreign objects and the corresponding objects here (OR3). The numbers of both are consecutive.
    static let objects = ReservedEntity(
        "objects",
        attributes: [
            AttributeDescription("store", .uuid, isOptional: false),
            AttributeDescription("foreign", .int, isOptional: false),
            AttributeDescription("local", .int, isOptional: false),
            AttributeDescription("count", .int, isOptional: false),
            AttributeDescription("isAlias", .bool, isOptional: false),
        ], keys: [IndexDescription(["store", "foreign"], isUnique: true), IndexDescription(["isAlias", "local"])])

    /// The handle of such an entity in a catalog; nil if nothing was ever applied. Throws `unsupportedVersion` if the
    /// entity has another form.
    static func handle(_ entity: ReservedEntity, _ catalog: SchemaCatalog) throws(StoreError) -> EntityHandle? {
        guard let number = catalog.number(ofEntity: entity.name),
            let layout = catalog.layout(version: catalog.newestVersion, entity: number)
        else { return nil }
        guard layout.types == entity.types, layout.names.elementsEqual(entity.names, by: isSameName) else {
            throw StoreError(
                .unsupportedVersion,
                "The store's own records (“\(entity.name)”) have a form that this version does not know: use a newer "
                    + "version of Annals."
            )
        }
        return EntityHandle(layout)
    }
}

extension Draft {
    /// Writes all values of a record of a reserved entity: a new one, or the known one.
    func write(_ values: [StoredValue], of entity: EntityHandle, to known: ObjectID?) throws(StoreError) {
        guard let known else {
            _ = try insert(entity: entity.number, values)
            return
        }
        try update(known, values.enumerated().map { (position: $0.offset, value: $0.element) })
    }
}

/// The store's note about an applied transaction of another store (OR1).
struct AppliedRecord {
    /// The transaction's token in its store.
    var token: HistoryToken
    /// The transaction before it from the same store; nil for none.
    var previous: HistoryToken?
    /// Whether its changes were here already, and so were not applied.
    var isSkipped: Bool
    /// The original transaction, if it was made in a third store; nil if the store that it came from made it.
    var first: HistoryToken?
    var firstPrevious: HistoryToken?
    /// Whether it is not a transaction, but the state after one, or a place that such a state contains.
    var isState = false

    /// The original transaction.
    var origin: HistoryToken { first ?? token }
}

extension AppliedRecord {
    /// Nil if the values are not those of a record: then another program has written them.
    init?(_ values: [Value]) {
        guard values.count == 12, let token = Self.token(values[0], values[1], values[2]) else { return nil }
        self.token = token
        previous = Self.token(values[0], values[3], values[4])
        isSkipped = values[5].bool ?? false
        first = Self.token(values[6], values[7], values[8])
        firstPrevious = Self.token(values[6], values[9], values[10])
        isState = values[11].bool ?? false
    }

    private static func token(_ store: Value, _ number: Value, _ tag: Value) -> HistoryToken? {
        guard let store = store.uuid, let number = number.int, let tag = tag.int else { return nil }
        return HistoryToken(
            storeIdentifier: store, number: UInt64(bitPattern: number), tag: UInt64(bitPattern: tag))
    }

    /// Whether the record has this place's number with another tag.
    func contradicts(_ place: HistoryToken) -> Bool {
        [token, previous].contains { $0?.number == place.number && $0?.tag != place.tag }
    }

    /// Whether an export to a store always contains or names the transaction, if it reaches that far. False if the
    /// transaction was made in that store, or the record is the place of a state.
    func isAlwaysExported(to store: UUID) -> Bool {
        origin.storeIdentifier != store && !(isState && first == nil)
    }

    /// The values in the order of the entity's attributes.
    var values: [StoredValue] {
        func int(_ number: UInt64?) -> StoredValue { number.map { .int(Int64(bitPattern: $0)) } ?? .absent }
        return [
            .uuid(token.storeIdentifier.stored), int(token.number), int(token.tag), int(previous?.number),
            int(previous?.tag), .bool(isSkipped), first.map { .uuid($0.storeIdentifier.stored) } ?? .absent,
            int(first?.number), int(first?.tag), int(firstPrevious?.number), int(firstPrevious?.tag), .bool(isState),
        ]
    }
}
