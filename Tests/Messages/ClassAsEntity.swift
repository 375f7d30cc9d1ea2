// An entity is a class.

import Annals
import FoundationEssentials

final class Clip: Entity {
    var title = ""
}
