// Writes salvaged objects into a new store, under their IDs, in transactions of bounded size.
//
// Invariants:
// SW1  While rows are written the schema requires nothing that a row could lack: every attribute is optional, nothing
//     is unique or indexed. In the end it has the source's rules, as far as the rows allow.

final class SalvageWriter {
    private let engine: Engine
    private let definitions: [EntityDefinition]
    private let values: SalvagedValues
    /// By entity: positions of required attributes that a row lacks.
    private var missing: [UInt16: Set<Int>] = [:]
    private(set) var written: [UInt16: UInt64] = [:]
    private(set) var largeValuesLost: UInt64 = 0
    private(set) var objectsOfGaps: UInt64 = 0
    private(set) var objectsOfGuessedSchema: UInt64 = 0
    private(set) var schemaChanges: [String] = []
    private let options: SalvageOptions
    private let fileBytes: UInt64

    init(
        _ engine: Engine, _ definitions: [EntityDefinition], _ values: SalvagedValues, _ options: SalvageOptions,
        fileBytes: UInt64
    ) {
        (self.engine, self.definitions, self.values, self.options) = (engine, definitions, values, options)
        self.fileBytes = fileBytes
    }

    private func write(_ body: (Draft) throws(StoreError) -> Void) throws(StoreError) {
        do {
            _ = try engine.write(author: options.author, context: options.context, durability: .relaxed) {
                (transaction) in
                // References to lost objects stay: a later look at the damaged file may still recover them.
                transaction.checksReferences = false
                try body(transaction)
            }
        } catch let error as StoreError {
            throw error
        } catch {
            throw StoreError(.invalidArgument, StoreError.sentence(error))
        }
    }

    func write(_ features: FormatFeatures) throws(StoreError) {
        guard !features.isEmpty else { return }
        try engine.appendStandalone(.relaxed) { _ in
            var table: [UInt8] = []
            MetadataRecord.features(features).append(to: &table)
            return [(.metadata, table)]
        }
    }

    func writeSchema() throws(StoreError) {
        // SW1.
        let loose = definitions.map(\.withoutRules)
        guard !loose.isEmpty else { return }
        assert(
            loose.allSatisfy { $0.attributes.allSatisfy { $0.isOptional && !$0.flags.contains(.unique) } },
            "SW1: rows may break the schema under which they are written.")
        try write { (transaction) throws(StoreError) in try transaction.changeSchema(loose) }
    }

    // MARK: Rows

    func write(_ rows: SalvagedRows) throws(StoreError) {
        var next = try rows.next()
        while next != nil {
            // The whole file was read.
            try options.report(fileBytes, of: fileBytes)
            var left = options.transactionBytes
            try write { (transaction) throws(StoreError) in
                while let row = next, left > 0 {
                    left -= try add(row, to: transaction) + 64
                    next = try rows.next()
                }
            }
        }
    }

    /// Returns the size of the row.
    private func add(_ row: SalvagedRow, to transaction: Draft) throws(StoreError) -> Int {
        var row = row
        var bytes = row.bytes
        let attributes = definition(row.object.entityNumber)?.attributes ?? []
        assert(row.values.count == attributes.count, "A salvaged row has not one value for each attribute.")
        for position in row.values.indices {
            if case .large(let reference) = row.values[position] {
                let type = attributes[position].type
                if !type.isObjectList, try values.isWhole(reference, type) {
                    row.values[position] = try values.copy(reference, into: transaction.frames)
                    bytes += Int(clamping: reference.valueBytes)
                } else {
                    row.values[position] = .absent
                    largeValuesLost += 1
                }
            }
            if row.values[position] == .absent, !attributes[position].isOptional {
                missing[row.object.entityNumber, default: []].insert(position)
            }
        }
        try transaction.insert(salvaged: row.object, row.values)
        written[row.object.entityNumber, default: 0] += 1
        if row.isFromGap { objectsOfGaps += 1 }
        if row.isGuessed { objectsOfGuessedSchema += 1 }
        return bytes
    }

    private func definition(_ entity: UInt16) -> EntityDefinition? { definitions.first { $0.number == entity } }

    /// Numbers of lost or deleted objects are not assigned again, since references may lead to them. An object with the
    /// last of these numbers is inserted and deleted at once.
    func passNumbers(_ next: [UInt16: UInt64]) throws(StoreError) {
        let view = try engine.view()
        let objects = next.keys.inOrder().compactMap { entity -> ObjectID? in
            guard definition(entity) != nil, let next = next[entity], next > view.totals?[entity].nextNumber ?? 1,
                next > 1
            else { return nil }
            return ObjectID(entityNumber: entity, number: next - 1)
        }
        guard !objects.isEmpty else { return }
        try write { (transaction) throws(StoreError) in
            for object in objects {
                let count = definition(object.entityNumber)?.attributes.count ?? 0
                try transaction.insert(salvaged: object, [StoredValue](repeating: .absent, count: count))
            }
        }
        try write { (transaction) throws(StoreError) in for object in objects { try transaction.delete(object) } }
    }

