// Policies for objects that were changed here and in the store.

/// Settles conflicts when a context saves. A conflict is an attribute that was changed both in the context and in the
/// store, to different values; an object that was deleted on one side and changed on the other; or a property that was
/// made to refer to an object that was deleted in the store. Lists and sets of references have no conflicts.
///
/// A reference to a deleted object cannot be saved. `storeWins` takes the store's reference instead, `objectWins` and
/// `overwrite` save none, and `rollback` drops the object's edits. For an inserted object these four save none.
public enum MergePolicy: String, Sendable, Hashable, Codable, CaseIterable {
    /// Saving throws `mergeConflict`, and nothing is saved.
    case error
    /// The store's value stays, attribute by attribute.
    case storeWins
    /// The context's value is saved, attribute by attribute. An object that was deleted in the store is inserted again.
    case objectWins
    /// The context's objects are saved as they are, with the attributes that only the store has changed, too.
    case overwrite
    /// The context's changes of an object with a conflict are dropped.
    case rollback
}

/// One conflict between a context and the store.
public struct MergeConflict: Hashable, Sendable, Codable {
    /// The kind of conflict.
    public enum Kind: String, Hashable, Sendable, Codable {
        /// Both have changed an attribute, to different values.
        case attribute
        /// It was changed in the context, and deleted in the store.
        case deletedInStore
        /// It was deleted in the context, and changed in the store.
        case changedInStore
        /// A property was made to refer to an object that was deleted in the store.
        case targetDeleted
    }

    /// The kind of conflict.
    public let kind: Kind
    /// The object.
    public let object: ObjectID
    /// The name of its entity.
    public let entity: String
    /// The name of the attribute; nil if the kind is `deletedInStore` or `changedInStore`.
    public let attribute: String?
    /// The common original value; nil without an attribute, and for an inserted object.
    public let base: Value?
    /// The context's value.
    public let mine: Value?
    /// The store's value; nil for an object that only the context has.
    public let theirs: Value?

    static func whole(_ kind: Kind, _ object: ObjectID, _ entity: String) -> MergeConflict {
        MergeConflict(
            kind: kind, object: object, entity: entity, attribute: nil, base: nil, mine: nil, theirs: nil)
    }

    static func attribute<E: Entity>(
        _ slot: Int, _ object: ObjectID, base: E?, mine: E, theirs: E?, kind: Kind = .attribute
    ) -> MergeConflict {
        let model = E.model
        return MergeConflict(
            kind: kind, object: object, entity: model.name, attribute: model.properties[slot].name,
            base: base.flatMap { model.value(at: slot, in: $0) }, mine: model.value(at: slot, in: mine),
            theirs: theirs.flatMap { model.value(at: slot, in: $0) })
    }
}

extension MergeConflict: CustomStringConvertible {
    /// The conflict as a sentence, without any values.
    public var description: String {
        let isNew = object.isTemporary
        let object = isNew ? "a new object of “\(entity)”" : "\(object) of “\(entity)”"
        return switch kind {
        case .attribute: "“\(attribute ?? "")” of \(object) was changed here and in the store."
        case .deletedInStore: "\(object) was changed here, and deleted in the store."
        case .changedInStore: "\(object) was deleted here, and changed in the store."
        case .targetDeleted:
            "“\(attribute ?? "")” of \(object) refers to \(mine?.object.map { "\($0)" } ?? "an object"), which was "
                + "deleted in the store."
        }
    }
}

/// All conflicts of a save.
struct ConflictFacts: ErrorFacts {
    let conflicts: [MergeConflict]
}

extension StoreError {
    /// The conflicts, for `mergeConflict` and `undoConflict`. Otherwise empty.
    public var mergeConflicts: [MergeConflict] { (facts as? ConflictFacts)?.conflicts ?? [] }

    static func mergeConflict(_ conflicts: [MergeConflict]) -> StoreError {
        let sentences = conflicts.prefix(10).map(\.description)
        let more = conflicts.count > 10 ? " And \(conflicts.count - 10) more." : ""
        var error = StoreError(
            .mergeConflict,
            sentences.joined(separator: " ") + more
                + " Nothing was saved: refresh or discard the objects, let them refer to other objects, or choose "
                + "another merge policy.")
        error.facts = ConflictFacts(conflicts: conflicts)
        return error
    }
}
