// The types that an attribute can have.

internal import AnnalsFile

/// What kind of value an attribute has. The type of an attribute never changes.
public enum AttributeType: String, CaseIterable, Sendable, Hashable, Codable {
    case bool
    /// 64 bits, with a sign.
    case int
    /// 64 bits, IEEE 754; every bit pattern is kept.
    case double
    /// Unicode text, kept as it is: nothing is normalised.
    case string
    case data
    /// Microseconds since 1970, UTC.
    case date
    case uuid
    case decimal
    /// A text that is one JSON value.
    case json
    /// A reference to one object.
    case object
    /// References to objects in an order of their own, each once.
    case orderedObjects
    /// References to a set of objects.
    case objects

    init(_ type: FileAttributeType) {
        self =
            switch type {
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

    var file: FileAttributeType {
        switch self {
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

    /// Whether its values name objects, so that the attribute can have a target, an inverse and a delete rule.
    public var isReference: Bool { self == .object || self == .orderedObjects || self == .objects }
}
