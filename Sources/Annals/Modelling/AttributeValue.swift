// The types that a property can have, and the stored form of each.

public import FoundationEssentials

/// A type that an attribute can have.
///
/// Integers, `Double`, `Float`, `Bool`, `String`, `Date`, `UUID`, `Data`, `URL`, `Decimal` and references conform.
/// Enumerations with such raw values and types that are `Codable` need not: they are stored as their raw value and as
/// JSON. Conform a type of your own to store it in another form.
public protocol AttributeValue: Sendable {
    /// The type of the attribute in the store. It must never change.
    static var attributeType: AttributeType { get }
    /// The value to store: of that type, and not null. Throws if this value has no stored form.
    func attributeValue() throws -> Value
    /// The value for a stored one; nil if the type has none for it.
    init?(attributeValue: Value)
}

extension AttributeValue where Self: FixedWidthInteger {
    /// 64 bits, with a sign.
    public static var attributeType: AttributeType { .int }

    /// The number. Throws `StoreError`: `valueOutOfRange` if a signed integer of 64 bits cannot have it.
    public func attributeValue() throws -> Value { try Value(self) }

    /// The number, if this type has it.
    public init?(attributeValue: Value) {
        guard let int = attributeValue.int else { return nil }
        self.init(exactly: int)
    }
}

extension Int: AttributeValue {}
extension Int8: AttributeValue {}
extension Int16: AttributeValue {}
extension Int32: AttributeValue {}
extension Int64: AttributeValue {}
extension UInt: AttributeValue {}
extension UInt8: AttributeValue {}
extension UInt16: AttributeValue {}
extension UInt32: AttributeValue {}
extension UInt64: AttributeValue {}

extension Double: AttributeValue {
    /// 64 bits, IEEE 754.
    public static var attributeType: AttributeType { .double }

    /// The number, with every bit.
    public func attributeValue() throws -> Value { .double(self) }

    /// The number.
    public init?(attributeValue: Value) {
        guard let double = attributeValue.double else { return nil }
        self = double
    }
}

extension Float: AttributeValue {
    /// 64 bits: every `Float` is a `Double`.
    public static var attributeType: AttributeType { .double }

    /// The number.
    public func attributeValue() throws -> Value { .double(Double(self)) }

    /// The nearest number.
    public init?(attributeValue: Value) {
        guard let double = attributeValue.double else { return nil }
        self.init(double)
    }
}

extension Bool: AttributeValue {
    /// True or false.
    public static var attributeType: AttributeType { .bool }

    /// Itself.
    public func attributeValue() throws -> Value { .bool(self) }

    /// Itself.
    public init?(attributeValue: Value) {
        guard let bool = attributeValue.bool else { return nil }
        self = bool
    }
}

extension String: AttributeValue {
    /// Unicode text.
    public static var attributeType: AttributeType { .string }

    /// The text, byte for byte.
    public func attributeValue() throws -> Value { .string(self) }

    /// The text.
    public init?(attributeValue: Value) {
        guard let text = attributeValue.string else { return nil }
        self = text
    }
}

extension Date: AttributeValue {
    /// Seconds since 2001, as `Date` holds them.
    public static var attributeType: AttributeType { .date }

    /// The date.
    public func attributeValue() throws -> Value { .date(self) }

    /// The date.
    public init?(attributeValue: Value) {
        guard let date = attributeValue.date else { return nil }
        self = date
    }
}

extension UUID: AttributeValue {
    /// 128 bits.
    public static var attributeType: AttributeType { .uuid }

    /// Itself.
    public func attributeValue() throws -> Value { .uuid(self) }

    /// Itself.
    public init?(attributeValue: Value) {
        guard let uuid = attributeValue.uuid else { return nil }
        self = uuid
    }
}

extension Data: AttributeValue {
    /// Bytes.
    public static var attributeType: AttributeType { .data }

    /// The bytes.
    public func attributeValue() throws -> Value { .data(self) }

    /// The bytes.
    public init?(attributeValue: Value) {
        guard let data = attributeValue.data else { return nil }
        self = data
    }
}

extension Decimal: AttributeValue {
    /// A decimal number of up to 38 digits.
    public static var attributeType: AttributeType { .decimal }

    /// The number.
    public func attributeValue() throws -> Value { .decimal(self) }

    /// The number.
    public init?(attributeValue: Value) {
        guard let decimal = attributeValue.decimal else { return nil }
        self = decimal
    }
}

extension URL: AttributeValue {
    /// The text of the URL.
    public static var attributeType: AttributeType { .string }

    /// The absolute text of the URL.
    public func attributeValue() throws -> Value { .string(absoluteString) }

    /// The URL, if the text is one.
    public init?(attributeValue: Value) {
        guard let text = attributeValue.string else { return nil }
        self.init(string: text)
    }
}

extension Reference: AttributeValue {
    /// A reference to one object.
    public static var attributeType: AttributeType { .object }

    /// The object's ID.
    public func attributeValue() throws -> Value { .object(id) }

    /// Refers to an object of any entity: the store makes sure that it is of this one.
    public init?(attributeValue: Value) {
        guard let id = attributeValue.object else { return nil }
        self.init(id)
    }
}
