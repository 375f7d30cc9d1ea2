// JSON with the same text for equal values: sets and dictionaries are iterated in an order of their own.
//
// Invariants:
// CJ1  Values that differ only in the order in which their sets and dictionaries are iterated have the same text.
// CJ2  The text of a value without such a part equals the output of `JSONEncoder` with sorted keys.

internal import FoundationEssentials

/// Encodes values of any type as JSON.
enum CanonicalJSON {
    /// Throws the errors of encoding the value.
    static func text<V: Encodable>(_ value: V) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.userInfo = storedForm
        let data = try isPlain(V.self) ? encoder.encode(value) : encoder.encode(Ordered(value))
        return String(decoding: data, as: UTF8.self)
    }

    /// Decodes values of the store with a mark: references in them are of that store.
    static func decoder(of mark: UInt32) -> JSONDecoder {
        let decoder = JSONDecoder()
        if mark != 0, let storeKey { decoder.userInfo[storeKey] = mark }
        return decoder
    }

    private static let storeKey = CodingUserInfoKey(rawValue: "annals.store")

    /// The mark of the store whose values are decoded; 0 if it is not known.
    static func mark(of decoder: any Decoder) -> UInt32 { storeKey.flatMap { decoder.userInfo[$0] as? UInt32 } ?? 0 }

    /// Makes references encode without the store's mark, because they are stored in that store: so equal values have
    /// one text, even in a copy of the store with another identity.
    private static let storedForm: [CodingUserInfoKey: any Sendable] =
        CodingUserInfoKey(rawValue: "annals.stored").map { [$0: true] } ?? [:]

    static func isStoredForm(_ encoder: any Encoder) -> Bool {
        storedForm.keys.contains { encoder.userInfo[$0] != nil }
    }

    /// Whether values of the type have no unordered part, and `JSONEncoder` may have a form of its own for them (CJ2).
    fileprivate static func isPlain(_ type: Any.Type) -> Bool { plainTypes.contains(ObjectIdentifier(type)) }

    private static let plainTypes: Set<ObjectIdentifier> = Set(
        ([
            Bool.self, String.self, Double.self, Float.self, Int.self, Int8.self, Int16.self, Int32.self, Int64.self,
            UInt.self, UInt8.self, UInt16.self, UInt32.self, UInt64.self, Date.self, Data.self, URL.self, UUID.self,
            Decimal.self, [Bool].self, [String].self, [Double].self, [Float].self, [Int].self, [Int64].self,
            [Date].self,
            [UUID].self, [URL].self, [String: String].self, [String: Int].self, [String: Double].self,
            [String: Bool].self,
        ] as [Any.Type]).map { ObjectIdentifier($0) })
}

/// A value whose unordered parts are encoded in order.
private struct Ordered<V: Encodable>: Encodable {
    let value: V

    init(_ value: V) { self.value = value }

    func encode(to encoder: any Encoder) throws {
        let encoder = OrderingEncoder(encoder)
        if let unordered = value as? any UnorderedCollection {
            try unordered.encodeInOrder(to: encoder)
        } else {
            try value.encode(to: encoder)
        }
    }
}

// MARK: Sets and dictionaries

/// A collection whose equal values may be iterated in different orders.
private protocol UnorderedCollection {
    /// Encodes the elements in an order that depends on nothing but them (CJ1).
    func encodeInOrder(to encoder: OrderingEncoder) throws
}

extension Set: UnorderedCollection where Element: Encodable {
    fileprivate func encodeInOrder(to encoder: OrderingEncoder) throws {
        var container = encoder.unkeyedContainer()
        switch self {
        case let texts as Set<String>: try container.encode(contentsOf: texts.inOrder())
        case let integers as Set<Int>: try container.encode(contentsOf: integers.inOrder())
        default: for element in try canonicalOrder(self, { $0 }) { try container.encode(element) }
        }
    }
}

