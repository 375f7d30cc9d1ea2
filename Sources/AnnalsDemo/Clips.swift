// The entities of the demonstration and of the sample that tracks: clips in folders.

package import Annals

package struct Folder: Entity {
    package var name = ""
    package var clips = ToMany<Clip>()
    package static let schema = Schema<Folder> { Attribute(\.name, .unique) }

    package init() {}
    package init(name: String) { self.name = name }
}

package struct Clip: Entity {
    package var title = ""
    package var url = ""
    package var rank = 0
    package var folder: Reference<Folder>?

    package static let schema = Schema<Clip> {
        Attribute(\.url, .unique, .preservedOnDeletion)
        Relationship(\.folder, inverse: \.clips, whenTargetIsDeleted: .cascade)
    }

    package init() {}

    package init(title: String, url: String, rank: Int = 0, folder: Reference<Folder>? = nil) {
        (self.title, self.url, self.rank, self.folder) = (title, url, rank, folder)
    }
}

extension Clip {
    /// The app's clip, whose rank the share extension sets.
    package static let firstURL = "https://swift.org"

    static func url(_ author: String, _ number: Int) -> String { "https://example.org/\(author)/\(number)" }
}
