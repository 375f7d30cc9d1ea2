// The changes that give a store the outcome of a merge.
//
// Invariants:
// MD1  All names of one object of the outcome lead to one object of the store, and names of two objects to two.
// MD2  No name of an object of the outcome that does not exist leads to an object of the store that does, and the names
//      of such an object stay together.
// MD3  An object of the store stays the same object as long as one of its names does: local IDs are kept.

internal import Annals
internal import FoundationEssentials

struct MergeDifference {
    private(set) var changes: [ExportedChange] = []
    private(set) var joined: [(name: ExportedObject, object: ExportedObject)] = []
    private(set) var separated: [ExportedObject] = []
    private(set) var removed: [ObjectID] = []
    private(set) var gone: [(main: ExportedObject, names: [ExportedObject])] = []
    /// By main name, the objects that may differ: as they are here, and as they are in the outcome.
    private var pairs: [(main: GroupObject, before: MergeObject?, after: MergeObject?)] = []

    private let outcome: MergeOutcome
    private let now: StoreBase
    private let schema: MergeSchema
    /// The names of the objects that may differ. All others are as they are here.
    private let names: Set<GroupObject>
    /// Names of objects here that go, although the objects that they lead to then exist.
    private var moved: Set<GroupObject> = []

    init(_ outcome: MergeOutcome, from now: StoreBase, _ schema: MergeSchema) throws(StoreError) {
        (self.outcome, self.now, self.schema) = (outcome, now, schema)
        names = outcome.names
        var classes = try classes()
        var kept: [GroupObject: GroupObject] = [:]
        for (main, names) in classes { kept[main] = try place(main, names) }
        // Objects that refer to one that goes get another reference.
        for object in removed {
            for (referrer, _) in try now.view.referring(to: object) {
                let name = try now.name(referrer)
                classes[outcome.state.name(name), default: []].insert(name)
            }
        }
        for (main, names) in classes.sorted(by: { $0.key < $1.key }) {
            change(kept[main] ?? main, main, names)
        }
        try now.requireWhole()
    }

    /// Whether the store changes what the transaction itself changes, and nothing else, and has the same names for the
    /// objects: then its history has the transaction.
    func isExactly(_ transaction: MergeTransaction) -> Bool {
        guard joined.isEmpty, separated.isEmpty, removed.isEmpty, gone.isEmpty,
            changes.count == transaction.changes.count,
            transaction.names.allSatisfy({ now.name(ofAlias: $0) == nil })
        else { return false }
        var theirs: [GroupObject: MergeChange] = [:]
        for change in transaction.changes { theirs[change.object] = change }
        // All names have a store.
        return changes.allSatisfy { change in
            let change = MergeChange(change, from: transaction.stamp.peer)
            return theirs[change.object] == change
        }
    }

    /// The resources that connect the changes with other transactions.
    var resources: MergeResources {
        pairs.reduce(into: MergeResources()) { resources, pair in
            resources.formUnion(outcome.state.resources(of: pair.main, from: pair.before, to: pair.after))
        }
    }

    /// The names of each object of the outcome, by its main one.
    private func classes() throws(StoreError) -> [GroupObject: Set<GroupObject>] {
        var classes: [GroupObject: Set<GroupObject>] = [:]
        for name in names {
            classes[outcome.state.name(name), default: []].insert(name)
            // Other names of the same object here may have to follow it.
            let others: [ExportedObject]
            if let object = now.local(name) {
                others = try now.view.names(of: object)
            } else {
                others = try now.view.namesOfGone(ExportedObject(name))
            }
            for other in others {
                let other = GroupObject(other, from: name.store)
                classes[outcome.state.name(other), default: []].insert(other)
            }
        }
        return classes
    }

