// The types that an attribute can have.

/// The kind of value that an attribute has. An attribute never changes its type.
public enum AttributeType: String, CaseIterable, Sendable, Hashable, Codable {
    /// True or false.
    case bool
    /// 64 bits, with a sign.
    case int
    /// 64 bits, IEEE 754; every bit pattern is kept.
    case double
    /// Unicode text, kept as it is given. It is compared, and is found in indexes, as Swift compares strings.
    case string
    /// Bytes.
    case data
    /// A moment as a number of seconds, 64 bits, IEEE 754; every bit pattern is kept.
    case date
    /// 128 bits.
    case uuid
    /// A decimal number of up to 38 digits.
    case decimal
    /// A text that is one JSON value.
    case json
    /// A reference to one object.
    case object
    /// References to objects in a chosen order, each once.
    case orderedObjects
    /// References to a set of objects.
    case objects

    /// Whether its values name objects, so that the attribute can have a target, an inverse and a delete rule.
    public var isReference: Bool { self == .object || isObjectList }

    /// The type's number in the file: FileFormat.md, "Rows".
    package var code: UInt8 {
        switch self {
        case .bool: 1
        case .int: 2
        case .double: 3
        case .string: 4
        case .data: 5
        case .date: 6
        case .uuid: 7
        case .decimal: 8
        case .json: 9
        case .object: 10
        case .orderedObjects: 11
        case .objects: 12
        }
    }

    /// The type with that number in the file; nil for an unknown number.
    package init?(code: UInt8) {
        switch code {
        case 1: self = .bool
        case 2: self = .int
        case 3: self = .double
        case 4: self = .string
        case 5: self = .data
        case 6: self = .date
        case 7: self = .uuid
        case 8: self = .decimal
        case 9: self = .json
        case 10: self = .object
        case 11: self = .orderedObjects
        case 12: self = .objects
        default: return nil
        }
    }

    /// The size of the attribute's slot in a row.
    package var slotBytes: Int {
        switch self {
        case .bool: 1
        case .int, .double, .date, .object: 8
        case .string, .data, .json, .orderedObjects, .objects: 4
        case .uuid: 16
        case .decimal: 20
        }
    }

    /// Whether the value lies after the presence bits, and the slot holds only its end.
    package var isVariable: Bool {
        switch self {
        case .string, .data, .json, .orderedObjects, .objects: true
        default: false
        }
    }

    /// Whether the value is a text.
    @inline(__always)
    package var isText: Bool { self == .string || self == .json }

    /// Whether the value is a list of object IDs.
    package var isObjectList: Bool { self == .orderedObjects || self == .objects }

    /// The type of the keys in an index over one attribute of this type.
    package var keyType: AttributeType { isObjectList ? .object : self }
}
