// The changes that bring back an earlier state, computed before anything is written.
//
// Invariants:
// RB1  After the changes, each selected object is as it was: it has the old value of each attribute that the schema had
//      then and has now, or it does not exist if it did not exist then.
// RB2  An attribute that the earlier state does not have keeps its present value, except for references to objects that
//      are deleted. In an object that is inserted again, it has its default.
// RB3  No step refers to an object that does not exist after all steps.

internal import Annals

/// A change of an object. Rows have the names of the present schema.
struct RestoreEffect {
    let object: ObjectID
    /// The object now; nil if it does not exist.
    let present: Row?
    /// The object after the change; nil if it did not exist.
    let restored: Row?

    var kind: HistoryChange.Kind { present == nil ? .insert : restored == nil ? .delete : .update }
    var entity: String { (present ?? restored)?.entity ?? "" }

    var changed: [String] {
        guard let present, let restored else { return [] }
        return present.attributes.indices.filter { !DiffCommand.isSame(present.values[$0], restored.values[$0]) }
            .map { present.attributes[$0] }
    }
}

/// Finds the steps. Takes memory for one object, and for references to objects that were deleted since.
final class RestorePlan {
    /// An entity of the present, and the same one in the earlier state.
    fileprivate struct Pair {
        let entity: EntityHandle
        let then: EntityHandle?
        let defaults: [Value]
        /// By position: the position in the earlier state; nil if it does not have the attribute.
        let positions: [Int?]

        init(_ entity: EntityHandle, _ description: EntityDescription, _ then: EntityHandle?) {
            (self.entity, self.then) = (entity, then)
            defaults = description.attributes.map { $0.defaultValue ?? .null }
            let (numbers, types) = (then?.attributeNumbers ?? [], then?.types ?? [])
            positions = entity.attributeNumbers.enumerated().map { position, number in
                numbers.firstIndex(of: number).flatMap { types[$0] == entity.types[position] ? $0 : nil }
            }
        }
    }

    private let store: Store
    let now: Snapshot
    private let old: Snapshot
    private let isBackup: Bool
    private let pairs: [UInt16: Pair]
    private let selected: [ObjectID]?
    let labels: Labels
    /// Parts of the earlier state that cannot come back. Each is a whole sentence.
    private(set) var notes: [String] = []
    /// By missing object: the attribute and the object that refer to it.
    private var missing: [ObjectID: String] = [:]

    init(
        _ store: Store, _ now: Snapshot, _ old: Snapshot, isBackup: Bool, entity name: String?,
        _ objects: ArraySlice<String>
    ) throws {
        (self.store, self.now, self.old, self.isBackup) = (store, now, old, isBackup)
        labels = try Labels(old)
        let earlier = try old.handles
        let only = try name.map { try now.entity($0) }
        var pairs: [UInt16: Pair] = [:]
        for description in try now.entities {
            let entity = try now.entity(description.name)
            guard only == nil || only?.number == entity.number else { continue }
            let then = earlier.first { $0.number == entity.number }
            pairs[entity.number] = Pair(entity, description, then)
            for (position, number) in (then?.attributeNumbers ?? []).enumerated() {
                let name = then?.attributes[position] ?? ""
                guard let now = entity.attributeNumbers.firstIndex(of: number) else {
                    notes.append(
                        "“\(name)” of “\(entity.name)” stays as it is: the schema no longer has that attribute"
                            + (entity.position(of: name) == nil ? "." : ", but another one of its name."))
                    continue
                }
                if then?.types[position] != entity.types[now] {
                    notes.append("“\(name)” of “\(entity.name)” stays as it is: it has another type now.")
                }
            }
        }
        if only == nil {
            for entity in earlier where pairs[entity.number] == nil {
                notes.append("The objects of “\(entity.name)” stay removed: the schema no longer has the entity.")
            }
        }
        self.pairs = pairs
        guard let only, !objects.isEmpty else {
            selected = nil
            return
        }
        let then = pairs[only.number]?.then
        // A label of the earlier state counts first: the present object of that label may be another one.
        selected = try objects.map { text in
            if let object = try then?.existing(text, in: old) { return object }
            let object = try only.object(text, in: now)
            guard try now.row(object) != nil else {
                throw ToolFailure(
                    "\(only.name) \(object) did not exist at that place, and does not exist now.",
                    hint: "“annals versions STORE ENTITY \(object)” prints its history.")
            }
            return object
        }
    }

