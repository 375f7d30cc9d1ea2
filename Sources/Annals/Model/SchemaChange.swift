// The possible changes of a store's schema.

/// One step of a schema change. Steps are carried out in order, so a later step can use the additions of earlier ones.
///
/// Renames can exchange names: while two entities, or two attributes of one entity, have the same name after a step,
/// later steps mean the one that was not renamed. After the last step, all names are different.
///
/// No step rewrites objects: an added attribute reads as its default, and a removed one is hidden. The file never
/// reuses internal numbers. So an attribute that is removed and added again is a new one, without the old values.
public enum SchemaChange: Hashable, Sendable {
    /// Adds an entity, without objects.
    case addEntity(EntityDescription)
    /// Removes an entity and hides its objects. Refused while another entity has it as a target.
    case removeEntity(String)
    /// Renames an entity. Its objects, their IDs and its history stay.
    case renameEntity(String, to: String)
    /// Turns an entity's history off or on. Turning it off removes the existing history. Turned on, history begins with
    /// the transaction that turns it on. The objects do not change. Compaction frees the space.
    case changeEntity(String, history: HistoryPolicy)
    /// Adds an attribute at the end of the entity's list. A required attribute needs a default, because existing
    /// objects have no value for it.
    case addAttribute(AttributeDescription, to: String)
    /// Removes an attribute. Refused while a key names it.
    case removeAttribute(String, from: String)
    /// Renames an attribute. Its values and its history stay.
    case renameAttribute(String, of: String, to: String)
    /// Removes an attribute and adds another in its place, which may have the same name. Values are not copied: update
    /// the objects yourself.
    case replaceAttribute(String, of: String, by: AttributeDescription)
    /// Changes properties of an attribute; nil leaves a property as it is. A required attribute can become optional,
    /// but not the reverse, and types cannot change. If objects exist, the index is built during the commit, while
    /// other handles read and write. `isUnique` is refused if two objects have the same value after the transaction,
    /// which may change or delete them itself. `inverse` and `whenTargetIsDeleted` are for references; the rule holds
    /// from then on.
    case changeAttribute(
        String, of: String, isOptional: Bool? = nil, isIndexed: Bool? = nil, isUnique: Bool? = nil,
        isPreservedOnDeletion: Bool? = nil, inverse: String? = nil, whenTargetIsDeleted: DeleteRule? = nil)
    /// Adds a compound key. Its index is built as for `changeAttribute`.
    case addKey(IndexDescription, to: String)
    /// Removes a compound key and its index. No value changes.
    case removeKey(IndexDescription, from: String)
}
