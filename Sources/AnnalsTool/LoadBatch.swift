// The rows of one batch, within its transaction.

internal import Annals

struct LineError: Error {
    var line: UInt64
    var reason: String
    var hint: String?
}

extension StoreError {
    /// The message as a part of a sentence.
    var reason: String { message.hasSuffix(".") ? String(message.dropLast()) : message }
}

struct LoadBatch {
    private let transaction: Transaction
    private let entity: EntityHandle
    private let key: LoadKey?
    /// The objects that this batch has inserted, by the value of the key. No index contains them yet.
    private var inserted: [Value: ObjectID] = [:]
    private var positions: [IdentifierName: Int] = [:]
    private(set) var counts = LoadCounts()
    private(set) var named: [UInt64] = []

    /// Changes the schema by the plan. Must be the first action of the transaction.
    init(_ transaction: Transaction, _ plan: LoadPlan, _ lines: [LoadedLine], _ options: LoadOptions) throws {
        self.transaction = transaction
        try plan.apply(to: transaction, entity: options.entity)
        let entity = try transaction.entity(options.entity)
        self.entity = entity
        for (position, name) in entity.attributes.enumerated() { positions[IdentifierName(name)] = position }
        key = try options.key.map { try LoadKey($0, of: entity, in: transaction.snapshot, plan, lines) }
    }

    /// Throws a `LineError` for an error in the line, and a `StoreError` for one of the store.
    mutating func add(_ line: LoadedLine) throws {
        func wrong(_ reason: String) -> LineError { LineError(line: line.number, reason: reason) }
        var values = [Value?](repeating: nil, count: entity.attributes.count)
        for (index, member) in line.members.enumerated() {
            // Most lines have the attributes in the schema's order.
            let isInOrder = index < values.count && entity.attributes[index].hasSameBytes(as: member.name)
            guard let position = isInOrder ? index : positions[IdentifierName(member.name)] else {
                // An attribute without any value so far is created at the end.
                if member.value == .null { continue }
                throw wrong("“\(member.name)” is no longer an attribute of “\(entity.name)”")
            }
            let type = entity.types[position]
            values[position] = try ValueConversion.value(member.value, as: type).orThrow(
                wrong("“\(member.name)” has the type \(type), but the value does not"))
        }
        do {
            try write(values)
        } catch let error as StoreError where Self.codesOfLines.contains(error.code) {
            throw wrong(error.reason)
        }
    }

    /// Errors that a line causes, and not the store.
    private static let codesOfLines: [StoreError.Code] = [
        .requiredMissing, .typeMismatch, .valueOutOfRange, .tooLarge, .invalidArgument, .uniqueViolation,
    ]

    /// Writes an object with a value for each attribute that the line names, and nil for the rest.
    private mutating func write(_ values: [Value?]) throws {
        guard let key else {
            _ = try transaction.insert(entity, naming: values)
            counts.inserted += 1
            return
        }
        guard let position = key.position, let value = values[position], !value.isNull else {
            throw StoreError(.requiredMissing, "it has no “\(key.name)”, which is the key")
        }
        let known = try inserted[LoadKey.compared(value)] ?? key.object(with: value)
        let object = try known ?? transaction.insert(entity, naming: values)
        named.append(object.number)
        if known == nil {
            inserted[LoadKey.compared(value)] = object
            counts.inserted += 1
        } else if try transaction.update(object, of: entity, naming: values) {
            counts.updated += 1
        } else {
            counts.unchanged += 1
        }
    }
}

/// Finds the objects that existed before the batch by their key.
struct LoadKey {
    let name: String
    /// The position of the key in the entity, with the changes of the batch.
    let position: Int?
    private let before: Snapshot
    /// The entity before the batch; nil if it did not have the key.
    private let old: EntityHandle?
    /// The objects that lines of the batch name, if the state before has no index of the key.
    private var found: [Value: ObjectID]?

    init(_ name: String, of entity: EntityHandle, in before: Snapshot, _ plan: LoadPlan, _ lines: [LoadedLine]) throws {
        (self.name, self.before) = (name, before)
        position = entity.position(of: name)
        let there = try before.entities.first { $0.name.hasSameBytes(as: entity.name) }?[name]
        old = there == nil ? nil : try before.entity(entity.name)
        let widening = plan.widenings.first { $0.name.hasSameBytes(as: name) }
        if let there, let position, widening != nil || !(there.isUnique || there.isIndexed) {
            let keys = lines.values(of: name).compactMap { ValueConversion.value($0.value, as: entity.types[position]) }
            found = try objects(widening, Set(keys.map(Self.compared)))
        }
    }

    func object(with value: Value) throws -> ObjectID? {
        if let found { return found[Self.compared(value)] }
        return try old.flatMap { try before.objects(of: $0, where: name, equals: value).first }
    }

    /// The value as an index compares it: -0.0 equals 0.0.
    static func compared(_ value: Value) -> Value {
        if case .double(let double) = value, double == 0 { .double(0) } else { value }
    }

    /// Reads all objects once, and keeps those with one of these keys.
    private func objects(_ widening: Widening?, _ keys: Set<Value>) throws -> [Value: ObjectID] {
        var found: [Value: ObjectID] = [:]
        guard let old, let place = old.position(of: name) else { return found }
        try before.forEachRow(of: old) { (row) throws(StoreError) in
            guard row.isPresent(at: place) else { return true }
            let value = try row.value(at: place)
            let key = Self.compared(widening?.widened(value) ?? value)
            if keys.contains(key) { found[key] = row.id }
            return true
        }
        return found
    }
}
