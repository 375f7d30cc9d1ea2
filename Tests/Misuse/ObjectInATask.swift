// An object is given to a task, and its context stays here.

import Annals

struct Note: Entity {
    var title = ""
}

func rename(_ store: Store) throws {
    let context = store.makeContext()
    let note = context.insert(Note(title: "a"))
    Task.detached { note.title = "b" }
    try context.save()
}
