// Reads the content of messages. Stores, names and shapes are written once. A second copy of one is malformed, so that
// each content has one form only.

internal import Annals
internal import FoundationEssentials

/// A reading position, and the things that were read before.
struct ContentReader {
    var input: MessageReader
    private var stores = FirstUse<UUID>()
    private var names = FirstUse<MessageName>()
    private var shapes = FirstUse<[Int]>()
    private var shapeNames: [(entity: String, attributes: [String])] = []

    init(_ input: MessageReader) { self.input = input }

    // MARK: Stores and names

    mutating func readStore() throws(StoreError) -> UUID { try store(at: try input.readVarint()) }

    private mutating func store(at place: UInt64) throws(StoreError) -> UUID {
        if place < UInt64(stores.count) { return stores[Int(place)] }
        guard place == UInt64(stores.count) else { throw input.malformed("it names a store that it does not have") }
        let store = try input.readUUID()
        guard stores.place(of: store) == nil else { throw input.malformed("it has a store twice") }
        stores.append(store)
        return store
    }

    mutating func readName() throws(StoreError) -> String {
        let place = try readNamePlace()
        return names[place].text
    }

    private mutating func readNamePlace() throws(StoreError) -> Int {
        let place = try input.readVarint()
        if place < UInt64(names.count) { return Int(place) }
        guard place == UInt64(names.count) else { throw input.malformed("it uses a name that it does not have") }
        let name = MessageName(try input.readText())
        guard names.place(of: name) == nil else { throw input.malformed("it has a name twice") }
        names.append(name)
        return names.count - 1
    }

    mutating func readVector() throws(StoreError) -> VersionVector {
        let count = try input.readCount(ofAtLeast: 2)
        var entries: [VersionVector.Entry] = []
        entries.reserveCapacity(count)
        for _ in 0..<count {
            entries.append(VersionVector.Entry(peer: try readStore(), number: try input.readVarint()))
        }
        guard let vector = VersionVector(ascending: entries) else {
            throw input.malformed("the peers of a version vector are not in order, or a number is 0")
        }
        return vector
    }

    mutating func readToken() throws(StoreError) -> HistoryToken {
        HistoryToken(
            storeIdentifier: try readStore(), number: try input.readVarint(), tag: try input.readFixed(UInt64.self))
    }

    /// A byte that is 0 or 1.
    mutating func readFlag() throws(StoreError) -> Bool {
        let byte = try input.readByte()
        guard byte <= 1 else { throw StoreError.newerMessage("has a flag with the value \(byte)") }
        return byte == 1
    }

    // MARK: Changes

    mutating func readChanges() throws(StoreError) -> [ExportedChange] {
        // The shape, and the object's store, entity and number.
        let count = try input.readCount(ofAtLeast: 4)
        var changes: [ExportedChange] = []
        changes.reserveCapacity(count)
        for _ in 0..<count { changes.append(try readChange()) }
        return changes
    }

    private mutating func readChange() throws(StoreError) -> ExportedChange {
        let head = try input.readVarint()
        let kind: HistoryChange.Kind
        switch head & 3 {
        case 0: kind = .insert
        case 1: kind = .update
        case 2: kind = .delete
        default: throw StoreError.newerMessage("has a kind of change")
        }
        let place = try shape(at: head >> 3)
        let object = try readObject()
        let attributes = shapeNames[place].attributes
        let values = try readValues(attributes.count)
        let before = head & 4 == 0 ? nil : try readValues(attributes.count)
        return ExportedChange(
            kind: kind, object: object, entity: shapeNames[place].entity, attributes: attributes, values: values,
            before: before)
    }

    private mutating func shape(at place: UInt64) throws(StoreError) -> Int {
        if place < UInt64(shapes.count) { return Int(place) }
        guard place == UInt64(shapes.count) else { throw input.malformed("it uses a shape that it does not have") }
        let entity = try readNamePlace()
        let count = try input.readCount(ofAtLeast: 1)
        var places = [entity]
        places.reserveCapacity(count + 1)
        for _ in 0..<count { places.append(try readNamePlace()) }
        guard shapes.place(of: places) == nil else { throw input.malformed("it has a shape twice") }
        shapes.append(places)
        shapeNames.append((names[entity].text, places.dropFirst().map { names[$0].text }))
        return shapes.count - 1
    }

