// The effect of a deletion on the references to the deleted object.

/// The effect of a deletion on the objects that refer to the deleted one. The rule belongs to the attribute that
/// refers.
///
/// Rules are evaluated once, after the transaction's body: objects that the body has deleted or changed before do not
/// refer any more. The rules' changes belong to the transaction, which contains each object once.
public enum DeleteRule: String, CaseIterable, Sendable, Hashable, Codable {
    /// They stay as they are. Their reference leads to nothing, and reads as null.
    case noAction
    /// Their reference becomes null, or their list loses the object. If the attribute is required, the commit throws
    /// `requiredMissing`. If a type's validation needs the object, such as a smallest `count`, it throws
    /// `deleteDenied`.
    case nullify
    /// They are deleted too, and the references to them follow their own rules.
    case cascade
    /// The commit throws `deleteDenied` while such objects exist.
    case deny

    /// The rule's number in the file: FileFormat.md, "Schema".
    package var code: UInt8 {
        switch self {
        case .noAction: 0
        case .nullify: 1
        case .cascade: 2
        case .deny: 3
        }
    }

    /// The rule with that number in the file; nil for an unknown number.
    package init?(code: UInt8) {
        guard let rule = Self.allCases.first(where: { $0.code == code }) else { return nil }
        self = rule
    }
}
