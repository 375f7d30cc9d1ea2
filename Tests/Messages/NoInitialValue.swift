// A property has no initial value.

import Annals
import FoundationEssentials

struct Clip: Entity {
    var title = ""
    var rank: Int
}
