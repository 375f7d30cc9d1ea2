// The things that a transaction reads and changes, and that connect it with other transactions.

internal import Annals

/// Something that connects two transactions if one of them changes it.
package enum MergeResource: Hashable, Sendable {
    /// Whether an object exists, and the object that a name leads to. A reference to an object reads this.
    case object(GroupObject)
    /// The values of an object.
    case content(GroupObject)
    /// A value of one attribute of a unique key. Objects with equal keys have equal values in each attribute.
    case key(MergeSchema.Key, attribute: String, MergeState.KeyValue.Part)

    package var object: GroupObject? {
        switch self {
        case .object(let name), .content(let name): name
        case .key: nil
        }
    }
}

package struct MergeResources: Hashable, Sendable {
    /// Objects that must exist, or must not.
    package var read: Set<MergeResource> = []
    /// Everything that is written, or was to be written. To read values or keys counts as this, too.
    package var changed: Set<MergeResource> = []

    package init() {}

    package mutating func formUnion(_ other: MergeResources) {
        read.formUnion(other.read)
        changed.formUnion(other.changed)
    }

    package func union(_ other: MergeResources) -> MergeResources {
        var union = self
        union.formUnion(other)
        return union
    }

    fileprivate mutating func add(_ kind: MergeChange.Kind, _ name: GroupObject) {
        if kind == .update { addContent(of: name) } else { addExistence(of: name) }
    }

    mutating func addExistence(of name: GroupObject) {
        changed.insert(.object(name))
        changed.insert(.content(name))
    }

    mutating func addContent(of name: GroupObject) {
        read.insert(.object(name))
        changed.insert(.content(name))
    }
}

extension MergeState {
    /// The resources of the change from one content of an object to another; nil for an object that does not exist.
    package func resources(
        of name: GroupObject, from before: MergeObject?, to after: MergeObject?
    ) -> MergeResources {
        var resources = MergeResources()
        guard let either = after ?? before else { return resources }
        let keys = schema.keys(of: either.entity)
        var isDifferent = false
        func note(_ attribute: String, _ old: MergeValue?, _ new: MergeValue?) {
            if old == new { return }
            isDifferent = true
            for value in [old, new].compactMap(\.self) {
                for target in value.references { resources.read.insert(.object(self.name(target))) }
                for key in keys where key.attributes.contains(attribute) {
                    guard let part = KeyValue.Part(value) else { continue }
                    resources.changed.insert(.key(key, attribute: attribute, part))
                }
            }
        }
        for (attribute, new) in after?.values ?? [:] { note(attribute, before?.values[attribute], new) }
        for (attribute, old) in before?.values ?? [:] where after?.values[attribute] == nil {
            note(attribute, old, nil)
        }
        if before == nil || after == nil {
            resources.addExistence(of: name)
        } else if isDifferent {
            resources.addContent(of: name)
        }
        return resources
    }

    /// The resources that a transaction names, whether it can be applied or not.
    package func stated(by transaction: MergeTransaction) -> MergeResources {
        var resources = MergeResources()
        for change in transaction.changes {
            resources.add(change.kind, change.object)
            let main = name(change.object)
            if main != change.object { resources.add(change.kind, main) }
            for value in change.values.values {
                for target in value.references {
                    resources.read.insert(.object(target))
                    resources.read.insert(.object(name(target)))
                }
            }
            for key in schema.keys(of: change.entity) {
                for attribute in key.attributes {
                    guard let part = change.values[attribute].flatMap(KeyValue.Part.init) else { continue }
                    resources.changed.insert(.key(key, attribute: attribute, part))
                }
            }
        }
        return resources
    }
}