    /// Decides which object here becomes an object of the outcome. Returns the name of that object here.
    private mutating func place(_ main: GroupObject, _ names: Set<GroupObject>) throws(StoreError) -> GroupObject {
        // The objects here that have one of the names as their own.
        var objects: [(object: ObjectID, name: GroupObject)] = []
        for name in names.union([main]).sorted() {
            guard let object = now.local(name), try now.name(object) == name else { continue }
            objects.append((object, name))
        }
        let existing = objects.filter { now.object($0.name)?.exists == true }
        // The earliest object is the one that unchanged objects refer to.
        let kept =
            existing.first { $0.name == main } ?? existing.first ?? objects.first { $0.name == main } ?? objects.first
        for (object, name) in existing where object != kept?.object {
            removed.append(object)
            moved.insert(name)
        }
        guard kept != nil || outcome.state.object(main)?.exists == true else {
            try forget(main, names.union([main]))
            return main
        }
        if kept == nil, now.local(main) != nil { separated.append(ExportedObject(main)) }
        let name = kept?.name ?? main
        for other in names.union([main]).sorted() where other != name {
            if let kept, now.local(other) == kept.object { continue }
            joined.append((ExportedObject(other), ExportedObject(name)))
        }
        return name
    }

    /// MD2: an object of the outcome that does not exist, and that no object here is.
    private mutating func forget(_ main: GroupObject, _ names: Set<GroupObject>) throws(StoreError) {
        let leadsElsewhere = names.contains { now.local($0) != nil }
        let isTogether = names.allSatisfy { $0 == main || now.name(ofAlias: $0) == main }
        guard leadsElsewhere || !isTogether else { return }
        gone.append((ExportedObject(main), names.sorted().map(ExportedObject.init)))
    }

    /// Adds the change of an object, which has this name here.
    private mutating func change(_ name: GroupObject, _ main: GroupObject, _ names: Set<GroupObject>) {
        let isSeparated = separated.contains(ExportedObject(name))
        let before = isSeparated ? nil : now.object(name)
        let after = outcome.state.object(main)
        pairs.append((main, before?.exists == true ? before : nil, after?.exists == true ? after : nil))
        switch (before?.exists ?? false, after?.exists ?? false) {
        case (false, false): return
        case (true, false):
            changes.append(change(.delete, name, before?.entity ?? "", [], after, before))
        case (false, true):
            guard let after else { return }
            changes.append(change(.insert, name, after.entity, schema.attributes(of: after.entity), after, nil))
        case (true, true):
            guard let before, let after else { return }
            let written = schema.attributes(of: after.entity).filter { attribute in
                before[attribute].references.contains(where: moved.contains)
                    || shown(after[attribute]) != here(before[attribute])
            }
            if !written.isEmpty { changes.append(change(.update, name, after.entity, written, after, before)) }
        }
    }

    /// A value of the present state as it reads, with the names of the outcome.
    private func here(_ value: MergeValue) -> MergeValue {
        value.mapped { now.object($0)?.exists == true ? outcome.state.name($0) : nil }
    }

    /// A value of the outcome as it reads.
    private func shown(_ value: MergeValue) -> MergeValue {
        value.mapped { name in
            let main = outcome.state.name(name)
            let object = names.contains(main) ? outcome.state.object(main) : now.object(main)
            return object?.exists == true ? main : nil
        }
    }

    /// Whether names lead to other objects than before.
    var movesNames: Bool { !joined.isEmpty || !separated.isEmpty || !gone.isEmpty }

    private func change(
        _ kind: HistoryChange.Kind, _ name: GroupObject, _ entity: String, _ attributes: [String],
        _ after: MergeObject?, _ before: MergeObject?
    ) -> ExportedChange {
        ExportedChange(
            kind: kind, object: ExportedObject(name), entity: entity, attributes: attributes,
            values: attributes.map { attribute in
                ExportedValue(shown(after?[attribute] ?? .null), schema.attribute(attribute, of: entity)?.type)
            },
            before: kind == .update
                ? attributes.map { attribute in
                    ExportedValue(before?[attribute] ?? .null, schema.attribute(attribute, of: entity)?.type)
                } : nil)
    }
}

extension ExportedValue {
    /// `type` is that of the attribute: a list without objects is no null.
    init(_ value: MergeValue, _ type: AttributeType?) {
        switch value {
        case .plain(let exported): self = exported
        case .object(let name): self.init(.object(ExportedObject(name)))
        case .ordered(let names): self.init(.orderedObjects(names.map(ExportedObject.init)))
        case .objects(let names): self.init(.objects(names.sorted().map(ExportedObject.init)))
        case .null: self.init(.plain(.absent))
        }
    }
}
