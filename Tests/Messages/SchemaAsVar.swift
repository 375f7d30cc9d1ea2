// The schema can be set.

import Annals
import FoundationEssentials

struct Clip: Entity {
    var title = ""

    static var schema = Schema<Clip> { Attribute(\.title, .indexed) }
}
