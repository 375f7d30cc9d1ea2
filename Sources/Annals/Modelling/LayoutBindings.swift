// The bindings of types that a layout keeps, so that each is made once.

/// The bindings of the types that read and write rows of one layout. Usually one.
///
/// Sound although it is shared: `monitor` guards the variables.
final class LayoutBindings: RowLayoutAttachment, @unchecked Sendable {
    /// The type of the first binding: reading it takes no lock.
    let type: ObjectIdentifier
    let first: EntityBinding
    private let monitor = Monitor()
    private var others: [Key: EntityBinding] = [:]

    /// A layout may be that of several schema versions. In which of its attributes a former name is found depends on
    /// what was renamed before.
    private struct Key: Hashable {
        let type: ObjectIdentifier
        var version: UInt16?
    }

    init(_ type: ObjectIdentifier, _ first: EntityBinding) { (self.type, self.first) = (type, first) }

    func binding(_ type: ObjectIdentifier, _ version: UInt16) -> EntityBinding? {
        monitor.withLock { others[Key(type: type)] ?? others[Key(type: type, version: version)] }
    }

    func add(_ binding: EntityBinding, _ type: ObjectIdentifier, _ version: UInt16) {
        let key = Key(type: type, version: binding.usesFormerNames ? version : nil)
        monitor.withLock { others[key] = binding }
    }
}

extension RowLayout {
    /// The binding of a type to rows of this layout. Throws `modelInvalid`, `schemaMismatch`.
    @inline(__always)
    func binding<E: Entity>(
        _ type: E.Type, _ catalog: @autoclosure () -> SchemaCatalog
    ) throws(StoreError) -> EntityBinding {
        let key = ObjectIdentifier(type)
        if let attached = attachment {
            // Nothing else is ever attached.
            let bindings = unsafeDowncast(attached, to: LayoutBindings.self)
            if bindings.type == key { return bindings.first }
        }
        return try newBinding(type, key, catalog())
    }

    @inline(never)
    private func newBinding<E: Entity>(
        _ type: E.Type, _ key: ObjectIdentifier, _ catalog: SchemaCatalog
    ) throws(StoreError) -> EntityBinding {
        let version = catalog.newestVersion
        if let known = (attachment as? LayoutBindings)?.binding(key, version) { return known }
        try E.model.requireValid()
        let made = try EntityBinding(E.model, self, catalog)
        // The first binding is that of any version.
        let first = made.usesFormerNames ? ObjectIdentifier(Never.self) : key
        guard let bindings = attach(LayoutBindings(first, made)) as? LayoutBindings, bindings.type != key else {
            return made
        }
        bindings.add(made, key, version)
        return made
    }
}
