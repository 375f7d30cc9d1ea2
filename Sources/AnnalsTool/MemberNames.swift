// The names of attributes as members of dumps. The names “_entity” and “_id” belong to the dump itself.

internal import Annals

/// If an attribute has one of the dump's own names, with or without more “_” before it, dumps write one more “_” before
/// it. Loads remove it again.
package enum MemberNames {
    /// The greatest number of attributes of an entity.
    static let maximumCount = FormatLimits.maximumAttributes

    /// The name in a dump.
    package static func dumped(_ attribute: String) -> String { isOwn(attribute) ? "_" + attribute : attribute }

    /// The attribute's name; nil for the dump's own members.
    package static func loaded(_ member: String) -> String? {
        guard isOwn(member) else { return member }
        let name = String(member.dropFirst())
        return isOwn(name) ? name : nil
    }

    /// Whether it is one of the dump's own names, with or without more “_” before it.
    private static func isOwn(_ name: String) -> Bool {
        guard name.utf8.first == UInt8(ascii: "_") else { return false }
        let rest = name.utf8.drop { $0 == UInt8(ascii: "_") }
        return rest.elementsEqual("entity".utf8) || rest.elementsEqual("id".utf8)
    }
}
