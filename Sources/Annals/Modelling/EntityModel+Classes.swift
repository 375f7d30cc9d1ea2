// The generic classes of an entity, kept in its model: the runtime looks one up in more instructions than an object of
// it is allocated in.
//
// Invariants:
// EK1  A class is kept under one name only, and by the model of its own entity.

internal import Synchronization

/// A generic class of one entity.
enum EntityClass: Int {
    case object, savedValue, saveItem, sentObject
}

/// The classes of one entity that were used before.
///
/// Sound although the classes are kept as addresses: no class is ever released.
struct EntityClasses: ~Copyable {
    private let known = InlineArray<4, Atomic<UInt>> { _ in Atomic(0) }

    /// The class with this name. `type` looks it up at its first use (EK1).
    @inline(__always)
    func find<Class: AnyObject>(_ name: EntityClass, _ type: @autoclosure () -> Class.Type) -> Class.Type {
        let address = known[name.rawValue].load(ordering: .acquiring)
        if address != 0 {
            assert(unsafeBitCast(address, to: AnyClass.self) == type(), "EK1: another class has this name.")
            return unsafeBitCast(address, to: Class.Type.self)
        }
        let type = type()
        known[name.rawValue].store(unsafeBitCast(type, to: UInt.self), ordering: .releasing)
        return type
    }
}

extension EntityModel {
    /// An object of this type whose properties are not read yet.
    func object<E: Entity>(_ reference: Reference<E>, _ source: ObjectSource) -> Object<E> {
        classes.find(.object, Object<E>.self)
            .init(reference, source, like: initial.assumingMemoryBound(to: E.self))
    }

    /// An object of this type with these properties.
    func object<E: Entity>(_ reference: Reference<E>, _ value: E, _ source: ObjectSource) -> Object<E> {
        classes.find(.object, Object<E>.self).init(reference, value, source)
    }

    /// An object as one of this type, if it is one.
    @inline(__always)
    func cast<E: Entity>(_ object: AnyObject, to entity: E.Type) -> Object<E>? {
        guard Swift.type(of: object) == classes.find(.object, Object<E>.self) as AnyClass else { return nil }
        return unsafeDowncast(object, to: Object<E>.self)
    }

    /// A value of this type after one reference.
    func saved<E: Entity>(_ value: E) -> SavedValue<E> {
        classes.find(.savedValue, SavedValue<E>.self).init(keeping: value)
    }
}
