// An entity as one schema version has it, looked up once: what makes reading and writing by position fast.

/// Names and positions of an entity's attributes, for reading and writing without looking up names each time.
///
/// It belongs to the schema version in which it was requested. Reading with it goes on to work after the schema has
/// changed: positions stay those of the handle, and an attribute that is not there any more reads as absent. Writing
/// throws `schemaChanged` then; ask for a new one.
public struct EntityHandle: Sendable {
    /// The name of the entity.
    public let name: String
    /// The names of its attributes, in order: a *position* is an index into this.
    public let attributes: [String]
    /// Their types.
    public let types: [AttributeType]
    let layout: RowLayout

    init(_ layout: RowLayout) {
        self.layout = layout
        name = layout.entity.name.text
        attributes = layout.entity.attributes.map(\.name.text)
        types = layout.entity.attributes.map { $0.type }
    }

    /// The number of the entity in its store, which its objects' IDs begin with.
    public var number: UInt16 { layout.entity.number }

    /// The position of the attribute of that name; nil for none. Linear: ask once.
    public func position(of attribute: String) -> Int? { attributes.firstIndex { isSameName($0, attribute) } }

    /// The same, or an error that names what is missing.
    func requirePosition(of attribute: String) throws(StoreError) -> Int {
        guard let position = position(of: attribute) else { throw .unknownAttribute(attribute, of: name) }
        return position
    }
}
