// The state of a mirror as the store keeps it, for other processes.

package import Annals

package struct MirrorRecord: Equatable, Sendable, Codable {
    /// An error of the mirror.
    package struct Failure: Equatable, Sendable, Codable {
        package var code: String
        package var message: String

        package init(code: String, message: String) { (self.code, self.message) = (code, message) }
    }

    package var members: [MirrorMember]
    package var published: UInt64
    package var conflicts: Int
    package var error: Failure?

    package init(members: [MirrorMember], published: UInt64, conflicts: Int, error: Failure?) {
        (self.members, self.published, self.conflicts, self.error) = (members, published, conflicts, error)
    }

    /// Nil if the store was never mirrored.
    package static func load(_ store: Store) throws -> MirrorRecord? { nil }
}
