// Names one object of a store, by the number of its entity and its own number there.

/// The permanent name of one object: numbers of deleted objects are never used again.
///
/// It is valid only in the store that assigned it. Its text form is the number of the entity, a colon and the number of
/// the object, such as `1:42`; object IDs order by these two.
public struct ObjectID: RawRepresentable, Hashable, Comparable, Sendable {
    /// The entity number in the upper 16 bits, the object number in the lower 48.
    public let rawValue: UInt64

    /// Nil if one of the two numbers is zero: no object has that ID.
    public init?(rawValue: UInt64) {
        guard rawValue >> 48 != 0, rawValue & FormatLimits.maximumObjectNumber != 0 else { return nil }
        self.rawValue = rawValue
    }

    /// Nil if a number is zero, or the object number needs more than 48 bits.
    public init?(entityNumber: UInt16, number: UInt64) {
        guard number <= FormatLimits.maximumObjectNumber else { return nil }
        self.init(rawValue: UInt64(entityNumber) << 48 | number)
    }

    /// Makes an ID from a number that was validated before.
    @inline(__always)
    init(checked rawValue: UInt64) {
        assert(rawValue >> 48 != 0 && rawValue & FormatLimits.maximumObjectNumber != 0, "An ID was not validated.")
        self.rawValue = rawValue
    }

    /// The number of the entity in its store, from 1.
    @inlinable public var entityNumber: UInt16 { UInt16(truncatingIfNeeded: rawValue >> 48) }

    /// The number of the object within its entity, from 1, in the order of insertion.
    @inlinable public var number: UInt64 { rawValue & 0xFFFF_FFFF_FFFF }

    public static func < (left: ObjectID, right: ObjectID) -> Bool { left.rawValue < right.rawValue }
}

extension ObjectID: LosslessStringConvertible {
    public var description: String { "\(entityNumber):\(number)" }

    /// Reads the text form. Nil for other text, such as signs, spaces or zeros in front.
    public init?(_ description: String) {
        let parts = description.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, let entity = UInt16(parts[0]), let number = UInt64(parts[1]),
            let object = ObjectID(entityNumber: entity, number: number),
            object.description.utf8.elementsEqual(description.utf8)
        else { return nil }
        self = object
    }
}

extension ObjectID: Codable {
    /// Reads the text form. Throws `DecodingError.dataCorrupted` for other text.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let object = ObjectID(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "This is not an object ID: an ID looks like “1:42”.")
        }
        self = object
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
