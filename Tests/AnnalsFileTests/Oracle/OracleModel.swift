// What a store must hold, kept in dictionaries: the oracle that random operations are compared with.

import Annals
import SimulatedDisk

struct OracleFailure: Error, CustomStringConvertible {
    var description: String
    init(_ description: String) { self.description = description }
}

/// A row as it was written: the entity's definition then, and one value for each of its attributes.
struct ModelRow {
    var entity: EntityDefinition
    var values: [StoredValue]

    /// What the row reads as for an attribute of a later definition.
    func value(of attribute: AttributeDefinition) -> StoredValue {
        guard let position = entity.attributes.firstIndex(where: { $0.number == attribute.number }) else {
            return attribute.valueBeforeItExisted
        }
        return values[position]
    }
}

struct ModelChange {
    var kind: ChangeKind
    var before: ModelRow?
    /// The row written; of a deletion, the preserved values.
    var written: ModelRow?
    /// Attribute numbers.
    var attributes: Set<UInt16> = []

    var after: ModelRow? { kind == .delete ? nil : written }
}

struct ModelSchema {
    var version = 0
    var entities: [UInt16: EntityDefinition] = [:]
}

struct ModelTransaction {
    /// Nil if it is not known yet what became of it.
    var tag: UInt64?
    var author: String?
    var context: String?
    var changes: [ObjectID: ModelChange]
    var schema: ModelSchema?
    /// Where the consumer stands from here on.
    var cursor: UInt64?
}

/// All transactions there are, and every version of every object. Transaction n is at index n - 1.
struct OracleModel {
    private(set) var transactions: [ModelTransaction] = []
    private var versions: [ObjectID: [(number: Int, row: ModelRow?)]] = [:]
    /// By entity: every object there ever was, ascending.
    private var objects: [UInt16: [ObjectID]] = [:]
    private var schemas: [(number: Int, schema: ModelSchema)] = [(0, ModelSchema())]
    /// Objects of the newest state, in no order, and where each stands.
    private(set) var live: [ObjectID] = []
    private var places: [ObjectID: Int] = [:]
    /// The keys of unique indexes in the newest state; nil if they are to be worked out again.
    private var uniqueKeys: [IndexID: [[UInt8]: ObjectID]]?
    /// So many transactions survive a power cut.
    var durable = 0
    /// Of what came before there is no history.
    var horizon = 0

    var number: Int { transactions.count }
    var schema: ModelSchema { schemas[schemas.count - 1].schema }

    // MARK: Looking up

    func schema(asOf number: Int) -> ModelSchema { schemas.last { $0.number <= number }?.schema ?? ModelSchema() }

    /// Where the consumer stands.
    var cursor: UInt64 { transactions.last { $0.cursor != nil }?.cursor ?? 0 }

    func row(_ object: ObjectID, asOf number: Int) -> ModelRow? {
        versions[object]?.last { $0.number <= number }?.row
    }

    func objects(of entity: UInt16, asOf number: Int) -> [(object: ObjectID, row: ModelRow)] {
        (objects[entity] ?? []).compactMap { object in row(object, asOf: number).map { (object, $0) } }
    }

    // MARK: Changing

    mutating func append(_ transaction: ModelTransaction) {
        transactions.append(transaction)
        if let schema = transaction.schema {
            schemas.append((number, schema))
            uniqueKeys = nil
        }
        // In order, so that the same seed finds the same objects at the same places.
        for (object, change) in transaction.changes.sorted(by: { $0.key < $1.key }) {
            if versions[object] == nil { add(object) }
            versions[object, default: []].append((number, change.after))
            if change.before == nil, change.after != nil { revive(object) }
            if change.after == nil { bury(object) }
        }
        if uniqueKeys != nil { moveUniqueKeys(transaction) }
    }

    mutating func setTag(_ tag: UInt64, ofTransaction number: Int) { transactions[number - 1].tag = tag }

    /// Forgets everything above a transaction: it was lost.
    mutating func truncate(to kept: Int) {
        horizon = min(horizon, kept)
        guard kept < number else { return }
        for object in versions.keys {
            while let last = versions[object]?.last, last.number > kept { versions[object]?.removeLast() }
        }
        versions = versions.filter { !$0.value.isEmpty }
        for entity in objects.keys { objects[entity]?.removeAll { versions[$0] == nil } }
        schemas.removeAll { $0.number > kept }
        transactions.removeLast(number - kept)
        live = []
        places = [:]
        for (object, history) in versions where history.last?.row != nil { live.append(object) }
        live.sort()
        for (place, object) in live.enumerated() { places[object] = place }
        uniqueKeys = nil
    }

    private mutating func add(_ object: ObjectID) {
        var list = objects[object.entityNumber] ?? []
        objects[object.entityNumber] = nil
        var place = list.count
        while place > 0, list[place - 1] > object { place -= 1 }
        list.insert(object, at: place)
        objects[object.entityNumber] = list
    }

    private mutating func revive(_ object: ObjectID) {
        places[object] = live.count
        live.append(object)
    }

    private mutating func bury(_ object: ObjectID) {
        guard let place = places.removeValue(forKey: object) else { return }
        let last = live.removeLast()
        if last != object {
            live[place] = last
            places[last] = place
        }
    }

