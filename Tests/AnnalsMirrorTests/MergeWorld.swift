// Peers in memory that make random transactions and merge those of the others, each in an order of its own.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport

/// A whole state as a base.
final class WholeState: MergeBase {
    var state: MergeState

    init(_ state: MergeState) { self.state = state }

    func object(_ name: GroupObject) -> MergeObject? { state.object(name) }
    func name(ofAlias alias: GroupObject) -> GroupObject? { state.aliases[alias] }
    func holder(of key: MergeState.KeyValue) -> GroupObject? { state.holder(of: key) }
    func referrers(to name: GroupObject) -> Set<MergeState.Referrer> { state.referring(to: name) }
}

/// Entities with unique keys of one and two attributes, and references of all delete rules.
enum MergeModel {
    static let entities = [
        EntityDescription(
            "Tag",
            attributes: [
                AttributeDescription("name", .string, isOptional: false, isUnique: true),
                AttributeDescription("rank", .int),
            ]),
        EntityDescription(
            "Folder",
            attributes: [
                AttributeDescription("name", .string, isOptional: false),
                AttributeDescription("parent", .object, target: "Folder", whenTargetIsDeleted: .cascade),
                AttributeDescription("code", .int, isUnique: true),
                AttributeDescription("guard", .object, target: "Tag", whenTargetIsDeleted: .deny),
            ], keys: [IndexDescription(["name", "parent"], isUnique: true)]),
        EntityDescription(
            "Note",
            attributes: [
                AttributeDescription("title", .string),
                AttributeDescription(
                    "folder", .object, isOptional: false, target: "Folder", whenTargetIsDeleted: .cascade),
                AttributeDescription("copyOf", .object, target: "Note", whenTargetIsDeleted: .nullify),
                AttributeDescription("tags", .objects, target: "Tag", whenTargetIsDeleted: .nullify),
                AttributeDescription("order", .orderedObjects, target: "Note", whenTargetIsDeleted: .noAction),
                AttributeDescription("must", .object, isOptional: false, target: "Tag", whenTargetIsDeleted: .nullify),
            ]),
    ]
    static let schema = MergeSchema(entities)
    static func entity(_ number: UInt16) -> EntityDescription { entities[Int(number) - 1] }
}

/// A peer: its state, and the transactions that it has, in the order in which they came.
final class MergePeer {
    let identifier: UUID
    private(set) var state = MergeState(MergeModel.schema)
    private(set) var window = MergeWindow()
    /// By number.
    private var entries: [UInt64: MergeEntry] = [:]
    /// The states after each number of transactions.
    private var states: [UInt64: MergeState] = [0: MergeState(MergeModel.schema)]
    private(set) var all: [MergeTransaction] = []
    private(set) var known: Set<Stamp> = []
    private(set) var lamport: UInt64 = 0
    private var nextNumber: UInt64 = 1
    private(set) var replays = 0

    init(_ identifier: UUID) { self.identifier = identifier }

    // MARK: Own transactions

