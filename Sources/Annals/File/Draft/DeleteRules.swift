// Computes, after a transaction's body, the effect of its deletions on the objects that refer to the deleted ones.
//
// Invariants:
// DR1  An object is deleted if the body deleted it, or if it refers to a deleted one under `cascade`.
// DR2  An object that is not deleted loses its references to deleted ones under `nullify`, all in one change. Rows that
//      the transaction itself has written lose them under `noAction` too: they refer to no deleted object.
// DR3  Nothing changes if an object that is not deleted refers to a deleted one under `deny`.

/// The consequences of a transaction's deletions, computed with the transaction's own changes included.
struct DeleteRules {
    /// The objects deleted by the rules, in the order in which they were found.
    private(set) var deleted: [ObjectID] = []
    /// By object: the attributes that lose references, and these references.
    private(set) var nullified: [ObjectID: [UInt16: Set<ObjectID>]] = [:]
    private var all: Set<ObjectID>
    private var denied: [(object: ObjectID, by: ObjectID, index: Int)] = []
    /// By deleted object: the given object with which it is deleted.
    private var roots: [ObjectID: ObjectID] = [:]
    /// The references in the transaction's changed rows.
    private let own: OwnReferences
    private let shape: StoreShape
    private let base: View

    /// - Parameter objects: The objects that the body deletes.
    init(_ objects: [ObjectID], _ draft: Draft, _ shape: StoreShape) throws(StoreError) {
        self.shape = shape
        base = draft.base
        all = Set(objects)
        own = try OwnReferences(draft, shape)
        var open = objects
        while let object = open.popLast() {
            for number in shape.referring(to: object.entityNumber) {
                let rule = shape.indexes[number].reference?.deleteRule ?? .noAction
                // Not a method: a method would copy everything that the closure changes, at each change.
                let referrers = Referrers(base, own, draft, shape, number)
                try referrers.forEach(of: object, isOwn: rule == .noAction) { (referrer) in
                    if all.contains(referrer) || draft.isUnwritten(referrer) { return }
                    switch rule {
                    case .cascade:
                        all.insert(referrer)
                        roots[referrer] = roots[object] ?? object
                        deleted.append(referrer)
                        open.append(referrer)
                    case .nullify, .noAction:
                        let attribute = shape.indexes[number].id.attributes[0]
                        nullified[referrer, default: [:]][attribute, default: []].insert(object)
                    case .deny: denied.append((object, referrer, number))
                    }
                }
            }
        }
        for object in deleted { nullified[object] = nil }
        assert(all.count == Set(objects).count + deleted.count, "DR1: an object is deleted twice.")
        assert(deleted.allSatisfy { nullified[$0] == nil }, "DR2: a deleted object loses references.")
    }

    /// Returns those of the objects that cannot be deleted, each with an object that must keep its reference: the rule
    /// denies the deletion, or the attribute is required. Includes objects that can be deleted only together with such
    /// an object.
    static func undeletable(
        _ objects: [ObjectID], _ draft: Draft, _ shape: StoreShape
    ) throws(StoreError) -> [ObjectID: ObjectID] {
        var left = objects
        var found: [ObjectID: ObjectID] = [:]
        while !left.isEmpty {
            let rules = try DeleteRules(left, draft, shape)
            let refused = rules.refused
            if refused.isEmpty { break }
            found.merge(refused) { first, _ in first }
            left.removeAll { refused[$0] != nil }
        }
        return found
    }

    /// The given objects that cannot be deleted, each with one that must keep its reference.
    private var refused: [ObjectID: ObjectID] {
        var refused: [ObjectID: ObjectID] = [:]
        for (object, referrer, _) in denied where !all.contains(referrer) {
            refused[roots[object] ?? object] = referrer
        }
        for (referrer, losses) in nullified {
            guard let layout = shape.newestLayout(referrer.entityNumber) else { continue }
            for (attribute, lost) in losses {
                guard let position = layout.position(ofAttribute: attribute), !layout.slots[position].isOptional,
                    !layout.slots[position].type.isObjectList
                else { continue }
                for object in lost { refused[roots[object] ?? object] = referrer }
            }
        }
        return refused
    }

    /// The reasons why objects cannot be deleted: an error for each object and each attribute that denies it.
    var denials: [StoreError] {
        var order: [Pair] = []
        var referrers: [Pair: [ObjectID]] = [:]
        for (object, referrer, index) in denied where !all.contains(referrer) {
            let pair = Pair(object: object, index: index)
            if referrers[pair] == nil { order.append(pair) }
            referrers[pair, default: []].append(referrer)
        }
        return order.map { pair in
            shape.indexes[pair.index].denied(pair.object, Array(referrers[pair, default: []].prefix(100)))
        }
    }

