// Mistakes that show when a program runs. Prints what each gives.

import Annals
import FoundationEssentials

struct Group: Entity {
    var name = ""
    var notes = ToMany<Note>()
}

struct Note: Entity {
    var title = ""
    var rank = 0
    var group: Reference<Group>?

    static let schema = Schema<Note> { Relationship(\.group, inverse: \.notes) }
}

/// Each has a property with the name of a member of `Object`.
struct Task: Entity {
    var objectStatus = ""
    var objectReference = ""
}

struct Device: Entity {
    var objectUpdate = ""
}

let store = try Store(at: CommandLine.arguments[2], entities: [Group.self, Note.self])
let context = store.makeContext()
let other = store.makeContext()

func show(_ what: String, _ body: () throws -> Any?) {
    do {
        print("\(what): \(try body() ?? "nil")")
    } catch let error as StoreError {
        print("\(what): \(error.code): \(error.message)")
    } catch {
        print("\(what): \(error)")
    }
}

func change<V>(_ value: inout V, _ body: (inout V) throws -> Void) rethrows { try body(&value) }

switch CommandLine.arguments[1] {
case "another":
    let note = context.insert(Note(title: "a"))
    let group = other.insert(Group(name: "g"))
    note.group = group
    show("a relationship to an object of another context, read") { note.group }
    show("a relationship to an object of another context, saved") { try context.save().number }
    context.delete(group)
    show("an object of another context, deleted") { try context.save().number }
    show("an object of another context, refreshed") { try context.refresh(group, keepingEdits: true) }
    show("an object of another context, given a permanent reference") {
        try context.obtainPermanentReferences(for: [group])
    }
case "used":
    let note = context.insert(Note(title: "a"))
    note.title.removeAll { _ in note.title.isEmpty }
case "whole":
    let note = context.insert(Note(title: "a"))
    note.title.removeAll { _ in (try? context.save()) == nil }
case "number":
    let note = context.insert(Note(title: "a"))
    change(&note.rank) { $0 += note.rank }
case "merged":
    let note = context.insert(Note(title: "a"))
    try context.save()
    try change(&note.rank) { rank in
        try store.write { try $0.update(note.objectReference) { $0.rank = 5 } }
        try context.merge()
        rank += 1
    }
case "temporary":
    let group = other.insert(Group(name: "g"))
    show("a temporary reference in another context") { try context.object(group.objectReference) }
    let note = context.insert(Note(title: "a", group: group.objectReference))
    show("a temporary reference in a property, saved") { try context.save().number }
    context.discard(note)
    show("a temporary reference in a transaction") {
        try store.write { try $0.insert(Note(title: "a", group: group.objectReference)) }
    }
    show("a temporary reference in a snapshot") { try store.snapshot()[group.objectReference]?.name }
    let reference = group.objectReference
    other.rollback()
    show("a temporary reference of an object that was never saved") { try other.object(reference) }
case "gone":
    let note = context.insert(Note(title: "a"))
    try context.save()
    try store.write { try $0.delete(note.objectReference) }
    try context.merge()
    show("an object that is gone, read") { note.title }
    note.title = "b"
    show("an object that is gone, changed and saved") { try context.save().number }
case "ended":
    let note = context.insert(Note(title: "a"))
    try context.save()
    context.close()
    show("an object after its context has ended, read") { note.title }
    show("a context that has ended, saved") { try context.save().number }
    show("a context that has ended, merged") { try context.merge().number }
    show("a context that has ended, asked") { try context.fetch(Note.self).count }
case "changed":
    let note = context.insert(Note(title: "a"))
    context.close()
    note.title = "b"
case "inserted":
    context.close()
    context.insert(Note(title: "a"))
case "names":
    show("properties with the names of members of Object") {
        try Store(at: CommandLine.arguments[2] + ".names", entities: [Task.self, Device.self])
    }
default: print("There is no such mistake.")
}
