// The value of one attribute.

public import FoundationEssentials

/// A value of any type that an attribute can have, or null.
///
/// Two values are equal if they have the same type and content. Doubles and dates are compared by their bits
/// (every NaN equals itself, and -0 is not 0), texts as Swift compares strings ("é" is one text, composed or not), and
/// sets of objects without regard to order.
public enum Value: Sendable {
    /// No value. Every optional attribute can have it.
    case null
    /// True or false.
    case bool(Bool)
    /// A signed integer of 64 bits.
    case int(Int64)
    /// A floating-point number. Every bit pattern is kept.
    case double(Double)
    /// Unicode text, kept byte for byte, and compared as Swift compares strings.
    case string(String)
    /// Bytes.
    case data(Data)
    /// A date, exactly as `Date` holds it.
    case date(Date)
    /// A UUID.
    case uuid(UUID)
    /// A decimal number.
    case decimal(Decimal)
    /// One JSON value as text. The store keeps it byte for byte and does not validate it.
    case json(String)
    /// A reference to one object.
    case object(ObjectID)
    /// References to objects in this order, without duplicates.
    case orderedObjects([ObjectID])
    /// References to objects as a set: the store sorts them and removes duplicates.
    case objects([ObjectID])

    /// The type of attribute that this value fits. Nil for `null`, which fits every optional attribute.
    public var type: AttributeType? {
        switch self {
        case .null: nil
        case .bool: .bool
        case .int: .int
        case .double: .double
        case .string: .string
        case .data: .data
        case .date: .date
        case .uuid: .uuid
        case .decimal: .decimal
        case .json: .json
        case .object: .object
        case .orderedObjects: .orderedObjects
        case .objects: .objects
        }
    }

    /// Whether this is `null`.
    public var isNull: Bool {
        if case .null = self { true } else { false }
    }
}

// MARK: Content

extension Value {
    /// The content, if this is a `bool`; otherwise nil.
    public var bool: Bool? { if case .bool(let bool) = self { bool } else { nil } }
    /// The number, if this is an `int`.
    public var int: Int64? { if case .int(let int) = self { int } else { nil } }
    /// The number, if this is a `double`.
    public var double: Double? { if case .double(let double) = self { double } else { nil } }
    /// The text, if this is a `string`. Nil for JSON.
    public var string: String? { if case .string(let text) = self { text } else { nil } }
    /// The bytes, if this is `data`.
    public var data: Data? { if case .data(let data) = self { data } else { nil } }
    /// The date, if this is a `date`.
    public var date: Date? { if case .date(let date) = self { date } else { nil } }
    /// The UUID, if this is a `uuid`.
    public var uuid: UUID? { if case .uuid(let uuid) = self { uuid } else { nil } }
    /// The number, if this is a `decimal`.
    public var decimal: Decimal? { if case .decimal(let decimal) = self { decimal } else { nil } }
    /// The text, if this is `json`.
    public var json: String? { if case .json(let text) = self { text } else { nil } }
    /// The reference, if this is one to a single object.
    public var object: ObjectID? { if case .object(let object) = self { object } else { nil } }
    /// The references, if this is an ordered list.
    public var orderedObjects: [ObjectID]? { if case .orderedObjects(let objects) = self { objects } else { nil } }
    /// The references, if this is a set.
    public var objects: [ObjectID]? { if case .objects(let objects) = self { objects } else { nil } }
}

extension Value: Hashable {
    public static func == (left: Value, right: Value) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.bool(let a), .bool(let b)): a == b
        case (.int(let a), .int(let b)): a == b
        case (.double(let a), .double(let b)): a.bitPattern == b.bitPattern
        case (.string(let a), .string(let b)), (.json(let a), .json(let b)): a == b
        case (.data(let a), .data(let b)): a == b
        case (.date(let a), .date(let b)): a.bitPattern == b.bitPattern
        case (.uuid(let a), .uuid(let b)): a == b
        case (.decimal(let a), .decimal(let b)): a == b
        case (.object(let a), .object(let b)): a == b
        case (.orderedObjects(let a), .orderedObjects(let b)): a == b
        case (.objects(let a), .objects(let b)): a == b || Set(a) == Set(b)
        default: false
        }
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(type)
        switch self {
        case .null: break
        case .bool(let bool): hasher.combine(bool)
        case .int(let int): hasher.combine(int)
        case .double(let double): hasher.combine(double.bitPattern)
        case .string(let text), .json(let text): hasher.combine(text)
        case .data(let data): hasher.combine(data)
        case .date(let date): hasher.combine(date.bitPattern)
        case .uuid(let uuid): hasher.combine(uuid)
        case .decimal(let decimal): hasher.combine(decimal)
        case .object(let object): hasher.combine(object)
        case .orderedObjects(let objects): hasher.combine(objects)
        case .objects(let objects): hasher.combine(Set(objects))
        }
    }
}