    mutating func readObject() throws(StoreError) -> ExportedObject {
        let place = try input.readVarint()
        let store = place == 0 ? nil : try store(at: place - 1)
        let (entity, number) = (try input.readVarint(), try input.readVarint())
        guard let entity = UInt16(exactly: entity), let id = ObjectID(entityNumber: entity, number: number) else {
            throw input.malformed("an object ID is impossible")
        }
        return ExportedObject(id, of: store)
    }

    private mutating func readObjects() throws(StoreError) -> [ExportedObject] {
        let count = try input.readCount(ofAtLeast: 3)
        var objects: [ExportedObject] = []
        objects.reserveCapacity(count)
        for _ in 0..<count { objects.append(try readObject()) }
        return objects
    }

    // MARK: Values

    private mutating func readValues(_ count: Int) throws(StoreError) -> [ExportedValue] {
        guard count <= input.remaining else { throw input.malformed("it has fewer values than attributes") }
        var values: [ExportedValue] = []
        values.reserveCapacity(count)
        for _ in 0..<count { values.append(ExportedValue(try readContent())) }
        return values
    }

    private mutating func readContent() throws(StoreError) -> ExportedValue.Content {
        let tag = try input.readByte()
        switch tag {
        case ValueTag.null: return .plain(.absent)
        case ValueTag.no: return .plain(.bool(false))
        case ValueTag.yes: return .plain(.bool(true))
        case ValueTag.int: return .plain(.int(try input.readSigned()))
        case ValueTag.double: return .plain(.double(Double(bitPattern: try input.readFixed(UInt64.self))))
        case ValueTag.date: return .plain(.date(Double(bitPattern: try input.readFixed(UInt64.self))))
        case ValueTag.string: return .plain(.string(try input.readText()))
        case ValueTag.json: return .plain(.json(try input.readText()))
        case ValueTag.data: return .plain(.data(try input.readData()))
        case ValueTag.uuid:
            let high = try input.readFixed(UInt64.self).byteSwapped
            return .plain(.uuid(UUIDBytes(high: high, low: try input.readFixed(UInt64.self).byteSwapped)))
        case ValueTag.decimal: return .plain(.decimal(try readDecimal()))
        case ValueTag.object: return .object(try readObject())
        case ValueTag.orderedObjects: return .orderedObjects(try readObjects())
        case ValueTag.objects: return .objects(try readObjects())
        default: throw StoreError.newerMessage("has a value of type \(tag)")
        }
    }

    private mutating func readDecimal() throws(StoreError) -> DecimalValue {
        let kind = try input.readByte()
        let exponent = try input.readSigned()
        let (low, high) = (try input.readVarint(), try input.readVarint())
        let read = DecimalValue(
            isNegative: kind == 1, mantissa: UInt128(high) << 64 | UInt128(low), exponent: Int(exponent))
        let decimal = kind == DecimalValue.notANumber.decimalClass ? DecimalValue.notANumber : read
        // A decimal has one form: any other one changes when it is made.
        guard let decimal, decimal.decimalClass == kind, Int64(decimal.exponent) == exponent, decimal.low == low,
            decimal.high == high
        else { throw input.malformed("a decimal is impossible, or not in its only form") }
        return decimal
    }

    mutating func readDefault() throws(StoreError) -> Value {
        func own(_ objects: [ExportedObject]) throws(StoreError) -> [ObjectID] {
            guard objects.allSatisfy({ $0.store == nil }) else {
                throw input.malformed("a default value names an object of another store")
            }
            return objects.map(\.id)
        }
        let stored: StoredValue
        switch try readContent() {
        case .plain(let value): stored = value
        case .object(let object): stored = .object(try own([object])[0])
        case .orderedObjects(let objects): stored = .orderedObjects(try own(objects))
        case .objects(let objects):
            stored = .objects(try own(objects))
            guard ObjectList.isStrictlyAscending(try own(objects)) else {
                throw input.malformed("a set of objects is not in order")
            }
        }
        guard let value = try? Value(stored), try value.storedValue() == stored else {
            throw input.malformed("a default value is impossible")
        }
        return value
    }
}
