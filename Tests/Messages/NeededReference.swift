// A reference that is not optional has no initial value.

import Annals
import FoundationEssentials

struct Folder: Entity {
    var name = ""
}

struct Clip: Entity {
    var folder: Reference<Folder>
}
