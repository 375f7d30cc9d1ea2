// Bringing back an earlier state of objects.
//
// Invariants:
// RB1  After the transaction, each selected object is as it was: it has the old value of each attribute that the schema
//      had then and has now, or it does not exist if it did not exist then.
// RB2  An attribute that the earlier state does not have keeps its present value, except for references to objects that
//      are deleted. In an object that is inserted again, it has its default.
// RB3  The transaction is refused if another one is committed between its state and itself: RB1 would not hold for an
//      object that only the other one has changed.

extension Transaction {
    /// Brings back an earlier state of all objects, or of those of one entity.
    ///
    /// Changed attributes get their old values. Objects that were deleted since are inserted again under their IDs, and
    /// objects that were inserted since are deleted. Objects that are not selected stay, but references to deleted
    /// objects follow their delete rules. The schema stays: attributes that were added since keep their values, and
    /// removed ones stay removed. Must be the first change of the transaction.
    ///
    /// Linear in the changes since that state, which history lists. Without history, for a state from a backup or from
    /// before a compaction, linear in the objects of both states. Takes memory for one object, besides the
    /// transaction's own.
    ///
    /// - Parameters:
    ///   - earlier: A state of this store, from `Store.snapshot(asOf:)`, or of a backup of it, which may have a state
    ///     that history no longer has.
    ///   - entity: The present name of the entity; nil for all.
    /// - Returns: The parts of the earlier state that do not come back, because the schema has changed. Each is a
    ///   sentence.
    ///
    /// Throws `StoreError`: `tokenForeign`, `tokenUnknown`, `tokenDiverged` if it is no state of this store;
    /// `unknownEntity`; `historyGap` if the history of an entity is off; `invalidArgument` if the transaction has made
    /// changes before. The commit throws `referenceMissing` if an object referred to one that was deleted since and is
    /// not selected; `deleteDenied`; and `uniqueViolation`.
    @discardableResult
    public func restore(to earlier: Snapshot, entity: String? = nil) throws -> [String] {
        try restore(earlier, only: entity.map { [try snapshot.handle(ofEntity: $0).number] }, nil)
    }

    /// Brings back an earlier state of some objects. As `restore(to:entity:)`, without reading history.
    ///
    /// Also throws `StoreError`: `objectNotFound` if an object existed neither then nor before this transaction.
    @discardableResult
    public func restore(to earlier: Snapshot, objects: [ObjectID]) throws -> [String] {
        try restore(earlier, only: Set(objects.map(\.entityNumber)), objects)
    }

    private func restore(
        _ earlier: Snapshot, only entities: Set<UInt16>?, _ objects: [ObjectID]?
    ) throws -> [String] {
        guard !draft.hasChanges else {
            throw StoreError(
                .invalidArgument, "A transaction restores an earlier state first: make its other changes after that.")
        }
        try store.requireSeen(earlier.token)
        let work = try RestoreWork(store, snapshot, earlier, only: entities, objects)
        // RB3.
        draft.needsNewestState = true
        try work.carryOut(in: self)
        return work.notes
    }
}

private struct RestoreWork {
    /// An entity of the present, and the same one in the earlier state.
    private struct Pair {
        let entity: EntityHandle
        let then: EntityHandle?
        let defaults: [Value]
        /// By position: the position in the earlier state; nil if it does not have the attribute.
        let positions: [Int?]

        init(_ entity: EntityHandle, _ description: EntityDescription, _ then: EntityHandle?) {
            (self.entity, self.then) = (entity, then)
            defaults = description.attributes.map { $0.defaultValue ?? .null }
            let (numbers, types) = (then?.attributeNumbers ?? [], then?.types ?? [])
            positions = entity.attributeNumbers.enumerated().map { (position, number) in
                numbers.firstIndex(of: number).flatMap { types[$0] == entity.types[position] ? $0 : nil }
            }
        }
    }

    private let store: Store
    private let now: Snapshot
    private let old: Snapshot
    private let pairs: [UInt16: Pair]
    private let selected: [ObjectID]?
    /// The parts of the earlier state that do not come back.
    private(set) var notes: [String] = []

