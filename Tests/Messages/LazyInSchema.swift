// A lazy property is in the schema.

import Annals
import FoundationEssentials

struct Clip: Entity {
    var title = ""
    lazy var length = title.count

    static let schema = Schema<Clip> { Transient(\.length) }
}
