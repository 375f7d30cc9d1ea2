// A session: it carries out commands, and shows what they change and what other processes save meanwhile.

import Annals
import FoundationEssentials  // #Predicate
import Observation

@MainActor final class Session {
    private let context: Context
    private let notes: Results<Note>
    private let say: (String) -> Void
    /// Where new notes go.
    private var folder: String?
    private var note: Object<Note>?
    private var showing: Task<Void, Never>?

    init(_ store: Store, say: @escaping (String) -> Void) throws {
        self.say = say
        context = store.makeContext(author: "notes", name: "session")
        context.undoLevels = 100
        context.upserts = true  // Two sessions may make a tag of the same name.
        notes = try context.results(Note.self, sortedBy: .ascending(\.title))
        try context.follow()
    }

    /// Carries out a command: a word, and what it is about.
    func run(_ line: String) {
        let words = line.split(separator: " ", maxSplits: 1).map(String.init)
        let (command, argument) = (words.first ?? "", words.dropFirst().first ?? "")
        do {
            switch command {
            case "": break
            case "list": list(notes)
            case "watch": watch()
            case "search": list(try search(argument))
            case "folder": folder = argument
            case "open": show(try note(titled: argument))
            case "save": try save(argument)
            case "undo": try undo(argument)
            case "redo": try context.redo()
            default: try context.undoGroup(line) { try edit(command, argument) }
            }
        } catch {
            say("Error: \(error)")
        }
    }

    /// Ends the session. What is not saved is lost.
    func end() {
        if context.hasChanges { say("Not saved.") }
        context.close()
    }

    // MARK: Edits

    private func edit(_ command: String, _ argument: String) throws {
        switch command {
        case "add": show(try add(argument))
        case "title": try opened().title = argument
        case "text": try opened().text = argument
        case "move": try opened().folder = try folder(named: argument)
        case "tag": try opened().tags.append(try tag(named: argument))
        case "untag": try opened().tags.removeAll { $0.name == argument }
        case "delete": context.delete(try opened())
        default: throw Problem("There is no command “\(command)”.")
        }
    }

    private func add(_ title: String) throws -> Object<Note> {
        let note = context.insert(Note(title: title))
        note.folder = try folder.map(folder(named:))
        return note
    }

    private func opened() throws -> Object<Note> {
        guard let note else { throw Problem("No note is open.") }
        return note
    }

    private func folder(named name: String) throws -> Object<Folder> {
        try context.first(Folder.self, where: #Predicate { $0.name == name }) ?? context.insert(Folder(name: name))
    }

    private func tag(named name: String) throws -> Object<Tag> {
        try context.first(Tag.self, where: #Predicate { $0.name == name }) ?? context.insert(Tag(name: name))
    }

    // MARK: Finding and showing

    private func note(titled title: String) throws -> Object<Note> {
        guard let note = try context.first(Note.self, where: #Predicate { $0.title == title }) else {
            throw Problem("There is no note “\(title)”.")
        }
        return note
    }

    /// The notes that have a word in their title or text, or as a tag.
    private func search(_ word: String) throws -> [Object<Note>] {
        let folded = word.caseFolded
        let isFound = #Predicate<Object<Note>> { note in
            note.title.caseFolded.contains(folded) || note.text.caseFolded.contains(folded)
                || note.tags.contains { $0.name.caseFolded == folded }
        }
        return try context.fetch(Note.self, where: isFound, sortedBy: .ascending(\.title))
    }

    private func list(_ notes: some Sequence<Object<Note>>) { for note in notes { say(note.line) } }

    /// Shows which notes come and go from now on, whoever does it.
    private func watch() {
        var shown = Array(notes)
        notes.onChange = { [say, unowned notes] diff in
            for position in diff.removed { say("- \(shown[position].title)") }
            for position in diff.inserted { say("+ \(notes[position].title)") }
            shown = Array(notes)
        }
    }

    /// Opens a note, and shows it after each change, whoever makes it.
    private func show(_ note: Object<Note>) {
        self.note = note
        showing?.cancel()
        showing = Task { [say] in for await line in Observations({ note.line }) { say(line) } }
    }

    // MARK: Saving and undoing

    /// Saves. If others have changed the same, it shows both, and the user decides: “mine” or “theirs”.
    private func save(_ decision: String) throws {
        context.mergePolicy =
            switch decision {
            case "mine": .objectWins
            case "theirs": .storeWins
            default: .error
            }
        do {
            try context.save()
            say("Saved.")
        } catch let error as StoreError where error.code == .mergeConflict {
            try context.merge()  // Their values may refer to what the context does not know yet.
            report(error.mergeConflicts)
            say("Enter “save mine” or “save theirs”.")
        }
    }

    /// Undoes the last command. If others have changed the same since, “theirs” leaves that as it is.
    private func undo(_ decision: String) throws {
        let name = context.undoActionName ?? "nothing"
        do {
            try context.undo(skippingConflicts: decision == "theirs")
            say("Undone: \(name)")
        } catch let error as StoreError where error.code == .undoConflict {
            report(error.mergeConflicts)
            say("Enter “undo theirs” to leave it as it is.")
        }
    }

    private func report(_ conflicts: [MergeConflict]) {
        for conflict in conflicts {
            switch conflict.kind {
            case .attribute:
                let (mine, theirs) = (text(conflict.mine), text(conflict.theirs))
                say("Conflict: the \(conflict.attribute ?? "") is “\(theirs)” by now, and here “\(mine)”.")
            case .deletedInStore: say("Conflict: others have deleted it.")
            case .changedInStore: say("Conflict: others have changed it, and here it is deleted.")
            case .targetDeleted: say("Conflict: others have deleted what \(conflict.attribute ?? "it") refers to.")
            }
        }
    }

    /// The value of an attribute as text for people.
    private func text(_ value: Value?) -> String {
        guard let folder = value?.object else { return value?.string ?? "-" }
        return (try? context.object(Reference<Folder>(folder)).name) ?? "-"
    }
}

/// What a user did wrong.
struct Problem: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
