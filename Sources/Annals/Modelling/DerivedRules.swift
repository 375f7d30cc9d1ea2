// Rules of a schema for the other sides of relationships: values derived from them, and limits for the number of
// objects.

public import FoundationEssentials

/// A moment that an attribute may be derived from.
public enum DerivedMoment: Sendable {
    /// When the object was inserted or last changed. See `AttributeOption.derived(_:)`.
    case lastChange
}

extension AttributeOption {
    /// The number of objects on the other side of a relationship: `.derived(count: \.clips)`.
    ///
    /// The value is computed once, after the body of a transaction and after the delete rules: for each object that the
    /// transaction has written, and for each whose other side it has changed. The object is written if the number
    /// differs. Computing takes as long as reading the other side from its index.
    ///
    /// Programs that open the store without this type do not update the value. It is right again when a program with
    /// this type next writes the object or an object on its other side, or after `Store.refreshDerived(of:)`.
    public static func derived<T: Entity>(count side: any KeyPath<E, ToMany<T>> & Sendable) -> Self where V == Int {
        Self(.fromOtherSide(DerivedRule(kind: .count(side: MemoryLayout<E>.offset(of: side)))))
    }

    /// The sum of a property of all objects on the other side of a relationship: `.derived(sum: \.clips, \.rank)`. 0
    /// without objects. Computed as the number is, but each object is read. A sum that does not fit the type throws
    /// `valueOutOfRange`.
    public static func derived<T: Entity>(
        sum side: any KeyPath<E, ToMany<T>> & Sendable, _ property: any KeyPath<T, V> & Sendable
    ) -> Self where V: AttributeValue & AdditiveArithmetic {
        Self(.fromOtherSide(.sum(side, property)))
    }

    /// The sum of an optional property, of the objects that have it.
    public static func derived<T: Entity>(
        sum side: any KeyPath<E, ToMany<T>> & Sendable, _ property: any KeyPath<T, V?> & Sendable
    ) -> Self where V: AttributeValue & AdditiveArithmetic {
        Self(.fromOtherSide(.sum(side, property)))
    }

    /// When the object was inserted or last changed by a program that declares the property: the time in the body of
    /// the transaction, shortly before the time of the transaction. Delete rules and other derived values change
    /// objects too. Saving an unchanged object is no change.
    public static func derived(_ moment: DerivedMoment) -> Self where V == Date { Self(.lastChange) }

    /// The same for an optional property.
    public static func derived(_ moment: DerivedMoment) -> Self where V == Date? { Self(.lastChange) }

    /// The other side of a relationship must have this number of objects, after each transaction that inserts the
    /// object or changes references to it.
    public static func count<T: Entity>(
        _ range: some RangeExpression<Int> & Sendable
    ) -> Self where V == ToMany<T> {
        Self(.sideCount(SideCount(range)))
    }
}

/// How an attribute is derived from objects that refer to its object.
struct DerivedRule: Sendable {
    enum Kind: Sendable {
        case count(side: Int?)
        /// Of the property at `property` in values of `target`, which has the type `type`.
        case sum(side: Int?, property: Int?, type: Any.Type, target: any Entity.Type)
    }

    let kind: Kind
    /// The attribute's name; set by the model's builder.
    var attribute = ""

    /// The offset of the other side in a value; nil if it is no stored property.
    var side: Int? {
        switch kind {
        case .count(let side), .sum(let side, _, _, _): side
        }
    }

    fileprivate static func sum<E: Entity, T: Entity, V>(
        _ side: any KeyPath<E, ToMany<T>> & Sendable, _ property: any KeyPath<T, V> & Sendable
    ) -> DerivedRule {
        let offset = MemoryLayout<T>.offset(of: property)
        let kind = Kind.sum(side: MemoryLayout<E>.offset(of: side), property: offset, type: V.self, target: T.self)
        return DerivedRule(kind: kind)
    }
}

/// The number of objects that another side must have.
struct SideLimit: Sendable {
    let name: String
    let side: Int
    let count: SideCount
}

extension EntityModel {
    /// Whether something is to be done when a transaction ends.
    var needsUpkeep: Bool { !derived.isEmpty || !limits.isEmpty || lastChange != nil }

    /// The mistakes in rules that concern other sides.
    func problemsOfDerived() -> [String] {
        derived.compactMap { rule in
            let title = "“\(rule.attribute)” of “\(name)”"
            guard let side = otherSides.first(where: { $0.offset == rule.side }) else {
                return "\(title) is derived from a property that is not the other side of a relationship: name such a "
                    + "property."
            }
            guard case .sum(_, let offset, let valueType, let target) = rule.kind else { return nil }
            let summed = target.model.property(at: offset)
            // A property and its first part have the same offset.
            let type = summed?.type == valueType ? summed?.codec.attributeType : nil
            guard type == .int || type == .double || type == .decimal else {
                return "\(title) is the sum of a property of “\(target.model.name)” that is not stored as a number: "
                    + "name a stored number of the objects in “\(side.name)”."
            }
            return nil
        }
    }
}
