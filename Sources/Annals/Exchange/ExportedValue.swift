// Exported values: every bit of a value, with names of objects that other stores understand.

public import FoundationEssentials

/// A name of an object that every store understands: the store in which it was first inserted, and its ID there.
///
/// The text form is that of the ID, such as `1:42`. If the object was not first inserted in the exporting store, `@`
/// and the identifier of its store follow.
public struct ExportedObject: Hashable, Sendable {
    /// The store in which it was first inserted; nil for the exporting store.
    public let store: UUID?
    /// Its ID there.
    public let id: ObjectID

    /// Creates the name of the object with that ID in a store; nil for the exporting store.
    public init(_ id: ObjectID, of store: UUID? = nil) {
        self.id = id
        self.store = store
    }
}

extension ExportedObject: LosslessStringConvertible {
    public var description: String { store.map { "\(id)@\($0)" } ?? id.description }

    /// Creates a name from its text form. Nil for any other text.
    public init?(_ description: String) {
        let parts = description.split(separator: "@", omittingEmptySubsequences: false)
        guard let first = parts.first, parts.count <= 2, let id = ObjectID(String(first)) else { return nil }
        guard parts.count == 2 else {
            self.init(id)
            return
        }
        guard let store = UUID(uuidString: String(parts[1])) else { return nil }
        self.init(id, of: store)
    }
}

/// A value of an exported object. Two values are equal if a store would keep the same bytes for them.
public struct ExportedValue: Sendable {
    package enum Content: Sendable {
        /// All values but references.
        case plain(StoredValue)
        case object(ExportedObject)
        case orderedObjects([ExportedObject])
        case objects([ExportedObject])
    }

    package let content: Content

    package init(_ content: Content) { self.content = content }

    static let absent = ExportedValue(.plain(.absent))

    /// The type of attribute that this value fits; nil if it is absent.
    public var type: AttributeType? {
        switch content {
        case .plain(.absent), .plain(.large): nil
        case .plain(.bool): .bool
        case .plain(.int): .int
        case .plain(.double): .double
        case .plain(.string): .string
        case .plain(.data): .data
        case .plain(.date): .date
        case .plain(.uuid): .uuid
        case .plain(.decimal): .decimal
        case .plain(.json): .json
        case .object, .plain(.object): .object
        case .orderedObjects, .plain(.orderedObjects): .orderedObjects
        case .objects, .plain(.objects): .objects
        }
    }

    /// The value. Nil if it refers to objects, and for a decimal that `Decimal` cannot represent.
    public var value: Value? {
        guard case .plain(let value) = content else { return nil }
        return try? Value(value)
    }

    /// The objects that it refers to.
    public var objects: [ExportedObject] {
        switch content {
        case .plain: []
        case .object(let object): [object]
        case .orderedObjects(let objects), .objects(let objects): objects
        }
    }
}

extension ExportedValue: Hashable {
    public static func == (left: ExportedValue, right: ExportedValue) -> Bool {
        switch (left.content, right.content) {
        case (.plain(let a), .plain(let b)): a == b
        case (.object(let a), .object(let b)): a == b
        case (.orderedObjects(let a), .orderedObjects(let b)), (.objects(let a), .objects(let b)): a == b
        default: false
        }
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(type)
        guard case .plain(let value) = content else { return hasher.combine(objects) }
        switch value {
        case .bool(let bool): hasher.combine(bool)
        case .int(let int): hasher.combine(int)
        case .double(let double), .date(let double): hasher.combine(double.bitPattern)
        case .string(let text), .json(let text): hasher.combine(IdentifierName(text))
        case .data(let bytes): hasher.combine(bytes)
        case .uuid(let uuid): hasher.combine(uuid)
        case .decimal(let decimal): hasher.combine(decimal)
        default: break
        }
    }
}

// MARK: JSON
//
// | type | form |
// |---|---|
// | none | `null` |
// | bool, string | `true`, `"text"` |
// | int | `42` |
// | double | `{"double": "1.5"}`: the shortest text for these bits; not finite: `{"double": "#7ff8000000000001"}` |
// | data | `{"data": "base 64"}` |
// | date | `{"date": "721692800.25"}`: seconds since 2001-01-01T00:00:00Z, in the form of a double |
// | uuid | `{"uuid": "…"}` |
// | decimal | `{"decimal": "-123e-2"}`, or `{"decimal": "NaN"}` |
// | json | `{"json": "the text"}` |
// | object | `{"object": "1:42"}` |
// | lists | `{"orderedObjects": ["1:42"]}`, `{"objects": ["1:42"]}` |

extension ExportedValue: Codable {
    private enum Key: String, CodingKey {
        case double, data, date, uuid, decimal, json, object, orderedObjects, objects
    }

