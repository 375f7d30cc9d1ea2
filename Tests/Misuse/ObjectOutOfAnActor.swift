// An actor gives away an object of its context.

import Annals

struct Note: Entity {
    var title = ""
}

actor Notes {
    let context: Context

    init(_ store: Store) { context = store.makeContext() }

    func first() throws -> Object<Note>? { try context.first(Note.self) }
}

func title(_ notes: Notes) async throws -> String? { try await notes.first()?.title }
