// The context of the main actor is used on another thread.

import Annals

struct Note: Entity {
    var title = ""
}

func insert(_ store: Store) {
    store.mainContext.insert(Note(title: "a"))
}
