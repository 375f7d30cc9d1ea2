// A change that is left out because a value derived from it cannot be written.

/// A change, or a part of one, that a plan must leave out.
package struct WithheldChange: Equatable, Sendable {
    package enum Reason: Hashable, Sendable {
        /// That object has the unique value.
        case keyTaken(by: ObjectID)
        /// The value of that object's derived attribute is not one of its type.
        case derivedOutOfRange(of: ObjectID)
    }

    package var reason: Reason
    /// The attributes to leave out, by number; none for the whole change.
    package var attributes: Set<UInt16>
    /// The attributes that a conflict mentions.
    package var named: Set<UInt16>

    package init(_ reason: Reason, _ attributes: Set<UInt16>, named: Set<UInt16>) {
        (self.reason, self.attributes, self.named) = (reason, attributes, named)
    }

    package var isWhole: Bool { attributes.isEmpty }
}
