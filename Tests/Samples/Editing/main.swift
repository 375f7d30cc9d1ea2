import Annals
import FoundationEssentials  // #Predicate

struct Folder: Entity {
    var name = ""
    var clips = ToMany<Clip>()  // the other side of Clip.folder, read-only

    static let schema = Schema<Folder> { Attribute(\.name, .unique) }
}

struct Clip: Entity {
    var title = ""
    var url = ""
    var rank = 0
    var folder: Reference<Folder>?

    static let schema = Schema<Clip> {
        Attribute(\.url, .unique, .preservedOnDeletion)
        Attribute(\.rank, .indexed)
        Relationship(\.folder, inverse: \.clips, whenTargetIsDeleted: .cascade)
    }
}

let store = try Store(at: CommandLine.arguments[1], entities: [Folder.self, Clip.self])

let context = store.makeContext(author: "app", name: "view")
let folder = context.insert(Folder(name: "Reading"))
let clip = context.insert(Clip(title: "Swift", url: "https://swift.org", rank: 12, folder: folder.objectReference))
try context.save()

let other = try Store(at: store.path, entities: [Folder.self, Clip.self])  // usually another process
try other.update(Clip.self, where: #Predicate { $0.rank > 10 }, author: "import") { $0.rank *= 2 }

clip.title = "Swift.org"  // not saved yet
try context.merge()  // other writers' changes; own edits stay
print(clip.title, clip.rank, clip.folder?.name ?? "-")  // Swift.org 24 Reading

let best = try context.fetch(Clip.self, where: #Predicate { $0.rank > 20 }, sortedBy: .descending(\.rank))
print(best.count, best.first === clip)  // 1 true
context.delete(folder)  // and its clips
try context.save()
