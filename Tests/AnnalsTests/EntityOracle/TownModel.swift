// What a store of the oracle's types holds, in memory: Swift dictionaries, and the rules in a few plain loops.

import Annals

struct TownModel {
    var owners: [Reference<Town.Owner>: Town.Owner] = [:]
    var places: [Reference<Town.Place>: Town.Place] = [:]
    var things: [Reference<Town.Thing>: Town.Thing] = [:]

    func has(_ object: ObjectID) -> Bool {
        owners[Reference(object)] != nil || places[Reference(object)] != nil || things[Reference(object)] != nil
    }

    func has<E: TownEntity>(_ reference: Reference<E>) -> Bool { self[keyPath: E.objects][reference] != nil }

    // MARK: Rules

    /// Calls `body` with what each object refers to.
    func forEachLink(_ body: (ObjectID, DeleteRule, [ObjectID]) -> Void) {
        func visit<E: TownEntity>(_ type: E.Type) {
            for (reference, value) in self[keyPath: E.objects] {
                for link in E.links { body(reference.id, link.rule, link.targets(value)) }
            }
        }
        visit(Town.Owner.self)
        visit(Town.Place.self)
        visit(Town.Thing.self)
    }

    /// Deletes objects as the rules say. False, and nothing changes, if one denies it.
    mutating func delete(_ wanted: Set<ObjectID>) -> Bool {
        if wanted.isEmpty { return true }
        var gone = wanted
        var isGrowing = true
        while isGrowing {
            isGrowing = false
            forEachLink { object, rule, targets in
                guard rule == .cascade, !gone.contains(object), targets.contains(where: gone.contains) else { return }
                gone.insert(object)
                isGrowing = true
            }
        }
        var isDenied = false
        forEachLink { object, rule, targets in
            if rule == .deny, !gone.contains(object), targets.contains(where: gone.contains) { isDenied = true }
        }
        if isDenied { return false }
        remove(gone)
        return true
    }

    /// What a reader sees if these objects are gone: without them, and nothing refers to them.
    mutating func remove(_ gone: Set<ObjectID>) {
        if gone.isEmpty { return }
        func cut<E: TownEntity>(_ type: E.Type) {
            for reference in Array(self[keyPath: E.objects].keys) {
                if gone.contains(reference.id) {
                    self[keyPath: E.objects][reference] = nil
                } else {
                    for link in E.links {
                        guard let value = self[keyPath: E.objects][reference],
                            link.targets(value).contains(where: gone.contains)
                        else { continue }
                        link.clean(&self[keyPath: E.objects][reference]!) { !gone.contains($0) }
                    }
                }
            }
        }
        cut(Town.Owner.self)
        cut(Town.Place.self)
        cut(Town.Thing.self)
    }

    /// What is referred to and is not there.
    var missing: Set<ObjectID> {
        var missing: Set<ObjectID> = []
        forEachLink { _, _, targets in missing.formUnion(targets.filter { !has($0) }) }
        return missing
    }

    /// Whether two objects have the same value under a unique key.
    var hasTwins: Bool {
        func twins<E: TownEntity>(_ type: E.Type) -> Bool {
            var known: Set<String> = []
            for value in self[keyPath: E.objects].values {
                for (place, key) in value.keys.enumerated() {
                    if let key, !known.insert("\(place) \(key)").inserted { return true }
                }
            }
            return false
        }
        return twins(Town.Owner.self) || twins(Town.Place.self) || twins(Town.Thing.self)
    }
}

/// A transaction over the model.
struct TownDraft {
    /// Without what will become of what refers to deleted objects.
    private(set) var raw: TownModel
    private(set) var gone: Set<ObjectID> = []
    /// How often each object was written.
    private(set) var writes: [ObjectID: Int] = [:]
    /// What the commit may be refused for.
    var refusals: Set<StoreError.Code> = []
    /// What was done, for people who look for a difference.
    private(set) var trace: [String] = []

    init(_ model: TownModel) { raw = model }

    /// What the transaction sees.
    var visible: TownModel {
        var model = raw
        model.remove(gone)
        if refersToNothing { model.remove(raw.missing) }
        return model
    }

    /// Whether anything was written that refers to what was gone before.
    private var refersToNothing = false

    private mutating func note<E: TownEntity>(_ value: E) {
        if E.links.contains(where: { $0.targets(value).contains { !raw.has($0) } }) { refersToNothing = true }
    }

    func read<E: TownEntity>(_ reference: Reference<E>) -> E? {
        guard !gone.contains(reference.id), var value = raw[keyPath: E.objects][reference] else { return nil }
        for link in E.links { link.clean(&value) { !gone.contains($0) && raw.has($0) } }
        return value
    }

    /// What is given to be changed: with references to what was deleted here.
    func toChange<E: TownEntity>(_ reference: Reference<E>) -> E? {
        guard !gone.contains(reference.id), var value = raw[keyPath: E.objects][reference] else { return nil }
        for link in E.links { link.clean(&value, raw.has) }
        return value
    }

    /// Writes all properties.
    mutating func write<E: TownEntity>(_ value: E, _ reference: Reference<E>) {
        if !value.isValid { refusals.insert(.validationFailed) }
        note(value)
        trace.append("write \(reference)")
        writes[reference.id, default: 0] += 1
        raw[keyPath: E.objects][reference] = value.saved
    }

    /// Writes what `change` changes. Returns whether anything differs.
    mutating func update<E: TownEntity>(_ reference: Reference<E>, _ change: (inout E) -> Void) -> Bool {
        guard let read = toChange(reference), let before = raw[keyPath: E.objects][reference] else { return false }
        var value = read
        change(&value)
        trace.append("update \(reference)")
        if !value.isValid { refusals.insert(.validationFailed) }
        for link in E.links {
            link.keep(&value, read, before)
        }
        note(value)
        writes[reference.id, default: 0] += 1
        value = value.saved
        raw[keyPath: E.objects][reference] = value
        return !value.isSame(as: before)
    }

    /// The objects that `upsert` may write to: several only if the commit will be refused. Empty if it inserts one.
    func twins<E: TownEntity>(of value: E) -> [Reference<E>] {
        let saved = value.saved
        for (place, key) in saved.keys.enumerated() {
            guard let key else { continue }
            let twins = raw[keyPath: E.objects].filter { !gone.contains($0.key.id) && $0.value.keys[place] == key }
            if !twins.isEmpty { return twins.keys.sorted() }
        }
        return []
    }

    mutating func delete(_ object: ObjectID) {
        trace.append("delete \(object)")
        gone.insert(object)
        writes[object, default: 0] += 1
    }

    /// What the store holds after the commit; nil if it is refused, and why it may be.
    func committed() -> (model: TownModel?, refusals: Set<StoreError.Code>) {
        var (model, refusals) = (raw, refusals)
        if !model.delete(gone) {
            refusals.insert(.deleteDenied)
            model.remove(gone)
        }
        // If what refers to it is gone itself, nothing is missing.
        if refersToNothing, !model.missing.isEmpty { refusals.insert(.referenceMissing) }
        if model.hasTwins { refusals.insert(.uniqueViolation) }
        return (refusals.isEmpty ? model : nil, refusals)
    }
}