    // MARK: Unique keys

    /// Whether the changes would give two objects one unique key.
    mutating func violates(_ draft: OracleDraft) -> Bool {
        if draft.changesSchema { return violatesWithSchema(draft) }
        let keys = currentUniqueKeys()
        for (id, taken) in keys {
            guard let entity = schema.entities[id.entity] else { continue }
            var freed = Set<[UInt8]>()
            for (object, change) in draft.changes where object.entityNumber == id.entity {
                if let before = change.before, let key = ModelKey.unique(before, id, entity) { freed.insert(key) }
            }
            var added = Set<[UInt8]>()
            for (object, change) in draft.changes where object.entityNumber == id.entity {
                guard let after = change.after, let key = ModelKey.unique(after, id, entity) else { continue }
                guard added.insert(key).inserted, taken[key] == nil || freed.contains(key) || taken[key] == object
                else { return true }
            }
        }
        return false
    }

    /// An index that is new, or whose attributes have other defaults, is built over the rows as they were before; so
    /// these must not have duplicates either.
    private func violatesWithSchema(_ draft: OracleDraft) -> Bool {
        for entity in draft.schema.entities.values {
            for id in IndexID.all(of: entity) where id.isUnique {
                var before = Set<[UInt8]>()
                var after = Set<[UInt8]>()
                for (object, row) in objects(of: entity.number, asOf: number) {
                    if let key = ModelKey.unique(row, id, entity), !before.insert(key).inserted {
                        return true
                    }
                    guard draft.changes[object] == nil, let key = ModelKey.unique(row, id, entity) else { continue }
                    after.insert(key)
                }
                for (object, change) in draft.changes where object.entityNumber == entity.number {
                    guard let row = change.after, let key = ModelKey.unique(row, id, entity) else { continue }
                    if !after.insert(key).inserted { return true }
                }
            }
        }
        return false
    }

    private mutating func currentUniqueKeys() -> [IndexID: [[UInt8]: ObjectID]] {
        if let uniqueKeys { return uniqueKeys }
        var keys: [IndexID: [[UInt8]: ObjectID]] = [:]
        for entity in schema.entities.values {
            for id in IndexID.all(of: entity) where id.isUnique {
                var taken: [[UInt8]: ObjectID] = [:]
                for (object, row) in objects(of: entity.number, asOf: number) {
                    if let key = ModelKey.unique(row, id, entity) { taken[key] = object }
                }
                keys[id] = taken
            }
        }
        uniqueKeys = keys
        return keys
    }

    private mutating func moveUniqueKeys(_ transaction: ModelTransaction) {
        guard var keys = uniqueKeys else { return }
        uniqueKeys = nil
        for id in Array(keys.keys) {
            guard let entity = schema.entities[id.entity] else { continue }
            for (object, change) in transaction.changes where object.entityNumber == id.entity {
                if let before = change.before, let key = ModelKey.unique(before, id, entity) { keys[id]?[key] = nil }
            }
            for (object, change) in transaction.changes where object.entityNumber == id.entity {
                if let after = change.after, let key = ModelKey.unique(after, id, entity) { keys[id]?[key] = object }
            }
        }
        uniqueKeys = keys
    }
}

/// Keys of rows, whole: never cut.
enum ModelKey {
    static func key(_ row: ModelRow, _ id: IndexID, _ entity: EntityDefinition) -> (key: [UInt8], hasAbsent: Bool) {
        var writer = ByteWriter(capacity: 64)
        var hasAbsent = false
        for number in id.attributes {
            guard let attribute = entity.attributes.first(where: { $0.number == number }) else { continue }
            if !append(row.value(of: attribute), &writer) { hasAbsent = true }
        }
        return (Array(writer.bytes), hasAbsent)
    }

    /// Nil if the key conflicts with none.
    static func unique(_ row: ModelRow, _ id: IndexID, _ entity: EntityDefinition) -> [UInt8]? {
        let (key, hasAbsent) = key(row, id, entity)
        return hasAbsent ? nil : key
    }

    private static func append(_ value: StoredValue, _ key: inout ByteWriter) -> Bool {
        switch value {
        case .bool(let bool): OrderedKey.append(bool: bool, to: &key)
        case .int(let int): OrderedKey.append(int: int, to: &key)
        case .double(let double), .date(let double): OrderedKey.append(double: double, to: &key)
        case .uuid(let uuid): OrderedKey.append(uuid: uuid.high, uuid.low, to: &key)
        case .object(let object): OrderedKey.append(object: object.rawValue, to: &key)
        case .string(let text), .json(let text): OrderedKey.append(string: text, to: &key)
        case .data(let bytes): bytes.withUnsafeBytes { OrderedKey.append(data: $0, to: &key) }
        case .decimal(let decimal):
            if decimal.isNotANumber {
                OrderedKey.appendDecimalNotANumber(to: &key)
            } else {
                OrderedKey.append(
                    decimal: decimal.mantissa, exponent: decimal.exponent, isNegative: decimal.isNegative, to: &key)
            }
        case .absent, .orderedObjects, .objects, .large:
            OrderedKey.appendAbsent(to: &key)
            return false
        }
        return true
    }
}
