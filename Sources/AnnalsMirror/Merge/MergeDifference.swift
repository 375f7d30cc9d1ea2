// What a store has to change so that it has the outcome of a merge.
//
// Invariants:
// MD1  All names of one object of the outcome lead to one object of the store, and names of two objects to two.
// MD2  An object of the store stays the same object as long as one of its names does: local IDs are kept.

internal import Annals
internal import FoundationEssentials

struct MergeDifference {
    private(set) var changes: [ExportedChange] = []
    private(set) var joined: [(name: ExportedObject, object: ExportedObject)] = []
    private(set) var separated: [ExportedObject] = []
    private(set) var removed: [ObjectID] = []
    /// What connects the changes with other transactions.
    private(set) var resources: Set<MergeResource> = []

    private let outcome: MergeOutcome
    private let now: StoreBase
    private let schema: MergeSchema

    init(_ outcome: MergeOutcome, from now: StoreBase, _ schema: MergeSchema) throws(StoreError) {
        (self.outcome, self.now, self.schema) = (outcome, now, schema)
        for (main, names) in try classes().sorted(by: { $0.key < $1.key }) { try add(main, names) }
        try now.requireWhole()
    }

    /// The names of each object of the outcome, by its main one.
    private func classes() throws(StoreError) -> [GroupObject: Set<GroupObject>] {
        var classes: [GroupObject: Set<GroupObject>] = [:]
        for name in outcome.names {
            classes[outcome.state.name(name), default: []].insert(name)
            // Other names of the same object here may have to follow it.
            guard let object = now.local(name) else { continue }
            for other in try now.view.names(of: object) {
                let other = GroupObject(other, from: name.store)
                classes[outcome.state.name(other), default: []].insert(other)
            }
        }
        return classes
    }

    private mutating func add(_ main: GroupObject, _ names: Set<GroupObject>) throws(StoreError) {
        let after = outcome.state.object(main)
        // The objects here that have one of the names as their own.
        var objects: [(object: ObjectID, name: GroupObject)] = []
        for name in names.union([main]).sorted() {
            guard let object = now.local(name), try now.name(object) == name else { continue }
            objects.append((object, name))
        }
        let existing = objects.filter { now.object($0.name)?.exists == true }
        // The earliest object is the one that unchanged objects refer to.
        let kept = existing.first { $0.name == main } ?? existing.first ?? objects.first { $0.name == main } ?? objects.first
        let name = kept?.name ?? main
        for (object, _) in existing where object != kept?.object { removed.append(object) }
        guard kept != nil || after?.exists == true else { return }
        if kept == nil, now.local(main) != nil { separated.append(ExportedObject(main)) }
        for other in names.union([main]).sorted() where other != name {
            if let kept, now.local(other) == kept.object { continue }
            joined.append((ExportedObject(other), ExportedObject(name)))
        }
        let before = kept.flatMap { now.object($0.name) }
        resources.formUnion(names.map { .object($0) })
        resources.formUnion(
            outcome.state.resources(
                of: main, from: before?.exists == true ? before : nil, to: after?.exists == true ? after : nil))
        change(name, from: before, to: after)
    }

    private mutating func change(_ name: GroupObject, from before: MergeObject?, to after: MergeObject?) {
        switch (before?.exists ?? false, after?.exists ?? false) {
        case (false, false): return
        case (true, false):
            changes.append(change(.delete, name, before?.entity ?? "", [], after, before))
        case (false, true):
            guard let after else { return }
            changes.append(change(.insert, name, after.entity, schema.attributes(of: after.entity), after, nil))
        case (true, true):
            guard let before, let after else { return }
            let written = schema.attributes(of: after.entity).filter { after[$0] != here(before[$0]) }
            if !written.isEmpty { changes.append(change(.update, name, after.entity, written, after, before)) }
        }
    }

    /// A value of the present state with the names of the outcome.
    private func here(_ value: MergeValue) -> MergeValue { value.mapped { outcome.state.name($0) } }

    private func change(
        _ kind: HistoryChange.Kind, _ name: GroupObject, _ entity: String, _ attributes: [String],
        _ after: MergeObject?, _ before: MergeObject?
    ) -> ExportedChange {
        ExportedChange(
            kind: kind, object: ExportedObject(name), entity: entity, attributes: attributes,
            values: attributes.map { attribute in
                ExportedValue(after?[attribute] ?? .null, schema.attribute(attribute, of: entity)?.type)
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
