// What the wrong programs would be without their mistake: this one compiles.

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
        Attribute(\.title, .unique, .length(1...100))
        Attribute(\.rank, .indexed, .range(0...9), .valueForOlderObjects(1))
        Relationship(\.folder, inverse: \.clips)
    }
}

func find(_ store: Store) throws -> [Clip] {
    try store.snapshot().fetch(
        Clip.self, where: #Predicate { $0.rank > 10 && $0.folder?.name == "Reading" }, sortedBy: .descending(\.rank))
}
