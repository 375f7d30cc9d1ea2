// A state of a store by the names that other stores use for its objects.

internal import FoundationEssentials

/// Reads objects of one state by their names. For one thread.
package final class ExchangeView {
    package let snapshot: Snapshot
    private var reader: ExportReader
    private var map: ObjectMap

    /// Throws `unsupportedVersion`, `damaged`.
    ///
    /// - Parameter names: A later state, if no name leads to another object there. A state of the past has no indexes,
    ///   so each name that is looked up in it costs all of them.
    package init(_ snapshot: Snapshot, namesOf names: Snapshot? = nil) throws(StoreError) {
        self.snapshot = snapshot
        reader = try ExportReader(snapshot, to: nil, namesOf: names)
        map = try ObjectMap(names ?? snapshot)
    }

    /// Changes with the schema.
    package var schemaVersion: UInt16 { snapshot.view.catalog.newestVersion }

    /// The schema that the store has as soon as a merged transaction is applied to this state, with the present names
    /// for former ones. The store's own entities are left out.
    ///
    /// Throws `schemaMismatch`, `schemaRefused`.
    ///
    /// - Parameter transaction: Nil for the schema of this state.
    package func schema(
        after transaction: ExportedTransaction? = nil
    ) throws(StoreError) -> (entities: [EntityDescription], presentNames: PresentNames) {
        var catalog = snapshot.view.catalog
        if let transaction {
            let definitions = try ApplySchema.definitions(
                for: transaction, catalog, isMerged: true, keepsTypes: true)
            if !definitions.isEmpty {
                try catalog.apply(SchemaDefinition(version: catalog.newestVersion + 1, entities: definitions))
            }
        }
        return (try ExportReader.schema(catalog), PresentNames(catalog))
    }

    /// The places up to which transactions of other stores were applied.
    package func applied() throws(StoreError) -> [HistoryToken] { try AppliedOrigins(snapshot).tokens() }

    /// The object here that a name leads to, also if it was deleted; nil if the name was never used.
    package func object(named name: ExportedObject) throws(StoreError) -> ObjectID? {
        let store = name.store ?? snapshot.storeIdentifier
        switch try map.target(of: ForeignObject(store: store, id: name.id)) {
        case .object(let object): return try wasHere(object) ? object : nil
        case .gone: return nil
        case .unknown: break
        }
        guard store == snapshot.storeIdentifier, try wasHere(name.id) else { return nil }
        return name.id
    }

    /// All names of an object that is gone and has no place among the objects here, the main one first; empty for any
    /// other object.
    package func namesOfGone(_ name: ExportedObject) throws(StoreError) -> [ExportedObject] {
        let name = ForeignObject(store: name.store ?? snapshot.storeIdentifier, id: name.id)
        guard case .gone(let record) = try map.target(of: name) else { return [] }
        return try map.names(of: record).map { ExportedObject($0.id, of: $0.store) }
    }

    /// Whether this state has had such an object. Compaction forgets deleted objects, so an object without any version
    /// was one if its number was used.
    private func wasHere(_ object: ObjectID) throws(StoreError) -> Bool {
        let view = snapshot.view
        guard let layout = view.shape.newestLayout(object.entityNumber), !layout.isReserved else { return false }
        return try view.core.reading { () throws(StoreError) -> Bool in
            if try view.core.rows.newest(object) == 0 {
                return view.totals == nil || object.number < view.nextNumber(of: object.entityNumber)
            }
            return try view.core.newestVersion(object, below: view.end) != 0
        }
    }

    /// The name of an object here. The store is never nil.
    package func name(of object: ObjectID) throws(StoreError) -> ExportedObject {
        let name = try reader.name(of: object)
        return ExportedObject(name.id, of: name.store ?? snapshot.storeIdentifier)
    }

    package func exists(_ object: ObjectID) throws(StoreError) -> Bool { try snapshot.view.contains(object) }

    package func entityName(of object: ObjectID) throws(StoreError) -> String {
        guard let layout = snapshot.view.shape.newestLayout(object.entityNumber) else {
            throw StoreError(.unknownEntity, "The entity of object \(object) was removed.")
        }
        return layout.entity.name.text
    }

    /// All names that lead to an object here, with their stores.
    package func names(of object: ObjectID) throws(StoreError) -> [ExportedObject] {
        var names = try map.names(of: object).map { ExportedObject($0.id, of: $0.store) }
        let own = ExportedObject(object, of: snapshot.storeIdentifier)
        if try map.local(of: ForeignObject(store: snapshot.storeIdentifier, id: object)) == nil,
            try map.foreign(of: object) == nil
        {
            names.append(own)
        }
        return names
    }

    /// The object as an insertion of all its values; nil if it does not exist.
    package func insertion(of object: ObjectID) throws(StoreError) -> ExportedChange? {
        try reader.insertion(of: object)
    }

    /// The existing object with these values in a unique key. References are to objects here.
    ///
    /// - Parameter names: With which this state's names become the given ones.
    package func holder(
        of values: [StoredValue], in entity: String, by attributes: [String], _ names: PresentNames
    ) throws(StoreError) -> ObjectID? {
        let view = snapshot.view
        guard let number = view.catalog.number(ofEntity: entity) ?? number(ofFormerEntity: entity, names),
            let layout = view.shape.newestLayout(number)
        else { return nil }
        let positions = attributes.compactMap { name in
            layout.names.firstIndex { isSameName($0, name) }
                ?? layout.names.firstIndex { isSameName(names.attribute($0, of: entity), name) }
        }
        let numbers = positions.map { layout.entity.attributes[$0].number }
        guard numbers.count == attributes.count,
            let index = view.shape.indexes(of: number).map({ view.shape.indexes[$0].id }).first(where: {
                $0.isUnique && $0.attributes.elementsEqual(numbers)
            })
        else { return nil }
        var key = ByteWriter(capacity: 256)
        try IndexKey.append(values: values, types: positions.map { layout.slots[$0].type }, to: &key)
        return try view.first(index, key: Array(key.bytes))
    }

    private func number(ofFormerEntity entity: String, _ names: PresentNames) -> UInt16? {
        if names.isEmpty { return nil }
        let catalog = snapshot.view.catalog
        return catalog.entities(version: catalog.newestVersion).first { definition in
            isSameName(names.entity(definition.name.text), entity)
        }?.number
    }

    /// The existing objects that refer to an object, with the names of the attributes.
    package func referring(to object: ObjectID) throws(StoreError) -> [(object: ObjectID, attribute: String)] {
        let view = snapshot.view
        var found: [(object: ObjectID, attribute: String)] = []
        for number in view.shape.referring(to: object.entityNumber) {
            let id = view.shape.indexes[number].id
            guard let layout = view.shape.newestLayout(id.entity), !layout.isReserved,
                let position = layout.position(ofAttribute: id.attributes[0])
            else { continue }
            let name = layout.names[position]
            try view.forEachReferring(to: object, index: number) { (referrer) in
                found.append((referrer, name))
                return true
            }
        }
        return found
    }
}
