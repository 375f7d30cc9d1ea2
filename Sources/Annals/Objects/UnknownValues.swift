// The attributes of an object that only other versions of the program know. The object keeps them if this program
// inserts it again, even after compaction has forgotten the deletion.
//
// Invariants:
// UV1  Values that the file still has take precedence. Values that a context keeps count only if the file has forgotten
//      the object.

internal import FoundationEssentials

/// The values of attributes that are no properties of an object's type, by number. Long values are whole.
typealias UnknownValues = [UInt16: StoredValue]

extension ContextCore {
    /// Before the context moves: keeps an object's attributes that its type does not know, if the store no longer has
    /// the object and undo or a merge policy may insert it again.
    func keepUnknownValues(
        of object: any LiveObject, _ older: Snapshot, _ newer: Snapshot
    ) throws(StoreError) {
        let (id, model) = (object.id, object.model)
        guard recorder != nil || pending[id] != nil, let layout = newer.view.shape.newestLayout(id.entityNumber),
            layout.count > model.properties.count, try !newer.view.contains(id)
        else { return }
        if let values = try newer.unknownValues(of: id, model) {
            unknownValues[id] = values
        } else if let values = try older.unknownValues(of: id, model) {
            unknownValues[id] = values
        }
    }
}

extension Snapshot {
    /// The object's values, or those at its deletion, of attributes that are no properties of a model. Nil if the file
    /// has no data of the object in this state.
    func unknownValues(of object: ObjectID, _ model: EntityModel) throws(StoreError) -> UnknownValues? {
        guard let layout = view.shape.newestLayout(object.entityNumber) else { return nil }
        var unknown = Set(layout.entity.attributes.map(\.number))
        for property in model.properties {
            let position = layout.position(ofProperty: property.name, view.catalog)
            if let position { unknown.remove(layout.entity.attributes[position].number) }
        }
        var values: UnknownValues = [:]
        let read = { (row: RowImage) throws(StoreError) in
            for number in unknown {
                if let place = row.layout.position(ofAttribute: number) {
                    values[number] = try view.value(row, at: place)
                }
            }
        }
        if try view.withRow(object, read) { return values }
        return try view.withDeletedRow(object, read) ? values : nil
    }
}
