// Facts about derived attributes that a plan for undoing a transaction needs.

/// The derived attributes, and the changes that must be left out because of them.
package struct RevertDerivation {
    /// Whether an attribute of an entity is derived.
    let isDerived: (_ attribute: UInt16, _ entity: UInt16) -> Bool
    /// The same without attributes that keep a written value.
    let isWorkedOut: (_ attribute: UInt16, _ entity: UInt16) -> Bool
    /// The changes to leave out, by object.
    var withheld: [ObjectID: [WithheldChange]] = [:]

    package static var none: Self { Self(isDerived: { (_, _) in false }, isWorkedOut: { (_, _) in false }) }
}
