// JSON of the server, decoded and encoded, with this library's error.

package import Annals
internal import FoundationEssentials

/// Names of properties are those of the protocol, without its underscores: `max_payload` is `maxPayload`. Keys of
/// dictionaries remain as they are.
package enum NATSJSON {
    /// - Throws: `courierDamaged` if the text is not the expected JSON.
    package static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws(StoreError) -> Value {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        do { return try decoder.decode(type, from: Data(bytes)) } catch {
            throw StoreError(
                .courierDamaged,
                "The server answered with a text that a mirror cannot read: check that it is a nats-server of version "
                    + "2.9 or later.")
        }
    }

    package static func encode(_ value: some Encodable) throws(StoreError) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        do { return Array(try encoder.encode(value)) } catch {
            throw StoreError(
                .invalidArgument, "A text for the server cannot be written as JSON: check the names and credentials.")
        }
    }
}

/// Any JSON, for a configuration that is returned with all its fields, known or not.
package indirect enum NATSJSONValue: Equatable, Sendable {
    case null
    case bool(Bool)
    case integer(Int64)
    case number(Double)
    case string(String)
    case list([NATSJSONValue])
    case object([String: NATSJSONValue])

    package subscript(field: String) -> NATSJSONValue? {
        get { if case .object(let fields) = self { fields[field] } else { nil } }
        set {
            guard case .object(var fields) = self else { return }
            fields[field] = newValue
            self = .object(fields)
        }
    }

    package var string: String? { if case .string(let value) = self { value } else { nil } }
    package var integer: Int64? { if case .integer(let value) = self { value } else { nil } }
    package var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
    package var list: [NATSJSONValue]? { if case .list(let value) = self { value } else { nil } }
}

extension NATSJSONValue: Codable {
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Int64.self) {
            self = .integer(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([NATSJSONValue].self) {
            self = .list(value)
        } else {
            self = .object(try container.decode([String: NATSJSONValue].self))
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .string(let value): try container.encode(value)
        case .list(let value): try container.encode(value)
        case .object(let value): try container.encode(value)
        }
    }
}