    public init(from decoder: any Decoder) throws {
        let single = try decoder.singleValueContainer()
        // Strings, numbers and the like first, because each failed attempt costs an error.
        if single.decodeNil() {
            self = .absent
        } else if let text = try? single.decode(String.self) {
            content = .plain(.string(text))
        } else if let int = try? single.decode(Int64.self) {
            content = .plain(.int(int))
        } else if let bool = try? single.decode(Bool.self) {
            content = .plain(.bool(bool))
        } else {
            let container = try decoder.container(keyedBy: Key.self)
            guard container.allKeys.count == 1, let key = container.allKeys.first else {
                throw StoreError.malformedExport("a value has no type, or several")
            }
            content = try Self.content(key, container)
        }
    }

    private static func content(_ key: Key, _ container: KeyedDecodingContainer<Key>) throws -> Content {
        if key == .orderedObjects || key == .objects {
            let objects = try container.decode([String].self, forKey: key).map(object)
            return key == .objects ? .objects(objects) : .orderedObjects(objects)
        }
        let text = try container.decode(String.self, forKey: key)
        switch key {
        case .double: return .plain(.double(try double(text)))
        case .date: return .plain(.date(try double(text)))
        case .json: return .plain(.json(text))
        case .object: return .object(try object(text))
        case .decimal: return .plain(.decimal(try decimal(text)))
        case .uuid:
            guard let uuid = UUID(uuidString: text) else { throw StoreError.malformedExport("a UUID is malformed") }
            return .plain(.uuid(uuid.stored))
        default:
            guard let data = Data(base64Encoded: text) else {
                throw StoreError.malformedExport("data is not in base 64")
            }
            return .plain(.data(Array(data)))
        }
    }

    private static func object(_ text: String) throws -> ExportedObject {
        guard let object = ExportedObject(text) else { throw StoreError.malformedExport("an object ID is malformed") }
        return object
    }

    private static func text(_ double: Double) -> String {
        double.isFinite ? double.description : "#" + HistoryToken.digits(double.bitPattern)
    }

    private static func double(_ text: String) throws -> Double {
        if text.hasPrefix("#"), text.utf8.count == 17, let bits = UInt64(text.dropFirst(), radix: 16) {
            return Double(bitPattern: bits)
        }
        guard let double = Double(text), double.isFinite else {
            throw StoreError.malformedExport("a double or a date is not a number")
        }
        return double
    }

    private static func decimal(_ text: String) throws -> DecimalValue {
        if text == "NaN" { return .notANumber }
        let parts = text.split(separator: "e", omittingEmptySubsequences: false)
        let isNegative = text.hasPrefix("-")
        guard parts.count == 2, let mantissa = UInt128(parts[0].dropFirst(isNegative ? 1 : 0)),
            let exponent = Int(parts[1]),
            let decimal = DecimalValue(isNegative: isNegative, mantissa: mantissa, exponent: exponent)
        else { throw StoreError.malformedExport("a decimal is malformed") }
        return decimal
    }

    public func encode(to encoder: any Encoder) throws {
        switch content {
        case .plain(.absent), .plain(.large): try single(encoder) { try $0.encodeNil() }
        case .plain(.bool(let bool)): try single(encoder) { try $0.encode(bool) }
        case .plain(.int(let int)): try single(encoder) { try $0.encode(int) }
        case .plain(.string(let text)): try single(encoder) { try $0.encode(text) }
        case .plain(.double(let double)): try keyed(encoder, .double, Self.text(double))
        case .plain(.data(let bytes)): try keyed(encoder, .data, Data(bytes).base64EncodedString())
        case .plain(.date(let seconds)): try keyed(encoder, .date, Self.text(seconds))
        case .plain(.uuid(let uuid)): try keyed(encoder, .uuid, UUID(uuid).uuidString)
        case .plain(.decimal(let decimal)):
            let text = "\(decimal.isNegative ? "-" : "")\(decimal.mantissa)e\(decimal.exponent)"
            try keyed(encoder, .decimal, decimal.isNotANumber ? "NaN" : text)
        case .plain(.json(let text)): try keyed(encoder, .json, text)
        case .object(let object): try keyed(encoder, .object, object.description)
        case .orderedObjects(let objects): try keyed(encoder, .orderedObjects, objects.map(\.description))
        case .objects(let objects): try keyed(encoder, .objects, objects.map(\.description))
        case .plain(.object), .plain(.orderedObjects), .plain(.objects):
            preconditionFailure("Objects are exported with the IDs that other stores know.")
        }
    }

    private func single(
        _ encoder: any Encoder, _ body: (inout any SingleValueEncodingContainer) throws -> Void
    ) throws {
        var container = encoder.singleValueContainer()
        try body(&container)
    }

    private func keyed(_ encoder: any Encoder, _ key: Key, _ content: some Encodable) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(content, forKey: key)
    }
}
