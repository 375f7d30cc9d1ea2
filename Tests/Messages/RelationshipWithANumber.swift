// A relationship whose property does not refer to objects.

import Annals
import FoundationEssentials

struct Clip: Entity {
    var rank = 0

    static let schema = Schema<Clip> { Relationship(\.rank) }
}
