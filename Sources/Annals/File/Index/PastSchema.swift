// An older version of a schema, for reading its rows in terms of the newest one.

/// Results computed once for one older version of a schema. The states and changes of that version share them.
///
/// Sound although it is shared: `monitor` guards the variables.
final class PastSchema: @unchecked Sendable {
    /// The newest version at the time of creation.
    private let newest: StoreShape
    let version: UInt16
    private let monitor = Monitor()
    private var made: StoreShape?
    private var attachments: [AttachmentKey: RowLayoutAttachment] = [:]

    private struct AttachmentKey: Hashable {
        let type: ObjectIdentifier
        let entity: UInt16
    }

    init(_ newest: StoreShape, version: UInt16) { (self.newest, self.version) = (newest, version) }

    /// The shape for reading rows of the version in terms of the newest schema.
    var present: StoreShape {
        if version >= newest.catalog.newestVersion { return newest }
        return monitor.withLock {
            if let made { return made }
            let shape = StoreShape(newest.catalog.presenting(version: version))
            made = shape
            return shape
        }
    }

    /// The layout of an entity's rows in the version itself.
    func layout(ofEntity number: UInt16) -> RowLayout? { newest.catalog.layout(version: version, entity: number) }

    /// The object of a layer above for a type and an entity. Made once.
    func attachment<Attached: RowLayoutAttachment>(
        _ type: ObjectIdentifier, _ entity: UInt16, _ make: () -> Attached
    ) -> Attached {
        let key = AttachmentKey(type: type, entity: entity)
        if let known = monitor.withLock({ attachments[key] }) as? Attached { return known }
        let made = make()
        monitor.withLock { attachments[key] = made }
        return made
    }
}
