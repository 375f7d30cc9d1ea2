// What the program stores, and how a store of its first version becomes one of this version.

import Annals

struct Folder: Entity {
    var name = ""
    var notes = ToMany<Note>()

    static let schema = Schema<Folder> { Attribute(\.name, .unique, .length(1...40)) }
}

struct Tag: Entity {
    var name = ""
    var notes = ToMany<Note>()

    static let schema = Schema<Tag> { Attribute(\.name, .unique, .length(1...40)) }
}

struct Note: Entity {
    var title = ""
    var text = ""
    var folder: Reference<Folder>?
    var tags: Set<Reference<Tag>> = []

    static let schema = Schema<Note> {
        Attribute(\.title, .renamed(from: "name"), .length(1...40))
        Relationship(\.folder, inverse: \.notes, whenTargetIsDeleted: .cascade)
        Relationship(\.tags, inverse: \.notes)
    }

    mutating func willSave() { if title.isEmpty { title = "Untitled" } }
}

/// In version 1 a note had labels, words in one text. Now it has tags.
let migrations = [
    Migration("labels become tags", [.change(.removeAttribute("labels", from: "Note"))]) { migration in
        try migration.update(Note.self) { before, note in
            for label in before["labels"]?.string?.split(separator: " ") ?? [] {
                note.tags.insert(try migration.transaction.upsert(Tag(name: String(label))))
            }
        }
    }
]

extension Object<Note> {
    /// The note in one line.
    var line: String {
        if objectStatus.isDeleted || objectStatus.isGone { return "\(self.title) is deleted" }
        let place = "\(self.folder?.name ?? "-")/\(self.title):"
        let tags = self.tags.map { "#" + $0.name }.sorted()
        return ([place] + tags + [self.text]).filter { !$0.isEmpty }.joined(separator: " ")
    }
}
