// The effect of one transaction on a state, worked out before anything changes.
//
// A transaction was valid in the store that wrote it. Merged, parts of it may be impossible. The plan is made without
// them again, until all of it is possible: each round leaves out more, so the rounds end.
//
// Invariants:
// MP1  A written row has no key that another object keeps, and lacks no required attribute.
// MP2  The plan uses nothing but the transaction and the state, and the order of the transaction's changes.

internal import Annals

struct MergePlan {
    /// The impossible parts that earlier rounds have found.
    struct Limits {
        /// Changes, by their index.
        var leftOut: [Int: MergeLoss.Reason] = [:]
        /// Attributes of changes, by the change's index.
        var dropped: [Int: [String: MergeLoss.Reason]] = [:]
        /// Objects that must not be deleted.
        var kept: Set<GroupObject> = []

        /// Returns false if that leaves out nothing more.
        mutating func add(_ refusal: Refusal) -> Bool {
            switch refusal {
            case .change(let index, let reason): return leftOut.updateValue(reason, forKey: index) == nil
            case .attributes(let index, let names, let reason):
                var isNew = false
                for name in names where dropped[index]?[name] == nil {
                    dropped[index, default: [:]][name] = reason
                    isNew = true
                }
                return isNew
            case .deletions(let objects):
                defer { kept.formUnion(objects) }
                return !kept.isSuperset(of: objects)
            }
        }

        /// For a transaction of which nothing is possible.
        mutating func leaveOutAll(_ count: Int) { for index in 0..<count { leftOut[index] = .keyTaken } }
    }

    enum Refusal {
        case change(Int, MergeLoss.Reason)
        case attributes(Int, [String], MergeLoss.Reason)
        case deletions(Set<GroupObject>)
    }

    private let transaction: MergeTransaction
    private let limits: Limits
    private(set) var losses: [MergeLoss] = []
    /// The new content of each written object.
    private(set) var rows: [GroupObject: MergeObject] = [:]
    /// The written objects in the order in which they were planned.
    private(set) var written: [GroupObject] = []
    private(set) var newAliases: [(alias: GroupObject, object: GroupObject)] = []
    private var aliasOf: [GroupObject: GroupObject] = [:]
    /// The change that has written each row.
    private var writers: [GroupObject: Int] = [:]
    /// The objects that the transaction inserts, or inserts again.
    private var arriving: Set<GroupObject> = []
    /// Objects that were looked at, beside those that the transaction names.
    private(set) var read: Set<GroupObject> = []
    /// Objects that go with the deletions, if these are possible.
    private(set) var deleting: Set<GroupObject> = []
    private var deletions: Set<GroupObject> = []

    init(_ transaction: MergeTransaction, _ limits: Limits) { (self.transaction, self.limits) = (transaction, limits) }

    /// Works out everything. Returns the first impossible part.
    mutating func work(on state: MergeState) -> Refusal? {
        noteDeletions(state)
        if let refusal = placeInsertions(state) { return refusal }
        for (index, change) in transaction.changes.enumerated() where limits.leftOut[index] == nil {
            switch change.kind {
            case .insert: if let refusal = insert(change, index, state) { return refusal }
            case .update: if let refusal = update(change, index, state) { return refusal }
            case .delete: break
            }
        }
        if let refusal = takenKey(state) { return refusal }
        if let refusal = delete(state) { return refusal }
        noteLosses()
        return nil
    }

    private func name(_ object: GroupObject, _ state: MergeState) -> GroupObject {
        let known = state.name(object)
        return aliasOf[known] ?? known
    }

    private func exists(_ object: GroupObject, _ state: MergeState) -> Bool {
        arriving.contains(object) || state.exists(object)
    }

    /// An object as the transaction leaves it.
    private func row(_ name: GroupObject, _ state: MergeState) -> MergeObject? {
        if let row = rows[name] { return row }
        return state.object(name).flatMap { $0.exists ? $0 : nil }
    }

    private mutating func write(_ row: MergeObject, _ name: GroupObject, by index: Int? = nil) {
        if rows.updateValue(row, forKey: name) == nil { written.append(name) }
        if let index { writers[name] = index }
    }

    // MARK: Insertions

    private mutating func noteDeletions(_ state: MergeState) {
        for (index, change) in transaction.changes.enumerated()
        where change.kind == .delete && limits.leftOut[index] == nil {
            let name = state.name(change.object)
            if state.exists(name), !limits.kept.contains(name) { deletions.insert(name) }
        }
    }