    /// Makes a random transaction; nil if the attempt was not valid.
    func write(_ random: inout SeededRandom) -> MergeTransaction? {
        var wanted: [MergeChange] = []
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            if let change = change(&random), !wanted.contains(where: { $0.object == change.object }) {
                wanted.append(change)
            }
        }
        guard !wanted.isEmpty else { return nil }
        let stamp = Stamp(lamport + 1, identifier)
        var trial = MergeState(MergeModel.schema, on: WholeState(state))
        // A program gets an error for what cannot be done, and an insertion never takes another object's place.
        guard trial.apply(MergeTransaction(stamp, wanted)).isEmpty, trial.aliases.isEmpty else { return nil }
        let transaction = MergeTransaction(stamp, exported(trial))
        guard !transaction.changes.isEmpty else { return nil }
        lamport += 1
        let resources = take(trial, Set(trial.objects.keys)).union(state.stated(by: transaction))
        append(transaction, resources)
        return transaction
    }

    /// The effect as an export has it: with the deletions and lost references of delete rules.
    private func exported(_ trial: MergeState) -> [MergeChange] {
        trial.objects.keys.sorted().compactMap { name in
            guard let after = trial.objects[name] else { return nil }
            let before = state.object(name)
            let attributes = MergeModel.entities.first { $0.name == after.entity }!.attributes.map(\.name)
            switch (before?.exists ?? false, after.exists) {
            case (false, false): return nil
            case (true, false): return MergeChange(.delete, name, after.entity)
            case (false, true):
                return MergeChange(
                    .insert, name, after.entity,
                    Dictionary(uniqueKeysWithValues: attributes.map { ($0, after[$0]) }))
            case (true, true):
                let changed = attributes.filter { after[$0] != before?[$0] }
                if changed.isEmpty { return nil }
                return MergeChange(
                    .update, name, after.entity, Dictionary(uniqueKeysWithValues: changed.map { ($0, after[$0]) }))
            }
        }
    }

    private func change(_ random: inout SeededRandom) -> MergeChange? {
        let existing = state.objects.filter { $0.value.exists }.keys.sorted()
        let deleted = state.objects.filter { !$0.value.exists && state.aliases[$0.key] == nil }.keys.sorted()
        switch Int.random(in: 0..<10, using: &random) {
        case 0...3:
            let entity = UInt16.random(in: 1...3, using: &random)
            let id = ObjectID(entityNumber: entity, number: nextNumber)!
            nextNumber += 1
            return MergeChange(
                .insert, GroupObject(identifier, id), MergeModel.entity(entity).name,
                values(entity, MergeModel.entity(entity).attributes.map(\.name), existing, &random))
        case 4...7:
            guard let object = existing.randomElement(using: &random), let row = state.object(object) else {
                return nil
            }
            let number = UInt16(MergeModel.entities.firstIndex { $0.name == row.entity }! + 1)
            let names = MergeModel.entity(number).attributes.map(\.name)
            let chosen = names.filter { _ in random.happens(0.4) }
            return MergeChange(.update, object, row.entity, values(number, chosen, existing, &random))
        case 8:
            guard let object = existing.randomElement(using: &random), let row = state.object(object) else {
                return nil
            }
            return MergeChange(.delete, object, row.entity)
        default:
            // Undo and revert insert an object again.
            guard let object = deleted.randomElement(using: &random), let row = state.object(object) else { return nil }
            return MergeChange(.insert, object, row.entity, row.values)
        }
    }

    private func values(
        _ entity: UInt16, _ names: [String], _ existing: [GroupObject], _ random: inout SeededRandom
    ) -> [String: MergeValue] {
        var values: [String: MergeValue] = [:]
        for name in names {
            let attribute = MergeModel.entity(entity).attributes.first { $0.name == name }!
            let targets = existing.filter { state.object($0)?.entity == attribute.target }
            switch attribute.type {
            case .string: values[name] = MergeValue(Value.string("text \(Int.random(in: 0..<4, using: &random))"))
            case .int:
                values[name] =
                    random.happens(0.3) ? .null : MergeValue(Value.int(Int64(random.next(below: 5 as UInt64))))
            case .object:
                let target = random.happens(0.8) ? targets.randomElement(using: &random) : nil
                values[name] = target.map { .object($0) } ?? .null
            case .objects: values[name] = .objects(Set(targets.filter { _ in random.happens(0.3) }))
            default: values[name] = .ordered(targets.filter { _ in random.happens(0.3) }.shuffled(using: &random))
            }
        }
        return values
    }

    // MARK: Transactions of others

    func receive(_ transaction: MergeTransaction) throws {
        let now = WholeState(state)
        let (outcome, isReplay) = try MergeReplay.merge(
            transaction, into: now, window,
            read: { (places) throws(StoreError) in places.map { entries[$0.number]! } },
            past: { (past) throws(StoreError) in WholeState(states[past.end - 1]!) }, MergeModel.schema)
        if isReplay { replays += 1 }
        lamport = max(lamport, transaction.stamp.lamport)
        let effects = take(outcome.state, outcome.names)
        append(transaction, outcome.resources.union(effects))
    }

    /// Adopts what was computed, and returns the resources of the difference. `names` are those that may differ.
    private func take(_ new: MergeState, _ names: Set<GroupObject>) -> MergeResources {
        var adopted = MergeState(MergeModel.schema)
        var aliases = state.aliases.filter { !names.contains($0.key) }
        for (name, object) in state.objects where !names.contains(name) { adopted.put(name, object) }
        for name in names {
            let main = new.name(name)
            if main != name { aliases[name] = main } else if let row = new.object(name) { adopted.put(name, row) }
        }
        aliases = aliases.mapValues { new.name($0) }
        for (alias, name) in aliases { adopted.addAlias(alias, of: name) }
        var resources = MergeResources()
        for name in names {
            let (before, after) = (state.object(name), adopted.object(name))
            resources.formUnion(
                adopted.resources(
                    of: name, from: before?.exists == true ? before : nil, to: after?.exists == true ? after : nil))
        }
        state = adopted
        return resources
    }

    private func append(_ transaction: MergeTransaction, _ resources: MergeResources) {
        all.append(transaction)
        known.insert(transaction.stamp)
        let number = UInt64(all.count)
        window.append(MergeWindow.Place(number: number, stamp: transaction.stamp, origin: number), resources)
        entries[number] = MergeEntry(transaction, changed: Set(resources.changed.compactMap(\.object)))
        states[number] = state
    }

    /// Forgets transactions that no later one can come before.
    func settle(below stable: Stamp) {
        window.removeFirst(MergeReplay.settled(window.places.map(\.stamp), below: stable))
    }

    /// The state of all its transactions, applied from the beginning in the group's order.
    var expected: MergeState {
        var state = MergeState(MergeModel.schema)
        for transaction in all.sorted(by: { $0.stamp < $1.stamp }) { state.apply(transaction) }
        return state
    }
}

extension MergeState {
    /// The objects as programs see them, in a form that does not depend on names: an object by the smallest of its
    /// names.
    func pictures() -> [GroupObject: [String: MergeValue]] {
        var smallest: [GroupObject: GroupObject] = [:]
        for alias in aliases.keys { smallest[name(alias)] = min(smallest[name(alias)] ?? name(alias), alias) }
        var pictures: [GroupObject: [String: MergeValue]] = [:]
        for (name, object) in objects where object.exists {
            var picture: [String: MergeValue] = [:]
            for attribute in object.values.keys {
                let value = shown(name, attribute).mapped { smallest[$0] ?? $0 }
                if value != .null, value != .objects([]), value != .ordered([]) { picture[attribute] = value }
            }
            pictures[smallest[name] ?? name] = picture
        }
        return pictures
    }
}
