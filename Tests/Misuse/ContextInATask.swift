// A context is used here and in a task at once.

import Annals

struct Note: Entity {
    var title = ""
}

func save(_ store: Store) {
    let context = store.makeContext()
    Task.detached { try context.save() }
    context.insert(Note(title: "a"))
}
