// A property is an object that several threads may change.

import Annals
import FoundationEssentials

final class Player {
    var position = 0
}

struct Clip: Entity {
    var title = ""
    var player = Player()
}
