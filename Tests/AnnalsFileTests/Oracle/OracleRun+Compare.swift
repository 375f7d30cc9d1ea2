// Views and history against the oracle: a little often, everything now and then.

import Annals

extension OracleRun {
    // MARK: Views

    func compareSome() throws {
        let handle = try anyHandle()
        let view = try handle.engine.view()
        guard view.number == UInt64(model.number) else {
            throw OracleFailure("the newest view is of \(view.number) instead of \(model.number)")
        }
        for _ in 0..<8 { try compareObject(view, model.number) }
        if let entity = random.element(model.schema.entities.keys.sorted()) {
            try compareIndex(view, model.number, entity)
        }
    }

    func comparePast() throws {
        let handle = try anyHandle()
        let number = numberInHistory()
        try compare(try handle.engine.view(asOf: UInt64(number)), number)
        do {
            _ = try handle.engine.view(asOf: UInt64(model.number + 1 + random.below(3)))
            throw OracleFailure("there is a view of a transaction that there is not")
        } catch let error as StoreError where error.code == .invalidArgument {}
    }

    func compareAll(_ handle: OracleHandle) throws {
        let view = try handle.engine.view()
        guard view.number == UInt64(model.number) else {
            throw OracleFailure("the newest view is of \(view.number) instead of \(model.number)")
        }
        try compare(view, model.number)
        try compareConsumer(handle)
        let statistics = try handle.engine.statistics()
        let folded = handle.engine.log.header.baseNumber
        guard statistics.transactions == UInt64(model.number) - folded, statistics.lastNumber == UInt64(model.number)
        else {
            throw OracleFailure("\(statistics.transactions) transactions are counted instead of \(model.number)")
        }
        let bytes = statistics.frameBytes.values.reduce(0, +)
        guard bytes + 4096 == statistics.end else {
            throw OracleFailure("\(bytes) bytes of frames are counted of \(statistics.end)")
        }
    }

    /// Everything that a view shows.
    func compare(_ view: View, _ number: Int) throws {
        let schema = model.schema(asOf: number)
        guard view.number == UInt64(number), Int(view.catalog.newestVersion) == schema.version else {
            throw OracleFailure("a view has schema \(view.catalog.newestVersion) instead of \(schema.version)")
        }
        for entity in 1...UInt16(8) {
            guard let definition = schema.entities[entity] else {
                try view.scan(entity: entity) { (_, _) throws(StoreError) in
                    throw StoreError(.invalidArgument, "A removed entity has objects.")
                }
                continue
            }
            guard view.catalog.newestLayout(entity: entity)?.layout.entity == definition else {
                throw OracleFailure("a view of \(number) has another definition of entity \(entity)")
            }
            try compareScan(view, number, entity)
            try compareIndex(view, number, entity)
        }
        for _ in 0..<4 { try compareObject(view, number) }
    }

    private func compareScan(_ view: View, _ number: Int, _ entity: UInt16) throws {
        let all = model.objects(of: entity, asOf: number)
        let isReversed = random.chance(1, in: 3)
        let lower: UInt64 = random.chance(1, in: 2) ? 1 : UInt64(1 + random.below(700))
        let upper: UInt64 = random.chance(1, in: 2) ? .max : lower + UInt64(random.below(700))
        var expected = all.filter { $0.object.number >= lower && $0.object.number <= upper }
        if isReversed { expected.reverse() }
        var place = 0
        var difference: String?
        try view.scan(entity: entity, from: lower, through: upper, reversed: isReversed) {
            (object, row) throws(StoreError) in
            if place >= expected.count || expected[place].object != object {
                difference = "\(object.number) stands at \(place)"
            } else {
                difference = try self.difference(view, row, expected[place].row)
            }
            place += 1
            return difference == nil
        }
        counts.comparisons += place + 1
        guard difference == nil, place == expected.count else {
            throw OracleFailure(
                "a scan of entity \(entity) as of \(number): \(difference ?? "\(place) rows of \(expected.count)")")
        }
        guard try view.count(entity: entity) == UInt64(all.count) else {
            throw OracleFailure("entity \(entity) as of \(number) has not \(all.count) objects")
        }
    }

