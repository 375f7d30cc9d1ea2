// The entities that a store keeps for itself: which transactions of other stores were applied, which exports leave them
// out, and which objects are whose.
//
// Their objects are rows like all others, so that one commit covers them and compaction keeps them; nobody but this
// library sees them. They are made when the first transaction is applied.
//
// Invariants:
// OR1  A transaction that changes the store's own objects changes one of `origins` first, which says what was applied.
//     Where that was a state, what the state holds of other stores follows.
// OR2  Each origin has one record. Its number only grows, and everything of that store up to it is here.
// OR3  No two records of `objects` speak of the same foreign object. Records are never taken away: an object that has
//     one and is not there was deleted.

internal import FoundationEssentials

enum ReservedEntity {
    /// What was applied last from each store.
    static let origins = EntityDescription(
        EntityDefinition.reservedPrefix + "origins",
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

    /// What exports up to the last one that was applied leave out (`ExportReach`).
    static let leftOut = EntityDescription(
        EntityDefinition.reservedPrefix + "leftOut",
        attributes: [
            AttributeDescription("number", .int, isOptional: false),
            AttributeDescription("wholeNumber", .int),
            AttributeDescription("wholeTag", .int),
            AttributeDescription("store", .uuid),
            AttributeDescription("otherNumber", .int, isOptional: false),
            AttributeDescription("otherTag", .int, isOptional: false),
        ])

    static let all = [origins, objects, leftOut]

    /// Stretches of foreign objects and of the objects here that they are, both with numbers one after the other.
    static let objects = EntityDescription(
        EntityDefinition.reservedPrefix + "objects",
        attributes: [
            AttributeDescription("store", .uuid, isOptional: false),
            AttributeDescription("foreign", .int, isOptional: false),
            AttributeDescription("local", .int, isOptional: false),
            AttributeDescription("count", .int, isOptional: false),
            AttributeDescription("isAlias", .bool, isOptional: false),
        ], keys: [IndexDescription(["store", "foreign"], isUnique: true), IndexDescription(["isAlias", "local"])])

    /// One of them as a catalog has it; nil if nothing was ever applied. Throws `unsupportedVersion` where it is
    /// made in another way.
    static func handle(_ description: EntityDescription, _ catalog: SchemaCatalog) throws(StoreError) -> EntityHandle? {
        guard let number = catalog.number(ofEntity: description.name),
            let layout = catalog.layout(version: catalog.newestVersion, entity: number)
        else { return nil }
        let handle = EntityHandle(layout)
        guard handle.attributes == description.attributes.map(\.name),
            handle.types == description.attributes.map(\.type)
        else {
            throw StoreError(
                .unsupportedVersion,
                "What the store notes of other stores has a form that this version does not know: use a newer version "
                    + "of Annals."
            )
        }
        return handle
    }
}

/// What the store notes of one transaction of another store when it applies it.
struct AppliedRecord {
    /// Where the transaction came from.
    var token: HistoryToken
    /// What came before it from there; nil for nothing.
    var previous: HistoryToken?
    /// Whether its changes were here already, and were not applied.
    var isSkipped: Bool
    /// The transaction that it was at first, in a store that it did not come from directly; nil if it was made where
    /// it came from.
    var first: HistoryToken?
    var firstPrevious: HistoryToken?
    /// Whether it was no transaction, but the state after one, or is a place that such a state holds.
    var isState: Bool

    /// The transaction as it was first made.
    var origin: HistoryToken { first ?? token }

    init(
        _ token: HistoryToken, previous: HistoryToken?, isSkipped: Bool, first: HistoryToken? = nil,
        firstPrevious: HistoryToken? = nil, isState: Bool = false
    ) {
        self.token = token
        self.previous = previous
        self.isSkipped = isSkipped
        self.first = first
        self.firstPrevious = firstPrevious
        self.isState = isState
    }

    /// Nil if the values are not those of a record, which only another program can have written.
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

    /// Whether the place is one that the record knows, with another tag.
    func contradicts(_ place: HistoryToken) -> Bool {
        [token, previous].contains { $0?.number == place.number && $0?.tag != place.tag }
    }

    /// Whether each export to a store that goes beyond the transaction has it, or names it: not one that was made
    /// there, nor the place of a state.
    func isAlwaysExported(to store: UUID) -> Bool {
        origin.storeIdentifier != store && !(isState && first == nil)
    }

    /// In the order of the entity's attributes.
    var values: [StoredValue] {
        func int(_ number: UInt64?) -> StoredValue { number.map { .int(Int64(bitPattern: $0)) } ?? .absent }
        return [
            .uuid(token.storeIdentifier.stored), int(token.number), int(token.tag), int(previous?.number),
            int(previous?.tag), .bool(isSkipped), first.map { .uuid($0.storeIdentifier.stored) } ?? .absent,
            int(first?.number), int(first?.tag), int(firstPrevious?.number), int(firstPrevious?.tag), .bool(isState),
        ]
    }
}
