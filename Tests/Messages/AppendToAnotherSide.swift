// An object is added to the other side of a relationship.

import Annals
import FoundationEssentials

struct Folder: Entity {
    var name = ""
    var clips = ToMany<Clip>()
    var cover = ToOne<Cover>()
}

struct Cover: Entity {
    var folder: Reference<Folder>?

    static let schema = Schema<Cover> { Relationship(\.folder, .unique, inverse: \.cover) }
}

struct Clip: Entity {
    var title = ""
    var rank = 0
    var folder: Reference<Folder>?
    var related: [Reference<Clip>] = []

    static let schema = Schema<Clip> {
        Relationship(\.folder, inverse: \.clips)
    }
}

func file(_ clip: Object<Clip>, in folder: Object<Folder>) {
    folder.clips.append(clip)
}
