// The bindings of types that a layout keeps, so that each is made once.

/// The bindings of the types that read and write rows of one layout. Usually one.
///
/// Sound although it is shared: `monitor` guards the variables.
final class LayoutBindings: RowLayoutAttachment, @unchecked Sendable {
    /// The type of the first binding: reading it takes no lock.
    let type: ObjectIdentifier
    let first: EntityBinding
    private let monitor = Monitor()
    private var others: [ObjectIdentifier: EntityBinding] = [:]

    init(_ type: ObjectIdentifier, _ first: EntityBinding) { (self.type, self.first) = (type, first) }

    func binding(_ type: ObjectIdentifier) -> EntityBinding? { monitor.withLock { others[type] } }
    func add(_ binding: EntityBinding, _ type: ObjectIdentifier) { monitor.withLock { others[type] = binding } }
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
        if let known = (attachment as? LayoutBindings)?.binding(key) { return known }
        try E.model.requireValid()
        let made = try EntityBinding(E.model, self, catalog)
        let bindings = attach(LayoutBindings(key, made))
        guard let bindings = bindings as? LayoutBindings, bindings.type != key else { return made }
        bindings.add(made, key)
        return made
    }
}