    /// Calls `body` with each change that a commit would make, with those of delete rules. Throws the error with which
    /// it would refuse them.
    func forEachEffect(_ body: (RestoreEffect) throws -> Void) throws {
        var failure: (any Error)?
        let refusals = try store.rehearse(on: now) { (transaction) throws(StoreError) in
            do { try carryOut(in: transaction) } catch { failure = error }
        } outcome: { (transaction, object) throws(StoreError) in
            guard failure == nil else { return }
            do {
                try body(RestoreEffect(object: object, present: now.row(object), restored: transaction.row(object)))
            } catch { failure = error }
        }
        if let failure = failure ?? refusals.first { throw failure }
    }

    /// Writes the steps. Throws if one refers to a missing object: RB3.
    func carryOut(in transaction: Transaction) throws {
        missing = [:]
        try forEachCandidate { object in
            guard let pair = pairs[object.entityNumber], let effect = try effect(on: object, pair) else { return }
            guard let restored = effect.restored else { return try transaction.delete(object) }
            guard let present = effect.present else {
                return try transaction.insert(pair.entity, restored.values, again: object)
            }
            // A plain nil would be the value null.
            let values = zip(present.values, restored.values).map { DiffCommand.isSame($0, $1) ? Value?.none : $1 }
            _ = try transaction.update(object, of: pair.entity, naming: values)
        }
        for (target, referrer) in missing.sorted(by: { $0.key < $1.key }) where try transaction.row(target) == nil {
            let present = try now.handles.first { $0.number == target.entityNumber }
            let entity = try present?.name ?? old.row(target)?.entity ?? "object"
            throw ToolFailure(
                "\(referrer) referred to \(entity) \(labels.text(target)), which was deleted since.",
                hint: present == nil
                    ? nil : "Restore that one first: annals restore STORE '\(entity)' \(target) with the same options.")
        }
    }

    /// Lends each object that may differ, once.
    private func forEachCandidate(_ body: (ObjectID) throws -> Void) throws {
        if let selected {
            var seen: Set<ObjectID> = []
            for object in selected where seen.insert(object).inserted { try body(object) }
        } else if isBackup {
            for pair in pairs.values.sorted(by: { $0.entity.number < $1.entity.number }) {
                try now.forEachObject(of: pair.entity, body)
                guard let then = pair.then else { continue }
                try old.forEachObject(of: then) { if try now.row($0) == nil { try body($0) } }
            }
        } else {
            // Entities without history are an error, and not left out.
            let request = HistoryRequest(
                after: .number(old.token.number), before: .number(now.token.number + 1),
                entities: Set(pairs.values.map(\.entity.name)))
            guard old.token.number < now.token.number else { return }
            try store.forEachNetChange(request, in: now) { change in
                try body(change.object)
                return true
            }
        }
    }

    private func effect(on object: ObjectID, _ pair: Pair) throws -> RestoreEffect? {
        let (present, earlier) = (try now.row(object), try old.row(object))
        // RB1, RB2.
        let restored = try earlier.map { earlier in
            let values = try pair.positions.indices.map { position in
                try pair.positions[position].map { earlier.values[$0] }
                    ?? present.map { try withoutRemoved($0.values[position]) } ?? pair.defaults[position]
            }
            return Row(id: object, entity: pair.entity.name, attributes: pair.entity.attributes, values: values)
        }
        if present == nil, restored == nil { return nil }
        let effect = RestoreEffect(object: object, present: present, restored: restored)
        if effect.kind == .update, effect.changed.isEmpty { return nil }
        try noteMissing(of: effect)
        return effect
    }

    /// A kept value without references to objects that the restore deletes: delete rules could act against RB1.
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

    private func noteMissing(of step: RestoreEffect) throws {
        guard let restored = step.restored else { return }
        for (position, value) in restored.values.enumerated()
        where step.present.map({ !DiffCommand.isSame($0.values[position], value) }) ?? true {
            let targets = value.object.map { [$0] } ?? value.objects ?? value.orderedObjects ?? []
            for target in targets where try now.row(target) == nil {
                missing[target] = "“\(restored.attributes[position])” of \(restored.entity) \(step.object)"
            }
        }
    }
}
