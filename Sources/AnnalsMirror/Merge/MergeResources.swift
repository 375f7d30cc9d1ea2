// What a transaction reads and changes, as far as other transactions can affect it.

internal import Annals

/// Something that connects two transactions if one of them changes it.
package enum MergeResource: Hashable, Sendable {
    /// Whether an object exists, and the object that a name leads to. Who refers to an object reads this.
    case object(GroupObject)
    /// The values of an object.
    case content(GroupObject)
    /// A value of one attribute of a unique key. Objects with equal keys have equal values in each attribute.
    case key(MergeSchema.Key, attribute: String, MergeState.KeyValue.Part)

    var object: GroupObject? {
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

    func subtracting(_ other: MergeResources) -> MergeResources {
        var rest = self
        rest.changed.subtract(other.changed)
        rest.read.subtract(other.read)
        rest.read.subtract(other.changed)
        return rest
    }

    mutating func addExistence(of name: GroupObject) { changed.formUnion([.object(name), .content(name)]) }

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
        if before == nil || after == nil { resources.addExistence(of: name) }
        var attributes = Set(either.values.keys)
        if after != nil, let before { attributes.formUnion(before.values.keys) }
        for attribute in attributes {
            let (old, new) = (before?[attribute] ?? .null, after?[attribute] ?? .null)
            if old == new { continue }
            resources.addContent(of: name)
            for value in [old, new] {
                for target in value.references { resources.read.insert(.object(self.name(target))) }
                guard let part = KeyValue.Part(value) else { continue }
                for key in schema.keys(of: either.entity) where key.attributes.contains(attribute) {
                    resources.changed.insert(.key(key, attribute: attribute, part))
                }
            }
        }
        return resources
    }

    /// The resources that a transaction names, whether it can be applied or not.
    package func stated(by transaction: MergeTransaction) -> MergeResources {
        var resources = MergeResources()
        for change in transaction.changes {
            for name in [change.object, name(change.object)] {
                if change.kind == .update {
                    resources.addContent(of: name)
                } else {
                    resources.addExistence(of: name)
                }
            }
            for value in change.values.values {
                for target in value.references {
                    resources.read.formUnion([.object(target), .object(name(target))])
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
