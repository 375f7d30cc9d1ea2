// A transaction in the form in which it is merged: every object by its name in the group.

package import Annals
package import FoundationEssentials

/// A value of an attribute. References are to objects of the group.
package enum MergeValue: Hashable, Sendable {
    case null
    /// Any value but null and references.
    case plain(ExportedValue)
    case object(GroupObject)
    case ordered([GroupObject])
    case objects(Set<GroupObject>)

    /// A value that is no reference. Null if a store cannot keep it.
    package init(_ value: Value) {
        let stored = try? value.storedValue()
        self = stored.flatMap { $0 == .absent ? nil : .plain(ExportedValue(.plain($0))) } ?? .null
    }

    package init(_ value: ExportedValue, from exporter: UUID) {
        let objects = value.objects.map { GroupObject($0, from: exporter) }
        switch value.type {
        case nil: self = .null
        case .object?: self = objects.first.map { .object($0) } ?? .null
        case .orderedObjects?: self = .ordered(objects)
        case .objects?: self = .objects(Set(objects))
        default: self = .plain(value)
        }
    }

    package var references: [GroupObject] {
        switch self {
        case .null, .plain: []
        case .object(let object): [object]
        case .ordered(let objects): objects
        case .objects(let objects): objects.sorted()
        }
    }

    /// The same with other names, without those that have none. A list names each object once.
    package func mapped(_ name: (GroupObject) -> GroupObject?) -> MergeValue {
        switch self {
        case .null, .plain: return self
        case .object(let object): return name(object).map { .object($0) } ?? .null
        case .ordered(let objects):
            var seen: Set<GroupObject> = []
            return .ordered(objects.compactMap(name).filter { seen.insert($0).inserted })
        case .objects(let objects): return .objects(Set(objects.compactMap(name)))
        }
    }
}

/// A transaction's change of one object.
package struct MergeChange: Hashable, Sendable {
    package enum Kind: Hashable, Sendable { case insert, update, delete }

    package var kind: Kind
    package var object: GroupObject
    package var entity: String
    /// All attributes of an insertion, the written ones of an update, none of a deletion.
    package var values: [String: MergeValue]

    package init(_ kind: Kind, _ object: GroupObject, _ entity: String, _ values: [String: MergeValue] = [:]) {
        (self.kind, self.object, self.entity, self.values) = (kind, object, entity, values)
    }

    /// - Parameter exporter: The store of names without one.
    init(_ change: ExportedChange, from exporter: UUID) {
        switch change.kind {
        case .insert: kind = .insert
        case .update: kind = .update
        case .delete: kind = .delete
        }
        (object, entity) = (GroupObject(change.object, from: exporter), change.entity)
        values = [:]
        for (attribute, value) in zip(change.attributes, change.values) {
            values[attribute] = MergeValue(value, from: exporter)
        }
    }
}

package struct MergeTransaction: Hashable, Sendable {
    package var stamp: Stamp
    package var changes: [MergeChange]

    package init(_ stamp: Stamp, _ changes: [MergeChange]) { (self.stamp, self.changes) = (stamp, changes) }

    package init(_ stamp: Stamp, _ exported: ExportedTransaction) {
        self.stamp = stamp
        changes = exported.changes.map { MergeChange($0, from: exported.store) }
    }

    /// The names of all objects that it changes or refers to.
    var names: Set<GroupObject> {
        var names: Set<GroupObject> = []
        for change in changes {
            names.insert(change.object)
            for value in change.values.values { names.formUnion(value.references) }
        }
        return names
    }
}
