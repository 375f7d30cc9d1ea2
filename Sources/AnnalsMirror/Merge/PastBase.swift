// A state of a store's past as a base for merging.
//
// A state of the past has no indexes: to look up a unique value or a reference, it reads all objects of the entity. But
// whatever differs from the present is in the objects that have changed since.
//
// Invariants:
// PB1  `changed` has all objects whose keys and references of interest have changed since: a transaction that gives or
//      takes away such a key or reference is connected with each that asks for it (MR1).
// PB2  No name leads to another object in the present, or the present is not used.

internal import Annals

/// For one thread.
final class PastBase: MergeBase {
    private let past: StoreBase
    /// Nil if names may lead to other objects there (PB2).
    private let now: StoreBase?
    private let changed: Set<GroupObject>
    private let schema: MergeSchema
    /// The keys and references of the changed objects, as they were. Made when they are first used.
    private lazy var tables = makeTables()

    private struct Tables {
        var holders: [MergeState.KeyValue: GroupObject] = [:]
        var referrers: [GroupObject: Set<MergeState.Referrer>] = [:]
    }

    init(
        _ snapshot: Snapshot, before now: StoreBase, _ place: MergePast, _ schema: MergeSchema
    ) throws(StoreError) {
        past = StoreBase(
            try ExchangeView(snapshot, namesOf: place.movesNames ? nil : now.view.snapshot), schema)
        self.now = place.movesNames ? nil : now
        (changed, self.schema) = (place.changed, schema)
    }

    /// Throws the first error that was met.
    func requireWhole() throws(StoreError) { try past.requireWhole() }

    func object(_ name: GroupObject) -> MergeObject? { past.object(name) }

    func name(ofAlias alias: GroupObject) -> GroupObject? { past.name(ofAlias: alias) }

    func holder(of key: MergeState.KeyValue) -> GroupObject? {
        guard let now else { return past.holder(of: key) }
        if let holder = tables.holders[key] { return holder }
        guard let holder = now.holder(of: key), !changed.contains(holder) else { return nil }
        return holder
    }

    func referrers(to name: GroupObject) -> Set<MergeState.Referrer> {
        guard let now else { return past.referrers(to: name) }
        let unchanged = now.referrers(to: name).filter { !changed.contains($0.object) }
        return unchanged.union(tables.referrers[name] ?? [])
    }

    private func makeTables() -> Tables {
        var tables = Tables()
        let state = MergeState(schema)
        for name in changed {
            // Other names of these objects are among them, or lead to the same content.
            guard let object = past.object(name), object.exists else { continue }
            for key in state.keys(of: object) { tables.holders[key] = name }
            for (attribute, value) in object.values {
                for target in value.references {
                    tables.referrers[target, default: []].insert(
                        MergeState.Referrer(object: name, attribute: attribute))
                }
            }
        }
        return tables
    }
}