    // MARK: The schema in the end

    /// Gives the schema the source's rules. If rows break a rule, an attribute becomes optional, or not unique, or
    /// loses its index.
    func finishSchema() throws(StoreError) {
        var wanted = definitions
        for index in wanted.indices {
            let entity = wanted[index]
            for position in (missing[entity.number] ?? []).inOrder() {
                wanted[index].attributes[position].flags.insert(.optional)
                schemaChanges.append(
                    "“\(entity.name).\(entity.attributes[position].name)” is optional now, because objects have lost "
                        + "its value."
                )
            }
        }
        if try change(to: wanted) { return }
        // First without unique keys, then with each possible one.
        var kept = wanted.map(\.withoutUniqueness)
        guard try change(to: kept) else {
            schemaChanges.append(
                "The new store has no indexes and no unique keys, because an object's value is too long for an index.")
            _ = try change(to: wanted.map(\.withoutIndexes))
            return
        }
        for index in wanted.indices {
            for part in wanted[index].uniqueParts {
                var more = kept
                more[index] = kept[index].with(unique: part)
                if try change(to: more) {
                    kept = more
                } else {
                    schemaChanges.append(
                        "“\(wanted[index].name).\(wanted[index].name(of: part))” is no longer unique, because objects "
                            + "have the same value."
                    )
                }
            }
        }
    }

    /// Returns false if objects share a value that should be unique, or if a value does not fit any index.
    private func change(to wanted: [EntityDefinition]) throws(StoreError) -> Bool {
        let view = try engine.view()
        let different = wanted.filter { $0 != view.catalog.entity($0.number, version: view.catalog.newestVersion) }
        guard !different.isEmpty else { return true }
        do {
            _ = try engine.commit(author: options.author, context: options.context, durability: .relaxed) {
                (transaction) in try transaction.changeSchema(different)
            }
            return true
        } catch let error as StoreError {
            guard error.code == .uniqueViolation || error.code == .tooLarge else { throw error }
            return false
        } catch {
            throw StoreError(.invalidArgument, StoreError.sentence(error))
        }
    }
}

extension Draft {
    /// Inserts an object of another store under its ID there. This store never had it.
    func insert(salvaged object: ObjectID, _ values: [StoredValue]) throws(StoreError) {
        try frames.insert(object, values)
        changed.insert(object.rawValue)
    }
}

/// A part that can be unique: one attribute, or a key.
private enum UniquePart {
    case attribute(Int)
    case key(Int)
}

extension EntityDefinition {
    fileprivate var withoutIndexes: EntityDefinition {
        var plain = self
        for index in attributes.indices { plain.attributes[index].flags.subtract([.unique, .indexed]) }
        plain.keys = []
        return plain
    }

    fileprivate var withoutRules: EntityDefinition {
        var loose = withoutIndexes
        for index in attributes.indices { loose.attributes[index].flags.insert(.optional) }
        return loose
    }

    /// With an index instead of uniqueness.
    fileprivate var withoutUniqueness: EntityDefinition {
        var plain = self
        for index in attributes.indices where attributes[index].flags.contains(.unique) {
            plain.attributes[index].flags.remove(.unique)
            plain.attributes[index].flags.insert(.indexed)
        }
        for index in keys.indices { plain.keys[index].isUnique = false }
        return plain
    }

    fileprivate var uniqueParts: [UniquePart] {
        attributes.indices.filter { attributes[$0].flags.contains(.unique) }.map { .attribute($0) }
            + keys.indices.filter { keys[$0].isUnique }.map { .key($0) }
    }

    fileprivate func with(unique part: UniquePart) -> EntityDefinition {
        var definition = self
        switch part {
        case .attribute(let index): definition.attributes[index].flags.insert(.unique)
        case .key(let index): definition.keys[index].isUnique = true
        }
        return definition
    }

    fileprivate func name(of part: UniquePart) -> String {
        switch part {
        case .attribute(let index): return attributes[index].name.text
        case .key(let index):
            return keys[index].attributes.map { number in
                attributes.first { $0.number == number }?.name.text ?? "\(number)"
            }.joined(separator: ", ")
        }
    }
}