    private func compareObject(_ view: View, _ number: Int) throws {
        let entities = model.schema(asOf: number).entities
        let isAny = random.chance(1, in: 5)
        let any = ObjectID(entityNumber: UInt16(1 + random.below(5)), number: UInt64(1 + random.below(4000)))
        guard let object = isAny ? any : random.element(model.live) else { return }
        let expected = entities[object.entityNumber] == nil ? nil : model.row(object, asOf: number)
        var difference: String?
        let isThere = try view.withRow(object) { (row) throws(StoreError) in
            if let expected { difference = try self.difference(view, row, expected) }
        }
        counts.comparisons += 1
        guard isThere == (expected != nil), try view.contains(object) == isThere, difference == nil else {
            throw OracleFailure("\(object) as of \(number): \(difference ?? "is there: \(isThere)")")
        }
    }

    func difference(_ view: View, _ row: RowImage, _ expected: ModelRow) throws(StoreError) -> String? {
        let attributes = row.layout.entity.attributes
        guard attributes.count == expected.values.count else { return "a row has another layout" }
        for position in attributes.indices {
            guard attributes[position].number == expected.entity.attributes[position].number else {
                return "a row has other attributes"
            }
            let value = try view.value(row, at: position)
            if value != expected.values[position] { return "\(value) instead of \(expected.values[position])" }
        }
        return nil
    }

    // MARK: Indexes

    private func compareIndex(_ view: View, _ number: Int, _ entity: UInt16) throws {
        guard let definition = model.schema(asOf: number).entities[entity] else { return }
        let ids = IndexID.all(of: definition)
        guard view.indexes(entity: entity) == ids else {
            throw OracleFailure("entity \(entity) as of \(number) has other indexes")
        }
        guard let id = random.element(ids) else { return }
        if definition.isList(id) { return try compareElements(view, id, number, definition) }
        var keyed = model.objects(of: entity, asOf: number).map {
            (key: ModelKey.key($0.row, id, definition).key, object: $0.object, row: $0.row)
        }
        keyed.sort {
            $0.key == $1.key ? $0.object < $1.object : $0.key.lexicographicallyPrecedes($1.key)
        }
        let types = id.attributes.compactMap { number in
            definition.attributes.first { $0.number == number }?.type
        }
        let samples = [0, 1].map { _ in keyed.isEmpty ? nil : keyed[random.below(keyed.count)].row }
        let bounds = try samples.map { try bound($0, id, definition, types) }
        let isReversed = random.chance(1, in: 2)
        var expected = keyed.filter { bounds[0].isBelow($0.key) && bounds[1].isAbove($0.key) }
        guard try view.count(view.indexNumber(id), KeyRange(from: bounds[0], to: bounds[1])) == expected.count else {
            throw OracleFailure("index \(id.attributes) of entity \(entity) as of \(number): another count")
        }
        if isReversed { expected.reverse() }
        var start = RangeStart()
        // Any object of the entity, in the range or not.
        if let after = random.element(keyed), random.chance(1, in: 2) {
            start.after = after.object
            expected.removeAll {
                $0.key == after.key
                    ? (isReversed ? $0.object >= after.object : $0.object <= after.object)
                    : $0.key.lexicographicallyPrecedes(after.key) != isReversed
            }
        }
        start.offset = random.chance(1, in: 2) ? 0 : random.below(random.chance(1, in: 2) ? 5 : 300)
        let limit = random.chance(1, in: 2) ? Int.max : random.below(300)
        try compareRange(
            view, id, (bounds[0], bounds[1]), start, isReversed,
            expected.dropFirst(start.offset).prefix(limit).map { ($0.object, $0.row) },
            "index \(id.attributes) of entity \(entity) as of \(number) after \(start)")
        if let sample = samples[0] { try compareFirst(view, id, definition, types, sample, keyed.map { ($0.0, $0.1) }) }
    }

