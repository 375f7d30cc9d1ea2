// An object in one state of a store, with its properties and what it refers to.

internal import FoundationEssentials

/// An object of a snapshot, read when a property is first asked for. Predicates are over it: `$0.folder?.name == "x"`.
///
/// A property that refers to an object gives that object, one that refers to several gives all of them, and so does the
/// other side of a relationship. All of them are read in the same state.
@dynamicMemberLookup
public final class Object<E: Entity> {
    /// The object's reference.
    public let reference: Reference<E>
    private let source: ObjectSource
    private var loaded: E?

    init(_ reference: Reference<E>, _ source: ObjectSource) {
        self.reference = reference
        self.source = source
    }

    init(_ reference: Reference<E>, _ value: E, _ source: ObjectSource) {
        self.reference = reference
        self.source = source
        loaded = value
    }

    /// The properties as they are stored; initial values if the object cannot be read, which `ObjectSource` notes.
    private var value: E {
        if let loaded { return loaded }
        let value = source.value(reference) ?? E()
        loaded = value
        return value
    }

    /// The value of a property.
    public subscript<V>(dynamicMember path: any KeyPath<E, V> & Sendable) -> V {
        source.probe?.note(MemoryLayout<E>.offset(of: path))
        return value[keyPath: path]
    }

    /// The object that a property refers to; nil if it refers to none.
    public subscript<T: Entity>(dynamicMember path: any KeyPath<E, Reference<T>?> & Sendable) -> Object<T>? {
        source.probe?.note(MemoryLayout<E>.offset(of: path))
        return value[keyPath: path].map { Object<T>($0, source) }
    }

    /// The objects that a property refers to, in their order.
    public subscript<T: Entity>(dynamicMember path: any KeyPath<E, [Reference<T>]> & Sendable) -> [Object<T>] {
        source.probe?.note(MemoryLayout<E>.offset(of: path))
        return value[keyPath: path].map { Object<T>($0, source) }
    }

    /// The objects that a property refers to, in the order in which they were inserted.
    public subscript<T: Entity>(dynamicMember path: any KeyPath<E, Set<Reference<T>>> & Sendable) -> [Object<T>] {
        source.probe?.note(MemoryLayout<E>.offset(of: path))
        return value[keyPath: path].sorted().map { Object<T>($0, source) }
    }

    /// The objects that refer to this one, in the order in which they were inserted.
    public subscript<T: Entity>(dynamicMember path: any KeyPath<E, ToMany<T>> & Sendable) -> [Object<T>] {
        let offset = MemoryLayout<E>.offset(of: path)
        source.probe?.note(offset)
        return source.referring(to: reference, E.self, offset).map { Object<T>(Reference($0), source) }
    }
}

/// Where objects are read from. Notes the first error, because properties cannot throw.
class ObjectSource {
    private(set) var failure: StoreError?
    /// Set while key paths are looked at instead of objects.
    fileprivate(set) var probe: PathProbe?

    func note(_ error: StoreError) { if failure == nil { failure = error } }

    func value<E: Entity>(_ reference: Reference<E>) -> E? { nil }

    func referring<E: Entity>(to reference: Reference<E>, _ type: E.Type, _ offset: Int?) -> [ObjectID] { [] }
}

/// Finds out which property a key path of objects leads to, by following it.
final class PathProbe: ObjectSource {
    private(set) var offset: Int?
    private(set) var isFollowed = false

    override init() {
        super.init()
        probe = self
    }

    fileprivate func note(_ offset: Int?) {
        self.offset = offset
        isFollowed = true
    }

    /// Where in a value the property is that a key path of objects leads to; nil for everything else.
    static func offset<E: Entity>(_ path: AnyKeyPath, _ type: E.Type) -> Int? {
        guard let path = path as? PartialKeyPath<Object<E>> else { return nil }
        let probe = PathProbe()
        defer { probe.probe = nil }
        guard let nobody = ObjectID(rawValue: 1 << 48 | 1) else { return nil }
        _ = Object<E>(Reference(nobody), E(), probe)[keyPath: path]
        return probe.isFollowed ? probe.offset : nil
    }
}

/// Reads objects of a snapshot.
final class SnapshotSource: ObjectSource {
    private let snapshot: Snapshot

    init(_ snapshot: Snapshot) { self.snapshot = snapshot }

    override func value<E: Entity>(_ reference: Reference<E>) -> E? {
        do throws(StoreError) { return try snapshot.value(reference) } catch { note(error) }
        return nil
    }

    override func referring<E: Entity>(to reference: Reference<E>, _ type: E.Type, _ offset: Int?) -> [ObjectID] {
        do throws(StoreError) { return try snapshot.referring(to: reference, offset) } catch { note(error) }
        return []
    }
}
