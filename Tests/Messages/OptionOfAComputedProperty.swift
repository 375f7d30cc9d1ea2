// A property with options is computed.

import Annals
import FoundationEssentials

struct Clip: Entity {
    var title = ""
    var length: Int { title.count }

    static let schema = Schema<Clip> { Attribute(\.length, .indexed) }
}
