// Merging two changes of one value: pure functions.
//
// Invariants:
// TW1  A property that only one side has changed has that side's value.
// TW2  A property that both sides have changed to different values keeps mine, and is a conflict.
// TW3  A list of references has the elements that either side has added, without those that either side has removed.
// TW4  A text that one side has given another form has the other side's value, if that is another text.
// TW5  A derived property has their value: it is computed again when it is saved, and is in no conflict.

internal import FoundationEssentials

/// The merge of an edited object with another version from the store.
struct ThreeWayMerge<E: Entity> {
    /// The shown value: theirs, with my edits.
    var value: E
    /// The base of my edits from now on. Slots in conflict keep their base.
    var base: E
    /// The slots that both sides have changed to different values.
    var conflicts: [Int]

    init(base: E, mine: E, theirs: E) {
        let model = E.model
        (value, self.base, conflicts) = (mine, base, [])
        var taken: [Int] = []
        var rebased: [Int] = []
        for slot in model.differences(base, theirs) {
            let isMine = !model.properties[slot].isDerived && Self.isDifferent(model, slot, base, mine)
            let isSame = isMine && (model.isSame(slot, mine, theirs) || model.isSame(slot, base, theirs))
            // TW1, TW4, TW5.
            if !isMine || !isSame && model.isSame(slot, base, mine) {
                taken.append(slot)
                rebased.append(slot)
            } else if isSame {
                rebased.append(slot)
            } else if model.properties[slot].codec.attributeType.isObjectList {
                // TW3.
                let merged = mergedList(
                    base: model.references(at: slot, in: base), mine: model.references(at: slot, in: mine),
                    theirs: model.references(at: slot, in: theirs))
                model.setReferences(merged, at: slot, in: &value)
                rebased.append(slot)
            } else {
                // TW2.
                conflicts.append(slot)
            }
        }
        model.copy(taken, from: theirs, to: &value)
        model.copy(rebased, from: theirs, to: &self.base)
    }

    private static func isDifferent(_ model: EntityModel, _ slot: Int, _ left: E, _ right: E) -> Bool {
        withUnsafePointer(to: left) { left in
            withUnsafePointer(to: right) { right in !model.isEqual(slot, left, right) }
        }
    }
}

/// A list that both sides have changed. The order is mine if only I have changed the order of the common elements of
/// all three; otherwise it is theirs. An element that the other side has added follows the same element as there.
/// Linear.
func mergedList(base: [ObjectID], mine: [ObjectID], theirs: [ObjectID]) -> [ObjectID] {
    let (before, here, there) = (Set(base), Set(mine), Set(theirs))
    let isCommon = { (object: ObjectID) in before.contains(object) && here.contains(object) && there.contains(object) }
    let isReordered = base.filter(isCommon) != mine.filter(isCommon)
    let isReorderedThere = base.filter(isCommon) != theirs.filter(isCommon)
    let (leading, others) = isReordered && !isReorderedThere ? (mine, theirs) : (theirs, mine)
    // Elements that both have, or one has added.
    let isKept = { (object: ObjectID) in
        here.contains(object) && there.contains(object) || !before.contains(object)
    }
    var added: [ObjectID?: [ObjectID]] = [:]
    let leadingSet = leading == mine ? here : there
    var previous: ObjectID?
    for object in others where isKept(object) {
        if leadingSet.contains(object) { previous = object } else { added[previous, default: []].append(object) }
    }
    var merged = added[nil] ?? []
    for object in leading where isKept(object) {
        merged.append(object)
        merged += added[object] ?? []
    }
    return merged
}