    /// Decides for each insertion whether it is a new object, or a further name of one that has its unique values.
    private mutating func placeInsertions(_ state: MergeState) -> Refusal? {
        var claimed: Set<MergeState.KeyValue> = []
        let freed = freedKeys(state)
        for (index, change) in transaction.changes.enumerated()
        where change.kind == .insert && limits.leftOut[index] == nil {
            let name = state.name(change.object)
            guard !state.exists(name) else {
                arriving.insert(name)
                continue
            }
            let keys = state.keys(of: MergeObject(change.entity, resolved(change, state)))
            if !claimed.isDisjoint(with: keys) { return .change(index, .keyTaken) }
            let holder = keys.lazy.compactMap { key in
                freed.contains(key) ? nil : state.holder(of: key)
            }.first
            if let holder {
                read.insert(holder)
                guard !isTarget(holder, state) else { return .change(index, .keyTaken) }
                aliasOf[name] = holder
                newAliases.append((name, holder))
                arriving.insert(holder)
            } else {
                arriving.insert(name)
                claimed.formUnion(keys)
            }
        }
        return nil
    }

    private func resolved(_ change: MergeChange, _ state: MergeState) -> [String: MergeValue] {
        change.values.mapValues { $0.mapped { name($0, state) } }
    }

    /// The keys that objects lose by this transaction.
    private func freedKeys(_ state: MergeState) -> Set<MergeState.KeyValue> {
        var freed: Set<MergeState.KeyValue> = []
        for (index, change) in transaction.changes.enumerated() where limits.leftOut[index] == nil {
            let name = state.name(change.object)
            guard let object = state.object(name), object.exists else { continue }
            switch change.kind {
            case .insert: continue
            case .delete: if deletions.contains(name) { freed.formUnion(state.keys(of: object)) }
            case .update:
                let written = change.values.keys.filter { limits.dropped[index]?[$0] == nil }
                freed.formUnion(
                    state.keys(of: object).filter { key in key.key.attributes.contains(where: written.contains) })
            }
        }
        return freed
    }

    /// Whether a change of the transaction is of this object.
    private func isTarget(_ object: GroupObject, _ state: MergeState) -> Bool {
        aliasOf.values.contains(object)
            || transaction.changes.indices.contains { index in
                limits.leftOut[index] == nil && state.name(transaction.changes[index].object) == object
            }
    }

    private mutating func insert(_ change: MergeChange, _ index: Int, _ state: MergeState) -> Refusal? {
        let name = name(change.object, state)
        // Two names of one object: the first change has it.
        if rows[name] != nil { return .change(index, .keyTaken) }
        if let present = row(name, state) { return overwrite(present, name, change, index, state) }
        var row = MergeObject(state.object(name)?.entity ?? change.entity, [:])
        guard let entity = state.schema.entities[row.entity] else { return .change(index, .referenceIsGone) }
        for (attribute, facts) in entity.attributes {
            row[attribute] = change.values[attribute].map { existing($0, state) } ?? facts.defaultValue
            if row[attribute] == .null, !facts.isOptional { return .change(index, .referenceIsGone) }
        }
        write(row, name, by: index)
        return nil
    }

    // MARK: Updates

    private mutating func update(_ change: MergeChange, _ index: Int, _ state: MergeState) -> Refusal? {
        let name = name(change.object, state)
        guard let present = row(name, state) else { return .change(index, .objectIsGone) }
        // Two names of one object: the first change has it.
        if rows[name] != nil { return .change(index, .keyTaken) }
        return overwrite(present, name, change, index, state)
    }

    private mutating func overwrite(
        _ present: MergeObject, _ name: GroupObject, _ change: MergeChange, _ index: Int, _ state: MergeState
    ) -> Refusal? {
        var row = present
        for (attribute, value) in change.values.sorted(by: { $0.key < $1.key })
        where limits.dropped[index]?[attribute] == nil {
            guard let facts = state.schema.attribute(attribute, of: present.entity) else { continue }
            let left = existing(value, state)
            let isCut = left != value.mapped { self.name($0, state) }
            let mustRefer = !facts.isOptional || isCut && (facts.rule == .cascade || facts.rule == .deny)
            if left == .null, mustRefer { return .attributes(index, [attribute], .referenceIsGone) }
            row[attribute] = left
        }
        write(row, name, by: index)
        return nil
    }

    /// The value without references to objects that do not exist.
    private func existing(_ value: MergeValue, _ state: MergeState) -> MergeValue {
        value.mapped { object in
            let name = name(object, state)
            return exists(name, state) ? name : nil
        }
    }

    // MARK: Keys

    /// MP1: the first unique key that two objects would have.
    private mutating func takenKey(_ state: MergeState) -> Refusal? {
        var taken: [MergeState.KeyValue: GroupObject] = [:]
        for name in written {
            guard let row = rows[name] else { continue }
            for key in state.keys(of: row) {
                let other =
                    taken.updateValue(name, forKey: key)
                    ?? state.holder(of: key).flatMap { holder in
                        holder == name || rows[holder] != nil || deletions.contains(holder) ? nil : holder
                    }
                guard let other else { continue }
                read.insert(other)
                if let refusal = giveUp(key, name, state) ?? giveUp(key, other, state) { return refusal }
                preconditionFailure("MS1: two objects had the same unique values before the transaction.")
            }
        }
        return nil
    }