    init(
        _ store: Store, _ now: Snapshot, _ old: Snapshot, only entities: Set<UInt16>?, _ objects: [ObjectID]?
    ) throws {
        (self.store, self.now, self.old, selected) = (store, now, old, objects)
        let earlier = try old.entities.map { try old.entity($0.name) }
        var pairs: [UInt16: Pair] = [:]
        for description in try now.entities {
            let entity = try now.entity(description.name)
            guard entities?.contains(entity.number) ?? true else { continue }
            let then = earlier.first { $0.number == entity.number }
            pairs[entity.number] = Pair(entity, description, then)
            if let then { notes += Self.notes(entity, then) }
        }
        for entity in earlier where entities == nil && pairs[entity.number] == nil {
            notes.append("The objects of “\(entity.name)” stay removed: the schema no longer has the entity.")
        }
        self.pairs = pairs
        for object in objects ?? [] where try now.row(object) == nil {
            let pair = pairs[object.entityNumber]
            if try pair != nil && old.row(object) != nil { continue }
            let reason =
                pair == nil ? "is of no entity of the schema" : "did not exist in that state, and does not exist now"
            throw StoreError(
                .objectNotFound,
                "\(pair.map { "\($0.entity.name) " } ?? "The object ")\(object) \(reason): check the ID.",
                ObjectFacts(pair?.entity.name ?? "", object: object))
        }
    }

    private static func notes(_ entity: EntityHandle, _ then: EntityHandle) -> [String] {
        zip(then.attributes, zip(then.attributeNumbers, then.types)).compactMap { (name, attribute) in
            let stays = "“\(name)” of “\(entity.name)” stays as it is: "
            guard let position = entity.attributeNumbers.firstIndex(of: attribute.0) else {
                return stays + "the schema no longer has that attribute"
                    + (entity.position(of: name) == nil ? "." : ", but another one of its name.")
            }
            return attribute.1 == entity.types[position] ? nil : stays + "it has another type now."
        }
    }

    func carryOut(in transaction: Transaction) throws {
        try forEachCandidate { (object, pair) in
            let present = try now.row(object)
            guard let earlier = try old.row(object) else {
                if present != nil { try transaction.delete(object) }
                return
            }
            // RB1, RB2.
            let values = try pair.positions.indices.map { (position) in
                try pair.positions[position].map { earlier.values[$0] }
                    ?? present.map { try withoutRemoved($0.values[position]) } ?? pair.defaults[position]
            }
            if present == nil {
                try transaction.insert(pair.entity, values, again: object)
            } else {
                try transaction.update(object, of: pair.entity, values)
            }
        }
    }

    /// Calls `body` with each object that may differ, once.
    private func forEachCandidate(_ body: (ObjectID, Pair) throws -> Void) throws {
        if let selected {
            var seen: Set<ObjectID> = []
            for object in selected where seen.insert(object).inserted {
                if let pair = pairs[object.entityNumber] { try body(object, pair) }
            }
            return
        }
        if now.engine === old.engine {
            do {
                return try forEachChanged(body)
            } catch let error as StoreError where error.code == .tokenExpired {
                // History was cleaned since the earlier state was opened. It can still be read.
            }
        }
        for pair in pairs.values.inOrder(by: { $0.entity.number < $1.entity.number }) {
            try Self.forEachObject(of: pair.entity, in: now) { try body($0, pair) }
            guard let then = pair.then else { continue }
            try Self.forEachObject(of: then, in: old) { if try now.row($0) == nil { try body($0, pair) } }
        }
    }

    /// Throws before the first call of `body` if history does not have all changes since the earlier state.
    private func forEachChanged(_ body: (ObjectID, Pair) throws -> Void) throws {
        guard old.token.number < now.token.number else { return }
        // Entities without history are an error, and not left out.
        let request = HistoryRequest(
            after: .number(old.token.number), before: .number(now.token.number + 1),
            entities: Set(pairs.values.map(\.entity.name)))
        try store.forEachNetChange(request, in: now) { (change) in
            if let pair = pairs[change.object.entityNumber] { try body(change.object, pair) }
            return true
        }
    }

    private static func forEachObject(
        of entity: EntityHandle, in snapshot: Snapshot, _ body: (ObjectID) throws -> Void
    ) throws {
        var failure: (any Error)?
        try snapshot.lendRows(of: entity) { (row) in
            do { try body(row.id) } catch { failure = error }
            return failure == nil
        }
        if let failure { throw failure }
    }

    /// A kept value without references to objects that are deleted: delete rules could act against RB1.
    private func withoutRemoved(_ value: Value) throws -> Value {
        func isLeft(_ target: ObjectID) throws -> Bool {
            let isSelected = selected?.contains(target) ?? (pairs[target.entityNumber] != nil)
            return try !isSelected || old.row(target) != nil
        }
        return switch value {
        case .object(let target): try isLeft(target) ? value : .null
        case .objects(let targets): .objects(try targets.filter(isLeft))
        case .orderedObjects(let targets): .orderedObjects(try targets.filter(isLeft))
        default: value
        }
    }
}
