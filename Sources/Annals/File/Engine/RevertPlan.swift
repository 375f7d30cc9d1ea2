// Undoing a transaction: the changes that undo it, and the obstacles. Computed before anything is written.
//
// Invariants:
// U1  A step writes only attributes that the transaction wrote. Other attributes keep their present value.
// U2  A value is set back only if it is still the one that the transaction wrote. Derived attributes are exempt: they
//     change with their sources.
// U3  The steps together leave unique keys unique.
// U4  The steps together write references only to objects that exist after them.

/// The reason why a part of a transaction cannot be undone.
public enum RevertConflictReason: Hashable, Sendable {
    /// The attributes no longer have the transaction's values.
    case changedSince
    /// The transaction changed the object, which was deleted later. Or it deleted the object, which was inserted
    /// again with other values, and deleted again.
    case deletedSince
    /// The transaction deleted the object, which was inserted again with other values.
    case insertedSince
    /// Another object now has the values of the unique attribute or key, which may be derived from undone values.
    case keyTaken(by: ObjectID)
    /// The attributes referred to objects that no longer exist, under the rule `cascade` or `deny`.
    case referenceMissing
    /// The attributes were null before, and are required now.
    case requiredMissing
    /// The schema no longer has the entity.
    case entityRemoved
    /// Other attributes with the same names have replaced the attributes (`SchemaChange.replaceAttribute`). The old
    /// values do not belong to them.
    case attributeReplaced
    /// History no longer has the values before.
    case valuesLost
    /// A derived attribute of that object would get a value that its type does not have, such as too large a sum.
    case derivedOutOfRange(of: ObjectID)
}

/// A part of a transaction that cannot be undone.
package struct RevertObstacle: Equatable, Sendable {
    package let object: ObjectID
    /// The transaction's change of the object.
    package let kind: ChangeKind
    package let reason: RevertConflictReason
    /// The numbers of the attributes concerned; none for the whole object.
    package let attributes: [UInt16]
}

