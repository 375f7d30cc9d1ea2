// What can be changed in the schema of a store that has objects already.

/// One step from a schema to the next. Steps are made in their order, so a later one may use what an earlier one has
/// added.
///
/// No step rewrites an object: what is added reads as its default, what is removed is not seen any more. Numbers inside
/// the file are never given twice, so an attribute that is removed and added again is another one, without the old
/// one's values.
public enum SchemaChange: Hashable, Sendable {
    /// Adds an entity, without objects.
    case addEntity(EntityDescription)
    /// Its objects are not seen any more. Refused while another entity has it as a target.
    case removeEntity(String)
    /// Gives an entity another name. Its objects, their IDs and its history stay.
    case renameEntity(String, to: String)
    /// Turns an entity's history off, which gives up what there is of it, or on, which lets it begin with the
    /// transaction that does so. Its objects stay as they are; compaction gives the space back.
    case changeEntity(String, history: HistoryPolicy)
    /// At the end of the entity's list. One that is required needs a default, because objects that are there have no
    /// value for it.
    case addAttribute(AttributeDescription, to: String)
    /// Refused while a key or an inverse names it.
    case removeAttribute(String, from: String)
    /// Gives an attribute another name. Its values and its history stay.
    case renameAttribute(String, of: String, to: String)
    /// Removes an attribute and adds another in its place, which may have its name. Values are not carried over:
    /// the code that changes the schema updates the objects.
    case replaceAttribute(String, of: String, by: AttributeDescription)
    /// What is nil stays. A required attribute can become optional, not the other way round, and no type changes.
    /// Building an index on objects that are there is part of the commit, while others read and write; `isUnique` is
    /// refused where two have the same value.
    case changeAttribute(
        String, of: String, isOptional: Bool? = nil, isIndexed: Bool? = nil, isUnique: Bool? = nil,
        isPreservedOnDeletion: Bool? = nil)
    /// Adds a compound key, as `changeAttribute` adds an index.
    case addKey(IndexDescription, to: String)
    /// Removes a compound key. Its index goes; no value does.
    case removeKey(IndexDescription, from: String)
}