    /// Who refers to an object in a list.
    private func compareElements(_ view: View, _ id: IndexID, _ number: Int, _ entity: EntityDefinition) throws {
        let rows = model.objects(of: id.entity, asOf: number)
        let elements = rows.map { ($0.object, keyValues($0.row, id, entity).first?.elements ?? []) }
        guard let target = random.element(elements.flatMap(\.1)) else { return }
        var found: [ObjectID] = []
        try view.forEachReferring(to: target, id) { (object) in
            found.append(object)
            return true
        }
        let expected = elements.filter { $0.1.contains(target) }.map(\.0)
        guard found.sorted() == expected.sorted() else {
            throw OracleFailure("\(found) refer to \(target) as of \(number), not \(expected)")
        }
        counts.comparisons += found.count
    }

    private struct RangeStart {
        var after: ObjectID?
        var offset = 0
    }

    private func bound(
        _ row: ModelRow?, _ id: IndexID, _ entity: EntityDefinition, _ types: [AttributeType]
    ) throws -> IndexBound {
        guard let row, random.chance(2, in: 3) else { return .unbounded }
        let values = keyValues(row, id, entity).prefix(1 + random.below(id.attributes.count))
        if let prefix = values.last.flatMap(beginning) {
            return try IndexKey.prefixBound(values: values.dropLast() + [prefix], types: types).bound
        }
        return try IndexKey.bound(values: Array(values), types: types, isIncluded: random.chance(1, in: 2)).bound
    }

    /// Some bytes at the beginning of a text or data, now and then.
    private func beginning(of value: StoredValue) -> StoredValue? {
        guard random.chance(1, in: 3) else { return nil }
        switch value {
        case .string(let text): return .string(String(text.prefix(random.below(text.count + 1))))
        case .data(let data): return .data(Array(data.prefix(random.below(data.count + 1))))
        default: return nil
        }
    }

    private func keyValues(_ row: ModelRow, _ id: IndexID, _ entity: EntityDefinition) -> [StoredValue] {
        id.attributes.compactMap { number in
            entity.attributes.first { $0.number == number }.map { row.value(of: $0) }
        }
    }

    private func compareRange(
        _ view: View, _ id: IndexID, _ bounds: (IndexBound, IndexBound), _ start: RangeStart,
        _ isReversed: Bool, _ expected: [(object: ObjectID, row: ModelRow)], _ what: String
    ) throws {
        var place = 0
        var difference: String?
        if expected.isEmpty { return }
        try view.range(
            id, KeyRange(from: bounds.0, to: bounds.1), after: start.after, offset: start.offset, reversed: isReversed
        ) { (object, row) throws(StoreError) in
            if expected[place].object != object {
                difference = "\(object.number) instead of \(expected[place].object.number) stands at \(place)"
            } else {
                difference = try self.difference(view, row, expected[place].row)
            }
            place += 1
            return difference == nil && place < expected.count
        }
        counts.comparisons += place
        guard difference == nil, place == expected.count else {
            throw OracleFailure("\(what): \(difference ?? "\(place) rows of \(expected.count)")")
        }
    }

    /// The object with a whole key.
    private func compareFirst(
        _ view: View, _ id: IndexID, _ entity: EntityDefinition, _ types: [AttributeType], _ sample: ModelRow,
        _ keyed: [(key: [UInt8], object: ObjectID)]
    ) throws {
        let values = keyValues(sample, id, entity)
        var key = ByteWriter(capacity: 256)
        try IndexKey.append(values: values, types: types, to: &key)
        let whole = ModelKey.key(sample, id, entity).key
        let expected = keyed.filter { $0.key == whole }.map(\.object)
        let found = try view.first(id, key: Array(key.bytes))
        guard let found, expected.contains(found) else {
            throw OracleFailure(
                "by the key \(values) of index \(id.attributes) \(found.map { "\($0)" } ?? "nothing") was found, not "
                    + "\(expected)"
            )
        }
    }

    // MARK: History

    func compareHistory() throws { try compareHistory(try anyHandle(), after: numberInHistory()) }