/// The steps that undo one transaction in the base state of a draft. All are in memory, except long values.
package struct RevertPlan {
    let base: View
    var steps: [ObjectID: PlannedStep] = [:]
    private var kinds: [ObjectID: ChangeKind] = [:]
    /// The objects, in the reverse of the order in which the transaction changed them.
    private(set) var order: [ObjectID] = []
    package private(set) var obstacles: [RevertObstacle] = []

    /// The attributes that are computed again after the plan is carried out.
    private let derived: RevertDerivation

    /// `base` contains `transaction`, which changes no schema.
    package init(
        undoing transaction: TransactionView, in base: View, _ derived: RevertDerivation = .none
    ) throws(StoreError) {
        assert(transaction.number <= base.number, "The state is older than the transaction.")
        self.base = base
        self.derived = derived
        var plan: [(ChangeKind, ObjectID)] = []
        try transaction.forEachChange { (change) throws(StoreError) in
            // The store's own records are not part of a user's changes.
            if base.reservedEntities.contains(change.object.entityNumber) { return true }
            plan.append((change.kind, change.object))
            try base.core.reading { () throws(StoreError) in try add(change) }
            return true
        }
        order = plan.reversed().map(\.1)
        for (kind, object) in plan { kinds[object] = kind }
        for object in order { withhold(object) }
        // Each check may make the other necessary again. If an object is not inserted again, because another object has
        // its key, references to it have no target. If a step is removed because of a reference, it no longer frees a
        // key.
        repeat { try keepKeysUnique() } while try keepReferences()
        assert(steps.keys.allSatisfy { kinds[$0] != nil }, "U1: a step writes an object that was not changed.")
    }

    /// Omits the parts that cannot be undone because of derived values.
    private mutating func withhold(_ object: ObjectID) {
        for left in derived.withheld[object] ?? [] {
            guard let step = steps[object] else { return }
            steps[object] =
                left.isWhole ? nil : step.without(Array(left.attributes), base.shape.newestLayout(object.entityNumber))
            let reason: RevertConflictReason =
                switch left.reason {
                case .keyTaken(let other): .keyTaken(by: other)
                case .derivedOutOfRange(let other): .derivedOutOfRange(of: other)
                }
            stop(object, reason, left.named.inOrder())
        }
    }

    mutating func stop(_ object: ObjectID, _ reason: RevertConflictReason, _ attributes: [UInt16]) {
        obstacles.append(
            RevertObstacle(object: object, kind: kinds[object] ?? .update, reason: reason, attributes: attributes))
    }

    /// Writes the steps without obstacles.
    package func carryOut(with draft: Draft) throws(StoreError) {
        for object in order {
            if let step = steps[object] { try draft.carryOut(step, on: object) }
        }
    }

    // MARK: One change

    private mutating func add(_ change: ChangeView) throws(StoreError) {
        guard let layout = base.shape.newestLayout(change.object.entityNumber) else {
            return stop(change, .entityRemoved)
        }
        switch change.kind {
        case .insert: try undoInsert(change, layout)
        case .update: try undoUpdate(change, layout)
        case .delete: try undoDelete(change, layout)
        case .base: break
        }
    }

    private mutating func stop(_ change: ChangeView, _ reason: RevertConflictReason, _ attributes: [UInt16] = []) {
        obstacles.append(
            RevertObstacle(object: change.object, kind: change.kind, reason: reason, attributes: attributes))
    }

    private mutating func undoInsert(_ change: ChangeView, _ layout: RowLayout) throws(StoreError) {
        // If another writer has deleted it since, nothing is left to do.
        guard let now = try row(of: change.object), let written = try row(after: change) else { return }
        let different = try differences(now, written, layout)
        if !different.isEmpty { return stop(change, .changedSince, different) }
        steps[change.object] = .delete
    }

    private mutating func undoUpdate(_ change: ChangeView, _ layout: RowLayout) throws(StoreError) {
        guard let now = try row(of: change.object) else { return stop(change, .deletedSince) }
        guard let written = try row(after: change), let before = try row(before: change) else {
            return stop(change, .valuesLost)
        }
        var values: [(position: Int, value: StoredValue)] = []
        var different: [UInt16] = []
        var missing: [UInt16] = []
        var replaced: [UInt16] = []
        // U1.
        for place in change.attributePositions where place < written.layout.count {
            let number = written.layout.entity.attributes[place].number
            // The value of a removed attribute cannot be restored, unless another attribute has its name now.
            guard let position = layout.position(ofAttribute: number) else {
                if let other = replacement(of: written.layout.entity.attributes[place], in: layout),
                    !derived.isDerived(other, layout.number),
                    try !isEqual(value(written.layout.entity.attributes[place], in: before), written.value(at: place))
                {
                    replaced.append(other)
                }
                continue
            }
            let attribute = layout.entity.attributes[position]
            let (current, old) = (try value(attribute, in: now), try value(attribute, in: before))
            // If the transaction has changed only the form of a text, the old form comes back.
            let isAsWritten = try isEqual(current, value(attribute, in: written))
            let isBack = isAsWritten ? try isIdentical(current, old) : try isEqual(current, old)
            if isBack { continue }
            let isDerived = derived.isDerived(number, layout.number)
            // U2.
            if !isAsWritten {
                if !isDerived { different.append(number) }
            } else if old == .absent, !attribute.isOptional {
                if !isDerived { missing.append(number) }
            } else {
                values.append((position, old))
            }
        }
        if !different.isEmpty { stop(change, .changedSince, different) }
        if !missing.isEmpty { stop(change, .requiredMissing, missing) }
        if !replaced.isEmpty { stop(change, .attributeReplaced, replaced) }
        values.putInOrder { $0.position < $1.position }
        if !values.isEmpty { steps[change.object] = .update(values) }
    }

    private mutating func undoDelete(_ change: ChangeView, _ layout: RowLayout) throws(StoreError) {
        guard let before = try row(before: change) else { return stop(change, .valuesLost) }
        if let now = try row(of: change.object) {
            // If it exists unchanged, nothing is to do.
            if try !differences(now, before, layout).isEmpty { stop(change, .insertedSince) }
            return
        }
        // The object may have been inserted and deleted again; then the last deletion had different values.
        guard let last = try base.core.deletedRow(change.object, below: base.end, base.shape),
            try differences(last, before, layout).isEmpty
        else {
            return stop(change, .deletedSince)
        }
        var values: [StoredValue] = []
        var missing: [UInt16] = []
        for attribute in layout.entity.attributes {
            values.append(try value(attribute, in: before))
            if values.last == .absent, !attribute.isOptional { missing.append(attribute.number) }
        }
        if !missing.isEmpty { return stop(change, .requiredMissing, missing) }
        var replaced: [UInt16] = []
        for (place, attribute) in before.layout.entity.attributes.enumerated() {
            guard let other = replacement(of: attribute, in: layout), !derived.isDerived(other, layout.number),
                try before.value(at: place) != .absent
            else { continue }
            replaced.append(other)
        }
        if !replaced.isEmpty { stop(change, .attributeReplaced, replaced) }
        steps[change.object] = .insertAgain(values)
    }

    /// The number of the attribute that now has the name of a removed one.
    private func replacement(of attribute: AttributeDefinition, in layout: RowLayout) -> UInt16? {
        guard layout.position(ofAttribute: attribute.number) == nil else { return nil }
        return layout.entity.attributes.first { $0.name == attribute.name }?.number
    }

    // MARK: Rows. In a read section.

    private func row(of object: ObjectID) throws(StoreError) -> RowImage? {
        guard let offset = try base.core.visibleRow(object, below: base.end) else { return nil }
        return try base.core.row(at: offset, object.entityNumber, base.shape)
    }

    /// The numbers of the attributes in which two rows differ, as the newest schema reads them, without derived
    /// attributes.
    private func differences(_ left: RowImage, _ right: RowImage, _ layout: RowLayout) throws(StoreError) -> [UInt16] {
        var different: [UInt16] = []
        if left.fileOffset == right.fileOffset { return different }
        for attribute in layout.entity.attributes where !derived.isDerived(attribute.number, layout.number) {
            if try !isEqual(value(attribute, in: left), value(attribute, in: right)) {
                different.append(attribute.number)
            }
        }
        return different
    }

    private func row(after change: ChangeView) throws(StoreError) -> RowImage? {
        guard let place = change.rowOffset else { return nil }
        return try base.core.row(at: change.frameOffset + UInt64(place), change.object.entityNumber, base.shape)
    }

    private func row(before change: ChangeView) throws(StoreError) -> RowImage? {
        guard case .row(let offset) = change.previous else { return nil }
        return try base.core.row(at: offset, change.object.entityNumber, base.shape)
    }

    /// The value as the newest schema reads it. A long value is the reference to it.
    private func value(_ attribute: AttributeDefinition, in row: RowImage) throws(StoreError) -> StoredValue {
        guard let place = row.layout.position(ofAttribute: attribute.number) else {
            return attribute.valueBeforeItExisted
        }
        return try row.value(at: place)
    }

    private func isEqual(_ left: StoredValue, _ right: StoredValue) throws(StoreError) -> Bool {
        if left.isSame(as: right) { return true }
        return try isIdentical(left, right)
    }

    /// The same, but two forms of a text are different.
    private func isIdentical(_ left: StoredValue, _ right: StoredValue) throws(StoreError) -> Bool {
        if left == right { return true }
        // The same long value may be in the file twice.
        guard case .large(let a) = left, case .large(let b) = right, a.valueBytes == b.valueBytes else { return false }
        let first = try base.content(of: a)
        let second = try base.content(of: b)
        return first.bytes.hasSameBytes(as: second.bytes)
    }

    // MARK: Unique keys

    private struct Key: Hashable {
        let index: Int
        let bytes: [UInt8]
    }

    /// Removes steps, or parts of them, that would give an object a unique key of another object (U3). A removed step
    /// no longer frees the present key of its own object, so this repeats until nothing changes.
    private mutating func keepKeysUnique() throws(StoreError) {
        var isSettled = false
        while !isSettled {
            isSettled = true
            var claimed: [Key: ObjectID] = [:]
            for object in order {
                guard let step = steps[object], let obstacle = try obstacle(object, step, &claimed) else { continue }
                steps[object] = step.without(obstacle.attributes, base.shape.newestLayout(object.entityNumber))
                obstacles.append(obstacle)
                isSettled = false
            }
        }
    }

    private func obstacle(
        _ object: ObjectID, _ step: PlannedStep, _ claimed: inout [Key: ObjectID]
    ) throws(StoreError) -> RevertObstacle? {
        for number in base.shape.indexes(of: object.entityNumber) where base.shape.indexes[number].id.isUnique {
            let index = base.shape.indexes[number]
            // The old values do not matter.
            if index.id.attributes.contains(where: { derived.isWorkedOut($0, object.entityNumber) }) { continue }
            guard let bytes = try key(object, step, index) else { continue }
            let key = Key(index: number, bytes: bytes)
            var other = claimed[key]
            if other == nil { other = try holder(of: key, index) }
            if let other {
                return RevertObstacle(
                    object: object, kind: kinds[object] ?? .update, reason: .keyTaken(by: other),
                    attributes: index.id.attributes)
            }
            claimed[key] = object
        }
        return nil
    }

    /// The object that has the key now and keeps it.
    private func holder(of key: Key, _ index: IndexShape) throws(StoreError) -> ObjectID? {
        guard key.index < base.ordered.count, let content = base.ordered[key.index] else { return nil }
        let holder = try base.core.reading { () throws(StoreError) in
            try key.bytes.withUnsafeBufferPointer { (bytes) throws(StoreError) in
                try content.first(UnsafeRawBufferPointer(bytes), base.core.file)
            }
        }
        guard let holder, !freesKey(holder, index) else { return nil }
        return holder
    }

    /// The key that the object will have; nil if the step does not change it, or the object has none.
    private func key(_ object: ObjectID, _ step: PlannedStep, _ index: IndexShape) throws(StoreError) -> [UInt8]? {
        var values: [StoredValue] = []
        switch step {
        case .delete: return nil
        case .insert(let row), .insertAgain(let row): values = index.positions.map { row[$0] }
        case .update(let changes):
            guard changes.contains(where: { index.positions.contains($0.position) }) else { return nil }
            try base.core.reading { () throws(StoreError) in
                guard let now = try row(of: object) else { return }
                for position in index.positions {
                    if let change = changes.first(where: { $0.position == position }) {
                        values.append(change.value)
                    } else {
                        values.append(try value(index.layout.entity.attributes[position], in: now))
                    }
                }
            }
        }
        guard values.count == index.positions.count, !values.contains(.absent) else { return nil }
        var key = ByteWriter(capacity: 256)
        _ = try IndexKey.append(values: values, types: index.types, to: &key)
        return Array(key.bytes)
    }

    /// Whether undoing frees the object's present key.
    private func freesKey(_ object: ObjectID, _ index: IndexShape) -> Bool {
        switch steps[object] {
        case .delete: true
        case .update(let changes): changes.contains { index.positions.contains($0.position) }
        case .insert, .insertAgain, nil: false
        }
    }
}

extension Engine {
    /// The plan for undoing a transaction; nil if history does not have it.
    package func revertPlan(
        of number: UInt64, in base: View, _ derived: RevertDerivation = .none
    ) throws(StoreError) -> RevertPlan? {
        var plan: RevertPlan?
        guard number > tracking.horizon else { return nil }
        try tracked(base).forEachTransaction(after: number - 1) { (transaction) throws(StoreError) in
            // The first transaction found is another one if the file begins after `number`.
            if transaction.number == number { plan = try RevertPlan(undoing: transaction, in: base, derived) }
            return false
        }
        return plan
    }
}
