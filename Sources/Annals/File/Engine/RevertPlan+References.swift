// References that undoing a transaction would restore, although their targets no longer exist.

extension RevertPlan {
    /// Removes references to objects that will not exist from the steps (U4). A removed step may have inserted the
    /// target of another reference, so this repeats until nothing changes. Returns whether a step was removed, or a
    /// part of one.
    mutating func keepReferences() throws(StoreError) -> Bool {
        guard base.shape.hasReferences else { return false }
        let before = obstacles.count
        var isSettled = false
        while !isSettled {
            isSettled = true
            for object in order {
                guard let layout = base.shape.newestLayout(object.entityNumber), let step = steps[object] else {
                    continue
                }
                switch step {
                case .delete: continue
                case .insert(let row), .insertAgain(let row):
                    var left = row
                    let lost = try existing(row.indices.map { ($0, row[$0]) }, layout) { left[$0] = $1 }
                    if !lost.isEmpty { stop(object, .referenceMissing, lost) }
                    steps[object] = lost.isEmpty ? .insertAgain(left) : nil
                    if !lost.isEmpty { isSettled = false }
                case .update(let changes):
                    var left = changes
                    let lost = try existing(changes.map { ($0.position, $0.value) }, layout) { (position, value) in
                        for index in left.indices where left[index].position == position { left[index].value = value }
                    }
                    if !lost.isEmpty { stop(object, .referenceMissing, lost) }
                    steps[object] = PlannedStep.update(left).without(lost, layout)
                }
            }
        }
        return obstacles.count > before
    }

    /// Calls `replace` with each value stripped of references to missing objects, if its delete rule permits that.
    /// Returns the attributes whose rules do not.
    private func existing(
        _ values: [(Int, StoredValue)], _ layout: RowLayout, _ replace: (Int, StoredValue) -> Void
    ) throws(StoreError) -> [UInt16] {
        var lost: [UInt16] = []
        for (position, value) in values where layout.slots[position].type.isReference {
            let left = try value.keepingReferences { (object) throws(StoreError) in try willExist(object) }
            if left == value { continue }
            let attribute = layout.entity.attributes[position]
            let mayLose = attribute.deleteRule == .nullify || attribute.deleteRule == .noAction
            if mayLose, left != .absent || attribute.isOptional {
                replace(position, left)
            } else {
                lost.append(attribute.number)
            }
        }
        return lost
    }

    private func willExist(_ object: ObjectID) throws(StoreError) -> Bool {
        switch steps[object] {
        case .insert, .insertAgain: true
        case .delete: false
        case .update, nil: try base.has(object)
        }
    }
}
