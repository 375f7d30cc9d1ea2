// The possible changes of a store's schema.

/// One step of a schema change. Steps are carried out in order, so a later step can use the additions of earlier ones.
///
/// Renames can exchange two names. After one of the steps, two entities, or two attributes of one entity, may have the
/// same name. In later steps, that name then means the one that was not renamed. After the last step, all names must be
/// different.
///
/// No step rewrites objects: an added attribute reads as its default, and a removed one is hidden. The file never
/// reuses internal numbers. So if you remove an attribute and add it again, it is a new attribute, without the old
/// values.
public enum SchemaChange: Hashable, Sendable {
    /// Adds an entity, without objects.
    case addEntity(EntityDescription)
    /// Removes an entity and hides its objects. Refused while an attribute of another entity has it as its target.
    case removeEntity(String)
    /// Renames an entity. Its objects, their IDs and its history stay.
    case renameEntity(String, to: String)
    /// Turns an entity's history off or on. Turning it off removes the existing history; compaction frees the space. If
    /// it is turned on, history begins with the transaction that turns it on. The objects do not change.
    case changeEntity(String, history: HistoryPolicy)
    /// Adds an attribute at the end of the entity's list. A required attribute needs a default, because existing
    /// objects have no value for it.
    case addAttribute(AttributeDescription, to: String)
    /// Removes an attribute. Refused while a key names it.
    case removeAttribute(String, from: String)
    /// Renames an attribute. Its values and its history stay.
    case renameAttribute(String, of: String, to: String)
    /// Removes an attribute, and adds another one in its place. Refused while a key names the attribute. Both may have
    /// the same name. Values are not copied: update the objects yourself.
    case replaceAttribute(String, of: String, by: AttributeDescription)
    /// Changes properties of an attribute; nil leaves a property as it is. A required attribute can become optional,
    /// but an optional one cannot become required, and types cannot change. If objects exist, a new index is built
    /// during the commit, while other handles read and write. `isUnique` is refused if two objects have the same value
    /// after the transaction. The transaction itself may change or delete such objects. `inverse` and
    /// `whenTargetIsDeleted` are for references. The delete rule holds from this transaction on.
    case changeAttribute(
        String, of: String, isOptional: Bool? = nil, isIndexed: Bool? = nil, isUnique: Bool? = nil,
        isPreservedOnDeletion: Bool? = nil, inverse: String? = nil, whenTargetIsDeleted: DeleteRule? = nil)
    /// Adds a compound key. Its index is built as for `changeAttribute`.
    case addKey(IndexDescription, to: String)
    /// Removes a compound key and its index. No value changes.
    case removeKey(IndexDescription, from: String)
}
