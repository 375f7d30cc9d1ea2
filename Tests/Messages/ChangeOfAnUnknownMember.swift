// An update sets a property that there is not.

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

func raise(_ store: Store, _ clip: Reference<Clip>) throws {
    try store.write { transaction in try transaction.update(clip) { $0.ranking = 1 } }
}
