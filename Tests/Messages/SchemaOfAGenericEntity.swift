// A generic entity has a stored schema: static var schema: Schema<Box> { Schema { … } } compiles.

import Annals
import FoundationEssentials

struct Box<Content: Codable & Sendable>: Entity {
    var content: Content?

    static let schema = Schema<Box> { Attribute(\.content, .indexed) }
}
