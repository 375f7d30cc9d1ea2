// The types an attribute can have, and how much of a row each takes.

/// The numbers are those of FileFormat.md, "Rows".
package enum AttributeType: UInt8, CaseIterable, Sendable {
    case bool = 1
    case int = 2
    case double = 3
    case string = 4
    case data = 5
    case date = 6
    case uuid = 7
    case decimal = 8
    case json = 9
    case object = 10
    case orderedObjects = 11
    case objects = 12

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

    /// Whether the value stands behind the presence bits, and the slot only says where it ends.
    package var isVariable: Bool {
        switch self {
        case .string, .data, .json, .orderedObjects, .objects: true
        default: false
        }
    }

    /// Whether the value is a text.
    @inline(__always)
    package var isText: Bool { self == .string || self == .json }

    /// Whether the value names objects, so that the attribute can have a target, an inverse and a delete rule.
    package var isReference: Bool { self == .object || isObjectList }

    /// Whether the value is a list of object IDs.
    package var isObjectList: Bool { self == .orderedObjects || self == .objects }
}