extension Value: ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByStringInterpolation, ExpressibleByNilLiteral
{
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(integerLiteral value: Int64) { self = .int(value) }
    public init(floatLiteral value: Double) { self = .double(value) }
    public init(stringLiteral value: String) { self = .string(value) }
    public init(nilLiteral: ()) { self = .null }
}

// MARK: From integers

extension Value {
    /// Creates an integer value.
    public init(_ integer: Int) { self = .int(Int64(integer)) }

    /// Creates an integer value from an integer of any type.
    ///
    /// - Throws: `StoreError.valueOutOfRange` if it does not fit an `Int64`.
    public init(_ integer: some BinaryInteger) throws {
        guard let int = Int64(exactly: integer) else {
            throw StoreError(
                .valueOutOfRange,
                "A store keeps integers from -2^63 to 2^63 - 1, and this integer is outside that range: store it as a "
                    + "decimal or a string."
            )
        }
        self = .int(int)
    }
}

extension Value: Codable {
    private enum Key: String, CodingKey {
        case type
        case value
    }

    /// Decodes an object with the members `type` and `value`. A JSON null is `null`.
    public init(from decoder: any Decoder) throws {
        if let single = try? decoder.singleValueContainer(), single.decodeNil() {
            self = .null
            return
        }
        let container = try decoder.container(keyedBy: Key.self)
        func decoded<Content: Decodable>(_ type: Content.Type) throws -> Content {
            try container.decode(type, forKey: .value)
        }
        self =
            switch try container.decode(AttributeType.self, forKey: .type) {
            case .bool: .bool(try decoded(Bool.self))
            case .int: .int(try decoded(Int64.self))
            // As bits: JSON has no NaN, and not every coder distinguishes -0 from 0.
            case .double: .double(Double(bitPattern: try decoded(UInt64.self)))
            case .string: .string(try decoded(String.self))
            case .data: .data(try decoded(Data.self))
            // As bits, for the same reason.
            case .date: .date(Date(bitPattern: try decoded(UInt64.self)))
            case .uuid: .uuid(try decoded(UUID.self))
            // As text: JSON has no NaN, and coders may convert to doubles.
            case .decimal: .decimal(try Self.decimal(try decoded(String.self), container))
            case .json: .json(try decoded(String.self))
            case .object: .object(try decoded(ObjectID.self))
            case .orderedObjects: .orderedObjects(try decoded([ObjectID].self))
            case .objects: .objects(try decoded([ObjectID].self))
            }
    }

    private static func decimal(_ text: String, _ container: KeyedDecodingContainer<Key>) throws -> Decimal {
        if text == "NaN" { return .nan }
        guard let decimal = Decimal(string: text) else {
            throw DecodingError.dataCorruptedError(
                forKey: .value, in: container, debugDescription: "This is not a decimal number.")
        }
        return decimal
    }

    public func encode(to encoder: any Encoder) throws {
        guard let type else {
            var container = encoder.singleValueContainer()
            return try container.encodeNil()
        }
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(type, forKey: .type)
        switch self {
        case .null: break
        case .bool(let bool): try container.encode(bool, forKey: .value)
        case .int(let int): try container.encode(int, forKey: .value)
        case .double(let double): try container.encode(double.bitPattern, forKey: .value)
        case .string(let text), .json(let text): try container.encode(text, forKey: .value)
        case .data(let data): try container.encode(data, forKey: .value)
        case .date(let date): try container.encode(date.bitPattern, forKey: .value)
        case .uuid(let uuid): try container.encode(uuid, forKey: .value)
        case .decimal(let decimal): try container.encode(decimal.description, forKey: .value)
        case .object(let object): try container.encode(object, forKey: .value)
        case .orderedObjects(let objects), .objects(let objects): try container.encode(objects, forKey: .value)
        }
    }
}
