// A default is not of the type of the property.

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
        Attribute(\.rank, .valueForOlderObjects("none"))
        Relationship(\.folder, inverse: \.clips)
    }
}