    private struct Pair: Hashable {
        let object: ObjectID
        let index: Int
    }
}

/// The objects that refer to an object through an index's attribute.
private struct Referrers {
    private let base: View
    private let own: OwnReferences
    private let draft: Draft
    private let shape: StoreShape
    private let number: Int

    init(_ base: View, _ own: OwnReferences, _ draft: Draft, _ shape: StoreShape, _ number: Int) {
        (self.base, self.own, self.draft, self.shape, self.number) = (base, own, draft, shape, number)
    }

    func forEach(of object: ObjectID, isOwn: Bool, _ body: (ObjectID) -> Void) throws(StoreError) {
        if !isOwn {
            try base.forEachReferring(to: object, shape.indexes[number].id) { (referrer) in
                if !draft.isChangedHere(referrer) { body(referrer) }
                return true
            }
        }
        for referrer in own.referring(to: object, number) { body(referrer) }
    }
}

/// The references in the objects that a transaction has inserted or updated.
private struct OwnReferences {
    private struct Key: Hashable {
        let target: ObjectID
        let index: Int
    }

    private var referrers: [Key: [ObjectID]] = [:]

    init(_ draft: Draft, _ shape: StoreShape) throws(StoreError) {
        var found: [Key: [ObjectID]] = [:]
        try draft.frames.forEachEntry(withRows: true) { (change, bytes) throws(StoreError) in
            let entity = change.object.entityNumber
            guard change.kind != .delete, let bytes, let layout = shape.newestLayout(entity) else { return true }
            for number in shape.indexes(of: entity) where shape.indexes[number].reference != nil {
                let row = try RowImage(bytes, layout: layout)
                for target in try shape.indexes[number].elements(of: row, large: IndexShape.noLargeKeys) {
                    found[Key(target: target, index: number), default: []].append(change.object)
                }
            }
            return true
        }
        referrers = found
    }

    func referring(to target: ObjectID, _ index: Int) -> [ObjectID] {
        referrers[Key(target: target, index: index)] ?? []
    }
}

extension Draft {
    /// Carries out the rules of references to deleted objects. Called once, after the body. Throws `deleteDenied`, and
    /// `requiredMissing` if a required reference would become null.
    func applyDeleteRules() throws(StoreError) {
        if !carried.isEmpty { try settleCarried() }
        guard !deleted.isEmpty, checksReferences, !areRulesApplied else { return }
        areRulesApplied = true
        let rules = try DeleteRules(deleted, self, shape)
        // Before anything changes: DR3.
        for denial in rules.denials { try refuse(denial) }
        if rules.deleted.isEmpty, rules.nullified.isEmpty { return }
        for object in rules.deleted { try delete(object) }
        // In a fixed order, the same in every process.
        for object in rules.nullified.keys.inOrder() {
            let losses = rules.nullified[object, default: [:]]
            let layout = try layout(object.entityNumber)
            var values: [(position: Int, value: StoredValue)] = []
            _ = try withRow(object) { (row) throws(StoreError) in
                values = try self.values(of: row, object, without: losses, layout)
            }
            if !values.isEmpty { try update(object, values) }
        }
        losses = rules.nullified
    }

    /// The values of the attributes that lose references, without these. Throws `requiredMissing`.
    private func values(
        of row: RowImage, _ object: ObjectID, without losses: [UInt16: Set<ObjectID>], _ layout: RowLayout
    ) throws(StoreError) -> [(position: Int, value: StoredValue)] {
        var values: [(position: Int, value: StoredValue)] = []
        for (attribute, lost) in losses {
            guard let position = layout.position(ofAttribute: attribute),
                let place = row.layout.position(ofAttribute: attribute)
            else { continue }
            switch try row.value(at: place) {
            case .object:
                if layout.slots[position].isOptional {
                    values.append((position, .absent))
                } else {
                    try refuse(Self.required(position, layout, of: object))
                }
            case .orderedObjects(let objects):
                values.append((position, .orderedObjects(objects.filter { !lost.contains($0) })))
            case .objects(let objects): values.append((position, .objects(objects.filter { !lost.contains($0) })))
            default: break
            }
        }
        return values
    }

    static func required(_ position: Int, _ layout: RowLayout, of object: ObjectID) -> StoreError {
        let name = layout.entity.attributes[position].name.text
        return StoreError(
            .requiredMissing,
            "“\(name)” of “\(layout.entity.name)” is required, and the object that it refers to is deleted: let it "
                + "refer to another object, delete its own object too, or make the attribute optional.",
            ObjectFacts(layout.entity.name.text, [name], object: object))
    }
}