extension Dictionary: UnorderedCollection where Key: Encodable, Value: Encodable {
    fileprivate func encodeInOrder(to encoder: OrderingEncoder) throws {
        // Keys of these types are those of a JSON object, which are sorted.
        if Key.self == String.self || Key.self == Int.self || Key.self is any CodingKeyRepresentable.Type {
            return try encode(to: encoder)
        }
        var container = encoder.unkeyedContainer()
        for pair in try canonicalOrder(self, \.key) {
            try container.encode(pair.key)
            try container.encode(pair.value)
        }
    }
}

/// Elements in the order of the texts of one part of each. Parts with the same text are stored alike, in any order.
private func canonicalOrder<Element, Part: Encodable>(
    _ elements: some Collection<Element>, _ part: (Element) -> Part
) throws -> [Element] {
    var keyed: [(text: String, element: Element)] = []
    keyed.reserveCapacity(elements.count)
    for element in elements { keyed.append((try CanonicalJSON.text(part(element)), element)) }
    // As Swift compares texts, so that equal elements have the same place in every form.
    keyed.putInOrder { $0.text < $1.text }
    return keyed.map(\.element)
}

// MARK: Encoding

/// Passes everything on to another encoder, and puts unordered collections in order.
private struct OrderingEncoder: Encoder {
    private let inner: any Encoder

    init(_ inner: any Encoder) { self.inner = inner }

    var codingPath: [any CodingKey] { inner.codingPath }
    var userInfo: [CodingUserInfoKey: Any] { inner.userInfo }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(OrderingKeyedContainer(inner.container(keyedBy: type)))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer { OrderingUnkeyedContainer(inner.unkeyedContainer()) }

    func singleValueContainer() -> any SingleValueEncodingContainer {
        OrderingSingleContainer(inner.singleValueContainer())
    }
}

private struct OrderingKeyedContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    private var inner: KeyedEncodingContainer<Key>

    init(_ inner: KeyedEncodingContainer<Key>) { self.inner = inner }

    var codingPath: [any CodingKey] { inner.codingPath }

    mutating func encodeNil(forKey key: Key) throws { try inner.encodeNil(forKey: key) }
    mutating func encode(_ value: Bool, forKey key: Key) throws { try inner.encode(value, forKey: key) }
    mutating func encode(_ value: String, forKey key: Key) throws { try inner.encode(value, forKey: key) }
    mutating func encode(_ value: Double, forKey key: Key) throws { try inner.encode(value, forKey: key) }
    mutating func encode(_ value: Float, forKey key: Key) throws { try inner.encode(value, forKey: key) }
    mutating func encode(_ value: Int, forKey key: Key) throws { try inner.encode(value, forKey: key) }
    mutating func encode(_ value: Int8, forKey key: Key) throws { try inner.encode(value, forKey: key) }
    mutating func encode(_ value: Int16, forKey key: Key) throws { try inner.encode(value, forKey: key) }
    mutating func encode(_ value: Int32, forKey key: Key) throws { try inner.encode(value, forKey: key) }
    mutating func encode(_ value: Int64, forKey key: Key) throws { try inner.encode(value, forKey: key) }
    mutating func encode(_ value: Int128, forKey key: Key) throws { try inner.encode(value, forKey: key) }
    mutating func encode(_ value: UInt, forKey key: Key) throws { try inner.encode(value, forKey: key) }
    mutating func encode(_ value: UInt8, forKey key: Key) throws { try inner.encode(value, forKey: key) }
    mutating func encode(_ value: UInt16, forKey key: Key) throws { try inner.encode(value, forKey: key) }
    mutating func encode(_ value: UInt32, forKey key: Key) throws { try inner.encode(value, forKey: key) }
    mutating func encode(_ value: UInt64, forKey key: Key) throws { try inner.encode(value, forKey: key) }
    mutating func encode(_ value: UInt128, forKey key: Key) throws { try inner.encode(value, forKey: key) }

    mutating func encode<V: Encodable>(_ value: V, forKey key: Key) throws {
        if CanonicalJSON.isPlain(V.self) {
            try inner.encode(value, forKey: key)
        } else {
            try inner.encode(Ordered(value), forKey: key)
        }
    }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        KeyedEncodingContainer(OrderingKeyedContainer<Nested>(inner.nestedContainer(keyedBy: type, forKey: key)))
    }

    mutating func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        OrderingUnkeyedContainer(inner.nestedUnkeyedContainer(forKey: key))
    }

    mutating func superEncoder() -> any Encoder { OrderingEncoder(inner.superEncoder()) }

    mutating func superEncoder(forKey key: Key) -> any Encoder { OrderingEncoder(inner.superEncoder(forKey: key)) }
}

