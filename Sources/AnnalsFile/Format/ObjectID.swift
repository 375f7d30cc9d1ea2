// Names one object of a store: which entity, and which of its objects.

/// The entity number in the upper 16 bits, the object number in the lower 48. Neither is zero, so no object ID is zero.
package struct ObjectID: RawRepresentable, Hashable, Comparable, Sendable {
    package let rawValue: UInt64

    /// Nil where one of the two numbers is zero.
    package init?(rawValue: UInt64) {
        guard rawValue >> 48 != 0, rawValue & FormatLimits.maximumObjectNumber != 0 else { return nil }
        self.rawValue = rawValue
    }

    /// What was checked before.
    @inline(__always)
    init(checked rawValue: UInt64) { self.rawValue = rawValue }

    /// Nil where a number is zero, or the object number needs more than 48 bits.
    package init?(entity: UInt16, number: UInt64) {
        guard number <= FormatLimits.maximumObjectNumber else { return nil }
        self.init(rawValue: UInt64(entity) << 48 | number)
    }

    package var entity: UInt16 { UInt16(truncatingIfNeeded: rawValue >> 48) }
    package var number: UInt64 { rawValue & FormatLimits.maximumObjectNumber }

    package static func < (left: ObjectID, right: ObjectID) -> Bool { left.rawValue < right.rawValue }
}
