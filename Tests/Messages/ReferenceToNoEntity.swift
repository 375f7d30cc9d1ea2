// A reference leads to a type that is no entity.

import Annals
import FoundationEssentials

struct Folder {
    var name = ""
}

struct Clip: Entity {
    var folder: Reference<Folder>?
}
