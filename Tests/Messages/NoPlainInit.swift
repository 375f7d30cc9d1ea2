// An initializer with parameters takes the place of the one without.

import Annals
import FoundationEssentials

struct Clip: Entity {
    var title = ""

    init(title: String) { self.title = title }
}
