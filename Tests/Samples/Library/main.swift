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
let (reading, token) = try store.write(author: "app") { transaction in
    let folder = try transaction.upsert(Folder(name: "Reading"))
    try transaction.upsert(Clip(title: "Swift", url: "https://swift.org", rank: 12, folder: folder))
    return folder
}
try store.update(Clip.self, where: #Predicate { $0.rank > 10 }, author: "import") { $0.rank *= 2 }
let best = try store.snapshot().fetch(
    Clip.self, where: #Predicate { $0.rank > 20 && $0.folder?.name == "Reading" }, sortedBy: .descending(\.rank))
print(best.count, best[0].title, best[0].rank)  // 1 Swift 24
try store.write(author: "app") { try $0.delete(reading) }  // and its clips
for change in try store.changes(HistoryRequest(after: .token(token!), kinds: [.delete])) {
    if let gone = change.tombstone(of: Clip.self) { print("deleted", gone[\.url] ?? "-") }  // https://swift.org
}
