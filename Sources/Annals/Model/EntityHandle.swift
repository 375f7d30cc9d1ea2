// An entity of one schema version, looked up once. It makes reading and writing by position fast.

/// The names and positions of an entity's attributes, for reading and writing without looking up names each time.
///
/// A handle belongs to one schema version. Reading with it still works after the schema has changed: positions stay the
/// same, and a removed attribute reads as null. Writing then throws `schemaChanged`: get a new handle.
public struct EntityHandle: Sendable {
    /// The only stored reference: a copy of a handle counts one.
    let layout: RowLayout

    init(_ layout: RowLayout) { self.layout = layout }

    /// The name of the entity.
    public var name: String { layout.entity.name.text }

    /// The names of its attributes, in order. A *position* is an index into this array.
    public var attributes: [String] { layout.names }

    /// The types of its attributes, in the same order.
    public var types: [AttributeType] { layout.types }

    /// The number of the entity in its store. The IDs of its objects begin with it.
    public var number: UInt16 { layout.entity.number }

    /// The numbers of its attributes in their entity, in the same order. A renamed attribute keeps its number.
    package var attributeNumbers: [UInt16] { layout.entity.attributes.map(\.number) }

    /// The position of the attribute of that name, or nil. Linear in the number of attributes.
    public func position(of attribute: String) -> Int? { attributes.firstIndex { isSameName($0, attribute) } }

    /// The position of the attribute of that name. Throws `unknownAttribute`, with the name.
    func requirePosition(of attribute: String) throws(StoreError) -> Int {
        guard let position = position(of: attribute) else { throw .unknownAttribute(attribute, of: name) }
        return position
    }
}
