// The equality and the identity of objects.
//
// A property of an entity may have the name of a member that a protocol requires: `id`, `hash`, `hashValue`. It must
// win over that member. The compiler looks for dynamic members only if it finds no other member, or only members that
// come from conformances under a condition. Then it prefers the candidate that is not disfavored.
//
// Invariants:
// ON1  `Object` conforms to a protocol with properties or methods only under a condition that is true for every entity,
//      and that the compiler cannot leave out: `E._ObjectForm == _PlainObject`.
// ON2  Each member that such a protocol requires, or has by itself, is disfavored. For `id`, the standard library has a
//      member for all classes, which is not. So this module has the same one, which hides it.
// ON3  Key paths of dynamic members are taken as `KeyPath`, not as `any KeyPath & Sendable`. The compiler ranks the
//      conversion below members of other types, among them the `description` of the variables in predicates.
// ON4  A property that is a reference is also a dynamic member of the type `Reference`. So the members of `Reference`
//      are disfavored, too.

// The condition is always true: ON1.
extension Object: Equatable where E._ObjectForm == _PlainObject {
    /// Whether both are the same object. A context has one object for each ID. The objects in a predicate over a
    /// snapshot are the same if their references are.
    public static func == (left: Object, right: Object) -> Bool {
        if left === right { return true }
        return left.source === right.source && left.source.makesObjectsAgain && left.reference == right.reference
    }
}

extension Object: Hashable where E._ObjectForm == _PlainObject {
    /// Objects are hashed by identity: an object keeps its hash when it is saved.
    @_disfavoredOverload public func hash(into hasher: inout Hasher) { hasher.combine(firstID) }

    /// The hash of the object's identity.
    @_disfavoredOverload public var hashValue: Int {
        var hasher = Hasher()
        hash(into: &hasher)
        return hasher.finalize()
    }
}

/// Objects are identified by identity: `id` is the same as long as the object is held, also when it is saved.
extension Object: Identifiable where E._ObjectForm == _PlainObject {
    public typealias ID = ObjectIdentifier
}

extension Identifiable where Self: AnyObject {
    /// The identity of the object, as the standard library has it. It is here so that a property `id` of an entity
    /// wins over it (ON2).
    @_disfavoredOverload @_alwaysEmitIntoClient public var id: ObjectIdentifier { ObjectIdentifier(self) }
}
