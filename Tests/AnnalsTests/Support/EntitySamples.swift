// Types that tests keep in stores.

import Annals
import FoundationEssentials
import Testing

struct Shelf: Entity, Equatable {
    var name = ""
    var room: String?
    var books = ToMany<Book>()

    static let schema = Schema<Shelf> { Attribute(\.name, .unique) }
}

struct Book: Entity, Equatable {
    var title = "untitled"
    var isbn: String?
    var pages = 0
    var code: Int?
    var price: Double?
    var isRead = false
    var bought: Date?
    var sortTitle = ""
    var shelf: Reference<Shelf>?
    var tags: [Reference<Tag>] = []

    static let schema = Schema<Book>(unique: [[\.shelf, \.isbn]]) {
        Attribute(\.title, .length(1...100))
        Attribute(\.isbn, .unique, .preservedOnDeletion)
        Attribute(\.pages, .indexed, .range(0...10_000))
        Attribute(\.sortTitle, .derived { $0.title.lowercased() })
        Relationship(\.shelf, inverse: \.books, whenTargetIsDeleted: .cascade)
        Relationship(\.tags, inverse: \.books)
    }
}

struct Tag: Entity, Equatable {
    var name = ""
    var books = ToMany<Book>()
}

struct Everything: Entity, Equatable {
    enum Color: String, Codable { case red, blue }
    enum Level: Int {
        case low = 1
        case high = 2
    }
    struct Nested: Codable, Equatable {
        var a: Int8 = 0
        var b: [String: Int] = [:]
    }

    var flag = false
    var small: Int8 = 0
    var middle: Int16 = 0
    var long: Int64 = 0
    var byte: UInt8 = 0
    var word: UInt16 = 0
    var wide: UInt64 = 0
    var ratio = 0.5
    var half: Float = 0
    var text = ""
    var date = Date(timeIntervalSinceReferenceDate: 0)
    var uuid = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    var data = Data()
    var url: URL?
    var decimal = Decimal(0)
    var color = Color.red
    var level = Level.low
    var nested = Nested()
    var optionalFlag: Bool?
    var optionalSmall: Int8?
    var optionalText: String?
    var optionalDate: Date?
    var optionalColor: Color?
    var optionalNested: Nested?
    var shelf: Reference<Shelf>?
    var shelves: [Reference<Shelf>] = []
    var some: Set<Reference<Shelf>> = []
    var words: [String] = []
    var cache = 0

    static let schema = Schema<Everything> { Transient(\.cache) }
}
