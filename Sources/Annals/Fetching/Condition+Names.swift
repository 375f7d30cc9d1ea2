// Parts of conditions for the tool, which knows entities only by their names in a store.

extension PropertyTest {
    /// A comparison of an attribute with values of its type.
    package convenience init(
        of entity: EntityHandle, _ position: Int, _ comparison: Comparison, _ constants: [Value]
    ) {
        self.init(position, entity.types[position], entity.attributes[position], comparison, constants)
    }
}

extension RelationshipStep {
    /// From objects of an entity to those that an attribute refers to.
    package init(_ entity: EntityHandle, _ position: Int, to target: EntityHandle) {
        self.init(name: entity.attributes[position], way: .property(position: position), target: target.layout)
    }
}

extension SortColumn {
    package init(of entity: EntityHandle, _ position: Int, isDescending: Bool) {
        self.init(
            name: entity.attributes[position], position: position,
            attribute: entity.layout.entity.attributes[position].number, isDescending: isDescending)
    }
}

extension Snapshot {
    /// The entity of the objects that an attribute refers to; nil if they may be of any.
    package func target(of entity: EntityHandle, at position: Int) -> EntityHandle? {
        let target = entity.layout.entity.attributes[position].target
        guard target != 0 else { return nil }
        return view.catalog.layout(version: view.catalog.newestVersion, entity: target).map { EntityHandle($0) }
    }
}
