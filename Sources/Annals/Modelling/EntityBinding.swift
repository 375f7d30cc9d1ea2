// The locations of a type's properties in the rows of one store: reading and writing whole values by address.
//
// Invariants:
// EB1  Columns are in the order of their positions in the row, each property once.
// EB2  A column's form and the attribute's type fit: a loop reads the slot of the type that the form is stored as.

internal import FoundationEssentials

extension RowLayout {
    /// The position of a property's attribute: the one of its name, or the one that had the name before. Nil without
    /// one.
    func position(ofProperty name: String, _ catalog: SchemaCatalog) -> Int? {
        entity.position(of: name) ?? catalog.attribute(formerly: name, of: number).flatMap { position(ofAttribute: $0) }
    }
}

/// A type's properties in the rows of one layout.
///
/// Sound although it is shared: nothing changes after `init`, the memory of the columns included.
final class EntityBinding: @unchecked Sendable {
    /// A property for loops: no reference in it.
    struct PropertyColumn {
        let position: Int
        let offset: Int
        let form: PropertyForm
        let isOptional: Bool
        let place: RowColumn
        /// Whether a new row that does not set it has a default.
        let hasDefault: Bool
    }

    let model: EntityModel
    /// The mark of the store (`UUIDBytes.mark`).
    let storeMark: UInt32
    let columns: UnsafeMutablePointer<PropertyColumn>
    /// In the order of the columns (EB1).
    let properties: [EntityModel.Property]
    let count: Int
    /// The numbers of their attributes.
    let attributes: [UInt16]

    /// Whether the layout's entity is the type's: otherwise references lead to nothing of it.
    let isOfEntity: Bool
    /// The position of the time of the last change; -1 without one.
    let lastChange: Int
    /// Positions that the program requires, and the store does not.
    let required: Set<Int>
    /// The positions of the properties.
    let known: Set<Int>
    /// Whether the store has attributes that are no property of the type.
    let isPartial: Bool
    /// Whether it refers to objects.
    let hasReferences: Bool
    /// Whether `write` needs no code of the program for it.
    let isWrittenByAddress: Bool
    /// Whether reading may return values that rows lack: initial ones for missing values, and nothing for references to
    /// deleted objects.
    let readsOtherValues: Bool
    /// Whether the store may have a property in several forms that are equal.
    let hasForms: Bool
    /// Whether a fallback may replace a stored value that the property's type does not have.
    let hasFallbacks: Bool
    /// Whether a property has the name that its attribute had before.
    let usesFormerNames: Bool
    /// Whether a value that is written reads as the same value right after its transaction: nothing else sets its
    /// attributes, no delete rule can reach it, and each attribute reads as it is stored.
    let readsAsWritten: Bool

    private static func mismatch(
        _ property: EntityModel.Property, _ model: EntityModel, _ message: String
    ) -> StoreError {
        StoreError(.schemaMismatch, message, ObjectFacts(model.name, [property.name]))
    }

    private static func widenedSince(
        _ property: EntityModel.Property, _ model: EntityModel, _ type: AttributeType
    ) -> StoreError {
        mismatch(
            property, model,
            "“\(property.name)” of “\(model.name)” had the type \(type) at that time, and has the type "
                + "\(property.codec.attributeType) in the program, because a migration has changed it since: read this "
                + "state by names, `snapshot.rows(of: \"\(model.name)\")`.")
    }

    /// Throws `schemaMismatch` if the store lacks an attribute, or has it with another type.
    init(_ model: EntityModel, _ layout: RowLayout, _ catalog: SchemaCatalog) throws(StoreError) {
        self.model = model
        storeMark = layout.storeMark
        isOfEntity = isSameName(layout.entity.name.text, model.name)
        guard isOfEntity else {
            (properties, attributes) = ([], [])
            count = 0
            columns = .allocate(capacity: 1)
            (hasReferences, isWrittenByAddress, readsOtherValues, hasForms) = (false, true, false, false)
            (hasFallbacks, usesFormerNames, readsAsWritten) = (false, false, false)
            lastChange = -1
            (required, known, isPartial) = ([], [], false)
            return
        }
        var placed: [(position: Int, property: EntityModel.Property)] = []
        for property in model.properties {
            let attributes = layout.entity.attributes
            guard let position = layout.position(ofProperty: property.name, catalog) else {
                throw Self.mismatch(
                    property, model,
                    "The store has no attribute “\(property.name)” of “\(model.name)”: open it with this entity in "
                        + "`entities:`. If you do that already, another version of the program has removed the "
                        + "attribute.")
            }
            guard attributes[position].type == property.codec.attributeType else {
                if catalog.isOfPast { throw Self.widenedSince(property, model, attributes[position].type) }
                throw Self.mismatch(
                    property, model,
                    "“\(property.name)” of “\(model.name)” has the type \(attributes[position].type) in the store, but "
                        + "the type \(property.codec.attributeType) in the program. The store may have had a migration "
                        + "that the program lacks: open it with all its `migrations:`, or declare the type of the "
                        + "store.")
            }
            placed.append((position, property))
        }
        placed.putInOrder { $0.position < $1.position }
        properties = placed.map(\.property)
        attributes = placed.map { layout.entity.attributes[$0.position].number }
        hasReferences = properties.contains { $0.codec.attributeType.isReference }
        isWrittenByAddress = !properties.contains { $0.codec.form == .other }
        hasForms = properties.contains { $0.codec.attributeType == .json }
        hasFallbacks = properties.contains { $0.codec.fallback != nil }
        usesFormerNames = placed.contains { layout.entity.position(of: $0.property.name) == nil }
        readsOtherValues = placed.contains { (position, property) in
            let attribute = layout.entity.attributes[position]
            return property.codec.attributeType.isReference
                ? attribute.deleteRule == .noAction : !property.codec.isOptional && attribute.isOptional
        }
        readsAsWritten =
            isWrittenByAddress && !hasReferences && !hasFallbacks && !readsOtherValues && model.lastChange == nil
            && model.derived.isEmpty && placed.count == layout.count
            && !properties.contains { $0.codec.form == .float }
        count = placed.count
        known = Set(placed.map(\.position))
        isPartial = known.count < layout.count
        columns = .allocate(capacity: max(1, count))
        lastChange = placed.first { $0.property.name == model.lastChange }?.position ?? -1
        required = Set(
            placed.filter { $0.property.isRequired && layout.slots[$0.position].isOptional }.map(\.position))
        for (index, (position, property)) in placed.enumerated() {
            (columns + index).initialize(
                to: PropertyColumn(
                    position: position, offset: property.offset, form: property.codec.form,
                    isOptional: property.codec.isOptional, place: RowColumn(layout, position),
                    hasDefault: layout.entity.attributes[position].defaultValue != nil))
        }
    }

    deinit { columns.deallocate() }

    /// The index in `properties` of a property, by its place in a value; nil if it is not kept.
    func index(ofPropertyAt offset: Int) -> Int? { (0..<count).first { columns[$0].offset == offset } }

    /// The position in rows of a property, by its index in `properties`.
    func position(of index: Int) -> Int { columns[index].position }
}