private struct OrderingUnkeyedContainer: UnkeyedEncodingContainer {
    private var inner: any UnkeyedEncodingContainer

    init(_ inner: any UnkeyedEncodingContainer) { self.inner = inner }

    var codingPath: [any CodingKey] { inner.codingPath }
    var count: Int { inner.count }

    mutating func encodeNil() throws { try inner.encodeNil() }
    mutating func encode(_ value: Bool) throws { try inner.encode(value) }
    mutating func encode(_ value: String) throws { try inner.encode(value) }
    mutating func encode(_ value: Double) throws { try inner.encode(value) }
    mutating func encode(_ value: Float) throws { try inner.encode(value) }
    mutating func encode(_ value: Int) throws { try inner.encode(value) }
    mutating func encode(_ value: Int8) throws { try inner.encode(value) }
    mutating func encode(_ value: Int16) throws { try inner.encode(value) }
    mutating func encode(_ value: Int32) throws { try inner.encode(value) }
    mutating func encode(_ value: Int64) throws { try inner.encode(value) }
    mutating func encode(_ value: Int128) throws { try inner.encode(value) }
    mutating func encode(_ value: UInt) throws { try inner.encode(value) }
    mutating func encode(_ value: UInt8) throws { try inner.encode(value) }
    mutating func encode(_ value: UInt16) throws { try inner.encode(value) }
    mutating func encode(_ value: UInt32) throws { try inner.encode(value) }
    mutating func encode(_ value: UInt64) throws { try inner.encode(value) }
    mutating func encode(_ value: UInt128) throws { try inner.encode(value) }

    mutating func encode<V: Encodable>(_ value: V) throws {
        if CanonicalJSON.isPlain(V.self) { try inner.encode(value) } else { try inner.encode(Ordered(value)) }
    }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        KeyedEncodingContainer(OrderingKeyedContainer<Nested>(inner.nestedContainer(keyedBy: type)))
    }

    mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
        OrderingUnkeyedContainer(inner.nestedUnkeyedContainer())
    }

    mutating func superEncoder() -> any Encoder { OrderingEncoder(inner.superEncoder()) }
}

private struct OrderingSingleContainer: SingleValueEncodingContainer {
    private var inner: any SingleValueEncodingContainer

    init(_ inner: any SingleValueEncodingContainer) { self.inner = inner }

    var codingPath: [any CodingKey] { inner.codingPath }

    mutating func encodeNil() throws { try inner.encodeNil() }
    mutating func encode(_ value: Bool) throws { try inner.encode(value) }
    mutating func encode(_ value: String) throws { try inner.encode(value) }
    mutating func encode(_ value: Double) throws { try inner.encode(value) }
    mutating func encode(_ value: Float) throws { try inner.encode(value) }
    mutating func encode(_ value: Int) throws { try inner.encode(value) }
    mutating func encode(_ value: Int8) throws { try inner.encode(value) }
    mutating func encode(_ value: Int16) throws { try inner.encode(value) }
    mutating func encode(_ value: Int32) throws { try inner.encode(value) }
    mutating func encode(_ value: Int64) throws { try inner.encode(value) }
    mutating func encode(_ value: Int128) throws { try inner.encode(value) }
    mutating func encode(_ value: UInt) throws { try inner.encode(value) }
    mutating func encode(_ value: UInt8) throws { try inner.encode(value) }
    mutating func encode(_ value: UInt16) throws { try inner.encode(value) }
    mutating func encode(_ value: UInt32) throws { try inner.encode(value) }
    mutating func encode(_ value: UInt64) throws { try inner.encode(value) }
    mutating func encode(_ value: UInt128) throws { try inner.encode(value) }

    mutating func encode<V: Encodable>(_ value: V) throws {
        if CanonicalJSON.isPlain(V.self) { try inner.encode(value) } else { try inner.encode(Ordered(value)) }
    }
}
