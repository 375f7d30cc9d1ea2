// Writes the content of messages: stores, names and shapes are written at their first use, and then named by place.

internal import Annals
internal import FoundationEssentials

/// The bytes of a message, and the things that it contains once.
struct ContentWriter {
    var out: MessageWriter
    private var stores = FirstUse<UUID>()
    private var names = FirstUse<MessageName>()
    private var shapes = FirstUse<[Int]>()
    /// The last shape, and the arrays that had it: most changes have the shape of the one before.
    private var lastShape: (place: Int, entity: String, attributes: [String])?

    init(_ out: MessageWriter) { self.out = out }

    // MARK: Stores and names

    /// A place, or the next free place and then the store.
    mutating func append(store: UUID, plus: Int = 0) {
        if let place = stores.place(of: store) { return out.append(count: place + plus) }
        out.append(count: stores.count + plus)
        out.append(uuid: store)
        stores.append(store)
    }

    /// A place, or the next free place and then the name. Returns the place.
    @discardableResult
    mutating func append(name: String) -> Int {
        let name = MessageName(name)
        if let place = names.place(of: name) {
            out.append(count: place)
            return place
        }
        out.append(count: names.count)
        out.append(text: name.text)
        names.append(name)
        return names.count - 1
    }

    mutating func append(_ vector: VersionVector) {
        out.append(count: vector.entries.count)
        for entry in vector.entries {
            append(store: entry.peer)
            out.append(varint: entry.number)
        }
    }

    mutating func append(_ token: HistoryToken) {
        append(store: token.storeIdentifier)
        out.append(varint: token.number)
        out.append(fixed: token.tag)
    }

    // MARK: Shapes

    /// The place of the shape of a change: the next free one if the shape must be written.
    mutating func shape(of change: ExportedChange) -> Int {
        if let last = lastShape, last.entity.hasSameName(as: change.entity),
            last.attributes.isSameArray(as: change.attributes)
                || last.attributes.elementsEqual(change.attributes, by: { $0.hasSameName(as: $1) })
        {
            return last.place
        }
        let place = places(of: change).flatMap { shapes.place(of: $0) } ?? shapes.count
        lastShape = (place, change.entity, change.attributes)
        return place
    }

    /// The places of the entity's name and the attributes' names; nil if one was not written yet.
    private func places(of change: ExportedChange) -> [Int]? {
        guard let entity = names.place(of: MessageName(change.entity)) else { return nil }
        var places = [entity]
        places.reserveCapacity(change.attributes.count + 1)
        for attribute in change.attributes {
            guard let place = names.place(of: MessageName(attribute)) else { return nil }
            places.append(place)
        }
        return places
    }

    private mutating func appendNewShape(_ change: ExportedChange) {
        var places = [append(name: change.entity)]
        places.reserveCapacity(change.attributes.count + 1)
        out.append(count: change.attributes.count)
        for attribute in change.attributes { places.append(append(name: attribute)) }
        shapes.append(places)
    }

    // MARK: Changes

    mutating func append(_ changes: [ExportedChange]) {
        out.append(count: changes.count)
        for change in changes { append(change) }
    }

    private mutating func append(_ change: ExportedChange) {
        precondition(
            change.values.count == change.attributes.count
                && change.before.map({ $0.count == change.attributes.count }) ?? true,
            "A change has one value for each attribute.")
        let place = shape(of: change)
        let kind: UInt64 =
            switch change.kind {
            case .insert: 0
            case .update: 1
            case .delete: 2
            }
        out.append(varint: UInt64(place) << 3 | (change.before == nil ? 0 : 4) | kind)
        if place == shapes.count { appendNewShape(change) }
        append(change.object)
        for value in change.values { append(value) }
        if let before = change.before { for value in before { append(value) } }
    }

    mutating func append(_ object: ExportedObject) {
        if let store = object.store { append(store: store, plus: 1) } else { out.append(0) }
        out.append(varint: UInt64(object.id.entityNumber))
        out.append(varint: object.id.number)
    }

    private mutating func append(_ objects: [ExportedObject]) {
        out.append(count: objects.count)
        for object in objects { append(object) }
    }

    // MARK: Values

    private mutating func append(_ value: ExportedValue) {
        switch value.content {
        case .plain(let value): append(value)
        case .object(let object):
            out.append(ValueTag.object)
            append(object)
        case .orderedObjects(let objects):
            out.append(ValueTag.orderedObjects)
            append(objects)
        case .objects(let objects):
            out.append(ValueTag.objects)
            append(objects)
        }
    }

    private mutating func append(_ value: StoredValue) {
        switch value {
        case .absent: out.append(ValueTag.null)
        case .bool(let bool): out.append(bool ? ValueTag.yes : ValueTag.no)
        case .int(let int):
            out.append(ValueTag.int)
            out.append(signed: int)
        case .double(let double):
            out.append(ValueTag.double)
            out.append(fixed: double.bitPattern)
        case .date(let seconds):
            out.append(ValueTag.date)
            out.append(fixed: seconds.bitPattern)
        case .string(let text):
            out.append(ValueTag.string)
            out.append(text: text)
        case .json(let text):
            out.append(ValueTag.json)
            out.append(text: text)
        case .data(let bytes):
            out.append(ValueTag.data)
            out.append(count: bytes.count)
            out.append(bytes)
        case .uuid(let uuid):
            out.append(ValueTag.uuid)
            out.append(fixed: uuid.high.byteSwapped)
            out.append(fixed: uuid.low.byteSwapped)
        case .decimal(let decimal): append(decimal)
        case .object, .orderedObjects, .objects, .large:
            preconditionFailure("An exported value names objects by their stores, and is whole.")
        }
    }

    private mutating func append(_ decimal: DecimalValue) {
        out.append(ValueTag.decimal)
        out.append(decimal.decimalClass)
        out.append(signed: Int64(decimal.exponent))
        out.append(varint: decimal.low)
        out.append(varint: decimal.high)
    }

    /// A default value. Its objects are those of the exporting store.
    mutating func append(default value: Value) throws(StoreError) {
        func named(_ objects: [ObjectID]) -> [ExportedObject] { objects.map { ExportedObject($0) } }
        switch try value.storedValue() {
        case .object(let object): append(ExportedValue(.object(ExportedObject(object))))
        case .orderedObjects(let objects): append(ExportedValue(.orderedObjects(named(objects))))
        case .objects(let objects): append(ExportedValue(.objects(named(objects))))
        case let plain: append(plain)
        }
    }
}

extension String {
    @inline(__always)
    fileprivate func hasSameName(as other: String) -> Bool { MessageName(self) == MessageName(other) }
}

extension [String] {
    /// Whether both are one array in memory. False may be wrong. Sound: the addresses are only compared.
    fileprivate func isSameArray(as other: [String]) -> Bool {
        count == other.count
            && withUnsafeBufferPointer { mine in
                other.withUnsafeBufferPointer { others in mine.baseAddress == others.baseAddress }
            }
    }
}