    func compareHistory(_ handle: OracleHandle, after number: Int) throws {
        let view = try handle.engine.view()
        var next = number + 1
        var difference: String?
        let limit = random.chance(1, in: 5) ? 1 << 40 : 30
        try handle.engine.tracked(view).forEachTransaction(after: UInt64(number)) { (transaction) throws(StoreError) in
            difference = try self.difference(transaction, next, view)
            next += 1
            return difference == nil && next <= number + limit
        }
        counts.comparisons += next - number
        let last = min(model.number, number + limit)
        guard difference == nil, next == last + 1 || number == model.number else {
            throw OracleFailure("history, transaction \(next - 1): \(difference ?? "the last one is \(last)")")
        }
    }

    private func difference(
        _ transaction: TransactionView, _ number: Int, _ view: View
    ) throws(StoreError) -> String? {
        guard number <= model.number, transaction.number == UInt64(number) else { return "it has another number" }
        let expected = model.transactions[number - 1]
        if let tag = expected.tag, tag != transaction.tag { return "it has another tag" }
        guard transaction.author == expected.author, transaction.context == expected.context else {
            return "it has another author or context"
        }
        guard transaction.totalChanges == UInt64(expected.changes.count),
            transaction.changesSchema == (expected.schema != nil)
        else { return "it has \(transaction.totalChanges) changes instead of \(expected.changes.count)" }
        var seen = Set<ObjectID>()
        var difference: String?
        try transaction.forEachChange { (change) throws(StoreError) in
            seen.insert(change.object)
            difference = try self.difference(change, expected.changes[change.object], view, number)
            return difference == nil
        }
        return difference ?? (seen.count == expected.changes.count ? nil : "an object is missing in it")
    }

    private func difference(
        _ change: ChangeView, _ expected: ModelChange?, _ view: View, _ number: Int
    ) throws(StoreError) -> String? {
        guard let expected, expected.kind == change.kind else { return "\(change.object) has another kind of change" }
        let attributes = model.schema(asOf: number).entities[change.object.entityNumber]?.attributes ?? []
        let positions = change.attributePositions
        guard Set(positions.map { $0 < attributes.count ? attributes[$0].number : 0 }) == expected.attributes else {
            return "\(change.object) has other attributes changed"
        }
        var difference: String?
        let hasBefore = try view.withRow(before: change) { (row) throws(StoreError) in
            if let before = expected.before { difference = try self.difference(view, row, before) }
        }
        if let difference { return "before \(change.object): \(difference)" }
        let hasAfter = try view.withRow(after: change) { (row) throws(StoreError) in
            if let written = expected.written { difference = try self.difference(view, row, written) }
        }
        if let difference { return "after \(change.object): \(difference)" }
        let isRight = hasBefore == (expected.before != nil) && hasAfter == (expected.written != nil)
        return isRight ? nil : "\(change.object) has a row before or after too many or too few"
    }
}

extension IndexBound {
    fileprivate func isBelow(_ key: [UInt8]) -> Bool {
        switch self {
        case .including(let bound): key.starts(with: bound) || bound.lexicographicallyPrecedes(key)
        case .excluding(let bound): !key.starts(with: bound) && bound.lexicographicallyPrecedes(key)
        case .unbounded, .beside: true
        }
    }

    fileprivate func isAbove(_ key: [UInt8]) -> Bool {
        switch self {
        case .including(let bound): key.starts(with: bound) || key.lexicographicallyPrecedes(bound)
        case .excluding(let bound): !key.starts(with: bound) && key.lexicographicallyPrecedes(bound)
        case .unbounded, .beside: true
        }
    }
}

extension EntityDefinition {
    /// Whether the index has an entry for each element of a list.
    func isList(_ id: IndexID) -> Bool {
        attributes.contains { [$0.number] == id.attributes && $0.type.isObjectList }
    }
}

extension StoredValue {
    fileprivate var elements: [ObjectID] {
        switch self {
        case .orderedObjects(let objects), .objects(let objects): objects
        default: []
        }
    }
}
