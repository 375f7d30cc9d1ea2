// What becomes of a reference when its target is deleted.

/// What becomes of the objects that refer to a deleted one. The rule stands at the attribute that refers.
///
/// Rules are evaluated once, when the body of a transaction has ended: what the body itself deletes or changes by then
/// no longer refers. What they change belongs to the transaction, and each object is in it once.
public enum DeleteRule: String, CaseIterable, Sendable, Hashable, Codable {
    /// They stay as they are. Their reference leads to nothing, and reads as null.
    case noAction
    /// Their reference becomes null, or their list loses the object. If the attribute is required, the commit throws
    /// `requiredMissing`. If a type's validation needs the object, such as a smallest `count`, it throws
    /// `deleteDenied`.
    case nullify
    /// They are deleted too, and what refers to them follows its own rules.
    case cascade
    /// The commit throws `deleteDenied` while they are there.
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

    /// The rule with that number in the file; nil if there is none.
    package init?(code: UInt8) {
        guard let rule = Self.allCases.first(where: { $0.code == code }) else { return nil }
        self = rule
    }
}
