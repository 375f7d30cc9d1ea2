// Records the properties that a predicate reads while it is evaluated on objects: changes of these may change its
// result.

/// Collects the properties that are read of objects, by entity.
final class ReadRecorder {
    struct Reads {
        let model: EntityModel
        /// The slots that were read of the objects that the predicate was evaluated on.
        fileprivate(set) var own: Set<Int> = []
        /// The slots that were read of other objects.
        fileprivate(set) var others: Set<Int> = []
    }

    /// The object that the predicate is evaluated on.
    var subject: ObjectID?
    private var found: [ObjectIdentifier: Reads] = [:]

    var reads: [Reads] { Array(found.values) }

    /// Records a read of the part at an offset in a value; nil if that is no single property.
    func note(_ object: ObjectID, _ model: EntityModel, at offset: Int?) {
        let slot = model.slot(at: offset)
        let key = ObjectIdentifier(model)
        if object == subject {
            found[key, default: Reads(model: model)].own.insert(slot)
        } else {
            found[key, default: Reads(model: model)].others.insert(slot)
        }
    }
}
