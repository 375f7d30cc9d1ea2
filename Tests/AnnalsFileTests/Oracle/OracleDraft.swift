// A transaction in the making as the oracle sees it, change by change beside the engine's.

import Annals

/// What an operation on a transaction in the making must come to.
enum OracleOutcome: Equatable {
    case done
    /// An update that writes nothing.
    case nothing
    case refused(StoreError.Code)
    /// Either of the two: the order of the checks is the engine's own.
    case nothingOr(StoreError.Code)
}

struct OracleDraft {
    let base: Int
    var schema: ModelSchema
    var changesSchema = false
    var changes: [ObjectID: ModelChange] = [:]
    private(set) var vanished: Set<ObjectID> = []
    let inlineBytes: Int

    init(_ model: OracleModel, base: Int, inlineBytes: Int) {
        self.base = base
        self.inlineBytes = inlineBytes
        schema = model.schema(asOf: base)
    }

    var advance: ConsumerAdvance?
    var isEmpty: Bool { changes.isEmpty && !changesSchema }

    func isChangedHere(_ object: ObjectID) -> Bool { changes[object] != nil || vanished.contains(object) }

    func row(_ object: ObjectID, _ model: OracleModel) -> ModelRow? {
        if let change = changes[object] { return change.after }
        return vanished.contains(object) ? nil : model.row(object, asOf: base)
    }

    func isLarge(_ value: StoredValue) -> Bool {
        switch value {
        case .string, .json, .data, .orderedObjects, .objects: value.variableBytes > inlineBytes
        default: false
        }
    }

    // MARK: Changes

    /// The row that an insert with these values writes; nil if a required value is missing.
    func rowToInsert(_ entity: EntityDefinition, _ values: [StoredValue]) -> ModelRow? {
        var row = ModelRow(entity: entity, values: values)
        for (position, attribute) in entity.attributes.enumerated() {
            guard case .absent = values[position] else { continue }
            row.values[position] = attribute.valueBeforeItExisted
            if attribute.defaultValue == nil, !attribute.isOptional { return nil }
        }
        return row
    }

    mutating func insert(_ object: ObjectID, _ row: ModelRow) {
        changes[object] = ModelChange(kind: .insert, before: nil, written: row)
    }

    /// Works out what an update must come to; `take` is then told whether it was done.
    func update(
        _ object: ObjectID, _ values: [(position: Int, value: StoredValue)], _ model: OracleModel
    ) -> (outcome: OracleOutcome, change: ModelChange?) {
        guard let entity = schema.entities[object.entityNumber] else { return (.refused(.invalidArgument), nil) }
        guard let old = row(object, model) else { return (.refused(.objectNotFound), nil) }
        var new = ModelRow(entity: entity, values: [])
        var changed = Set<UInt16>()
        // What may not be absent any more.
        var defaulted = Set<UInt16>()
        var isMissing = false
        for (position, attribute) in entity.attributes.enumerated() {
            let place = old.entity.attributes.firstIndex { $0.number == attribute.number }
            if let value = values.first(where: { $0.position == position })?.value {
                if case .absent = value, !attribute.isOptional { return (.refused(.requiredMissing), nil) }
                new.values.append(value)
                // A row from before the attribute existed reads as if it had this.
                if place == nil, attribute.valueBeforeItExisted == value { continue }
                if let place, old.values[place] == value, !isLarge(value) { continue }
                changed.insert(attribute.number)
            } else if let place, old.values[place] != .absent || attribute.isOptional {
                new.values.append(old.values[place])
            } else {
                if place != nil { defaulted.insert(attribute.number) }
                new.values.append(attribute.valueBeforeItExisted)
                if attribute.defaultValue == nil, !attribute.isOptional { isMissing = true }
            }
        }
        let first = changes[object]
        var change = ModelChange(kind: first?.kind ?? .update, before: first?.before ?? old, written: new)
        if first?.kind == .insert { change.before = nil }
        change.attributes = change.kind == .insert ? [] : changed.union(defaulted).union(first?.attributes ?? [])
        if isMissing { return (changed.isEmpty ? .nothingOr(.requiredMissing) : .refused(.requiredMissing), nil) }
        return (changed.isEmpty ? .nothing : .done, change)
    }

    mutating func take(_ object: ObjectID, _ change: ModelChange?) { if let change { changes[object] = change } }

    func canDelete(_ object: ObjectID, _ model: OracleModel) -> OracleOutcome {
        if schema.entities[object.entityNumber] == nil { return .refused(.invalidArgument) }
        return row(object, model) == nil ? .refused(.objectNotFound) : .done
    }

    mutating func delete(_ object: ObjectID, _ model: OracleModel) {
        guard let old = row(object, model), let entity = schema.entities[object.entityNumber] else { return }
        let first = changes[object]
        guard first?.kind != .insert else {
            changes[object] = nil
            vanished.insert(object)
            return
        }
        var preserved = ModelRow(entity: entity, values: entity.attributes.map { _ in .absent })
        var isEmpty = true
        for (position, attribute) in entity.attributes.enumerated()
        where attribute.flags.contains(.preservedOnDeletion) {
            guard let place = old.entity.attributes.firstIndex(where: { $0.number == attribute.number }) else {
                continue
            }
            preserved.values[position] = old.values[place]
            if old.values[place] != .absent { isEmpty = false }
        }
        changes[object] = ModelChange(
            kind: .delete, before: first?.before ?? old, written: isEmpty ? nil : preserved)
    }

    mutating func change(_ definitions: [EntityDefinition]) {
        changesSchema = true
        schema.version += 1
        for definition in definitions {
            schema.entities[definition.number] = definition.state == .present ? definition : nil
        }
    }

    /// Whether a value that stands in value frames would have to be in an index: that is refused.
    func hasLargeKey(_ model: OracleModel) -> Bool {
        for entity in schema.entities.values {
            let known = model.schema.entities[entity.number].map { IndexID.all(of: $0) } ?? []
            for id in IndexID.all(of: entity) {
                var rows = changes.filter { $0.key.entityNumber == entity.number }.compactMap(\.value.after)
                if changesSchema, !known.contains(id) {
                    rows += model.objects(of: entity.number, asOf: model.number).map(\.row)
                }
                if rows.contains(where: { hasLargeKey($0, id, entity) }) { return true }
            }
        }
        return false
    }

    private func hasLargeKey(_ row: ModelRow, _ id: IndexID, _ entity: EntityDefinition) -> Bool {
        entity.attributes.contains { id.attributes.contains($0.number) && isLarge(row.value(of: $0)) }
    }
}
