// A range has other values than the property.

import Annals
import FoundationEssentials

struct Clip: Entity {
    var title = ""

    static let schema = Schema<Clip> { Attribute(\.title, .range(1...3)) }
}
