// A property with options is a constant.

import Annals
import FoundationEssentials

struct Clip: Entity {
    let url = ""

    static let schema = Schema<Clip> { Attribute(\.url, .unique) }
}
