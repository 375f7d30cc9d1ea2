// The rows of one batch, within its transaction.

internal import Annals

/// Why a line cannot be loaded, as part of a sentence.
struct LineError: Error {
    var reason: String
}

/// The line names an object that the batch has changed already, and the batch is too large for a second change of it.
struct RepeatedObject: Error {}

struct LoadBatch {
    private let transaction: Transaction
    private let entity: EntityHandle
    private let before: Snapshot
    private let key: (name: String, position: Int?)?
    /// The objects that this batch has inserted, by the value of the key. No index contains them yet.
    private var inserted: [Value: ObjectID] = [:]
    private var positions: [ExactText: Int] = [:]
    private(set) var counts = LoadCounts()
    /// The numbers of the objects that lines have named.
    private(set) var named: [UInt64] = []

    init(_ transaction: Transaction, _ options: LoadOptions) throws {
        self.transaction = transaction
        entity = try transaction.entity(options.entity)
        before = transaction.snapshot
        for (position, name) in entity.attributes.enumerated() { positions[ExactText(name)] = position }
        if let name = options.key { key = (name, entity.position(of: name)) } else { key = nil }
    }

    /// Throws a `LineError` for an error in the line, a `StoreError` for one of the store, and `RepeatedObject`.
    mutating func add(_ members: [JSONMember]) throws {
        var values = [Value](repeating: .null, count: entity.attributes.count)
        for member in members {
            guard let position = positions[ExactText(member.name)] else {
                // An attribute without any value so far is created at the end.
                if member.value == .null { continue }
                throw LineError(reason: "“\(member.name)” is not an attribute of “\(entity.name)” any more")
            }
            guard let value = ValueConversion.value(member.value, as: entity.types[position]) else {
                throw LineError(
                    reason: "“\(member.name)” is of the type \(entity.types[position]), but the value is not")
            }
            values[position] = value
        }
        do {
            try write(values)
        } catch let error as StoreError {
            guard Self.isOfTheLine(error.code) else { throw error }
            throw LineError(reason: error.message.hasSuffix(".") ? String(error.message.dropLast()) : error.message)
        }
    }

    private static func isOfTheLine(_ code: StoreError.Code) -> Bool {
        switch code {
        case .requiredMissing, .typeMismatch, .valueOutOfRange, .tooLarge, .invalidArgument, .uniqueViolation: true
        default: false
        }
    }

    /// The value as an index compares it: -0.0 equals 0.0.
    private static func asKey(_ value: Value) -> Value {
        if case .double(let double) = value, double == 0 { .double(0) } else { value }
    }

    private func object(with value: Value, _ key: String) throws -> ObjectID? {
        if let object = inserted[Self.asKey(value)] { return object }
        return try before.objects(of: entity, where: key, equals: value).first
    }

    private mutating func write(_ values: [Value]) throws {
        guard let key else {
            try transaction.insert(entity, values)
            counts.inserted += 1
            return
        }
        guard let position = key.position, case let value = values[position], !value.isNull else {
            throw StoreError(.requiredMissing, "it has no “\(key.name)”, which is the key")
        }
        if let object = try object(with: value, key.name) {
            do {
                let isDifferent = try transaction.update(object, of: entity, values)
                if isDifferent { counts.updated += 1 } else { counts.unchanged += 1 }
            } catch let error as StoreError where error.code == .tooLarge && named.contains(object.number) {
                throw RepeatedObject()
            }
            named.append(object.number)
        } else {
            let object = try transaction.insert(entity, values)
            inserted[Self.asKey(value)] = object
            counts.inserted += 1
            named.append(object.number)
        }
    }
}