    /// Leaves out what gives an object a key; nil if the transaction does not give it.
    private func giveUp(_ key: MergeState.KeyValue, _ name: GroupObject, _ state: MergeState) -> Refusal? {
        guard let row = rows[name], let index = writers[name] else { return nil }
        guard let before = state.object(name), before.exists else { return .change(index, .keyTaken) }
        let given = key.key.attributes.filter { row[$0] != before[$0] }
        return given.isEmpty ? nil : .attributes(index, given, .keyTaken)
    }

    // MARK: Deletions

    /// Carries out the deletions with the delete rules, on the objects as the transaction leaves them.
    private mutating func delete(_ state: MergeState) -> Refusal? {
        if deletions.isEmpty { return nil }
        let references = ownReferences
        var all = deletions
        // By object: the deleted objects with which it is deleted.
        var causes: [GroupObject: Set<GroupObject>] = [:]
        var nullified: [GroupObject: [String: Set<GroupObject>]] = [:]
        var denied: [(object: GroupObject, by: GroupObject)] = []
        var open = Array(deletions)
        while let object = open.popLast() {
            deleting.insert(object)
            for referrer in referring(to: object, references, state) {
                read.insert(referrer.object)
                guard let row = row(referrer.object, state),
                    let facts = state.schema.attribute(referrer.attribute, of: row.entity)
                else { continue }
                switch facts.rule {
                case .cascade:
                    causes[referrer.object, default: []].insert(object)
                    if all.insert(referrer.object).inserted { open.append(referrer.object) }
                case .deny: denied.append((object, referrer.object))
                case .nullify: nullified[referrer.object, default: [:]][referrer.attribute, default: []].insert(object)
                case .noAction:
                    // The reference reads as null. It goes, so that a store can get the row after the deletion.
                    guard facts.isOptional || facts.type != .object || rows[referrer.object] != nil else { continue }
                    nullified[referrer.object, default: [:]][referrer.attribute, default: []].insert(object)
                }
            }
        }
        var refused: Set<GroupObject> = []
        for denial in denied where !all.contains(denial.by) { refused.insert(denial.object) }
        for (referrer, attributes) in nullified where !all.contains(referrer) {
            guard var row = row(referrer, state) else { continue }
            for (attribute, gone) in attributes {
                row[attribute] = row[attribute].mapped { gone.contains($0) ? nil : $0 }
                guard row[attribute] == .null, state.schema.attribute(attribute, of: row.entity)?.isOptional == false
                else { continue }
                refused.formUnion(gone)
            }
            write(row, referrer)
        }
        refused = deletions.intersection(withCauses(refused, causes))
        if !refused.isEmpty { return .deletions(refused) }
        for name in all {
            guard var row = row(name, state) else { continue }
            row.exists = false
            write(row, name)
        }
        return nil
    }

    /// The objects, and all those with which they are deleted.
    private func withCauses(
        _ objects: Set<GroupObject>, _ causes: [GroupObject: Set<GroupObject>]
    ) -> Set<GroupObject> {
        var found = objects
        var open = Array(objects)
        while let object = open.popLast() {
            for cause in causes[object] ?? [] where found.insert(cause).inserted { open.append(cause) }
        }
        return found
    }

    /// The references in the rows that the transaction has written, by the object that they lead to.
    private var ownReferences: [GroupObject: Set<MergeState.Referrer>] {
        var references: [GroupObject: Set<MergeState.Referrer>] = [:]
        for (name, row) in rows {
            for (attribute, value) in row.values {
                for target in value.references {
                    references[target, default: []].insert(MergeState.Referrer(object: name, attribute: attribute))
                }
            }
        }
        return references
    }

    private func referring(
        to object: GroupObject, _ own: [GroupObject: Set<MergeState.Referrer>], _ state: MergeState
    ) -> Set<MergeState.Referrer> {
        state.referring(to: object).filter { rows[$0.object] == nil }.union(own[object] ?? [])
    }

    // MARK: Losses

    private mutating func noteLosses() {
        for (index, change) in transaction.changes.enumerated() {
            if let reason = limits.leftOut[index] {
                losses.append(MergeLoss(object: change.object, reason: reason, attributes: []))
            }
            for (attribute, reason) in (limits.dropped[index] ?? [:]).sorted(by: { $0.key < $1.key }) {
                losses.append(MergeLoss(object: change.object, reason: reason, attributes: [attribute]))
            }
        }
        for object in limits.kept.sorted() {
            losses.append(MergeLoss(object: object, reason: .stillReferred, attributes: []))
        }
    }
}
