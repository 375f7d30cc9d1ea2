// The schema changes of a load: the entity, new attributes, wider types, a unique key.

internal import Annals

struct LoadSchema {
    let entity: String
    let key: String?
    let guesses: TypeGuesses

    /// An attribute that is replaced by one of a wider type, with the same name, place and values.
    private struct Widening {
        var name: String
        var type: AttributeType
    }

    func needsChange(_ snapshot: Snapshot, untyped: [String]) throws(ToolFailure) -> Bool {
        let (changes, _) = try plan(snapshot, untyped: untyped)
        return !changes.isEmpty
    }

    /// Must be the first action of the transaction.
    func apply(to transaction: Transaction, untyped: [String]) throws(ToolFailure) {
        let before = transaction.snapshot
        let (changes, widenings) = try plan(before, untyped: untyped)
        try storing {
            try transaction.changeSchema(changes)
            if !widenings.isEmpty { try carryOver(widenings, before, transaction) }
        }
    }

    private func plan(
        _ snapshot: Snapshot, untyped: [String]
    ) throws(ToolFailure) -> (changes: [SchemaChange], widenings: [Widening]) {
        let entities = try storing { try snapshot.entities }
        let present = entities.first { $0.name.utf8.elementsEqual(entity.utf8) }
        var changes: [SchemaChange] = present == nil ? [.addEntity(EntityDescription(entity, attributes: []))] : []
        var widenings: [Widening] = []
        for name in guesses.names {
            let isKey = key.map { $0.utf8.elementsEqual(name.utf8) } ?? false
            guard let there = present?[name] else {
                guard let type = guesses[name].type else { continue }
                let attribute = AttributeDescription(name, type, isIndexed: isKey, isUnique: isKey)
                changes.append(.addAttribute(attribute, to: entity))
                continue
            }
            let type = try guesses[name].widened(there.type) { () throws(ToolFailure) in
                try integersAreDoubles(name, snapshot)
            }
            if type != there.type {
                var wider = there
                wider.type = type
                wider.defaultValue = nil
                wider.isOptional = true
                if isKey { (wider.isIndexed, wider.isUnique) = (true, true) }
                changes.append(.replaceAttribute(name, of: entity, by: wider))
                widenings.append(Widening(name: name, type: type))
            } else if isKey && !there.isUnique {
                changes.append(.changeAttribute(name, of: entity, isIndexed: true, isUnique: true))
            }
        }
        for name in untyped where present?[name] == nil {
            changes.append(.addAttribute(AttributeDescription(name, .json), to: entity))
        }
        return (changes, widenings)
    }

    private func integersAreDoubles(_ name: String, _ snapshot: Snapshot) throws(ToolFailure) -> Bool {
        try storing {
            let handle = try snapshot.entity(entity)
            guard let position = handle.position(of: name) else { return true }
            var areDoubles = true
            try snapshot.forEachRow(of: handle) { (row) throws(StoreError) in
                if let int = row.int(at: position), Double(exactly: int) == nil { areDoubles = false }
                return areDoubles
            }
            return areDoubles
        }
    }

    /// Copies the previous values to the wider type.
    private func carryOver(
        _ widenings: [Widening], _ before: Snapshot, _ transaction: Transaction
    ) throws {
        let old = try before.entity(entity)
        try before.forEachRow(of: old) { (row) throws(StoreError) in
            var values: [(key: String, value: Value)] = []
            for widening in widenings {
                guard let position = old.position(of: widening.name), row.isPresent(at: position) else { continue }
                values.append((widening.name, Self.widened(try row.value(at: position), to: widening.type)))
            }
            if !values.isEmpty { try transaction.update(row.id, pairs: values) }
            return true
        }
    }

    static func widened(_ value: Value, to type: AttributeType) -> Value {
        if type == .double, case .int(let int) = value { return .double(Double(int)) }
        // The text that was most likely in the line. If the attribute is the key, the same line must find its object
        // again.
        if case .double(let double) = value, double != 0 || double.sign == .plus, abs(double) < 0x1p53,
            let int = Int64(exactly: double)
        {
            return .json("\(int)")
        }
        var bytes: [UInt8] = []
        ValueConversion.append(value, to: &bytes)
        return .json(String(decoding: bytes, as: UTF8.self))
    }
}
