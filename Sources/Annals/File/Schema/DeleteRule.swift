// What becomes of a reference when its target is deleted.

/// What becomes of the objects that refer to a deleted one.
public enum DeleteRule: String, CaseIterable, Sendable, Hashable, Codable {
    /// They keep the ID of an object that is no more.
    case noAction
    /// Their reference becomes absent, or loses the object.
    case nullify
    /// They are deleted too.
    case cascade
    /// The object is not deleted while they are there.
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
