// A value is derived from a property that there is not.

import Annals
import FoundationEssentials

struct Folder: Entity {
    var name = ""
    var clips = ToMany<Clip>()
    var cover = ToOne<Cover>()
}

struct Cover: Entity {
    var folder: Reference<Folder>?

    static let schema = Schema<Cover> { Relationship(\.folder, .unique, inverse: \.cover) }
}

struct Clip: Entity {
    var title = ""
    var rank = 0
    var folder: Reference<Folder>?
    var related: [Reference<Clip>] = []

    static let schema = Schema<Clip> {
        Relationship(\.folder, inverse: \.clips)
    }
}

struct Shelf: Entity {
    var sum = 0
    var books = ToMany<Book>()

    static let schema = Schema<Shelf> { Attribute(\.sum, .derived(sum: \.books, \.page)) }
}

struct Book: Entity {
    var pages = 0
    var shelf: Reference<Shelf>?

    static let schema = Schema<Book> { Relationship(\.shelf, inverse: \.books) }
}
