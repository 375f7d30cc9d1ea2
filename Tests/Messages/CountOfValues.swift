// A list of values has an option of relationships.

import Annals
import FoundationEssentials

struct Clip: Entity {
    var tags: [String] = []

    static let schema = Schema<Clip> { Attribute(\.tags, .count(0...3)) }
}
