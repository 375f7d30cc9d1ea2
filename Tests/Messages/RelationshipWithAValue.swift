// A property holds another entity instead of a reference to it.

import Annals
import FoundationEssentials

struct Folder: Entity {
    var name = ""
    var clips = ToMany<Clip>()
}

struct Clip: Entity {
    var folder: Folder?

    static let schema = Schema<Clip> { Relationship(\.folder, inverse: \.clips) }
}
